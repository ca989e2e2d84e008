"""The lock of a knowledge base, and who may come in when.

`docs/reference/python.md` states the contract for users of threads.

One thread at a time is inside. Signals are deferred there (`runtime.signals`), so that no handler raises between two
lines that belong together. Several things could still let a thread in at the wrong moment, or let none in ever again:

- `kb.live()` works on updates in slices and may rest between two of them with an update half done. It gives the lock
  away while it rests; a thread that takes the lock then has that update finished first. So a reader sees settled states
  only, and never waits for a thread that waits for it.
- The thread inside may call foreign code: functions of rules, readers of facts, handlers of signals, finalizers. A
  lock that its thread can take again would let such code in while an update is half done. So a thread that *works* is
  refused, and one that reads cannot change anything. A thread that lists a change does not have the lock, but the next
  update may wait for it: it is refused as well.
- Such code may also wait for another thread, which waits for the lock. Nobody waits longer than `MOST_OF_A_CALL` for a
  single call of a function.
- A forked child has only the thread that forked. What other threads were working on stays half done there.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Self, TypeVar

from tidelog.errors import BrokenError, TidelogError
from tidelog.runtime.signals import defer, deferred, resume, wait_until
from tidelog.runtime.thread_locks import Readers

Item = TypeVar("Item")

# Seconds that other threads wait while a single call of a rule's function goes on.
MOST_OF_A_CALL = 10.0

IN_WORK = (
    "the knowledge base is in work in this thread: a function that a rule calls, a reader of facts, a handler of a "
    "signal or a finalizer cannot use it meanwhile"
)
FORKED = (
    "this process was forked while another thread of its parent was at work on the knowledge base, which stays half "
    "done here; open it from a folder, or fork when nobody works"
)

_END = object()


class KnowledgeLock:
    """A lock that readers may nest: `with lock:`. `condition` is the bare lock, which does not promise that no update
    is half done. `readers` are threads that read without the lock what the thread inside may have to wait for.
    """

    def __init__(self, readers: Readers) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.waiting = 0  # threads that want the lock; a hint, for fairness
        self._readers = readers
        self._reading = 0  # how often the thread inside has taken the lock in order to read
        self._finish: Callable[[], None] | None = None
        self._owner = 0
        self._worker = 0
        self._refusal: str | None = None
        self._call_began: float | None = None
        _locks.append(weakref.ref(self, _locks.remove))

    def __enter__(self) -> Self:
        self._enter()
        self._reading += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._reading -= 1
        self._leave()

    def _enter(self, even_if_broken: bool = False) -> None:
        defer()
        try:
            self._acquire(even_if_broken)
        except BaseException:
            resume()
            raise

    def _leave(self) -> None:
        self.condition.release()
        resume()

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """The lock for preparing some work; `working` may follow within."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def working(self, even_if_broken: bool = False) -> Iterator[None]:
        """The lock for work that passes through states that nobody may see: this thread is not let in again within."""
        self._enter(even_if_broken)
        try:
            if self._reading:
                raise TidelogError(IN_WORK)
            self._worker = threading.get_ident()
            yield
        finally:
            self._worker = 0
            self._call_began = None  # A signal may have interrupted the call just before this was noted.
            self._leave()

    def _acquire(self, even_if_broken: bool) -> None:
        """Wait for the lock, and for the end of an update that is half done."""
        this_thread = threading.get_ident()
        if self._worker == this_thread or self._readers.has_this_thread:
            raise TidelogError(IN_WORK)
        self.waiting += 1
        try:
            while True:
                self._acquire_bare()
                if self._refusal is not None and not even_if_broken:
                    self.condition.release()
                    raise BrokenError(self._refusal)
                if self._finish is None or self._owner == this_thread:
                    return
                finish = self._finish
                self.condition.release()
                finish()
        finally:
            self.waiting -= 1

    def _acquire_bare(self) -> None:
        if not self.condition.acquire(blocking=False):
            began = time.monotonic()
            wait_until(lambda seconds: self._acquires(seconds, began))

    def _acquires(self, seconds: float, began: float) -> bool:
        """Wait for the bare lock for some seconds. Raises if a function has been called for too long since `began`."""
        if self.condition.acquire(timeout=seconds):
            return True
        called = self._call_began
        if called is not None and time.monotonic() - max(called, began) > MOST_OF_A_CALL:
            raise TidelogError(
                f"the knowledge base is in work, and a function that a rule calls, or what reads its facts, has "
                f"not returned for {MOST_OF_A_CALL:.0f} s; if it waits for this thread it never will. Call the "
                "function beforehand, or give the rule what it needs as facts"
            )
        return False

    @contextmanager
    def bare(self) -> Iterator[None]:
        """The bare lock, for what concerns waiting threads and not facts."""
        with deferred():
            self._acquire_bare()
            try:
                yield
            finally:
                self.condition.release()

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Give the bare lock, which the caller has, away until something holds. Signals end the waiting."""
        wait_until(lambda seconds: self.condition.wait_for(predicate, seconds))

    def refuse(self, reason: str) -> None:
        """Let nobody in any more."""
        self._refusal = reason

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with a note of when it was called, for the threads that wait meanwhile."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            self._call_began = time.monotonic()
            try:
                return function(*arguments)
            finally:
                self._call_began = None

        return call

    def watched(self, items: Iterable[Item]) -> Iterator[Item]:
        """Items that foreign code yields, with a note of when each was asked for."""
        reader, ask = iter(items), self.guarded(next)
        while (item := ask(reader, _END)) is not _END:
            yield item

    def begin(self, finish: Callable[[], None]) -> None:
        """From now on an update is half done, for all threads but this one. `finish` waits until it is whole."""
        self._finish, self._owner = finish, threading.get_ident()

    def end(self) -> None:
        """The update is whole."""
        self._finish = None

    def after_fork_in_child(self) -> None:
        """Only the thread that forked is left. If it is inside, it goes on."""
        if self.condition._is_owned():  # type: ignore[attr-defined]
            return
        if self._worker or self._finish is not None:
            self.refuse(FORKED)
        self.condition = threading.Condition(threading.RLock())
        self.waiting = self._reading = self._worker = 0
        self._finish = self._call_began = None


# All locks there are. Removing one is a single step, whatever thread does it.
_locks: list[weakref.ref[KnowledgeLock]] = []


def _renew_locks() -> None:
    for lock in (found() for found in tuple(_locks)):
        if lock is not None:
            lock.after_fork_in_child()


os.register_at_fork(after_in_child=_renew_locks)


def unguarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that `guarded` was given."""
    inner: Callable[..., Any] = vars(function)["__wrapped__"]
    return inner
