"""The table function `datalog`: programs over tables in SQL."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidelog.language import parse_rules
from tidelog.spark import register
from tidelog.spark.dataframes.table_function import Outline
from tidelog.spark.plan.key_columns import key_columns

PATHS = "path(X, Y) :- edge(X, Y).  path(X, Z) :- edge(X, Y), path(Y, Z)."
PAIRS = T.StructType([T.StructField("a", T.StringType()), T.StructField("b", T.IntegerType())])


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> SparkSession:
    register(spark)
    spark.createDataFrame([("a", "b"), ("b", "c")], "`from` string, `to` string").createOrReplaceTempView("edges")
    spark.sql("SELECT 'a' AS n, 1 AS i, 2.5D AS f, true AS ok, DATE '2024-05-01' AS d").createOrReplaceTempView("w")
    return spark


def asked(spark: SparkSession, program: str, table: str) -> list[tuple[object, ...]]:
    frame = spark.sql(f"SELECT * FROM datalog({program!r}, TABLE({table}))")
    return sorted(map(tuple, frame.collect()))


def test_recursion_and_queries(sql: SparkSession) -> None:
    assert asked(sql, PATHS, "edges") == [("a", "b"), ("a", "c"), ("b", "c")]
    assert asked(sql, f"{PATHS} ?- path(a, X), X != b.", "edges") == [("c",)]


def test_types(sql: SparkSession) -> None:
    frame = sql.sql("SELECT * FROM datalog('r(N, I + 1, F, Ok, D, I) :- w(N, I, F, Ok, D).', TABLE(w))")
    assert frame.schema.simpleString() == "struct<N:string,c1:bigint,F:double,Ok:boolean,D:string,I:bigint>"
    assert [tuple(row) for row in frame.collect()] == [("a", 2, 2.5, True, "2024-05-01", 1)]
    mixed = "m(N) :- w(N, _, _, _, _). m(I) :- w(_, I, _, _, _)."
    assert asked(sql, mixed, "w") == [('"a"',), ("1",)]
    numbers = "m(F) :- w(_, _, F, _, _). m(I) :- w(_, I, _, _, _). m(1.0) :- w(_, _, _, _, _)."
    assert asked(sql, numbers, "w") == [(1.0,), (2.5,)]


def test_rows_go_to_tasks_by_key_where_rules_keep_to_one(sql: SparkSession) -> None:
    keyed = "big(X, count(Y)) :- e(X, Y), Y > 1."
    assert Outline.of(keyed, PAIRS).key == 0
    assert Outline.of("path(X, Y) :- e(X, Y). path(X, Z) :- path(X, Y), e(Y, Z).", PAIRS).key is None
    assert Outline.of("total(count(Y)) :- e(X, Y).", PAIRS).key is None
    assert Outline.of("p(X) :- e(X, Y), near(Y). near(1).", PAIRS).key == 0
    assert Outline.of("p(X) :- e(X, Y). p(a).", PAIRS).key is None, "each task would have the fact of the text"
    table = "SELECT id % 7, id FROM range(100)"
    assert asked(sql, keyed, table) == [(n, len([i for i in range(2, 100) if i % 7 == n])) for n in range(7)]


def test_what_is_derived_last_is_no_constraint() -> None:
    for program in ("big(X, Y) :- e(X, Y), Y > 1. :- e(X, X).", "@predicate e(x, y). @key e(x). big(X, Y) :- e(X, Y)."):
        outline = Outline.of(program, PAIRS)
        assert (outline.derives, outline.names) == ("big", ["X", "Y"])


def test_keys_of_several_predicates() -> None:
    rules = parse_rules("p(Y, X) :- e(X, Y), not f(X). q(Z) :- p(Y, Z), r(Y). s(X) :- t(X).", {})
    assert key_columns(rules, {"e", "f"}) == {"e": 0, "f": 0, "p": 1, "q": 0}
    assert key_columns(rules, {"e", "r"}) is None
    assert key_columns(parse_rules("p(X) :- e(X, Y), e(Y, X).", {}), {"e"}) is None


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("p(X) :- e(X).", "`e` has 1 arguments, but the table has 2 columns"),
        ("p(X, Y) :- e(X, Y), f(X).", "reads `e`, `f`, but a table function has one table"),
        ("p(1).", "no rules"),
        ("p(X, Y) :- e(X, Y", "expected"),
        ("p(X, Y) :- e(X, Y). ?- p($x, Y).", "`\\$x` has no value"),
        ("same(X, Y) :- e(X, Y). @equality same on p. p(X) :- e(X, _).", "does not have an equality"),
        (":- e(X, X).", "no rules"),
    ],
)
def test_errors_come_before_the_query_runs(sql: SparkSession, program: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        sql.sql(f"SELECT * FROM datalog('{program}', TABLE(edges))")


def test_nulls_are_refused(sql: SparkSession) -> None:
    with pytest.raises(PySparkException, match="facts have no nulls"):
        asked(sql, "p(X) :- e(X).", "SELECT CAST(NULL AS string)")
