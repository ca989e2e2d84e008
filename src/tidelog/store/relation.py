"""Relations: the owner of the arrays behind each predicate, how they grow, and how they are compacted.

Facts keep their number for as long as an update runs. A deleted fact stays as a dead record, so that a fact that
comes back costs nothing; when half of the records are dead, `compact` closes the gaps between two updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.errors import LimitError
from tidelog.machine import array_memory as rooms
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import grown, no_breath, pieces, stretch
from tidelog.machine.jit import address
from tidelog.store.pair_bits import PairBits
from tidelog.store.relation_kernels import move_table, rebuild_index, rebuild_table
from tidelog.store.relation_parts import Cells, Index, Records, Row

if TYPE_CHECKING:
    from tidelog.closures.readable import ReadableClosure

# The table grows at this load. Linear probing over groups of eight stays short, and a fact costs 15 to 22 bytes there.
MAXIMUM_LOAD = 0.8

# So many facts may wait in a relation without new memory, which the others give back after each update.
QUEUE_KEPT = 1 << 12

# Room that a table gets which is made for all facts at once.
TABLE_SLACK = 1.125

NO_LIMIT = 1 << 62

# Room that a relation is left with which has lost all records: small ones come and go with their rules.
LEFT_ROOM = 32

# Records are copied to grow below this size: fresh memory comes in large pages, a tenth of the cost.
MOVES_FROM = 1 << 26

# Slots for each record from which on a table is made smaller.
SPARSE = 2.5

# Fact numbers and the product of a hash with the slots of an index are computed with what 32 and 64 bits hold: an index
# has at most so many slots, which are enough for as many facts as a relation can have, dead ones among them.
MOST_SLOTS = 1 << 31
MOST_COLLECTED = 1 << 20  # heads of rules for which there is room beyond that
MOST_FACTS = (3 << 29) - MOST_COLLECTED

# Dead records of smaller relations are not worth the work.
COMPACT_FROM = 1024


class Relation:
    """One predicate's facts. `fields` is its row in the relation table, which kernels read and write too."""

    def __init__(self, store: Any, number: int, name: str, arity: int, counters: bool, capacity: int) -> None:
        self.store = store
        self.number = number
        self.name = name
        self.arity = arity
        self.has_counters = counters
        self.indexes: list[Index] = []
        self._index_numbers: Row = np.zeros(2, np.int64)
        self.explicit_count = 0
        self.probed = False  # whether a plan looks for single facts
        # A closure whose pairs are the relation's facts; its records are then what changed in the update in work.
        self.closure: ReadableClosure | None = None
        self.was_empty = True
        # Whether every fact that is neither explicit nor counted has a derivation from facts of lower ranks.
        self.ranked = True
        self._dead = 0  # at most that many records are dead
        self._dead_worth_counting = 0
        capacity = max(capacity, 2)
        self.cells: Cells = self._room_for(capacity, self._record_cells())
        self._queue: Cells = np.empty(capacity, np.int32)
        self._batch: Cells = np.empty(capacity, np.int32)
        self._keys, self._facts = self._empty_table(_groups_for(capacity))
        self.bits = PairBits(self)
        self._tabled: int | None = None  # how many facts are in the table, if not all
        # From here on nothing can fail: until then the row belongs to the relation before, where its number had one.
        self.fields[:] = 0
        self.fields[R.ARITY] = arity
        self.fields[R.CLEAN] = 1
        self._publish()

    # --- layout of a record -------------------------------------------------------------------------------------------

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
    def counters(self) -> Cells:
        """The two counters of every record, where they lie."""
        first = self.counter_columns[0]
        return self.cells[: self.count, first : first + 2]

    def _first_link_column(self) -> int:
        return self.arity + (3 if self.has_counters else 1)

    def _record_cells(self) -> int:
        return self._first_link_column() + len(self.indexes)

    def _publish(self) -> None:
        fields = self.fields
        self._follow_kernels()
        fields[R.CELLS] = address(self.cells)
        fields[R.WIDTH] = self.cells.shape[1] * 4
        fields[R.CAPACITY] = self.cells.shape[0]
        fields[R.FLAGS] = self.flags_column * 4
        fields[R.COUNTERS] = self.counter_columns[0] * 4 if self.has_counters else 0
        fields[R.KEYS] = address(self._keys)
        fields[R.FACTS] = address(self._facts)
        fields[R.GROUPS] = len(self._keys) // 8
        fields[R.LIMIT] = int(len(self._keys) * MAXIMUM_LOAD) if self._tabled is None else NO_LIMIT
        fields[R.POSTPONED] = self._tabled is not None
        fields[R.QUEUE] = address(self._queue)
        fields[R.QUEUE_CAPACITY] = len(self._queue)
        fields[R.BATCH] = address(self._batch)
        fields[R.BATCH_CAPACITY] = len(self._batch)
        if len(self._index_numbers) < len(self.indexes):
            self._index_numbers = np.zeros(2 * len(self.indexes), np.int64)
        fields[R.INDEXES] = address(self._index_numbers)
        fields[R.INDEX_COUNT] = len(self.indexes)
        for position, index in enumerate(self.indexes):
            self._index_numbers[position] = index.number
            index.fields[X.RELATION] = self.number
            index.fields[X.LINK] = 4 * (self._first_link_column() + position)
            index.fields[X.SLOTS] = address(index.slots)
            index.fields[X.SLOT_COUNT] = len(index.slots)

    # --- size ---------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Records in use, dead ones included."""
        return int(self.fields[R.COUNT])

    @property
    def queue_count(self) -> int:
        return int(self.fields[R.QUEUE_COUNT])

    @property
    def nbytes(self) -> int:
        arrays: list[npt.NDArray[Any]] = [self.cells, self._keys, self._facts, self._queue, self._batch]
        return sum(array.nbytes for array in arrays) + sum(index.slots.nbytes for index in self.indexes)

    def is_new(self) -> bool:
        """Whether all of its facts came with the update that is in work."""
        if self.closure is not None:
            return self.was_empty
        return bool(self.fields[R.START] == 0)

    def live(self) -> Cells:
        """The numbers of the facts in I."""
        flags = self.cells[: self.count, self.flags_column]
        return np.flatnonzero(flags & F.IN).astype(np.int32)

    def __len__(self) -> int:
        if self.closure is not None:
            return len(self.closure)
        if self.clean:
            return self.count
        flags = self.cells[: self.count, self.flags_column]
        # Piece by piece: what lies between is small enough to be used again for each.
        return sum(int(np.count_nonzero(flags[first:last] & F.IN)) for first, last in pieces(self.count, no_breath))

    # --- growth -------------------------------------------------------------------------------------------------------

    def reserve(self, more: int, known: bool = False) -> None:
        """Make room for `more` facts: records, table, indexes and the queue. Where there is room, nothing is done.

        Kernels want room for all heads that they have collected, also where those are `known` to be there.
        """
        self._reserve_facts(more, MOST_FACTS + MOST_COLLECTED if known else MOST_FACTS)
        self.reserve_queue(more)

    def _reserve_facts(self, more: int, most: int) -> None:
        fields = self.fields
        needed = int(fields[R.COUNT]) + more
        if needed > most:
            raise LimitError(
                f"`{self.name}` needs room for {needed:,} facts, and a relation holds at most {MOST_FACTS:,}, "
                "those that were deleted of late among them; split the predicate"
            )
        if needed > self.cells.shape[0]:
            self._grow_records(needed)
        if needed > fields[R.LIMIT]:
            self._grow_table(max(_groups_for(needed), int(len(self._keys) // 8 * 1.5)))
        for index in self.indexes:
            if index.distinct + more > 0.75 * len(index.slots):
                self._grow_index(index, more)

    @property
    def room_left(self) -> int:
        """How many more facts it can have at most."""
        return MOST_FACTS - self.count

    def has_room(self, more: int) -> bool:
        """Whether there is room for `more` facts but in the queue."""
        needed = self.count + more
        if needed > self.cells.shape[0] or needed > self.fields[R.LIMIT]:
            return False
        return all(index.distinct + more <= 0.75 * len(index.slots) for index in self.indexes)

    def reserve_queue(self, more: int) -> None:
        """Make room for `more` facts in the queue, where they are known already."""
        queued = self.queue_count + more
        if queued > self.fields[R.QUEUE_CAPACITY]:
            self._follow_kernels()
            self._queue = grown(self._queue, max(queued, 2 * len(self._queue)), spare=self.store.spare)
            self._publish()

    def release_queues(self) -> None:
        """Give the memory of long queues back: only an update uses them."""
        if max(len(self._queue), len(self._batch)) > QUEUE_KEPT:
            self._follow_kernels()
            with suppress(MemoryError):  # Where there is none for short ones, the long ones stay.
                self._queue, self._batch = self._queue[:QUEUE_KEPT].copy(), self._batch[:QUEUE_KEPT].copy()
            self._publish()

    def _grow_records(self, needed: int) -> None:
        # Large ones by small steps: reallocation moves pages, not bytes, and slack is memory that a user pays for.
        if self.cells.nbytes >= MOVES_FROM and self.cells.flags.owndata:
            capacity = max(needed, min(int(self.cells.shape[0] * 1.125), MOST_FACTS))
            stretch(self.cells, (capacity, self.cells.shape[1]))
        else:
            length = max(needed, min(2 * self.cells.shape[0], MOST_FACTS))
            self.cells = grown(self.cells, length, self.count, self.store.breathe, self.store.spare)
        # At once: the memory may run out before the table and the indexes have grown as well.
        self._publish()

    def _pieces(self, count: int) -> Iterator[tuple[int, int]]:
        """What takes long and cannot be left half done, piece by piece."""
        return pieces(count, self.store.breathe)

    def _room_for(self, records: int, width: int) -> Cells:
        return rooms.empty((records, width), np.int32, self.store.spare)

    def _empty_slots(self, count: int) -> Cells:
        return rooms.full(min(count, MOST_SLOTS), R.EMPTY, np.int32, self.store.spare)

    def _empty_table(self, groups: int) -> tuple[npt.NDArray[np.int64], Cells]:
        keys: npt.NDArray[np.int64] = rooms.empty(8 * groups, np.int64, self.store.spare)
        for first, last in self._pieces(len(keys)):
            keys[first:last] = R.EMPTY
        return keys, rooms.empty(8 * groups, np.int32, self.store.spare)

    def _new_table(self, groups: int) -> None:
        self._keys, self._facts = self._empty_table(groups)
        self._publish()

    def _grow_table(self, groups: int) -> None:
        keys, facts = self._keys, self._facts
        self._new_table(groups)
        at_keys, at_facts = address(keys), address(facts)
        for first, last in self._pieces(len(keys)):
            move_table(self.store.machine, self.number, at_keys + 8 * first, at_facts + 4 * first, last - first)

    def _grow_index(self, index: Index, more: int) -> None:
        index.slots = self._empty_slots(max(2 * len(index.slots), int(1.5 * (index.distinct + more))))
        self._publish()
        self._chain(index)

    def _chain(self, index: Index) -> bool:
        """Chain every record into an empty index; whether its table is large enough."""
        machine = self.store.machine
        return all(rebuild_index(machine, index.number, *piece) >= 0 for piece in self._pieces(self.count))

    def _enter_all(self) -> None:
        """Enter every record into the empty table."""
        for first, last in self._pieces(self.count):
            rebuild_table(self.store.machine, self.number, first, last)

    @property
    def clean(self) -> bool:
        """Whether every record is in I or waits to be."""
        return bool(self.fields[R.CLEAN])

    def mark_unclean(self) -> None:
        """From now on a record may be dead: found is no longer enough to be in I."""
        self.fields[R.CLEAN] = 0

    def _follow_kernels(self) -> None:
        """Kernels swap queue and batch by their addresses; do as they did."""
        if self.fields[R.QUEUE] == address(self._batch):
            self._queue, self._batch = self._batch, self._queue

    def postpone_table(self, coming: int) -> bool:
        """Let new facts stay out of the hash table until somebody looks for one: their bits tell whether they are
        known, and to enter all at once costs a third of entering them while the table grows.

        Only if no plan looks for single facts, and if the bits that are set are those of all facts and of so many that
        are about to come: whatever has no bit is then new. Whether that could be done.
        """
        if not self.bits.kept or not self.clean or self.probed:
            return False
        self.bits.complete()
        if self.bits.count() != self.count + coming:
            return False
        self._tabled = self.count
        self.store.postponed.add(self)
        self._publish()
        return True

    def expect_different(self, facts: int) -> None:
        """At most so many facts, all different, are about to come into this empty relation: they stay out of the hash
        table too until somebody looks for one.
        """
        self._tabled = 0
        self.store.postponed.add(self)
        self._publish()
        self._reserve_facts(facts, MOST_FACTS)

    @property
    def has_table(self) -> bool:
        """Whether facts can be looked for without entering all of them into a table first."""
        return self._tabled != 0

    def complete_table(self, room: int = 0) -> None:
        """Enter what is not in the hash table yet, with room for so many facts in all. Where memory runs out, all stays
        as it is.
        """
        if self._tabled is None:
            return
        keys, facts = self._empty_table(_groups_for(max(self.count * TABLE_SLACK, room)))
        self._keys, self._facts = keys, facts
        self._all_tabled()
        self._enter_all()

    def serve_probes(self) -> None:
        """Plans look for single facts from now on."""
        self.complete_table()
        self.probed = True

    def _all_tabled(self) -> None:
        self._tabled = None
        self.store.postponed.discard(self)
        self._publish()

    def drop_untabled(self) -> None:
        """Take out the facts that are not in the hash table, all of them new in this update; needs no memory."""
        if self._tabled is None:
            return
        self.fields[R.COUNT] = self._tabled
        self._all_tabled()
        for index in self.indexes:
            index.slots.fill(R.EMPTY)
            self._chain(index)

    def clear_queues(self) -> None:
        self.fields[R.QUEUE_COUNT] = 0
        self.fields[R.BATCH_COUNT] = 0

    # --- indexes and counters -----------------------------------------------------------------------------------------

    def index_on(self, columns: tuple[int, ...]) -> Index:
        """The index on these columns; built now where it is not there yet."""
        for index in self.indexes:
            if index.columns == columns:
                return index
        index = self.store.new_index(columns)
        index.slots = self._empty_slots(max(8, self.count // 4))
        self._relayout(self._record_cells() + 1)
        self.indexes.append(index)
        self._publish()
        try:
            self._build_index(index)
        except BaseException:
            # Half an index would be worse than none; its links are the last cells of the records.
            self.indexes.pop()
            self._publish()
            raise
        return index

    def _build_index(self, index: Index) -> None:
        # The number of distinct keys is not known before: build, and grow where it turns out too small.
        while not self._chain(index):
            index.slots = self._empty_slots(2 * len(index.slots))
            self._publish()

    def _relayout(self, width: int) -> None:
        wider = self._room_for(self.cells.shape[0], width)
        kept = min(width, self.cells.shape[1])
        for first, last in self._pieces(self.count):
            wider[first:last, :kept] = self.cells[first:last, :kept]
        self.cells = wider
        self._publish()

    def add_counters(self) -> None:
        """Give every record its two counters, at zero."""
        if self.has_counters:
            return
        before = self._first_link_column()
        after = before + 2
        wider = self._room_for(self.cells.shape[0], self._record_cells() + 2)
        self.has_counters = True
        for first, last in self._pieces(self.count):
            wider[first:last, :before] = self.cells[first:last, :before]
            wider[first:last, before:after] = 0
            wider[first:last, after:] = self.cells[first:last, before:]
        self.cells = wider
        self._publish()

    # --- compaction ---------------------------------------------------------------------------------------------------

    def compact(self) -> Cells:
        """Drop the dead records. Only between updates: facts get new numbers, those of their places in what is
        returned. Where memory runs out, all stays as it is.
        """
        alive = self.live()
        cells = self._room_for(max(2, int(len(alive) * 1.125)), self._record_cells())
        cells[: len(alive)] = self.cells[alive, : cells.shape[1]]
        slots = [self._empty_slots(2 * max(4, min(index.distinct, len(alive)))) for index in self.indexes]
        queue, batch = np.empty(2, np.int32), np.empty(2, np.int32)
        self._new_table(_groups_for(len(alive)))
        self.cells, self._queue, self._batch = cells, queue, batch
        for index, empty in zip(self.indexes, slots, strict=True):
            index.slots = empty
        self.fields[R.COUNT] = len(alive)
        self.fields[R.START] = len(alive)
        self.fields[R.CLEAN] = 1
        self._all_tabled()
        self._enter_all()
        for index in self.indexes:
            self._build_index(index)
        return alive

    def at_least(self) -> int:
        """No more than there are facts, and those that the update in work took: known without counting."""
        return len(self) if self.closure is not None else self.count - self._dead

    def note_dead(self, records: int) -> None:
        """That many more records may be dead."""
        if records:
            self._dead += records
            self.mark_unclean()

    def tidy(self) -> Cells | None:
        """Compact where more than half of the records are dead, or fewer where there is little room left; looks at the
        records only when that is likely.
        """
        count = self.count
        if len(self._keys) > SPARSE * max(count, COMPACT_FROM) and self._tabled is None:
            self._grow_table(_groups_for(count))
        enough = count // (8 if MOST_FACTS - count < count // 4 else 2) + 1
        if count <= COMPACT_FROM or self._dead < max(enough, self._dead_worth_counting):
            return None
        self._dead = count - len(self)
        if self._dead < enough:
            # Facts that come and go are taken for dead each time: with as many alive every update would count all.
            self._dead_worth_counting = self._dead + count // 8
            return None
        alive = self.compact()
        self._dead = self._dead_worth_counting = 0
        return alive

    def clear(self) -> None:
        """Forget every fact; for relations that only serve within an update."""
        if self.count == 0:
            return
        self.fields[R.COUNT] = 0
        self.fields[R.START] = 0
        self._keys.fill(R.EMPTY)
        self._all_tabled()
        for index in self.indexes:
            index.slots.fill(R.EMPTY)
            index.fields[X.USED] = 0
        # What one large update needed is not kept for the small ones after it.
        if len(self.cells) > COMPACT_FROM:
            with suppress(MemoryError):
                self.compact()

    def set_aside(self) -> Records:
        """Take all records out. `take_back` needs no memory to put them in again."""
        found = Records(
            self.cells,
            self._keys,
            self._facts,
            tuple((index, index.slots, index.distinct) for index in self.indexes),
            self._tabled,
            self.count,
            self.arity,
            self.has_counters,
            self.clean,
            self._dead,
            self.explicit_count,
        )
        cells = np.zeros((LEFT_ROOM, self._record_cells()), np.int32)
        slots = [np.full(8, R.EMPTY, np.int32) for _ in self.indexes]
        self._keys, self._facts = self._empty_table(_groups_for(LEFT_ROOM))
        self.cells = cells
        for index, empty in zip(self.indexes, slots, strict=True):
            index.slots = empty
            index.fields[X.USED] = 0
        self._hold(0, clean=True, dead=0, explicit_count=0)
        return found

    def expect_as_many_as(self, former: Records, share: float) -> None:
        """Give an empty relation a table that would hold a share of its former records: one that need not grow is
        filled in half the time. `tidy` sees to it that it is not too large for long.
        """
        self._new_table(max(1, int(share * max(len(former.keys) // 8, _groups_for(former.count)))))

    def take_back(self, records: Records) -> None:
        """Let these be the records again, instead of what lies here now, or of a closure."""
        self.closure = None
        self.fields[R.CLOSURE] = 0
        self.cells, self._keys, self._facts = records.cells, records.keys, records.facts
        self.has_counters = records.has_counters
        self.indexes = [index for index, _, _ in records.indexes]
        for index, slots, distinct in records.indexes:
            index.slots = slots
            index.fields[X.USED] = distinct
        self._hold(records.count, records.clean, records.dead, records.explicit_count)
        if records.tabled is not None:
            self._tabled = records.tabled
            self.store.postponed.add(self)
            self._publish()

    def _hold(self, count: int, clean: bool, dead: int, explicit_count: int) -> None:
        self.fields[R.COUNT] = count
        self.fields[R.START] = count
        self.fields[R.CLEAN] = clean
        self._dead = dead
        self.explicit_count = explicit_count
        self._all_tabled()

    def settle_start(self) -> None:
        """What lies here now was here before the next update."""
        self.fields[R.START] = self.fields[R.COUNT]

    def rows(self, facts: Cells | None = None) -> Cells:
        """The arguments of the given facts, or of all in I."""
        if facts is None and self.closure is not None:
            return self._closure_pairs(self.closure)
        chosen = self.live() if facts is None else facts
        return self.cells[chosen, : self.arity]

    def _closure_pairs(self, closure: ReadableClosure) -> Cells:
        pieces = [np.stack(pair, axis=1) for pair in closure.pairs(1 << 20)]
        return np.concatenate(pieces) if pieces else np.empty((0, 2), np.int32)

    def become_closure(self, closure: ReadableClosure | None) -> None:
        """Let the facts be those of a closure from now on, or lie in records again; the records are emptied."""
        self.clear()
        self.closure = closure
        self.fields[R.CLOSURE] = 0 if closure is None else closure.view


def _groups_for(facts: float) -> int:
    """The groups of eight slots that a table for so many facts has."""
    return int(facts / MAXIMUM_LOAD / 8) + 1


def relation_fields(count: int) -> npt.NDArray[np.int64]:
    return np.zeros((count, R.FIELDS), np.int64)


def index_fields(count: int) -> npt.NDArray[np.int64]:
    return np.zeros((count, X.FIELDS), np.int64)
