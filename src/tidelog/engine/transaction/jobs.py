"""Propagation through the rules of one component: which plans run from which facts, and running them.

A *job* is a plan with the facts that it starts from. What changed below a component, and rules that came or went, are
jobs; what they bring into the component itself then spreads in rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from tidelog.engine.marking.marking import Marking
from tidelog.engine.propagation.derived_heads import COUNT_UP, INSERT, OVERDELETE
from tidelog.engine.propagation.match_sets import Sets
from tidelog.engine.propagation.propagate import JOB_FIELDS, TOP_RANK, queues_to_list, run_jobs, run_rounds, seed
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.rules.policy import Counters
from tidelog.engine.update.deltas import Delta, RuleChange
from tidelog.engine.update.relation_growth import RelationGrowth
from tidelog.engine.update.runner import Runner
from tidelog.engine.update.undo import UndoLog
from tidelog.machine import registers as M
from tidelog.machine.jit import address
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store


class Job(NamedTuple):
    """A plan and the facts of a relation that it starts from, or None for all instances of its rule."""

    plan: int
    counter: int  # that an instance moves
    facts: Cells | None = None
    relation: int = 0
    negative: bool = False  # whether the facts match a negated atom

    def words(self) -> tuple[int, ...]:
        """As `run_jobs` takes it; the facts have to live for as long as it runs."""
        if self.facts is None:
            return self.plan, 0, 1, 0, self.counter, 0
        return self.plan, address(self.facts), len(self.facts), int(self.negative), self.counter, self.relation


class Jobs:
    """The jobs of an update in work."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        growth: RelationGrowth,
        undo: UndoLog,
        marking: Marking,
        deltas: Mapping[str, Delta],
    ) -> None:
        self._store = store
        self._machine = store.machine
        self._runner = runner
        self._growth = growth
        self._undo = undo
        self._marking = marking
        self._deltas = deltas

    # --- running ------------------------------------------------------------------------------------------------------

    def spread(self, action: int, sets: Sets, jobs: list[Job]) -> None:
        """Run jobs, and do this with the heads of what they find."""
        if not jobs:
            return
        if action == COUNT_UP:
            self._growth.postpone_covered(job.plan for job in jobs if job.facts is None)
        self._growth.begin(action)
        sets.install(self._machine)
        table = np.array([job.words() for job in jobs], np.int64).reshape(len(jobs), JOB_FIELDS)
        self._runner.run(run_jobs, action, address(table), len(jobs))
        self._growth.end()

    def rounds(self, action: int, sets: Sets, node: Node, counters: Counters, without: frozenset[int]) -> None:
        """Let what waits in a component spread to its end."""
        table = node.rounds(counters, action == OVERDELETE, without)
        self._growth.begin(action)
        sets.install(self._machine)
        self._machine[M.RANKING] = action == INSERT and counters is Counters.NON_RECURSIVE
        try:
            self._runner.run(run_rounds, action, *node.numbers(), *table.arguments())
        finally:
            self._growth.end_insertion()

    @property
    def has_ranks_left(self) -> bool:
        """Whether every fact so far has got a rank of its own; see `engine.algorithms.ranks`."""
        return bool(self._machine[M.RANK] <= TOP_RANK)

    # --- queues -------------------------------------------------------------------------------------------------------

    def queues_to_list(self, node: Node, which: int) -> None:
        """Move what waits in the queues of a component's relations to a work list."""
        lists = self._store.lists
        lists.clear(which)
        lists.reserve(which, sum(relation.queues.waiting for relation in node.relations))
        queues_to_list(self._machine, *node.numbers(), which)

    def seed(self, action: int, relation: Relation, facts: Cells, protect: bool = False) -> None:
        """Let facts wait in their relation's queue."""
        if len(facts):
            self._undo.reserve(len(facts))
            relation.queues.reserve(len(facts))
            seed(self._machine, action, relation.number, address(np.ascontiguousarray(facts)), len(facts), protect)

    # --- collecting ---------------------------------------------------------------------------------------------------

    def from_below(self, node: Node, rules: RuleChange, deleted: bool, counters: Counters) -> list[Job]:
        """Jobs for what changed below: they start from facts that are gone (from new ones where the atom is negated) in
        deletion, from new ones in insertion.
        """
        # Heads that marks announced need not be derived, unless that moves their counters.
        announced = self._marking.announced if deleted and counters is Counters.NONE else ()
        readers = [(self._deltas[name], node.readers[name]) for name in node.readers if name in self._deltas]
        whole = set() if deleted else self._wholly_new(node)
        jobs = [
            Job(rule.offset(ALL), counters.of(False, deleted))
            for rule in whole
            if rule.number not in rules.added_numbers
        ]
        moved = [
            (delta, rule, pivot, deleted == (pivot.start is Start.POSITIVE))
            for delta, pivots in readers
            for rule, pivot in pivots
            if not (rule in whole or rule.number in rules.added_numbers or self._is_idle(rule))
            if rule.number not in announced
        ]
        # Listing changes takes time in proportion to them; but a recursion looks at what was there before in any case.
        if node.recursive_rules or any(delta.gone.count if gone else delta.come.count for delta, _, _, gone in moved):
            for delta, rule, pivot, gone in moved:
                facts = delta.removed if gone else delta.added
                if len(facts):
                    jobs.append(self._job(rule, pivot, facts, counters.of(rule.recursive, deleted)))
        return jobs

    def _job(self, rule: CompiledRule, pivot: Pivot, facts: Cells, counter: int) -> Job:
        negative = pivot.start is Start.NEGATIVE
        atom = (rule.normal.negatives if negative else rule.normal.positives)[pivot.position]
        relation = self._store.relation(atom.predicate, atom.arity)
        return Job(rule.offset(pivot), counter, facts, relation.number, negative)

    def _is_idle(self, rule: CompiledRule) -> bool:
        """Whether some relation of the rule's own component is still empty: then rounds find all of its instances."""
        return rule.recursive and any(
            self._store.relation(atom.predicate, atom.arity).count == 0
            for atom in rule.normal.positives
            if atom.predicate in rule.own
        )

    def _wholly_new(self, node: Node) -> set[CompiledRule]:
        """Rules that read a relation which was empty before: all instances are new, and one free join finds them."""
        return {
            rule
            for name, pivots in node.readers.items()
            if name in self._deltas and self._undo.is_new(self._store.relation(name, 0))
            for rule, pivot in pivots
            if pivot.start is Start.POSITIVE and not rule.recursive
        }

    def of_rules(
        self, rules: Collection[CompiledRule], deleted: bool, counters: Counters, held: bool = False
    ) -> list[Job]:
        """Jobs for all instances of rules, or for all that held before the update, as those that are deleted did. A
        rule that reads an empty relation has none, and needs no plan yet.
        """
        if deleted:
            self.list_changes(rule.normal for rule in rules)
        return [
            Job(rule.offset(ALL), counters.of(rule.recursive, deleted))
            for rule in rules
            if not self._reads_nothing(rule, held or deleted)
        ]

    def _reads_nothing(self, rule: CompiledRule, held: bool) -> bool:
        """Whether some relation that a rule reads is empty, or was before the update."""
        relations = (self._store.find(atom.predicate) for atom in rule.normal.positives)
        return any(
            relation is None or (relation.closure is None and (relation.count if held else len(relation)) == 0)
            for relation in relations
        )

    def list_changes(self, rules: Iterable[NormalRule]) -> None:
        """Make records for all that changed: they tell what held before from what holds now."""
        for rule in rules:
            for atom in (*rule.positives, *rule.negatives):
                delta = self._deltas.get(atom.predicate)
                if delta is not None:
                    delta.listed()
