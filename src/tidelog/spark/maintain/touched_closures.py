"""Closures under updates: only the connected components, or the sources, that changed pairs touch are closed again.

A closure starts from its protected pairs (`recursion.py`). If these changed, a symmetric-transitive closure is computed
again over the former connected components that the changed pairs touch, and a transitive one for the sources that
reached, or are, the beginning of a changed pair; what differs from before has come or gone. What any other source
reaches, and any other component, is as it was.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.program.modules import Kind, Module
from tidelog.spark.maintain.touched_facts import EXPLICIT, MOVED, Touched
from tidelog.spark.maintain.update_work import Difference, Work
from tidelog.spark.materialise.closure_frames import closure_of, symmetric_closure, transitive_closure, with_diagonal
from tidelog.spark.plan.rule_changes import RuleChanges
from tidelog.spark.session import parallelism

_PAIR = ["c0", "c1"]


def maintained_closure(work: Work, rules: RuleChanges, component: Component, touched: Touched) -> Module | None:
    """The closure that a component is, if it is nothing else and can be computed as one."""

    def is_explicit(name: str) -> bool:
        return bool(work.facts.stored[name].explicit or touched.count(EXPLICIT, name))

    own = {number: rules.graph.rule(number) for number in component.rules}
    module = closure_of(component, own, work.dictionary.floats, is_explicit)
    if module is None or module.kind is Kind.SYMMETRIC_TRANSITIVE:
        return module
    size = sum(map(work.facts.new.count, rules.reads(component)))
    return module if size <= work.options.closure_edges else None


def close_again(work: Work, module: Module, touched: Touched, whole: bool) -> Difference:
    """The pairs that go and those that come; if rules changed, of the `whole` closure."""
    name, number = module.predicate, work.facts.stored[module.predicate].number
    if not whole and not touched.count(MOVED, name):
        return None, None
    whole = whole or not work.facts.old.count(name)
    moved = touched.rows([number], MOVED).select(*_PAIR)
    pairs = touched.protected(work.facts, name)
    before = work.facts.old.facts(name)
    if module.kind is Kind.SYMMETRIC_TRANSITIVE:
        reached = None if whole else _touched_nodes(moved, before)
        start = work.staging.cut(_of_nodes(pairs, reached))
        closed = symmetric_closure(start, work.staging.cut)
    else:
        reached = None if whole else _touched_sources(moved, before)
        path = work.staging.write(pairs)
        start = _of_nodes(work.spark.read.schema("c0 bigint, c1 bigint").parquet(path), reached)
        sources = start.select("c0").distinct()
        closed = transitive_closure(sources, [path], False, parallelism(work.spark))
    now = work.staging.cut(with_diagonal(closed, start, module.diagonal))
    old = _of_nodes(before, reached)
    numbered = [F.lit(number).alias("p"), *_PAIR]
    return old.join(now, _PAIR, "left_anti").select(*numbered), now.join(old, _PAIR, "left_anti").select(*numbered)


def _touched_nodes(moved: DataFrame, before: DataFrame) -> DataFrame:
    """The nodes of changed pairs, and of all former connected components that these touch."""
    ends = moved.select(F.explode(F.array(*_PAIR)).alias("c0")).distinct()
    around = before.join(ends, "c0", "left_semi").select(F.col("c1").alias("c0"))
    return ends.unionByName(around).distinct()


def _touched_sources(moved: DataFrame, before: DataFrame) -> DataFrame:
    """The beginnings of changed pairs, and whatever reached one."""
    begins = moved.select("c0").distinct()
    behind = before.join(begins.withColumnRenamed("c0", "c1"), "c1", "left_semi").select("c0")
    return begins.unionByName(behind).distinct()


def _of_nodes(pairs: DataFrame, nodes: DataFrame | None) -> DataFrame:
    return pairs if nodes is None else pairs.join(nodes, "c0", "left_semi")
