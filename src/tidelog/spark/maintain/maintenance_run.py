"""An update of facts and rules, taken through the components that it reaches, in the order of their dependencies.

The driver settles what it can by lookups: usually all of a small update. Of the rest, predicates without rules come
first: only their explicit facts change. Then come the components, a *wave* at a time as in `spark_engine.py`; those
whose input did not change are skipped. Small ones go to one task together. The others count (`derivation_counts.py`);
recursive ones then go through their closure (`touched_closures.py`) or the general algorithms (`recursion.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.formats.batch import FactBatch
from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.spark.data.term_lookup import Encoded, Fact
from tidelog.spark.data.wide_frames import union_all, widened
from tidelog.spark.maintain.derivation_counts import Counting
from tidelog.spark.maintain.first_facts import materialise_first
from tidelog.spark.maintain.given_facts import Records, given_frame
from tidelog.spark.maintain.recursion import Recursion
from tidelog.spark.maintain.touched_closures import close_again, maintained_closure
from tidelog.spark.maintain.touched_facts import Touched
from tidelog.spark.maintain.update_work import FEW, Difference, Work
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_ids, solve_by_values
from tidelog.spark.options import OnProgress
from tidelog.spark.plan.rule_changes import RuleChanges, predicates_of
from tidelog.spark.plan.rule_frames import needs_values
from tidelog.spark.plan.schedule import waves_of, within_budget
from tidelog.spark.small.marks import Marked, Marks, deleted_next
from tidelog.spark.small.pending_facts import rows_table
from tidelog.spark.small.small_update import Outcome, carry_out
from tidelog.spark.stored.keyed_files import ColumnCache

# At most this many facts and rule instances are looked up, some 4 µs each: up to there jobs take longer, and more would
# not fit well into the memory of a driver.
MOST_FACTS = 1_000_000

# Of rules that change, this many instances are found faster by lookups than by jobs: some 11 µs each, while jobs take
# three seconds of CPU time and more. Facts that need another proof count several times: some 28 µs each. (The rule over
# e-mail addresses of LUBM(10), 105,295 instances.)
FEW_INSTANCES = 300_000
_TO_BE_PROVED = 2.5


class Maintenance:
    """One update: explicit facts that are given and taken, and changes of rules."""

    def __init__(
        self,
        work: Work,
        rules: RuleChanges,
        records: Records,
        columns: ColumnCache,
        on_progress: OnProgress,
        marked: Marked | None = None,
        ahead: Callable[[], Sequence[FactBatch] | None] = lambda: None,
    ) -> None:
        """`marked` is what the update before left, in a stream; `ahead` yields what the next one takes."""
        self._work = work
        self._facts = work.facts
        self._rules = rules
        self._records = records
        self._columns = columns
        self._on_progress = on_progress
        self._ahead = ahead
        self._before = marked
        self.marked = Marked()
        self._looked_up: Outcome | None = None
        self._done: set[Component] = set()
        self._started = time.monotonic()

    @cached_property
    def _given(self) -> DataFrame | None:
        """What is given and taken of the predicates that are not settled yet: `p`, columns, `give`, `take`."""
        if self._looked_up is None:
            return self._records.encoded(self._work)
        return given_frame(self._work, self._looked_up.asked, self._records.names.difference(predicates_of(self._done)))

    @cached_property
    def _counting(self) -> Counting:
        return Counting(self._work, self._rules, self._given)

    def run(self) -> None:
        """Settle every predicate that the update reaches."""
        if self._is_first:
            materialise_first(self._work, self._rules, self._records, self._on_progress)
            return
        ruled = {rule.head.predicate for rule in self._rules.normal.values()}
        touched = self._records.names | self._rules.heads
        plain = [Component((name,), (), ()) for name in sorted(touched - ruled)]
        reached = set(self._rules.graph.components_in_order(touched))
        waves = [[component for component in wave if component in reached] for wave in waves_of(self._rules.graph)]
        self._run_lookups([*plain, *(component for wave in waves for component in wave)])
        self._run_wave(self._open(plain))
        for number, wave in enumerate(waves):
            self._run_block(self._open(component for later in waves[number:] for component in later))
            self._run_wave([component for component in self._open(wave) if self._is_reached(component)])

    @property
    def _is_first(self) -> bool:
        """Whether everything has to be derived: there are rules, no facts yet, and too much for lookups."""
        if not self._rules.graph.rules or not self._work.options.local_facts:
            return False
        too_much = bool(self._rules.changed) or not self._records.are_few_rows
        return too_much and not any(map(self._facts.old.count, self._facts.stored))

    def _open(self, components: Iterable[Component]) -> list[Component]:
        return [component for component in components if component not in self._done]

    def _is_reached(self, component: Component) -> bool:
        """Whether a component is affected: by its explicit facts, by its rules, or from below."""
        is_given = not self._records.names.isdisjoint(component.predicates)
        return is_given or self._rules.reach(component, self._facts.changed.__contains__)

    # ── by lookups ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run_lookups(self, components: Sequence[Component]) -> None:
        work, rules = self._work, self._rules
        chosen = self._open_to_lookups(components)
        asked = self._records.few(work) if chosen else None
        if asked is None:
            return
        started = time.monotonic()
        concerned = {name for component in chosen for name in rules.reads(component)} | rules.read_by_removed
        stored = {name: work.facts.stored[name] for name in concerned}
        files = work.facts.root, self._columns, stored
        marks = Marks(self._before, partial(self._next_deleted, asked)) if self._before is not None else None
        found = carry_out(*files, work.dictionary, work.ids, rules, chosen, asked, MOST_FACTS, work.functions, marks)
        if len(chosen) == len(components):
            self.marked = found.marked
        work.dictionary.append(found.terms)
        work.counts.update(found.work)
        settled = chosen[: found.settled]
        tables: dict[str, pa.Table] = {}
        uncounted: set[str] = set()
        for component in settled:
            if not all(stored[name].counted for name in component.predicates):
                uncounted.update(component.predicates)
            touched = [name for name in component.predicates if name in found.rows]
            tables |= {name: rows_table(stored[name], found.rows[name]) for name in touched}
        work.facts.settle_tables(tables, uncounted)
        self._looked_up = found
        self._done.update(settled)
        self._tell(predicates_of(settled), "by lookups", started)

    def _next_deleted(self, asked: Encoded) -> frozenset[Fact] | None:
        """What the next update deletes, once it is there."""
        ahead = self._ahead()
        return None if ahead is None else deleted_next(self._work.dictionary, asked, ahead)

    def _open_to_lookups(self, components: Iterable[Component]) -> list[Component]:
        """The components, in order, that are not too large to scan, nor read any that is.

        None if the rules that change may have many instances, or are the first ones: a task materialises faster."""
        budget = self._work.options.lookup_facts
        if not budget or not self._work.options.local_facts or self._expected_instances() > FEW_INSTANCES:
            return []
        return within_budget(self._rules.graph, components, self._facts.old.count, budget)

    def _expected_instances(self) -> float:
        """About how many instances the rules that change have: as many as the smallest of their atoms has facts."""
        rules, stored, count = self._rules, self._facts.stored, self._facts.old.count

        def smallest(rule: NormalRule) -> int:
            return min((count(atom.predicate) for atom in rule.positives), default=1)

        if rules.changed and not any(map(count, stored)):
            return math.inf
        # Facts that a removed rule derived need another proof if no count tells whether they still hold.
        checked = [
            rule
            for number, rule in rules.removed.items()
            if number in rules.was_recursive or not stored[rule.head.predicate].counted
        ]
        return sum(map(smallest, rules.changed)) + (_TO_BE_PROVED - 1) * sum(map(smallest, checked))

    # ── in a task ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_block(self, components: Sequence[Component]) -> None:
        """Solve those components, in order, that together read few enough facts for one task."""
        # Solving again reads all facts, so it pays for fewer of them than materialising does. A change of rules reads
        # all facts of these rules in any case, and by sets it takes dozens of jobs.
        largest = self._work.options.local_facts
        budget = largest if self._rules.heads else min(largest, FEW)
        if not budget:
            return
        chosen = within_budget(self._rules.graph, components, self._facts.new.count, budget, self._worth_a_task)
        if not any(map(self._is_reached, chosen)):
            return
        started = time.monotonic()
        rules = (self._rules.normal[number] for component in chosen for number in component.rules)
        by_ids = not any(needs_values(rule, not self._work.dictionary.floats) for rule in rules)
        difference = self._solve_anew(chosen, by_ids)
        how = f"in one task, {'on ids' if by_ids else 'on values'}"
        if difference is None:
            self._on_progress(f"more than {self._work.options.local_results:,} facts {how}; going on by sets")
            return
        names = predicates_of(chosen)
        given = [name for name in names if name in self._records.names]
        touched = self._counting.touched((), given) if given else None
        self._facts.settle_differences(touched, [difference], names, counted=False)
        self._done.update(chosen)
        self._tell(names, how, started)

    def _solve_anew(self, components: Sequence[Component], by_ids: bool) -> Difference | None:
        """What goes and what comes of components; None if it is more than a task should hold.

        A set-at-a-time algorithm costs its jobs, however few the facts. So the embedded engine solves the components
        anew in one task, which gets the facts that they had before, and tells only what came and what went."""
        work, facts, outputs = self._work, self._facts, predicates_of(components)
        read = {name for component in components for name in self._rules.reads(component)}
        inputs = sorted(name for name in read - set(outputs) if facts.new.count(name))
        numbers = {name: (facts.stored[name].number, facts.stored[name].arity) for name in (*inputs, *outputs)}
        columns = facts.columns(numbers)

        def wide(rows: DataFrame) -> DataFrame:
            return widened(rows, len(columns) - 1).select(*columns)

        # The rules start from their inputs, and from what is explicit of the outputs after the update.
        start = wide(facts.old.rows(outputs).where("e"))
        if self._given is not None:
            own = self._given.where(F.col("p").isin([facts.stored[name].number for name in outputs]))
            start = start.join(wide(own), columns, "left_anti").unionByName(wide(own.where("give")))
        if inputs:
            start = union_all([wide(facts.new.rows(inputs)), start])
        before = [name for name in outputs if facts.old.count(name)]
        known = wide(facts.old.rows(before)) if before else start.where("false")
        rules = [self._rules.graph.rule(number) for component in components for number in component.rules]
        program = TaskProgram(rules, outputs, numbers, work.functions, work.options.local_results)
        if not by_ids:
            solution = solve_by_values(program, work.dictionary, work.staging.cut, start, known)
            return None if solution is None else (solution.gone, solution.come)
        solved = work.staging.cut(solve_by_ids(program, work.ids, start, known))
        if not solved.where("p < 0").isEmpty():
            return None
        return solved.where("NOT came").drop("came"), solved.where("came").drop("came")

    def _worth_a_task(self, component: Component) -> int:
        """How many facts a component may read in any case, whatever the others in the same task read.

        If rules change and derivations are not counted, sets would have to count all of them first: for LUBM(10) 9
        CPU seconds and more, with the update itself half as much again as deriving all facts by sets, and three to five
        times as much as a task. A task has materialised these facts before, so one can hold them."""
        counted = all(self._facts.stored[name].counted for name in component.predicates)
        return 0 if counted or not self._rules.heads else self._work.options.local_results

    # ── by sets ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_wave(self, wave: Sequence[Component]) -> None:
        if not wave:
            return
        self._counting.recount(wave)
        started = time.monotonic()
        flat = [component for component in wave if not component.recursive_rules]
        names = predicates_of(flat)
        touched = self._counting.touched(flat, names) if flat else None
        if touched is not None:
            self._facts.settle(touched, names)
            self._tell(names, "counted", started)
        recursive = [component for component in wave if component.recursive_rules]
        if recursive:
            self._recur(recursive)

    def _recur(self, components: Sequence[Component]) -> None:
        started = time.monotonic()
        names = predicates_of(components)
        touched = Touched.staged(self._work, self._counting.touched(components, names), names)
        modules = {
            component: maintained_closure(self._work, self._rules, component, touched) for component in components
        }
        differences = [
            close_again(self._work, module, touched, not self._rules.heads.isdisjoint(component.predicates))
            for component, module in modules.items()
            if module
        ]
        general = [component for component, module in modules.items() if not module]
        if general:
            differences.append(Recursion(self._work, self._rules, general, touched).run())
        self._facts.settle_differences(touched.frame, differences, names, counted=True)
        self._tell(names, "recursive" if general else "closure", started)

    def _tell(self, names: Sequence[str], how: str, started: float) -> None:
        come = sum(map(self._facts.phases.count_come, names))
        gone = sum(map(self._facts.phases.count_gone, names))
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        self._on_progress(f"{shown}, {how}: {come:,} facts came, {gone:,} went, {time.monotonic() - started:.1f} s")
        limit, seconds = self._work.options.max_facts, self._work.options.timeout
        if limit is not None and sum(map(self._facts.new.count, self._facts.stored)) > limit:
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}", "max_facts")
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}", "timeout")
