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
from tidelog.spark.maintain.update_work import Difference, Work
from tidelog.spark.materialise.embedded_tasks import TaskProgram, solve_by_ids, solve_by_values
from tidelog.spark.plan.rule_changes import RuleChanges, predicates_of
from tidelog.spark.plan.rule_frames import needs_values


def can_use_ids(work: Work, rules: RuleChanges, components: Sequence[Component]) -> bool:
    """Whether the rules of components only ask which constant is which."""
    numbers = (number for component in components for number in component.rules)
    return not any(needs_values(rules.normal[number], not work.dictionary.floats) for number in numbers)


def solve_anew(
    work: Work, rules: RuleChanges, components: Sequence[Component], given: DataFrame | None, by_ids: bool
) -> Difference | None:
    """What goes and what comes of components, each after those it reads; None if it is more than a task should hold."""
    facts, outputs = work.facts, predicates_of(components)
    read = {name for component in components for name in rules.reads(component)}
    inputs = sorted(name for name in read - set(outputs) if facts.new.count(name))
    numbers = {name: (facts.number(name), facts.arity(name)) for name in (*inputs, *outputs)}
    columns = facts.columns(numbers)

    def wide(rows: DataFrame) -> DataFrame:
        return widened(rows, len(columns) - 1).select(*columns)

    # The rules start from their inputs, and from what is explicit of the outputs after the update.
    start = wide(facts.old.rows(outputs).where("e"))
    if given is not None:
        own = given.where(F.col("p").isin([facts.number(name) for name in outputs]))
        start = start.join(wide(own), columns, "left_anti").unionByName(wide(own.where("give")))
    if inputs:
        start = union_all([wide(facts.new.rows(inputs)), start])
    before = [name for name in outputs if facts.old.count(name)]
    known = wide(facts.old.rows(before)) if before else start.where("false")
    own_rules = [rules.graph.rule(number) for component in components for number in component.rules]
    program = TaskProgram(own_rules, outputs, numbers, work.functions, work.options.local_results)
    if not by_ids:
        solution = solve_by_values(program, work.dictionary, work.staging.stage, start, known)
        return None if solution is None else (solution.gone, solution.come)
    solved = work.staging.cut(solve_by_ids(program, work.ids, start, known))
    if not solved.where("p < 0").isEmpty():
        return None
    return solved.where("NOT came").drop("came"), solved.where("came").drop("came")
