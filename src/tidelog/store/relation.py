"""Relations: the facts of each predicate in records, and how they grow, are compacted, set aside and taken back.

Facts keep their number for as long as an update runs. A deleted fact stays as a dead record, so that a fact that
comes back costs nothing; when half of the records are dead, `compact` closes the gaps between two updates.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import LimitError
from tidelog.machine import array_memory as rooms
from tidelog.machine import flags as F
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import Pause, grown, no_pause, pieces, stretch
from tidelog.machine.jit import address
from tidelog.store.fact_table import FactTable
from tidelog.store.indexes import Index, Indexes
from tidelog.store.pair_bits import PairBits
from tidelog.store.relation_parts import Cells, Queues, Records, Row
from tidelog.store.update_kernels import load_rows

if TYPE_CHECKING:
    from tidelog.closures.closure import ReadableClosure
    from tidelog.store.store import Store

# Smaller arrays are copied when they grow: fresh memory comes in large pages, which cost a tenth.
MOVES_FROM = 1 << 26

# The limits of a relation. Fact numbers have 32 bits, and so has what an index computes with them.
MOST_COLLECTED = 1 << 20  # heads of rules that there is room for beyond the most facts
MOST_FACTS = (3 << 29) - MOST_COLLECTED  # dead ones included

# The room that is left to a relation without records: small ones come and go with their rules.
LEFT_ROOM = 32

# In smaller relations, dead records are not worth the work.
COMPACT_FROM = 1024


class Relation:
    """The facts of one predicate: its records, and what finds them or lets them wait. `fields` is its row in the
    relation table, which kernels read and write too.

    A record has the arguments of a fact, its flags, its two counters if it has any, and a link for each index.
    """

    def __init__(self, store: Store, number: int, name: str, arity: int, capacity: int) -> None:
        capacity = max(capacity, 2)
        self.store = store
        self.number = number
        self.name = name
        self.arity = arity
        self.has_counters = False
        self.explicit_count = 0
        # A closure whose pairs are the relation's facts; its records are then what changed in the update in work.
        self.closure: ReadableClosure | None = None
        self.was_empty = True
        # Whether every fact that is neither explicit nor counted has a derivation from facts of lower ranks.
        self.ranked = True
        # In a component that keeps best values: of which component it is, and how it keeps its own. See `best_values`.
        self.kept: Hashable = None
        self._links = 0  # of each record
        self._dead = 0  # at most this many records are dead
        self._dead_worth_counting = 0
        self.cells: Cells = self._room_for(capacity, self._width)
        self.table = FactTable(self, capacity)
        self.indexes = Indexes(self)
        self.queues = Queues(self, capacity)
        self.bits = PairBits(self)
        # From here on nothing can fail. Until now the row belonged to the relation that had the number before.
        self.fields[:] = 0
        self.fields[R.ARITY] = arity
        self.fields[R.CLEAN] = 1
        self._publish_records()
        for part in (self.table, self.indexes, self.queues):
            part.publish()

    # --- records ------------------------------------------------------------------------------------------------------

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
    def _width(self) -> int:
        """The cells of a record."""
        return self.first_link_column + self._links

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

    def _room_for(self, records: int, width: int) -> Cells:
        return rooms.empty((records, width), np.int32, self.store.spare)

    # --- size ---------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.table.nbytes + self.indexes.nbytes + self.queues.nbytes

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

    def __len__(self) -> int:
        return self.counted(no_pause)

    def counted(self, pause: Pause) -> int:
        """How many facts are shown; it may take a look at all records."""
        if self.closure is not None:
            return len(self.closure)
        shown = self.store.shown
        if self.clean and shown == F.IN:
            return self.count
        flags = self.flags
        # Piece by piece: the arrays in between are small enough for their memory to be used again.
        return sum(int(np.count_nonzero(flags[first:last] & shown)) for first, last in pieces(self.count, pause))

    def at_least(self) -> int:
        """No more than the facts that there are or were before the update in work; known without counting."""
        return len(self) if self.closure is not None else self.count - self._dead

    def is_new(self) -> bool:
        """Whether all of its facts came with the update that is in work."""
        return self.was_empty if self.closure is not None else bool(self.fields[R.START] == 0)

    def settle_start(self) -> None:
        """All records count as older than the next update."""
        self.fields[R.START] = self.fields[R.COUNT]

    def _set_count(self, count: int) -> None:
        """There are so many records, all older than the update."""
        self.fields[R.COUNT] = self.fields[R.START] = count

    def live(self) -> Cells:
        """The numbers of the facts in I, or of those that readers see."""
        return np.flatnonzero(self.flags & self.store.shown).astype(np.int32)

    def rows(self, facts: Cells | None = None) -> Cells:
        """The arguments of the given facts, or of all in I."""
        if facts is None and self.closure is not None:
            found = [np.stack(pair, axis=1) for pair in self.closure.pairs(1 << 20)]
            return np.concatenate(found) if found else np.empty((0, 2), np.int32)
        return self.cells[self.live() if facts is None else facts, : self.arity]

    # --- growth -------------------------------------------------------------------------------------------------------

    @property
    def room_left(self) -> int:
        """How many more facts it can have at most."""
        return MOST_FACTS - self.count

    def has_room(self, more: int) -> bool:
        """Whether there is room for `more` facts, though maybe not to wait."""
        needed = self.count + more
        return needed <= min(len(self.cells), self.fields[R.LIMIT]) and self.indexes.has_room(more)

    def reserve(self, more: int, known: bool = False) -> None:
        """Make room for `more` facts, also to wait. Where there is room, nothing is done.

        Kernels want room for all heads that they have collected, even if those are `known` to be there, and so may be
        too many for the relation.
        """
        self._reserve_facts(more, known)
        self.queues.reserve(more)

    def _reserve_facts(self, more: int, known: bool = False) -> None:
        needed = self.count + more
        if needed > MOST_FACTS + (MOST_COLLECTED if known else 0):
            raise LimitError(
                f"`{self.name}` needs room for {needed:,} facts, and a relation holds at most {MOST_FACTS:,}, "
                "those that were deleted of late among them; split the predicate"
            )
        if needed > len(self.cells):
            self._lengthen(needed)
        self.table.reserve(needed)
        self.indexes.reserve(more)

    def load(self, rows: Cells, flags: int) -> None:
        """Add the rows that are not there yet, with these flags."""
        self.reserve(len(rows))
        rows = np.ascontiguousarray(rows, np.int32)
        load_rows(self.store.machine, self.number, address(rows), len(rows), flags)

    def _lengthen(self, needed: int) -> None:
        # Large arrays grow by small steps: reallocation moves pages, not bytes, and users pay for slack.
        if self.cells.nbytes >= MOVES_FROM and self.cells.flags.owndata:
            capacity = max(needed, min(int(len(self.cells) * 1.125), MOST_FACTS))
            stretch(self.cells, (capacity, self.cells.shape[1]))
        else:
            length = max(needed, min(2 * len(self.cells), MOST_FACTS))
            self.cells = grown(self.cells, length, self.count, self.store.hooks.between_pieces, self.store.spare)
        # At once: the memory may run out before the table and the indexes have grown as well.
        self._publish_records()

    def _insert(self, column: int, cells: int) -> None:
        """Give every record more cells, at zero, before a column. The caller publishes them."""
        end, width = column + cells, self._width
        wider = self._room_for(len(self.cells), width + cells)
        for first, last in pieces(self.count, self.store.hooks.between_pieces):
            wider[first:last, :column] = self.cells[first:last, :column]
            wider[first:last, column:end] = 0
            wider[first:last, end:] = self.cells[first:last, column:width]
        self.cells = wider

    def index_on(self, columns: tuple[int, ...]) -> Index:
        """The index on these columns; it is built now if there is none yet."""
        for index in self.indexes:
            if index.columns == columns:
                return index
        with self.store.making_for(self):
            made = self.store.new_index(columns)
            made.slots = self.indexes.empty_slots(max(8, self.count // 4))
            self._insert(self._width, 1)
            self._publish_records()
            self.indexes.add(made)
            self._links += 1
            return made

    def add_counters(self) -> None:
        """Give every record its two counters, at zero."""
        if not self.has_counters:
            self._insert(self.first_link_column, 2)
            self.has_counters = True
            self._publish_records()
            self.indexes.publish()

    # --- facts that are not in the hash table -------------------------------------------------------------------------

    def postpone_table(self, coming: int) -> bool:
        """Let new facts stay out of the hash table until somebody looks for one, and let their bits tell whether they
        are known. Returns whether that is possible: only if no plan looks for single facts, and if the bits that are
        set are those of all facts and of so many that are about to come. Whatever has no bit is then new.
        """
        if not self.bits.kept or not self.clean or self.table.probed:
            return False
        self.bits.complete()
        if self.bits.count() != self.count + coming:
            return False
        self.table.hold(self.count)
        return True

    def expect_different(self, facts: int) -> None:
        """At most so many facts, all different, are about to come into this empty relation: they too stay out of the
        hash table until somebody looks for one.
        """
        self.table.hold(0)
        self._reserve_facts(facts)

    def drop_untabled(self) -> None:
        """Take out the facts that are not in the hash table, all of them new in this update; needs no memory."""
        if self.table.tabled is not None:
            self.fields[R.COUNT] = self.table.tabled
            self.table.hold(None)
            self.indexes.chain_again()

    # --- compaction ---------------------------------------------------------------------------------------------------

    def compact(self) -> Cells:
        """Drop the dead records; an explicit fact that is not the best of its group is none of them. Only between
        updates: the new number of a fact is its place in what is returned. If memory runs out, nothing changes.
        """
        alive = np.flatnonzero(self.flags & (self.store.shown | F.EXPLICIT)).astype(np.int32)
        cells = self._room_for(max(2, int(len(alive) * 1.125)), self._width)
        cells[: len(alive)] = self.cells[alive, : cells.shape[1]]
        slots = self.indexes.slots_for(len(alive))
        queue, batch = np.empty(2, np.int32), np.empty(2, np.int32)
        keys, facts = self.table.empty(len(alive))
        self.cells = cells
        self._publish_records()
        self.queues.replace(queue, batch)
        self._set_count(len(alive))
        self.fields[R.CLEAN] = bool((self.flags & F.IN).all())
        self.table.fill(keys, facts)
        self.indexes.rebuild(slots)
        return alive

    def tidy(self) -> Cells | None:
        """Compact if more than half of the records are dead, or fewer if there is little room left; looks at the
        records only when that is likely.
        """
        count = self.count
        self.table.shrink(max(count, COMPACT_FROM))
        enough = count // (8 if self.room_left < count // 4 else 2) + 1
        if count <= COMPACT_FROM or self._dead < max(enough, self._dead_worth_counting):
            return None
        self._dead = count - self._count_kept()
        if self._dead < enough:
            # Facts that come and go are taken for dead each time: with as many alive every update would count all.
            self._dead_worth_counting = self._dead + count // 8
            return None
        alive = self.compact()
        self._dead = self._dead_worth_counting = 0
        return alive

    def _count_kept(self) -> int:
        """How many records compaction would keep."""
        return self.count if self.clean else int(np.count_nonzero(self.flags & (self.store.shown | F.EXPLICIT)))

    def clear(self) -> None:
        """Forget every fact; for relations that only serve within an update."""
        if self.count == 0:
            return
        self._set_count(0)
        self.table.clear()
        self.indexes.clear()
        # What one large update needed is not kept for the small ones after it.
        if len(self.cells) > COMPACT_FROM:
            with suppress(MemoryError):
                self.compact()

    def become_closure(self, closure: ReadableClosure | None) -> None:
        """Let the facts be those of a closure from now on, or lie in records again; the records are emptied."""
        self.clear()
        self.see_closure(closure)

    def see_closure(self, closure: ReadableClosure | None) -> None:
        """The same, while the records tell what changed."""
        self.closure = closure
        self.fields[R.CLOSURE] = 0 if closure is None else closure.view

    # --- all records at once ------------------------------------------------------------------------------------------

    def set_aside(self) -> Records:
        """Take all records out. `take_back` needs no memory to put them in again."""
        found = Records(
            self.cells,
            self.table.keys,
            self.table.facts,
            self.indexes.take_out(),
            self.table.tabled,
            self.count,
            self.arity,
            self.has_counters,
            self.clean,
            self._dead,
            self.explicit_count,
        )
        cells = np.zeros((LEFT_ROOM, self._width), np.int32)
        indexes = tuple((index, np.full(8, R.EMPTY, np.int32), 0) for index in self.indexes)
        keys, facts = self.table.empty(LEFT_ROOM)
        self._hold(Records(cells, keys, facts, indexes, None, 0, self.arity, self.has_counters, True, 0, 0))
        return found

    def show(self, records: Records) -> None:
        """Let these be the records, which belong to another relation: they are only read, by indexes of its own."""
        self.store.check_at_rest()
        indexes = tuple((self.store.new_index(index.columns), slots, keys) for index, slots, keys in records.indexes)
        self._hold(replace(records, indexes=indexes))

    def let_go(self) -> None:
        """Forget what is shown, and leave it as it is."""
        self.closure = None
        self.fields[R.CLOSURE] = 0
        self.set_aside()

    def take_back(self, records: Records) -> None:
        """Let these be the records again, instead of those that lie here now, or of a closure."""
        self.closure = None
        self.fields[R.CLOSURE] = 0
        self._hold(records)

    def _hold(self, records: Records) -> None:
        self.cells = records.cells
        self.has_counters = records.has_counters
        self._links = len(records.indexes)
        self._publish_records()
        self.indexes.put_back(records.indexes)
        self._set_count(records.count)
        self.fields[R.CLEAN] = records.clean
        self._dead = records.dead
        self.explicit_count = records.explicit_count
        self.table.replace(records.keys, records.facts, records.tabled)
