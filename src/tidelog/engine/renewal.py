"""A component that is materialised again: its records are set aside, and what is left is derived into fresh ones.

To clear facts one by one and to find each again costs as much as to derive them, and the gaps of those that do not
come back have to be closed afterwards. Records that are set aside cost nothing, and go back as they were if the
update fails. Which facts went and came is then told by looking the old ones up among the new. Components that read the
relation and follow its changes fact by fact need both in one place: the old ones that are gone become dead records
when the first of them asks; where all of them start again as well, nobody does.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.deltas import NOTHING
from tidelog.engine.modules.replacement import ClosurePairs, MissingPairs, StoredPairs
from tidelog.engine.outcome import ChangedRows, LateRows, StoredRows
from tidelog.machine import flags as F
from tidelog.machine.jit import address
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells, Records
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows

GONE = -1  # what is found in the place of a fact that is not there any more


class GoneRows(LateRows):
    """Rows of former records that are not among the present ones; copied when somebody looks."""

    def __init__(self, former: Records, found: Cells) -> None:
        super().__init__(int(np.count_nonzero(found == GONE)))
        self._former: tuple[Records, Cells] | None = former, found

    def _listed(self, most: int) -> Cells:
        assert self._former is not None
        former, found = self._former
        return former.cells[np.flatnonzero(found == GONE)[:most], : former.arity]

    def _let_go(self) -> None:
        self._former = None


class Renewed:
    """What changed in a relation whose facts were all derived again."""

    def __init__(self, store: Store, relation: Relation, kept: Cells, gone: ChangedRows) -> None:
        self._store = store
        self._relation = relation
        self._kept = kept  # the facts that were there before
        self._added = self._new_facts()
        self._removed: Cells | None = None
        self.gone = gone
        self.come = StoredRows(relation.rows(self._added))
        if not self:
            # What did not change is no delta, and nobody will ask.
            self._listed()

    def _new_facts(self) -> Cells:
        """The facts that were not there before."""
        if len(self._kept) == self._relation.count:
            return NOTHING
        new = np.ones(self._relation.count, np.bool_)
        new[self._kept] = False
        return np.flatnonzero(new).astype(np.int32)

    @property
    def removed(self) -> Cells:
        return self._listed()

    @property
    def added(self) -> Cells:
        self._listed()
        return self._added

    @property
    def removed_count(self) -> int:
        return self.gone.count

    @property
    def added_count(self) -> int:
        return len(self._added)

    @property
    def dead_count(self) -> int:
        return 0 if self._removed is None else len(self._removed)

    def __bool__(self) -> bool:
        return self.removed_count > 0 or self.added_count > 0

    def _listed(self) -> Cells:
        """Let the records tell what was there before, and give those that are gone."""
        if self._removed is None:
            relation, rows = self._relation, np.ascontiguousarray(self.gone.read())
            relation.cells[self._kept, relation.flags_column] |= F.OLD
            first = relation.count
            if len(rows):
                relation.mark_unclean()
                relation.reserve(len(rows))
                load_rows(self._store.machine, relation.number, address(rows), len(rows), F.OLD)
            self._removed = np.arange(first, relation.count, dtype=np.int32)
        return self._removed


def renewed_records(store: Store, relation: Relation, former: Records) -> Renewed:
    """What changed where there were other records."""
    found = store.find_old(relation, former)
    return Renewed(store, relation, found[found >= 0], GoneRows(former, found))


def renewed_closure(store: Store, relation: Relation, former: ClosurePairs) -> Renewed:
    """What changed where there was a closure, whose pairs need not become records for that."""
    rows = relation.rows()
    kept = np.flatnonzero(former.contains(rows)).astype(np.int32)
    return Renewed(
        store, relation, kept, MissingPairs(former, StoredPairs(rows), len(former) - len(kept), store.readers)
    )
