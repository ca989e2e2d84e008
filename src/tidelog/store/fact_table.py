"""The hash table of a relation, by which facts are found. New facts may stay out of it for a while.

To enter all facts at once costs a third of entering them while the table grows. So while many facts come whose novelty
is known by other means, the table is *postponed*: it holds the first facts only, until somebody looks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.machine import array_memory as rooms
from tidelog.machine import relation_fields as R
from tidelog.machine.growth import pieces
from tidelog.machine.jit import address
from tidelog.store.relation_kernels import move_table, rebuild_table
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.store.relation import Relation

Keys = npt.NDArray[np.int64]

# The table grows at this load. Linear probing over groups of eight stays short, and a fact costs 15 to 22 bytes there.
MAXIMUM_LOAD = 0.8

# The room of a table that is made for all facts at once.
SLACK = 1.125

# A table with more slots than this for each record is made smaller.
SPARSE = 2.5

NO_LIMIT = 1 << 62


def _groups_for(facts: float) -> int:
    """The groups of eight slots in a table for so many facts."""
    return int(facts / MAXIMUM_LOAD / 8) + 1


class FactTable:
    """The hash table of one relation."""

    def __init__(self, relation: Relation, capacity: int) -> None:
        self._relation = relation
        self.keys, self.facts = self.empty(capacity)
        self.tabled: int | None = None  # how many facts are in the table, if not all
        self.probed = False  # whether a plan looks for single facts

    def publish(self) -> None:
        fields = self._relation.fields
        fields[R.KEYS] = address(self.keys)
        fields[R.FACTS] = address(self.facts)
        fields[R.GROUPS] = len(self.keys) // 8
        fields[R.LIMIT] = int(len(self.keys) * MAXIMUM_LOAD) if self.tabled is None else NO_LIMIT
        fields[R.POSTPONED] = self.tabled is not None

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.facts.nbytes

    def empty(self, capacity: float) -> tuple[Keys, Cells]:
        """The arrays of an empty table for so many facts."""
        return self._empty_groups(_groups_for(capacity))

    def _empty_groups(self, groups: int) -> tuple[Keys, Cells]:
        store = self._relation.store
        keys: Keys = rooms.empty(8 * groups, np.int64, store.spare)
        for first, last in pieces(len(keys), store.hooks.between_pieces):
            keys[first:last] = R.EMPTY
        return keys, rooms.empty(8 * groups, np.int32, store.spare)

    def reserve(self, needed: int) -> None:
        """Make room for so many facts in all."""
        if needed > self._relation.fields[R.LIMIT]:
            self.resize(max(_groups_for(needed), int(len(self.keys) // 8 * 1.5)))

    def shrink(self, records: int) -> None:
        """Make the table smaller if it is too large for so many records."""
        if len(self.keys) > SPARSE * records and self.tabled is None:
            self.resize(_groups_for(self._relation.count))

    def resize(self, groups: int) -> None:
        """Move all entries into a table of another size."""
        keys, facts = self._empty_groups(groups)
        at_keys, at_facts = address(self.keys), address(self.facts)
        store = self._relation.store
        with self._drafted(keys, facts) as number:
            for first, last in pieces(len(self.keys), store.hooks.between_pieces):
                move_table(store.machine, number, at_keys + 8 * first, at_facts + 4 * first, last - first)
        self.keys, self.facts = keys, facts
        self.publish()

    @contextmanager
    def _drafted(self, keys: Keys, facts: Cells) -> Iterator[int]:
        """The number of a relation with the same records and another table, which is filled within: until that is
        done, facts are found by the present one.
        """
        with self._relation.store.draft_of(self._relation) as (number, fields):
            fields[R.KEYS], fields[R.FACTS], fields[R.GROUPS] = address(keys), address(facts), len(keys) // 8
            yield number

    def expect(self, former_slots: int, former_facts: int, share: float) -> None:
        """Give an empty relation a table for a share of so many former facts: one that need not grow is filled in half
        the time. `shrink` sees to it that it is not too large for long.
        """
        groups = max(1, int(share * max(former_slots // 8, _groups_for(former_facts))))
        self.keys, self.facts = self._empty_groups(groups)
        self.publish()

    def replace(self, keys: Keys, facts: Cells, tabled: int | None = None) -> None:
        """Use other arrays, which hold all facts or the first `tabled`."""
        self.keys, self.facts = keys, facts
        self.hold(tabled)

    def fill(self, keys: Keys, facts: Cells) -> None:
        """Use other arrays, which are empty, and enter every record."""
        relation = self._relation
        with self._drafted(keys, facts) as number:
            for first, last in pieces(relation.count, relation.store.hooks.between_pieces):
                rebuild_table(relation.store.machine, number, first, last)
        self.replace(keys, facts)

    def clear(self) -> None:
        self.keys.fill(R.EMPTY)
        if self.tabled is not None:
            self.hold(None)

    # --- postponed ----------------------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether facts can be looked for without entering all of them first."""
        return self.tabled != 0

    def hold(self, tabled: int | None) -> None:
        """The table holds the first `tabled` facts, and new ones stay out of it for now; or it holds all."""
        self.tabled = tabled
        postponed = self._relation.store.postponed
        if tabled is None:
            postponed.discard(self._relation)
        else:
            postponed.add(self._relation)
        self.publish()

    def complete(self, room: int = 0) -> None:
        """Enter the facts that are not in the table yet, with room for so many in all. If memory runs out, nothing
        changes.
        """
        if self.tabled is not None:
            with self._relation.store.making_for(self._relation):
                self.fill(*self.empty(max(self._relation.count * SLACK, room)))
