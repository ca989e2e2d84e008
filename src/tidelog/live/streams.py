"""Update streams: an iterator of changes that looks one update ahead (Backward/Forward with Marking, Algorithm 1).

While an update is in work its successor is looked at as soon as it is there, and the facts that it will delete are
marked (`engine.marking`). A stream is an iterator of its own kind, not a generator: an update that fails raises at
its place, what was done before it stays done, and asking for the next change goes on with the next update.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from tidelog.engine.observer import CLOSED, Observer
from tidelog.engine.outcome import EncodedFacts, Request
from tidelog.engine.runner import BUDGET
from tidelog.engine.transaction import Transaction
from tidelog.errors import DataError
from tidelog.facts.results import Change
from tidelog.live.update_sources import PATIENCE, Source, UpdateMapping, is_async, source_of
from tidelog.runtime.signals import check, comes_from_signal, deferred
from tidelog.runtime.thread_locks import ThreadLock
from tidelog.store.term_table import TermTable

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase

KEYS = ("add", "delete", "add_rules", "remove_rules", "commit")

Peek = Callable[[], UpdateMapping | None]


def open_stream(kb: KnowledgeBase, updates: Any, marking: bool) -> Stream | AsyncStream:
    """The stream that fits the kind of source."""
    if is_async(updates):
        return AsyncStream(kb, aiter(updates), marking)
    return Stream(kb, source_of(updates, marking), marking)


class Stream(Iterator[Change]):
    """The changes of a stream of updates, one each, in order. Threads that share one take turns."""

    def __init__(self, kb: KnowledgeBase, source: Source, marking: bool) -> None:
        self._kb = kb
        self._source = source
        self._marking = marking
        self._ahead: LookAhead | None = None
        self._turn = ThreadLock()
        self._interrupted: list[UpdateMapping] = []  # taken, and not applied: the handler of a signal raised

    def __next__(self) -> Change:
        with deferred():
            turn = self._turn.mutex
            while not turn.acquire(timeout=PATIENCE):
                check()
            try:
                return self._next()
            finally:
                turn.release()

    def _next(self) -> Change:
        update = self._interrupted.pop() if self._interrupted else self._source.take()
        if update is None:
            raise StopIteration
        return self._applied(update)

    def _applied(self, update: UpdateMapping) -> Change:
        """Apply an update that was taken. One that a signal interrupts has not failed: it is applied next time."""
        before = self._ahead
        ahead = LookAhead(self._kb, self._source.peek if self._marking else _nothing_ahead)
        # After a failure prefixes are as they were, and what was looked at may have other names.
        self._ahead = None
        try:
            change = apply_observed(self._kb, update, ahead, before)
        except BaseException as problem:
            if comes_from_signal(problem):
                self._interrupted.append(update)
            raise
        self._ahead = ahead
        return change


class AsyncStream(AsyncIterator[Change]):
    """The same for an asynchronous iterator: the event loop stays free while an update is in work.

    Whoever waits for a change may be cancelled at any time. An update that is awaited or in work then goes on without
    him, and whoever asks next gets its change, or its error.
    """

    def __init__(self, kb: KnowledgeBase, updates: AsyncIterator[UpdateMapping], marking: bool) -> None:
        self._kb = kb
        self._updates = updates
        self._marking = marking
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "tidelog stream")
        self._pull: asyncio.Future[UpdateMapping] | None = None
        self._work: tuple[Future[Change], LookAhead] | None = None
        self._ahead: LookAhead | None = None

    async def __anext__(self) -> Change:
        # Each await may be the last one: what it waits for stays where the next call finds it until it is handed on.
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
        pull = self._pull = self._pull or _started(anext(self._updates))
        if not pull.done():
            await asyncio.wait([pull])
        self._pull = None
        return pull.result()

    def _begin(self, update: UpdateMapping) -> tuple[Future[Change], LookAhead]:
        """Let the thread apply an update; its successor is awaited meanwhile."""
        peek = _nothing_ahead
        if self._marking:
            self._pull = _started(anext(self._updates))
            peek = _when_done(self._pull)
        before, ahead, self._ahead = self._ahead, LookAhead(self._kb, peek), None
        run = copy_context().run
        return self._thread.submit(run, apply_observed, self._kb, update, ahead, before), ahead


async def _done(work: Future[Change]) -> None:
    """Wait until a thread has done its work. Whoever is cancelled here leaves the work alone, and the loop may end."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Change]) -> None:
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(done.set)

    work.add_done_callback(tell)
    await done.wait()


def _nothing_ahead() -> UpdateMapping | None:
    return None


def _started(update: Awaitable[UpdateMapping]) -> asyncio.Future[UpdateMapping]:
    return asyncio.ensure_future(update)


def _has_ended_with_its_loop(pull: asyncio.Future[UpdateMapping]) -> bool:
    """Whether an update was awaited in another loop, which is gone, and did not come: it is awaited once more."""
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


class LookAhead:
    """Observes one update: looks for the next one until it is there, then marks what that deletes."""

    budget = BUDGET
    streams = True
    window = CLOSED

    def __init__(self, kb: KnowledgeBase, peek: Peek) -> None:
        self._kb = kb
        self._peek = peek
        self._seen: object = None
        self._ready: Request | None = None
        self._terms: TermTable | None = None  # by which that is encoded

    def observe(self, transaction: Transaction) -> None:
        if self._seen is not None:
            return
        update = self._peek()
        if update is not None:
            self._seen = update
            self._ready = self._encode(update)
            self._terms = self._kb._engine.store.terms.table
            if self._ready is not None:
                transaction.marking.look(self._ready.delete, self._ready.add, self._kb._engine.explicit_relation)

    def between_pieces(self) -> None:
        """The next update can wait until the records are in order, where its facts are to be marked."""

    def _encode(self, update: object) -> Request | None:
        """What an update deletes and adds. Nothing of a bad update, which is refused in its own place, of one whose
        rows can be read only once, and of one with rules, whose prefixes may give names another meaning.
        """
        if not isinstance(update, Mapping):
            return None
        for key, part in update.items():
            if key not in KEYS or (part and key in ("add_rules", "remove_rules")):
                return None
        arities = dict(self._kb._catalogue.arities)
        try:
            return Request(
                self._encode_facts(update.get("delete"), arities), self._encode_facts(update.get("add"), arities)
            )
        except Exception:  # Rows may raise whatever they like.
            return None

    def _encode_facts(self, facts: Mapping[str, Any] | None, arities: dict[str, int]) -> EncodedFacts:
        if not facts:
            return {}
        for name, rows in facts.items():
            if not hasattr(rows, "__len__"):
                raise TypeError(f"the rows of `{name}` can be read only once")
        return self._kb._encode(facts, arities)

    def ready(self, update: UpdateMapping) -> Request | None:
        """The facts of the next update, now that it is taken, if they have been looked at and are still good."""
        good = update is self._seen and self._terms is self._kb._engine.store.terms.table
        return self._ready if good else None


def apply_observed(
    kb: KnowledgeBase, update: UpdateMapping, observer: Observer | None, before: LookAhead | None = None
) -> Change:
    """Apply an update while somebody looks in; one that was looked at before need not be checked and read again."""
    with kb._lock.reserved():
        ready = None if before is None else before.ready(update)
        kb._engine.observer = observer
        try:
            if ready is None:
                return kb.update(**check_update(update))
            return kb._update_facts(ready, update.get("commit"))
        finally:
            kb._engine.observer = None


def check_update(update: object) -> UpdateMapping:
    """An update as it was given, if it is one."""
    if not isinstance(update, Mapping):
        raise DataError(f"an update is a mapping with any of the keys {', '.join(KEYS)}, not {update!r}")
    unknown = [key for key in update if key not in KEYS]
    if unknown:
        raise DataError(f"an update has no `{unknown[0]}`; its keys are {', '.join(KEYS)}")
    return update
