"""Progress in notebooks: an update that takes long shows the time so far and the facts that it has found.

How much is left is not known, so the bar only says that something happens. It goes when the update is over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.runtime import progress

PATIENCE = 1.0
INTERVAL = 0.25


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook: nobody else has loaded IPython and has a kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def progress_shown() -> Iterator[None]:
    """Within, work that takes longer than a second shows its progress, if this is a notebook."""
    if not is_notebook():
        yield
        return
    bar = _Bar()
    with progress.shown_by(bar.show):
        try:
            yield
        finally:
            bar.clear()


class _Bar:
    """An output below the cell, which is replaced as the work goes on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = self._began + PATIENCE
        self._handle: Any = None

    def show(self, count: progress.Count) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        self._draw(f"<progress></progress> {now - self._began:.1f} s, {count():,} facts")

    def clear(self) -> None:
        if self._handle is not None:
            self._draw("")

    def _draw(self, html: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(html), display_id=True)
        else:
            self._handle.update(HTML(html))
