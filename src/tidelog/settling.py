"""The lock of a knowledge base: nobody gets it in the middle of an update.

`kb.live()` works on updates in slices and may rest between two of them with an update half done. It gives the lock away
while it rests; whoever takes the lock then has that update finished first. So a reader sees settled states only, and
never waits for somebody who waits for him.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tidelog.errors import BrokenError, TidelogError
from tidelog.reason.interrupts import check

# Seconds between two looks for an interrupt.
PATIENCE = 0.1


class SettledLock:
    """A re-entrant lock. `condition` is the bare lock, without the promise that nothing is half done."""

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.RLock())
        self.waiting = 0  # threads that want the lock, as a hint to be fair
        self._finish: Callable[[], None] | None = None
        self._owner = 0
        self._refusal: str | None = None
        self._calling = 0  # the thread that calls a function for a rule

    def __enter__(self) -> SettledLock:
        if self._calling == threading.get_ident():
            raise TidelogError("a function that a rule calls cannot use the knowledge base of that rule")
        self.waiting += 1
        try:
            while True:
                # Where interrupts are deferred, so that none between two lines leaves the lock taken, they end the
                # waiting all the same.
                while not self.condition.acquire(timeout=PATIENCE):
                    check()
                if self._refusal is not None:
                    self.condition.release()
                    raise BrokenError(self._refusal)
                if self._finish is None or self._owner == threading.get_ident():
                    return self
                finish = self._finish
                self.condition.release()
                finish()
        finally:
            self.waiting -= 1

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.condition.release()

    def refuse(self, reason: str) -> None:
        """Let nobody in any more."""
        self._refusal = reason

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which is called while an update or a query is in work: it cannot come in here itself."""

        def call(*arguments: Any) -> Any:
            self._calling = threading.get_ident()
            try:
                return function(*arguments)
            finally:
                self._calling = 0

        return call

    def begin(self, finish: Callable[[], None]) -> None:
        """An update is half done from now on, for all but this thread; `finish` waits until it is whole."""
        self._finish, self._owner = finish, threading.get_ident()

    def end(self) -> None:
        self._finish = None
