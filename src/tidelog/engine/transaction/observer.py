"""Who observes an update in work: a stream that looks ahead, or the live mode that takes new updates in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.engine.update.runner import Window

if TYPE_CHECKING:
    from tidelog.engine.transaction.transaction import Transaction


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
