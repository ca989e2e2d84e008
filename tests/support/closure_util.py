"""Closures of every form with arrays that start tiny, what they must hold, and their pairs as sets."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from tidelog.closures import read_kernels as kernels
from tidelog.closures.closure import Closure
from tidelog.closures.directed import DirectedGraph
from tidelog.closures.symmetric import SymmetricGraph

Pair = tuple[int, int]
Change = tuple[set[Pair], set[Pair]]

KINDS: dict[str, Any] = {
    "symmetric": lambda diagonal: Closure(SymmetricGraph(diagonal, capacity=1)),
    "dense": lambda diagonal: Closure(DirectedGraph(diagonal, capacity=1, layout="dense")),
    "sparse": lambda diagonal: Closure(DirectedGraph(diagonal, capacity=1, layout="sparse")),
}


def brute_force(edges: Iterable[Pair], symmetric: bool, diagonal: str) -> set[Pair]:
    """The closure by Warshall's algorithm on sets of bits."""
    base = set(edges)
    both = base | {(y, x) for x, y in base} if symmetric else base
    terms = sorted({term for pair in both for term in pair})
    number = {term: i for i, term in enumerate(terms)}
    reach = [0] * len(terms)
    for x, y in both:
        reach[number[x]] |= 1 << number[y]
    for middle, x in product(range(len(terms)), range(len(terms))):
        if reach[x] >> middle & 1:
            reach[x] |= reach[middle]
    closed = {(x, y) for x, y in product(terms, terms) if reach[number[x]] >> number[y] & 1}
    if diagonal == "given":
        return {(x, y) for x, y in closed if x != y} | {(x, y) for x, y in base if x == y}
    return closed


def columns(pairs: Iterable[Pair]) -> tuple[list[int], list[int]]:
    ordered = list(pairs)
    return [x for x, _ in ordered], [y for _, y in ordered]


def pair_set(*chunks: tuple[Any, Any]) -> set[Pair]:
    """The pairs of arrays of sources and targets, of which none may come twice."""
    pairs = [pair for source, target in chunks for pair in zip(source.tolist(), target.tolist(), strict=True)]
    assert len(pairs) == len(set(pairs))
    return set(pairs)


def walk_neighbours(view: int, term: int, backward: int) -> Iterator[int]:
    """One step at a time, as a join that is suspended after each match."""
    node = kernels.closure_node(view, term)
    cursor, other = kernels.closure_next(view, node, backward, 0)
    while cursor >= 0:
        yield other
        cursor, other = kernels.closure_next(view, node, backward, cursor)


def walk_pairs(view: int) -> Iterator[Pair]:
    node, cursor, x, y = kernels.closure_next_pair(view, 0, 0)
    while node >= 0:
        yield x, y
        node, cursor, x, y = kernels.closure_next_pair(view, node, cursor)


def random_changes(choose: random.Random, nodes: int) -> Iterator[Change]:
    """Small and large ones, in a graph that grows and shrinks."""
    for size in (40, 3, 3, 20, 2, 2, 30):
        deleted, added = ({(choose.randrange(nodes), choose.randrange(nodes)) for _ in range(size)} for _ in range(2))
        yield deleted, added
