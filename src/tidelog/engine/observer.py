"""Who observes an update in work: a stream that looks ahead, or the live mode that takes new updates in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidelog.engine.transaction import Transaction


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


class Observer(Protocol):
    """Has its turn while an update is in work: between components, and whenever a kernel pauses."""

    @property
    def budget(self) -> int:
        """How many candidates a kernel may look at before it pauses."""

    @property
    def streams(self) -> bool:
        """Whether work is counted as for a stream, see `engine.marking.marking`."""

    @property
    def window(self) -> Window:
        """Open while an update is in work, except around what needs the terms."""

    def observe(self, transaction: Transaction) -> None:
        """May mark facts or wait, and raise to have the update rolled back. Must not run a kernel that has state."""

    def between_pieces(self) -> None:
        """Called in long work that cannot be left half done: may take new updates in, and must not raise."""
