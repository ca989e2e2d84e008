"""The window of an update: while it is open, other threads may encode facts beside the work."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Window(Protocol):
    """A context around the work, in which other threads may encode facts. It may be entered within itself."""

    def __enter__(self) -> object: ...

    def __exit__(self, *problem: object) -> object: ...

    def using_terms(self) -> AbstractContextManager[None]:
        """Within, no other thread encodes anything. It may be entered within itself."""


class ClosedWindow(nullcontext[None]):
    """The window of an update during which nobody else encodes anything."""

    def using_terms(self) -> AbstractContextManager[None]:
        return self


CLOSED = ClosedWindow()
