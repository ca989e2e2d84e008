"""Connections, which cannot be kept waiting: by a request that never ends, by a reader who takes nothing, or by another
end that is no longer there.

The time runs while nothing moves. A request may bring its body slowly, and an answer may be taken slowly; the head of a
request has to be there in time as a whole. What is wrong before there is a request is a problem document as well.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.types import Message, Scope
from uvicorn.protocols.http.httptools_impl import HEADER_VALUE_RE, STATUS_LINE, HttpToolsProtocol

from tidelog.server.problems import MEDIA_TYPE, Problem, bad_request, over_limit
from tidelog.server.requests.policy import SECURITY_LINES

# Bytes of a request beside its body: its head, and what stands between the pieces of a body.
MOST_AROUND = 1 << 16

# Headers of answers that mean nothing to the connection itself.
_PLAIN_HEADERS = frozenset((b"content-length", b"content-type", b"cache-control", b"etag", b"last-modified"))


class Connection(HttpToolsProtocol):
    """A connection. `stall` is the number of seconds for which nothing may move."""

    stall = 60.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer: socket.socket | None = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):
                    peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._begun = self._in_body = False  # of the request that is being received
        self._around = self._body = 0  # its bytes
        self._wrong: Problem | None = None  # what the parser was stopped for
        self._left = 0  # bytes that the other end has not taken
        self._heard = self.loop.time()
        self._draining: asyncio.TimerHandle | None = None
        self._receiving: asyncio.TimerHandle | None = self.loop.call_later(self.stall, self._receive_or_end)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_receiving()
        self._stop_draining()

    # --- requests -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        begun, body = self._begun, self._body
        super().data_received(data)
        if not self._begun:
            self._stop_receiving()
            return
        if begun:  # What came before its first piece is of other requests.
            self._around += len(data) - (self._body - body)
        if self._around > MOST_AROUND + self._body:
            self._refuse(_too_much_around())
        elif self._in_body or not begun:
            self._heard = self.loop.time()
        if self._receiving is None:
            self._receiving = self.loop.call_later(self.stall, self._receive_or_end)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun, self._in_body, self._around, self._body = True, False, 0, 0
        self.scope["tidelog.write"] = self.write_at_once  # type: ignore[typeddict-unknown-key]
        self.scope["tidelog.answer"] = self.answer_at_once  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        # What comes in one piece is not counted by `data_received`; and a request that is refused must not be begun.
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MOST_AROUND:
            self._wrong = _too_much_around()
            raise ValueError("the head is too large")
        super().on_headers_complete()
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body += len(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._begun = False

    def _receive_or_end(self) -> None:
        """The time is over in which something had to come, unless it was us who did not read."""
        self._receiving = None
        if self.transport.is_closing():
            return
        left = self._heard + self.stall - self.loop.time()
        if self.flow.read_paused or left > 0:
            self._receiving = self.loop.call_later(max(left, self.stall / 8), self._receive_or_end)
        elif self._begun:
            detail = f"the rest of the request did not come within {self.stall:g} seconds"
            self._refuse(over_limit("stall", self.stall, detail, 408, "too-slow"))
        else:
            self.transport.close()

    def _stop_receiving(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._wrong or bad_request("this is no request of HTTP/1.1"))

    def _refuse(self, problem: Problem) -> None:
        """Refuse a request that nobody else has seen as a whole, and hang up."""
        self._begun = False
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = msgspec.json.encode(problem.document())
            head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[problem.status] + head.encode() + body)
        self.transport.close()

    # --- answers ------------------------------------------------------------------------------------------------------

    def write_at_once(self, chunk: bytes) -> bool:
        """Write a chunk of the answer in the making, unless the other end has others to take first."""
        cycle = self.cycle
        if self.flow.write_paused or not cycle.chunked_encoding or cycle.response_complete or cycle.disconnected:
            return False
        self.transport.write(chunk)
        return True

    def answer_at_once(
        self, scope: Scope, status: int, headers: Iterable[tuple[bytes, bytes]], message: Message
    ) -> bool:
        """Write a whole answer, head and body together, in a fraction of the time that two messages take; unless there
        is anything special about it. `SECURITY` goes with it.
        """
        cycle = self.cycle  # It may be of the next request already.
        if cycle.scope is not scope or cycle.response_started or cycle.disconnected or not cycle.keep_alive:
            return False
        body: bytes = message.get("body", b"")
        if self.flow.write_paused or scope["method"] == "HEAD" or not _is_plain(status, headers, len(body)):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        lines = [name + b": " + value + b"\r\n" for name, value in (*cycle.default_headers, *headers)]
        self.transport.write(b"".join((STATUS_LINE[status], *lines, SECURITY_LINES, b"\r\n", body)))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._left = self.transport.get_write_buffer_size()
        self._draining = self.loop.call_later(self.stall, self._drain_or_end)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_draining()

    def _drain_or_end(self) -> None:
        """Hang up on a reader who has taken nothing, and wait on for a slow one."""
        before, self._left = self._left, self.transport.get_write_buffer_size()
        if self._left < before:
            self._draining = self.loop.call_later(self.stall, self._drain_or_end)
        else:
            self._draining = None
            self.transport.abort()

    def _stop_draining(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None


def _too_much_around() -> Problem:
    detail = f"a request has at most {MOST_AROUND:,} bytes beside its body"
    return over_limit("head", MOST_AROUND, detail, 431, "too-large")


def _is_plain(status: int, headers: Iterable[tuple[bytes, bytes]], length: int) -> bool:
    """Whether an answer has a body of this length, and headers that nothing else has to be done for."""
    if status < 200 or status in (204, 304):
        return False
    lengths = [value for name, value in headers if name == b"content-length"]
    usual = all(name in _PLAIN_HEADERS and HEADER_VALUE_RE.search(value) is None for name, value in headers)
    return usual and lengths == [b"%d" % length]


def connections_with(stall: float) -> type[Connection]:
    """Connections that wait for so many seconds."""
    return type("Connection", (Connection,), {"stall": stall})
