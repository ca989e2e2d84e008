"""Asynchronous update streams: the same as `streams`, for updates that are awaited. A thread applies them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from weakref import WeakMethod

from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge
from tidelog.live.look_ahead import LookAhead
from tidelog.live.streams import apply_observed
from tidelog.live.update_sources import UpdateMapping


class AsyncStream(AsyncIterator[Change]):
    """The same for an asynchronous iterator: the event loop stays free while an update is in work.

    A task that waits for a change may be cancelled at any time. The update that is awaited or in work then goes on
    without it, and the next task that asks gets its change, or its error.

    Examples:
        >>> import asyncio
        >>> async def arriving():
        ...     yield {"add": {"edge": [("a", "b")]}}
        >>> async def main():
        ...     return [change async for change in tidelog.KnowledgeBase().stream(arriving())]
        >>> asyncio.run(main())
        [<Change: + edge: 1>]
    """

    def __init__(self, knowledge: Knowledge, updates: AsyncIterator[UpdateMapping], marking: int) -> None:
        """`marking` is how many updates to look ahead."""
        self._knowledge = knowledge
        self._updates = updates
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "tidelog stream")
        # The updates to come, in order. Only the last one may still be on its way, or be an error or the end.
        self._pulls: deque[asyncio.Future[UpdateMapping]] = deque()
        self._ahead = LookAhead(knowledge, partial(_arrived, self._pulls), marking)
        self._work: Future[Change] | None = None

    async def __anext__(self) -> Change:
        # Any await may be cancelled: what it waits for stays where the next call finds it until it is handed on.
        async with self._turn:
            if self._work is None:
                self._work = self._begin(await self._next_update())
            work = self._work
            await _done(work)
            self._work = None
            change = work.result()
        self._knowledge.deliver(elsewhere=True)
        return change

    async def _next_update(self) -> UpdateMapping:
        if self._pulls and _has_ended_with_its_loop(self._pulls[0]):
            self._pulls.clear()
        if not self._pulls:
            self._pull()
        pull = self._pulls[0]
        if not pull.done():
            await asyncio.wait([pull])
        self._pulls.popleft()
        return pull.result()

    def _begin(self, update: UpdateMapping) -> Future[Change]:
        """Let the thread apply an update; those that follow are awaited meanwhile."""
        self._pull_ahead()
        return self._thread.submit(copy_context().run, apply_observed, self._knowledge, update, self._ahead)

    def _pull_ahead(self) -> None:
        """Await one more update if it would be looked at. An error or the end is handed on before more is asked for."""
        if self._pulls and _has_ended_with_its_loop(self._pulls[-1]):
            self._pulls.pop()
        if len(self._pulls) < self._ahead.most and (not self._pulls or _has_come(self._pulls[-1])):
            self._pull()

    def _pull(self) -> None:
        pull = asyncio.ensure_future(anext(self._updates))
        self._pulls.append(pull)
        pull_ahead = WeakMethod(self._pull_ahead)  # A stream that is dropped asks for no more.

        def go_on(done: asyncio.Future[UpdateMapping]) -> None:
            if _has_come(done) and (again := pull_ahead()) is not None:
                again()

        pull.add_done_callback(go_on)


def _has_come(pull: asyncio.Future[UpdateMapping]) -> bool:
    """Whether an update is there; errors are raised where it is awaited."""
    return pull.done() and not pull.cancelled() and pull.exception() is None


def _arrived(pulls: deque[asyncio.Future[UpdateMapping]], place: int) -> UpdateMapping | None:
    """The update at a place among those to come, if it is there."""
    return pulls[place].result() if place < len(pulls) and _has_come(pulls[place]) else None


async def _done(work: Future[Change]) -> None:
    """Wait until a thread has done its work. Cancelling this leaves the work alone, and the loop may end."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Change]) -> None:
        with suppress(RuntimeError):  # The loop is closed, and nobody waits any more.
            loop.call_soon_threadsafe(done.set)

    work.add_done_callback(tell)
    await done.wait()


def _has_ended_with_its_loop(pull: asyncio.Future[UpdateMapping]) -> bool:
    """Whether an update was awaited in another loop that ended before it came: it is awaited once more."""
    if pull.get_loop() is asyncio.get_running_loop():
        return False
    return pull.cancelled() or (not pull.done() and pull.get_loop().is_closed())
