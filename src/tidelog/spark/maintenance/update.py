"""An update of facts and rules, taken through the components that it reaches, in the order of their dependencies.

Predicates without rules come first: what is given and taken is all that happens to them. Then the components that the
update reaches, a *wave* at a time, as in `materialise.py`. One for whose input nothing changed is not looked at. Small
ones go to a task together (`tasks.py`). The others count (`counting.py`); recursive ones then go through their closure
(`closures.py`) or the general algorithms (`recursion.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.program.graph import Component
from tidelog.spark.maintenance.closures import close_again, closure_of
from tidelog.spark.maintenance.counting import Counting
from tidelog.spark.maintenance.recursion import Recursion
from tidelog.spark.maintenance.rules import RuleChanges
from tidelog.spark.maintenance.snapshot import keys, widened
from tidelog.spark.maintenance.tasks import Block, Difference, reads
from tidelog.spark.maintenance.work import Work
from tidelog.spark.materialise import OnProgress, waves_of
from tidelog.spark.relations import union_all


class Maintenance:
    """One update: explicit facts that are given and taken (`p`, columns, `give`, `take`), and changes of rules."""

    def __init__(
        self,
        work: Work,
        rules: RuleChanges,
        given: DataFrame | None,
        given_to: Iterable[str],
        on_progress: OnProgress,
    ) -> None:
        self._work = work
        self._rules = rules
        self._given = given
        self._given_to = set(given_to)
        self._on_progress = on_progress
        self._counting = Counting(work, rules, given)
        self._done: set[Component] = set()
        self._started = time.monotonic()

    def run(self) -> None:
        """Settle every predicate that the update reaches."""
        ruled = {rule.head.predicate for rule in self._rules.normal.values()}
        touched = self._given_to | self._rules.heads
        plain = sorted(touched - ruled)
        if plain:
            self._run_wave([Component((name,), (), ()) for name in plain])
        reached = set(self._rules.graph.components_in_order(touched))
        waves = [[component for component in wave if component in reached] for wave in waves_of(self._rules.graph)]
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
        self._settle(self._given_alone(block.outputs), difference, block.outputs, counted=False)
        self._done.update(chosen)
        self._tell(block.outputs, how, started)

    def _small(self, components: Sequence[Component]) -> list[Component]:
        """Those components, in order, that together read few enough facts for one task."""
        budget = self._work.options.local_facts
        if not budget:
            return []
        chosen: list[Component] = []
        missing = {name for component in components for name in component.predicates}
        counted: set[str] = set()
        for component in components:
            own = set(component.predicates)
            read = reads(self._rules, component)
            size = sum(self._work.count_after(name) for name in read - counted)
            if read & missing <= own and size <= budget:
                chosen.append(component)
                budget -= size
                counted |= read
                missing -= own
        return chosen

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
        found = self._counting.touched(components)
        touched = self._work.cut(self._nothing(names) if found is None else found)
        differences: list[Difference] = []
        general = []
        for component in components:
            closed = self._closed(component, touched)
            if closed is None:
                general.append(component)
            else:
                differences.append(closed)
        if general:
            gone, come = Recursion(self._work, self._rules, general, touched).run()
            empty = self._nothing(names).select("p", *keys(self._work.old_width(names)))
            differences.append((empty if gone is None else gone, empty if come is None else come))
        width = self._work.old_width(names)
        merged = tuple(union_all([widened(side, width) for side in sides]) for sides in zip(*differences, strict=True))
        self._settle(touched, (merged[0], merged[1]), names, counted=True)
        self._tell(names, "recursive" if general else "closure", started)

    def _closed(self, component: Component, touched: DataFrame) -> Difference | None:
        largest = sum(self._work.count_after(name) for name in reads(self._rules, component))
        module = closure_of(self._work, self._rules, component, largest)
        if module is None:
            return None
        return close_again(self._work, module, touched, bool(set(component.predicates) & self._rules.heads))

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, touched: DataFrame | None, difference: Difference, names: Sequence[str], counted: bool) -> None:
        """Settle predicates of which some facts were touched, some go and some come."""
        width = self._work.old_width(names)
        gone, come = (widened(side, width) for side in difference)
        no, zero = F.lit(False), F.lit(0).cast("bigint")
        columns = ["p", *keys(width)]
        parts = [
            side.select(
                *columns,
                no.alias("e0"),
                F.lit(went).alias("h0"),
                no.alias("e"),
                zero.alias("n"),
                F.lit(went).alias("went"),
                F.lit(not went).alias("came"),
            )
            for side, went in ((gone, True), (come, False))
        ]
        if touched is not None:
            state = widened(touched, width).select(*columns, "e0", "h0", "e", "n", no.alias("went"), no.alias("came"))
            parts.append(state)
        merged = (
            union_all(parts)
            .groupBy(*columns)
            .agg(*(F.max(name).alias(name) for name in ("e0", "h0", "e", "n", "went", "came")))
        )
        self._work.settle(merged.withColumn("h", F.expr("came OR (h0 AND NOT went)")), names, counted)

    def _nothing(self, names: Sequence[str]) -> DataFrame:
        columns = ", ".join(f"{name} bigint" for name in keys(self._work.old_width(names)))
        state = "e0 boolean, h0 boolean, b0 boolean, e boolean, n bigint, b boolean, h boolean"
        return self._work.spark.createDataFrame([], f"p int, {columns}, {state}")

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
