"""Transitive closure by condensation and doubling, on DataFrames alone: for graphs that no task can hold.

*Doubling* goes by distances. Let `near` be the pairs at a distance below 2^k and `far` those at exactly 2^k. A longer
shortest path, of up to 2^(k+1), passes a node at distance 2^k from its start. So one join, of `far` with both, finds
the next pairs: those found with `near` lie below 2^(k+1), and those found only with `far` lie at 2^(k+1). There are as
many rounds as the diameter has binary digits, and a pair is found once for each node at that one distance, not for each
node between its ends. This is the "smart" closure of Ioannidis, with distances instead of lengths, so that it also ends
on cycles.

*Condensation* happens on the way, because finding the strongly connected components beforehand would take as many
rounds as the diameter. A pair of a node with itself shows a cycle, and is found in the round in which half of the cycle
is known. Nodes with pairs both ways are then merged, as long as there are any, and the known pairs between the
remaining nodes are the edges of a smaller graph, with the same closure and shorter distances. Every pair that is ever
written stands for pairs of the result.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import observed
from tidelog.spark.data.wide_frames import union_all
from tidelog.spark.materialise.closure_frames import Cut, components

OnRound = Callable[[int], None]
"""Called with the number of pairs that a round found."""

_PAIR = ["c0", "c1"]


def closure_by_doubling(pairs: DataFrame, cut: Cut, on_round: OnRound = lambda _: None) -> DataFrame:
    """All pairs whose second node can be reached from the first one by one pair or more."""
    edges = cut(pairs.where("c0 != c1").distinct())
    loops = pairs.where("c0 = c1").distinct()
    closed, members = _condensed_closure(edges, cut, on_round)
    return closed.unionByName(loops) if members is None else _expanded(closed, loops, members)


def _condensed_closure(edges: DataFrame, cut: Cut, on_round: OnRound) -> tuple[DataFrame, DataFrame | None]:
    """The closure between strongly connected components, and the `label` of each `node`: its component.

    A component is named after one of its nodes. A node without a label is a component by itself; None: no cycles."""
    near: list[DataFrame] = []
    far = edges
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
                return union_all(near), members


def _next(near: list[DataFrame], far: DataFrame) -> DataFrame:
    """The pairs at the next distances; `far` marks those at the greatest of them. (x, x) may be among them."""
    first = far.select("c0", F.col("c1").alias("middle"))
    steps = [frame.withColumn("far", F.lit(False)) for frame in near] + [far.withColumn("far", F.lit(True))]
    second = union_all(steps).withColumnRenamed("c0", "middle")
    found = first.join(second, "middle").groupBy(*_PAIR).agg(F.bool_and("far").alias("far"))
    return found.join(union_all([*near, far]), _PAIR, "left_anti")


def _contracted(pairs: DataFrame, members: DataFrame | None, cut: Cut) -> tuple[DataFrame, DataFrame | None]:
    """Merge nodes with pairs both ways until there are none: the remaining pairs, and all labels so far."""
    while True:
        back = pairs.select(F.col("c1").alias("c0"), F.col("c0").alias("c1"))
        seen = Observation()
        both_ways = pairs.where("c0 < c1").join(back, _PAIR, "left_semi")
        mutual = cut(both_ways.observe(seen, F.count("*").alias("pairs")))
        if not observed(seen, "pairs"):
            return pairs, members
        labels = components(mutual, cut)
        pairs = cut(_renamed(pairs, labels).where("c0 != c1").distinct())
        members = labels if members is None else cut(_relabelled(members, labels))


def _renamed(pairs: DataFrame, labels: DataFrame) -> DataFrame:
    for column in _PAIR:
        named = labels.select(F.col("node").alias(column), "label")
        pairs = pairs.join(named, column, "left").withColumn(column, F.coalesce("label", column)).drop("label")
    return pairs


def _relabelled(members: DataFrame, labels: DataFrame) -> DataFrame:
    """Members under the labels of their labels, and the labels of nodes that had none."""
    above = labels.select(F.col("node").alias("label"), F.col("label").alias("above"))
    known = members.join(above, "label", "left").select("node", F.coalesce("above", "label").alias("label"))
    return known.unionByName(labels.join(members, "node", "left_anti"))


def _expanded(closed: DataFrame, loops: DataFrame, members: DataFrame) -> DataFrame:
    """The closure between nodes. A component of several nodes reaches itself; a single node does so by a loop."""
    cycles = members.select(F.col("label").alias("c0"), F.col("label").alias("c1")).distinct()
    alone = loops.join(members.select(F.col("node").alias("c0")), "c0", "left_anti")
    pairs = union_all([closed, cycles, alone])
    for column in _PAIR:
        named = members.select(F.col("label").alias(column), "node")
        pairs = pairs.join(named, column, "left").withColumn(column, F.coalesce("node", column)).drop("node")
    return pairs.select(*_PAIR)
