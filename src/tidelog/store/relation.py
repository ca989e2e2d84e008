"""Relations: the facts of each predicate, and how they grow, are compacted, set aside and taken back.

Facts keep their number for as long as an update runs. A deleted fact stays as a dead record, so that a fact that
comes back costs nothing; when half of the records are dead, `compact` closes the gaps between two updates.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine import relation_fields as R
from tidelog.machine.jit import address
from tidelog.store.fact_table import FactTable
from tidelog.store.indexes import Index, Indexes
from tidelog.store.pair_bits import PairBits
from tidelog.store.queues import Queues
from tidelog.store.records import RecordArray
from tidelog.store.relation_parts import Cells, Records
from tidelog.store.update_kernels import load_rows

if TYPE_CHECKING:
    from tidelog.closures.closure import ReadableClosure
    from tidelog.store.store import Store

# The room that is left to a relation without records: small ones come and go with their rules.
LEFT_ROOM = 32

# In smaller relations, dead records are not worth the work.
COMPACT_FROM = 1024


class Relation(RecordArray):
    """The facts of one predicate: its records, and what finds them or lets them wait."""

    def __init__(self, store: Store, number: int, name: str, arity: int, counters: bool, capacity: int) -> None:
        capacity = max(capacity, 2)
        super().__init__(store, number, name, arity, counters, capacity)
        # A closure whose pairs are the relation's facts; its records are then what changed in the update in work.
        self.closure: ReadableClosure | None = None
        self.was_empty = True
        # Whether every fact that is neither explicit nor counted has a derivation from facts of lower ranks.
        self.ranked = True
        self._dead_worth_counting = 0
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

    # --- size ---------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.table.nbytes + self.indexes.nbytes + self.queues.nbytes

    def is_new(self) -> bool:
        """Whether all of its facts came with the update that is in work."""
        return self.was_empty if self.closure is not None else bool(self.fields[R.START] == 0)

    def __len__(self) -> int:
        return self._live_count() if self.closure is None else len(self.closure)

    def at_least(self) -> int:
        """No more than the facts that there are or were before the update in work; known without counting."""
        return len(self) if self.closure is not None else self.count - self._dead

    def rows(self, facts: Cells | None = None) -> Cells:
        """The arguments of the given facts, or of all in I."""
        if facts is None and self.closure is not None:
            pieces = [np.stack(pair, axis=1) for pair in self.closure.pairs(1 << 20)]
            return np.concatenate(pieces) if pieces else np.empty((0, 2), np.int32)
        chosen = self.live() if facts is None else facts
        return self.cells[chosen, : self.arity]

    # --- growth -------------------------------------------------------------------------------------------------------

    def reserve(self, more: int, known: bool = False) -> None:
        """Make room for `more` facts, also to wait. Where there is room, nothing is done.

        Kernels want room for all heads that they have collected, even if those are `known` to be there.
        """
        self._reserve_facts(more, known)
        self.queues.reserve(more)

    def _reserve_facts(self, more: int, known: bool = False) -> None:
        self._reserve_records(more, known)
        self.table.reserve(self.count + more)
        self.indexes.reserve(more)

    def load(self, rows: Cells, flags: int) -> None:
        """Add the rows that are not there yet, with these flags."""
        self.reserve(len(rows))
        rows = np.ascontiguousarray(rows, np.int32)
        load_rows(self.store.machine, self.number, address(rows), len(rows), flags)

    def has_room(self, more: int) -> bool:
        """Whether there is room for `more` facts, though maybe not to wait."""
        needed = self.count + more
        if needed > self.cells.shape[0] or needed > self.fields[R.LIMIT]:
            return False
        return self.indexes.has_room(more)

    def index_on(self, columns: tuple[int, ...]) -> Index:
        """The index on these columns; it is built now if there is none yet."""
        found = self.indexes.find(columns)
        if found is None:
            found = self.store.new_index(columns)
            found.slots = self.indexes.empty_slots(max(8, self.count // 4))
            self._widen()
            self.indexes.add(found)
            self._links += 1
        return found

    def add_counters(self) -> None:
        """Give every record its two counters, at zero."""
        if not self.has_counters:
            self._insert_counters()
            self.indexes.publish()

    # --- facts that are not in the hash table -------------------------------------------------------------------------

    def postpone_table(self, coming: int) -> bool:
        """Let new facts stay out of the hash table until somebody looks for one: their bits tell whether they are
        known.

        Only if no plan looks for single facts, and if the bits that are set are those of all facts and of so many that
        are about to come: whatever has no bit is then new. Whether that could be done.
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
        """Drop the dead records. Only between updates: the new number of a fact is its place in what is returned. If
        memory runs out, nothing changes.
        """
        alive = self.live()
        cells = self._room_for(max(2, int(len(alive) * 1.125)), self._width)
        cells[: len(alive)] = self.cells[alive, : cells.shape[1]]
        slots = self.indexes.slots_for(len(alive))
        queue, batch = np.empty(2, np.int32), np.empty(2, np.int32)
        keys, facts = self.table.empty(len(alive))
        self.cells = cells
        self._publish_records()
        self.queues.replace(queue, batch)
        self._set_count(len(alive))
        self.fields[R.CLEAN] = 1
        self.table.replace(keys, facts)
        self.table.enter_all()
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
