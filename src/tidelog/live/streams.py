"""Update streams: an iterator of changes that looks ahead (Backward/Forward with Marking, Algorithm 1; `look_ahead`).

A stream is an iterator of its own kind, not a generator: an update that fails raises in its place, what was done before
it stays done, and asking for the next change goes on with the next update.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge
from tidelog.live.look_ahead import LookAhead
from tidelog.live.update_sources import Source, UpdateMapping, check_update
from tidelog.runtime.signals import comes_from_signal, deferred, wait_until
from tidelog.runtime.thread_locks import ThreadLock


def apply_observed(knowledge: Knowledge, update: UpdateMapping, ahead: LookAhead) -> Change:
    """Apply an update and look ahead meanwhile. What was read of it before is not checked and read again."""
    with knowledge.lock.reserved():
        ready = ahead.take(update)
        try:
            with knowledge.observed(ahead):
                if ready is None:
                    return knowledge.update(**check_update(update))
                return knowledge.update_encoded(ready, update.get("commit"), update.get("at"))
        except StopIteration as problem:  # whoever iterates would take it for the end of the stream
            ahead.forget()
            raise RuntimeError("an update raised StopIteration") from problem
        except BaseException:
            ahead.forget()
            raise


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

    def __init__(self, knowledge: Knowledge, source: Source, marking: int) -> None:
        """`marking` is how many updates to look ahead."""
        self._knowledge = knowledge
        self._source = source
        self._ahead = LookAhead(knowledge, source.peek, marking)
        self._turn = ThreadLock()
        self._interrupted: list[UpdateMapping] = []  # taken, and not applied: a signal handler raised

    def __next__(self) -> Change:
        with deferred():
            turn = self._turn.mutex
            wait_until(lambda seconds: turn.acquire(timeout=seconds))
            try:
                change = self._next()
            finally:
                turn.release()
        self._knowledge.deliver()
        return change

    def _next(self) -> Change:
        """Apply the next update. One that a signal interrupts has not failed: it is applied the next time."""
        update = self._interrupted.pop() if self._interrupted else self._source.take()
        if update is None:
            raise StopIteration
        try:
            return apply_observed(self._knowledge, update, self._ahead)
        except BaseException as problem:
            if comes_from_signal(problem):
                self._interrupted.append(update)
            raise
