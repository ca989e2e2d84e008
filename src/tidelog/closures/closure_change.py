"""What one change did to a closure, as its readers see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.closures.memory import Ints
from tidelog.machine.array_memory import Cells
from tidelog.machine.growth import Pause, no_pause

if TYPE_CHECKING:
    from tidelog.closures.closure import Closure
    from tidelog.closures.history import Moment

Edges = tuple[Ints, Ints]

PIECE = 1 << 16


class ClosureChange:
    """The net effect of a change: how many pairs appeared and vanished, and which.

    They can be read at any time and by any thread. Until the next change the closure knows them. Afterwards they are
    found again in a copy of what it was, which takes as long as to build that.
    """

    def __init__(self, closure: Closure, moment: Moment, added_count: int, removed_count: int) -> None:
        self.added_count = added_count
        self.removed_count = removed_count
        self._closure = closure
        self._moment = moment

    def count(self, added: bool) -> int:
        return self.added_count if added else self.removed_count

    def added(self) -> Edges:
        """The pairs that appeared, as terms."""
        return self._all(True)

    def removed(self) -> Edges:
        """The pairs that vanished, as terms."""
        return self._all(False)

    def _all(self, added: bool) -> Edges:
        pairs = self.rows(added, self.count(added))
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def rows(self, added: bool, most: int, look: Pause = no_pause) -> Cells:
        """The first pairs that appeared, or vanished; a row each. Between two pieces `look` may raise."""
        rows = np.empty((min(most, self.count(added)), 2), np.int32)
        if len(rows) == 0:
            return rows
        filled = 0
        with self._closure.at(self._moment, look) as closure:
            pieces = closure.changed_pairs(added, min(PIECE, len(rows)))
            while filled < len(rows):
                source, target = next(pieces)
                place = rows[filled : filled + len(source)]
                place[:, 0], place[:, 1] = source[: len(place)], target[: len(place)]
                filled += len(place)
                look()
        return rows

    def chunks(self, added: bool, size: int = PIECE) -> Iterator[Edges]:
        """The pairs in pieces of at least `size`, as far as there are so many, and not many more; for whoever changes
        the closure, before the next change.
        """
        if self.count(added):
            self._expect_no_other()
            for piece in self._closure.changed_pairs(added, size):
                yield piece
                self._expect_no_other()

    def _expect_no_other(self) -> None:
        if self._moment.version != self._closure.version:
            raise RuntimeError("The closure has changed since. Read what a change did before the next one.")
