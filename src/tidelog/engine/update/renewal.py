"""What changed in a relation whose records were set aside, and whose facts were derived again into fresh ones.

To clear facts one by one and to find each of them again costs as much as deriving them, and the gaps of those that do
not come back have to be closed afterwards. Setting all records aside costs nothing, and so does putting them back if
the update fails. What went and what came is found by looking the old facts up among the new ones. A component that
follows the change fact by fact needs both in one place: the old facts that are gone become dead records when the first
such component asks. Where all of them start again as well, or there are none, nobody asks.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.update.deltas import NOTHING, Delta
from tidelog.engine.update.pair_sets import ClosurePairs, StoredPairs, missing
from tidelog.engine.update.rows import Rows, rows_of
from tidelog.machine import flags as F
from tidelog.machine.jit import address
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells, Records
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows

GONE = -1  # what `find_old` gives for a fact that is no longer there


def renewed_records(store: Store, relation: Relation, former: Records) -> Delta:
    """What changed where there were other records."""
    if relation.count == 0:
        gone = Rows(former.count if former.clean else former.count_of(F.OLD), lambda most: former.rows(F.OLD)[:most])
        return _renewed(store, relation, NOTHING, gone)
    found = store.find_old(relation, former)
    lost = int(np.count_nonzero(found == GONE))
    gone = Rows(lost, lambda most: former.cells[np.flatnonzero(found == GONE)[:most], : former.arity])
    return _renewed(store, relation, found[found >= 0], gone)


def renewed_closure(store: Store, relation: Relation, former: ClosurePairs) -> Delta:
    """What changed where there was a closure; its pairs need not become records for that."""
    rows = relation.rows()
    kept = np.flatnonzero(former.contains(rows)).astype(np.int32)
    gone = missing(former, StoredPairs(rows), len(former) - len(kept), store.readers)
    return _renewed(store, relation, kept, gone.rows)


def _renewed(store: Store, relation: Relation, kept: Cells, gone: Rows) -> Delta:
    """The change of a relation in which the facts in `kept` were there before."""
    added = _others(relation.count, kept)
    delta = Delta(gone, rows_of(relation, added), lambda: (_record_gone(store, relation, kept, gone), added))
    if not delta:
        # What did not change is no delta and will not be listed, and yet its records have to say that they are old.
        delta.listed()
    return delta


def _others(count: int, kept: Cells) -> Cells:
    if len(kept) == count:
        return NOTHING
    new = np.ones(count, np.bool_)
    new[kept] = False
    return np.flatnonzero(new).astype(np.int32)


def _record_gone(store: Store, relation: Relation, kept: Cells, gone: Rows) -> Cells:
    """Let the records tell what was there before; the numbers of those that are gone."""
    rows = np.ascontiguousarray(gone.read())
    relation.cells[kept, relation.flags_column] |= F.OLD
    first = relation.count
    if len(rows):
        relation.mark_unclean()
        relation.reserve(len(rows))
        load_rows(store.machine, relation.number, address(rows), len(rows), F.OLD)
    return np.arange(first, relation.count, dtype=np.int32)
