"""Constants: ids that are dense and never change, constants in files, and arithmetic on them."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidelog.formats import read_file, values_of
from tidelog.formats.batch import INT
from tidelog.language.syntax import Constant
from tidelog.spark.data.dictionary import Dictionary, fields_of, value_of, values_frame
from tidelog.spark.data.part_files import write_predicate
from tidelog.spark.plan.sql_expressions import _row_function, arithmetic
from tidelog.values import IRI, Literal, Value

VALUES: tuple[Value, ...] = (1, 1.0, "1", True, "", "é\n", -0.0, float("nan"), float("inf"), 2**63 - 1, IRI("1"))


def terms(dictionary: Dictionary) -> dict[Constant, int]:
    found = dictionary.frame().select("id", "value.*").collect()
    result = {Constant(value_of(tuple(row[1:]))): row[0] for row in found}
    assert len(result) == len(found)
    return result


def test_ids_are_dense_and_stay(spark: SparkSession, tmp_path: Path) -> None:
    dictionary = Dictionary(spark, str(tmp_path))
    values = [*VALUES, Literal("chat", language="fr"), Literal("chat", datatype="http://e/t"), 0.0]
    assert dictionary.extend(values_frame(spark, values)) == len(values) - 1
    first = terms(dictionary)
    assert sorted(first.values()) == list(range(len(values) - 1))
    many: list[Value] = [*values, *range(100, 400)]
    assert dictionary.extend(values_frame(spark, many), large=True) == 300
    second = terms(dictionary)
    assert second.items() > first.items()
    assert sorted(second.values()) == list(range(len(second)))
    assert dictionary.extend(values_frame(spark, many)) == 0
    assert dictionary.ids_of([Constant(1), Constant(1.0)]) == {Constant(c): second[Constant(c)] for c in (1, 1.0)}
    assert not (tmp_path / "staging").exists()


@pytest.mark.parametrize("format", ["parquet", "jsonl", "dlog"])
def test_facts_of_all_kinds_are_read_back_from_files(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Those of one column, in which several kinds share the type of the column."""
    values = [*VALUES, -math.inf, -(2**63), 2**53 + 1, Literal("chat", language="fr")]
    facts = values_frame(spark, values).select(F.col("value").alias("a0"))
    path = write_predicate(facts, 1, "p", str(tmp_path), format)
    found = [Constant(value) for batch in read_file(path) for column in batch.columns for value in values_of(column)]
    assert Counter(found) == Counter(map(Constant, values))


def test_a_function_may_return_whatever_a_fact_can_hold() -> None:
    """As in the embedded engine, which carries out small updates."""
    same = _row_function(lambda value: value)
    for value in VALUES:
        assert repr(same(fields_of(value))) == repr(fields_of(value))
    assert _row_function(lambda value: None)(fields_of(1)) is None
    assert _row_function(lambda value: 2**63)(fields_of(1)) is None


def test_quotients_of_integers_are_rounded_once(spark: SparkSession) -> None:
    """The way Python divides integers of any size."""
    sizes = (*(0, 1, 3, 7, 10**18 + 9, 2**63 - 1), *(2**power + step for power in (31, 53, 54, 62) for step in (-1, 1)))
    integers = [*sizes, *(-size for size in sizes), -(2**63)]
    pairs = spark.createDataFrame([(x, y) for x in integers for y in integers], "x bigint, y bigint")
    value = f"named_struct('kind', {INT}Y, 'text', '', 'integer', {{0}}, 'number', 0D) AS {{0}}".format
    quotient = f"({arithmetic('/', ['x', 'y'])}).number AS quotient"
    found = pairs.selectExpr(value("x"), value("y")).selectExpr("x.integer AS x", "y.integer AS y", quotient).collect()
    assert [row for row in map(tuple, found) if row[2] != (row[0] / row[1] if row[1] else None)] == []
