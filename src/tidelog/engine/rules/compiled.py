"""Rules and components as the algorithms use them, with plans that are made when they are first needed.

A rule with aggregates becomes two: one that derives groups into a relation of its own, which `algorithms.aggregates`
maintains, and a plain rule that reads that relation. The algorithms see only the second one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tidelog.engine.rules.policy import Costs, Counters
from tidelog.language.syntax import Atom, Rule, Variable
from tidelog.machine.jit import address
from tidelog.program.carried_keys import carried_columns
from tidelog.program.lattices import Lattice, plain_rule
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import HEAD, Pivot, Plan, Start, make_plan
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

# The number of rules that no program has: their work is not reported, and they all share it.
AUXILIARY = 0


class CompiledRule:
    """A rule with its plans in the store's code."""

    def __init__(
        self,
        store: Store,
        number: int,
        normal: NormalRule,
        own: frozenset[str],
        recursive: bool,
        lattice: Lattice | None = None,
    ) -> None:
        self._store = store
        self.number = number
        self.normal = normal
        self.own = own
        self.recursive = recursive
        self.lattice = lattice  # of the predicate of its head
        self.head = store.relation(normal.head.predicate, normal.head.arity)
        self._offsets: dict[Pivot, int] = {}
        self._offset_from_group: int | None = None
        self.plans: dict[Pivot, Plan] = {}
        self.words = 0  # that its plans take in the code

    def offset(self, pivot: Pivot) -> int:
        """Where the plan from this pivot lies in the code. It is made for the sizes that relations have now."""
        offset = self._offsets.get(pivot)
        if offset is None:
            self._store.hooks.before_plan()
            plan = make_plan(self.normal, pivot, self.own, self._store.estimate)
            self.plans[pivot] = plan
            offset = self._offsets[pivot] = self._assembled(plan)
        return offset

    def _assembled(self, plan: Plan) -> int:
        before = self._store.code.size
        offset = self._store.assemble(plan, self.head, self.normal.head.arguments, self.number)
        self.words += self._store.code.size - before
        return offset

    def offset_from_group(self) -> int:
        """The same for a plan from a fact of the head's predicate to all that the rule derives for the group of that
        fact; where no value is kept, it derives the fact itself.
        """
        if self.lattice is None:
            return self.offset(HEAD)
        if self._offset_from_group is None:
            self._store.hooks.before_plan()
            values = (self.lattice.column, self.lattice.witness)
            arguments = tuple(
                Variable(f"#group {column}") if column in values else term
                for column, term in enumerate(self.normal.head.arguments)
            )
            group = Atom(self.normal.head.predicate, arguments)
            rule = replace(self.normal, positives=(group, *self.normal.positives))
            plan = make_plan(rule, Pivot(Start.POSITIVE, 0), self.own, self._store.estimate)
            self._offset_from_group = self._assembled(plan)
        return self._offset_from_group

    def forget_plans(self) -> None:
        """Plans are out of date: what the rule reads has moved, or the code has."""
        self._offsets.clear()
        self._offset_from_group = None
        self.words = 0
        self.plans.clear()

    def own_positions(self) -> Iterator[int]:
        """The positive atoms whose predicates are in the rule's component."""
        return (place for place, atom in enumerate(self.normal.positives) if atom.predicate in self.own)


class PlanTable:
    """Plans of a component by relation, as flat arrays for kernels; each plan with one more number."""

    def __init__(self, plans: dict[Relation, list[tuple[int, int]]]) -> None:
        self._starts: Cells = np.zeros(1 + max(relation.number for relation in plans), np.int32)
        self._ends = self._starts.copy()
        entries: list[tuple[int, int]] = []
        for relation, own in plans.items():
            self._starts[relation.number] = len(entries)
            entries += own
            self._ends[relation.number] = len(entries)
        self._plans = np.array(entries or [(0, 0)], np.int32)

    def arguments(self) -> tuple[int, int, int]:
        """The addresses of where a relation's plans start, where they end, and of the plans."""
        return address(self._starts), address(self._ends), address(self._plans)


class Node:
    """A component with its relations and compiled rules."""

    def __init__(self, store: Store, predicates: tuple[str, ...], relations: list[Relation], rules: list[CompiledRule]):
        self._store = store
        self.predicates = predicates
        self.relations = relations
        self.rules = rules
        self.recursive_rules = [rule for rule in rules if rule.recursive]
        self.computes = any(rule.normal.computes for rule in rules)
        self._numbers: Cells | None = None  # made when they are needed: to make a node must not take memory
        self._rounds: dict[tuple[Counters, bool, frozenset[int]], PlanTable] = {}
        self._heads: dict[frozenset[int], PlanTable] = {}
        self.readers = self._readers()
        self.aggregated: tuple[int, ...] = ()  # the rules that read groups of aggregates
        self.lattices: Mapping[str, Lattice] = {}  # the predicates that keep one value for each group
        self.costs = Costs()
        # The version of `CountedRules` in which its rules were last found to be counted as its algorithm wants.
        self.counted = -1
        # What tells it from other ways to keep the facts of the same predicates, where it has closures beside its
        # rules; see `engine.modules.exchange`.
        self.shape: Hashable = None
        self.plugged_in: Hashable = ()  # the plug-ins that stand for other rules of the component

    def _readers(self) -> dict[str, list[tuple[CompiledRule, Pivot]]]:
        """By predicate of a lower component: the atoms that read it."""
        readers: dict[str, list[tuple[CompiledRule, Pivot]]] = {}
        for rule in self.rules:
            for start, atoms in ((Start.POSITIVE, rule.normal.positives), (Start.NEGATIVE, rule.normal.negatives)):
                for position, atom in enumerate(atoms):
                    if atom.predicate not in rule.own:
                        readers.setdefault(atom.predicate, []).append((rule, Pivot(start, position)))
        return readers

    @property
    def recursive(self) -> bool:
        return bool(self.recursive_rules)

    @property
    def ranked(self) -> bool:
        """Whether the ranks of all of its facts can be trusted; see `engine.algorithms.ranks`."""
        return all(relation.ranked for relation in self.relations)

    def carried_columns(self) -> dict[str, int] | None:
        """The column of each predicate that has a key which all recursive rules carry along, if there is one; a value
        is no key.
        """
        steps = [
            (rule.normal.head, [rule.normal.positives[place] for place in rule.own_positions()])
            for rule in self.recursive_rules
        ]
        columns: dict[str, Sequence[int]] = {}
        for relation in self.relations:
            lattice = self.lattices.get(relation.name)
            columns[relation.name] = range(relation.arity) if lattice is None else lattice.group(relation.arity)
        return carried_columns(steps, columns)

    def complete_tables(self) -> None:
        """From now on single facts of the component are looked for."""
        for relation in self.relations:
            relation.table.complete()

    def forget_plans(self) -> None:
        """The plans of its rules have moved."""
        self._rounds.clear()
        self._heads.clear()

    def numbers(self) -> tuple[int, int]:
        """The address of the numbers of its relations, and how many there are."""
        if self._numbers is None:
            self._numbers = np.array([relation.number for relation in self.relations], np.int32)
        return address(self._numbers), len(self._numbers)

    def rounds(self, counters: Counters, deleting: bool, without: frozenset[int] = frozenset()) -> PlanTable:
        """The plans of its recursion by the relation of their pivot, each with its counter, without those of some
        rules.
        """
        key = (counters, deleting, without)
        if key not in self._rounds:
            plans: dict[str, list[tuple[int, int]]] = {relation.name: [] for relation in self.relations}
            for rule in self.recursive_rules:
                if rule.number not in without:
                    for position in rule.own_positions():
                        plan = rule.offset(Pivot(Start.POSITIVE, position))
                        plans[rule.normal.positives[position].predicate].append((plan, counters.of(True, deleting)))
            self._rounds[key] = PlanTable(dict(zip(self.relations, plans.values(), strict=True)))
        return self._rounds[key]

    def heads(self, without: frozenset[int] = frozenset()) -> PlanTable:
        """The plans that look for a derivation of a given fact, by its relation, non-recursive rules first; each with
        the number of facts of the component that an instance has. Without those of some rules.
        """
        if without not in self._heads:
            plans: dict[Relation, list[tuple[int, int]]] = {relation: [] for relation in self.relations}
            for rule in sorted(self.rules, key=lambda rule: (rule.recursive, len(rule.normal.positives))):
                if rule.number not in without:
                    plans[rule.head].append((rule.offset(HEAD), len(list(rule.own_positions()))))
            self._heads[without] = PlanTable(plans)
        return self._heads[without]


def group_predicate(number: int) -> str:
    """The predicate of the groups of a rule with aggregates; no text can spell it."""
    return f"#groups {number}"


def normal_form(rule: Rule, number: int, keeps_best: bool = False) -> tuple[NormalRule, NormalRule | None]:
    """The rule that algorithms run, and the aggregate rule behind it, if any. Where the predicate keeps the best value
    of each group, every match of the body derives a value.
    """
    if keeps_best:
        return replace(normalise(plain_rule(rule)), source=rule), None
    normal = normalise(rule)
    if not normal.aggregates:
        return normal, None
    # The plain rule that copies the groups into the relation of the head.
    arguments = tuple(Variable(f"#{column}") for column in range(rule.head.arity))
    body = Atom(group_predicate(number), arguments)
    return NormalRule(rule, Atom(rule.head.predicate, arguments), (body,), (), (), (), ()), normal
