"""A stream: the events that one connection has yet to take, within a number of bytes.

Beyond that it drops all of them and has fallen behind. When its reader takes something again, it gets the net
difference since the last event that was sent, as somebody does who comes back after a lost connection. So no reader
misses anything, and none fills the memory.

A reader who has taken everything is told at once, past the task that serves the connection: to wake that up and to send
through all that lies between takes most of the time of telling a thousand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.server.subscriptions.news import Piece, progress

BEAT = Piece.of(b": \n\n")


class Stream:
    """The events that one connection has yet to take."""

    def __init__(self, room: int, write: Callable[[bytes], bool]) -> None:
        self.sent = 0  # all up to this commit has been handed over
        self.behind = False
        self.closed = False
        self.farewell: bytes | None = None
        self._room = room
        self._write = write
        self._pending: list[bytes] = []
        self._size = 0
        self._last = 0  # the commit of the last event that is pending
        self._mark: int | None = None
        self._beat = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, number: int, piece: Piece) -> None:
        """Something to send."""
        if self.behind or self.closed:
            return
        if self._sent_at_once(piece):
            self.sent = self._last = number
            return
        data = piece.data
        if self._pending and self._size + len(data) > self._room:
            self._pending.clear()
            self._size = 0
            self.behind = True
        else:
            self._pending.append(data)
            self._size += len(data)
            self._last = number
        self.wake()

    def mark(self, number: int, piece: Piece) -> None:
        """Everything up to a commit has been pushed."""
        if self.behind or number <= max(self.sent, self._last):
            return
        if self._sent_at_once(piece):
            self.sent = number
        else:
            self._mark = number
            self.wake()

    def beat(self) -> None:
        """Give a sign of life."""
        if not self._sent_at_once(BEAT):
            self._beat = True
            self.wake()

    def _sent_at_once(self, piece: Piece) -> bool:
        """Write past the task that serves the connection, if that waits because there is nothing left to send."""
        return self._waiter is not None and not self._waiter.done() and self._write(piece.chunk)

    def go_on_from(self, number: int) -> None:
        """What is pushed from now on comes after a commit."""
        self.sent = self._last = number
        self._pending.clear()
        self._size, self._mark, self.behind = 0, None, False

    def close(self, farewell: bytes | None = None) -> None:
        """End it, with a last event."""
        self.farewell = farewell
        self.closed = True
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes | None:
        """What to send next, when there is something; None where the stream ends, or where it has fallen behind."""
        while True:
            if self.closed or self.behind:
                return None
            if self._pending:
                data = b"".join(self._pending)
                self._pending.clear()
                self._size, self.sent = 0, self._last
                return data
            if self._mark is not None and self._mark > self.sent:
                self.sent, self._mark = self._mark, None
                return progress(self.sent)
            if self._beat:
                self._beat = False
                return BEAT.data
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None
