"""Closures inside a larger recursion: what it takes to materialise them and to delete an edge, with modules
(`engine.modules`) and without, and beside the same closures alone.

Rules read the pairs of a closure and give it other edges. The graphs are of all kinds: one clique under a symmetric and
transitive relation, mostly one strongly connected component, none at all, and one path.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.bench.data import graphs
from tidelog.bench.data.cases import Case, Tables, random_rows, scaled, table
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Table, ratio
from tidelog.bench.work import timed, timed_materialise, warm

_TRANSITIVE = "r(X, Z) :- r(X, Y), r(Y, Z). r(X, Y) :- e(X, Y). "
_SYMMETRIC = "r(X, Y) :- r(Y, X). " + _TRANSITIVE
_AROUND = "q(X, Y) :- r(X, Y), s(X). r(X, Y) :- q(X, Y), t(Y)."

_DELETIONS = 10
_MATERIALISATIONS = 5


def _facts(edges: Callable[[int, int], graphs.Edges], nodes: int) -> Callable[[int, float], Tables]:
    """Edges, and the nodes, a few of each hundred, at which edges that are derived begin and end."""

    def make(seed: int, size: float) -> Tables:
        count = scaled(nodes, size)
        ends = {name: pa.table({"c0": np.arange(0, count, step)}) for name, step in (("s", 50), ("t", 70))}
        return {"e": table(edges(count, seed)), **ends}

    return make


GRAPHS = {
    "clique of 1,000": Case(
        "", _SYMMETRIC + _AROUND, _facts(lambda nodes, seed: graphs.groups([nodes], 2.0, seed), 1_000)
    ),
    "cycles, 300 nodes": Case(
        "",
        _TRANSITIVE + _AROUND,
        _facts(lambda nodes, seed: graphs.random_graph(nodes, min(3 * nodes, nodes * (nodes - 1)), seed), 300),
    ),
    "DAG, 1,500 nodes": Case(
        "",
        _TRANSITIVE + _AROUND,
        _facts(lambda nodes, seed: graphs.random_dag(nodes, min(3 * nodes, nodes * (nodes - 1) // 2), seed), 1_500),
    ),
    "path of 160": Case("", _TRANSITIVE + _AROUND, _facts(lambda nodes, _: graphs.chain(nodes), 160)),
    "path of 500": Case("", _TRANSITIVE + _AROUND, _facts(lambda nodes, _: graphs.chain(nodes), 500)),
}


@dataclass(frozen=True)
class Deletions:
    """Materialisation, that of the closure alone, the first deletion of an edge, and the median of some later ones; the
    rule applications of materialisation, all facts, and how many went.
    """

    materialise: float
    alone: float
    applications: int
    first: float
    later: float
    facts: int
    gone: list[int]


def within_recursion(options: Options, scale: float) -> tuple[Table, list[Check]]:
    columns = [
        *("graph", "facts", "rule applications", "without modules", "ratio"),
        *("materialise", "the closure alone", "ratio", "first deletion", "later ones", "without modules", "ratio"),
    ]
    found = Table("Closures inside a larger recursion: to materialise, and to delete one edge, CPU ms", columns)
    checks = []
    for name in GRAPHS:
        options.progress(f"{name}, within a recursion")
        ways = [isolated(delete_edges, name, options.seed, scale, m, timeout=options.timeout) for m in (True, False)]
        found.rows.append([name, *_cells(*ways)])
        with_modules, without = ways
        if not isinstance(with_modules, Failed) and not isinstance(without, Failed):
            checks.append(Check(f"{name}: facts that go, with modules and without", with_modules.gone, without.gone))
    found.note = (
        f"Materialisation: the least of {_MATERIALISATIONS}. Later deletions, and those without modules: the median of "
        f"{_DELETIONS}."
    )
    return found, checks


def _cells(with_modules: Deletions | Failed, without: Deletions | Failed) -> list[Cell]:
    applications: Cell = without if isinstance(without, Failed) else without.applications
    plain: Cell = without if isinstance(without, Failed) else 1000 * without.later
    if isinstance(with_modules, Failed):
        return [*[with_modules] * 2, applications, None, *[with_modules] * 2, None, *[with_modules] * 2, plain, None]
    found = with_modules
    share = None if isinstance(without, Failed) else round(found.applications / max(1, without.applications), 4)
    times = (1000 * cpu for cpu in (found.materialise, found.alone))
    return [
        *(found.facts, found.applications, applications, share, *times, ratio(found.alone, found.materialise)),
        *(1000 * found.first, 1000 * found.later, plain, ratio(1000 * found.later, plain)),
    ]


def delete_edges(graph: str, seed: int, size: float, modules: bool) -> Deletions:
    """Materialise; then delete one edge after the other, and add each again."""
    case = GRAPHS[graph]
    facts = case.facts(seed, size)
    warm(case.rules, case.facts(seed, size / 5), modules=modules)
    alone = min(
        timed_materialise(case.rules.removesuffix(_AROUND), facts, modules=modules)[1].cpu
        for _ in range(_MATERIALISATIONS)
    )
    tries = [timed_materialise(case.rules, facts, modules=modules)[1] for _ in range(_MATERIALISATIONS - 1)]
    kb, step = timed_materialise(case.rules, facts, modules=modules)
    gc.disable()
    steps = []
    for number in range(_DELETIONS + 1):
        edge = {"e": random_rows({"e": facts["e"]}, 1, seed + number)["e"]}
        steps.append(timed(kb, delete=edge))
        kb.update(add=edge)
    later = statistics.median(deletion.cpu for deletion in steps[1:])
    materialise = min(each.cpu for each in (*tries, step))
    gone = [deletion.removed for deletion in steps]
    return Deletions(materialise, alone, step.applications, steps[0].cpu, later, len(kb), gone)
