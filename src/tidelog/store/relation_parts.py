"""The queues of a relation, and its records after they were taken out of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine import array_memory as rooms
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import grown
from tidelog.machine.jit import address

if TYPE_CHECKING:
    from tidelog.store.indexes import Index
    from tidelog.store.relation import Relation

Cells = rooms.Cells
Row = rooms.Longs

# Longer queues are given back after each update.
KEPT = 1 << 12


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


class Queues:
    """The facts of a relation that wait for the next round, and the batch of this one. Kernels swap the two by their
    addresses.
    """

    def __init__(self, relation: Relation, capacity: int) -> None:
        self._relation = relation
        self._queue: Cells = np.empty(capacity, np.int32)
        self._batch: Cells = np.empty(capacity, np.int32)

    def publish(self) -> None:
        fields = self._relation.fields
        fields[R.QUEUE], fields[R.QUEUE_CAPACITY] = address(self._queue), len(self._queue)
        fields[R.BATCH], fields[R.BATCH_CAPACITY] = address(self._batch), len(self._batch)

    @property
    def nbytes(self) -> int:
        return self._queue.nbytes + self._batch.nbytes

    @property
    def waiting(self) -> int:
        """How many facts wait."""
        return int(self._relation.fields[R.QUEUE_COUNT])

    def reserve(self, more: int) -> None:
        """Make room for `more` facts to wait."""
        fields = self._relation.fields
        needed = int(fields[R.QUEUE_COUNT]) + more
        if needed > fields[R.QUEUE_CAPACITY]:
            if fields[R.QUEUE] == address(self._batch):  # Kernels have swapped them.
                self._queue, self._batch = self._batch, self._queue
            self._queue = grown(self._queue, max(needed, 2 * len(self._queue)), spare=self._relation.store.spare)
            self.publish()

    def release(self) -> None:
        """Give the memory of long queues back: only an update uses them."""
        if max(len(self._queue), len(self._batch)) > KEPT:
            with suppress(MemoryError):  # If there is none for short ones, the long ones stay.
                self.replace(self._queue[:KEPT].copy(), self._batch[:KEPT].copy())

    def replace(self, queue: Cells, batch: Cells) -> None:
        """Use other arrays, while no fact waits."""
        self._queue, self._batch = queue, batch
        self.publish()

    def clear(self) -> None:
        fields = self._relation.fields
        fields[R.QUEUE_COUNT] = fields[R.BATCH_COUNT] = 0
