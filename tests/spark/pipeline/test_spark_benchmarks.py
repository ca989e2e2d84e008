"""The benchmarks on Spark, on tiny data in the session of the tests: every step runs, and all ways agree."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.bench.data.lubm import generate
from tidelog.bench.runs import fixpoint, pipeline, spark_updates

ROWS = 40
NAMES = ("Department", "GraduateStudent", "emailAddress", "headOf", "subOrganizationOf", "takesCourse")


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    facts = generate(1)
    return {name: facts[name].slice(0, ROWS) for name in (f"ub:{name}" for name in NAMES)}


def test_updates(spark: SparkSession, tmp_path: Path, tables: dict[str, pa.Table]) -> None:
    found = spark_updates.steps(spark, str(tmp_path), tables, seed=1, share=0.05)
    expected, counts = found["counts"]
    assert counts == expected
    assert found["facts"] > sum(rows.num_rows for rows in tables.values())
    assert 0 < found["changed"] < ROWS * len(tables)


def test_the_pipeline_and_the_plain_copy(spark: SparkSession, tmp_path: Path, tables: dict[str, pa.Table]) -> None:
    sources = pipeline.write_tables(tmp_path / "in", tables)
    made = pipeline.published(spark, pipeline.Run(1), sources, str(tmp_path / "made"))
    copied = pipeline.plain_copy(spark, pipeline.Run(1, plain=True), sources, str(tmp_path / "copied"))
    assert made.rows["read"] == copied.rows["read"] == copied.facts < made.facts
    assert set(made.wall) == set(made.cpu) == {"read", "materialise", "write"}


@pytest.mark.parametrize("way", ["tidelog", "tidelog, by keys", "WITH RECURSIVE"])
def test_ways_to_a_closure(spark: SparkSession, way: str) -> None:
    graph = fixpoint.graph_of(seed=1, nodes=12, edges=20)
    edges = set(zip(*(graph.column(name).to_pylist() for name in "ab"), strict=True))
    reached = set(edges)
    while more := {(a, d) for a, b in reached for c, d in edges if b == c} - reached:
        reached |= more
    assert fixpoint.WAYS[way](spark, graph) == len(reached)
