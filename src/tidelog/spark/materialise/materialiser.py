"""Materialisation on Spark: the components of a program in waves, each wave semi-naive from the plans of `program/`.

A *wave* is all components of one depth in the rule dependency graph: their inputs are complete at the same time. Their
rules are evaluated together, many in one job that writes all new facts. Every job has its latency; so the number of
jobs depends on the depth of the program and the rounds of its recursions more than on the number of rules. The first
round takes every rule over all facts. Each later round takes the recursive rules, from each atom for which the last
round found new facts: atoms to the left of this pivot match what was known before, atoms to its right match everything
(the extended atoms of Backward/Forward, §3), so that no instance is found twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.language.syntax import Atom, Query, Rule, variables
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Kind, Module
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, Absent, Match, Pivot, Plan, Side, Start, Take, make_plan
from tidelog.spark.data.dictionary import Dictionary, observed
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.term_lookup import ids_of_constants
from tidelog.spark.materialise.closure_frames import closure_of, symmetric_closure, transitive_closure, with_diagonal
from tidelog.spark.materialise.doubling import closure_by_doubling
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_ids, solve_by_values
from tidelog.spark.options import OnProgress, Options, Round, Statistics
from tidelog.spark.plan.head_frames import encoded
from tidelog.spark.plan.rule_frames import Context, evaluate, needs_values
from tidelog.spark.plan.schedule import constants_of, in_jobs, reads, waves_of, within_budget
from tidelog.spark.plan.sql_expressions import Functions


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
        self._waves = waves_of(self._graph)
        self._normal = {number: normalise(rule) for number, rule in self._graph.rules.items()}
        self._dictionary = dictionary
        self._relations = relations
        self._functions = functions or {}
        self._options = options or Options()
        self._on_progress = on_progress
        self._started = time.monotonic()
        # Tasks read the pairs of a closure by themselves, which needs a path in the file system.
        self._remote = "://" in relations.folder
        self._ids = ids_of_constants(dictionary, constants_of(self._normal.values()))
        for rule in self._normal.values():
            for atom in (rule.head, *rule.positives, *rule.negatives):
                relations.declare(atom.predicate, atom.arity)

    def run(self) -> None:
        """Evaluate every component: small ones inside a task, as far as that goes, and the others by rounds."""
        done: set[Component] = set()
        for number, wave in enumerate(self._waves, start=1):
            left = [component for later in self._waves[number - 1 :] for component in later if component not in done]
            budget = self._options.local_facts
            block = within_budget(self._graph, left, self._relations.count, budget) if budget else []
            if block and self._solve_in_task(number, block):
                done.update(block)
            rest = [component for component in wave if component not in done]
            if rest:
                self._run_wave(number, rest)

    def answers(self, query: Query) -> tuple[list[str], DataFrame | None]:
        """The named variables that a query binds, and its distinct answers, a column of values for each variable."""
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
        head = evaluate(plan, self._lookup, context)
        plain = {f"c{n}": f"v{n}" for n in range(len(names)) if f"c{n}" not in head.unencoded}
        frame = self._dictionary.with_values(head.frame, plain)
        columns = [plain.get(f"c{n}", f"c{n}") for n in range(len(names))] or ["c0"]
        return names, frame.select(*columns).distinct()

    # ── components inside one task ───────────────────────────────────────────────────────────────────────────────

    def _solve_in_task(self, wave: int, block: list[Component]) -> bool:
        """Solve components with the embedded engine; False if they yield more than a task should hold."""
        started = time.monotonic()
        rules = [self._normal[number] for component in block for number in component.rules]
        by_ids = not any(needs_values(rule, not self._dictionary.floats) for rule in rules)
        read = {name for component in block for name in reads(self._graph, component)}
        inputs = sorted(name for name in read if self._relations.count(name))
        outputs = sorted({name for component in block for name in component.predicates})
        if not inputs:
            return False
        self._relations.settle(outputs)
        sources = [rule.source for rule in rules]
        numbers = {name: (self._relations[name].number, self._relations[name].arity) for name in {*inputs, *outputs}}
        program = TaskProgram(sources, outputs, numbers, self._functions, self._options.local_results)
        found = self._add_from_task(program, inputs, by_ids)
        self._relations.settle(outputs)
        how = f"in one task, {'on ids' if by_ids else 'on values'}"
        if found is None:
            limit = self._options.local_results
            self._on_progress(f"{self._title(wave)}: more than {limit:,} facts {how}; going on by rounds")
            return False
        self._finish(wave, 0, tuple(outputs), how, found, started, sources)
        return True

    def _add_from_task(self, program: TaskProgram, inputs: list[str], by_ids: bool) -> int | None:
        """Let a task solve a program, and add what it finds; returns how many facts, or None if there are too many."""
        start = self._relations.wide(inputs)
        if by_ids:
            rows = solve_by_ids(program, self._ids, start).drop("came")
        else:
            solution = solve_by_values(program, self._dictionary, self._relations.staged, start)
            if solution is None:
                return None
            self.statistics.failures_in_tasks += solution.failures
            rows = solution.come
        found = self._relations.add_wide(rows, program.outputs)
        return None if found is None else sum(found.values())

    # ── waves and rounds ─────────────────────────────────────────────────────────────────────────────────────────

    def _run_wave(self, number: int, wave: list[Component]) -> None:
        predicates = tuple(name for component in wave for name in component.predicates)
        self._relations.settle(predicates)
        closures = {component: module for component in wave if (module := self._module(component))}
        found = self._round(number, 0, predicates, self._first_plans(wave, closures))
        for component, module in closures.items():
            self._close(number, component, module)
        wave = [component for component in wave if component not in closures]
        round_number = 0
        while any(found.values()):
            plans = self._delta_plans(wave)
            if not plans:
                break
            round_number += 1
            self._relations.compact(predicates)
            found = self._round(number, round_number, predicates, plans)
        self._relations.settle(predicates)

    def _round(self, wave: int, number: int, predicates: tuple[str, ...], plans: list[Plan]) -> dict[str, int]:
        started = time.monotonic()
        context = Context(self._spark, self._dictionary, self._ids, self._functions)
        heads = [(plan.rule.head.predicate, evaluate(plan, self._lookup, context)) for plan in plans]
        self._relations.settle(predicates)
        found: Counter[str] = Counter()
        # The frames of all heads are fixed by now: what one job adds is not an input of the next ones.
        for batch in in_jobs(heads):
            names = list(dict.fromkeys(name for name, _ in batch))
            numbered = [(self._relations[name].number, self._relations[name].arity, head) for name, head in batch]
            found.update(self._relations.add_new(encoded(numbered, self._relations.staged, self._dictionary), names))
        for rule, failed in context.failures:
            self.statistics.failures[rule.source] += observed(failed, "failures")
        sources = [plan.rule.source for plan in plans]
        self._finish(wave, number, predicates, f"round {number}", sum(found.values()), started, sources)
        return found

    def _finish(
        self,
        wave: int,
        number: int,
        predicates: tuple[str, ...],
        how: str,
        found: int,
        started: float,
        rules: list[Rule],
    ) -> None:
        """Note what was done, report it, and check the limits."""
        done = Round(wave, number, predicates, how, found, time.monotonic() - started)
        self.statistics.rounds.append(done)
        names = ", ".join(predicates[:3]) + (", …" if len(predicates) > 3 else "")
        self._on_progress(f"{self._title(wave)} ({names}), {how}: {found:,} new facts, {done.seconds:.1f} s")
        self._check_limits(rules)

    def _title(self, wave: int) -> str:
        return f"wave {wave} of {len(self._waves)}"

    def _check_limits(self, rules: list[Rule], more: int = 0) -> None:
        """Stop if there are too many facts, with `more` of them in no relation yet, or if it takes too long."""
        shown = "; ".join(dict.fromkeys(map(str, rules)))
        limit = self._options.max_facts
        if limit is not None and self._relations.total + more > limit:
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}")
        seconds = self._options.timeout
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}")

    # ── closures ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _module(self, component: Component) -> Module | None:
        rules = {number: self._graph.rule(number) for number in component.rules}
        return closure_of(component, rules, self._dictionary.floats, lambda name: self._relations.count(name) > 0)

    def _close(self, wave: int, component: Component, module: Module) -> None:
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
            closed, how = self._double(wave, pairs, rules)
        number = F.lit(self._relations[name].number).alias("p")
        candidates = with_diagonal(closed, pairs, module.diagonal).select(number, "c0", "c1")
        [found] = self._relations.add_new(candidates, [name]).values()
        self._finish(wave, 1, component.predicates, how, found, started, rules)

    def _double(self, wave: int, pairs: DataFrame, rules: list[Rule]) -> tuple[DataFrame, str]:
        """A closure by doubling, which stops when there are too many facts, and how it was done."""
        found: list[int] = []

        def told(new: int) -> None:
            found.append(new)
            self._on_progress(f"{self._title(wave)}, doubling, round {len(found)}: {new:,} new pairs")
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

    def _lookup(self, step: Take | Match | Absent) -> DataFrame:
        """The facts that a step of a plan reads."""
        name = step.atom.predicate
        relation = self._relations[name]
        if isinstance(step, Take):
            return self._relations.frame(name, relation.delta_parts)
        if isinstance(step, Match) and step.own and step.side is Side.BEFORE:
            return self._relations.frame(name, relation.old_parts)
        return self._relations.frame(name)
