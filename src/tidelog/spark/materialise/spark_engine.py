"""The engine on Spark: a program over facts in a working folder, to load, materialise, query and read back.

Components are evaluated in *waves*: all those of one depth in the rule dependency graph, whose inputs are complete at
the same time. Their rules are evaluated together, many in one job that writes all new facts. Every job has its latency;
so the number of jobs depends on the depth of the program and the rounds of its recursions more than on the number of
rules. Each wave is semi-naive from the plans of `program/`. The first round takes every rule over all facts. Each later
round takes the recursive rules, from each atom for which the last round found new facts: atoms to the left of this
pivot match what was known before, atoms to its right match everything (the extended atoms of Backward/Forward, §3), so
that no instance is found twice. Before that, the embedded engine solves what it can inside tasks: what is small, and
components that keep to keys (`keyed_tasks.py`). A recursion that keeps to a key needs no later rounds in any case.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import ArityError, DataError, LimitError
from tidelog.formats.batch import FactBatch
from tidelog.language.checks import check_arities
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source as Text
from tidelog.language.syntax import Atom, Program, Query, Rule, variables
from tidelog.language.written.expansion import refuse_special, with_plain_queries
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Kind, Module
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, Absent, Match, Pivot, Plan, Side, Start, Take, make_plan
from tidelog.spark.data.dictionary import Dictionary, value_of
from tidelog.spark.data.encoded_blocks import FactFile, Layout, told_from_text
from tidelog.spark.data.fact_parts import Relations, load
from tidelog.spark.data.taking_in import PieceSource, TakenIn, in_tasks, take_in
from tidelog.spark.data.term_lookup import ids_of_constants
from tidelog.spark.data.wide_frames import keys, observed
from tidelog.spark.materialise import closure_frames
from tidelog.spark.materialise.driver_values import add_from_values
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_values
from tidelog.spark.materialise.keyed_tasks import BEYOND, DRIVER_FACTS, BlockProgram, files_of, number_of_tasks
from tidelog.spark.options import OnProgress, Options, Round, Statistics
from tidelog.spark.places import absolute_path
from tidelog.spark.plan.key_blocks import Candidate, KeyBlock, key_block, whole_block
from tidelog.spark.plan.refusals import check_fit, refuse_expiries, refuse_lattices
from tidelog.spark.plan.rule_frames import Context, encoded, evaluate, needs_values
from tidelog.spark.plan.schedule import constants_of, in_jobs, reads, waves_of, within_budget
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.session import parallelism
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
        refuse_expiries(program.expiries)
        refuse_lattices(functions or {})
        folder = absolute_path(folder)  # Driver and tasks read and write files there by themselves.
        plain = with_plain_queries(program)
        self.program = program = replace(plain, queries=program.queries)
        self._questions = dict(zip(program.queries, plain.queries, strict=True))
        self.dictionary = dictionary or Dictionary(spark, f"{folder}/terms")
        self.arities = check_arities((*program.predicates, *program.facts, *program.rules, *program.queries), {})
        self.relations = Relations(spark, f"{folder}/facts", self.arities)
        self.statistics = Statistics()
        """What the materialisation did."""
        self._spark = spark
        self._functions = functions or {}
        self._options = options or Options()
        self._on_progress = on_progress
        self._started = 0.0

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, sources: Iterable[PieceSource] = (), batches: Iterable[FactBatch] = ()) -> int:
        """Add the facts of sources and batches; returns how many were new. A row that is no fact is an error."""
        taken = self.take_in(sources, batches)
        if taken.rejected:
            raise DataError(min(file.first for file in taken.rejected)[2])
        shapes = taken.shapes
        for file in taken.facts:
            self._check_arity(file.predicate, shapes[file.predicate])
        return self.add(taken)

    def take_in(
        self, sources: Iterable[PieceSource] = (), batches: Iterable[FactBatch] = (), to_publish: bool = False
    ) -> TakenIn:
        """Read and encode the facts of sources and batches; they are not added yet.

        If they are to be published, they are also written decoded, and rows of a wrong length are rejected."""
        pieces = [piece for source in sources for piece in source.pieces(self._spark)]
        prefixes = dict(self.program.prefixes)
        arities = self.arities if to_publish else {}
        folder = self.relations.next_folder("taken")
        layout = Layout(folder, self.relations.numbers, arities, prefixes, decoded=to_publish)
        return take_in(self._spark, pieces, batches, layout, self.dictionary)

    def add(self, taken: TakenIn) -> int:
        """Add facts that were taken in, all of the arity of their predicate; returns how many were new."""
        self.arities |= {file.predicate: file.arity for file in taken.facts}
        return load(taken, self.relations)

    def expected_arity(self, predicate: str, counts: Mapping[int, int]) -> int:
        """The arity of a predicate: that of the program or, if it has none, that of most rows."""
        return self.arities.get(predicate, max(counts, key=lambda arity: counts[arity]))

    def _check_arity(self, predicate: str, counts: Mapping[int, int]) -> None:
        arity = self.expected_arity(predicate, counts)
        wrong = [found for found in counts if found != arity]
        if wrong:
            raise ArityError(
                f"`{predicate}` has {arity} arguments, but {counts[wrong[0]]:,} rows have {wrong[0]}; mend these rows"
            )

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
        check_fit(self._graph)
        self._waves = waves_of(self._graph)
        self._normal = {number: normalise(rule) for number, rule in self._graph.rules.items()}
        self._ids = ids_of_constants(self.dictionary, constants_of(self._normal.values()))
        for rule in self._normal.values():
            self._declare(rule.head, *rule.positives, *rule.negatives)
        done: set[Component] = set()
        for number, wave in enumerate(self._waves, start=1):
            if self._options.local_facts:
                left = [one for later in self._waves[number - 1 :] for one in later if one not in done]
                done.update(self._solve_in_tasks(number, left))
            rest = [component for component in wave if component not in done]
            if rest:
                self._run_wave(number, rest)
        return self.statistics

    def _declare(self, *atoms: Atom) -> None:
        for atom in atoms:
            self.relations.declare(atom.predicate, atom.arity)

    def _solve_in_tasks(self, wave: int, left: list[Component]) -> list[Component]:
        """Solve components with the embedded engine, as far as that goes: what was solved.

        If one task cannot read the facts of all of them, each of several tasks solves some of the keys, where rules
        keep to keys."""
        done: list[Component] = []
        while left:
            block = within_budget(self._graph, left, self.relations.count, self._options.local_facts)
            found = self._solve_by_keys(wave, left) if len(block) < len(left) else []
            if not found and block and self._solve_in_task(wave, block):
                found = block
            if not found:
                break
            done += found
            left = [component for component in left if component not in found]
        return done

    def _is_for_keys(self, component: Component) -> bool:
        return self._by_ids(self._normal[number] for number in component.rules) and self._closure(component) is None

    def _by_ids(self, rules: Iterable[NormalRule]) -> bool:
        """Whether rules need to know of constants only which is which."""
        return not any(needs_values(rule, not self.dictionary.floats) for rule in rules)

    def _solve_in_task(self, wave: int, block: list[Component]) -> bool:
        """Solve components with the embedded engine in one task; False if they yield more than it should hold."""
        started = time.monotonic()
        rules = [self._normal[number] for component in block for number in component.rules]
        by_ids = self._by_ids(rules)
        how = f"in one task, {'on ids' if by_ids else 'on values'}"
        read = {name for component in block for name in reads(self._graph, component)}
        inputs = sorted(name for name in read if self.relations.count(name))
        outputs = sorted({name for component in block for name in component.predicates})
        if not inputs:
            return False
        self.relations.settle(outputs)
        if by_ids:
            whole = whole_block(map(self._candidate, block), self.relations.count)
            found = self._add_block(whole, 1) if whole.rules else 0
        else:
            found = self._add_from_values([rule.source for rule in rules], inputs, outputs)
        self.relations.settle(outputs)
        if found is None:
            self._tell_limit(wave, how)
            return False
        sources = [rule.source for rule in rules]
        self._finish(Round(wave, 0, tuple(outputs), how, found, time.monotonic() - started), sources)
        return True

    def _add_from_values(self, rules: list[Rule], inputs: list[str], outputs: list[str]) -> int | None:
        """Let a task solve rules on values, and add what it finds; returns how many facts, or None if too many."""
        limit = self._options.local_results
        program = TaskProgram(rules, outputs, self._numbered({*inputs, *outputs}), self._functions, limit)
        if sum(map(self.relations.count, inputs)) <= DRIVER_FACTS:
            added = add_from_values(replace(program, of_values=True), inputs, self.relations, self.dictionary)
            self.statistics.failures_in_tasks += added[1] if added else 0
            return added[0] if added else None
        solution = solve_by_values(program, self.dictionary, self.relations.cut, self.relations.wide(inputs))
        if solution is None:
            return None
        self.statistics.failures_in_tasks += solution.failures
        found = self.relations.add_wide(solution.come, outputs)
        return None if found is None else sum(found.values())

    def _solve_by_keys(self, wave: int, components: Sequence[Component]) -> list[Component]:
        """Solve those of the components, each after those that it reads, that keep to keys together: which they are."""
        candidates = list(map(self._candidate, components))
        others = {name for one in components if not self._is_for_keys(one) for name in one.predicates}
        return [components[place] for place in self._solve_candidates(wave, candidates, others)]

    def _recur_by_keys(self, wave: int, component: Component) -> bool:
        """Go on with a recursion in tasks, each with some of its keys; False if it has none, or yields too much."""
        rules = [self._normal[number] for number in component.recursive_rules]
        if not self._by_ids(rules) or not any(map(self.relations.count, component.predicates)):
            return False
        return bool(self._solve_candidates(wave, [(component.predicates, [rule.source for rule in rules])], (), 1))

    def _candidate(self, component: Component) -> Candidate:
        return component.predicates, [self._graph.rule(number) for number in component.rules]

    def _solve_candidates(
        self, wave: int, candidates: Sequence[Candidate], others: Collection[str], number: int = 0
    ) -> list[int]:
        """Solve those of the candidates that keep to keys together, apart from some predicates; their places."""
        started, count = time.monotonic(), self.relations.count
        block, chosen = key_block(candidates, count, self._options.closure_edges, others)
        if not block.rules:
            return chosen
        dealt = sum(count(one.predicate) for one in block.inputs if one.key is not None) + sum(map(count, block.homes))
        tasks = number_of_tasks(dealt, parallelism(self._spark))
        if tasks is None:
            return []
        names = tuple(block.homes)
        self.relations.settle(names)
        found = self._add_block(block, tasks)
        self.relations.settle(names)
        how = f"by keys, in {tasks} tasks"
        if found is None:
            self._tell_limit(wave, how)
            return []
        sources = [rule for place in chosen for rule in candidates[place][1]]
        self._finish(Round(wave, number, names, how, found, time.monotonic() - started), sources)
        return chosen

    def _add_block(self, block: KeyBlock, tasks: int) -> int | None:
        """Let tasks solve a block, and add what they find; returns how many facts, or None if there are too many."""
        folder = Path(self.relations.next_folder("solved"))
        folder.mkdir(parents=True)
        names = {one.predicate for one in block.inputs} | block.homes.keys()
        files = {name: files_of(part.path for part in self.relations[name].parts) for name in names}
        limit = self._options.local_results
        program = BlockProgram.of(block, self._ids, self._numbered(block.homes), files, tasks, limit, str(folder))
        if sum(map(self.relations.count, names)) <= DRIVER_FACTS:
            told = [line for number in range(tasks) for line in program.told(number)]
        else:
            told = [row["told"] for row in in_tasks(self._spark, program.told, tasks).collect()]
        if BEYOND in told:
            return None
        found: dict[str, list[FactFile]] = defaultdict(list)
        for line in told:
            file = told_from_text(line)
            assert isinstance(file, FactFile)
            found[file.predicate].append(file)
        return self.relations.add_files(found)

    def _tell_limit(self, wave: int, how: str) -> None:
        limit = self._options.local_results
        self._on_progress(f"{self._title(wave)}: more than {limit:,} new facts {how}; going on by rounds")

    def _numbered(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Predicates with their numbers and arities."""
        return {name: (self.relations[name].number, self.relations[name].arity) for name in names}

    def _run_wave(self, number: int, wave: list[Component]) -> None:
        predicates = tuple(name for component in wave for name in component.predicates)
        self.relations.settle(predicates)
        closures = {component: module for component in wave if (module := self._closure(component))}
        found = self._round(number, 0, predicates, self._first_plans(wave, closures))
        for component, module in closures.items():
            self._close(number, component, module)
        wave = [component for component in wave if component not in closures]
        wave = [component for component in wave if not self._recur_by_keys(number, component)]
        round_number = 0
        while any(found.values()) and (plans := self._delta_plans(wave)):
            round_number += 1
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
            found.update(self.relations.add_round(encoded(numbered, self.relations.cut, self.dictionary), names))
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
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}", "max_facts")
        seconds = self._options.timeout
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}", "timeout")

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
        if module.kind is Kind.SYMMETRIC_TRANSITIVE:
            closed = closure_frames.symmetric_closure(pairs, self.relations.cut)
            how = "connected components"
        elif self.relations.count(source) <= self._options.closure_edges:
            paths = [part.path for part in self.relations[source].parts]
            tasks = parallelism(self._spark)
            closed = closure_frames.transitive_closure(pairs.select("c0").distinct(), paths, module.inverse, tasks)
            how = f"a share of the sources in each of {tasks} tasks"
        else:
            closed, how = self._close_large(wave, pairs, rules)
        number = F.lit(self.relations[module.predicate].number).alias("p")
        candidates = closure_frames.with_diagonal(closed, pairs, module.diagonal).select(number, "c0", "c1")
        [found] = self.relations.add_new(candidates, [module.predicate]).values()
        self._finish(Round(wave, 1, component.predicates, how, found, time.monotonic() - started), rules)

    def _close_large(self, wave: int, pairs: DataFrame, rules: list[Rule]) -> tuple[DataFrame, str]:
        """A closure by connected components, if these are small enough, or by doubling; and how it was done.

        Doubling stops when there are too many facts."""
        most, cut = self._options.closure_edges, self.relations.cut
        tasks = parallelism(self._spark)
        apart = closure_frames.closure_by_components(pairs, cut, most, tasks) if most else None
        if apart is not None:
            return apart, "connected components, each inside a task"
        found: list[int] = []

        def told(new: int) -> None:
            found.append(new)
            self._on_progress(f"{self._title(wave)}, doubling, round {len(found)}: {new:,} new pairs")
            self._check_limits(rules, sum(found))

        closed = closure_frames.closure_by_doubling(pairs, cut, told)
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

    def _can_match(self, rule: NormalRule, growing: Sequence[str] = ()) -> bool:
        """Whether all atoms of a rule have facts, or will have: those of predicates that are still growing."""
        return all(self.relations.count(atom.predicate) or atom.predicate in growing for atom in rule.positives)

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
        query = self._questions.get(query, query)
        refuse_special(query, "the Spark engine answers queries of its program alone that have")
        query = bind(query, values, Text(str(query), "<query>"))
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
