"""Rules and components as the algorithms use them, with plans that are made when they are first needed.

A rule with aggregates becomes two: one that derives groups into a relation of its own, which `algorithms.aggregates`
maintains, and a plain rule that reads that relation. The algorithms see only the second one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tidelog.engine.rules.policy import Costs, Counters
from tidelog.language.syntax import Aggregate, Atom, Rule, Variable
from tidelog.machine.jit import address
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import HEAD, Pivot, Plan, Start, make_plan
from tidelog.store.relation import Relation
from tidelog.store.store import Store

# The number of rules that no program has: their work is not reported, and they all share it.
AUXILIARY = 0


class CompiledRule:
    """A rule with its plans in the store's code."""

    def __init__(self, store: Store, number: int, normal: NormalRule, own: frozenset[str], recursive: bool) -> None:
        self._store = store
        self.number = number
        self.normal = normal
        self.own = own
        self.recursive = recursive
        self.head = store.relation(normal.head.predicate, normal.head.arity)
        self._offsets: dict[Pivot, int] = {}
        self.plans: dict[Pivot, Plan] = {}
        self.words = 0  # that its plans take in the code

    def offset(self, pivot: Pivot) -> int:
        """Where the plan from this pivot lies in the code. It is made for the sizes that relations have now."""
        offset = self._offsets.get(pivot)
        if offset is None:
            self._store.hooks.before_plan()
            plan = make_plan(self.normal, pivot, self.own, self._store.estimate)
            self.plans[pivot] = plan
            before = self._store.code.size
            offset = self._store.assemble(plan, self.head, self.normal.head.arguments, self.number)
            self._offsets[pivot] = offset
            self.words += self._store.code.size - before
        return offset

    def forget_plans(self) -> None:
        """Plans are out of date: what the rule reads has moved, or the code has."""
        self._offsets.clear()
        self.words = 0
        self.plans.clear()

    def own_positions(self) -> Iterator[int]:
        """The positive atoms whose predicates are in the rule's component."""
        return (place for place, atom in enumerate(self.normal.positives) if atom.predicate in self.own)


class RoundTable:
    """The plans of a component's recursive rules, by the relation of their pivot, as flat arrays for kernels."""

    def __init__(
        self, store: Store, relations: list[Relation], rules: list[CompiledRule], counters: Counters, deleting: bool
    ) -> None:
        numbers = {relation.name: place for place, relation in enumerate(relations)}
        by_relation: list[list[int]] = [[] for _ in relations]
        for rule in rules:
            for position in rule.own_positions():
                predicate = rule.normal.positives[position].predicate
                plan = rule.offset(Pivot(Start.POSITIVE, position))
                by_relation[numbers[predicate]] += [plan, counters.of(True, deleting)]
        starts = [0]
        for plans in by_relation:
            starts.append(starts[-1] + len(plans) // 2)
        self._starts = np.array(starts, np.int32)
        self._plans = np.array([word for plans in by_relation for word in plans] or [0], np.int32)
        self._relations = np.array([relation.number for relation in relations], np.int32)
        self._places = np.zeros(len(store.relations), np.int32)
        self._places[self._relations] = range(len(relations))

    def arguments(self) -> tuple[int, int, int, int]:
        """What `run_rounds` takes."""
        return address(self._relations), len(self._relations), address(self._starts), address(self._plans)

    def places(self) -> tuple[int, int, int]:
        """For one fact at a time: the place of each relation in `starts`, `starts`, and the plans."""
        return address(self._places), address(self._starts), address(self._plans)

    def relations(self) -> tuple[int, int]:
        return address(self._relations), len(self._relations)


class HeadTable:
    """The plans that look for a derivation of a given fact, by its relation, non-recursive rules first; each with the
    number of facts of the component that an instance has.
    """

    def __init__(self, store: Store, relations: list[Relation], rules: list[CompiledRule]) -> None:
        starts: npt.NDArray[np.int32] = np.zeros(len(store.relations) + 1, np.int32)
        by_head: dict[Relation, list[CompiledRule]] = {relation: [] for relation in relations}
        for rule in sorted(rules, key=lambda rule: (rule.recursive, len(rule.normal.positives))):
            by_head[rule.head].append(rule)
        words: list[int] = []
        self._ends = starts.copy()
        for relation, own in by_head.items():
            starts[relation.number] = len(words) // 2
            for rule in own:
                words += [rule.offset(HEAD), len(list(rule.own_positions()))]
            self._ends[relation.number] = len(words) // 2
        self._starts = starts
        self._plans = np.array(words or [0], np.int32)

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
        self._rounds: dict[tuple[Counters, bool, frozenset[int]], RoundTable] = {}
        self._heads: dict[frozenset[int], HeadTable] = {}
        self.readers = self._readers()
        self.aggregated: tuple[int, ...] = ()  # the rules that read groups of aggregates
        self.costs = Costs()
        # The version of `CountedRules` in which its rules were last found to be counted as its algorithm wants.
        self.counted = -1
        # Whether its rules also derive elsewhere: `CountedRules` then says nothing about its own counters.
        self.keeps_count_alone = False

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

    def complete_tables(self) -> None:
        """From now on single facts of the component are looked for."""
        for relation in self.relations:
            relation.table.complete()

    def forget_plans(self) -> None:
        """The plans of its rules have moved."""
        self._rounds.clear()
        self._heads.clear()

    def rounds(self, counters: Counters, deleting: bool, without: frozenset[int] = frozenset()) -> RoundTable:
        """The plans of its recursion, without those of some rules."""
        key = (counters, deleting, without)
        if key not in self._rounds:
            rules = [rule for rule in self.recursive_rules if rule.number not in without]
            self._rounds[key] = RoundTable(self._store, self.relations, rules, counters, deleting)
        return self._rounds[key]

    def heads(self, without: frozenset[int] = frozenset()) -> HeadTable:
        if without not in self._heads:
            rules = [rule for rule in self.rules if rule.number not in without]
            self._heads[without] = HeadTable(self._store, self.relations, rules)
        return self._heads[without]


def group_predicate(number: int) -> str:
    """The predicate of the groups of a rule with aggregates; no text can spell it."""
    return f"#groups {number}"


def reader_of_groups(rule: Rule, number: int) -> NormalRule:
    """The plain rule that copies the groups of an aggregate rule into its head's relation."""
    arguments = tuple(Variable(f"#{column}") for column in range(rule.head.arity))
    head = Atom(rule.head.predicate, arguments)
    body = Atom(group_predicate(number), arguments)
    return NormalRule(rule, head, (body,), (), (), (), ())


def aggregates(rule: Rule) -> bool:
    return any(isinstance(term, Aggregate) for term in rule.head.arguments)


def normal_form(rule: Rule, number: int) -> tuple[NormalRule, NormalRule | None]:
    """The rule that algorithms run, and the aggregate rule behind it, if any."""
    normal = normalise(rule)
    if not normal.aggregates:
        return normal, None
    return reader_of_groups(rule, number), normal
