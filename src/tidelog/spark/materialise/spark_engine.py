"""The engine on Spark: a program over facts in a working folder, to load, materialise, query and read back.

Components are evaluated in *waves*: all those of one depth in the rule dependency graph, whose inputs are complete at
the same time. Their rules are evaluated together, many in one job that writes all new facts. Every job has its latency;
so the number of jobs depends on the depth of the program and the rounds of its recursions more than on the number of
rules. Each wave is semi-naive from the plans of `program/`. The first round takes every rule over all facts. Each later
round takes the recursive rules, from each atom for which the last round found new facts: atoms to the left of this
pivot match what was known before, atoms to its right match everything (the extended atoms of Backward/Forward, §3), so
that no instance is found twice.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import ArityError, DataError, LimitError
from tidelog.language import resolve_predicate
from tidelog.language.checks import check_arities
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Atom, Program, Query, Rule, variables
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Kind, Module
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, Absent, Match, Pivot, Plan, Side, Start, Take, make_plan
from tidelog.spark.data.dictionary import Dictionary, value_of
from tidelog.spark.data.fact_parts import Relations, Shapes, load, shapes_of
from tidelog.spark.data.term_lookup import ids_of_constants
from tidelog.spark.data.wide_frames import keys, observed
from tidelog.spark.materialise import closure_frames
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_ids, solve_by_values
from tidelog.spark.options import OnProgress, Options, Round, Statistics
from tidelog.spark.plan.rule_frames import Context, encoded, evaluate, needs_values
from tidelog.spark.plan.schedule import constants_of, in_jobs, reads, waves_of, within_budget
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.values import Value


class SparkEngine:
    """One program, its facts and its consequences, in Parquet under a working folder that every executor can reach.

    Examples:
        >>> from tidelog.language import parse_program
        >>> from tidelog.spark import SparkEngine
        >>> engine = SparkEngine(spark, parse_program("path(X, Y) :- edge(X, Y)."), f"{folder}/work")
        >>> engine.arities
        {'path': 2, 'edge': 2}
    """

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        folder: str,
        dictionary: Dictionary | None = None,
        functions: Functions | None = None,
        options: Options | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self.program = program
        self.dictionary = dictionary or Dictionary(spark, f"{folder}/terms")
        self.relations = Relations(spark, f"{folder}/facts")
        self.arities = check_arities((*program.predicates, *program.facts, *program.rules, *program.queries), {})
        self.statistics = Statistics()
        """What the materialisation did."""
        self._spark = spark
        self._functions = functions or {}
        self._options = options or Options()
        self._on_progress = on_progress
        self._started = 0.0

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, records: DataFrame, shapes: Shapes | None = None) -> int:
        """Add the facts of records, none of which has a reason; returns how many distinct ones there were."""
        records, shapes = self.resolved(records, shapes_of(records) if shapes is None else shapes)
        arities = {name: self._arity(name, counts) for name, counts in shapes.items()}
        self.arities |= arities
        values = sum(arities[name] * sum(counts.values()) for name, counts in shapes.items())
        return load(records, arities, values, self.dictionary, self.relations)

    def resolved(self, records: DataFrame, shapes: Shapes) -> tuple[DataFrame, Shapes]:
        """The same, with the names of predicates resolved by the program's prefixes."""
        prefixes = dict(self.program.prefixes)
        names = {name: resolve_predicate(name, prefixes) for name in shapes}
        changed = {name: resolved for name, resolved in names.items() if name != resolved}
        if not changed:
            return records, shapes
        merged: dict[str, Counter[int]] = defaultdict(Counter)
        for name, counts in shapes.items():
            merged[names[name]].update(counts)
        return records.replace(changed, subset="predicate"), {name: dict(counts) for name, counts in merged.items()}

    def expected_arity(self, predicate: str, counts: Mapping[int, int]) -> int:
        """The arity of a predicate: that of the program or, if it has none, that of most rows."""
        return self.arities.get(predicate, max(counts, key=lambda arity: counts[arity]))

    def _arity(self, predicate: str, counts: Mapping[int, int]) -> int:
        arity = self.expected_arity(predicate, counts)
        wrong = [found for found in counts if found != arity]
        if wrong:
            raise ArityError(
                f"`{predicate}` has {arity} arguments, but {counts[wrong[0]]:,} rows have {wrong[0]}; mend these rows"
            )
        return arity

    def values(self, predicate: str) -> DataFrame:
        """The facts of a predicate as values, in columns `a0`, `a1`, …; one of arity 0 has a column `c0`."""
        arity = self.relations[predicate].arity
        frame = self.relations.frame(predicate)
        if not arity:
            return frame
        columns = {name: f"a{name[1:]}" for name in keys(arity)}
        return self.dictionary.with_values(frame, columns).select(*columns.values())

    # ── materialisation ──────────────────────────────────────────────────────────────────────────────────────────

    def materialise(self) -> Statistics:
        """Derive all consequences: small components inside a task, as far as that goes, and the others by rounds."""
        self.statistics = Statistics()
        self._started = time.monotonic()
        self._graph = RuleGraph(self.program.rules)
        self._waves = waves_of(self._graph)
        self._normal = {number: normalise(rule) for number, rule in self._graph.rules.items()}
        self._ids = ids_of_constants(self.dictionary, constants_of(self._normal.values()))
        for rule in self._normal.values():
            self._declare(rule.head, *rule.positives, *rule.negatives)
        done: set[Component] = set()
        for number, wave in enumerate(self._waves, start=1):
            left = [component for later in self._waves[number - 1 :] for component in later if component not in done]
            budget = self._options.local_facts
            block = within_budget(self._graph, left, self.relations.count, budget) if budget else []
            if block and self._solve_in_task(number, block):
                done.update(block)
            rest = [component for component in wave if component not in done]
            if rest:
                self._run_wave(number, rest)
        return self.statistics

    def _declare(self, *atoms: Atom) -> None:
        for atom in atoms:
            self.relations.declare(atom.predicate, atom.arity)

    def _solve_in_task(self, wave: int, block: list[Component]) -> bool:
        """Solve components with the embedded engine; False if they yield more than a task should hold."""
        started = time.monotonic()
        rules = [self._normal[number] for component in block for number in component.rules]
        by_ids = not any(needs_values(rule, not self.dictionary.floats) for rule in rules)
        read = {name for component in block for name in reads(self._graph, component)}
        inputs = sorted(name for name in read if self.relations.count(name))
        outputs = sorted({name for component in block for name in component.predicates})
        if not inputs:
            return False
        self.relations.settle(outputs)
        sources = [rule.source for rule in rules]
        numbers = {name: (self.relations[name].number, self.relations[name].arity) for name in {*inputs, *outputs}}
        limit = self._options.local_results
        found = self._add_from_task(TaskProgram(sources, outputs, numbers, self._functions, limit), inputs, by_ids)
        self.relations.settle(outputs)
        how = f"in one task, {'on ids' if by_ids else 'on values'}"
        if found is None:
            self._on_progress(f"{self._title(wave)}: more than {limit:,} facts {how}; going on by rounds")
            return False
        self._finish(Round(wave, 0, tuple(outputs), how, sum(found.values()), time.monotonic() - started), sources)
        return True

    def _add_from_task(self, program: TaskProgram, inputs: list[str], by_ids: bool) -> dict[str, int] | None:
        """Let a task solve a program, and add what it finds; returns how many facts, or None if there are too many."""
        start = self.relations.wide(inputs)
        if by_ids:
            return self.relations.add_wide(solve_by_ids(program, self._ids, start).drop("came"), program.outputs)
        solution = solve_by_values(program, self.dictionary, self.relations.cut, start)
        if solution is None:
            return None
        self.statistics.failures_in_tasks += solution.failures
        return self.relations.add_wide(solution.come, program.outputs)

    def _run_wave(self, number: int, wave: list[Component]) -> None:
        predicates = tuple(name for component in wave for name in component.predicates)
        self.relations.settle(predicates)
        closures = {component: module for component in wave if (module := self._closure(component))}
        found = self._round(number, 0, predicates, self._first_plans(wave, closures))
        for component, module in closures.items():
            self._close(number, component, module)
        wave = [component for component in wave if component not in closures]
        round_number = 0
        while any(found.values()) and (plans := self._delta_plans(wave)):
            round_number += 1
            self.relations.compact(predicates)
            found = self._round(number, round_number, predicates, plans)
        self.relations.settle(predicates)

    def _round(self, wave: int, number: int, predicates: tuple[str, ...], plans: list[Plan]) -> dict[str, int]:
        started = time.monotonic()
        context = Context(self._spark, self.dictionary, self._ids, self._functions)
        heads = [(plan.rule.head.predicate, evaluate(plan, self._lookup, context)) for plan in plans]
        self.relations.settle(predicates)
        found: Counter[str] = Counter()
        # The frames of all heads are fixed by now: what one job adds is not an input of the next ones.
        for batch in in_jobs(heads):
            names = list(dict.fromkeys(name for name, _ in batch))
            numbered = [(self.relations[name].number, self.relations[name].arity, head) for name, head in batch]
            found.update(self.relations.add_new(encoded(numbered, self.relations.cut, self.dictionary), names))
        for rule, failed in context.failures:
            self.statistics.failures[rule.source] += observed(failed, "failures")
        seconds = time.monotonic() - started
        done = Round(wave, number, predicates, f"round {number}", sum(found.values()), seconds)
        self._finish(done, [plan.rule.source for plan in plans])
        return found

    def _finish(self, done: Round, rules: list[Rule]) -> None:
        """Note what was done, report it, and check the limits."""
        self.statistics.rounds.append(done)
        names = ", ".join(done.predicates[:3]) + (", …" if len(done.predicates) > 3 else "")
        facts = f"{done.new_facts:,} new facts, {done.seconds:.1f} s"
        self._on_progress(f"{self._title(done.wave)} ({names}), {done.how}: {facts}")
        self._check_limits(rules)

    def _title(self, wave: int) -> str:
        return f"wave {wave} of {len(self._waves)}"

    def _check_limits(self, rules: list[Rule], more: int = 0) -> None:
        """Stop if there are too many facts, with `more` of them in no relation yet, or if it takes too long."""
        shown = "; ".join(dict.fromkeys(map(str, rules)))
        limit = self._options.max_facts
        if limit is not None and self.relations.total + more > limit:
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}")
        seconds = self._options.timeout
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}")

    # ── closures ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _closure(self, component: Component) -> Module | None:
        rules = {number: self._graph.rule(number) for number in component.rules}
        return closure_frames.closure_of(
            component, rules, self.dictionary.floats, lambda name: bool(self.relations.count(name))
        )

    def _close(self, wave: int, component: Component, module: Module) -> None:
        started = time.monotonic()
        source = module.base or module.predicate
        rules = [self._graph.rule(number) for number in component.rules]
        if not self.relations.count(source):
            return
        pairs = self.relations.frame(source)
        if module.inverse:
            pairs = pairs.selectExpr("c1 AS c0", "c0 AS c1")
        # Tasks read the pairs of a closure by themselves, which needs a path in the file system.
        fits_a_task = self.relations.count(source) <= self._options.closure_edges and "://" not in self.relations.folder
        if module.kind is Kind.SYMMETRIC_TRANSITIVE:
            closed = closure_frames.symmetric_closure(pairs, self.relations.cut)
            how = "connected components"
        elif fits_a_task:
            paths = [part.path for part in self.relations[source].parts]
            tasks = self._spark.sparkContext.defaultParallelism
            closed = closure_frames.transitive_closure(pairs.select("c0").distinct(), paths, module.inverse, tasks)
            how = f"a share of the sources in each of {tasks} tasks"
        else:
            closed, how = self._double(wave, pairs, rules)
        number = F.lit(self.relations[module.predicate].number).alias("p")
        candidates = closure_frames.with_diagonal(closed, pairs, module.diagonal).select(number, "c0", "c1")
        [found] = self.relations.add_new(candidates, [module.predicate]).values()
        self._finish(Round(wave, 1, component.predicates, how, found, time.monotonic() - started), rules)

    def _double(self, wave: int, pairs: DataFrame, rules: list[Rule]) -> tuple[DataFrame, str]:
        """A closure by doubling, which stops when there are too many facts, and how it was done."""
        found: list[int] = []

        def told(new: int) -> None:
            found.append(new)
            self._on_progress(f"{self._title(wave)}, doubling, round {len(found)}: {new:,} new pairs")
            self._check_limits(rules, sum(found))

        closed = closure_frames.closure_by_doubling(pairs, self.relations.cut, told)
        return closed, f"condensation and doubling, {len(found)} rounds"

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _first_plans(self, wave: Sequence[Component], closures: Mapping[Component, Module]) -> list[Plan]:
        closed = {number for module in closures.values() for number in module.rules}
        return [
            self._plan(rule, ALL, component.predicates)
            for component in wave
            for rule in (self._normal[number] for number in component.rules if number not in closed)
            if self._can_match(rule)
        ]

    def _delta_plans(self, wave: Sequence[Component]) -> list[Plan]:
        return [
            self._plan(rule, Pivot(Start.POSITIVE, position), component.predicates)
            for component in wave
            for rule in (self._normal[number] for number in component.recursive_rules)
            if self._can_match(rule)
            for position, atom in enumerate(rule.positives)
            if atom.predicate in component.predicates and self.relations[atom.predicate].delta
        ]

    def _can_match(self, rule: NormalRule) -> bool:
        return all(self.relations.count(atom.predicate) for atom in rule.positives)

    def _plan(self, rule: NormalRule, pivot: Pivot, component: Sequence[str] = ()) -> Plan:
        def estimate(atom: Atom, bound: tuple[int, ...]) -> float:
            return float(self.relations.count(atom.predicate) * 0.1 ** len(bound))

        return make_plan(rule, pivot, component, estimate)

    def _lookup(self, step: Take | Match | Absent) -> DataFrame:
        name = step.atom.predicate
        if isinstance(step, Take):
            return self.relations.frame(name, self.relations[name].delta_parts)
        if isinstance(step, Match) and step.own and step.side is Side.BEFORE:
            return self.relations.frame(name, self.relations[name].old_parts)
        return self.relations.frame(name)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────────────────

    def answers(self, query: Query, **values: object) -> list[dict[str, Value]]:
        """The distinct answers of a query over the materialisation, by the named variables that it binds. `values` are
        those of its parameters.
        """
        assert self._started, "materialise first"
        query = bind(query, values, Source(str(query), "<query>"))
        named = dict.fromkeys(v for item in query.body for v in variables(item) if not v.anonymous)
        probe = normalise(Rule(Atom("?"), query.body))
        known = {v for atom in probe.positives for v in variables(atom)} | {item.variable for item in probe.definitions}
        asked = [variable for variable in named if variable in known]
        rule = normalise(Rule(Atom("?", tuple(asked)), query.body))
        if not self._can_match(rule):
            return []
        ids = self._ids | ids_of_constants(self.dictionary, constants_of([rule]))
        self._declare(*rule.positives, *rule.negatives)
        context = Context(self._spark, self.dictionary, ids, self._functions)
        head = evaluate(self._plan(rule, ALL), self._lookup, context)
        plain = {name: f"v{name[1:]}" for name in keys(len(asked)) if name not in head.unencoded}
        columns = [plain.get(name, name) for name in keys(len(asked))] or ["c0"]
        found = self.dictionary.with_values(head.frame, plain).select(*columns).distinct().collect()
        return [{v.name: value_of(tuple(cell)) for v, cell in zip(asked, row, strict=False)} for row in found]


def refuse_bad_records(records: DataFrame) -> None:
    """Raise for the first record that is not a fact."""
    bad = records.where("reason IS NOT NULL").orderBy("source", "row").select("reason").first()
    if bad is not None:
        raise DataError(bad["reason"])
