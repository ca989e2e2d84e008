"""Closures against a closure by brute force: random graphs, random changes, every form, arrays that start tiny."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closure_util import (
    KINDS,
    Change,
    Pair,
    brute_force,
    columns,
    pair_set,
    random_changes,
    walk_neighbours,
    walk_pairs,
)
from tidelog.closures import closed_graph, directed, memory
from tidelog.closures import closure_registers as C
from tidelog.closures import read_kernels as kernels
from tidelog.closures.closure import Closure
from tidelog.closures.directed import DirectedGraph
from tidelog.closures.history import ClosureChange
from tidelog.closures.symmetric import SymmetricGraph
from tidelog.errors import LimitError
from tidelog.machine import jit
from tidelog.machine.jit import JIT_DISABLED

kinds = pytest.mark.parametrize("kind", KINDS)
diagonals = pytest.mark.parametrize("diagonal", ["closure", "given"])
# How much a change may cost before everything is rebuilt: nothing, a little, anything.
patiences = pytest.mark.parametrize("patience", [0.0, 0.05, 1e9])
EXAMPLES = 15 if JIT_DISABLED else 30


def changed_pairs(change: ClosureChange, added: bool) -> set[Pair]:
    """The pairs that a change brought, or took."""
    rows = change.rows(added, change.count(added))
    return pair_set((rows[:, 0], rows[:, 1]))


class Model:
    """A closure beside the set of its base edges; everything is compared after each change."""

    def __init__(self, kind: str, diagonal: str, terms: Iterable[int]) -> None:
        self.symmetric = kind == "symmetric"
        self.diagonal = diagonal
        self.closure: Closure = KINDS[kind](diagonal)
        self.terms = list(terms)
        self.edges: set[Pair] = set()
        self.pairs: set[Pair] = set()
        self.told: list[tuple[Any, set[Pair], set[Pair]]] = []

    def apply(self, deleted: set[Pair], added: set[Pair]) -> None:
        gone = deleted & self.edges
        come = added - (self.edges - gone)
        change = self.closure.apply(columns(gone), columns(come))
        self.check((self.edges - gone) | come, change)

    def undo(self, edges: set[Pair]) -> None:
        self.check(edges, self.closure.undo())

    def check(self, edges: set[Pair], change: Any) -> None:
        before, after = self.pairs, brute_force(edges, self.symmetric, self.diagonal)
        self.edges, self.pairs = edges, after
        assert (change.added_count, change.removed_count) == (len(after - before), len(before - after))
        assert changed_pairs(change, True) == after - before
        assert changed_pairs(change, False) == before - after
        assert pair_set(*change.chunks(True, 5)) == after - before
        sources = {source for source, _ in after ^ before if source % 2}
        wanted = np.array(sorted(sources), np.int32)
        for added, expected in ((True, after - before), (False, before - after)):
            assert pair_set(*change.chunks(added, 5, wanted)) == {pair for pair in expected if pair[0] in sources}
        self.check_reads()
        self.told.append((change, after - before, before - after))
        self.check_told(len(self.told) // 2)

    def check_told(self, number: int) -> None:
        """What an earlier change did can still be read."""
        change, added, removed = self.told[number]
        assert changed_pairs(change, True) == added
        assert changed_pairs(change, False) == removed

    def check_reads(self) -> None:
        closure, pairs = self.closure, self.pairs
        assert len(closure) == len(pairs)
        assert pair_set(*closure.pairs(7)) == pairs
        assert pair_set(closure._graph.base_edges()) == self.edges
        xs, ys = zip(*product(self.terms, self.terms), strict=True)
        assert closure.contains(xs, ys).tolist() == [pair in pairs for pair in zip(xs, ys, strict=True)]
        for term in self.terms:
            assert sorted(walk_neighbours(closure.view, term, 0)) == sorted(y for x, y in pairs if x == term)
            assert sorted(walk_neighbours(closure.view, term, 1)) == sorted(x for x, y in pairs if y == term)


def edge_sets(nodes: int, most: int) -> st.SearchStrategy[set[Pair]]:
    node = st.integers(0, nodes - 1)
    return st.sets(st.tuples(node, node), max_size=most)


def changes(nodes: int, most: int) -> st.SearchStrategy[list[Change]]:
    return st.lists(st.tuples(edge_sets(nodes, most), edge_sets(nodes, most)), max_size=5)


def random_edges(generator: random.Random, terms: list[int], count: int, acyclic: bool) -> set[Pair]:
    edges = set()
    for _ in range(count):
        x, y = generator.choice(terms), generator.choice(terms)
        edges.add((min(x, y), max(x, y)) if acyclic else (x, y))
    return edges


@kinds
@diagonals
@settings(max_examples=EXAMPLES, deadline=None)
@given(first=edge_sets(9, 24), then=changes(9, 8))
def test_small_graphs(kind: str, diagonal: str, first: set[Pair], then: list[Change]) -> None:
    model = Model(kind, diagonal, range(10))
    model.apply(set(), first)
    for deleted, added in then:
        model.apply(deleted, added)


@kinds
@pytest.mark.parametrize("first", range(5))
def test_every_order_of_edges(kind: str, first: int) -> None:
    """Cycles close and grow, open and shrink within one change, whatever the order of its edges."""
    edges = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 0)]
    for ordered in permutations(edges):
        closure: Closure = KINDS[kind]("closure")
        closure.apply(([], []), columns(ordered[:first]))
        before = brute_force(ordered[:first], kind == "symmetric", "closure")
        after = brute_force(edges, kind == "symmetric", "closure")
        change = closure.apply(([], []), columns(ordered[first:]))
        assert changed_pairs(change, True) == after - before
        assert change.removed_count == 0
        change = closure.apply(columns(ordered[first:]), ([], []))
        assert changed_pairs(change, False) == after - before
        assert change.added_count == 0


@kinds
@patiences
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(first=edge_sets(14, 80), then=changes(14, 30))
def test_many_edges_at_once(kind: str, patience: float, first: set[Pair], then: list[Change]) -> None:
    model = Model(kind, "closure", range(14))
    model.closure._graph.patience = patience
    model.apply(set(), first)
    for deleted, added in then:
        model.apply(deleted, added)


@kinds
@patiences
@pytest.mark.parametrize("acyclic", [True, False])
def test_sets_of_several_words(kind: str, patience: float, acyclic: bool) -> None:
    """More nodes than a word has bits, terms far apart, single edges and batches, growing and shrinking."""
    generator = random.Random(f"{kind} {patience} {acyclic}")
    nodes = 70 if JIT_DISABLED else 150
    terms = [node * 12_345_677 % 2**31 for node in range(nodes)]
    model = Model(kind, "closure", terms[::9])
    model.closure._graph.patience = patience
    for size in (1, nodes, 1, 3, 20):
        model.apply(set(), random_edges(generator, terms, size, acyclic))
    for size in (1, 2, 10, 1, 30):
        gone = set(generator.sample(sorted(model.edges), size))
        model.apply(gone, random_edges(generator, terms, size // 2, acyclic))
    model.apply(set(model.edges), set())
    model.apply(set(), random_edges(generator, terms, 5, acyclic))


@kinds
@diagonals
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(first=edge_sets(9, 20), then=changes(9, 40))
def test_undo(kind: str, diagonal: str, first: set[Pair], then: list[Change]) -> None:
    model = Model(kind, diagonal, range(9))
    model.apply(set(), first)
    for deleted, added in then:
        before = model.edges
        model.apply(deleted, added)
        model.undo(before)
        model.apply(deleted, added)


@kinds
def test_nodes_without_edges_are_left_out_in_time(kind: str) -> None:
    """New terms keep coming and going; memory stays in proportion to the terms that are left."""
    model = Model(kind, "closure", range(5))
    model.apply(set(), {(0, 1), (1, 2)})
    for step in range(1, 200):
        first = 10 * step
        model.closure.apply(([], []), ([first, first + 1], [first + 1, first + 2]))
        model.closure.apply(([first, first + 1], [first + 1, first + 2]), ([], []))
    model.check_reads()
    assert sum(array.nbytes for array in model.closure._graph.memory.arrays.values()) < 100_000


def test_rows_take_the_smaller_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bound up to which rows are dense anyway: a tree gets sparse rows, and this hub dense ones.

    Of every seven nodes six point to the hub and it points to the seventh, so that each row has bits in every word.
    """
    monkeypatch.setattr(directed, "DENSE_BYTES", 0)
    tree = Closure(DirectedGraph())
    tree.apply(([], []), (list(range(1, 1000)), [node // 2 for node in range(1, 1000)]))
    hub, end = 1000, 1001
    beyond = list(range(0, 700, 7))
    edges = [(node, end if node in beyond else hub) for node in range(700)] + [(hub, node) for node in beyond]
    closure = Closure(DirectedGraph())
    closure.apply(([], []), columns(edges))
    widths = [each._graph.memory.width(C.FORWARD) for each in (tree, closure)]
    assert widths[0] == 0
    assert widths[1] > 0
    assert len(closure) == 600 * 102 + 101 + 100
    pointing = [node for node in range(700) if node not in beyond]
    assert sorted(walk_neighbours(closure.view, hub, 1)) == pointing
    assert all(sorted(walk_neighbours(closure.view, node, 1)) == [*pointing, hub] for node in beyond)
    closure.apply(([], []), ([5000], [hub]))
    assert sorted(walk_neighbours(closure.view, 5000, 0)) == [*beyond, hub, end]
    closure.apply(([hub], [0]), ([], []))
    assert len(closure) == 601 * 101 + 100 + 100


def test_many_edges_are_taken_one_by_one_where_nodes_reach_few_others() -> None:
    def is_rebuilt(length: int) -> bool:
        """Whether all sets are filled again when a third as many edges come, of paths that had this length."""
        nodes = np.arange(4000)
        edges = nodes[nodes % (length + 1) != length]
        closure = Closure(DirectedGraph())
        closure.apply(([], []), (edges, edges + 1))
        more = edges[: len(edges) // 3]
        closure.apply(([], []), (more, more + 5000))
        return closure._graph.memory[C.REBUILT] == 1

    assert is_rebuilt(8)
    assert not is_rebuilt(1)


def test_rows_that_grow_node_by_node_are_no_wider_than_the_one_under_construction() -> None:
    """Kernels go through a row and the one under construction together, from beginning to end."""
    closure = Closure(DirectedGraph(capacity=520))
    closure.apply(([], []), (list(range(500)), list(range(1, 501))))
    for node in range(500, 530):
        closure.apply(([], []), ([node], [node + 1]))
        closure.apply(([node - 5], [node - 4]), ([], []))
        held = closure._graph.memory
        assert max(held.width(rows) for rows in C.ROW_POOLS) <= len(held.arrays[C.ROW]), node
        closure.apply(([], []), ([node - 5], [node - 4]))
        assert len(closure) == (node + 1) * (node + 2) // 2


def test_numbering_depth_first_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directed, "MANY_EDGES", 1)
    generator = random.Random(5)
    for acyclic in (True, False):
        model = Model("sparse", "closure", range(0, 100, 7))
        model.apply(set(), random_edges(generator, list(range(100)), 120, acyclic))
        model.apply(
            set(generator.sample(sorted(model.edges), 20)), random_edges(generator, list(range(120)), 9, acyclic)
        )


@kinds
@pytest.mark.parametrize("stale", [1, 2])
def test_stamps_can_run_out(kind: str, stale: int) -> None:
    """When searches have used up all stamps, they start again from the first one, which nodes may still have."""
    model = Model(kind, "closure", range(6))
    ring = {(node, (node + 1) % 6) for node in range(6)}
    for spare in range(3):
        model.apply(set(), ring)
        for edge in [(0, 1), (3, 4)]:
            model.closure._graph.memory.m[C.TOKEN] = 2**31 - 2 - spare
            model.closure._graph.memory.arrays[C.STAMP][:] = stale
            model.apply({edge}, set())


@kinds
@pytest.mark.parametrize("fault", range(1, 60, 2))
def test_a_change_that_fails_leaves_all_as_it_was(kind: str, fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(kind, "closure", range(8))
    model.apply(set(), {(0, 1), (1, 2), (2, 0), (3, 3)})
    fail_then_go_on(model, ({(1, 2)}, {(x, x % 7) for x in range(100, 180)}), fault, monkeypatch)
    # Most nodes have no edge by now, and the next change begins by leaving them out.
    model.closure._graph.crowded = True
    fail_then_go_on(model, ({(1, 2)}, {(6, 7)}), fault, monkeypatch)


@kinds
@pytest.mark.parametrize("fault", range(1, 60, 2))
def test_a_first_change_that_fails_leaves_nothing(kind: str, fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directed, "MANY_EDGES", 1)
    model = Model(kind, "closure", range(8))
    fail_then_go_on(model, (set(), {(x, x % 5) for x in range(9, 90)}), fault, monkeypatch)


def fail_then_go_on(model: Model, change: Change, fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a change fail once, at the n-th kernel or larger array; everything must be as before, and usable."""
    count = 0

    def faulty(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == fault:
                raise MemoryError
            return function(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(jit.EntryPoint, "__call__", faulty(jit.EntryPoint.__call__))
        for module in (memory, directed):
            patch.setattr(module, "check_limit", faulty(memory.check_limit))
        with suppress(MemoryError):
            model.closure.apply(columns(change[0]), columns(change[1]))
    if count < fault:
        model.closure.undo()
    model.check_reads()
    model.apply({(0, 1)}, {(4, 5), (0, 5)})
    model.apply({(4, 5), (0, 5)}, {(0, 1)})


def test_too_large_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "POOL_LIMIT", 100)
    closure = Closure(SymmetricGraph())
    with pytest.raises(LimitError, match="more than 100"):
        closure.apply(([], []), (list(range(200)), list(range(1, 201))))
    assert len(closure) == 0


@kinds
def test_misuse_is_refused(kind: str) -> None:
    closure: Closure = KINDS[kind]("closure")
    with pytest.raises(RuntimeError, match="no change"):
        closure.undo()
    change = closure.apply(([], []), ([1, 2], [2, 3]))
    walk = closure.pairs(1)
    next(walk)
    closure.apply(([1], [2]), ([], []))
    with pytest.raises(RuntimeError, match="has changed since"):
        next(change.chunks(True))
    assert changed_pairs(change, True) == brute_force([(1, 2), (2, 3)], kind == "symmetric", "closure")
    with pytest.raises(RuntimeError, match="changed while"):
        next(walk)
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        closure.apply(([], []), ([1, 2], [3]))
    with pytest.raises(ValueError, match="negative"):
        closure.apply(([], []), ([-1], [3]))
    closure.undo()
    with pytest.raises(RuntimeError, match="taken back already"):
        closure.undo()


class Enough(Exception):
    """What a watcher raises to stop a change."""


class Watcher:
    """Stops the change at its n-th call, and notes the largest number of additional pairs it was told."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.looks = 0
        self.most = 0

    def __call__(self, more: int) -> None:
        self.looks += 1
        self.most = max(self.most, more)
        if self.looks == self._last:
            raise Enough


@kinds
@patiences
def test_kernels_pause_and_go_on(kind: str, patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pausing at every possible point changes nothing."""
    monkeypatch.setattr(closed_graph, "SLICE", 1)
    monkeypatch.setattr(closed_graph, "PIECE", 3)
    monkeypatch.setattr(DirectedGraph, "patience", patience)
    monkeypatch.setattr(SymmetricGraph, "patience", patience)
    for seed in range(EXAMPLES // 15):
        model = Model(kind, "closure", range(12))
        for deleted, added in random_changes(random.Random(seed), 12):
            model.apply(deleted, added)


@kinds
@patiences
def test_a_change_that_is_stopped_leaves_all_as_before(
    kind: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever point the watcher stops it. The watcher is never told of more pairs than there will be."""
    monkeypatch.setattr(closed_graph, "SLICE", 1)
    monkeypatch.setattr(DirectedGraph, "patience", patience)
    monkeypatch.setattr(SymmetricGraph, "patience", patience)
    model = Model(kind, "closure", range(12))
    paused = 0
    for deleted, added in random_changes(random.Random(kind), 12):
        gone = deleted & model.edges
        come = added - (model.edges - gone)
        watcher = Watcher(1)
        for last in range(1, 1000, 7 if JIT_DISABLED else 1):
            watcher = Watcher(last)
            try:
                change = model.closure.apply(columns(gone), columns(come), watcher)
            except Enough:
                model.check_reads()
                if model.told:
                    model.check_told(-1)
            else:
                break
        model.check((model.edges - gone) | come, change)
        assert watcher.most <= max(0, change.added_count - change.removed_count)
        paused += watcher.looks
    assert paused > (0 if kind == "symmetric" else 30)


@kinds
@diagonals
def test_reading_by_the_view(kind: str, diagonal: str) -> None:
    generator = random.Random(3)
    terms = [1000 * node for node in range(80)]
    model = Model(kind, diagonal, terms[::8])
    view = model.closure.view
    for _ in range(2):
        model.apply(set(list(model.edges)[::3]), random_edges(generator, terms, 60, False))
        assert model.closure.view == view
        assert sorted(walk_pairs(view)) == sorted(model.pairs)
        for term in [*model.terms, 7]:
            after = sorted(y for x, y in model.pairs if x == term)
            before = sorted(x for x, y in model.pairs if y == term)
            assert sorted(walk_neighbours(view, term, 0)) == after
            assert sorted(walk_neighbours(view, term, 1)) == before
            assert kernels.closure_contains(view, terms[0], term) == ((terms[0], term) in model.pairs)


def test_large_numbers_are_exact() -> None:
    """A billion pairs and more are counted, and single ones found, although none is stored."""
    size = 2000 if JIT_DISABLED else 40_000
    closure = Closure(SymmetricGraph())
    nodes = np.arange(size)
    change = closure.apply(([], []), (nodes, (nodes + 1) % size))
    assert change.added_count == len(closure) == size * size
    change = closure.apply(([0], [1]), ([], []))
    assert (change.added_count, change.removed_count) == (0, 0)
    change = closure.apply(([size // 4], [size // 4 + 1]), ([], []))
    assert change.removed_count == 2 * (size // 4) * (size - size // 4)
    assert closure.contains([1, 0], [size // 4, 1]).tolist() == [True, False]
