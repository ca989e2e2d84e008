"""The closure of a random graph on Spark: tidelog beside the loop that one would write, and beside `WITH RECURSIVE`.

CPU seconds are those of Spark's Java process and of the Python processes of its tasks; on a machine that others use as
well, they are what can be compared.

All run in one session on `local[2]`, each once on a tenth of the graph beforehand, so that none pays for warming up;
only the quick form has no time for that, and what it shows is that all ways find the same pairs.
The plain loop is semi-naive and cuts its lineage by `localCheckpoint` each round. The recursive query has DISTINCT in
its step and no limit of rows or levels, without which it would not end right.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.bench.measure import tree_cpu
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Report, Table

_PROGRAM = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
# The same pairs, by rules that are no closure to tidelog, and so by keys, or by rounds.
_NO_CLOSURE = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z), Y != nowhere."
_RECURSIVE = """
WITH RECURSIVE path(a, b) MAX RECURSION LEVEL 10000 AS (
    SELECT a, b FROM edges
    UNION ALL
    SELECT DISTINCT edges.a, path.b FROM edges JOIN path ON edges.b = path.a)
SELECT count(*) AS pairs FROM (SELECT DISTINCT a, b FROM path)
"""


def run(options: Options) -> Report:
    report = Report("Spark: the closure of a random DAG, in one session on local[2]")
    columns = ["way", "pairs", "wall s", "times tidelog, wall", "CPU s", "times tidelog, CPU"]
    table = Table("the same graph", columns)
    report.tables.append(table)
    if find_spec("pyspark") is None:
        table.note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    scale = options.scale(0.2)
    nodes, edges = int(2000 * scale), int(10_000 * scale)
    with _session() as spark:
        small, whole = graph_of(options.seed, nodes // 10, edges // 10), graph_of(options.seed, nodes, edges)
        found = {}
        for way, measure in WAYS.items():
            options.progress(way)
            if not options.quick:
                measure(spark, small)
            started, used = time.perf_counter(), tree_cpu()
            pairs = measure(spark, whole)
            found[way] = (pairs, time.perf_counter() - started, tree_cpu() - used)
    _, base_wall, base_cpu = found[next(iter(WAYS))]
    for way, (pairs, wall, cpu) in found.items():
        table.rows.append([way, pairs, wall, wall / base_wall, cpu, cpu / base_cpu])
    counts = [pairs for pairs, _, _ in found.values()]
    report.checks.append(Check("pairs by every way", counts[:1] * len(counts), counts))
    return report


def graph_of(seed: int, nodes: int, edges: int) -> pa.Table:
    """A DAG: edges between different nodes, from the smaller to the greater one."""
    dice = np.random.default_rng(seed)
    ends = np.sort(np.stack([dice.integers(0, nodes, 2 * edges), dice.integers(0, nodes, 2 * edges)]), axis=0)
    chosen = np.unique(ends[:, ends[0] != ends[1]], axis=1)
    picked = dice.permutation(chosen.shape[1])[:edges]
    return pa.table({"a": chosen[0, picked], "b": chosen[1, picked]})


@contextmanager
def _session() -> Iterator[Any]:
    from tidelog.spark.session import open_session

    spark = open_session("local[2]", {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"})
    try:
        yield spark
    finally:
        spark.stop()


def _tidelog(spark: Any, graph: pa.Table, program: str = _PROGRAM, **options: Any) -> int:
    from tidelog.language import parse_program
    from tidelog.spark import Options as EngineOptions
    from tidelog.spark import SparkEngine
    from tidelog.spark.data.fact_sources import Source

    folder = tempfile.mkdtemp(prefix="tidelog-")
    try:
        how = EngineOptions(**options)
        engine = SparkEngine(spark, parse_program(program), folder, options=how)
        engine.load([Source(predicate="edge", frame=spark.createDataFrame(graph))])
        engine.materialise()
        return engine.relations.count("path")
    finally:
        shutil.rmtree(folder)


def _loop(spark: Any, graph: pa.Table) -> int:
    edges = spark.createDataFrame(graph).localCheckpoint()
    known = delta = edges.distinct().localCheckpoint()
    while not delta.isEmpty():
        step = edges.withColumnRenamed("b", "m").join(delta.withColumnsRenamed({"a": "m"}), "m").select("a", "b")
        delta = step.distinct().join(known, ["a", "b"], "left_anti").localCheckpoint()
        known = known.union(delta).localCheckpoint()
    return int(known.count())


def _recursive(spark: Any, graph: pa.Table) -> int:
    spark.createDataFrame(graph).createOrReplaceTempView("edges")
    spark.conf.set("spark.sql.cteRecursionRowLimit", "-1")
    return int(spark.sql(_RECURSIVE).first()["pairs"])


WAYS: dict[str, Callable[[Any, pa.Table], int]] = {
    "tidelog": _tidelog,
    "tidelog, by doubling": lambda spark, graph: _tidelog(spark, graph, local_facts=0, closure_edges=0),
    "tidelog, by keys": lambda spark, graph: _tidelog(spark, graph, _NO_CLOSURE, local_facts=0),
    "tidelog, by rounds": lambda spark, graph: _tidelog(spark, graph, _NO_CLOSURE, local_facts=0, closure_edges=0),
    "plain loop with localCheckpoint": _loop,
    "WITH RECURSIVE": _recursive,
}
