"""Small components inside one task: the embedded engine solves them anew, and tells how they differ from before.

A set-at-a-time algorithm costs its jobs, however few the facts. If some components read few facts, they go to one task
together, with the facts that they had before; only what came and what went leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.spark.data.fact_encoding import decoded_records, encoded_records
from tidelog.spark.data.fact_records import RECORD_TYPE
from tidelog.spark.data.wide_frames import union_all, widened
from tidelog.spark.maintain.fact_transition import Difference
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.materialise.local_tasks import (
    BEYOND_LIMIT,
    CAME,
    KNOWN,
    WENT,
    differences_by_ids,
    differences_by_values,
    with_ids,
)
from tidelog.spark.plan.rule_changes import RuleChanges, predicates_of
from tidelog.spark.plan.rule_frames import needs_values


class Block:
    """Components, each after those it reads, for one task to solve."""

    def __init__(
        self, work: Work, rules: RuleChanges, components: Sequence[Component], given: DataFrame | None
    ) -> None:
        self._work = work
        self._facts = work.facts
        self._given = given
        numbers = [number for component in components for number in component.rules]
        self._rules = [rules.graph.rule(number) for number in numbers]
        self.by_ids = not any(needs_values(rules.normal[number], not work.dictionary.floats) for number in numbers)
        self.outputs = predicates_of(components)
        read = {name for component in components for name in rules.reads(component)}
        self._inputs = sorted(name for name in read - set(self.outputs) if self._facts.new.count(name))
        self._arities = {name: self._facts.arity(name) for name in (*self._inputs, *self.outputs)}

    def solve(self) -> Difference | None:
        """What goes and what comes; None if there is more than a task should hold."""
        return self._solve_by_ids() if self.by_ids else self._solve_by_values()

    def _start(self) -> DataFrame:
        """The facts that the rules start from: inputs, and the explicit facts of the outputs after the update."""
        explicit = self._wide(self._facts.old.rows(self.outputs).where("e"))
        if self._given is not None:
            given = self._given.where(F.col("p").isin([self._facts.number(name) for name in self.outputs]))
            kept = explicit.join(self._wide(given), explicit.columns, "left_anti")
            explicit = kept.unionByName(self._wide(given.where("give")))
        return union_all([self._wide(self._facts.new.rows(self._inputs)), explicit]) if self._inputs else explicit

    def _known(self) -> DataFrame | None:
        """The facts of the outputs before the update."""
        known = [name for name in self.outputs if self._facts.old.count(name)]
        return self._wide(self._facts.old.rows(known)) if known else None

    def _wide(self, rows: DataFrame) -> DataFrame:
        columns = self._facts.columns(self._arities)
        return widened(rows, len(columns) - 1).select(*columns)

    def _solve_by_ids(self) -> Difference | None:
        numbers = {name: self._facts.number(name) for name in self._arities}
        known = self._known()
        frames = [self._start().withColumn("p", F.expr("p * 2"))]
        if known is not None:
            frames.append(known.withColumn("p", F.expr("p * 2 + 1")))
        rules = [with_ids(rule, self._work.ids) for rule in self._rules]
        limit = self._work.options.local_results
        found = differences_by_ids(union_all(frames), numbers, self.outputs, self._arities, rules, limit)
        solved = self._work.staging.cut(found)
        if not solved.where("p < 0").isEmpty():
            return None
        return _tagged(solved, 1), _tagged(solved, 0)

    def _solve_by_values(self) -> Difference | None:
        work, dictionary = self._work, self._work.dictionary
        numbers = {name: (self._facts.number(name), arity) for name, arity in self._arities.items()}
        records = [decoded_records(self._start(), numbers, dictionary)]
        known = self._known()
        if known is not None:
            records.append(decoded_records(known, numbers, dictionary).withColumn("source", F.lit(KNOWN)))
        limit = work.options.local_results
        found = differences_by_values(
            union_all(records), self.outputs, self._arities, self._rules, work.functions, limit
        )
        solved = work.staging.stage(found, RECORD_TYPE)
        reasons = {row["reason"] for row in solved.where("reason IS NOT NULL").select("reason").collect()}
        if BEYOND_LIMIT in reasons:
            return None
        came, went = (solved.where(F.col("source") == kind) for kind in (CAME, WENT))
        dictionary.extend(came.select(F.explode("arguments").alias("value")))
        return encoded_records(went, numbers, dictionary), encoded_records(came, numbers, dictionary)


def _tagged(solved: DataFrame, tag: int) -> DataFrame:
    """The rows whose number carries a tag, under the number of their predicate."""
    chosen = solved.where(F.expr(f"p % 2 = {tag}"))
    return chosen.select(F.expr("p div 2").cast("int").alias("p"), *chosen.columns[1:])
