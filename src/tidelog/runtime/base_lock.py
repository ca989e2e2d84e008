"""The lock of a knowledge base, and who may come in when. docs/python.md states the contract for those who use threads.

One thread at a time is inside; signals are deferred there (`runtime.signals`), so that no handler raises between two
lines that belong together. Some things could let somebody in at the wrong moment all the same, or nobody ever:

- `kb.live()` works on updates in slices and may rest between two of them with an update half done. It gives the lock
  away while it rests; whoever takes the lock then has that update finished first. So a reader sees settled states only,
  and never waits for somebody who waits for him.
- The thread inside may call code that is not ours: functions of rules, readers of facts, handlers of signals,
  finalizers. A lock that can be taken again by its thread would let them in while an update is half done. So a thread
  that *works* is refused, and one that reads is kept from changing anything. A thread that lists a change has no
  lock, but the next update may wait for it: it is refused as well.
- Such code may also wait for another thread, which waits for the lock. Nobody waits longer than `MOST_OF_A_CALL` for a
  single call of a function.
- A forked child has no other thread than the one that forked. What others were at work on stays half done there.
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
from tidelog.runtime.signals import check, defer, resume
from tidelog.runtime.thread_locks import Readers

Item = TypeVar("Item")

# Seconds between two looks for a signal.
PATIENCE = 0.1

# Seconds that others wait while one call of a function that a rule names goes on.
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


class SettledLock:
    """A lock that readers take again within itself. `condition` is the bare lock, without the promise that nothing is
    half done. `readers` are those who read without the lock what somebody inside may wait for.
    """

    def __init__(self, readers: Readers) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.waiting = 0  # threads that want the lock, as a hint to be fair
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
        """The lock for what is about to work, and prepares it: `working` may follow within."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def working(self, even_if_broken: bool = False) -> Iterator[None]:
        """The lock for what passes through states that nobody may see: this thread is not let in again within."""
        self._enter(even_if_broken)
        try:
            if self._reading:
                raise TidelogError(IN_WORK)
            self._worker = threading.get_ident()
            yield
        finally:
            self._worker = 0
            self._call_began = None  # A signal may have interrupted the call just before it said so.
            self._leave()

    def _acquire(self, even_if_broken: bool) -> None:
        """Wait for the lock, and for nothing to be half done."""
        if self._worker == threading.get_ident() or self._readers.has_this_thread:
            raise TidelogError(IN_WORK)
        self.waiting += 1
        try:
            while True:
                self._acquire_bare()
                if self._refusal is not None and not even_if_broken:
                    self.condition.release()
                    raise BrokenError(self._refusal)
                if self._finish is None or self._owner == threading.get_ident():
                    return
                finish = self._finish
                self.condition.release()
                finish()
        finally:
            self.waiting -= 1

    def _acquire_bare(self) -> None:
        began: float | None = None
        while not self.condition.acquire(timeout=PATIENCE):
            check()
            began = began or time.monotonic()
            called = self._call_began
            if called is not None and time.monotonic() - max(called, began) > MOST_OF_A_CALL:
                raise TidelogError(
                    f"the knowledge base is in work, and a function that a rule calls, or what reads its facts, has "
                    f"not returned for {MOST_OF_A_CALL:.0f} s; if it waits for this thread it never will. Call the "
                    "function beforehand, or give the rule what it needs as facts"
                )

    @contextmanager
    def bare(self) -> Iterator[None]:
        """The bare lock, for what concerns those who wait and not the facts."""
        defer()
        try:
            self._acquire_bare()
            try:
                yield
            finally:
                self.condition.release()
        finally:
            resume()

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Give the bare lock, which the caller has, away until something holds. Signals end the waiting."""
        while not self.condition.wait_for(predicate, PATIENCE):
            check()

    def refuse(self, reason: str) -> None:
        """Let nobody in any more."""
        self._refusal = reason

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with a note of when it was called, for those who wait meanwhile."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            self._call_began = time.monotonic()
            try:
                return function(*arguments)
            finally:
                self._call_began = None

        return call

    def watched(self, items: Iterable[Item]) -> Iterator[Item]:
        """Items that code gives which is not ours, with a note of when each was asked for."""
        reader, ask = iter(items), self.guarded(_next)
        while (item := ask(reader)) is not _END:
            yield item

    def begin(self, finish: Callable[[], None]) -> None:
        """An update is half done from now on, for all but this thread; `finish` waits until it is whole."""
        self._finish, self._owner = finish, threading.get_ident()

    def end(self) -> None:
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


# All that there are. Removing one is a single step, whatever thread does it.
_locks: list[weakref.ref[SettledLock]] = []


def _renew_locks() -> None:
    for lock in (found() for found in tuple(_locks)):
        if lock is not None:
            lock.after_fork_in_child()


os.register_at_fork(after_in_child=_renew_locks)


def _next(reader: Iterator[Any]) -> Any:
    return next(reader, _END)


def unguarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that `guarded` was given."""
    inner: Callable[..., Any] = vars(function)["__wrapped__"]
    return inner
