"""The facts of a relation that wait, and those in work: the queue of the next round, and the batch of this one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine import relation_fields as R
from tidelog.machine.growth import grown
from tidelog.machine.jit import address
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.store.records import RecordArray

# Longer queues are given back after each update.
KEPT = 1 << 12


class Queues:
    """The queue and the batch of one relation. Kernels swap the two by their addresses."""

    def __init__(self, relation: RecordArray, capacity: int) -> None:
        self._relation = relation
        self._queue: Cells = np.empty(capacity, np.int32)
        self._batch: Cells = np.empty(capacity, np.int32)

    def publish(self) -> None:
        fields = self._relation.fields
        fields[R.QUEUE], fields[R.QUEUE_CAPACITY] = address(self._queue), len(self._queue)
        fields[R.BATCH], fields[R.BATCH_CAPACITY] = address(self._batch), len(self._batch)

    def _follow_kernels(self) -> None:
        """Swap the arrays if kernels have swapped their addresses."""
        if self._relation.fields[R.QUEUE] == address(self._batch):
            self._queue, self._batch = self._batch, self._queue

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
            self._follow_kernels()
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
