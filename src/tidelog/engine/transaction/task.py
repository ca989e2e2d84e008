"""A task: what an update asks of one component, in facts and rules, and how its rules are run for that.

A *job* is a plan with the facts that it starts from. What changed below a component, and rules that came or went, are
jobs; what they bring into the component itself then spreads in rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from tidelog.engine.propagation.derived_heads import COUNT_UP, INSERT, OVERDELETE
from tidelog.engine.propagation.match_sets import Sets
from tidelog.engine.propagation.propagate import JOB_FIELDS, TOP_RANK, queues_to_list, run_jobs, run_rounds, seed
from tidelog.engine.rules.compiled import CompiledRule, Node, PlanTable
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import MOST_KEPT, NOTHING, Delta, Explicit, ExplicitChange, Request, RuleChange
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine.growth import pieces
from tidelog.machine.jit import address
from tidelog.program.plan import ALL, Start
from tidelog.store.loading_order import in_loading_order
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.update_kernels import add_explicit, remove_explicit, set_facts


def explicit_rows(relation: Relation) -> Cells:
    """The rows of the explicit facts of a relation."""
    records = relation.cells[: relation.count]
    return records[(records[:, relation.flags_column] & F.EXPLICIT) != 0, : relation.arity]


def apply_explicit(transaction: Transaction, node: Node, request: Request) -> Explicit:
    """Change E for a component; an addition wins over a deletion of the same fact."""
    explicit = Explicit()
    for predicate, relation in zip(node.predicates, node.relations, strict=True):
        delete = request.delete.get(predicate)
        add = request.add.get(predicate)
        gone, come = NOTHING, NOTHING
        if delete is not None and len(delete):
            gone = _change(transaction, relation, delete, adding=False)
        if add is not None and len(add):
            come = _change(transaction, relation, add, adding=True)
        if len(gone) and len(come):
            both = np.intersect1d(gone, come, assume_unique=True)
            if len(both):
                gone, come = (np.setdiff1d(facts, both, assume_unique=True) for facts in (gone, come))
        transaction.marking.came(predicate, relation, len(come))
        explicit.deleted[relation.number] = gone
        explicit.added[relation.number] = come
        if len(gone) or len(come):
            transaction.explicit[relation] = ExplicitChange(_kept(relation, delete, gone), _kept(relation, add, come))
    return explicit


def _kept(relation: Relation, asked: Cells | None, facts: Cells) -> Cells | None:
    """The rows of explicit facts that changed, mostly just those that were asked for: their numbers may not last."""
    if len(facts) > MOST_KEPT:
        return None
    return asked if asked is not None and len(asked) == len(facts) else relation.rows(facts)


def _change(transaction: Transaction, relation: Relation, rows: Cells, adding: bool) -> Cells:
    rows = np.ascontiguousarray(rows, np.int32)
    if adding:
        rows = in_loading_order(rows, transaction.let_read_during)
    transaction.undo.reserve(len(rows))
    relation.table.complete()
    result = np.empty(len(rows), np.int32)
    kernel: Callable[..., int] = add_explicit if adding else remove_explicit
    if adding:
        relation.reserve(len(rows))
    count, at_rows, at_result = 0, address(rows), address(result)
    for first, last in pieces(len(rows), transaction.store.hooks.between_pieces):
        at = at_rows + 4 * relation.arity * first
        count += kernel(transaction.machine, relation.number, at, last - first, at_result + 4 * count)
    transaction.undo.note_explicit_count(relation)
    relation.explicit_count += count if adding else -count
    return result[:count]


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


class Task:
    """One component in an update: the explicit facts and rules that changed, and the counters that are kept."""

    def __init__(
        self,
        transaction: Transaction,
        node: Node,
        explicit: Explicit,
        rules: RuleChange,
        counters: Counters,
        deltas: Mapping[str, Delta] | None = None,
    ) -> None:
        """`deltas` is what changed below, if it is not all that the transaction knows of."""
        self.transaction = transaction
        self.deltas = transaction.deltas if deltas is None else deltas
        self.node = node
        self.explicit = explicit
        self.rules = rules
        self.counters = counters
        self.relations = node.relations
        self.store = transaction.store
        self.machine = transaction.machine
        self.lists = transaction.lists
        self.runner = transaction.runner
        self.undo = transaction.undo

    def fact_count(self) -> int:
        """How many facts the component has."""
        found = 0
        for relation in self.relations:
            with self.store.making_for(relation):
                found += relation.counted(self.store.hooks.between_pieces)
        return found

    def follow_explicit(self) -> None:
        """Without rules, I is E."""
        for relation in self.relations:
            gone, come = self.explicit.deleted[relation.number], self.explicit.added[relation.number]
            if len(gone):
                relation.mark_unclean()
                set_facts(self.machine, relation.number, address(gone), len(gone), False)
            if len(come):
                set_facts(self.machine, relation.number, address(come), len(come), True)

    def spread(self, action: int, sets: Sets, jobs: list[Job]) -> None:
        """Run jobs, and do this with the heads of what they find."""
        if not jobs:
            return
        growth = self.transaction.growth
        if action == COUNT_UP:
            growth.postpone_covered(job.plan for job in jobs if job.facts is None)
        growth.begin(action)
        sets.install(self.machine)
        self.run_jobs(run_jobs, action, jobs)
        growth.end()

    def run_jobs(self, kernel: Callable[..., int], action: int, jobs: list[Job]) -> None:
        """Run a kernel that takes jobs, and what to do with what they find."""
        table = np.array([job.words() for job in jobs], np.int64).reshape(len(jobs), JOB_FIELDS)
        try:
            self.runner.run(kernel, action, address(table), len(jobs))
        except BaseException:
            # What is given up here may be done in another way, by plans that look at the same facts.
            for job in jobs:
                if job.negative and job.facts is not None:
                    self.store.relations[job.relation].flags[job.facts] &= ~F.SEEN
            raise

    def rounds(self, action: int, sets: Sets) -> None:
        """Let what waits in the component spread to its end."""
        table = self.round_table(action == OVERDELETE)
        self.transaction.growth.begin(action)
        sets.install(self.machine)
        self.machine[M.RANKING] = action == INSERT and self.counters is Counters.NON_RECURSIVE
        self.machine[M.LEVEL] = action == INSERT and self.counters is Counters.LEVELS
        try:
            self.runner.run(run_rounds, action, *self.node.numbers(), *table.arguments())
        finally:
            self.transaction.growth.end_insertion()

    def round_table(self, deleting: bool) -> PlanTable:
        """The plans of the recursion; a deletion comes before the rules that the update adds."""
        return self.node.rounds(self.counters, deleting, self.rules.added_numbers if deleting else frozenset())

    @property
    def has_ranks_left(self) -> bool:
        """Whether every fact so far has got a rank of its own; see `engine.algorithms.ranks`."""
        return bool(self.machine[M.RANK] <= TOP_RANK)

    def note_ranked(self, ranked: bool) -> None:
        """Whether the ranks of the component's facts can be trusted from now on."""
        for relation in self.relations:
            self.undo.note_ranked(relation, ranked)

    def queues_to_list(self, which: int) -> None:
        """Move what waits in the queues of the component's relations to a work list."""
        self.lists.clear(which)
        self.lists.reserve(which, sum(relation.queues.waiting for relation in self.relations))
        queues_to_list(self.machine, *self.node.numbers(), which)

    def seed(self, action: int, relation: Relation, facts: Cells, protect: bool = False) -> None:
        """Let facts wait in their relation's queue."""
        if len(facts):
            self.undo.reserve(len(facts))
            relation.queues.reserve(len(facts))
            facts = np.ascontiguousarray(facts)
            for first, last in pieces(len(facts), self.store.hooks.between_pieces):
                seed(self.machine, action, relation.number, address(facts[first:last]), last - first, protect)

    def from_below(self, deleted: bool) -> list[Job]:
        """Jobs for what changed below: they start from facts that are gone (from new ones where the atom is negated) in
        deletion, from new ones in insertion.
        """
        node, added, deltas = self.node, self.rules.added_numbers, self.deltas
        # Heads that marks announced need not be derived, unless that moves their counters.
        announced = self.transaction.marking.announced if deleted and self.counters is Counters.NONE else ()
        whole = set() if deleted else self._wholly_new()
        jobs = [Job(rule.offset(ALL), self.counters.of(False, deleted)) for rule in whole if rule.number not in added]
        moved = [
            (name, rule, pivot, deleted == (pivot.start is Start.POSITIVE))
            for name, pivots in node.readers.items()
            if name in deltas
            for rule, pivot in pivots
            if not (rule in whole or rule.number in added or self._is_idle(rule) or rule.number in announced)
        ]
        # Listing changes takes time in proportion to them; but a recursion looks at what was there before in any case.
        counts = (deltas[name].gone.count if gone else deltas[name].come.count for name, _, _, gone in moved)
        if node.recursive_rules or any(counts):
            for name, rule, pivot, gone in moved:
                facts = deltas[name].removed if gone else deltas[name].added
                if len(facts):
                    counter, negative = self.counters.of(rule.recursive, deleted), pivot.start is Start.NEGATIVE
                    jobs.append(Job(rule.offset(pivot), counter, facts, self.store.relation(name, 0).number, negative))
        return jobs

    def _is_idle(self, rule: CompiledRule) -> bool:
        """Whether some relation of the rule's own component is still empty: then rounds find all of its instances."""
        return rule.recursive and any(
            self.store.relation(atom.predicate, atom.arity).count == 0
            for atom in rule.normal.positives
            if atom.predicate in rule.own
        )

    def _wholly_new(self) -> set[CompiledRule]:
        """Rules that read a relation which was empty before: all instances are new, and one free join finds them."""
        return {
            rule
            for name, pivots in self.node.readers.items()
            if name in self.deltas and self.undo.is_new(self.store.relation(name, 0))
            for rule, pivot in pivots
            if pivot.start is Start.POSITIVE and not rule.recursive
        }

    def of_rules(self, rules: Collection[CompiledRule], deleted: bool, held: bool = False) -> list[Job]:
        """Jobs for all instances of rules, or for all that held before the update, as those that are deleted did. A
        rule that reads an empty relation has none, and needs no plan yet.
        """
        if deleted:
            self.transaction.list_changes(rule.normal for rule in rules)
        return [
            Job(rule.offset(ALL), self.counters.of(rule.recursive, deleted))
            for rule in rules
            if not self._reads_nothing(rule, held or deleted)
        ]

    def _reads_nothing(self, rule: CompiledRule, held: bool) -> bool:
        """Whether some relation that a rule reads is empty, or was before the update."""
        relations = (self.store.find(atom.predicate) for atom in rule.normal.positives)
        return any(
            relation is None or (relation.closure is None and (relation.count if held else len(relation)) == 0)
            for relation in relations
        )
