"""The undo log: what an update changes, as it was before, kept until the update commits and put back if it fails.

Kernels log each fact that they touch. What changes as a whole is kept here: the flags of a relation of which most
changes, the records of one that is derived again, that goes or that becomes a closure, and what relations know of
themselves. The same entries tell what the update changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np

from tidelog.engine.update.deltas import NOTHING, Delta
from tidelog.engine.update.pair_sets import ClosurePairs, StoredPairs, missing
from tidelog.engine.update.rows import Rows, rows_of
from tidelog.machine import flags as F
from tidelog.machine import growth
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.jit import address
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells, Records
from tidelog.store.store import Store
from tidelog.store.update_kernels import (
    changed_facts,
    commit_log,
    commit_relation,
    empty_records,
    roll_back_log,
    roll_back_relation,
)


class UndoLog:
    """What was there before an update in work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._machine = store.machine
        self._arrays, self._level = store.arrays, store.level
        self._of_others: frozenset[int] = frozenset()  # numbers of relations that an update which is paused changes
        self._component_start = 0  # where the entries of the component in work begin
        self._explicit_counts: dict[Relation, int] = {}
        self._ranked: dict[Relation, bool] = {}
        self._kept: dict[Relation, Hashable] = {}
        # Relations of which most changes: columns of flags and counters of all records, instead of entries in the log.
        self._columns: dict[Relation, Cells] = {}
        # Relations whose records were set aside: these, and how many of them the update began with.
        self._set_aside: dict[Relation, tuple[Records, int]] = {}
        # Relations that were closures until this update, and whose records hold explicit facts only.
        self._former_closures: dict[Relation, ClosurePairs] = {}

    def begin(self) -> None:
        """What lies in the store now is what was there before. Relations in which an update that is paused has facts
        that are new, that wait or that spread, are not the business of this one.
        """
        self._machine[M.LOG_COUNT] = 0
        table = self._store.relation_table
        if self._level == 0:
            table[:, R.START] = table[:, R.COUNT]
        else:
            spreading = (table[:, R.QUEUE_COUNT] > 0) | (table[:, R.BATCH_COUNT] > 0)
            (others,) = ((table[:, R.COUNT] != table[:, R.START]) | spreading).nonzero()
            self._of_others = frozenset(others.tolist())

    # --- noting what is about to change -------------------------------------------------------------------------------

    def reserve(self, entries: int) -> None:
        """Make room for facts that kernels are about to touch."""
        needed = int(self._machine[M.LOG_COUNT]) + entries
        if needed > len(self._store.arrays.log):
            self._store.arrays.grow_log(needed)

    def note_explicit_count(self, relation: Relation) -> None:
        """The number of a relation's explicit facts is about to change."""
        self._explicit_counts.setdefault(relation, relation.explicit_count)

    def note_ranked(self, relation: Relation, ranked: bool) -> None:
        """From now on the ranks of a relation can be trusted, or cannot."""
        self._ranked.setdefault(relation, relation.ranked)
        relation.ranked = ranked

    def note_kept(self, relation: Relation, kept: Hashable) -> None:
        """From now on a relation is part of a component that keeps best values, or of another one, or of none."""
        self._kept.setdefault(relation, relation.kept)
        relation.kept = kept

    def note_former_closure(self, relation: Relation, pairs: ClosurePairs) -> None:
        """The facts of a relation were these pairs, of which its records hold the explicit ones only."""
        self._former_closures[relation] = pairs

    def keep_columns(self, relation: Relation) -> None:
        """Remember all records of a relation at once: most of them are about to change, and the log, which holds them
        one by one, would take ten times as much memory.
        """
        if relation in self._columns:
            return
        before = relation.cells[: int(relation.fields[R.START])]
        first = relation.flags_column
        # What the log holds already is put back from there, afterwards.
        kept = np.empty((3 if relation.has_counters else 1, len(before)), np.int32)
        for start, end in self._pieces(len(before)):
            # Column by column: numpy copies short rows one by one.
            kept[:, start:end] = before[start:end, first : first + len(kept)].T
            before[start:end, first] |= F.TOUCHED
        self._columns[relation] = kept

    def set_aside(self, relation: Relation) -> Records:
        """Take all records out of a relation, as they were when the update began; takes constant time. The log forgets
        them, since their numbers mean other facts from now on.
        """
        start = int(relation.fields[R.START])
        records = relation.set_aside()
        self._set_aside[relation] = records, start
        log, count = self._store.arrays.log, int(self._machine[M.LOG_COUNT])
        own = log[:count, 0] == relation.number
        if own.any():
            records.restore(log[:count][own])
            self._component_start = int(np.count_nonzero(~own[: self._component_start]))
            others = log[:count][~own]
            log[: len(others)] = others
            self._machine[M.LOG_COUNT] = len(others)
        return records

    # --- a component that is materialised again -----------------------------------------------------------------------

    def take_all(self, relation: Relation) -> Cells:
        """Take all facts of a relation out of I. They keep their numbers; those of the explicit ones."""
        relation.queues.clear()
        relation.table.complete()
        relation.mark_unclean()
        with self._store.making_for(relation):
            self.keep_columns(relation)
            for first, last in self._pieces(relation.count):
                empty_records(self._machine, relation.number, first, last)
            return self._explicit_facts(relation)

    def renew(self, relation: Relation, share: float) -> Cells:
        """The same by setting all records aside, see below. The explicit facts get fresh ones, and there is room
        for a share of all.
        """
        if relation in self._columns:
            return self.take_all(relation)
        relation.queues.clear()
        # As they are now: the records that are set aside are as of before the update.
        rows = relation.rows(self._explicit_facts(relation))
        former = self.set_aside(relation)
        relation.table.expect(len(former.keys), former.count, share)
        relation.load(rows, F.EXPLICIT)
        relation.explicit_count = len(rows)
        return np.arange(len(rows), dtype=np.int32)

    # --- what changed -------------------------------------------------------------------------------------------------

    def is_new(self, relation: Relation) -> bool:
        """Whether all facts of a relation came with this update."""
        if relation.closure is None:
            if relation in self._former_closures:
                return len(self._former_closures[relation]) == 0
            if relation in self._set_aside:
                return self._set_aside[relation][1] == 0
        return relation.is_new()

    def delta(self, relation: Relation) -> Delta | None:
        """What the component in work has changed in one of its relations."""
        if relation in self._set_aside:
            if relation in self._former_closures:
                return renewed_closure(relation, self._former_closures[relation])
            return renewed_records(relation, self._set_aside[relation][0])
        if relation in self._columns:
            with self._store.making_for(relation):
                removed, added = (self._facts_with(relation, F.IN | F.OLD, flags) for flags in (F.OLD, F.IN))
            return Delta.of_facts(relation, removed, added)
        entries = int(self._machine[M.LOG_COUNT]) - self._component_start
        start = int(relation.fields[R.START])
        appended = relation.count - start
        if entries == 0:
            if appended == 0:
                return None
            if relation.clean:
                return Delta.of_facts(relation, NOTHING, np.arange(start, relation.count, dtype=np.int32))
        if max(entries, appended) > growth.PIECE:
            with self._store.making_for(relation):
                return Delta.of_facts(relation, *self._changed_in_pieces(relation, entries, start))
        removed = np.empty(entries, np.int32)
        added = np.empty(entries + appended, np.int32)
        gone, come = self._changed_facts(relation, self._component_start, start, removed, added)
        return Delta.of_facts(relation, removed[:gone], added[:come])

    def _changed_facts(
        self, relation: Relation, entry: int, record: int, removed: Cells, added: Cells
    ) -> tuple[int, int]:
        """List the facts that left or entered I, from an entry of the log and a record on; how many there are."""
        counts = np.zeros(2, np.int64)
        changed_facts(self._machine, relation.number, entry, record, address(removed), address(added), address(counts))
        return int(counts[0]), int(counts[1])

    def _changed_in_pieces(self, relation: Relation, entries: int, start: int) -> tuple[Cells, Cells]:
        """The same for many, between whose pieces others come in."""
        removed, added = [NOTHING], [NOTHING]
        for first, last in self._pieces(entries):
            # The kernel reads to the end of the log, which is where it was again when others come in.
            end = int(self._machine[M.LOG_COUNT])
            gone, come = np.empty(last - first, np.int32), np.empty(last - first, np.int32)
            self._machine[M.LOG_COUNT] = self._component_start + last
            try:
                counts = self._changed_facts(relation, self._component_start + first, relation.count, gone, come)
            finally:
                self._machine[M.LOG_COUNT] = end
            removed.append(gone[: counts[0]])
            added.append(come[: counts[1]])
        column = relation.cells[start : relation.count, relation.flags_column]
        for first, last in self._pieces(len(column)):
            added.append((np.flatnonzero(column[first:last] & F.IN) + (start + first)).astype(np.int32))
        return np.concatenate(removed), np.concatenate(added)

    def _explicit_facts(self, relation: Relation) -> Cells:
        return self._facts_with(relation, F.EXPLICIT, F.EXPLICIT) if relation.explicit_count else NOTHING

    def _facts_with(self, relation: Relation, mask: int, wanted: int) -> Cells:
        """The facts of a relation whose flags are those that are wanted, as far as the mask goes."""
        column = relation.cells[: relation.count, relation.flags_column]
        found = [
            np.flatnonzero(column[first:last] & mask == wanted) + first for first, last in self._pieces(len(column))
        ]
        return np.concatenate(found).astype(np.int32)

    def _pieces(self, count: int) -> Iterator[tuple[int, int]]:
        return growth.pieces(count, self._store.hooks.between_pieces)

    def end_component(self) -> None:
        """What is logged from now on belongs to the next component."""
        self._component_start = int(self._machine[M.LOG_COUNT])

    # --- what was -----------------------------------------------------------------------------------------------------

    def records_before(self) -> Iterator[tuple[Relation, Records]]:
        """The relations whose records were set aside, and those that were there when the update began."""
        for relation, (records, start) in self._set_aside.items():
            explicit = self._explicit_counts.get(relation, records.explicit_count)
            yield relation, replace(records, count=start, explicit_count=explicit)

    def changes_explicit(self, relation: Relation) -> bool:
        """Whether the explicit facts of a relation may have changed."""
        return relation in self._explicit_counts and relation not in self._set_aside

    def explicit_before(self, relation: Relation) -> Cells:
        """The rows of the explicit facts that a relation had."""
        start = int(relation.fields[R.START])
        flags = relation.cells[:start, relation.flags_column].copy()
        if relation in self._columns:
            kept = self._columns[relation][0]
            flags[: len(kept)] = kept
        count = self._store.paused_register(self._level, M.LOG_COUNT)
        entries = self._arrays.log[:count]
        entries = entries[entries[:, 0] == relation.number]
        flags[entries[:, 1]] = entries[:, 2]
        return relation.cells[:start, : relation.arity][(flags & F.EXPLICIT) != 0]

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        for relation in self._columns:
            relation.fields[R.START] = 0
        changed = dict.fromkeys((*self._columns, *self._grown()))
        commit_log(self._machine)
        for relation in changed:
            commit_relation(self._machine, relation.number)
            relation.queues.release()

    def roll_back(self) -> None:
        for relation, (records, start) in self._set_aside.items():
            relation.take_back(records)
            relation.fields[R.START] = start
        for relation, columns in self._columns.items():
            first = relation.flags_column
            relation.cells[: columns.shape[1], first : first + len(columns)] = columns.T
        roll_back_log(self._machine)
        for relation, count in self._explicit_counts.items():
            relation.explicit_count = count
        for relation, ranked in self._ranked.items():
            relation.ranked = ranked
        for relation, kept in self._kept.items():
            relation.kept = kept
        for relation in self._grown():
            if relation.fields[R.DRAFTS] and relation.is_new():
                relation.clear()
                continue
            relation.note_dead(relation.count - int(relation.fields[R.START]))
            roll_back_relation(self._machine, relation.number)
        for relation in self._store.relations:
            if relation.number not in self._of_others:
                relation.queues.clear()

    def let_go(self) -> None:
        """It is over: free the memory of what is kept here at once. A transaction and its parts refer to each other, so
        that Python would find out late that nobody needs them.
        """
        for kept in (self._columns, self._set_aside, self._former_closures):
            kept.clear()

    def _grown(self) -> list[Relation]:
        table = self._store.relation_table
        (grown,) = (table[:, R.COUNT] != table[:, R.START]).nonzero()
        spared = self._of_others.union(self._store.memo_functions)
        return [self._store.relations[number] for number in grown.tolist() if number not in spared]


# --- renewal ----------------------------------------------------------------------------------------------------------
#
# What changed in a relation whose records were set aside, and whose facts were derived again into fresh ones. To clear
# facts one by one and to find each of them again costs as much as deriving them, and the gaps of those that do not come
# back have to be closed afterwards. Setting all records aside costs nothing, and so does putting them back if the
# update fails. What went and what came is found by looking the old facts up among the new ones. A component that
# follows the change fact by fact needs both in one place: the old facts that are gone become dead records when the
# first such component asks. Where all of them start again as well, or there are none, nobody asks.

GONE = -1  # what `find_old` gives for a fact that is no longer there


def renewed_records(relation: Relation, former: Records) -> Delta:
    """What changed where there were other records."""
    if relation.count == 0:
        gone = Rows(former.count if former.clean else former.count_of(F.OLD), lambda most: former.rows(F.OLD)[:most])
        return _renewed(relation, NOTHING, gone)
    found = relation.store.find_old(relation, former)
    lost = int(np.count_nonzero(found == GONE))
    gone = Rows(lost, lambda most: former.cells[np.flatnonzero(found == GONE)[:most], : former.arity])
    return _renewed(relation, found[found >= 0], gone)


def renewed_closure(relation: Relation, former: ClosurePairs) -> Delta:
    """What changed where there was a closure; its pairs need not become records for that."""
    rows = relation.rows()
    kept = np.flatnonzero(former.contains(rows)).astype(np.int32)
    gone = missing(former, StoredPairs(rows), len(former) - len(kept), relation.store.readers)
    return _renewed(relation, kept, gone.rows)


def _renewed(relation: Relation, kept: Cells, gone: Rows) -> Delta:
    """The change of a relation in which the facts in `kept` were there before."""
    added = np.delete(np.arange(relation.count, dtype=np.int32), kept)
    delta = Delta(gone, rows_of(relation, added), lambda: (_record_gone(relation, kept, gone), added))
    if not delta:
        # What did not change is no delta and will not be listed, and yet its records have to say that they are old.
        delta.listed()
    return delta


def _record_gone(relation: Relation, kept: Cells, gone: Rows) -> Cells:
    """Let the records tell what was there before; the numbers of those that are gone."""
    rows = gone.read()
    relation.cells[kept, relation.flags_column] |= F.OLD
    first = relation.count
    if len(rows):
        relation.mark_unclean()
        relation.load(rows, F.OLD)
    return np.arange(first, relation.count, dtype=np.int32)
