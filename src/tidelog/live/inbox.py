"""What a reader in an event loop has yet to read of a subscription. It is bounded: when it is full, all that waits in
it becomes one message, the net difference. So a slow reader misses nothing, and holds up nobody.

One thread at a time puts messages in, and the loop takes them out. Neither waits for the other: messages are merged
outside of the lock, and the inbox is empty meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress

from tidelog.live.merging import merged
from tidelog.live.subscriptions import AnswerChange


class Inbox:
    """At most `room` messages."""

    def __init__(self, loop: asyncio.AbstractEventLoop, room: int) -> None:
        self._loop = loop
        self._room = room
        self._messages: deque[AnswerChange] = deque()
        self._lock = threading.Lock()
        self._arrived = asyncio.Event()
        self.ended = False
        self._error: Exception | None = None

    def put(self, message: AnswerChange) -> None:
        """Take a message in. Raises where the loop has ended."""
        with self._lock:
            self._messages.append(message)
            full: list[AnswerChange] = []
            if len(self._messages) > self._room:
                full = list(self._messages)
                self._messages.clear()
        if full:
            net = merged(full)
            if net.first or len(net.added) or len(net.removed):
                with self._lock:
                    self._messages.appendleft(net)
        self._loop.call_soon_threadsafe(self._arrived.set)

    def end(self, error: Exception | None = None) -> None:
        """There will be no more messages; whoever has read them all gets the error."""
        self._error = error
        self.ended = True
        with suppress(RuntimeError):  # The loop has ended, and nobody waits any more.
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> AnswerChange:
        """The next message, when there is one."""
        while True:
            self._arrived.clear()
            with self._lock:
                if self._messages:
                    return self._messages.popleft()
            if self.ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._arrived.wait()
