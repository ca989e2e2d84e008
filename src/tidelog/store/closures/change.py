"""What one change did to a closure, as its readers see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.store.closures.memory import Ints

if TYPE_CHECKING:
    from tidelog.store.closures.closure import Closure

Edges = tuple[Ints, Ints]


class ClosureChange:
    """The net effect of a change: how many pairs appeared and vanished, and which; to be read before the next one."""

    def __init__(self, closure: Closure, added_count: int, removed_count: int) -> None:
        self.added_count = added_count
        self.removed_count = removed_count
        self._closure = closure
        self._version = closure.version

    def added(self) -> Edges:
        """The pairs that appeared, as terms."""
        return self._all(True, self.added_count)

    def removed(self) -> Edges:
        """The pairs that vanished, as terms."""
        return self._all(False, self.removed_count)

    def chunks(self, added: bool, size: int = 1 << 16) -> Iterator[Edges]:
        """The same in pieces of at least `size` pairs, as far as there are so many, and not many more."""
        if self._version != self._closure.version:
            raise RuntimeError("The closure has changed since. Read what a change did before the next one.")
        if self.added_count if added else self.removed_count:
            yield from self._closure.changed_pairs(added, size)

    def _all(self, added: bool, count: int) -> Edges:
        """One piece that has room for everything."""
        nothing = np.empty(0, np.int32), np.empty(0, np.int32)
        return next(self.chunks(added, count), nothing)
