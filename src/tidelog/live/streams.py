"""Update streams: an iterator of changes that looks one update ahead (Backward/Forward with Marking, Algorithm 1).

While an update is in work, its successor is looked at as soon as it is there, and the facts that it will delete are
marked (`engine.marking`). A stream is an iterator of its own kind, not a generator: an update that fails raises in its
place, what was done before it stays done, and asking for the next change goes on with the next update.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context

from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts, Request
from tidelog.engine.update.runner import BUDGET, CLOSED
from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge
from tidelog.live.update_sources import KEYS, Source, UpdateMapping, check_update
from tidelog.runtime.signals import comes_from_signal, deferred, wait_until
from tidelog.runtime.thread_locks import ThreadLock
from tidelog.store.term_table import TermTable

Peek = Callable[[], UpdateMapping | None]


class LookAhead:
    """Observes one update: looks for the next one until it is there, then marks what that one deletes (lines 5 to 8).
    Without `peek` it only counts the work as that of a stream.
    """

    budget = BUDGET
    streams = True
    window = CLOSED

    def __init__(self, knowledge: Knowledge, peek: Peek | None) -> None:
        self._knowledge = knowledge
        self._peek = peek
        self._seen: object = None
        self._ready: Request | None = None
        self._terms: TermTable | None = None  # that `_ready` is encoded by

    def ahead(self) -> EncodedFacts:
        return {} if self._ready is None else self._ready.delete

    def observe(self, transaction: Transaction) -> None:
        if self._seen is not None or self._peek is None:
            return
        update = self._peek()
        if update is not None:
            engine = self._knowledge.engine
            self._seen = update
            self._ready = self._encode(update)
            self._terms = engine.store.terms.table
            if self._ready is not None:
                transaction.marking.look(self._ready.delete, self._ready.add, engine.explicit_relation)

    def between_pieces(self) -> None:
        """The next update can wait until the records in which its facts are to be marked are in order."""

    def _encode(self, update: object) -> Request | None:
        """What an update deletes and adds. None for a bad update, which is refused in its own place, for one whose rows
        can be read only once, and for one with rules, whose prefixes may give names another meaning.
        """
        if not isinstance(update, Mapping):
            return None
        for key, part in update.items():
            if key not in KEYS or (part and key in ("add_rules", "remove_rules")):
                return None
        arities = dict(self._knowledge.catalogue.arities)

        def encoded(key: str) -> EncodedFacts:
            facts = update.get(key) or {}
            for name, rows in facts.items():
                if not hasattr(rows, "__len__"):
                    raise TypeError(f"the rows of `{name}` can be read only once")
            return self._knowledge.encode(facts, arities)

        try:
            return Request(encoded("delete"), encoded("add"))
        except Exception:  # Rows may raise anything.
            return None

    def ready(self, update: UpdateMapping) -> Request | None:
        """The facts of the next update, now that it is taken, if they were looked at and are still valid."""
        valid = update is self._seen and self._terms is self._knowledge.engine.store.terms.table
        return self._ready if valid else None


def apply_observed(
    knowledge: Knowledge, update: UpdateMapping, observer: LookAhead, before: LookAhead | None
) -> Change:
    """Apply an update with an observer. One that was looked at `before` is not checked and read again."""
    with knowledge.lock.reserved():
        ready = None if before is None else before.ready(update)
        with knowledge.observed(observer):
            if ready is None:
                return knowledge.update(**check_update(update))
            return knowledge.update_encoded(ready, update.get("commit"))


class Stream(Iterator[Change]):
    """The changes of a stream of updates, one each, in order. Threads that share one take turns.

    Examples:
        >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).")
        >>> changes = kb.stream({"add": {"edge": [(n, n + 1)]}} for n in range(3))
        >>> next(changes)
        <Change: + edge: 1, + path: 1>
        >>> len(list(changes))
        2
    """

    def __init__(self, knowledge: Knowledge, source: Source, marking: bool) -> None:
        self._knowledge = knowledge
        self._source = source
        self._marking = marking
        self._ahead: LookAhead | None = None
        self._turn = ThreadLock()
        self._interrupted: list[UpdateMapping] = []  # taken, and not applied: a signal handler raised

    def __next__(self) -> Change:
        with deferred():
            turn = self._turn.mutex
            wait_until(lambda seconds: turn.acquire(timeout=seconds))
            try:
                return self._next()
            finally:
                turn.release()

    def _next(self) -> Change:
        """Apply the next update. One that a signal interrupts has not failed: it is applied the next time."""
        update = self._interrupted.pop() if self._interrupted else self._source.take()
        if update is None:
            raise StopIteration
        ahead = LookAhead(self._knowledge, self._source.peek if self._marking else None)
        # After a failure, prefixes are as before, and names in what was looked at may mean something else.
        before, self._ahead = self._ahead, None
        try:
            change = apply_observed(self._knowledge, update, ahead, before)
        except BaseException as problem:
            if comes_from_signal(problem):
                self._interrupted.append(update)
            raise
        self._ahead = ahead
        return change


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
