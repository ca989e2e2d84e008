"""Where the updates of a stream come from: for each kind of source, how to take the next update and how to look ahead.

`take` waits for the next update. Its caller defers signals; what their handlers raise meanwhile comes out of it, and no
update is lost. `peek` gives one of those that follow if it is already there, and never waits: GETNEXT of
Backward/Forward with Marking, Algorithm 1, lines 5 and 8. An iterator cannot be asked whether its next item is there,
so a thread takes as many as are looked at, one after the other, while the current update is in work.

Nothing is asked for beyond an error or the end of a source before `take` has handed that on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, Protocol, runtime_checkable

from tidelog.errors import DataError
from tidelog.runtime.signals import check, interruptible, wait_until

UpdateMapping = Mapping[str, Any]

KEYS = ("add", "delete", "add_rules", "remove_rules", "commit", "at")

_END = object()


@runtime_checkable
class Source(Protocol):
    """Updates, one after the other; `None` says that there are no more, or for `peek` none yet."""

    def take(self) -> UpdateMapping | None: ...

    def peek(self, place: int) -> UpdateMapping | None:
        """The update so many places after the one that `take` gives next."""


def check_update(update: object) -> UpdateMapping:
    """An update as it was given, if it is one."""
    if not isinstance(update, Mapping):
        raise DataError(f"an update is a mapping with any of the keys {', '.join(KEYS)}, not {update!r}")
    unknown = [key for key in update if key not in KEYS]
    if unknown:
        raise DataError(f"an update has no `{unknown[0]}`; its keys are {', '.join(KEYS)}")
    return update


def _next(updates: Iterator[UpdateMapping], given: list[Any]) -> UpdateMapping | None:
    """The next update of an iterator, or `None` after the last. A signal may interrupt the iterator; an update that it
    has just given waits in `given` for the next time.
    """
    if not given:
        interruptible(_give, updates, given)
    return _checked(given.pop())


def _checked(update: Any) -> UpdateMapping | None:
    """What an iterator or a sequence gave."""
    if update is None:
        raise DataError("an update is a mapping, not None; only a queue is ended by None")
    return None if update is _END else update


def _give(updates: Iterator[UpdateMapping], given: list[Any]) -> None:
    # No handler runs between the two steps of this loop, as it could after a call of `next`.
    for update in updates:
        given.append(update)
        return
    given.append(_END)


class ReadySource:
    """Updates that are all there."""

    def __init__(self, updates: Sequence[UpdateMapping]) -> None:
        self._updates = updates
        self._next = 0

    def take(self) -> UpdateMapping | None:
        update = self._updates[self._next] if self._next < len(self._updates) else _END
        self._next += 1
        return _checked(update)

    def peek(self, place: int) -> UpdateMapping | None:
        place += self._next
        return self._updates[place] if place < len(self._updates) else None


class QueueSource:
    """Updates that other threads put into a queue; `None` in it ends the stream."""

    def __init__(self, updates: Queue[Any]) -> None:
        self._queue = updates
        self._ahead: deque[UpdateMapping | None] = deque()  # only the last one may be the end
        self._ended = False

    def take(self) -> UpdateMapping | None:
        if self._ended:
            return None
        check()
        wait_until(self._arrives)
        update = self._ahead.popleft()
        self._ended = update is None
        return update

    def _arrives(self, seconds: float, place: int = 0) -> bool:
        """Wait some seconds for an update, or for the `None` that ends the stream; whether it is there."""
        with suppress(Empty):
            while len(self._ahead) <= place and not (self._ahead and self._ahead[-1] is None):
                self._ahead.append(self._queue.get(seconds > 0, seconds))
        return len(self._ahead) > place

    def peek(self, place: int) -> UpdateMapping | None:
        return self._ahead[place] if self._arrives(0, place) else None


class IteratorSource:
    """Updates of an iterator. If somebody looks ahead, a thread takes those that follow the one in work."""

    def __init__(self, updates: Iterator[UpdateMapping]) -> None:
        self._updates = updates
        self._given: list[Any] = []
        # Updates that a thread takes, in order; while it is at work, the last one is not done.
        self._pulls: deque[Future[UpdateMapping | None]] = deque()
        self._wanted = 0  # how many of them somebody looks at
        self._lock = threading.Lock()

    def take(self) -> UpdateMapping | None:
        if not self._pulls:
            return _next(self._updates, self._given)
        pull = self._pulls[0]
        check()
        wait_until(lambda seconds: bool(wait_for([pull], seconds).done))
        with self._lock:
            self._pulls.popleft()
        return pull.result()

    def peek(self, place: int) -> UpdateMapping | None:
        with self._lock:
            self._wanted = max(self._wanted, place + 1)
            if self._asks_for_more():
                threading.Thread(target=self._fill, args=(self._begun(),), daemon=True).start()
            pull = self._pulls[place] if place < len(self._pulls) else None
        # An error of the iterator is raised by `take`, in the place of the update.
        return None if pull is None or not pull.done() or pull.exception() is not None else pull.result()

    def _asks_for_more(self) -> bool:
        """Whether the iterator is to be asked again. The caller has the lock."""
        if not self._pulls:
            return True
        last = self._pulls[-1]
        return (
            len(self._pulls) < self._wanted and last.done() and last.exception() is None and last.result() is not None
        )

    def _begun(self) -> Future[UpdateMapping | None]:
        self._pulls.append(Future())
        return self._pulls[-1]

    def _fill(self, pull: Future[UpdateMapping | None]) -> None:
        while True:
            update, problem = None, None
            try:
                update = _next(self._updates, self._given)
            except BaseException as raised:
                problem = raised
            with self._lock:
                if problem is None:
                    pull.set_result(update)
                else:
                    pull.set_exception(problem)
                if not self._asks_for_more():
                    return
                pull = self._begun()


def source_of(updates: Any) -> Source:
    """How to read a list, a queue, or any other iterable of updates."""
    if isinstance(updates, Source):
        return updates
    if isinstance(updates, Queue):
        return QueueSource(updates)
    if isinstance(updates, Sequence):
        return ReadySource(updates)
    if not isinstance(updates, Iterable) and not hasattr(updates, "__getitem__"):
        raise DataError(f"a stream is of updates, such as a list of mappings or a queue of them, not {updates!r:.60}")
    return IteratorSource(iter(updates))
