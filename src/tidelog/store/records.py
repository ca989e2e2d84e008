"""The records of a relation: how a record is laid out, how many there are, and how their array grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import LimitError
from tidelog.machine import array_memory as rooms
from tidelog.machine import flags as F
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import grown, no_pause, pieces, stretch
from tidelog.machine.jit import address
from tidelog.store.relation_parts import Cells, Row

if TYPE_CHECKING:
    from tidelog.store.store import Store

# Smaller arrays are copied when they grow: fresh memory comes in large pages, which cost a tenth.
MOVES_FROM = 1 << 26

# The limits of a relation. Fact numbers have 32 bits, and so has what an index computes with them.
MOST_COLLECTED = 1 << 20  # heads of rules that there is room for beyond the most facts
MOST_FACTS = (3 << 29) - MOST_COLLECTED  # dead ones included


class RecordArray:
    """The records of one relation. `fields` is its row in the relation table, which kernels read and write too.

    A record has the arguments of a fact, its flags, its two counters if it has any, and a link for each index.
    """

    def __init__(self, store: Store, number: int, name: str, arity: int, counters: bool, capacity: int) -> None:
        self.store = store
        self.number = number
        self.name = name
        self.arity = arity
        self.has_counters = counters
        self.explicit_count = 0
        self._links = 0  # of each record
        self._dead = 0  # at most this many records are dead
        self.cells: Cells = self._room_for(capacity, self._width)

    # --- layout -------------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> Row:
        return self.store.relation_table[self.number]

    @property
    def flags_column(self) -> int:
        return self.arity

    @property
    def counter_columns(self) -> tuple[int, int]:
        """The columns of the non-recursive and the recursive counter."""
        return self.arity + 1, self.arity + 2

    @property
    def first_link_column(self) -> int:
        return self.arity + (3 if self.has_counters else 1)

    @property
    def counters(self) -> Cells:
        """The two counters of every record, as a view."""
        first = self.counter_columns[0]
        return self.cells[: self.count, first : first + 2]

    @property
    def flags(self) -> Cells:
        """The flags of every record, as a view."""
        return self.cells[: self.count, self.flags_column]

    def _publish_records(self) -> None:
        fields = self.fields
        fields[R.CELLS] = address(self.cells)
        fields[R.WIDTH] = self.cells.shape[1] * 4
        fields[R.CAPACITY] = self.cells.shape[0]
        fields[R.FLAGS] = self.flags_column * 4
        fields[R.COUNTERS] = self.counter_columns[0] * 4 if self.has_counters else 0

    # --- size ---------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Records in use, dead ones included."""
        return int(self.fields[R.COUNT])

    @property
    def clean(self) -> bool:
        """Whether every record is in I or waits to be."""
        return bool(self.fields[R.CLEAN])

    def mark_unclean(self) -> None:
        """From now on a record may be dead: a fact that is found need not be in I."""
        self.fields[R.CLEAN] = 0

    def note_dead(self, records: int) -> None:
        """That many more records may be dead."""
        if records:
            self._dead += records
            self.mark_unclean()

    def live(self) -> Cells:
        """The numbers of the facts in I."""
        return np.flatnonzero(self.flags & F.IN).astype(np.int32)

    def _live_count(self) -> int:
        if self.clean:
            return self.count
        flags = self.flags
        # Piece by piece: the arrays in between are small enough for their memory to be used again.
        return sum(int(np.count_nonzero(flags[first:last] & F.IN)) for first, last in pieces(self.count, no_pause))

    def settle_start(self) -> None:
        """All records count as older than the next update."""
        self.fields[R.START] = self.fields[R.COUNT]

    def _set_count(self, count: int) -> None:
        """There are so many records, all older than the update."""
        self.fields[R.COUNT] = self.fields[R.START] = count

    # --- growth -------------------------------------------------------------------------------------------------------

    @property
    def room_left(self) -> int:
        """How many more facts it can have at most."""
        return MOST_FACTS - self.count

    def _reserve_records(self, more: int, known: bool = False) -> None:
        """Make room for `more` records. Heads that are all `known` to be there may be too many for the relation."""
        needed = self.count + more
        if needed > MOST_FACTS + (MOST_COLLECTED if known else 0):
            raise LimitError(
                f"`{self.name}` needs room for {needed:,} facts, and a relation holds at most {MOST_FACTS:,}, "
                "those that were deleted of late among them; split the predicate"
            )
        if needed <= self.cells.shape[0]:
            return
        # Large arrays grow by small steps: reallocation moves pages, not bytes, and users pay for slack.
        if self.cells.nbytes >= MOVES_FROM and self.cells.flags.owndata:
            capacity = max(needed, min(int(self.cells.shape[0] * 1.125), MOST_FACTS))
            stretch(self.cells, (capacity, self.cells.shape[1]))
        else:
            length = max(needed, min(2 * self.cells.shape[0], MOST_FACTS))
            self.cells = grown(self.cells, length, self.count, self.store.hooks.between_pieces, self.store.spare)
        # At once: the memory may run out before the table and the indexes have grown as well.
        self._publish_records()

    def _pieces(self, count: int) -> Iterator[tuple[int, int]]:
        """Long work that cannot be left half done, piece by piece."""
        return pieces(count, self.store.hooks.between_pieces)

    @property
    def _width(self) -> int:
        """The cells of a record."""
        return self.first_link_column + self._links

    def _room_for(self, records: int, width: int) -> Cells:
        return rooms.empty((records, width), np.int32, self.store.spare)

    def _widen(self) -> None:
        """Give every record room for one more link."""
        width = self._width
        wider = self._room_for(self.cells.shape[0], width + 1)
        for first, last in self._pieces(self.count):
            wider[first:last, :width] = self.cells[first:last, :width]
        self.cells = wider
        self._publish_records()

    def _insert_counters(self) -> None:
        """Give every record its two counters, at zero, before its links."""
        links, width = self.first_link_column, self._width
        wider = self._room_for(self.cells.shape[0], width + 2)
        for first, last in self._pieces(self.count):
            wider[first:last, :links] = self.cells[first:last, :links]
            wider[first:last, links : links + 2] = 0
            wider[first:last, links + 2 :] = self.cells[first:last, links:width]
        self.cells = wider
        self.has_counters = True
        self._publish_records()
