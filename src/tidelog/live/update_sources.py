"""Where the updates of a stream come from: for each kind of source, how to take the next update and how to look ahead.

`take` waits for the next update. Its caller defers signals; what their handlers raise meanwhile comes out of it, and no
update is lost. `peek` gives the update after the current one if it is already there, and never waits: GETNEXT of
Backward/Forward with Marking, Algorithm 1, lines 5 and 8. An iterator cannot be asked whether its next item is there,
so a thread takes it while the current update is in work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, Protocol, runtime_checkable

from tidelog.errors import DataError
from tidelog.runtime.signals import check, interruptible, wait_until

UpdateMapping = Mapping[str, Any]

KEYS = ("add", "delete", "add_rules", "remove_rules", "commit")

_END = object()


@runtime_checkable
class Source(Protocol):
    """Updates, one after the other; `None` says that there are no more, or for `peek` none yet."""

    def take(self) -> UpdateMapping | None: ...

    def peek(self) -> UpdateMapping | None: ...


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

    def peek(self) -> UpdateMapping | None:
        return self._updates[self._next] if self._next < len(self._updates) else None


class QueueSource:
    """Updates that other threads put into a queue; `None` in it ends the stream."""

    def __init__(self, updates: Queue[Any]) -> None:
        self._queue = updates
        self._ahead: list[UpdateMapping | None] = []
        self._ended = False

    def take(self) -> UpdateMapping | None:
        if self._ended:
            return None
        check()
        wait_until(self._arrives)
        update = self._ahead.pop()
        self._ended = update is None
        return update

    def _arrives(self, seconds: float) -> bool:
        """Wait some seconds for the next update, or for the `None` that ends the stream; whether it is there."""
        if not self._ahead:
            with suppress(Empty):
                self._ahead.append(self._queue.get(seconds > 0, seconds))
        return bool(self._ahead)

    def peek(self) -> UpdateMapping | None:
        return self._ahead[0] if self._arrives(0) else None


class IteratorSource:
    """Updates of an iterator. If somebody looks ahead, a thread takes the next one while the current one is in work."""

    def __init__(self, updates: Iterator[UpdateMapping]) -> None:
        self._updates = updates
        self._given: list[Any] = []
        self._pull: Future[UpdateMapping | None] | None = None

    def take(self) -> UpdateMapping | None:
        pull = self._pull
        if pull is None:
            return _next(self._updates, self._given)
        check()
        wait_until(lambda seconds: bool(wait_for([pull], seconds).done))
        self._pull = None
        return pull.result()

    def peek(self) -> UpdateMapping | None:
        if self._pull is None:
            self._pull = Future()
            threading.Thread(target=self._fill, args=(self._pull,), daemon=True).start()
        # An error of the iterator is raised by `take`, in the place of the update.
        if not self._pull.done() or self._pull.exception() is not None:
            return None
        return self._pull.result()

    def _fill(self, pull: Future[UpdateMapping | None]) -> None:
        try:
            pull.set_result(_next(self._updates, self._given))
        except BaseException as problem:
            pull.set_exception(problem)


def source_of(updates: Iterable[UpdateMapping] | Queue[Any] | Source) -> Source:
    """How to read a list, a queue, or any other iterable of updates."""
    if isinstance(updates, Source):
        return updates
    if isinstance(updates, Queue):
        return QueueSource(updates)
    return ReadySource(updates) if isinstance(updates, Sequence) else IteratorSource(iter(updates))
