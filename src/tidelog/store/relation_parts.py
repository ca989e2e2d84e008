"""The arrays of relations, and the records of a relation after they were taken out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine import array_memory as rooms

if TYPE_CHECKING:
    from tidelog.store.indexes import Index

Cells = rooms.Cells
Row = rooms.Longs


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a relation, taken out of it, with the arrays by which they are found."""

    cells: Cells
    keys: Row
    facts: Cells
    indexes: tuple[tuple[Index, Cells, int], ...]
    tabled: int | None
    count: int
    arity: int
    has_counters: bool
    clean: bool
    dead: int
    explicit_count: int

    def count_of(self, flag: int) -> int:
        """How many facts have a flag."""
        return int(np.count_nonzero(self.cells[: self.count, self.arity] & flag))

    def rows(self, flag: int) -> Cells:
        """The arguments of the facts that have a flag."""
        records = self.cells[: self.count]
        return records[(records[:, self.arity] & flag) != 0, : self.arity]

    def restore(self, entries: Row) -> None:
        """Put facts back to what they were according to entries of the undo log."""
        facts, cells = entries[:, 1], 3 if self.has_counters else 1
        self.cells[facts, self.arity : self.arity + cells] = entries[:, 2 : 2 + cells]
