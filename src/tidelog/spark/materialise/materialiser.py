"""Materialisation on Spark: the components of a program in waves, each wave semi-naive from the plans of `program/`.

A *wave* is all components whose inputs are complete at the same time: those of one depth in the rule dependency
graph. Its rules are evaluated together, many in one job that writes all that they find new; so the number of jobs,
each of which costs its latency, follows the depth of the program and the rounds of its recursions more than the number
of its rules. The first round takes every rule over all facts. Each later one takes the recursive rules, from each atom
that the last round found new facts for: atoms left of this pivot match what was known before, atoms right of it
everything (the extended atoms of Backward/Forward, §3), so that no instance is found twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.language.syntax import Atom, Constant, Query, Rule, Term, variables
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Kind, Module, recognise
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, Absent, Match, Pivot, Plan, Side, Start, Take, make_plan
from tidelog.spark.data.dictionary import Dictionary, observed
from tidelog.spark.data.fact_encoding import decoded_records, load
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.fact_records import RECORD_TYPE
from tidelog.spark.data.term_lookup import ids_of_constants
from tidelog.spark.materialise.closure_frames import symmetric_closure, transitive_closure, with_diagonal
from tidelog.spark.materialise.doubling import closure_by_doubling
from tidelog.spark.materialise.local_tasks import BEYOND_LIMIT, solve_by_ids, solve_by_values, with_ids
from tidelog.spark.options import OnProgress, Options, Round, Statistics
from tidelog.spark.plan.head_frames import encoded
from tidelog.spark.plan.rule_frames import Context, evaluate, needs_values
from tidelog.spark.plan.sql_expressions import Functions

# A job of hundreds of joins takes more memory for its plan than for its data.
RULES_IN_A_JOB = 16


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
        # Tasks read the pairs of a closure by themselves, which takes a path of the file system.
        self._remote = "://" in relations.folder
        self._ids = ids_of_constants(dictionary, constants_of(self._normal.values()))
        for rule in self._normal.values():
            for atom in (rule.head, *rule.positives, *rule.negatives):
                relations.declare(atom.predicate, atom.arity)
        self._arities = {name: relations[name].arity for name in relations}

    def run(self) -> None:
        """Evaluate every component: small ones inside a task, as far as that goes, and the others by rounds."""
        waves = waves_of(self._graph)
        done: set[Component] = set()
        for number, wave in enumerate(waves, start=1):
            title = f"wave {number} of {len(waves)}"
            block = self._small_block(
                [component for later in waves[number - 1 :] for component in later if component not in done]
            )
            if block and self._solve_in_task(title, number, block):
                done.update(block)
            rest = [component for component in wave if component not in done]
            if rest:
                self._run_wave(title, number, rest)

    def answers(self, query: Query) -> tuple[list[str], DataFrame | None]:
        """The named variables of a query that it binds, and its distinct answers, a column of values for each."""
        named = dict.fromkeys(v for item in query.body for v in variables(item) if not v.anonymous)
        probe = normalise(Rule(Atom("?"), query.body))
        known = {v for atom in probe.positives for v in variables(atom)} | {item.variable for item in probe.definitions}
        asked = [variable for variable in named if variable in known]
        rule = normalise(Rule(Atom("?", tuple(asked)), query.body))
        names = [variable.name for variable in asked]
        if not self._can_match(rule):
            return names, None
        ids = self._ids | ids_of_constants(self._dictionary, constants_of([rule]))
        context = Context(self._spark, self._dictionary, ids, self._functions)
        for atom in (*rule.positives, *rule.negatives):
            self._relations.declare(atom.predicate, atom.arity)
        plan = make_plan(rule, ALL, (), self._estimate)
        head = evaluate(plan, self._lookup(plan), context)
        plain = {f"c{n}": f"v{n}" for n in range(len(names)) if f"c{n}" not in head.unencoded}
        frame = self._dictionary.with_values(head.frame, plain)
        columns = [plain.get(f"c{n}", f"c{n}") for n in range(len(names))] or ["c0"]
        return names, frame.select(*columns).distinct()

    # ── components inside one task ───────────────────────────────────────────────────────────────────────────────

    def _small_block(self, components: list[Component]) -> list[Component]:
        """Those of the components, in order, whose inputs together are small enough for one task."""
        budget = self._options.local_facts
        if not budget:
            return []
        block: list[Component] = []
        missing = {name for component in components for name in component.predicates}
        counted: set[str] = set()
        for component in components:
            reads = self._reads(component)
            size = sum(self._relations.count(name) for name in reads - counted)
            if reads & missing <= set(component.predicates) and size <= budget:
                block.append(component)
                budget -= size
                counted |= reads
                missing -= set(component.predicates)
        return block

    def _reads(self, component: Component) -> set[str]:
        read = {name for number in component.rules for names in self._graph.reads(number) for name in names}
        return read | set(component.predicates)

    def _solve_in_task(self, title: str, wave: int, block: list[Component]) -> bool:
        """Solve components with the embedded engine; False where they yield more than a task should hold."""
        started = time.monotonic()
        rules = [self._normal[number] for component in block for number in component.rules]
        by_ids = not any(needs_values(rule, not self._dictionary.floats) for rule in rules)
        solve = self._solve_by_ids if by_ids else self._solve_by_values
        inputs = sorted({name for component in block for name in self._reads(component) if self._relations.count(name)})
        outputs = sorted({name for component in block for name in component.predicates})
        if not inputs:
            return False
        self._relations.settle(outputs)
        found = solve(inputs, outputs, [rule.source for rule in rules])
        self._relations.settle(outputs)
        how = f"in one task, {'on ids' if by_ids else 'on values'}"
        if found is None:
            self._on_progress(f"{title}: more than {self._options.local_results:,} facts {how}; going on by rounds")
            return False
        self._note(Round(wave, 0, tuple(outputs), how, found, time.monotonic() - started), title)
        self._check_limits([rule.source for rule in rules])
        return True

    def _solve_by_ids(self, inputs: list[str], outputs: list[str], rules: list[Rule]) -> int | None:
        coded = [with_ids(rule, self._ids) for rule in rules]
        numbers = self._relations.numbers({*inputs, *outputs})
        wide = self._relations.wide(inputs)
        solved = solve_by_ids(wide, numbers, outputs, self._arities, coded, self._options.local_results)
        found = self._relations.add_wide(solved, outputs)
        return None if found is None else sum(found.values())

    def _solve_by_values(self, inputs: list[str], outputs: list[str], rules: list[Rule]) -> int | None:
        numbers = {name: (number, self._arities[name]) for name, number in self._relations.numbers(inputs).items()}
        given = decoded_records(self._relations.wide(inputs), numbers, self._dictionary)
        solved = solve_by_values(given, outputs, self._arities, rules, self._functions, self._options.local_results)
        staged = self._relations.staged(solved, RECORD_TYPE)
        reasons = [row["reason"] for row in staged.where("reason IS NOT NULL").select("reason").collect()]
        if BEYOND_LIMIT in reasons:
            return None
        self.statistics.failures_in_tasks += sum(map(int, reasons))
        derived = {name: self._arities[name] for name in outputs}
        return load(staged, derived, 0, self._dictionary, self._relations)

    # ── waves and rounds ─────────────────────────────────────────────────────────────────────────────────────────

    def _run_wave(self, title: str, number: int, wave: list[Component]) -> None:
        predicates = tuple(name for component in wave for name in component.predicates)
        self._relations.settle(predicates)
        closures = {component: module for component in wave if (module := self._module(component))}
        found = self._round(title, number, 0, predicates, self._first_plans(wave, closures))
        for component, module in closures.items():
            self._close(title, number, component, module)
        wave = [component for component in wave if component not in closures]
        round_number = 0
        while any(found.values()):
            plans = self._delta_plans(wave)
            if not plans:
                break
            round_number += 1
            self._relations.compact(predicates)
            found = self._round(title, number, round_number, predicates, plans)
        self._relations.settle(predicates)

    def _round(
        self, title: str, wave: int, number: int, predicates: tuple[str, ...], plans: list[Plan]
    ) -> dict[str, int]:
        started = time.monotonic()
        context = Context(self._spark, self._dictionary, self._ids, self._functions)
        heads = [(plan.rule.head.predicate, evaluate(plan, self._lookup(plan), context)) for plan in plans]
        self._relations.settle(predicates)
        found: Counter[str] = Counter()
        # The frames of the heads know what they read: what a batch adds is no input of those after it.
        for batch in batched(heads, RULES_IN_A_JOB):
            names = list(dict.fromkeys(name for name, _ in batch))
            numbered = [(self._relations[name].number, self._relations[name].arity, head) for name, head in batch]
            found.update(self._relations.add_new(encoded(numbered, self._relations.staged, self._dictionary), names))
        for rule, failed in context.failures:
            self.statistics.failures[rule.source] += observed(failed, "failures")
        new = sum(found.values())
        self._note(Round(wave, number, predicates, f"round {number}", new, time.monotonic() - started), title)
        self._check_limits([plan.rule.source for plan in plans])
        return found

    def _note(self, done: Round, title: str) -> None:
        self.statistics.rounds.append(done)
        names = ", ".join(done.predicates[:3]) + (", …" if len(done.predicates) > 3 else "")
        self._on_progress(f"{title} ({names}), {done.how}: {done.new_facts:,} new facts, {done.seconds:.1f} s")

    def _check_limits(self, rules: list[Rule], more: int = 0) -> None:
        """Stop where there are too many facts, `more` of them in no relation yet, or where it takes too long."""
        shown = "; ".join(dict.fromkeys(map(str, rules)))
        limit = self._options.max_facts
        if limit is not None and self._relations.total + more > limit:
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}")
        seconds = self._options.timeout
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}")

    # ── closures ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _module(self, component: Component) -> Module | None:
        """The closure that a component is, where it is nothing else and can be computed as one."""
        modules, _ = recognise({number: self._graph.rule(number) for number in component.rules})
        if len(modules) != 1 or len(component.predicates) != 1:
            return None
        [module] = modules
        if not set(component.recursive_rules) <= set(module.rules):
            return None
        if module.needs_distinct_values and self._dictionary.floats:
            return None
        if module.needs_no_explicit_facts and self._relations.count(module.predicate):
            return None
        return module

    def _close(self, title: str, wave: int, component: Component, module: Module) -> None:
        started = time.monotonic()
        name = module.predicate
        source = module.base or name
        rules = [self._graph.rule(number) for number in component.rules]
        if not self._relations.count(source):
            return
        pairs = self._relations.frame(source)
        if module.inverse:
            pairs = pairs.select(F.col("c1").alias("c0"), F.col("c0").alias("c1"))
        if module.kind is Kind.SYMMETRIC_TRANSITIVE:
            closed = symmetric_closure(pairs, self._cut)
            how = "connected components"
        elif self._relations.count(source) <= self._options.closure_edges and not self._remote:
            paths = [part.path for part in self._relations[source].parts]
            tasks = self._spark.sparkContext.defaultParallelism
            sources = pairs.select("c0").distinct()
            closed = transitive_closure(sources, paths, module.inverse, tasks)
            how = f"a share of the sources in each of {tasks} tasks"
        else:
            closed, how = self._double(title, pairs, rules)
        number = F.lit(self._relations[name].number).alias("p")
        candidates = with_diagonal(closed, pairs, module.diagonal).select(number, "c0", "c1")
        [found] = self._relations.add_new(candidates, [name]).values()
        self._note(Round(wave, 1, component.predicates, how, found, time.monotonic() - started), title)
        self._check_limits(rules)

    def _double(self, title: str, pairs: DataFrame, rules: list[Rule]) -> tuple[DataFrame, str]:
        """A closure by doubling, which stops where there are too many facts already, and how it was done."""
        found: list[int] = []

        def told(new: int) -> None:
            found.append(new)
            self._on_progress(f"{title}, doubling, round {len(found)}: {new:,} new pairs")
            self._check_limits(rules, sum(found))

        closed = closure_by_doubling(pairs, self._cut, told)
        return closed, f"condensation and doubling, {len(found)} rounds"

    def _cut(self, frame: DataFrame) -> DataFrame:
        return self._relations.staged(frame, ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes))

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _first_plans(self, wave: list[Component], closures: Mapping[Component, Module]) -> list[Plan]:
        closed = {number for module in closures.values() for number in module.rules}
        rules = (
            (self._normal[number], component)
            for component in wave
            for number in component.rules
            if number not in closed
        )
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


T = TypeVar("T")


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Items in pieces of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))


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


def constants_of(rules: Iterable[NormalRule]) -> Iterator[Constant]:
    """The constants that rules compare ids with or put into heads."""
    for rule in rules:
        terms: list[Term] = [term for atom in (rule.head, *rule.positives, *rule.negatives) for term in atom.arguments]
        terms += [side for item in rule.conditions for side in (item.left, item.right)]
        yield from (term for term in terms if isinstance(term, Constant))
