"""The indexes of a relation: the facts by the values of some of their columns, in chains through the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine import array_memory as rooms
from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import pieces
from tidelog.machine.jit import address
from tidelog.store.relation_kernels import rebuild_index
from tidelog.store.relation_parts import Cells, Row

if TYPE_CHECKING:
    from tidelog.store.relation import Relation

# The product of a hash with the slots of an index must fit 64 bits. These are enough for the facts of any relation.
MOST_SLOTS = 1 << 31

MAXIMUM_LOAD = 0.75

NO_SLOTS: Cells = np.empty(0, np.int32)


class Index:
    """The facts of a relation by the values of some of its columns. `fields` is its row in the index table."""

    def __init__(self, number: int, columns: tuple[int, ...], fields: Row) -> None:
        self.number = number
        self.columns = columns
        self.fields = fields
        self._column_array = np.array(columns, np.int32)
        self.slots = np.full(8, R.EMPTY, np.int32)
        fields[X.COLUMN_COUNT] = len(columns)
        fields[X.COLUMNS] = address(self._column_array)

    def use(self, slots: Cells) -> None:
        self.slots = slots
        self.fields[X.SLOTS], self.fields[X.SLOT_COUNT] = address(slots), len(slots)

    @property
    def distinct(self) -> int:
        """How many keys there are, those of dead facts included."""
        return int(self.fields[X.USED])


class Indexes:
    """All indexes of one relation. The links of each are a column of the records."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._all: list[Index] = []
        self._numbers: Row = np.zeros(2, np.int64)

    def __iter__(self) -> Iterator[Index]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def nbytes(self) -> int:
        return sum(index.slots.nbytes for index in self._all)

    def publish(self) -> None:
        relation = self._relation
        if len(self._numbers) < len(self._all):
            self._numbers = np.zeros(2 * len(self._all), np.int64)
        relation.fields[R.INDEXES] = address(self._numbers)
        relation.fields[R.INDEX_COUNT] = len(self._all)
        for position, index in enumerate(self._all):
            self._numbers[position] = index.number
            self._place(index, position)

    def _place(self, index: Index, position: int) -> None:
        """Let an index have its links at a position among those of a record."""
        index.fields[X.RELATION] = self._relation.number
        index.fields[X.LINK] = 4 * (self._relation.first_link_column + position)
        index.use(index.slots)

    def add(self, index: Index) -> None:
        """Build an index, for which the records have room already. Nobody finds it before it is whole."""
        self._place(index, len(self._all))
        self._build(index)
        self._all.append(index)
        self.publish()

    def _build(self, index: Index) -> None:
        # The number of distinct keys is not known before: build, and grow if the table turns out too small.
        while not self._chain(index.number):
            index.use(self.empty_slots(2 * len(index.slots)))

    def _chain(self, number: int) -> bool:
        """Chain every record into an empty index; whether its table is large enough."""
        store = self._relation.store
        ranges = pieces(self._relation.count, store.hooks.between_pieces)
        return all(rebuild_index(store.machine, number, *piece) >= 0 for piece in ranges)

    def empty_slots(self, count: int) -> Cells:
        return rooms.full(min(count, MOST_SLOTS), R.EMPTY, np.int32, self._relation.store.spare)

    def has_room(self, more: int) -> bool:
        """Whether `more` keys fit into every index."""
        return not any(self._too_small(more))

    def reserve(self, more: int) -> None:
        """Make room for `more` keys in every index."""
        for index in self._too_small(more):
            slots = self.empty_slots(max(2 * len(index.slots), int(1.5 * (index.distinct + more))))
            # Links stay as they are, since each key has its own chain: until all slots are filled, facts are found by
            # the present ones.
            with self._relation.store.draft_of_index(index) as (number, fields):
                fields[X.SLOTS], fields[X.SLOT_COUNT] = address(slots), len(slots)
                self._chain(number)
            index.use(slots)

    def _too_small(self, more: int) -> Iterator[Index]:
        return (index for index in self._all if index.distinct + more > MAXIMUM_LOAD * len(index.slots))

    def slots_for(self, facts: int) -> list[Cells]:
        """Empty slots for each index, if there are so many facts."""
        return [self.empty_slots(2 * max(4, min(index.distinct, facts))) for index in self._all]

    def rebuild(self, slots: list[Cells]) -> None:
        """Chain every record into other slots, which are empty."""
        for index, empty in zip(self._all, slots, strict=True):
            index.use(empty)
            self._build(index)

    def chain_again(self) -> None:
        """Chain every record anew: some are gone. Needs no memory."""
        for index in self._all:
            index.slots.fill(R.EMPTY)
            self._chain(index.number)

    def clear(self) -> None:
        for index in self._all:
            index.slots.fill(R.EMPTY)
            index.fields[X.USED] = 0

    def take_out(self) -> tuple[tuple[Index, Cells, int], ...]:
        """Every index with its slots and the number of its keys."""
        return tuple((index, index.slots, index.distinct) for index in self._all)

    def put_back(self, taken: tuple[tuple[Index, Cells, int], ...]) -> None:
        """Let these be the indexes, with these slots and keys."""
        self._all = [index for index, _, _ in taken]
        for index, slots, distinct in taken:
            index.slots = slots
            index.fields[X.USED] = distinct
        self.publish()
