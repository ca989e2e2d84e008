"""Small components inside one task: solved anew by the embedded engine, which tells how they differ from before.

A set-at-a-time algorithm costs its jobs, however few the facts. Where all that some components read is few, they go
to one task together, with the facts that they had before, and only what came and what went leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.spark.data.fact_encoding import decoded_records, encoded_records
from tidelog.spark.data.fact_records import RECORD_TYPE
from tidelog.spark.data.wide_frames import keys, union_all, widened
from tidelog.spark.maintain.rule_versions import RuleChanges, reads
from tidelog.spark.maintain.update_work import Difference, Work
from tidelog.spark.materialise.local_tasks import (
    BEYOND_LIMIT,
    CAME,
    KNOWN,
    WENT,
    differences_by_ids,
    differences_by_values,
    with_ids,
)
from tidelog.spark.plan.rule_frames import needs_values


class Block:
    """Components, each after those it reads, that one task is to solve."""

    def __init__(
        self, work: Work, rules: RuleChanges, components: Sequence[Component], given: DataFrame | None
    ) -> None:
        self._work = work
        self._given = given
        self._rules = [rules.graph.rule(number) for component in components for number in component.rules]
        normal = [rules.normal[number] for component in components for number in component.rules]
        self.by_ids = not any(needs_values(rule, not work.dictionary.floats) for rule in normal)
        self.outputs = [name for component in components for name in component.predicates]
        read = {name for component in components for name in reads(rules, component)}
        self._inputs = sorted(name for name in read - set(self.outputs) if work.count_after(name))
        self._arities = {name: work.arity(name) for name in (*self._inputs, *self.outputs)}

    def solve(self) -> Difference | None:
        """What goes and what comes; None where there is more than a task should hold."""
        return self._solve_by_ids() if self.by_ids else self._solve_by_values()

    def _explicit(self) -> DataFrame:
        """The explicit facts of what the components derive, after the update."""
        work = self._work
        before = self._wide(work.old.rows(self.outputs).where("e"))
        if self._given is None:
            return before
        numbers = [work.number(name) for name in self.outputs]
        given = self._given.where(F.col("p").isin(numbers))
        kept = before.join(self._wide(given), before.columns, "left_anti")
        return kept.unionByName(self._wide(given.where("give")))

    def _start(self) -> DataFrame:
        """The facts that the rules start from."""
        read = [self._wide(self._work.rows_after(self._inputs))] if self._inputs else []
        return union_all([*read, self._explicit()])

    def _known(self) -> DataFrame | None:
        known = [name for name in self.outputs if self._work.old.count(name)]
        return self._wide(self._work.old.rows(known)) if known else None

    def _wide(self, rows: DataFrame) -> DataFrame:
        width = self._work.old_width(self._arities)
        return widened(rows, width).select("p", *keys(width))

    def _solve_by_ids(self) -> Difference | None:
        work = self._work
        numbers = {name: work.number(name) for name in self._arities}
        start, known = self._start(), self._known()
        frames = [start.withColumn("p", F.expr("p * 2"))]
        if known is not None:
            frames.append(known.withColumn("p", F.expr("p * 2 + 1")))
        rules = [with_ids(rule, work.ids) for rule in self._rules]
        limit = work.options.local_results
        found = differences_by_ids(union_all(frames), numbers, self.outputs, self._arities, rules, limit)
        solved = work.cut(found)
        if not solved.where("p < 0").isEmpty():
            return None
        return _under(solved, 1), _under(solved, 0)

    def _solve_by_values(self) -> Difference | None:
        work = self._work
        numbers = {name: (work.number(name), arity) for name, arity in self._arities.items()}
        records = [decoded_records(self._start(), numbers, work.dictionary)]
        known = self._known()
        if known is not None:
            records.append(decoded_records(known, numbers, work.dictionary).withColumn("source", F.lit(KNOWN)))
        limit = work.options.local_results
        found = differences_by_values(
            union_all(records), self.outputs, self._arities, self._rules, work.functions, limit
        )
        solved = work.stage(found, RECORD_TYPE)
        reasons = {row["reason"] for row in solved.where("reason IS NOT NULL").select("reason").collect()}
        if BEYOND_LIMIT in reasons:
            return None
        came = solved.where(F.col("source") == CAME)
        work.dictionary.extend(came.select(F.explode("arguments").alias("value")))
        went = solved.where(F.col("source") == WENT)
        return (
            encoded_records(went, numbers, work.dictionary),
            encoded_records(came, numbers, work.dictionary),
        )


def _under(solved: DataFrame, tag: int) -> DataFrame:
    chosen = solved.where(F.expr(f"p % 2 = {tag}"))
    return chosen.select(F.expr("p div 2").cast("int").alias("p"), *chosen.columns[1:])
