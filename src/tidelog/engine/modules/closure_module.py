"""A closure as a module of a larger recursion (Modular, sections 5 and 6), whose pairs stay virtual.

The closure has a base below the recursion, whose edges are *safe*, and edges that the rules of the recursion feed it
with (`closures.layers`). Rules of the recursion that read it see a relation of virtual pairs; its records are the pairs
that the update in work has overdeleted or added so far, and go with it.

    Del   takes edges out. It overdeletes all pairs that had a path along one of them, which is what DRed overdeletes,
          except for those that safe edges still yield: they have a proof below the recursion.
    Red   puts the fed edges that are left in again, as far as they are needed, and takes back the overdeleted pairs
          that the edges yield.
    Add   puts edges in.

Mostly the closure changes once in an update. Then only those of its pairs get records that other rules can match
(`read_pairs`), and the closure itself says what the whole change was. Before it changes again, all get them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tidelog.closures.closed_graph import NO_EDGES, watch_nothing
from tidelog.closures.edges import Edges
from tidelog.closures.history import ClosureChange
from tidelog.engine.modules.closure_node import ClosureNode, Member
from tidelog.engine.modules.read_pairs import Wanted
from tidelog.engine.modules.record_changes import RecordChanges
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update import pair_sets
from tidelog.engine.update.deltas import Delta
from tidelog.engine.update.pair_sets import ChangedPairs, ClosurePairs, StoredPairs, closure_delta, missing
from tidelog.machine import flags as F
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

Overdeleted = Callable[[Iterable[Relation]], dict[Relation, Cells]]
"""Gives the facts of relations that the general module has overdeleted so far."""

Read = Callable[[str, int], Wanted | None]
"""Gives the pairs of a predicate that other rules can match, if looking at so many facts is enough to tell."""

# From this many times as many fed edges as overdeleted pairs on, the pairs are looked up among the edges.
FEW_PAIRS = 4

# No more changed pairs than these are all listed. Of more, those that can be matched are looked for, in relations that
# are so many times smaller.
FEW_CHANGED = 1_000
SMALLER = 4


class ClosureModule:
    """A closure in the recursion of its component, in one update."""

    def __init__(self, transaction: Transaction, node: ClosureNode, afresh: bool) -> None:
        self._transaction = transaction
        self._store = transaction.store
        self._node = node
        self._afresh = afresh
        if afresh:
            node.start_over()
            node.replace(transaction)
            self._gone, self._come = None, None
        else:
            self._gone, self._come = node.changed_edges(transaction)
            node.begin_change()
        self._was_empty = node.relation.was_empty
        self._is_read = False  # whether the other rules have asked for its pairs
        self._begins = False  # whether it has pairs now, and had none when they asked
        self._has_lost = False  # whether pairs have been overdeleted
        self._has_changed = False
        self._partly_listed: ClosureChange | None = None  # the only change so far, if some of its pairs have no records
        self._removed: dict[Relation, list[Cells]] = {}
        self._added: dict[Relation, list[Cells]] = {}
        self._edges = {relation: _FedEdges(relation, turned, afresh) for relation, turned in node.fed_members()}
        self.overdeleted: Overdeleted
        self.read: Read

    # --- Diff, Del, Red and Add ---------------------------------------------------------------------------------------

    def difference(self, deleting: bool) -> None:
        """Nothing: no rule of a closure reads what is below. What its base has lost and won is Δ of lines 23 and 32."""

    def delete(self) -> int:
        if self._afresh:
            return 0
        gone, self._gone = self._gone or NO_EDGES, None
        facts = self.overdeleted(self._edges)
        fed = [self._node.fed_edges(*edges.lose(facts[relation])) for relation, edges in self._edges.items()]
        layers = self._node.layers
        if not layers.is_safe:
            return sum(map(self._overdelete, layers.delete(gone, _joined(fed))))
        # No fed edge has been put in.
        return self._vanish(layers.replace(gone, NO_EDGES, watch_nothing)) if len(gone[0]) else 0

    def _vanish(self, change: ClosureChange) -> int:
        """Note pairs that a change took; how many."""
        count = change.removed_count
        if count:
            looks_up = any(relation.count > FEW_PAIRS * count for relation in self._edges)
            for member, rows in self._listed(change, False, not looks_up):
                self._note_removed(member.relation, rows)
            self._has_lost = True
        return count

    def _overdelete(self, pairs: Edges) -> int:
        """Note pairs that are overdeleted; how many were not before."""
        self._has_lost = self._has_changed = True
        found = 0
        for relation, rows in self._rows(pairs):
            found = self._note_removed(relation, rows)
        self._transaction.runner.check_limits()
        return found

    def _note_removed(self, relation: Relation, rows: Cells) -> int:
        before = relation.count
        relation.load(rows, F.OLD)
        if relation.count > before:
            facts = np.arange(before, relation.count, dtype=np.int32)
            self._removed.setdefault(relation, []).append(facts)
        return relation.count - before

    def rederive(self) -> None:
        if self._afresh or not self._has_lost:
            return
        layers = self._node.layers
        for edges in self._edges.values():
            self._feed(edges.left(self._overdeleted_rows(edges)))
        self._node.show_again()
        if not layers.is_safe:
            for member in self._node.members:
                relation = member.relation
                rows = relation.rows(np.arange(relation.count, dtype=np.int32))
                held = member.view_of(self._node.closure).contains(rows[:, 0], rows[:, 1])
                relation.flags[held] |= F.IN

    def _overdeleted_rows(self, edges: _FedEdges) -> Cells | None:
        """The overdeleted pairs, if they are few, as rows of a relation of fed edges."""
        leader = self._node.relation
        if self._partly_listed or FEW_PAIRS * leader.count > edges.relation.count:
            return None
        rows = leader.rows(np.arange(leader.count, dtype=np.int32))
        return rows[:, ::-1] if edges.turned else rows

    def add(self) -> int:
        come, self._come = self._come or NO_EDGES, None
        came = 0
        if len(come[0]):
            self._list_rest()
            came = self._appear(self._node.layers.add_safe(come, self._watch()))
        for edges in self._edges.values():
            came += self._appear(self._feed(edges.win()))
        return came

    def _feed(self, rows: tuple[Cells, bool]) -> ClosureChange | None:
        """Put those fed edges in that are needed."""
        needed = self._node.layers.needed(self._node.fed_edges(*rows))
        if len(needed[0]) == 0:
            return None
        self._list_rest()
        return self._node.layers.add_more(needed, self._watch())

    def _appear(self, change: ClosureChange | None) -> int:
        """Note pairs that a change brought; how many."""
        if change is None or not change.added_count:
            return 0
        self._node.show_again()
        if self._was_empty and not self._is_read:
            self._begins = True
            return change.added_count
        for member, rows in self._listed(change, True):
            self._note_added(member.relation, rows)
        return change.added_count

    def _note_added(self, relation: Relation, rows: Cells) -> None:
        before = relation.count
        relation.load(rows, F.IN)
        if not self._has_lost:
            facts = np.arange(before, relation.count, dtype=np.int32)
        else:
            facts = self._store.find_facts(relation, rows)
            relation.flags[facts] |= F.IN
        self._added.setdefault(relation, []).append(facts)

    # --- what gets records --------------------------------------------------------------------------------------------

    def _listed(
        self, change: ClosureChange, appeared: bool, may_be_partial: bool = True
    ) -> Iterator[tuple[Member, Cells]]:
        """The pairs that a change brought or took, as rows for each member: those that other rules can match, or all
        where these are not known, or where the records have to tell what the update has changed.
        """
        count = change.count(appeared)
        is_only_one = self._needs_no_records or not self._has_changed
        self._has_changed = True
        for member, pairs in self._changed(change, appeared):
            wanted = None
            if may_be_partial and is_only_one and count > FEW_CHANGED:
                wanted = self.read(member.relation.name, count // SMALLER)
            if wanted is None:
                pieces = pairs.pieces()
            else:
                self._partly_listed = change
                pieces = (pairs.rows.having(column, terms) for column, terms in wanted.items())
            for rows in pieces:
                yield member, rows
                self._transaction.runner.check_limits()

    @property
    def _needs_no_records(self) -> bool:
        """Whether what the update has changed can be told without records."""
        return self._afresh or self._was_empty

    def _list_rest(self) -> None:
        """The closure is about to change again: all pairs that it has lost or won get records. Nobody else has to know
        of those that had none.
        """
        change, self._partly_listed = self._partly_listed, None
        if change is None or self._needs_no_records:
            return
        for appeared, flag in ((False, F.OLD), (True, F.IN)):
            for member, pairs in self._changed(change, appeared):
                for rows in pairs.pieces():
                    member.relation.load(rows, flag)
                    self._transaction.runner.check_limits()

    def _changed(self, change: ClosureChange, appeared: bool) -> Iterator[tuple[Member, ChangedPairs]]:
        pairs = pair_sets.changed(change, appeared, self._store.readers)
        return ((member, pairs.turned() if member.turned else pairs) for member in self._node.members)

    def _rows(self, pairs: Edges) -> Iterator[tuple[Relation, Cells]]:
        """Pairs as rows of each relation that shows them."""
        for member in self._node.members:
            yield member.relation, np.stack(pairs[::-1] if member.turned else pairs, axis=1)

    def _watch(self) -> Callable[[int], None]:
        return self._node.watch(self._transaction)

    # --- what the other rules take ------------------------------------------------------------------------------------

    def take_removed(self) -> Iterator[tuple[Relation, Cells]]:
        """The records of the pairs that were overdeleted since the last time."""
        return _taken(self._removed)

    def take_added(self) -> Iterator[tuple[Relation, Cells]]:
        """The records of the pairs that were added since the last time."""
        return _taken(self._added)

    def take_begun(self) -> list[Relation]:
        """The relations that were empty, and hold all pairs now, without records."""
        begun = [member.relation for member in self._node.members] if self._begins else []
        self._is_read, self._begins = True, False
        return begun

    # --- the end ------------------------------------------------------------------------------------------------------

    def deltas(self) -> dict[str, Delta]:
        """What the update has changed in the pairs that each relation shows."""
        if self._afresh:
            for member in self._node.members:
                member.relation.clear()
            return self._node.compared(self._transaction)
        if self._partly_listed and not self._was_empty:
            for member in self._node.members:
                member.relation.clear()
            return self._node.deltas_of(self._partly_listed, self._transaction)
        found = {}
        for member in self._node.members:
            relation = member.relation
            if self._was_empty:
                relation.clear()
                pairs = ClosurePairs(self._node.closure, member.turned)
                none = missing(StoredPairs(_NO_ROWS), pairs, 0, self._store.readers)
                come = missing(pairs, StoredPairs(_NO_ROWS), len(pairs), self._store.readers)
                delta = closure_delta(relation, none, come, self._transaction.runner.check_limits)
            else:
                changed = relation.flags & (F.IN | F.OLD)
                facts = (np.flatnonzero(changed == flag).astype(np.int32) for flag in (F.OLD, F.IN))
                delta = Delta.of_facts(relation, *facts)
                # Its records go with the update.
                relation.mark_unclean()
            if delta:
                found[relation.name] = delta
        return found


class _FedEdges:
    """The edges of a closure that lie in one relation, as rows."""

    def __init__(self, relation: Relation, turned: bool, afresh: bool) -> None:
        self.relation = relation
        self.turned = turned
        self._changes = RecordChanges(relation, afresh)

    def lose(self, facts: Cells) -> tuple[Cells, bool]:
        """The rows of the facts that were overdeleted since the last time; `facts` are all of them."""
        return self.relation.rows(self._changes.lose(facts)), self.turned

    def left(self, rows: Cells | None) -> tuple[Cells, bool]:
        """All rows that are left, or those among the given ones."""
        relation = self.relation
        facts = None if rows is None else relation.store.find_facts(relation, rows)
        flags = relation.flags if facts is None else relation.flags[facts]
        there = flags & (F.IN | F.DELETED) == F.IN
        if facts is None:
            return relation.rows(np.flatnonzero(there).astype(np.int32)), self.turned
        return relation.rows(facts[there & (facts >= 0)]), self.turned

    def win(self) -> tuple[Cells, bool]:
        """The rows that were derived since the last time, and possibly some that were there."""
        return self.relation.rows(self._changes.win()), self.turned


def _taken(facts: dict[Relation, list[Cells]]) -> Iterator[tuple[Relation, Cells]]:
    found = {relation: np.concatenate(parts) for relation, parts in facts.items()}
    facts.clear()
    return iter(found.items())


def _joined(edges: list[Edges]) -> Edges:
    sources, targets = zip(*edges, strict=True)
    return np.concatenate(sources), np.concatenate(targets)


_NO_ROWS: Cells = np.empty((0, 2), np.int32)
