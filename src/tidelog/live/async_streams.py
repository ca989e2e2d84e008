"""Asynchronous update streams: the same as `streams`, for updates that are awaited. A thread applies them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context

from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge
from tidelog.live.streams import LookAhead, Peek, apply_observed
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

    def __init__(self, knowledge: Knowledge, updates: AsyncIterator[UpdateMapping], marking: bool) -> None:
        self._knowledge = knowledge
        self._updates = updates
        self._marking = marking
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "tidelog stream")
        self._pull: asyncio.Future[UpdateMapping] | None = None
        self._work: tuple[Future[Change], LookAhead] | None = None
        self._ahead: LookAhead | None = None

    async def __anext__(self) -> Change:
        # Any await may be cancelled: what it waits for stays where the next call finds it until it is handed on.
        async with self._turn:
            if self._work is None:
                self._work = self._begin(await self._next_update())
            work, ahead = self._work
            await _done(work)
            self._work = None
            change = work.result()
            self._ahead = ahead
            return change

    async def _next_update(self) -> UpdateMapping:
        if self._pull is not None and _has_ended_with_its_loop(self._pull):
            self._pull = None
        pull = self._pull = self._pull or asyncio.ensure_future(anext(self._updates))
        if not pull.done():
            await asyncio.wait([pull])
        self._pull = None
        return pull.result()

    def _begin(self, update: UpdateMapping) -> tuple[Future[Change], LookAhead]:
        """Let the thread apply an update; the next one is awaited meanwhile."""
        peek = None
        if self._marking:
            self._pull = asyncio.ensure_future(anext(self._updates))
            peek = _when_done(self._pull)
        before, ahead, self._ahead = self._ahead, LookAhead(self._knowledge, peek), None
        run = copy_context().run
        return self._thread.submit(run, apply_observed, self._knowledge, update, ahead, before), ahead


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


def _when_done(pull: asyncio.Future[UpdateMapping]) -> Peek:
    """Look at an update that may still be on its way; its errors are raised where it is awaited."""
    arrived: list[UpdateMapping] = []

    def note(done: asyncio.Future[UpdateMapping]) -> None:
        if not done.cancelled() and done.exception() is None:
            arrived.append(done.result())

    pull.add_done_callback(note)
    return lambda: arrived[0] if arrived else None
