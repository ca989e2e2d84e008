"""A sign of life from long work: who shows it sets a function for a thread, and the work calls it now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Count = Callable[[], int]
"""How many facts there are so far, about."""

_this_thread = threading.local()


@contextmanager
def shown_by(show: Callable[[Count], None]) -> Iterator[None]:
    """Within, `show` is called every few tens of milliseconds of work of this thread."""
    before = getattr(_this_thread, "show", None)
    _this_thread.show = show
    try:
        yield
    finally:
        _this_thread.show = before


def report(count: Count) -> None:
    """Called by the work."""
    show = getattr(_this_thread, "show", None)
    if show is not None:
        show(count)
