"""What modules of a recursion take from each other where facts lie in records: Δ ∖ Δ_i of Modular, lines 14, 28 and 39.

Overdeleted facts are in the list D, in the order in which they were overdeleted. Inserted ones are in the undo log, or
were appended. So a module that remembers how far it has looked finds what is new since then.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.update.deltas import NOTHING
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells


class RecordChanges:
    """Which facts of a relation have gone and come since the last time, in one update."""

    def __init__(self, relation: Relation, afresh: bool) -> None:
        self._relation = relation
        self._lost = 0  # in this update
        self._waiting: Cells = NOTHING  # facts that the update has touched and that are not in I
        self._seen = 0 if afresh else int(relation.fields[R.START])
        self._logged = 0

    def lose(self, facts: Cells) -> Cells:
        """The facts that were overdeleted since the last time; `facts` are all of them."""
        before, self._lost = self._lost, len(facts)
        return facts[before:]

    def win(self) -> Cells:
        """The facts that were inserted since the last time, and possibly some that were there."""
        relation = self._relation
        touched = relation.store.touched_facts(relation, self._logged)
        appended = np.arange(self._seen, relation.count, dtype=np.int32)
        self._logged, self._seen = int(relation.store.machine[M.LOG_COUNT]), relation.count
        facts = np.concatenate((self._waiting, touched, appended))
        there = relation.flags[facts] & F.IN != 0
        self._waiting = facts[~there]
        return facts[there]
