"""The general module of a recursion: its rules beside the closures, by semi-naive evaluation (Modular, section 4.1).

Its facts lie in records. Where its rules read a closure of the same recursion, they read a relation of virtual pairs,
as they would from below; what the closure has overdeleted or added since the last call are the pivots of the next. What
its rules derive for a closure lies in relations of *fed* edges, which nothing but the closure reads.

Facts are overdeleted as by DRed^c: a counter knows what is derived from below, and protects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidelog.engine.algorithms import delete_rederive as dred
from tidelog.engine.modules.closure_module import ClosureModule
from tidelog.engine.modules.read_pairs import Wanted, wanted_pairs
from tidelog.engine.propagation.derived_heads import INSERT, OVERDELETE
from tidelog.engine.propagation.match_sets import (
    CREATED_FROM_BELOW,
    CREATED_IN_ROUND,
    DESTROYED_FROM_BELOW,
    DESTROYED_IN_ROUND,
    HELD,
    HOLDING,
)
from tidelog.engine.transaction.task import Job, Task
from tidelog.engine.update.deltas import NOTHING, Delta, Explicit, RuleChange
from tidelog.machine import work_lists as L
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells


class GeneralModule:
    """The other rules of a recursion, in one update."""

    def __init__(self, task: Task, closures: Sequence[ClosureModule], afresh: bool) -> None:
        self._task = task
        self._closures = closures
        self._afresh = afresh  # whether all facts of the component are derived again
        for closure in closures:
            closure.overdeleted = self._overdeleted_facts
            closure.read = self._pairs_read

    # --- Diff ---------------------------------------------------------------------------------------------------------

    def difference(self, deleting: bool) -> None:
        if deleting and self._afresh:
            self._forget_all()
        elif deleting:
            self._lose_from_below()
        else:
            self._win_from_below()

    def _lose_from_below(self) -> None:
        """Lines 23 to 25: E⁻, and what is lost with facts below and with rules."""
        task = self._task
        task.lists.clear(L.D)
        jobs, removed_rules = task.from_below(deleted=True), task.of_rules(task.rules.removed, deleted=True)
        if jobs or removed_rules or any(map(len, task.explicit.deleted.values())):
            self._prepare_deletion()
            task.spread(OVERDELETE, DESTROYED_FROM_BELOW, jobs)
            task.spread(OVERDELETE, HELD, removed_rules)
            dred.settle_doubts(task, task.rules.added_numbers)
            for relation in task.relations:
                task.seed(OVERDELETE, relation, task.explicit.deleted[relation.number], protect=True)

    def _win_from_below(self) -> None:
        """Lines 32 and 35: E⁺, and what comes with facts below and with rules."""
        task = self._task
        jobs = [] if self._afresh else task.from_below(deleted=False)
        whole = task.of_rules(task.node.rules if self._afresh else task.rules.added, deleted=False)
        explicit = {} if self._afresh else task.explicit.added
        if jobs or whole or any(map(len, explicit.values())):
            task.node.complete_tables()
            for relation in task.relations if explicit else ():
                task.seed(INSERT, relation, explicit[relation.number])
            task.spread(INSERT, CREATED_FROM_BELOW, jobs)
            task.spread(INSERT, HOLDING, whole)

    # --- Del ----------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        if self._afresh:
            return 0
        removed = {relation.name: facts for closure in self._closures for relation, facts in closure.take_removed()}
        before = self._task.lists.count(L.D)
        if removed or self._waits:
            self._overdelete(self._step(removed, deleting=True))
        return self._task.lists.count(L.D) > before

    @property
    def _waits(self) -> bool:
        """Whether facts wait that have come from below or from other modules."""
        return any(relation.queues.waiting for relation in self._task.relations)

    def _overdelete(self, step: Task) -> None:
        self._prepare_deletion()
        step.spread(OVERDELETE, DESTROYED_FROM_BELOW, step.from_below(deleted=True))
        step.rounds(OVERDELETE, DESTROYED_IN_ROUND)

    def _prepare_deletion(self) -> None:
        self._task.node.complete_tables()
        for relation in self._task.relations:
            relation.mark_unclean()

    def _overdeleted_facts(self, relations: Iterable[Relation]) -> dict[Relation, Cells]:
        """The facts of some relations that have been overdeleted."""
        entries = np.empty(0, np.int64) if self._afresh else self._task.lists.entries(L.D)
        relation_numbers, facts = entries >> 32, (entries & 0xFFFFFFFF).astype(np.int32)
        return {relation: facts[relation_numbers == relation.number] for relation in relations}

    def _pairs_read(self, predicate: str, most: int) -> Wanted | None:
        """The pairs of a closure that rules can match."""
        task = self._task
        return wanted_pairs(task.store, task.node, predicate, task.deltas, most)

    # --- Red ----------------------------------------------------------------------------------------------------------

    def rederive(self) -> None:
        task = self._task
        if self._afresh or not task.lists.count(L.D):
            return
        dred.drop_deleted(task.machine)
        dred.bring_back(task, counted=False)

    # --- Add ----------------------------------------------------------------------------------------------------------

    def add(self) -> int:
        added = {relation.name: facts for closure in self._closures for relation, facts in closure.take_added()}
        begun = {relation.name for closure in self._closures for relation in closure.take_begun()}
        if not added and not begun and not self._waits:
            return False
        self._task.node.complete_tables()
        step = self._step(added, deleting=False)
        step.spread(INSERT, HOLDING, [*step.from_below(deleted=False), *self._whole(begun)])
        step.rounds(INSERT, CREATED_IN_ROUND)
        if not self._task.has_ranks_left:
            self._task.note_ranked(False)
        return True

    def _forget_all(self) -> None:
        """Forget all that was derived; explicit facts wait to be inserted."""
        task = self._task
        for relation in task.relations:
            explicit = task.transaction.forget_derived(task.node, relation, False, 1.0)
            task.seed(INSERT, relation, explicit)
            task.transaction.growth.expect_many(relation)
        task.note_ranked(True)

    def _whole(self, begun: set[str]) -> list[Job]:
        """All instances of the rules that read closures which were empty before."""
        rules = {rule for name in begun for rule, _ in self._task.node.readers.get(name, ())}
        return self._task.of_rules(list(rules), deleted=False)

    # --- what closures have changed -----------------------------------------------------------------------------------

    def _deltas(self, facts: dict[str, Cells], deleting: bool) -> dict[str, Delta]:
        """Pairs that closures have overdeleted or added, by the records that say so."""
        store = self._task.store
        pairs = ((store.relation(name, 2), found) for name, found in facts.items())
        return {
            relation.name: Delta.of_facts(relation, *((found, NOTHING) if deleting else (NOTHING, found)))
            for relation, found in pairs
        }

    def _step(self, facts: dict[str, Cells], deleting: bool) -> Task:
        """A task that is about pairs of closures alone. Rules that the update adds have no part in its deletions."""
        task = self._task
        rules = RuleChange((), task.rules.added) if deleting else RuleChange()
        return Task(task.transaction, task.node, Explicit(), rules, task.counters, self._deltas(facts, deleting))
