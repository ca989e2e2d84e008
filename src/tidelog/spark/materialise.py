"""Materialisation on Spark: the components of a program in waves, each wave semi-naive from the plans of `program/`.

A *wave* is all components whose inputs are complete at the same time: those of one depth in the rule dependency
graph. Its rules are evaluated together, and all that they find new is written by one job; so the number of jobs, each of
which costs its latency, follows the depth of the program and the rounds of its recursions, not the number of its
rules. The first round takes every rule over all facts. Each later one takes the recursive rules, from each atom
that the last round found new facts for: atoms left of this pivot match what was known before, atoms right of it
everything (the extended atoms of Backward/Forward, §3), so that no instance is found twice.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.language.syntax import Atom, Constant, Rule, Term
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.normal import NormalRule, normalise
from tidelog.program.plan import ALL, Absent, Match, Pivot, Plan, Side, Start, Take, make_plan
from tidelog.spark.expressions import Functions
from tidelog.spark.relations import Relations
from tidelog.spark.rules import Context, Head, evaluate
from tidelog.spark.terms import Dictionary, observed

OnProgress = Callable[[str], None]


@dataclass
class Round:
    """What one round of one wave did."""

    wave: int
    number: int
    predicates: tuple[str, ...]
    how: str
    new_facts: int
    seconds: float


@dataclass
class Options:
    """How to materialise. A limit of `None` is no limit."""

    max_facts: int | None = None
    timeout: float | None = None


@dataclass
class Statistics:
    rounds: list[Round] = field(default_factory=list)
    failures: dict[Rule, int] = field(default_factory=lambda: defaultdict(int))


class Materialiser:
    """Computes all consequences of rules over facts that are encoded already."""

    def __init__(
        self,
        spark: SparkSession,
        rules: Iterable[Rule],
        dictionary: Dictionary,
        relations: Relations,
        functions: Functions | None = None,
        options: Options | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self.statistics = Statistics()
        self._spark = spark
        self._graph = RuleGraph(rules)
        self._normal = {number: normalise(rule) for number, rule in self._graph.rules.items()}
        self._dictionary = dictionary
        self._relations = relations
        self._functions = functions or {}
        self._options = options or Options()
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._ids = dictionary.ids_of(_constants(self._normal.values()))
        for rule in self._normal.values():
            for atom in (rule.head, *rule.positives, *rule.negatives):
                relations.declare(atom.predicate, atom.arity)

    def run(self) -> None:
        waves = waves_of(self._graph)
        for number, wave in enumerate(waves, start=1):
            self._run_wave(number, len(waves), wave)

    # ── waves and rounds ─────────────────────────────────────────────────────────────────────────────────────────

    def _run_wave(self, number: int, waves: int, wave: list[Component]) -> None:
        predicates = tuple(name for component in wave for name in component.predicates)
        title = f"wave {number} of {waves}"
        self._relations.settle(predicates)
        found = self._round(title, number, 0, predicates, self._first_plans(wave))
        round_number = 0
        while any(found.values()):
            plans = self._delta_plans(wave)
            if not plans:
                break
            round_number += 1
            self._relations.compact(predicates)
            found = self._round(title, number, round_number, predicates, plans)
        self._relations.settle(predicates)

    def _round(self, title: str, wave: int, number: int, predicates: tuple[str, ...], plans: list[Plan]) -> dict[str, int]:
        started = time.monotonic()
        context = Context(self._spark, self._dictionary, self._ids, self._functions)
        heads = [(plan.rule.head.predicate, evaluate(plan, self._lookup(plan), context)) for plan in plans]
        found = self._relations.add_new(self._encoded(heads))
        for name in predicates:
            if name not in found:
                self._relations[name].delta = 0
        for rule, failed in context.failures:
            self.statistics.failures[rule.source] += observed(failed, "failures")
        new = sum(found.values())
        self.statistics.rounds.append(
            Round(wave, number, predicates, "rounds", new, time.monotonic() - started)
        )
        self._on_progress(f"{title}, round {number}: {new:,} new facts of {len(predicates)} predicates")
        self._check_limits(plans)
        return found

    def _check_limits(self, plans: list[Plan]) -> None:
        rules = "; ".join(dict.fromkeys(str(plan.rule.source) for plan in plans))
        limit = self._options.max_facts
        if limit is not None and self._relations.total > limit:
            raise LimitError(f"more than {limit:,} facts; the last round evaluated: {rules}")
        seconds = self._options.timeout
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; the last round evaluated: {rules}")

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _first_plans(self, wave: list[Component]) -> list[Plan]:
        rules = ((self._normal[number], component) for component in wave for number in component.rules)
        return [self._plan(rule, ALL, component) for rule, component in rules if self._can_match(rule)]

    def _can_match(self, rule: NormalRule) -> bool:
        return all(self._relations.count(atom.predicate) for atom in rule.positives)

    def _delta_plans(self, wave: list[Component]) -> list[Plan]:
        return [
            self._plan(self._normal[number], Pivot(Start.POSITIVE, position), component)
            for component in wave
            for number in component.recursive_rules
            if self._can_match(self._normal[number])
            for position, atom in enumerate(self._normal[number].positives)
            if atom.predicate in component.predicates and self._relations[atom.predicate].delta
        ]

    def _plan(self, rule: NormalRule, pivot: Pivot, component: Component) -> Plan:
        return make_plan(rule, pivot, component.predicates, self._estimate)

    def _estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self._relations.count(atom.predicate) * 0.1 ** len(bound))

    def _lookup(self, plan: Plan) -> Callable[[Take | Match | Absent], DataFrame]:
        """Which facts each step of a plan reads."""

        def lookup(step: Take | Match | Absent) -> DataFrame:
            name = step.atom.predicate
            relation = self._relations[name]
            if isinstance(step, Take):
                return self._relations.frame(name, relation.delta_parts)
            if isinstance(step, Match) and step.own and step.side is Side.BEFORE:
                return self._relations.frame(name, relation.old_parts)
            return self._relations.frame(name)

        return lookup

    # ── heads ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _encoded(self, heads: list[tuple[str, Head]]) -> dict[str, DataFrame]:
        """The heads of all rules by predicate, with ids for the constants that rules computed."""
        computed = [
            head.frame.select(F.col(name).alias("value")) for _, head in heads for name in head.unencoded
        ]
        if computed:
            self._dictionary.extend(reduce(DataFrame.union, computed))
        by_predicate: dict[str, list[DataFrame]] = defaultdict(list)
        for predicate, head in heads:
            renamed = {name: f"{name}_value" for name in head.unencoded}
            frame = head.frame.withColumnsRenamed(renamed)
            frame = self._dictionary.with_ids(frame, {value: name for name, value in renamed.items()})
            by_predicate[predicate].append(frame.select(*self._relations[predicate].columns))
        return {name: reduce(DataFrame.union, frames) for name, frames in by_predicate.items()}


def waves_of(graph: RuleGraph) -> list[list[Component]]:
    """The components by depth: each after all those that it reads."""
    depth: dict[str, int] = {}
    waves: list[list[Component]] = []
    for component in graph.components_in_order():
        read = (name for number in component.rules for names in graph.reads(number) for name in names)
        level = max((depth.get(name, 0) for name in read if name not in component.predicates), default=0)
        depth.update(dict.fromkeys(component.predicates, level + 1))
        while len(waves) <= level:
            waves.append([])
        waves[level].append(component)
    return waves


def _constants(rules: Iterable[NormalRule]) -> Iterator[Constant]:
    """The constants that rules compare ids with or put into heads."""
    for rule in rules:
        terms: list[Term] = [term for atom in (rule.head, *rule.positives, *rule.negatives) for term in atom.arguments]
        terms += [side for item in rule.conditions for side in (item.left, item.right)]
        yield from (term for term in terms if isinstance(term, Constant))


