"""How relations grow while facts come in: how much room they get, and what stands in for their hash tables.

A dense relation of pairs is known by its bits while facts are only inserted. It then needs no hash table until single
facts are looked for. Nor does an empty relation need one for new facts that are all different.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.engine.propagation.derived_heads import COUNT_DOWN, INSERT, OVERDELETE
from tidelog.machine import registers as M
from tidelog.store.relation import Relation
from tidelog.store.store import Store


class RelationGrowth:
    """The relations that an update makes room in."""

    def __init__(self, store: Store, observed: bool = False) -> None:
        """An observer may look for any fact."""
        self._store = store
        self._observed = observed
        self._dense: set[Relation] = set()
        self._postponed: set[Relation] = set()
        self._enlarged: set[Relation] = set()  # those that were full once already
        self._inserting = False
        self._deleting = False  # whether the heads of rules are all known

    def begin(self, action: int) -> None:
        """Kernels are about to do this with the heads of rules."""
        self._inserting = action == INSERT
        self._deleting = action in (COUNT_DOWN, OVERDELETE)
        if not self._inserting:
            self.end_insertion()

    def end(self) -> None:
        self._inserting = False

    def end_insertion(self) -> None:
        """Single facts may be deleted from now on: forget the bits."""
        self._inserting = False
        for relation in self._dense:
            relation.bits.forget()
        self._dense.clear()

    def roll_back(self) -> None:
        for relation in self._postponed:
            relation.drop_untabled()
        self.end_insertion()

    # --- room ---------------------------------------------------------------------------------------------------------

    def make_room(self, relation: Relation, rows: int) -> None:
        """A relation is full, and a kernel has `rows` heads for it."""
        if self._inserting:
            self.expect_many(relation)
            # A relation that is known by its bits needs no table.
            may_wait = relation not in self._postponed and not self._needs_tables
            if may_wait and relation.postpone_table(int(self._store.machine[M.AT_BUFFERED])):
                self._postponed.add(relation)
        if relation.has_room(rows):
            relation.queues.reserve(rows)
            return
        # Ask for more than this batch needs, so that growth stays rare; at first for little more, since most heads may
        # be known, and a table of twice the size would be made smaller again in the end.
        more = relation.count if relation in self._enlarged else relation.count // 4
        self._enlarged.add(relation)
        relation.reserve(max(rows, min(more, 1 << 20, relation.room_left)), known=self._deleting)

    def expect_many(self, relation: Relation) -> None:
        """Many facts are about to come into a relation: if it is dense, it keeps bits."""
        # First: whatever fails on the way, the bits are forgotten.
        self._dense.add(relation)
        with self._store.making_for(relation):
            relation.bits.keep()

    def expect_long_work(self) -> None:
        """Insertion that has used up a budget goes on for long: bits pay for the relation that facts come into now."""
        if self._inserting and not self._observed:
            relation = self._store.relations[self._store.machine[M.AT_TARGET]]
            if relation not in self._dense:
                self.expect_many(relation)

    # --- tables that wait ---------------------------------------------------------------------------------------------

    @property
    def _needs_tables(self) -> bool:
        """Whether single facts may be looked for in the middle of the work."""
        return self._observed or bool(self._store.machine[M.MARKING])

    def postpone_covered(self, plans: Iterable[int]) -> None:
        """The first facts of a relation need no table where no two of them can be equal: see `short_plans`."""
        if self._needs_tables:
            return
        for plan in plans:
            covered = self._store.code.covered(plan)
            if covered is not None:
                target, scanned = (self._store.relations[number] for number in covered)
                if target.count == 0 and not target.table.probed and not target.has_room(scanned.count):
                    self._postponed.add(target)
                    target.expect_different(scanned.count)
