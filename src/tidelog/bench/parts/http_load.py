"""Clients of a server that take little processor time themselves, so that what they measure is the server.

All of them are in one thread, which sends bytes that were made before and reads answers no further than to their end:
some 30 µs of processor time for a request. With `asyncio` it was ten times as much, and clients and server waited for
each other's processor.
"""

from __future__ import annotations

import gc
import json
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from selectors import EVENT_READ, DefaultSelector

from tidelog.errors import TidelogError

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


def request(path: str, content: object) -> bytes:
    """A request as it goes over the wire."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Asker:
    """A connection that sends one request after the other: when the answer to the last one has come, and not before
    its time, which comes `rate` times a second on average, at random. `seconds` is how long each of them took.
    """

    def __init__(self, port: int, number: int, requests: Callable[[int], bytes], step: int, rate: float | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.seconds: list[float] = []
        self._requests: Iterator[bytes] = map(requests, count(number, step))
        self._random = random.Random(number)
        self._rate = rate
        self._next = self._requests.__next__()
        self._began = self._due = 0.0
        self._answer = b""

    def begin(self, now: float) -> float:
        """When the first request is to be sent."""
        self._due = now
        return self._after(now)

    def send(self) -> None:
        self._began = time.perf_counter()
        self.socket.sendall(self._next)
        self._next = next(self._requests)

    def receive(self) -> float | None:
        """Read what has come of the answer: when the next request is to be sent, if that was all of it."""
        self._answer += self.socket.recv(1 << 16)
        now = time.perf_counter()
        if not _is_whole(self._answer):
            return None
        if not self._answer.startswith(b"HTTP/1.1 200"):
            raise TidelogError(f"the server refused: {self._answer[:200]!r}")
        self.seconds.append(now - self._began)
        self._answer = b""
        return self._after(now)

    def _after(self, now: float) -> float:
        if self._rate is None:
            return now
        self._due = max(now, self._due + self._random.expovariate(self._rate))
        return self._due


def _is_whole(answer: bytes) -> bool:
    end = answer.find(_HEAD_END)
    if end < 0:
        if not answer:
            raise TidelogError("the server has hung up")
        return False
    length = _LENGTH.search(answer, 0, end + 2)
    return length is not None and len(answer) >= end + len(_HEAD_END) + int(length[1])


def askers(port: int, how_many: int, requests: Callable[[int], bytes], rate: float | None = None) -> list[Asker]:
    """Connections that send different requests, by number; `rate` is how many a second all of them together."""
    each = None if rate is None else rate / how_many
    return [Asker(port, number, requests, how_many, each) for number in range(how_many)]


def let_ask(askers: Sequence[Asker], seconds: float) -> float:
    """Let connections ask for a while; how long it took until the last answer had come."""
    with DefaultSelector() as selector, _uncollected():
        begin = now = time.perf_counter()
        timers: list[tuple[float, int, Asker]] = []
        for number, asker in enumerate(askers):
            selector.register(asker.socket, EVENT_READ, (number, asker))
            heappush(timers, (asker.begin(now), number, asker))
        waiting = 0
        while True:
            now = time.perf_counter()
            while timers and timers[0][0] <= min(now, begin + seconds):
                heappop(timers)[2].send()
                waiting += 1
            if now > begin + seconds:
                timers.clear()
                if not waiting:
                    break
            for key, _ in selector.select(max(0.0, timers[0][0] - now) if timers else 0.1):
                number, asker = key.data
                due = asker.receive()
                if due is not None:
                    waiting -= 1
                    heappush(timers, (due, number, asker))
        for asker in askers:
            asker.socket.close()
    return time.perf_counter() - begin


@contextmanager
def _uncollected() -> Iterator[None]:
    """A context without garbage collection, which would be taken for time of the server."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
