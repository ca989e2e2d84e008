"""Where facts come from and go to besides folders: tables, formats of the session, addresses of other file systems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stand_in_sources import StandInTables, fill_pond, rows_of_pond
from tidelog import DataError, StorageError
from tidelog.language import parse_program
from tidelog.spark import Materialisation, Options, Pipeline, SparkEngine, read_config
from tidelog.spark.pipeline.pipeline import configured_pipeline
from tidelog.spark.places import is_address, local_path, resolved

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
PATHS = {("a", "b"), ("a", "c"), ("b", "c")}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data/x.csv", "/data/x.csv"),
        ("x:y.csv", "/here/x:y.csv"),
        ("sub/x.csv", "/here/sub/x.csv"),
        ("s3a://bucket/x", "s3a://bucket/x"),
        ("dbfs:/mnt/x", "dbfs:/mnt/x"),
    ],
)
def test_places_in_a_configuration(place: str, expected: str) -> None:
    assert resolved(Path("/here"), place) == expected
    assert is_address(place) == (expected == place)


def test_tasks_need_not_work_in_the_folder_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs is that in which Java was started, or one of a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tidelog.spark.data.taking_in.DRIVER_BYTES", 0)
    (tmp_path / "edge.csv").write_text("a,b\nb,c\n")
    run = Pipeline(spark, RULES, "published", max_bad_rows=0)
    run.add("*.csv", header=False)
    run.run()
    assert {tuple(row) for row in run.read("path").collect()} == PATHS


def test_what_needs_a_folder_says_so(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="s3a://bucket/graph: this has to be a folder"):
        Materialisation.create(spark, "s3a://bucket/graph", RULES)
    with pytest.raises(DataError, match="hdfs:/work: this has to be a folder"):
        SparkEngine(spark, parse_program(RULES), "hdfs:/work")
    assert local_path("/data/x") == "/data/x"


@pytest.fixture
def address(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of a folder in another file system of Hadoop: who takes it for a path finds nothing there."""
    (tmp_path / "store").mkdir()
    mount = "fs.viewfs.mounttable.tides.link./store"
    spark.conf.set(mount, f"file://{tmp_path}/store")
    yield "viewfs://tides/store"
    spark.conf.unset(mount)


def test_tables_and_formats_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """From a table of the catalogue and a format that only the session knows, to one of each."""
    spark.dataSource.register(StandInTables)
    spark.sql(f"CREATE DATABASE tides LOCATION '{tmp_path}/warehouse'")
    try:
        spark.createDataFrame([("a", "b")], ["from", "to"]).write.mode("overwrite").saveAsTable("tides.edges")
        fill_pond(tmp_path / "more", "`from` string, `to` string", [["b", "c"]])
        (tmp_path / "rules.dlog").write_text(RULES)
        (tmp_path / "pipeline.toml").write_text("""
            program = "rules.dlog"
            output = "published"
            [[source]]
            table = "tides.edges"
            predicate = "edge"
            [[source]]
            path = "more"
            format = "pond"
            predicate = "edge"
            [[sink]]
            predicate = "path"
            table = "tides.paths"
            columns = ["from", "to"]
            partition_by = ["from"]
            [[sink]]
            predicate = "path"
            path = "paths"
            format = "pond"
        """)
        config = read_config(str(tmp_path / "pipeline.toml"))
        report = configured_pipeline(config, spark).run()
        assert report.stages[-1].name == "tables"
        assert {(row["from"], row["to"]) for row in spark.table("tides.paths").collect()} == PATHS
        assert set(map(tuple, rows_of_pond(tmp_path / "paths"))) == PATHS
    finally:
        spark.sql("DROP DATABASE tides CASCADE")


def test_addresses_of_other_file_systems(spark: SparkSession, tmp_path: Path, address: str) -> None:
    """Text and Parquet from an address, and versions published at one."""
    (tmp_path / "store" / "edges-1.csv").write_text("a,b\nbad\n")
    (tmp_path / "store" / "edges-2.csv").write_text("b,c\n")
    spark.createDataFrame([("c",)], ["node"]).write.parquet(f"{address}/ends")
    run = Pipeline(spark, f"{RULES} done(X) :- path(X, Y), end(Y).", f"{address}/published", Options())
    run.add(f"{address}/edges-*.csv", predicate="edge", header=False)
    run.add(f"{address}/ends", predicate="end", format="parquet")
    with pytest.raises(StorageError, match="nothing is published yet"):
        run.read("path")
    report = run.run()
    assert {tuple(row) for row in run.read("path").collect()} == PATHS
    assert {row["c0"] for row in run.read("done").collect()} == {"a", "b"}
    [reason] = report.quarantined
    bad = spark.read.parquet(f"{address}/published/versions/000001/quarantine").collect()
    assert [(row["source"], row["row"], row["reason"]) for row in bad] == [(f"{address}/edges-1.csv", 2, reason)]
    (tmp_path / "store" / "published" / "versions" / "000002").mkdir()  # left by a run that died
    assert run.run().version == 2
    with pytest.raises(StorageError, match="no data set of `nothing`; there is: done, edge, end, path"):
        run.read("nothing")


def test_sinks_and_sources_that_make_no_sense(spark: SparkSession, tmp_path: Path) -> None:
    run = Pipeline(spark, "p(1).", str(tmp_path / "published"))
    with pytest.raises(DataError, match="either a `table` of the catalogue or a `path`"):
        run.sink("p", table="t", path="q")
    with pytest.raises(DataError, match="`mode` is one of"):
        run.sink("p", path="q", mode="sometimes")
    run.add("data.cvs", predicate="p", format="cvs")
    with pytest.raises(DataError, match="'cvs' is not known; use csv"):
        run.run()
    run = Pipeline(spark, "p(1).", str(tmp_path / "published"))
    run.add("nowhere.at_all", predicate="p", format="table")
    with pytest.raises(DataError, match=r"source nowhere.at_all: Spark cannot read it .*TABLE_OR_VIEW_NOT_FOUND"):
        run.run()
