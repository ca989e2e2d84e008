"""Taking updates in beside the work: `kb.live()` opens a window while an update is in work.

To take an update in, its facts are encoded, and terms belong to the thread that works on the knowledge base. Most of
its work never touches them, however long it takes. While the window is open, whoever submits an update also takes in
what has come, in the submitting thread, so that nobody has to wait for a kernel to pause. What needs the terms is done
while nobody else takes anything in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Updates that one thread takes in before it goes on with its own business.
MOST = 32


class Window:
    """A context that is entered around the work, and `using_terms` within it. `waits` says whether something can be
    taken in, and `take_in` does so. Only one thread at a time calls it, and none while the window is shut.

    Both contexts are for the thread that works. They may be nested.
    """

    def __init__(self, waits: Callable[[], bool], take_in: Callable[[], None]) -> None:
        self._waits = waits
        self._take_in = take_in
        self._entered = 0
        self._alone = False
        self._permit = threading.Lock()
        self._permit.acquire()

    def __enter__(self) -> None:
        self._entered += 1
        if self._entered == 1:
            self._permit.release()
            self.use()

    def __exit__(self, *_: object) -> None:
        if self._entered == 1:
            self._permit.acquire()
        self._entered -= 1

    def use(self) -> None:
        """Take in what waits, unless the window is shut or another thread is doing so: each thread looks again when it
        is done, so that nothing is overlooked. What comes in too fast is left for the next thread that looks.
        """
        for _ in range(MOST):
            if not self._waits() or not self._permit.acquire(blocking=False):
                return
            try:
                self._take_in()
            finally:
                self._permit.release()

    @contextmanager
    def using_terms(self) -> Iterator[None]:
        """Within, nobody else takes anything in."""
        if self._alone or not self._entered:
            yield
            return
        with self._permit:
            self._alone = True
            try:
                yield
            finally:
                self._alone = False
