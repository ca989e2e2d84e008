"""Small components inside one task: the embedded engine solves them anew, and tells how they differ from before.

A set-at-a-time algorithm costs its jobs, however few the facts. If some components read few facts, they go to one task
together, with the facts that they had before; only what came and what went leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.spark.data.wide_frames import union_all, widened
from tidelog.spark.maintain.fact_transition import Difference
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_ids, solve_by_values
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
        work = self._work
        numbers = {name: (self._facts.number(name), arity) for name, arity in self._arities.items()}
        program = TaskProgram(self._rules, self.outputs, numbers, work.functions, work.options.local_results)
        start = self._start()
        known = self._known(start)
        if not self.by_ids:
            solution = solve_by_values(program, work.dictionary, work.staging.cut, start, known)
            return None if solution is None else (solution.gone, solution.come)
        solved = work.staging.cut(solve_by_ids(program, work.ids, start, known))
        if not solved.where("p < 0").isEmpty():
            return None
        return solved.where("NOT came").drop("came"), solved.where("came").drop("came")

    def _start(self) -> DataFrame:
        """The facts that the rules start from: inputs, and the explicit facts of the outputs after the update."""
        explicit = self._wide(self._facts.old.rows(self.outputs).where("e"))
        if self._given is not None:
            given = self._given.where(F.col("p").isin([self._facts.number(name) for name in self.outputs]))
            kept = explicit.join(self._wide(given), explicit.columns, "left_anti")
            explicit = kept.unionByName(self._wide(given.where("give")))
        return union_all([self._wide(self._facts.new.rows(self._inputs)), explicit]) if self._inputs else explicit

    def _known(self, start: DataFrame) -> DataFrame:
        """The facts of the outputs before the update, laid out as those to start from."""
        known = [name for name in self.outputs if self._facts.old.count(name)]
        return self._wide(self._facts.old.rows(known)) if known else start.where("false")

    def _wide(self, rows: DataFrame) -> DataFrame:
        columns = self._facts.columns(self._arities)
        return widened(rows, len(columns) - 1).select(*columns)
