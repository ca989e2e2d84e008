"""`derive`, from DataFrames to DataFrames: against the oracle, with its types, names, laziness and errors."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from generate import Dice, Features, make_case
from naive import Constant, materialise
from tidelog.errors import ArityError, DataError, TidelogError
from tidelog.formats.batch import KIND_OF_TYPE
from tidelog.spark import derive
from tidelog.spark.data.dictionary import value_of
from tidelog.spark.data.wide_frames import keys, union_all

PATHS = "path(X, Y) :- edge(X, Y).  path(X, Z) :- edge(X, Y), path(Y, Z)."


@pytest.fixture(scope="module")
def edges(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "b"), ("b", "c"), ("b", "c")], "`from` string, `to` string")


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def test_recursive_and_lazy_predicates_together(edges: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    derived = derive(
        PATHS + "far(X, count(Y)) :- path(X, Y). end(X) :- edge(_, X), not edge(X, _). out(X, count(Y)) :- edge(X, Y).",
        edge=edges,
    )
    assert list(derived) == ["path", "far", "end", "out"]
    derived.explain()
    shown = capsys.readouterr().out
    assert "path: recursive; computed when it is asked for" in shown
    assert "far: a lazy plan over path" in shown
    assert "end: one lazy plan" in shown
    assert "== Physical Plan ==" in shown
    assert rows(derived["end"]) == [("c",)]
    assert rows(derived["out"]) == [("a", 1), ("b", 1)], "a row that is there twice is one fact"
    assert "_engine" not in vars(derived), "nothing recursive has been computed yet"
    assert rows(derived["far"]) == [("a", 2), ("b", 1)]
    assert rows(derived["path"]) == [("a", "b"), ("a", "c"), ("b", "c")]
    derived.explain()
    assert "path: in one task, on ids: 3 facts" in capsys.readouterr().out


def test_types_and_names(spark: SparkSession) -> None:
    def half(number: int) -> float:  # here, because tasks cannot import this module
        return number / 2

    given = spark.createDataFrame([("a", 1, 2.5, True)], "n string, i int, f double, ok boolean")
    derived = derive(
        """
        plain(N, I, F, Ok) :- w(N, I, F, Ok).
        number(N, 0) :- w(N, _, _, _).          number(N, F) :- w(N, _, F, _).     number(N, 0.0) :- w(N, _, _, _).
        mixed(N) :- w(N, _, _, _).              mixed(I) :- w(_, I, _, _).
        computed(I + 1, I / 2, I * F, upper(N), twice(I), half(I), count(N)) :- w(N, I, F, _).
        w(N, I, F, Ok) :- w0(N, I, F, Ok).
        flag() :- w(_, _, _, true).             nothing(X, Y) :- w(X, Y, Y, _).
        twin(X, X) :- w(X, _, _, _).            @prefix ex: <http://e.org/>.  ex:kind(X, ex:thing) :- w(X, _, _, _).
        """,
        {"w": given},
        functions={"twice": lambda i: 2 * i, "half": half},
    )
    types = {name: derived[name].schema.simpleString() for name in derived}
    assert types == {
        "plain": "struct<N:string,I:bigint,F:double,Ok:boolean>",
        "number": "struct<N:string,c1:double>",
        "mixed": "struct<N:string>",
        "computed": "struct<c0:bigint,c1:double,c2:double,c3:string,c4:string,c5:double,count_N:bigint>",
        "w": "struct<n:string,i:bigint,f:double,ok:boolean>",
        "flag": "struct<holds:boolean>",
        "nothing": "struct<X:string,Y:string>",
        "twin": "struct<X:string,X_2:string>",
        "ex:kind": "struct<X:string,c1:string>",
    }
    texts = [derived[name].select(F.lit(name), F.to_json(F.struct("*"))) for name in derived]
    found = sorted(tuple(row) for row in union_all([frame.toDF("p", "row") for frame in texts]).collect())
    assert found == [
        ("computed", '{"c0":2,"c1":0.5,"c2":2.5,"c3":"A","c4":"2","c5":0.5,"count_N":1}'),
        ("ex:kind", '{"X":"a","c1":"<http://e.org/thing>"}'),
        ("flag", '{"holds":true}'),
        ("mixed", '{"N":"1"}'),
        ("mixed", '{"N":"\\"a\\""}'),
        ("number", '{"N":"a","c1":0.0}'),
        ("number", '{"N":"a","c1":2.5}'),
        ("plain", '{"N":"a","I":1,"F":2.5,"Ok":true}'),
        ("twin", '{"X":"a","X_2":"a"}'),
        ("w", '{"n":"a","i":1,"f":2.5,"ok":true}'),
    ]


def test_columns_may_have_any_names(edges: DataFrame) -> None:
    """Also twice the same, or names that are the same to Spark, or quotes of Spark in them."""
    odd = [edges.toDF("a", "A"), edges.toDF("a", "a"), edges.toDF("c1", "we`ird.c0")]
    found = derive("p(X, Y, Z) :- e(X, Y), f(Y, Z), g(X, Y).", e=odd[0], f=odd[1], g=odd[2])
    assert rows(found["p"]) == [("a", "b", "c")]
    assert derive("p(X, Y) :- e(X, Y).", p=odd[2].limit(0))["p"].columns == ["c1", "we`ird.c0"]


def test_random_programs_without_recursion(spark: SparkSession) -> None:
    """Several programs, whose frames are collected in one job; the kinds that rules promise are the kinds there are."""
    features = Features(recursion=False, closures=False)
    frames = []
    expected = set()
    for seed in range(4):
        state = make_case(Dice(seed), features).state
        facts = [f"{name}({', '.join(map(str, row))})." for name, found in state.explicit.items() for row in found]
        derived = derive("\n".join([*facts, *map(str, state.rules)]))
        assert not derived._eager
        heads = {rule.head.predicate: rule.head.arity for rule in state.rules}
        for name, arity in heads.items():
            frame = derived._lazy.frame(name, derived._made)
            if frame is not None:
                frames.append(frame.select(F.lit(f"{seed} {name}"), F.array(*keys(arity)).cast(ROW)).toDF("p", "row"))
        for name, found in materialise(state.rules, state.explicit).items():
            if name in heads:
                expected |= {(f"{seed} {name}", row) for row in found}
                for row in found:
                    kinds = [KIND_OF_TYPE[type(cell.value)] for cell in row]
                    assert all(kind in known for kind, known in zip(kinds, derived._kinds[name], strict=True))
    results = [
        (row["p"], tuple(Constant(value_of(cell)) for cell in row["row"])) for row in union_all(frames).collect()
    ]
    assert len(results) == len(set(results))
    assert set(results) == expected


ROW = "array<struct<kind:tinyint,text:string,integer:bigint,number:double>>"


def test_errors_say_what_to_do(spark: SparkSession, edges: DataFrame) -> None:
    with pytest.raises(ArityError, match=r"`edge` has 2 arguments in the program, but its frame has 1 columns"):
        derive(PATHS, edge=edges.select("from"))
    with pytest.raises(DataError, match=r"`edge`, column from: facts cannot hold values of type array<string>"):
        derive(PATHS, edge=edges.select(F.array("from").alias("from"), "to"))
    with pytest.raises(DataError, match=r"write `\?- path\(a, X\)\.` as a rule"):
        derive(PATHS + "?- path(a, X).", edge=edges)
    with pytest.raises(TidelogError, match="celsius"):
        derive("hot(X) :- edge(X, Y), celsius(Y) > 30.", edge=edges)
    with pytest.raises(KeyError, match="no rule derives `edge`; there are path"):
        derive(PATHS, edge=edges)["edge"]
    for twice in ({"<http://e.org/edge>": edges, "ex:edge": edges}, {"ex:edge": edges, "<http://e.org/edge>": edges}):
        with pytest.raises(DataError, match="is given twice; give the union of both"):
            derive("@prefix ex: <http://e.org/>.  p(X) :- ex:edge(X, _).", twice)
    missing = spark.createDataFrame([("a", None)], "x string, y string")
    with pytest.raises(PySparkException, match="`e`, column y: a missing value; facts have no nulls"):
        derive("p(X, Y) :- e(X, Y).", e=missing)["p"].collect()


def test_a_plan_of_very_many_scans_is_computed(spark: SparkSession) -> None:
    """Each predicate here reads the one below twice, so that plans double."""
    derived = derive("\n".join(f"p{n + 1}(X) :- p{n}(X), p{n}(X)." for n in range(9)), p0=[("a",)])
    assert derived._eager == {f"p{n}" for n in range(1, 9)}
    assert rows(derived["p9"]) == [("a",)]
