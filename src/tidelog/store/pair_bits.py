"""A dense relation of pairs as a bit matrix besides, while many facts come and none goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.machine import array_memory as rooms
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import pieces
from tidelog.machine.jit import address
from tidelog.store.relation_kernels import note_pairs
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.store.relation import Relation

# While many pairs are derived, a relation with at least this many is kept as a bit matrix, if that takes at most so
# many bytes for each fact, or in all: finding a bit in a near cache is several times cheaper than probing a table.
PAIRS_FROM = 1 << 12
PAIR_BYTES = 16
PAIRS_AT_LEAST = 1 << 20


class PairBits:
    """The bits of one relation's facts, and of those that are about to come."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._words: npt.NDArray[np.int64] | None = None
        self.dense = False  # whether facts were kept as bits the last time that many came
        # The largest terms of each column, and how many records have been looked at for them.
        self._largest: Cells = np.zeros(2, np.int32)
        self._looked = 0

    @property
    def kept(self) -> bool:
        return self._words is not None

    def keep(self) -> None:
        """Keep the facts as bits too if they are dense enough, until `forget`: nothing may leave I before."""
        relation = self._relation
        if relation.arity != 2 or relation.count < PAIRS_FROM or relation.closure is not None:
            return
        rows, last = (int(term) + 1 for term in self._largest_terms())
        words = -(-last // 64)
        fields = relation.fields
        if self.kept and rows <= fields[R.PAIR_ROWS] and words <= fields[R.PAIR_COLUMNS] // 64:
            return
        self.dense = 8 * rows * words <= max(PAIR_BYTES * relation.count, PAIRS_AT_LEAST)
        if not self.dense:
            return
        columns = 64 * words
        # Behind the matrix is room for joins row by row: as long again, and untouched unless a rule uses it.
        larger = rooms.zeros(2 * rows * words + 3 * rows + words + columns // 2, np.int64)
        if self.kept:
            # Facts that are about to come have bits already.
            matrix = self._matrix()
            larger[: rows * words].reshape(rows, words)[: matrix.shape[0], : matrix.shape[1]] = matrix
        self._words = larger
        fields[R.PAIRS], fields[R.PAIR_ROWS], fields[R.PAIR_COLUMNS] = address(larger), rows, columns
        self.complete()

    def _largest_terms(self) -> Cells:
        """The largest term of each column, where only the records that are new are looked at."""
        relation = self._relation
        new = relation.cells[self._looked : relation.count, :2]
        if len(new):
            for first, last in pieces(len(new), relation.store.hooks.between_pieces):
                self._largest = np.maximum(self._largest, new[first:last].max(axis=0))
            self._looked = relation.count
        return self._largest

    def complete(self) -> None:
        """Set the bits of all facts."""
        relation = self._relation
        for first, last in pieces(relation.count, relation.store.hooks.between_pieces):
            note_pairs(relation.store.machine, relation.number, first, last)

    def count(self) -> int:
        """How many bits are set."""
        return int(np.bitwise_count(self._matrix().view(np.uint64)).sum())

    def _matrix(self) -> npt.NDArray[np.int64]:
        """The bits, a row for each first argument."""
        fields = self._relation.fields
        rows, words = int(fields[R.PAIR_ROWS]), int(fields[R.PAIR_COLUMNS]) // 64
        assert self._words is not None
        return self._words[: rows * words].reshape(rows, words)

    def forget(self) -> None:
        self._words, self._looked = None, 0
        self._largest = np.zeros(2, np.int32)
        self._relation.fields[R.PAIRS] = 0
