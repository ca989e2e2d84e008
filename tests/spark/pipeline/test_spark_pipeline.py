"""The pipeline: every kind of source, rows that do not fit, versions, and what a failed run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import DataError, StorageError
from tidelog.formats import read_file, values_of
from tidelog.formats.columns.tables import CONSTANT_KIND, KIND_KEY, NULLARY_KIND
from tidelog.spark import Pipeline, Versions
from tidelog.spark.data.fact_records import Rejected
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.pipeline.pipeline import QUARANTINE, REPORT, configured_pipeline
from tidelog.spark.pipeline.pipeline_config import read_config
from tidelog.values import IRI, Record

PROGRAM = """
@prefix ex: <http://example.org/> .
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- edge(X, Y), reach(Y, Z).
typed(X) :- ex:Thing(X).
heavy(X, W) :- weight(X, W), W >= 2.5.
mixed(X) :- reach(a, X).
mixed(X) :- weight(_, X).
edge(b, 7).
"""


def rows(path: Path) -> set[tuple[object, ...]]:
    return {row for batch in read_file(path) for row in zip(*map(values_of, batch.columns), strict=True)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "edges-1.csv").write_text('to,from,note\nb,a,"x, y"\nc,b,\n"broken,d\n')
    (folder / "edges-2.csv").write_text("to,from,note\nd,c,ok\nonly one\n")
    (folder / "weights.jsonl").write_text(
        '{"who": "a", "kg": 3}\n{"who": "b", "kg": "2.5"}\n{"who": "c"}\n[1\n'
        '{"who": "d", "kg": "1e400"}\n{"who": "d", "kg": 1e400}\n'
    )
    (folder / "things.nt").write_text(
        "<http://example.org/i> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Thing> .\n"
        "this is no triple\n"
    )
    pq.write_table(pa.table({"a": ["d", None, "e"], "b": ["e", "x", "f"]}), folder / "more.parquet")
    (folder / "cut.parquet").write_bytes((folder / "more.parquet").read_bytes()[:200])
    return folder


@pytest.fixture(scope="module")
def published(spark: SparkSession, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run over all kinds of sources."""
    out = tmp_path_factory.mktemp("out")
    pipeline = Pipeline(spark, PROGRAM, str(out))
    pipeline.add(f"{data}/edges-*.csv", "edge", header=True, columns=["from", "to"], types=["string", "string"])
    pipeline.add(f"{data}/weights.jsonl", "weight", columns=["who", "kg"], types=["string", "float"])
    pipeline.add(f"{data}/things.nt")
    pipeline.add(spark.createDataFrame([("<http://example.org/j>",)], "x string"), "ex:Thing", types=["iri"])
    pipeline.add(f"{data}/*.parquet", "edge")
    pipeline.add(spark.createDataFrame([("f", "g", 1)], "x string, y string, z int"), "edge", columns=["x", "y"])
    pipeline.add(spark.createDataFrame([(1,), (2,)], "n int"), "edge")
    pipeline.add(spark.createDataFrame([("d", "-1e400")], "who string, kg string"), "weight", types=["string", "float"])
    pipeline.run()
    return out


def test_results_are_data_sets_of_decoded_terms(published: Path) -> None:
    versions = Versions(str(published))
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g")]
    chain = "abcdefg"
    expected = {(x, y) for i, x in enumerate(chain) for y in chain[i + 1 :]} | {("a", 7), ("b", 7)}
    assert rows(Path(versions.path("reach"))) == expected
    assert rows(Path(versions.path("edge"))) == {*edges, ("b", 7)}
    assert rows(Path(versions.path("heavy"))) == {("a", 3.0), ("b", 2.5)}
    assert rows(Path(versions.path("typed"))) == {(IRI("http://example.org/i"),), (IRI("http://example.org/j"),)}
    assert rows(Path(versions.path("mixed"))) == {*((x,) for x in "bcdefg"), (7,), (3.0,), (2.5,)}


def test_rows_that_do_not_fit_are_in_quarantine(spark: SparkSession, published: Path, data: Path) -> None:
    found = spark.read.parquet(f"{published}/versions/000001/{QUARANTINE}").collect()
    told = {(Path(row["source"].removeprefix("file:")).name, row["row"]): row["reason"] for row in found}
    assert told["weights.jsonl", 3] == "no value for kg"
    assert "not JSON" in told["weights.jsonl", 4]
    assert "1e400 is too large" in told["weights.jsonl", 5]
    assert "1e400 is too large" in told["weights.jsonl", 6]
    assert "column kg: -1e400 is no float" in [row["reason"] for row in found]
    assert "edges-2.csv, line 3: 1 column, but column 1 is wanted" in told["edges-2.csv", 3]
    assert "not RDF" in told["things.nt", 2]
    assert "missing value" in told["more.parquet", 2]
    assert "not a readable Parquet file" in told["cut.parquet", None]
    assert ("edges-1.csv", 4) in told
    assert [row["reason"] for row in found].count("1 values, but `edge` has 2 arguments") == 2
    report = json.loads((published / "versions" / "000001" / REPORT).read_text())
    assert sum(report["quarantined"].values()) == len(found) == 12
    assert [stage["name"] for stage in report["stages"]] == ["read", "materialise", "write"]
    # However many sources and predicates there are, one job reads, and so few facts are merged and decoded without any.
    assert [report["stages"][number]["spark"]["jobs"] for number in (0, 2)] == [1, 0]


def test_what_was_published_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    """Constants as text are constants again, whether tasks read the files or Spark does, and so is a lone fact."""
    first = Pipeline(spark, 'p(<http://e.org/a>, 1). p(b, [c, 2.5]). p("<x>", true). on().', str(tmp_path / "first"))
    first.run()
    folder = Versions(str(tmp_path / "first"))
    facts = {(IRI("http://e.org/a"), 1), ("b", Record("c", 2.5)), ("<x>", True)}
    second = Pipeline(spark, "q(X, Y) :- p(X, Y), on(). r(X, Y) :- f(X, Y), g().", str(tmp_path / "second"))
    for name in ("p", "on"):
        second.add(folder.path(name), predicate=name, format="parquet")
    second.add(_marked_by_spark(first.read("p"), CONSTANT_KIND), "f")
    second.add(_marked_by_spark(first.read("on"), NULLARY_KIND), "g")
    second.run()
    for name in ("q", "r"):
        assert rows(Path(Versions(str(tmp_path / "second")).path(name))) == facts


def _marked_by_spark(frame: DataFrame, mark: bytes) -> DataFrame:
    """A frame as `Materialisation.facts` gives it: Spark forgets the marks of files that it has not written."""
    metadata = {KIND_KEY.decode(): mark.decode()}
    return frame.select(*(F.col(name).alias(name, metadata=metadata) for name in frame.columns))


def test_later_runs_leave_the_versions_before(spark: SparkSession, published: Path) -> None:
    versions = Versions(str(published))
    old_path = versions.path("reach")
    pipeline = Pipeline(spark, PROGRAM, str(published), max_bad_rows=0)
    pipeline.add(spark.createDataFrame([("a", "new")], "x string, y string"), "edge")
    pipeline.add(spark.range(2).select(), "without_columns")
    report = pipeline.run()
    assert report.facts["without_columns"] == 1
    after = versions.current()
    assert after is not None
    assert (report.version, after.version) == (2, 2)
    assert len(rows(Path(old_path))) == 23
    assert {(row.c0, row.c1) for row in pipeline.read("reach").collect()} == {("a", '"new"'), ("b", "7")}
    assert rows(Path(versions.path("reach"))) == {("a", "new"), ("b", 7)}


def test_a_run_that_fails_leaves_the_last_version(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first = Pipeline(spark, "q(X) :- p(X).", out)
    first.add(spark.createDataFrame([(1,)], "x int"), "p")
    first.run()
    failing = Pipeline(spark, "q(X) :- p(X).", out, max_bad_rows=1)
    failing.add(spark.createDataFrame([(None,), (None,), (3,)], "x int"), "p")
    with pytest.raises(DataError, match=r"2 rows do not fit, more than the limit of 1.*missing value"):
        failing.run()
    assert {row.c0 for row in first.read("q").collect()} == {1}
    assert Versions(out).current() is not None
    with pytest.raises(StorageError, match="no data set of `nothing`; there is: p, q"):
        first.read("nothing")


def test_what_earlier_releases_published_can_be_read(tmp_path: Path) -> None:
    """They kept a dictionary, which nothing reads any more."""
    old = {"format": 1, "version": 1, "folder": "versions/000001", "predicates": {"p": {"path": "p.parquet"}}}
    old |= {"terms": ["terms/part-00000-0"], "terms_count": 3, "floats": False}
    (tmp_path / "manifest.json").write_text(json.dumps(old))
    (tmp_path / "terms").mkdir()
    (tmp_path / "versions" / "000001").mkdir(parents=True)
    versions = Versions(str(tmp_path))
    assert versions.path("p") == f"{tmp_path}/versions/000001/p.parquet"
    assert versions.vacuum() == []
    assert not (tmp_path / "terms").exists()


def test_a_vanished_file_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("1\n")
    [piece] = Source(str(path), "p").pieces(spark)
    path.unlink()
    [found] = piece.on_driver()
    assert isinstance(found, Rejected)
    assert "No such file" in found.reasons[0]
    with pytest.raises(DataError, match="no file matches; check the path"):
        Source(str(path), "p").pieces(spark)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program = 3", "`program` is missing or no text"),
        (
            'program = "p.dlog"\noutput = "o"\n[engine]\nlocal = 1',
            "`local` is not known; there are closure_edges, local_facts",
        ),
        (
            'program = "p.dlog"\noutput = "o"\n[[source]]\npath = "x.xls"\npredicate = "p"',
            "'xls' is not known; use csv",
        ),
        (
            'program = "p.dlog"\noutput = "o"\n[[source]]\npath = "x.csv"\ntypes = ["date"]',
            "'date' is no type; use auto",
        ),
        ("program =", "not TOML"),
    ],
)
def test_bad_configurations_are_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.dlog").write_text("q(X) :- p(X).")
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_config(str(path))


def test_a_configuration_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    for content, message in ((b'program = "\xff"', "line 1: byte 0xff is not UTF-8"), (b"\x7fELF\0", "a NUL byte")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_config(str(path))


def test_a_configured_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p.dlog").write_text("q(X, str(X)) :- p(X).")
    (tmp_path / "p.csv").write_text("5\n6.5\n")
    path = tmp_path / "pipeline.toml"
    path.write_text('program = "p.dlog"\noutput = "out"\n[[source]]\npath = "p.csv"\n')
    report = configured_pipeline(read_config(str(path)), spark).run()
    assert report.facts == {"p": 2, "q": 2}
    assert rows(Path(Versions(str(tmp_path / "out")).path("q"))) == {(5, "5"), (6.5, "6.5")}
