"""The dictionary: dense ids that stay, whichever way they are given."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.language.syntax import Constant
from tidelog.spark.expressions import _row_function
from tidelog.spark.terms import Dictionary, fields_of, value_of, values_frame
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


def test_a_function_may_return_whatever_a_fact_can_hold() -> None:
    """As in the embedded engine, which does the small updates."""
    same = _row_function(lambda value: value)
    for value in VALUES:
        assert repr(same(fields_of(value))) == repr(fields_of(value))
    assert _row_function(lambda value: None)(fields_of(1)) is None
    assert _row_function(lambda value: 2**63)(fields_of(1)) is None
