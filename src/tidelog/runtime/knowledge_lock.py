"""The lock of a knowledge base, and who may come in when.

`docs/reference/python.md` states the contract for users of threads.

One thread at a time is inside. Signals are deferred there (`runtime.signals`), so that no handler raises between two
lines that belong together. An update may take long, and nobody who reads waits for its end: it *pauses* now and then,
or when it is asked to, and gives the lock away. Whoever reads then looks back (`looking_back`): he sees what was
committed last. An update is *at rest* at most of its pauses; between two pieces of a change that belong together it
is not, and readers cannot make indexes and the like (`NotAtRest`). An update that touches nothing of what is in work
may come in when that is at rest, and overtake it.

Several things could still let a thread in at the wrong moment, or let none in ever again:

- The thread inside may call foreign code: functions of rules, readers of facts, handlers of signals, finalizers. A
  lock that its thread can take again would let such code in while an update is half done. So a thread that *works* is
  refused, and one that reads cannot change anything. A thread that lists a change does not have the lock, but the next
  update may wait for it: it is refused as well.
- Such code may also wait for another thread, which waits for the lock. Nobody waits longer than `MOST_OF_A_CALL` for a
  single call of a function.
- `kb.live()` may rest with an update half done until somebody asks for more work. A thread that wants to change
  something then has that update finished first, and never waits for a thread that waits for it.
- A forked child has only the thread that forked. What other threads were working on stays half done there.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Self, TypeVar

from tidelog.errors import BrokenError, TidelogError
from tidelog.runtime.signals import check, defer, deferred, resume, wait_until
from tidelog.runtime.thread_locks import Readers

Item = TypeVar("Item")
Found = TypeVar("Found")

# Seconds that other threads wait while a single call of a rule's function goes on.
MOST_OF_A_CALL = 10.0

# Seconds for which an update stays paused at most, while more and more threads come in.
MOST_OF_A_PAUSE = 0.01

# Seconds between two looks whether an update is at rest.
MOMENT = 0.0001

IN_WORK = (
    "the knowledge base is in work in this thread: a function that a rule calls, a reader of facts, a handler of a "
    "signal or a finalizer cannot use it meanwhile"
)
FORKED = (
    "this process was forked while another thread of its parent was at work on the knowledge base, which stays half "
    "done here; open it from a folder, or fork when nobody works"
)

_END = object()

Queue = dict[int, None]
"""Threads that wait; each enters and removes itself in one step, without the lock."""


class NotAtRest(Exception):
    """A reader needs what can only be made while the update in work is at rest: it may try again then."""


class NotNow(Exception):
    """A reader who would not wait would have to."""


class NotSettled(Exception):
    """A reader needs what can only be read when no update is in work."""


@dataclass(slots=True, eq=False)
class _Work:
    """An update in work."""

    thread: int
    finish: Callable[[], None] | None = None  # waits until it is done; None where it goes on by itself
    at_rest: bool = False  # paused where others may change what it does not touch
    is_ending: bool = False  # paused where it is about to be committed, and nobody may change anything


class KnowledgeLock:
    """A lock that readers may nest: `with lock:`. `condition` is the bare lock, which does not promise that no update
    is half done. `readers` are threads that read without the lock what the thread inside may have to wait for. `ask`
    asks the update in work to pause, and `looking_back` is the context of those who read in such a pause; it is told
    whether the update is at rest.
    """

    def __init__(
        self,
        readers: Readers,
        ask: Callable[[], None] = lambda: None,
        looking_back: Callable[[bool], AbstractContextManager[None]] = lambda _at_rest: nullcontext(),
    ) -> None:
        self._readers = readers
        self._ask = ask
        self._looking_back = looking_back
        self._refusal: str | None = None
        self._renew()
        _locks.append(weakref.ref(self, _locks.remove))

    def _renew(self) -> None:
        """Nobody is inside, and nobody waits."""
        self.condition = threading.Condition(threading.RLock())
        self._left = threading.Condition(self.condition._lock)  # type: ignore[attr-defined]
        # All that want the lock, and of these the ones that come in at any pause of the update in work, or at rest.
        self._waiting: Queue = {}
        self._for_pause: Queue = {}
        self._for_rest: Queue = {}
        self._reading = 0  # how often the thread inside has taken the lock in order to read
        self._past: AbstractContextManager[None] | None = None  # what the thread inside looks back by
        self._work: list[_Work] = []  # updates in work; each but the first has overtaken the one before it
        self._worker = 0  # the thread inside that must not come in again
        self._call_began: float | None = None

    @property
    def is_broken(self) -> bool:
        """Whether everybody is refused."""
        return self._refusal is not None

    @property
    def waiting(self) -> int:
        """How many threads want the lock."""
        return len(self._waiting)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._enter_to_read(self._for_rest)
        return self

    def __exit__(self, *_: object) -> None:
        self._reading -= 1
        try:
            if not self._reading and self._past is not None:
                past, self._past = self._past, None
                past.__exit__(None, None, None)
        finally:
            self._leave()

    def _enter_to_read(self, queue: Queue | None, waits: bool = True) -> None:
        """Come in at any pause of the update in work, where it is at rest, or when it has ended."""
        self._enter(
            lambda: not self._work or queue is self._for_pause or (queue is self._for_rest and self._work[-1].at_rest),
            lambda: queue,
            waits=waits,
        )
        try:
            if self._work and not self._reading:
                past = self._looking_back(self._work[-1].at_rest)
                past.__enter__()
                self._past = past
        except BaseException:
            self._leave()
            raise
        self._reading += 1

    def read(self, look: Callable[[], Found], alone: bool = False, waits: bool = True) -> Found:
        """What `look` finds, which comes in at any pause of an update. `alone`: it runs kernels that have state, and
        this thread is not let in again within. Where somebody else is inside, it waits, or raises `NotNow`.
        """
        queue: Queue | None = self._for_pause
        while True:
            try:
                self._enter_to_read(queue, waits)
                try:
                    return self._alone(look) if alone else look()
                finally:
                    self.__exit__()
            except NotAtRest:
                if self._is_here:
                    raise  # Whoever came in first tries again.
                queue = self._for_rest
            except NotSettled:
                queue = None

    def _alone(self, look: Callable[[], Found]) -> Found:
        if self._reading > 1:
            raise TidelogError(IN_WORK)
        worker, self._worker = self._worker, threading.get_ident()
        try:
            return look()
        finally:
            self._worker = worker
            self._call_began = None  # A signal may have interrupted the call just before this was noted.

    # --- working ------------------------------------------------------------------------------------------------------

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """The lock for preparing some work; `working` may follow within."""
        self._enter(self._may_work)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def working(self, even_if_broken: bool = False, may_overtake: Callable[[], bool] | None = None) -> Iterator[None]:
        """The lock for work that passes through states that nobody may see: this thread is not let in again within.
        All other work has ended before, or `may_overtake` says that it can be overtaken.
        """
        overtakes = may_overtake or (lambda: False)
        self._enter(
            lambda: self._may_work() or (self._work[-1].at_rest and not self._work[-1].is_ending and overtakes()),
            lambda: self._for_rest if overtakes() else None,
            even_if_broken,
        )
        worker, this_thread = self._worker, threading.get_ident()
        begins = not self._work or self._work[-1].thread != this_thread
        try:
            if self._reading:
                raise TidelogError(IN_WORK)
            self._worker = this_thread
            if begins:
                self._work.append(_Work(this_thread))
            yield
        finally:
            self._worker = worker
            self._call_began = None  # A signal may have interrupted the call just before this was noted.
            if begins and self._work and self._work[-1].thread == this_thread:
                self.end()
            self._leave()

    def _may_work(self) -> bool:
        """Whether nothing else is in work."""
        return not self._work or self._work[-1].thread == threading.get_ident()

    def begin(self, finish: Callable[[], None]) -> None:
        """From now on an update of this thread is half done. `finish` waits until it is whole."""
        self._work.append(_Work(threading.get_ident(), finish))

    def end(self) -> None:
        """The update is whole."""
        self._work.pop()
        self.condition.notify_all()
        self._left.notify_all()

    # --- pauses of an update ------------------------------------------------------------------------------------------

    def pause(self, at_rest: bool) -> None:
        """Let threads in that wait, in the middle of an update of this thread; whoever has come in lets nobody in."""
        if (self._for_pause or (at_rest and self._for_rest)) and self._work[-1].thread == threading.get_ident():
            self._give_away(
                self._left, at_rest, lambda: not self._for_pause and not (at_rest and self._for_rest), MOST_OF_A_PAUSE
            )

    def rest(self, predicate: Callable[[], bool]) -> None:
        """Stay at rest until something holds, and let threads in meanwhile. Signals end the waiting."""
        wait_until(lambda seconds: self._give_away(self.condition, True, predicate, seconds))

    def let_read_during(self, work: Callable[[], Found]) -> Found:
        """Do something that readers need not wait for, such as to sort rows or to wait for a disk, in an update of
        this thread: they come in as where it is at rest. It must not touch what they look at. Nobody overtakes the
        update meanwhile.
        """
        update, worker = self._work[-1], self._worker
        update.at_rest, update.is_ending, self._worker = True, True, 0
        held = self.condition._release_save()  # type: ignore[attr-defined]
        try:
            return work()
        finally:
            self.condition._acquire_restore(held)  # type: ignore[attr-defined]
            update.at_rest, update.is_ending, self._worker = False, False, worker

    def _give_away(
        self, condition: threading.Condition, at_rest: bool, predicate: Callable[[], bool], seconds: float
    ) -> bool:
        """Give the lock away for some seconds, or until something holds. Those who overtake come to their end."""
        work, worker = self._work[-1], self._worker
        work.at_rest, self._worker = at_rest, 0
        try:
            condition.wait_for(lambda: self._work[-1] is work and predicate(), seconds)
            while self._work[-1] is not work:
                self._left.wait()
        finally:
            work.at_rest, self._worker = False, worker
        return predicate()

    # --- coming in ----------------------------------------------------------------------------------------------------

    def _enter(
        self,
        may_come_in: Callable[[], bool],
        queue: Callable[[], Queue | None] = lambda: None,
        even_if_broken: bool = False,
        waits: bool = True,
    ) -> None:
        """Come in as soon as that is possible, or never. The update in work is asked to pause for those in a queue."""
        defer()
        try:
            if self._worker == threading.get_ident() or self._readers.has_this_thread:
                raise TidelogError(IN_WORK)
            if self._is_here:
                self.condition.acquire()
            elif not (self.condition.acquire(blocking=False) and self._lets_in(may_come_in)):
                if not waits:
                    raise NotNow
                self._wait_to_enter(may_come_in, queue)
            if self._refusal is not None and not even_if_broken:
                self.condition.release()
                raise BrokenError(self._refusal)
        except BaseException:
            resume()
            raise

    def _leave(self) -> None:
        if self._work:
            self._left.notify_all()  # An update may be paused for this thread.
        self.condition.release()
        resume()

    @property
    def _is_here(self) -> bool:
        """Whether this thread has the lock."""
        return bool(self.condition._is_owned())  # type: ignore[attr-defined]

    def _lets_in(self, may_come_in: Callable[[], bool]) -> bool:
        """Whether this thread, which has the bare lock, may keep it; otherwise it is given back."""
        if self._refusal is not None or may_come_in():
            return True
        self.condition.release()
        return False

    def _wait_to_enter(self, may_come_in: Callable[[], bool], queue: Callable[[], Queue | None]) -> None:
        this_thread = threading.get_ident()
        self._waiting[this_thread] = None
        queued: Queue = {}
        try:
            while True:
                queued.pop(this_thread, None)
                found = queue()
                if found is not None:
                    queued = found
                    queued[this_thread] = None
                    self._ask()
                self._acquire_bare()
                finish = self._work[-1].finish if self._work else None
                if self._lets_in(may_come_in):
                    return
                if queued is self._for_rest:
                    time.sleep(MOMENT)
                elif finish is not None:
                    finish()
                else:
                    self._wait_for_end()
        finally:
            queued.pop(this_thread, None)
            self._waiting.pop(this_thread, None)

    def _wait_for_end(self) -> None:
        """Wait for the end of the update in work; not for long, since others may begin."""
        check()
        with self.bare():
            if self._work:
                self.condition.wait(MOST_OF_A_PAUSE)

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

    def after_fork_in_child(self) -> None:
        """Only the thread that forked is left. If it is inside, it goes on."""
        if self._is_here:
            return
        if self._worker or self._work:
            self.refuse(FORKED)
        self._renew()


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
