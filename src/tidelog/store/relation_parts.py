"""What a relation consists of: indexes, and its records where they are taken out of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.jit import address

Cells = npt.NDArray[np.int32]
Row = npt.NDArray[np.int64]


_NO_SLOTS: Cells = np.empty(0, np.int32)


class Index:
    """The facts of a relation by the values of some of its columns."""

    def __init__(self, number: int, columns: tuple[int, ...], fields: Row) -> None:
        self.number = number
        self.columns = columns
        self.fields = fields
        self._column_array = np.array(columns, np.int32)
        self.slots = np.full(8, R.EMPTY, np.int32)
        fields[X.COLUMN_COUNT] = len(columns)
        fields[X.COLUMNS] = address(self._column_array)

    def give_back(self) -> int:
        """Give the memory back: the index serves no more. Its number, for another one."""
        self.slots = _NO_SLOTS
        return self.number

    @property
    def distinct(self) -> int:
        """How many keys there are, dead facts included."""
        return int(self.fields[X.USED])


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a relation, taken out of it, with all that finds them."""

    cells: Cells
    keys: npt.NDArray[np.int64]
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
        """Put facts back to what entries of the undo log say."""
        facts, cells = entries[:, 1], 3 if self.has_counters else 1
        self.cells[facts, self.arity : self.arity + cells] = entries[:, 2 : 2 + cells]
