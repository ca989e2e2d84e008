"""An update of facts and rules, taken through the components that it reaches, in the order of their dependencies.

Predicates without rules come first: what is given and taken is all that happens to them. Then the components that the
update reaches, a *wave* at a time, as in `materialise.py`. One for whose input nothing changed is not looked at. Small
ones go to a task together (`tasks.py`). The others count (`counting.py`); recursive ones then go through their closure
(`closures.py`) or the general algorithms (`recursion.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.program.graph import Component
from tidelog.program.modules import Module
from tidelog.spark.data.wide_frames import keys, union_all, widened
from tidelog.spark.maintain.component_tasks import Block
from tidelog.spark.maintain.derivation_counts import Counting
from tidelog.spark.maintain.given_facts import Records, given_frame
from tidelog.spark.maintain.recursion import Recursion
from tidelog.spark.maintain.rule_versions import RuleChanges, reads
from tidelog.spark.maintain.touched_closures import close_again, closure_of
from tidelog.spark.maintain.touched_facts import Touched, stage
from tidelog.spark.maintain.update_work import FEW, Difference, Work
from tidelog.spark.materialise.materialiser import waves_of
from tidelog.spark.options import OnProgress
from tidelog.spark.small.small_run import eligible, settle, solve
from tidelog.spark.small.small_update import Outcome


class Maintenance:
    """One update: records of explicit facts that are given and taken, and changes of rules."""

    def __init__(self, work: Work, rules: RuleChanges, records: Records, on_progress: OnProgress) -> None:
        self._work = work
        self._rules = rules
        self._records = records
        self._given_to = records.names
        self._on_progress = on_progress
        self._looked_up: Outcome | None = None
        self._done: set[Component] = set()
        self._started = time.monotonic()

    @cached_property
    def _given(self) -> DataFrame | None:
        """What is given and taken of the predicates that are not settled yet: `p`, columns, `give`, `take`."""
        if self._looked_up is None:
            return self._records.encoded(self._work)
        done = {name for component in self._done for name in component.predicates}
        return given_frame(self._work, self._looked_up.asked, self._given_to - done)

    @cached_property
    def _counting(self) -> Counting:
        return Counting(self._work, self._rules, self._given)

    def run(self) -> None:
        """Settle every predicate that the update reaches."""
        ruled = {rule.head.predicate for rule in self._rules.normal.values()}
        touched = self._given_to | self._rules.heads
        plain = [Component((name,), (), ()) for name in sorted(touched - ruled)]
        reached = set(self._rules.graph.components_in_order(touched))
        waves = [[component for component in wave if component in reached] for wave in waves_of(self._rules.graph)]
        self._run_lookups([*plain, *(component for wave in waves for component in wave)])
        unsettled = [component for component in plain if component not in self._done]
        if unsettled:
            self._run_wave(unsettled)
        for number, wave in enumerate(waves):
            later = [component for next_wave in waves[number:] for component in next_wave]
            self._run_block([component for component in later if component not in self._done])
            rest = [component for component in wave if component not in self._done and self._is_reached(component)]
            if rest:
                self._run_wave(rest)

    def _is_reached(self, component: Component) -> bool:
        """Whether something changed that the component depends on: below, in its rules or in its explicit facts."""
        own = set(component.predicates)
        if own & (self._given_to | self._rules.heads):
            return True
        return any(name in self._work.changed for name in reads(self._rules, component))

    # ── by lookups ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run_lookups(self, components: Sequence[Component]) -> None:
        """Settle what the driver can settle with facts that it looks up: as a rule all of a small update."""
        chosen = eligible(self._work, self._rules, components)
        records = self._records.few(self._work) if chosen else None
        if records is None:
            return
        started = time.monotonic()
        outcome = self._looked_up = solve(self._work, self._rules, records, chosen)
        settled = chosen[: outcome.settled]
        settle(self._work, outcome, settled)
        self._done.update(settled)
        self._tell([name for component in settled for name in component.predicates], "by lookups", started)

    # ── in a task ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_block(self, components: Sequence[Component]) -> None:
        chosen = self._small(components)
        if not chosen or not any(map(self._is_reached, chosen)):
            return
        block = Block(self._work, self._rules, chosen, self._given)
        started = time.monotonic()
        difference = block.solve()
        how = f"in one task, {'on ids' if block.by_ids else 'on values'}"
        if difference is None:
            self._on_progress(f"more than {self._work.options.local_results:,} facts {how}; going on by sets")
            return
        self._settle(self._given_alone(block.outputs), [difference], block.outputs, counted=False)
        self._done.update(chosen)
        self._tell(block.outputs, how, started)

    def _small(self, components: Sequence[Component]) -> list[Component]:
        """Those components, in order, that together read few enough facts for one task."""
        # Whoever solves again reads all facts, so what is worth it is less than when one materialises. A change of
        # rules reads all facts of theirs in any case, and by sets it takes dozens of jobs.
        largest = self._work.options.local_facts
        budget = largest if self._rules.heads else min(largest, FEW)
        if not budget:
            return []
        chosen: list[Component] = []
        missing = {name for component in components for name in component.predicates}
        counted: set[str] = set()
        for component in components:
            own = set(component.predicates)
            read = reads(self._rules, component)
            size = sum(self._work.count_after(name) for name in read - counted)
            if read & missing <= own and size <= max(budget, self._worth_a_task(component)):
                chosen.append(component)
                budget -= size
                counted |= read
                missing -= own
        return chosen

    def _worth_a_task(self, component: Component) -> int:
        """How many facts a component may read at least, whatever others read that go to the same task.

        Where rules change and derivations are not counted, sets would have to count all of them first: for LUBM(10) 9
        CPU seconds and more, with the update itself half as much again as deriving all facts by sets, and three to five
        times as much as a task. A task has materialised these facts before, so that it can hold them."""
        counted = all(self._work.stored[name].counted for name in component.predicates)
        return 0 if counted or not self._rules.heads else self._work.options.local_results

    def _given_alone(self, names: Sequence[str]) -> DataFrame | None:
        """The touched facts of predicates, as far as explicit facts go."""
        concerned = [Component((name,), (), ()) for name in names if name in self._given_to]
        return self._counting.given_alone(concerned) if concerned else None

    # ── by sets ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_wave(self, wave: Sequence[Component]) -> None:
        names = [name for component in wave for name in component.predicates]
        uncounted = [name for name in names if not self._work.stored[name].counted and self._work.old.count(name)]
        if uncounted:
            self._counting.recount(uncounted)
        flat = [component for component in wave if not component.recursive_rules]
        recursive = [component for component in wave if component.recursive_rules]
        if flat:
            self._count(flat)
        if recursive:
            self._recur(recursive)

    def _count(self, components: Sequence[Component]) -> None:
        started = time.monotonic()
        names = [name for component in components for name in component.predicates]
        touched = self._counting.touched(components)
        if touched is not None:
            self._work.settle(touched, names)
            self._tell(names, "counted", started)

    def _recur(self, components: Sequence[Component]) -> None:
        started = time.monotonic()
        names = [name for component in components for name in component.predicates]
        touched = stage(self._work, self._counting.touched(components), names)
        modules = {component: self._closure(component, touched) for component in components}
        differences = [
            close_again(self._work, module, touched, bool(set(component.predicates) & self._rules.heads))
            for component, module in modules.items()
            if module
        ]
        general = [component for component, module in modules.items() if not module]
        if general:
            differences.append(Recursion(self._work, self._rules, general, touched).run())
        self._settle(touched.frame, differences, names, counted=True)
        self._tell(names, "recursive" if general else "closure", started)

    def _closure(self, component: Component, touched: Touched) -> Module | None:
        largest = sum(self._work.count_after(name) for name in reads(self._rules, component))
        return closure_of(self._work, self._rules, component, touched, largest)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(
        self, touched: DataFrame | None, differences: Sequence[Difference], names: Sequence[str], counted: bool
    ) -> None:
        """Settle predicates of which some facts were touched, some go and some come."""
        width = self._work.old_width(names)
        columns = ["p", *keys(width)]
        parts = [_moved(widened(gone, width), columns, went=True) for gone, _ in differences if gone is not None]
        parts += [_moved(widened(come, width), columns, went=False) for _, come in differences if come is not None]
        if touched is not None:
            no = F.lit(False)
            state = widened(touched, width).select(*columns, "e0", "h0", "e", "n", no.alias("went"), no.alias("came"))
            parts.append(state)
        if not parts:
            return
        merged = (
            union_all(parts)
            .groupBy(*columns)
            .agg(*(F.max(name).alias(name) for name in ("e0", "h0", "e", "n", "went", "came")))
        )
        self._work.settle(merged.withColumn("h", F.expr("came OR (h0 AND NOT went)")), names, counted)

    def _tell(self, names: Sequence[str], how: str, started: float) -> None:
        come = sum(self._work.has_come(name) for name in names)
        gone = sum(self._work.has_gone(name) for name in names)
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        self._on_progress(f"{shown}, {how}: {come:,} facts came, {gone:,} went, {time.monotonic() - started:.1f} s")
        self._check_limits(shown)

    def _check_limits(self, shown: str) -> None:
        limit, seconds = self._work.options.max_facts, self._work.options.timeout
        if limit is not None and sum(map(self._work.count_after, self._work.stored)) > limit:
            raise LimitError(f"more than {limit:,} facts; last evaluated: {shown}")
        if seconds is not None and time.monotonic() - self._started > seconds:
            raise LimitError(f"more than {seconds:g} seconds; last evaluated: {shown}")


def _moved(rows: DataFrame, columns: Sequence[str], went: bool) -> DataFrame:
    """Facts that went or came, with the state of a fact that nothing but recursion derives."""
    state = {"e0": "false", "h0": str(went).lower(), "e": "false", "n": "0L"}
    moved = {"went": str(went).lower(), "came": str(not went).lower()}
    return rows.selectExpr(*columns, *(f"{value} AS {name}" for name, value in (state | moved).items()))
