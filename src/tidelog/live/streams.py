"""Update streams: an iterator of changes that looks one update ahead (Backward/Forward with Marking, Algorithm 1).

While an update is in work, its successor is looked at as soon as it is there, and the facts that it will delete are
marked (`engine.marking`). A stream is an iterator of its own kind, not a generator: an update that fails raises in its
place, what was done before it stays done, and asking for the next change goes on with the next update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
