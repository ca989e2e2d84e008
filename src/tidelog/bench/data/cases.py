"""The inputs of the benchmarks: a program, its facts, and how DuckDB's recursive queries would say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.bench.data import graphs, lubm, skos, turbines, uobm
from tidelog.bench.data.graphs import Edges

Tables = dict[str, pa.Table]

RIGHT_LINEAR = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
NON_LINEAR = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z)."
SYMMETRIC = "link(X, Y) :- edge(X, Y). link(X, Y) :- link(Y, X). link(X, Z) :- link(X, Y), link(Y, Z)."
SAME_GENERATION = """
same(X, Y) :- parent(X, P), parent(Y, P).
same(X, Y) :- parent(X, A), same(A, B), parent(Y, B).
"""
POINTS_TO = """
points_to(P, A) :- address_of(P, A).
points_to(P, A) :- assign(P, Q), points_to(Q, A).
points_to(P, B) :- load(P, Q), points_to(Q, A), points_to(A, B).
points_to(A, B) :- store(P, Q), points_to(P, A), points_to(Q, B).
"""
PLACES = """
relatedPlaces(X, Y) :- relatedPlaces(Y, X).
relatedPlaces(X, Z) :- relatedPlaces(X, Y), relatedPlaces(Y, Z).
place(X) :- relatedPlaces(X, Y).
"""

_RECURSIVE_QUERY = """
WITH RECURSIVE path(c0, c1) AS (
    SELECT c0, c1 FROM edge UNION SELECT edge.c0, path.c1 FROM edge JOIN path ON edge.c1 = path.c0)
SELECT count(*) FROM path
"""
_SAME_GENERATION_QUERY = """
WITH RECURSIVE same(c0, c1) AS (
    SELECT a.c0, b.c0 FROM parent a JOIN parent b ON a.c1 = b.c1
    UNION SELECT a.c0, b.c0 FROM same JOIN parent a ON a.c1 = same.c0 JOIN parent b ON b.c1 = same.c1)
SELECT count(*) FROM same
"""


@dataclass(frozen=True)
class Case:
    """A program over generated facts. `answer` names the predicates whose facts are counted (none: all derived ones),
    `query` is the same as one recursive query, where SQL can say it."""

    title: str
    rules: str
    facts: Callable[[int, float], Tables]
    answer: tuple[str, ...] = ()
    query: str = ""


def table(edges: Edges) -> pa.Table:
    """An array of rows as an Arrow table."""
    return pa.table({f"c{column}": edges[:, column] for column in range(edges.shape[1])})


def tables(arrays: dict[str, Edges]) -> Tables:
    return {name: table(edges) for name, edges in arrays.items()}


def numbered(facts: Tables) -> Tables:
    """The same facts with numbers for names: what an engine does once the constants are encoded."""
    names = pa.chunked_array(
        [chunk for facts_of in facts.values() for column in facts_of.columns for chunk in column.chunks]
    )
    known = names.unique()
    return {
        name: pa.table(
            [pa.compute.index_in(column, value_set=known).cast(pa.int64()) for column in facts_of.columns],
            names=facts_of.column_names,
        )
        for name, facts_of in facts.items()
    }


def _edges(make: Callable[[int, float], Edges]) -> Callable[[int, float], Tables]:
    return lambda seed, size: {"edge": table(make(seed, size))}


def scaled(count: int, size: float) -> int:
    return max(2, round(count * size))


def _dag(nodes: int, edges: int) -> Callable[[int, float], Edges]:
    def make(seed: int, size: float) -> Edges:
        count = scaled(nodes, size)
        return graphs.random_dag(count, min(scaled(edges, size), count * (count - 1) // 2), seed)

    return make


_SMALL_DAG, _LARGE_DAG = _dag(2_000, 10_000), _dag(10_000, 100_000)


def _universities(size: float) -> tuple[int, int | None]:
    """The universities of LUBM(10 · size); below one university, only some of its departments."""
    universities = 10 * size
    return max(1, round(universities)), None if universities >= 1 else max(1, round(15 * universities))


def lubm_facts(seed: int, size: float) -> Tables:
    universities, departments = _universities(size)
    return lubm.generate(universities, seed, departments)


def uobm_facts(seed: int, size: float) -> Tables:
    universities, departments = _universities(size)
    return uobm.generate(universities, seed, departments)


def _places(large: int, nodes: int, small: int, extra: float) -> Callable[[int, float], Tables]:
    """A few large groups of so many places, many small ones."""

    def make(seed: int, size: float) -> Tables:
        counts = [scaled(nodes, size)] * large + [scaled(20, size)] * small
        return {"relatedPlaces": table(graphs.groups(counts, extra, seed))}

    return make


def _turbines(name: str) -> Case:
    data, count = (turbines.ds1, 400) if name == "RS1" else (turbines.ds2, 200)
    return Case(
        f"turbines, {name}", turbines.text(turbines.RULE_SETS[name]), lambda _, size: tables(data(scaled(count, size)))
    )


CASES: dict[str, Case] = {
    "dag-right": Case("DAG, 2,000 nodes, right-linear", RIGHT_LINEAR, _edges(_SMALL_DAG), ("path",), _RECURSIVE_QUERY),
    "dag-nonlinear": Case("DAG, 2,000 nodes, non-linear", NON_LINEAR, _edges(_SMALL_DAG), ("path",)),
    "dag-large": Case(
        "DAG-R, 10,000 nodes, right-linear", RIGHT_LINEAR, _edges(_LARGE_DAG), ("path",), _RECURSIVE_QUERY
    ),
    "dag-r": Case("DAG-R, 10,000 nodes, non-linear", NON_LINEAR, _edges(_LARGE_DAG), ("path",)),
    "cycle": Case(
        "cycle of 1,000, symmetric-transitive",
        SYMMETRIC,
        _edges(lambda _, size: graphs.cycle(scaled(1_000, size))),
        ("link",),
    ),
    "same-generation": Case(
        "same generation",
        SAME_GENERATION,
        lambda seed, size: {"parent": table(graphs.family(scaled(7_000, size), 6, seed))},
        ("same",),
        _SAME_GENERATION_QUERY,
    ),
    "points-to": Case(
        "Andersen points-to",
        POINTS_TO,
        lambda seed, size: tables(graphs.pointers(scaled(3_000, size), scaled(4_000, size), seed)),
        ("points_to",),
    ),
    "lubm": Case("LUBM(10), 107 rules", lubm.rules(), lubm_facts),
    "lubm-plain": Case("LUBM(10), 98 rules", lubm.rules(harder=False), lubm_facts),
    "lubm-numbers": Case(
        "LUBM(10), 98 rules, numbers for names",
        lubm.rules(harder=False),
        lambda seed, size: numbered(lubm_facts(seed, size)),
    ),
    "uobm": Case("UOBM(10)", uobm.rules(), uobm_facts),
    "places": Case("related places (cliques)", PLACES, _places(4, 120, 100, 2.0)),
    "places-large": Case("related places (cliques of 700)", PLACES, _places(2, 700, 300, 1.0)),
    "skos": Case("SKOS categories", skos.rules(), lambda seed, size: skos.categories(scaled(40_000, size), seed)),
    **{name.lower(): _turbines(name) for name in turbines.RULE_SETS},
}


def case_of(case: str | Case) -> Case:
    """A case, given by its name or itself."""
    return CASES[case] if isinstance(case, str) else case


def random_rows(facts: Tables, count: int, seed: int) -> Tables:
    """So many facts of all predicates together, drawn at random; a larger draw with the same seed holds a smaller
    one."""
    names = sorted(facts)
    sizes = np.array([len(facts[name]) for name in names])
    starts = np.concatenate(([0], np.cumsum(sizes)))
    chosen = np.random.default_rng(seed).permutation(int(starts[-1]))[:count]
    return {
        name: facts[name].take(np.sort(chosen[(chosen >= low) & (chosen < high)]) - low)
        for name, low, high in zip(names, starts, starts[1:], strict=False)
        if ((chosen >= low) & (chosen < high)).any()
    }
