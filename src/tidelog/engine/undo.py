"""What an update began with, as far as it changes: kept until it commits, and put back where it fails.

Kernels log every single fact that they touch. What changes as a whole is kept here: the flags of a relation of which
most changes, the records of one that is derived again or that goes, and what relations say of themselves.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.deltas import NOTHING, Appended, Changed, Delta
from tidelog.engine.modules.replacement import ClosurePairs
from tidelog.engine.renewal import renewed_closure, renewed_records
from tidelog.machine import flags as F
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
    empty_relation,
    load_rows,
    roll_back_log,
    roll_back_relation,
)


class Before:
    """The state before an update in work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._machine = store.machine
        self._log_mark = 0  # where the entries of the component in work begin
        self._explicit_counts: dict[Relation, int] = {}
        self._ranked: dict[Relation, bool] = {}
        # Relations of which most changes: columns of flags and counters of all records, instead of entries in the log.
        self._kept: dict[Relation, Cells] = {}
        self._dropped: dict[Relation, Records] = {}
        # Relations that are derived again: the records of before, and how many of them the update began with.
        self._renewed: dict[Relation, tuple[Records, int]] = {}
        # Those of them that were closures until this update.
        self._former_closures: dict[Relation, ClosurePairs] = {}
        self._machine[M.LOG_COUNT] = 0
        table = store.relation_table
        table[:, R.START] = table[:, R.COUNT]

    def note_explicit_count(self, relation: Relation) -> None:
        """The number of a relation's explicit facts is about to change."""
        self._explicit_counts.setdefault(relation, relation.explicit_count)

    def note_ranked(self, relation: Relation, ranked: bool) -> None:
        """From now on the ranks of a relation say what they should, or do not."""
        self._ranked.setdefault(relation, relation.ranked)
        relation.ranked = ranked

    def keep_whole(self, relation: Relation) -> None:
        """Remember all records of a relation at once: most of them are about to change, and the log, which holds them
        one by one, would take ten times as much.
        """
        if relation in self._kept:
            return
        before = relation.cells[: int(relation.fields[R.START])]
        first = relation.flags_column
        # What the log holds already is put back from there, afterwards.
        # Column by column: numpy copies short rows one by one.
        self._kept[relation] = before[:, first : first + (3 if relation.has_counters else 1)].T.copy()
        before[:, first] |= F.TOUCHED

    def forget_derived(self, relation: Relation, renewed: float | None) -> Cells:
        """Take all facts out of I, for the component to be materialised again; the explicit ones, which come first.
        Facts keep their numbers, unless their records may be renewed, and so many times as many are expected.
        """
        relation.queues.clear()
        if renewed is not None and relation not in self._kept:
            return self._renew(relation, renewed)
        relation.table.complete()
        relation.mark_unclean()
        self.keep_whole(relation)
        empty_relation(self._machine, relation.number)
        flags = relation.cells[: relation.count, relation.flags_column]
        return np.flatnonzero(flags & F.EXPLICIT).astype(np.int32)

    def _renew(self, relation: Relation, share: float) -> Cells:
        """Set the records aside, and give a relation that holds the explicit ones only; see `engine.renewal`."""
        start = int(relation.fields[R.START])
        former = relation.set_aside()
        self._renewed[relation] = (former, start)
        rows = np.ascontiguousarray(former.explicit_rows())
        self._put_back(relation, former)
        relation.table.expect(len(former.keys), former.count, share)
        relation.reserve(len(rows))
        load_rows(self._machine, relation.number, address(rows), len(rows), F.EXPLICIT)
        relation.explicit_count = len(rows)
        return np.arange(len(rows), dtype=np.int32)

    def _put_back(self, relation: Relation, former: Records) -> None:
        """Let records that have been set aside be as they were when the update began, and the log forget them: their
        numbers mean other facts from now on.
        """
        log = self._store.arrays.log
        count = int(self._machine[M.LOG_COUNT])
        own = log[:count, 0] == relation.number
        if not own.any():
            return
        former.restore(log[:count][own])
        self._log_mark = int(np.count_nonzero(~own[: self._log_mark]))
        others = log[:count][~own]
        log[: len(others)] = others
        self._machine[M.LOG_COUNT] = len(others)

    def note_former_closure(self, relation: Relation, pairs: ClosurePairs) -> None:
        """The facts of a relation were these pairs, of which its records hold the explicit ones only."""
        self._former_closures[relation] = pairs

    def is_new(self, relation: Relation) -> bool:
        """Whether all facts of a relation came with this update."""
        if relation in self._former_closures:
            return len(self._former_closures[relation]) == 0
        if relation in self._renewed:
            return self._renewed[relation][1] == 0
        return relation.is_new()

    def drop(self, relation: Relation) -> Records:
        """Take all records out of a relation."""
        self._dropped[relation] = relation.set_aside()
        return self._dropped[relation]

    def delta(self, relation: Relation) -> Changed:
        """What the component in work has changed in one of its relations."""
        if relation in self._renewed:
            if relation in self._former_closures:
                return renewed_closure(self._store, relation, self._former_closures[relation])
            return renewed_records(self._store, relation, self._renewed[relation][0])
        if relation in self._kept:
            places = relation.cells[: relation.count, relation.flags_column] & (F.IN | F.OLD)
            return Delta(*(np.flatnonzero(places == place).astype(np.int32) for place in (F.OLD, F.IN)))
        entries = int(self._machine[M.LOG_COUNT]) - self._log_mark
        start = int(relation.fields[R.START])
        appended = relation.count - start
        if entries == 0 and appended == 0:
            return Delta(NOTHING, NOTHING)
        if entries == 0 and relation.clean:
            return Appended(relation, start, relation.count)
        removed = np.empty(entries, np.int32)
        added = np.empty(entries + appended, np.int32)
        counts = np.zeros(2, np.int64)
        changed_facts(
            self._machine, relation.number, self._log_mark, start, address(removed), address(added), address(counts)
        )
        return Delta(removed[: counts[0]], added[: counts[1]])

    def end_component(self) -> None:
        """What is logged from now on belongs to the next component."""
        self._log_mark = int(self._machine[M.LOG_COUNT])

    def commit(self) -> None:
        for relation in self._kept:
            relation.fields[R.START] = 0
        changed = dict.fromkeys((*self._kept, *self._grown()))
        commit_log(self._machine)
        for relation in changed:
            commit_relation(self._machine, relation.number)
            relation.queues.release()

    def roll_back(self) -> None:
        for relation, (records, start) in self._renewed.items():
            relation.take_back(records)
            relation.fields[R.START] = start
        for relation, columns in self._kept.items():
            first = relation.flags_column
            relation.cells[: columns.shape[1], first : first + len(columns)] = columns.T
        roll_back_log(self._machine)
        for relation, records in self._dropped.items():
            relation.take_back(records)
        for relation, count in self._explicit_counts.items():
            relation.explicit_count = count
        for relation, ranked in self._ranked.items():
            relation.ranked = ranked
        for relation in self._grown():
            relation.note_dead(relation.count - int(relation.fields[R.START]))
            roll_back_relation(self._machine, relation.number)
        for relation in self._store.relations:
            relation.queues.clear()

    def let_go(self) -> None:
        """It is over: the memory of what is kept here is free at once. A transaction and its parts know each other, so
        that Python finds out late that nobody needs them any more.
        """
        for kept in (self._kept, self._dropped, self._renewed, self._former_closures):
            kept.clear()

    def _grown(self) -> list[Relation]:
        table = self._store.relation_table
        (grown,) = (table[:, R.COUNT] != table[:, R.START]).nonzero()
        memos = self._store.memo_functions
        return [self._store.relations[number] for number in grown if number not in memos]
