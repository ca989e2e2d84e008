"""Closures on Spark, for components that `program/modules.py` recognises and that are too large for one task.

The symmetric-transitive closure is all pairs within the connected components. These are found by alternating large-star
and small-star steps (Kiveris et al., "Connected Components in MapReduce and Beyond"), each of which is a `groupBy` and
a join; the number of steps is logarithmic, whatever the diameter. The transitive closure is divided by sources: every
task reads all edges, condenses them with the embedded engine, and yields the pairs of its own sources. No pair is ever
compared with another, and only the edges must fit into a task, not the pairs.

Graphs that no task can hold fall apart, if one is lucky: each connected component is then closed inside a task. Others
are closed by condensation and doubling, on DataFrames alone. *Doubling* goes by distances.
Let `near` be the pairs at a distance below 2^k and `far` those at exactly 2^k. A longer shortest path, of up to
2^(k+1), passes a node at distance 2^k from its start. So one join, of `far` with both, finds the next pairs: those
found with `near` lie below 2^(k+1), and those found only with `far` lie at 2^(k+1). There are as many rounds as the
diameter has binary digits, and a pair is found once for each node at that one distance, not for each node between its
ends. This is the "smart" closure of Ioannidis, with distances instead of lengths, so that it also ends on cycles.

*Condensation* happens on the way, because finding the strongly connected components beforehand would take as many
rounds as the diameter. A pair of a node with itself shows a cycle, and is found in the round in which half of the cycle
is known. Nodes with pairs both ways are then merged, as long as there are any, and the known pairs between the
remaining nodes are the edges of a smaller graph, with the same closure and shorter distances. Every pair that is ever
written stands for pairs of the result.
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
from tidelog.spark.data.wide_frames import Cut, observed, union_all
from tidelog.spark.materialise.embedded_tasks import solved

_PAIR = ["c0", "c1"]
_PAIRS = pa.schema([(name, pa.int64()) for name in _PAIR])
_CLOSE = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
"""
_SHARE = f"{_CLOSE} share(X, Y) :- mine(X), path(X, Y)."


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
    left, right = (labels.withColumnRenamed("node", column) for column in _PAIR)
    return left.join(right, "label").select(*_PAIR)


def components(pairs: DataFrame, cut: Cut) -> DataFrame:
    """For each `node` of the pairs the least node of its connected component, as its `label`."""
    start = pairs.select(F.greatest("c0", "c1").alias("u"), F.least("c0", "c1").alias("v")).distinct()
    (edges, found), before = _cut_and_identified(start, cut), None
    while found != before:
        before = found
        edges, found = _cut_and_identified(_small_star(_large_star(edges)), cut)
    labels = edges.groupBy(F.col("u").alias("node")).agg(F.min("v").alias("label"))
    # The steps drop loops (u, u), so a node with nothing but loops is its own component.
    nodes = pairs.select(F.explode(F.array("c0", "c1")).alias("node")).distinct()
    return cut(nodes.join(labels, "node", "left").select("node", F.coalesce("label", "node").alias("label")))


def _cut_and_identified(edges: DataFrame, cut: Cut) -> tuple[DataFrame, tuple[int, int]]:
    """The edges in files, their number and the sum of their hashes, which tell two sets apart almost certainly."""
    seen = Observation()
    hashes = F.coalesce(F.expr("sum(CAST(xxhash64(u, v) AS decimal(20, 0)))"), F.lit(0))
    written = cut(edges.observe(seen, F.count("*").alias("edges"), hashes.alias("hashes")))
    return written, (observed(seen, "edges"), observed(seen, "hashes"))


def _large_star(edges: DataFrame) -> DataFrame:
    """Link every greater neighbour of a node to the least node around it."""
    both = edges.union(edges.select("v", "u"))
    least = both.groupBy("u").agg(F.expr("least(min(v), u) AS m"))
    return both.join(least, "u").where("v > u").selectExpr("v AS u", "m AS v").where("u != v").distinct()


def _small_star(edges: DataFrame) -> DataFrame:
    """Link the smaller neighbours of a node, and the node itself, to the least of them."""
    least = edges.groupBy("u").agg(F.min("v").alias("m"))
    linked = edges.join(least, "u").selectExpr("v AS u", "m AS v")
    return linked.union(least).where("u != v").distinct()


# ── transitive closure by shares of the sources ──────────────────────────────────────────────────────────────────────


def transitive_closure(sources: DataFrame, paths: Sequence[str], inverse: bool, tasks: int) -> DataFrame:
    """What distinct sources, in a column `c0`, reach by the pairs in Parquet files, or by their inverse."""
    columns = _PAIR[::-1] if inverse else _PAIR

    def solve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [batch.column(0) for batch in batches if batch.num_rows]
        if not mine:
            return
        edges = pa.concat_tables([pq.read_table(path, columns=columns) for path in paths])
        arrays = [edges.column(name).combine_chunks() for name in columns]
        given = [FactBatch("edge", arrays, "edges", 1), FactBatch("mine", [pa.concat_arrays(mine)], "sources", 1)]
        kb, _ = solved(_SHARE, given)
        yield from kb.facts("share").to_arrow().cast(_PAIRS).to_batches()

    return sources.repartition(tasks).mapInArrow(solve, "c0 bigint, c1 bigint")


def closure_by_components(pairs: DataFrame, cut: Cut, most: int, tasks: int) -> DataFrame | None:
    """The closure of each connected component, many of them in one task; None if one has more pairs than `most`.

    There are at least so many tasks, and more if they would hold more than `most` pairs on average."""
    labels = components(pairs, cut).withColumnRenamed("node", "c0")
    labelled = cut(pairs.distinct().join(labels, "c0").select("label", *_PAIR))
    sizes = labelled.groupBy("label").count().agg(F.max("count"), F.sum("count")).first()
    assert sizes is not None
    largest, total = sizes
    if largest > most:
        return None

    def solve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [batch for batch in batches if batch.num_rows]
        if mine:
            edges = pa.Table.from_batches(mine)
            arrays = [edges.column(name).combine_chunks() for name in _PAIR]
            kb, _ = solved(_CLOSE, [FactBatch("edge", arrays, "edges", 1)])
            yield from kb.facts("path").to_arrow().cast(_PAIRS).to_batches()

    return labelled.repartition(max(tasks, -(-total // most)), "label").mapInArrow(solve, "c0 bigint, c1 bigint")


# ── transitive closure by condensation and doubling ──────────────────────────────────────────────────────────────────


def closure_by_doubling(pairs: DataFrame, cut: Cut, on_round: Callable[[int], None]) -> DataFrame:
    """All pairs whose second node can be reached from the first one; `on_round` learns how many each round finds."""
    loops = pairs.where("c0 = c1").distinct()
    near: list[DataFrame] = []
    far = cut(pairs.where("c0 != c1").distinct())
    members: DataFrame | None = None
    while True:
        seen = Observation()
        counts = {"new": F.count("*"), "far": F.count_if("far"), "cycles": F.count_if(F.expr("c0 = c1"))}
        found = cut(_next(near, far).observe(seen, *(count.alias(name) for name, count in counts.items())))
        on_round(observed(seen, "new"))
        if observed(seen, "cycles"):
            known = [*near, far, found.where("c0 != c1").select(*_PAIR)]
            far, members = _contracted(union_all(known), members, cut)
            near = []
        else:
            near += [far, found.where("NOT far").select(*_PAIR)]
            far = found.where("far").select(*_PAIR)
            if not observed(seen, "far"):
                closed = union_all(near)
                return closed.unionByName(loops) if members is None else _expanded(closed, loops, members)


def _next(near: list[DataFrame], far: DataFrame) -> DataFrame:
    """The pairs at the next distances; `far` marks those at the greatest of them. (x, x) may be among them."""
    first = far.select("c0", F.col("c1").alias("middle"))
    steps = [frame.withColumn("far", F.lit(False)) for frame in near] + [far.withColumn("far", F.lit(True))]
    second = union_all(steps).withColumnRenamed("c0", "middle")
    found = first.join(second, "middle").groupBy(*_PAIR).agg(F.bool_and("far").alias("far"))
    return found.join(union_all([*near, far]), _PAIR, "left_anti")


def _contracted(pairs: DataFrame, members: DataFrame | None, cut: Cut) -> tuple[DataFrame, DataFrame | None]:
    """Merge nodes with pairs both ways until there are none: the remaining pairs, and the `label` of each `node`.

    The label is a strongly connected component, named after one of its nodes. A node without a label is a component by
    itself; if there are no cycles, there are no labels."""
    while True:
        seen = Observation()
        both_ways = pairs.where("c0 < c1").join(pairs.selectExpr("c1 AS c0", "c0 AS c1"), _PAIR, "left_semi")
        mutual = cut(both_ways.observe(seen, F.count("*").alias("pairs")))
        if not observed(seen, "pairs"):
            return pairs, members
        labels = components(mutual, cut)
        pairs = cut(_renamed(pairs, labels, "node", "label").where("c0 != c1").distinct())
        members = labels if members is None else cut(_relabelled(members, labels))


def _relabelled(members: DataFrame, labels: DataFrame) -> DataFrame:
    """Members under the labels of their labels, and the labels of nodes that had none."""
    above = labels.selectExpr("node AS label", "label AS above")
    known = members.join(above, "label", "left").select("node", F.coalesce("above", "label").alias("label"))
    return known.unionByName(labels.join(members, "node", "left_anti"))


def _expanded(closed: DataFrame, loops: DataFrame, members: DataFrame) -> DataFrame:
    """The closure between nodes. A component of several nodes reaches itself; a single node does so by a loop."""
    cycles = members.selectExpr("label AS c0", "label AS c1").distinct()
    alone = loops.join(members.select(F.col("node").alias("c0")), "c0", "left_anti")
    return _renamed(union_all([closed, cycles, alone]), members, "label", "node")


def _renamed(pairs: DataFrame, members: DataFrame, old: str, new: str) -> DataFrame:
    """Pairs of nodes under their labels, or of labels as all pairs of their nodes."""
    for column in _PAIR:
        named = members.select(F.col(old).alias(column), new)
        pairs = pairs.join(named, column, "left").withColumn(column, F.coalesce(new, column)).drop(new)
    return pairs.select(*_PAIR)
