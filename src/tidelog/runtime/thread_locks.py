"""Locks for what is read without the lock of the knowledge base, and the threads that read it.

A forked child has one thread, the one that forked. A lock that another thread held at that moment is never released
there, so the child makes a new one. Whether what it guards was half changed is for its owner to say.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

_forks = 0  # between the first process and this one


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class ThreadLock:
    """A lock that its thread may take again: `with lock.mutex:`.

    It is not a context manager itself. A signal handler may raise within any function in Python, even in one that has
    just taken a lock and not yet returned; within the built-in lock's own methods it cannot.
    """

    __slots__ = ("_forks", "_mutex")

    def __init__(self) -> None:
        self._mutex: Any = RLock()
        self._forks = _forks

    @property
    def mutex(self) -> Any:
        if self._forks != _forks:
            if not self._mutex._is_owned():
                self._mutex = RLock()
            self._forks = _forks
        return self._mutex


class Readers:
    """The threads that read what an update waits for. Code that runs in them meanwhile, such as a finalizer, must not
    wait for that update.
    """

    def __init__(self) -> None:
        self._within: dict[int, int] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within, this thread reads."""
        thread = threading.get_ident()
        self._within[thread] = self._within.get(thread, 0) + 1
        try:
            yield
        finally:
            self._within[thread] -= 1
            if not self._within[thread]:
                del self._within[thread]

    @property
    def has_this_thread(self) -> bool:
        return threading.get_ident() in self._within
