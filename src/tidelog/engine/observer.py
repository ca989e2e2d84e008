"""Whoever looks in while an update is in work: a stream that looks ahead, or the fully dynamic mode."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidelog.engine.transaction import Transaction


class Opening(Protocol):
    """A context in which others may encode facts. It may be entered within itself."""

    def __enter__(self) -> object: ...

    def __exit__(self, *problem: object) -> object: ...

    def alone(self) -> AbstractContextManager[None]:
        """For what needs the terms: within, nobody else encodes anything. It may be entered within itself."""


class Shut:
    """The window of whoever takes nothing in."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *problem: object) -> None:
        pass

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()


SHUT = Shut()


class Attendant(Protocol):
    """Somebody who looks in while an update is in work: between components, and whenever a kernel pauses."""

    @property
    def budget(self) -> int:
        """Candidates that a kernel may look at before it pauses."""

    @property
    def streams(self) -> bool:
        """Whether work is counted as for a stream, see `engine.marking.marking`."""

    def attend(self, transaction: Transaction) -> None:
        """May mark facts or wait, and raise to have the update rolled back; no kernel with state of its own may run."""

    def breathe(self) -> None:
        """Something long is done that cannot be left half done: may take new work in, and must not raise."""

    @property
    def window(self) -> Opening:
        """What is open while an update is in work, but for what needs the terms."""
