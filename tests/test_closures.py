"""Closures against a closure by brute force: random graphs, random changes, every form, arrays that start tiny."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.store.closures import Closure, DirectedClosure, SymmetricClosure

Pair = tuple[int, int]

KINDS: dict[str, Any] = {
    "symmetric": lambda diagonal: SymmetricClosure(diagonal, capacity=1),
    "dense": lambda diagonal: DirectedClosure(diagonal, capacity=1, layout="dense"),
    "sparse": lambda diagonal: DirectedClosure(diagonal, capacity=1, layout="sparse"),
}
kinds = pytest.mark.parametrize("kind", KINDS)
diagonals = pytest.mark.parametrize("diagonal", ["closure", "given"])


def brute_force(edges: Iterable[Pair], symmetric: bool, diagonal: str) -> set[Pair]:
    """The closure, by adding pairs until nothing changes."""
    base = set(edges)
    closed = base | {(y, x) for x, y in base} if symmetric else set(base)
    while True:
        more = {(x, z) for (x, y), (other, z) in product(closed, closed) if y == other} - closed
        if not more:
            break
        closed |= more
    if diagonal == "given":
        closed = {(x, y) for x, y in closed if x != y} | {(x, y) for x, y in base if x == y}
    return closed


def columns(pairs: Iterable[Pair]) -> tuple[list[int], list[int]]:
    ordered = sorted(pairs)
    return [x for x, _ in ordered], [y for _, y in ordered]


def pair_set(arrays: tuple[Any, Any]) -> set[Pair]:
    """The pairs of two arrays, of which none may come twice."""
    pairs = list(zip(arrays[0].tolist(), arrays[1].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


def all_pairs(closure: Closure, size: int = 7) -> set[Pair]:
    chunks = list(closure.pairs(size))
    return pair_set((np.concatenate([[], *(x for x, _ in chunks)]), np.concatenate([[], *(y for _, y in chunks)])))


class Model:
    """A closure beside the set of its base edges, with everything compared after each change."""

    def __init__(self, kind: str, diagonal: str, terms: Iterable[int]) -> None:
        self.symmetric = kind == "symmetric"
        self.diagonal = diagonal
        self.closure: Closure = KINDS[kind](diagonal)
        self.terms = list(terms)
        self.edges: set[Pair] = set()

    def expected(self) -> set[Pair]:
        return brute_force(self.edges, self.symmetric, self.diagonal)

    def apply(self, deleted: set[Pair], added: set[Pair]) -> None:
        before = self.expected()
        gone = deleted & self.edges
        come = added - (self.edges - gone)
        self.edges = (self.edges - gone) | come
        change = self.closure.apply(columns(gone), columns(come))
        self.check(before, change)

    def undo(self, edges: set[Pair]) -> None:
        before = self.expected()
        self.edges = edges
        self.check(before, self.closure.undo())

    def check(self, before: set[Pair], change: Any) -> None:
        after = self.expected()
        assert change.added_count == len(after - before)
        assert change.removed_count == len(before - after)
        assert pair_set(change.added()) == after - before
        assert pair_set(change.removed()) == before - after
        self.check_reads(after)

    def check_reads(self, after: set[Pair]) -> None:
        closure = self.closure
        assert len(closure) == len(after)
        assert {(int(x), int(y)) for x, y in all_pairs(closure)} == after
        assert pair_set(closure.base_edges()) == self.edges
        xs, ys = zip(*product(self.terms, self.terms), strict=True)
        answers = closure.contains(xs, ys).tolist()
        assert answers == [(x, y) in after for x, y in zip(xs, ys, strict=True)]
        for term in self.terms:
            assert sorted(closure.successors(term)) == sorted(y for x, y in after if x == term)
            assert sorted(closure.predecessors(term)) == sorted(x for x, y in after if y == term)


def edge_sets(nodes: int, most: int) -> st.SearchStrategy[set[Pair]]:
    node = st.integers(0, nodes - 1)
    return st.sets(st.tuples(node, node), max_size=most)


def changes(nodes: int, most: int) -> st.SearchStrategy[list[tuple[set[Pair], set[Pair]]]]:
    return st.lists(st.tuples(edge_sets(nodes, most), edge_sets(nodes, most)), max_size=5)


@kinds
@diagonals
@settings(max_examples=60, deadline=None)
@given(first=edge_sets(9, 24), then=changes(9, 12))
def test_random_changes(kind: str, diagonal: str, first: set[Pair], then: list[tuple[set[Pair], set[Pair]]]) -> None:
    model = Model(kind, diagonal, range(9))
    model.apply(set(), first)
    for deleted, added in then:
        model.apply(deleted, added)
