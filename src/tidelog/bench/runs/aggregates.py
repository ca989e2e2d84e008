"""Aggregates in recursions: shortest paths beside Dijkstra (SciPy), Floyd and Warshall (Numba) and a query of DuckDB.

The graphs are random, with weights from 1 to 1,000. What is measured is the update that adds the source, or for all
pairs the rules, to a knowledge base that has the edges; then edges that get cheaper, get dearer and go, one at a time.
SciPy gets the graph as a matrix that is ready for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.measure import Failed, Measured, measure
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Report, Table, ratio
from tidelog.bench.work import percentile

ONE_SOURCE = "dist(X, min(0)) :- source(X). dist(Y, min(D + W)) :- dist(X, D), edge(X, Y, W)."
ALL_PAIRS = "dist(X, Y, min(W)) :- edge(X, Y, W). dist(X, Z, min(D + W)) :- dist(X, Y, D), edge(Y, Z, W)."

# DuckDB keeps one distance for each key; what got no better is not spread again.
ALL_PAIRS_QUERY = """
WITH RECURSIVE dist(x, y, d) USING KEY (x, y) AS (
    SELECT x, y, min(w) FROM edge GROUP BY x, y
    UNION
    SELECT found.x, found.y, found.d
    FROM (
        SELECT dist.x, edge.y, min(dist.d + edge.w) AS d
        FROM dist JOIN edge ON dist.y = edge.x
        GROUP BY dist.x, edge.y
    ) AS found
    LEFT JOIN recurring.dist AS known ON known.x = found.x AND known.y = found.y
    WHERE known.d IS NULL OR found.d < known.d
)
SELECT count(*), sum(d) FROM dist
"""

NODES, DEGREE = 100_000, 10
PAIRED_NODES = 1_000
HEAVIEST = 1_000
UPDATES = 200

Edges = npt.NDArray[np.int64]
"""A row for each edge: from, to, weight."""


def run(options: Options) -> Report:
    report = Report("Shortest paths: best values in a recursion beside algorithms made for them")
    nodes = max(100, int(NODES * options.scale(0.05)))
    edges = random_edges(nodes, nodes * DEGREE, options.seed)
    kb = _one_source(report, edges, nodes, options)
    _single_updates(report, kb, edges, options)
    paired = max(30, int(PAIRED_NODES * options.scale(0.1)))
    _all_pairs(report, random_edges(paired, paired * DEGREE, options.seed), paired, options)
    return report


def random_edges(nodes: int, count: int, seed: int) -> Edges:
    """Random edges between different nodes, no two of which are between the same."""
    dice = np.random.default_rng(seed)
    ends = np.unique(dice.integers(0, nodes, (count + count // 8 + 16, 2)), axis=0)
    ends = dice.permutation(ends[ends[:, 0] != ends[:, 1]])[:count]
    return np.column_stack((ends, dice.integers(1, HEAVIEST + 1, len(ends))))


def _tables(edges: Edges) -> dict[str, Any]:
    import pyarrow as pa

    return {"edge": pa.table({"x": edges[:, 0], "y": edges[:, 1], "w": edges[:, 2]})}


def _least(work: Callable[[], Any], times: int) -> Measured:
    return min((measure(work) for _ in range(times)), key=lambda found: found.cpu)


def _matrix(edges: Edges, nodes: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((edges[:, 2], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))


def _one_source(report: Report, edges: Edges, nodes: int, options: Options) -> KnowledgeBase:
    """All distances from one node; the knowledge base that has them."""
    options.progress(f"one source, {len(edges):,} edges")
    kb = KnowledgeBase(ONE_SOURCE)
    kb.update(add=_tables(edges))
    kb.update(add={"source": [(1,)]})
    kb.update(delete={"source": [(1,)]})
    ours = measure(lambda: kb.update(add={"source": [(0,)]}))
    peer = _dijkstra(edges, nodes, options.repeat)
    found = kb.facts("dist").to_arrow()
    total = int(found.column(1).to_numpy().sum())
    if isinstance(peer, Measured):
        reached = peer.value[np.isfinite(peer.value)]
        claim = "nodes that are reached, and the sum of their distances"
        report.checks.append(Check(claim, (len(reached), int(reached.sum())), (len(found), total)))
    title = f"From one source: {nodes:,} nodes, {len(edges):,} edges, CPU seconds"
    report.tables.append(Table(title, ("tidelog", "SciPy's Dijkstra", "times"), [(ours, peer, ratio(ours, peer))]))
    return kb


def _dijkstra(edges: Edges, nodes: int, repeat: int) -> Measured | Failed:
    try:
        from scipy.sparse.csgraph import dijkstra
    except ImportError:
        return Failed("SciPy is not installed")
    matrix = _matrix(edges, nodes)
    return _least(lambda: dijkstra(matrix, indices=0), repeat)


def _single_updates(report: Report, kb: KnowledgeBase, edges: Edges, options: Options) -> None:
    """One edge at a time: what it takes until all distances are right again."""
    dice = np.random.default_rng(options.seed + 1)
    spent: dict[str, list[float]] = {"cheaper": [], "dearer": [], "gone": [], "back": []}
    changed: list[int] = []
    for x, y, w in edges[dice.integers(0, len(edges), UPDATES // 4)].tolist():
        less = max(1, w // 2)
        steps = (((x, y, w), (x, y, less)), ((x, y, less), (x, y, w)), ((x, y, w), None), (None, (x, y, w)))
        for kind, (gone, come) in zip(spent, steps, strict=True):
            began = time.perf_counter()
            change = kb.update(delete={"edge": [gone] if gone else []}, add={"edge": [come] if come else []})
            spent[kind].append(1000 * (time.perf_counter() - began))
            changed.append(len(change.added.get("dist", ())))
    rows: list[Sequence[Cell]] = [
        (kind, percentile(times, 0.5), percentile(times, 0.9), max(times)) for kind, times in spent.items()
    ]
    note = (
        f"{sum(changed) / len(changed):.1f} distances change on average, {percentile(changed, 0.5):.0f} in the median."
    )
    report.tables.append(Table("One edge, wall ms", ("the edge", "median", "90 %", "longest"), rows, note))


def _all_pairs(report: Report, edges: Edges, nodes: int, options: Options) -> None:
    options.progress(f"all pairs, {nodes:,} nodes")
    kb = KnowledgeBase()
    kb.update(add=_tables(edges))
    ours = measure(lambda: kb.update(add_rules=ALL_PAIRS))
    peer = _floyd_warshall(edges, nodes, options.repeat)
    query = _query(edges)
    found = kb.facts("dist").to_arrow()
    here = (len(found), int(found.column(2).to_numpy().sum()))
    claim = "pairs that are connected, and the sum of their distances"
    if isinstance(peer, Measured):
        reached = peer.value[np.isfinite(peer.value)]
        report.checks.append(Check(claim, (len(reached), int(reached.sum())), here))
    if isinstance(query, Measured):
        report.checks.append(Check(f"{claim}, by DuckDB", query.value, here))
    title = f"All pairs: {nodes:,} nodes, {len(edges):,} edges, CPU seconds"
    columns = ("tidelog", "Floyd and Warshall in Numba", "times", "DuckDB", "times")
    row = (ours, peer, ratio(ours, peer), query, ratio(ours, query))
    report.tables.append(Table(title, columns, [row]))


def _query(edges: Edges) -> Measured | Failed:
    """DuckDB's recursive query, with one thread."""
    try:
        import duckdb
    except ImportError:
        return Failed("DuckDB is not installed")
    connection = duckdb.connect(config={"threads": 1})
    connection.register("edges", _tables(edges)["edge"])
    connection.execute("CREATE TABLE edge AS SELECT * FROM edges")

    def work() -> tuple[int, ...]:
        (row,) = connection.execute(ALL_PAIRS_QUERY).fetchall()
        return tuple(map(int, row))

    try:
        return measure(work)
    except duckdb.Error as error:  # `USING KEY` is of version 1.3.
        return Failed(str(error).splitlines()[0])


def _floyd_warshall(edges: Edges, nodes: int, repeat: int) -> Measured | Failed:
    """Also of a node to itself the least cycle, as the rules have it."""
    try:
        numba = import_module("numba")
    except ImportError:
        return Failed("Numba is not installed")

    def close(distances: npt.NDArray[np.float64]) -> None:
        count = len(distances)
        for middle in range(count):
            for first in range(count):
                before = distances[first, middle]
                if before == np.inf:
                    continue
                for last in range(count):
                    total = before + distances[middle, last]
                    if total < distances[first, last]:
                        distances[first, last] = total

    compiled = numba.njit(close)
    compiled(np.full((2, 2), np.inf))

    def work() -> npt.NDArray[np.float64]:
        distances = np.full((nodes, nodes), np.inf)
        distances[edges[:, 0], edges[:, 1]] = edges[:, 2]
        compiled(distances)
        return distances

    return _least(work, repeat)
