"""Taking updates in beside the work: `kb.live()` opens a window while a kernel runs that leaves the terms alone.

To take an update in means to encode its facts, and terms belong to the thread that works on the knowledge base. Most
kernels never look at them, however long they run. While one of those runs, whoever submits an update takes in what has
come, in his own thread, and nobody has to wait for the kernel to pause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Window:
    """A context that is entered around such work. `waits` says whether there is something that can be taken in, and
    `take_in` does so; only one thread at a time is in it, and none while the window is shut.
    """

    def __init__(self, waits: Callable[[], bool], take_in: Callable[[], None]) -> None:
        self._waits = waits
        self._take_in = take_in
        self._open = False
        self._permit = threading.Lock()
        self._permit.acquire()

    def __enter__(self) -> None:
        self._open = True
        self._permit.release()
        self.use()

    def __exit__(self, *_: object) -> None:
        self._permit.acquire()
        self._open = False

    def use(self) -> None:
        """Take in what waits, unless the window is shut or somebody else is at it: each looks again when he has left,
        so that nothing is overlooked.
        """
        while self._waits() and self._permit.acquire(blocking=False):
            try:
                self._take_in()
            finally:
                self._permit.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For the thread that works: within, nobody else takes anything in."""
        if not self._open:
            yield
            return
        with self._permit:
            yield
