"""Closures on Spark, for components that `program/modules.py` recognises and that are too large for one task.

The symmetric-transitive closure is all pairs within the connected components. These are found by alternating large-star
and small-star steps (Kiveris et al., "Connected Components in MapReduce and Beyond"), each of which is a `groupBy` and
a join; the number of steps is logarithmic, whatever the diameter. The transitive closure is divided by sources: every
task reads all edges, condenses them with the embedded engine, and yields the pairs of its own sources. No pair is ever
compared with another, and only the edges must fit into a task, not the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidelog.formats.batch import FactBatch
from tidelog.language.syntax import Rule
from tidelog.program.graph import Component
from tidelog.program.modules import Diagonal, Module, recognise
from tidelog.spark.data.dictionary import observed
from tidelog.spark.materialise.embedded_tasks import solved

Cut = Callable[[DataFrame], DataFrame]
"""Writes a frame and reads it back, so that the next step starts from files."""

_SHARE = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
share(X, Y) :- mine(X), path(X, Y).
"""


def closure_of(
    component: Component, rules: Mapping[int, Rule], floats: bool, has_explicit_facts: Callable[[str], bool]
) -> Module | None:
    """The closure that a component is, if it is nothing else and can be computed as one."""
    modules, _ = recognise(rules)
    if len(modules) != 1 or len(component.predicates) != 1:
        return None
    [module] = modules
    if not set(component.recursive_rules) <= set(module.rules) or (module.needs_distinct_values and floats):
        return None
    return None if module.needs_no_explicit_facts and has_explicit_facts(module.predicate) else module


def with_diagonal(closed: DataFrame, given: DataFrame, diagonal: Diagonal) -> DataFrame:
    """The pairs that a module yields, from the closure of given pairs (the table in `program/modules.py`)."""
    if diagonal is Diagonal.CLOSURE:
        return closed
    apart = closed.where("c0 != c1")
    return apart if diagonal is Diagonal.NONE else apart.unionByName(given.where("c0 = c1"))


# ── connected components ─────────────────────────────────────────────────────────────────────────────────────────────


def symmetric_closure(pairs: DataFrame, cut: Cut) -> DataFrame:
    """All pairs within each connected component."""
    labels = components(pairs, cut)
    left = labels.select("label", F.col("node").alias("c0"))
    right = labels.select("label", F.col("node").alias("c1"))
    return left.join(right, "label").select("c0", "c1")


def components(pairs: DataFrame, cut: Cut) -> DataFrame:
    """For each `node` of the pairs the least node of its connected component, as its `label`."""
    start = pairs.select(F.greatest("c0", "c1").alias("u"), F.least("c0", "c1").alias("v")).distinct()
    (edges, found), before = _cut_and_identified(start, cut), None
    while found != before:
        before = found
        edges, found = _cut_and_identified(_small_star(_large_star(edges)), cut)
    nodes = edges.select(F.col("u").alias("node"), F.col("v").alias("label"))
    # The steps drop loops (u, u), so a node with nothing but loops is its own component.
    alone = pairs.select(F.explode(F.array("c0", "c1")).alias("node")).distinct()
    return cut(
        alone.join(nodes.groupBy("node").agg(F.min("label").alias("label")), "node", "left").select(
            "node", F.coalesce("label", "node").alias("label")
        )
    )


def _cut_and_identified(edges: DataFrame, cut: Cut) -> tuple[DataFrame, tuple[int, int]]:
    """The edges in files, their number and the sum of their hashes, which tell two sets apart almost certainly."""
    seen = Observation()
    hashes = F.coalesce(F.expr("sum(CAST(xxhash64(u, v) AS decimal(20, 0)))"), F.lit(0))
    written = cut(edges.observe(seen, F.count("*").alias("edges"), hashes.alias("hashes")))
    return written, (observed(seen, "edges"), observed(seen, "hashes"))


def _large_star(edges: DataFrame) -> DataFrame:
    """Link every greater neighbour of a node to the least node around it."""
    both = edges.union(edges.select(F.col("v").alias("u"), F.col("u").alias("v")))
    least = both.groupBy("u").agg(F.least(F.min("v"), F.col("u")).alias("m"))
    linked = both.join(least, "u").where("v > u").select(F.col("v").alias("u"), F.col("m").alias("v"))
    return linked.where("u != v").distinct()


def _small_star(edges: DataFrame) -> DataFrame:
    """Link the smaller neighbours of a node, and the node itself, to the least of them."""
    least = edges.groupBy("u").agg(F.min("v").alias("m"))
    linked = edges.join(least, "u").select(F.col("v").alias("u"), F.col("m").alias("v"))
    return linked.union(least.select("u", F.col("m").alias("v"))).where("u != v").distinct()


# ── transitive closure ───────────────────────────────────────────────────────────────────────────────────────────────


def transitive_closure(sources: DataFrame, paths: Sequence[str], inverse: bool, tasks: int) -> DataFrame:
    """What distinct sources, in a column `c0`, reach by the pairs in Parquet files, or by their inverse."""
    schema = pa.schema([("c0", pa.int64()), ("c1", pa.int64())])

    def solve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [batch.column(0) for batch in batches if batch.num_rows]
        if not mine:
            return
        found = _share(pa.concat_arrays(mine), paths, inverse)
        yield from found.cast(schema).to_batches()

    return sources.repartition(tasks).mapInArrow(solve, "c0 bigint, c1 bigint")


def _share(mine: pa.Array, paths: Sequence[str], inverse: bool) -> pa.Table:
    """The pairs of the closure that begin at one of these sources."""
    columns = ["c1", "c0"] if inverse else ["c0", "c1"]
    edges = pa.concat_tables([pq.read_table(path, columns=columns) for path in paths])
    arrays = [edges.column(name).combine_chunks() for name in columns]
    kb, _ = solved(_SHARE, [FactBatch("edge", arrays, "edges", 1), FactBatch("mine", [mine], "sources", 1)])
    return kb.facts("share").to_arrow()
