"""The embedded engine inside one task of Spark, fed and read by Arrow.

A round on Spark has its latency, however small it is. Components whose inputs are small go to one task together, as far
as they follow from each other. Rules that only ask which constant is which see ids instead of constants, and nothing is
decoded; other rules get the values themselves. Either way, only the facts that differ from what was known leave the
task. A task may find far more than it reads, so it stops at a limit, and the components are then evaluated by rounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.errors import LimitError
from tidelog.formats.batch import FactBatch
from tidelog.language.printer import plain_text
from tidelog.language.syntax import Atom, BodyItem, Comparison, Constant, Negation, Rule
from tidelog.spark.data.dictionary import ARROW_VALUE, VALUE_TYPE, Dictionary
from tidelog.spark.data.fact_parts import BEYOND_LIMIT
from tidelog.spark.data.fact_records import column_of_structs, structs_of_column
from tidelog.spark.data.wide_frames import Cut, keys, union_all, widened
from tidelog.spark.plan.sql_expressions import Functions

# The number of the row that tells how many rule instances failed; see also `BEYOND_LIMIT`.
FAILURES = -2

Cells: TypeAlias = pa.Table
"""The facts of a predicate, in columns of ids or of values; one of arity 0 has a column of zeros."""


def solved(
    rules: str, facts: Iterable[FactBatch], functions: Functions | None = None, limit: int | None = None
) -> tuple[Any, int]:
    """A knowledge base of facts and rules, and how many rule instances failed because a value was missing."""
    from tidelog.api.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(max_facts=limit)
    for name, function in (functions or {}).items():
        kb.register(name, function)
    kb.load(facts)
    with warnings.catch_warnings():
        # The driver has warned already, and nobody sees what a task prints.
        warnings.simplefilter("ignore")
        return kb, int(kb.add_rules(rules).errors)


class Solution(NamedTuple):
    """What a task found: rows of ids that went and that came, and how many rule instances failed."""

    gone: DataFrame
    come: DataFrame
    failures: int


def solve_by_ids(
    program: TaskProgram, ids: Mapping[Constant, int], start: DataFrame, known: DataFrame | None = None
) -> DataFrame:
    """How what follows from the rows of a wide frame differs from those of another: a wide frame with a column `came`.

    Without `known`, the rows to start from are what was known. A row under `BEYOND_LIMIT` says that there was too
    much."""
    task = replace(program, rules=[over_ids(rule, ids) for rule in program.rules])
    return _with_known(start, known).repartition(1).mapInArrow(task.solve, task.type)


def solve_by_values(
    program: TaskProgram, dictionary: Dictionary, cut: Cut, start: DataFrame, known: DataFrame | None = None
) -> Solution | None:
    """The same with values instead of ids, encoded again; None where there was more than the limit."""
    task = replace(program, of_values=True)
    columns = dict(zip(program.names, task.names, strict=True))
    rows = widened(_with_known(start, known), len(columns))
    decoded = dictionary.with_values(rows, columns, missing=True).drop(*columns)
    found = cut(decoded.repartition(1).mapInArrow(task.solve, task.type))
    told = {row["p"]: row["count"] for row in found.where("p < 0").selectExpr("p", "a0.integer AS count").collect()}
    if BEYOND_LIMIT in told:
        return None
    facts = found.where("p >= 0")
    values = facts.where("came").select(F.explode(F.array(*task.names)).alias("value"))
    dictionary.extend(values.where("value IS NOT NULL"))
    encoded = dictionary.with_ids(facts, {value: key for key, value in columns.items()})
    without_arguments = [number for number, arity in program.numbers.values() if not arity]
    encoded = encoded.withColumn("c0", F.when(F.col("p").isin(without_arguments), F.lit(0)).otherwise(F.col("c0")))
    gone, come = (encoded.where(which).select("p", *columns) for which in ("NOT came", "came"))
    return Solution(gone, come, told.get(FAILURES, 0))


def _with_known(start: DataFrame, known: DataFrame | None) -> DataFrame:
    if known is None:
        return start
    return union_all([start.withColumn("known", F.lit(False)), known.withColumn("known", F.lit(True))])


@dataclass(frozen=True)
class TaskProgram:
    """What a task is to solve: rules, and which of the predicates, given with number and arity, they derive."""

    rules: Sequence[Rule]
    outputs: Sequence[str]
    numbers: Mapping[str, tuple[int, int]]
    functions: Functions
    limit: int
    of_values: bool = False

    @property
    def names(self) -> list[str]:
        """The columns with ids or with values."""
        width = max(1, *(arity for _, arity in self.numbers.values()))
        return [f"a{place}" for place in range(width)] if self.of_values else keys(width)

    @property
    def type(self) -> str:
        """The schema of what the task yields."""
        cell = VALUE_TYPE if self.of_values else "bigint"
        return ", ".join(["p int", *(f"{name} {cell}" for name in self.names), "came boolean"])

    def solve(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The facts that came and went."""
        start, known = self._read(list(batches))
        facts = [FactBatch(name, self._columns(name, cells), "a task", 1) for name, cells in start.items()]
        try:
            kb, failures = solved("\n".join(map(plain_text, self.rules)), facts, self.functions, self.limit)
        except LimitError:
            yield self._rows(BEYOND_LIMIT, units(1), True)
            return
        if self.of_values:
            yield self._rows(FAILURES, pa.table({self.names[0]: structs_of_column(pa.array([failures]))}), True)
        for name in self.outputs:
            number, arity = self.numbers[name]
            now = self._cells(kb.facts(name), arity)
            before = (start if known is None else known).get(name, now.slice(0, 0))
            gone = now.slice(0, 0) if known is None else minus(before, now)
            for came, found in ((True, minus(now, before)), (False, gone)):
                if found.num_rows:
                    yield self._rows(number, found, came)

    def _read(self, batches: list[pa.RecordBatch]) -> tuple[dict[str, Cells], dict[str, Cells] | None]:
        """The facts to start from by predicate, and those that were known, if they are others."""
        if not batches:
            return {}, None
        whole = pa.Table.from_batches(batches)
        if "known" not in whole.column_names:
            return self._by_predicate(whole), None
        known = whole.column("known")
        return self._by_predicate(whole.filter(pc.invert(known))), self._by_predicate(whole.filter(known))

    def _by_predicate(self, rows: pa.Table) -> dict[str, Cells]:
        numbers = rows.column("p").to_numpy()
        found: dict[str, Cells] = {}
        for name, (number, arity) in self.numbers.items():
            places = np.flatnonzero(numbers == number)
            if places.size:
                found[name] = rows.select(self.names[:arity]).take(pa.array(places)) if arity else units(places.size)
        return found

    def _columns(self, name: str, cells: Cells) -> list[pa.Array]:
        """Facts as the embedded engine takes them."""
        columns = [column.combine_chunks() for column in cells.columns[: self.numbers[name][1]]]
        return [column_of_structs(column) for column in columns] if self.of_values else columns

    def _cells(self, facts: Any, arity: int) -> Cells:
        """Facts of the embedded engine."""
        if not arity:
            return units(len(facts))
        columns = [column.combine_chunks() for column in facts.to_arrow().columns]
        if self.of_values:
            columns = [structs_of_column(column) for column in columns]
        return pa.table(columns, names=self.names[:arity])

    def _rows(self, number: int, cells: Cells, came: bool) -> pa.RecordBatch:
        """Facts as the task yields them, with nulls in the columns that they do not have."""
        type_ = ARROW_VALUE if self.of_values else pa.int64()
        found = [cells.column(name).combine_chunks().cast(type_) for name in self.names if name in cells.column_names]
        missing = [pa.nulls(cells.num_rows, type_)] * (len(self.names) - len(found))
        columns = [pa.array(np.full(cells.num_rows, number, np.int32)), *found, *missing]
        columns.append(pa.array(np.full(cells.num_rows, came)))
        return pa.RecordBatch.from_arrays(columns, names=["p", *self.names, "came"])


def units(count: int) -> Cells:
    """Facts of arity 0, each with the id 0."""
    return pa.table({"c0": pa.array(np.zeros(count, np.int64))})


def minus(left: Cells, right: Cells) -> Cells:
    """The rows of one table that are not in another."""
    if not left.num_rows or not right.num_rows:
        return left
    rows, others = left.flatten(), right.flatten()
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    return left.take(numbered.join(others, others.column_names, join_type="left anti").column("row"))


# ── rules over ids ───────────────────────────────────────────────────────────────────────────────────────────────────


def over_ids(rule: Rule, ids: Mapping[Constant, int]) -> Rule:
    """A rule whose constants are the integers by which facts know them."""

    def term(given: Any) -> Any:
        return Constant(ids[given]) if isinstance(given, Constant) else given

    def atom(given: Atom) -> Atom:
        return Atom(given.predicate, tuple(map(term, given.arguments)))

    def item(given: BodyItem) -> BodyItem:
        match given:
            case Atom():
                return atom(given)
            case Negation(atom=negated):
                return Negation(atom(negated))
            case Comparison(operator=operator, left=left, right=right):
                return Comparison(operator, term(left), term(right))

    return Rule(atom(rule.head), tuple(map(item, rule.body)))
