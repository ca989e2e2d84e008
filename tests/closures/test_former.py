"""A closure read as it was before a change: at every pause of the change, after it, and when it fails or is undone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pytest

import tidelog
from closure_util import KINDS, Pair, brute_force, columns, pair_set, random_changes, walk_neighbours, walk_pairs
from tidelog.closures import closed_graph, directed
from tidelog.closures.closed_graph import NO_EDGES, ClosedGraph
from tidelog.closures.closure import Closure, ReadableClosure
from tidelog.closures.directed import DirectedGraph
from tidelog.closures.edges import as_edges, packed
from tidelog.closures.symmetric import SymmetricGraph
from tidelog.engine.update.runner import Limits
from tidelog.machine.jit import JIT_DISABLED

kinds = pytest.mark.parametrize("kind", KINDS)

CONNECTED = {"intern", "link", "cut", "join"}
REACHING = {"intern", "link", "loosen", "shrink", "extend"}
REBUILT = {"intern", "link", "record", "fill"}


@pytest.fixture(autouse=True)
def pauses_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_graph, "SLICE", 1)
    monkeypatch.setattr(closed_graph, "PIECE", 3)


class Enough(Exception):
    """What a watcher raises to stop a change."""


class Shown:
    """The pairs that a view has to show."""

    def __init__(self, pairs: set[Pair]) -> None:
        self.pairs = pairs
        self.packed = np.sort(packed(as_edges(columns(pairs))))

    @cached_property
    def turned(self) -> Shown:
        return Shown({(y, x) for x, y in self.pairs})


class Reader:
    """Reads a closure at the pauses of its changes, and compares it with what it was before."""

    def __init__(self, kind: str, diagonal: str, terms: Iterable[int]) -> None:
        self.symmetric, self.diagonal = kind == "symmetric", diagonal
        self.closure: Closure = KINDS[kind](diagonal)
        self.graph.pause = self.read
        self.terms = list(terms)
        self.edges: set[Pair] = set()
        self.asked = as_edges(columns(product(self.terms, self.terms)))
        self.shown = Shown(set())  # before the change
        self.reads = 0
        self.saw_other = 0  # how often the closure itself showed other pairs

    @property
    def graph(self) -> ClosedGraph:
        return self.closure._graph

    def closed(self, edges: set[Pair]) -> set[Pair]:
        return brute_force(edges, self.symmetric, self.diagonal)

    def change(self, deleted: set[Pair], added: set[Pair], watch: Callable[[int], None] | None = None) -> None:
        self.shown = Shown(self.closed(self.edges))
        gone = deleted & self.edges
        come = added - (self.edges - gone)
        self.closure.apply(columns(gone), columns(come), watch or (lambda _more: self.read()))
        self.edges = (self.edges - gone) | come
        self.read()
        assert pair_set(*self.closure.pairs()) == self.closed(self.edges)

    def read(self) -> None:
        """Everything in compiled pieces; step by step, from another term at each pause."""
        former = self.closure.former()
        assert former is not None
        for view, shown in ((former, self.shown), (former.turned(), self.shown.turned)):
            assert len(view) == len(shown.packed)
            found = np.concatenate([packed(NO_EDGES), *map(packed, view.pairs(50))])
            assert np.array_equal(np.sort(found), shown.packed)
            assert np.array_equal(view.contains(*self.asked), np.isin(packed(self.asked), shown.packed))
        self.walk(former.turned() if self.reads % 2 else former, self.terms[self.reads // 2 % len(self.terms)])
        self.reads += 1
        self.saw_other += former.view != self.closure.view

    def walk(self, view: ReadableClosure, term: int) -> None:
        pairs = (self.shown.turned if view._turned else self.shown).pairs
        assert sorted(walk_neighbours(view.view, term, 0)) == sorted(y for x, y in pairs if x == term)
        assert sorted(walk_neighbours(view.view, term, 1)) == sorted(x for x, y in pairs if y == term)


@pytest.fixture
def kernels_run(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the kernels that have run since."""
    names: set[str] = set()
    run = ClosedGraph._run

    def noting(graph: ClosedGraph, kernel: Any, *arguments: int) -> int:
        names.add(kernel.__name__)
        return run(graph, kernel, *arguments)

    monkeypatch.setattr(ClosedGraph, "_run", noting)
    return names


@pytest.mark.plain
@kinds
@pytest.mark.parametrize(("patience", "diagonal"), [(0.0, "closure"), (0.05, "given"), (1e9, "closure")])
def test_at_every_pause(
    kind: str, patience: float, diagonal: str, kernels_run: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectedGraph, "patience", patience)
    monkeypatch.setattr(SymmetricGraph, "patience", patience)
    nodes = 6 if JIT_DISABLED else 9
    reader = Reader(kind, diagonal, range(nodes + 1))
    for deleted, added in random_changes(random.Random(kind), nodes):
        reader.change(deleted, added)
    # Single edges, in a sparse graph of terms that are known already.
    reader.change(reader.edges - {(node, node + 1) for node in range(nodes)}, set())
    for deleted, added in random_changes(random.Random(patience), nodes):
        reader.change(set(list(deleted & reader.edges)[:2]), set(list(added)[:2]))
    assert reader.saw_other > 30
    assert kernels_run >= (CONNECTED if kind == "symmetric" else REACHING if patience > 1 else REBUILT)


@kinds
@pytest.mark.parametrize("patience", [0.1, 1e9])
def test_sets_of_several_words(kind: str, patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and pools grow, rows get another form, components merge and fall apart, and what is new is not seen."""
    monkeypatch.setattr(closed_graph, "SLICE", 2000)
    monkeypatch.setattr(closed_graph, "PIECE", 1000)
    monkeypatch.setattr(DirectedGraph, "patience", patience)
    choose = random.Random(kind)
    nodes = 70  # more than a word has bits
    terms = [node * 12_345_677 % 2**31 for node in range(nodes)]
    reader = Reader(kind, "closure", terms[::9])

    def edges(count: int) -> set[Pair]:
        return {(choose.choice(terms), choose.choice(terms)) for _ in range(count)}

    for gone, come in ((0, nodes), (0, 20), (4, 0), (25, 5), (3, 3), (nodes // 2, nodes // 2), (2, 1)):
        reader.change(set(choose.sample(sorted(reader.edges), gone)), edges(come))
    former = reader.closure.former()
    assert former is not None
    assert sorted(walk_pairs(former.view)) == sorted(reader.shown.pairs)
    for term in terms[::5]:
        reader.walk(former, term)


def test_rows_that_change_their_form(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader("sparse", "closure", range(0, 90, 11))
    graph = reader.graph
    assert isinstance(graph, DirectedGraph)
    monkeypatch.setattr(closed_graph, "SLICE", 300)
    monkeypatch.setattr(closed_graph, "PIECE", 1000)
    for layout in ("sparse", "dense", "sparse", "dense"):
        graph._layout = layout
        first = len(reader.edges)
        reader.change({(first - 5, first - 4)}, {(node, node + 1) for node in range(first, first + 20)})
        reader.change({(3, 4)}, {(first + 19, first), (first + 3, 5)})
        reader.change({(first + 19, first), (first + 3, 5)}, {(3, 4)})


@pytest.mark.plain
@kinds
def test_a_first_large_load_shows_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directed, "MANY_EDGES", 1)
    reader = Reader(kind, "closure", (0, 1, 4, 9, 20))
    reader.change(set(), {(x, x % 5) for x in range(9, 45)})
    assert reader.shown.pairs == set()
    assert reader.saw_other > 5


@pytest.mark.plain
@kinds
def test_while_nodes_are_left_out(kind: str) -> None:
    """A change that begins by building the closure without the nodes that have no edges."""
    reader = Reader(kind, "closure", range(12))
    reader.change(set(), {(0, 1), (1, 2), (2, 0), (3, 3), (8, 9)})
    reader.change({(8, 9), (0, 1)}, set())
    reader.graph.crowded = True
    reads = reader.reads
    reader.change({(1, 2)}, {(6, 7), (0, 1)})
    assert not reader.graph.crowded
    assert reader.reads > reads + 3


@kinds
@pytest.mark.parametrize("crowded", [False, True])
def test_a_change_that_is_stopped(kind: str, crowded: bool) -> None:
    """Wherever a pause raises, what was before is there all the time until the closure is that again."""
    change = {(1, 2), (4, 5)}, {(x, (x * 3 + 1) % 12) for x in range(7)} | {(2, 3)}
    last, stopped = 0, True
    while stopped:
        reader = Reader(kind, "closure", range(12))
        reader.change(set(), {(0, 1), (1, 2), (2, 0), (3, 3), (4, 5)})
        reader.graph.crowded = crowded
        reads, last = reader.reads, last + (5 if kind == "symmetric" else 15)

        def stop(_more: int, reader: Reader = reader, end: int = reads + last) -> None:
            reader.read()
            if reader.reads == end:
                raise Enough

        reader.graph.pause = lambda stop=stop: stop(0)
        try:
            reader.change(*change, watch=stop)
        except Enough:
            assert reader.reads > reads + last
            former = reader.closure.former()
            assert former is not None
            assert former.view == reader.closure.view
            reader.read()
        else:
            stopped = False
        # The next change is read as well.
        reader.graph.pause = reader.read
        reader.change({(0, 1)}, {(1, 7)})
    assert last > (20 if kind == "symmetric" else 45)


@kinds
def test_it_cannot_be_told_after_a_failure_between_pauses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(kind, "closure", range(5))
    reader.change(set(), {(0, 1), (1, 2)})
    told: list[ReadableClosure | None] = []

    def fail(*_: Any) -> Any:
        reader.graph.pause = lambda: told.append(reader.closure.former())
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(closed_graph, "settle_diagonal", fail)
        patch.setattr(ClosedGraph, "reload", lambda graph, edges: (patch.undo(), graph.reload(edges)))
        with pytest.raises(MemoryError):
            reader.change({(0, 1)}, {(3, 4)})
    assert len(told) > 1
    assert not any(told)
    reader.graph.pause = reader.read
    reader.shown = Shown(reader.closed(reader.edges))
    reader.read()
    reader.change({(0, 1)}, {(3, 4)})


@pytest.mark.plain
@kinds
def test_undone_and_forgotten(kind: str) -> None:
    reader = Reader(kind, "closure", range(5))
    reader.change(set(), {(0, 1), (1, 2)})
    before = reader.closed(reader.edges)
    reader.change({(0, 1)}, {(3, 4)})
    told: list[ReadableClosure | None] = []
    reader.graph.pause = lambda: told.append(reader.closure.former())
    change = reader.closure.undo()
    assert told
    assert not any(told)
    reader.shown = Shown(before)
    reader.read()
    reader.edges, reader.graph.pause = {(0, 1), (1, 2)}, reader.read
    reader.change({(0, 1)}, {(3, 4)})
    reader.closure.forget()
    reader.shown = Shown(reader.closed(reader.edges))
    reader.read()
    assert change.added_count == len(before - reader.shown.pairs)


@kinds
def test_an_undo_that_fails_leaves_nothing_to_tell(kind: str) -> None:
    reader = Reader(kind, "closure", range(5))
    reader.change(set(), {(0, 1), (1, 2)})
    reader.change({(0, 1)}, {(3, 4)})

    def fail() -> None:
        reader.graph.pause = lambda: None
        raise Enough

    reader.graph.pause = fail
    with pytest.raises(Enough):
        reader.closure.undo()
    assert reader.closure.former() is None
    reader.closure.forget()
    reader.shown = Shown(reader.closed(reader.edges))
    reader.read()


def test_a_walk_does_not_go_on_after_a_pause() -> None:
    closure = Closure(SymmetricGraph())
    closure.apply(([], []), ([1, 2, 3], [2, 3, 4]))
    walks = []

    def look() -> None:
        former = closure.former()
        assert former is not None
        walks.append(former.pairs(1))
        next(walks[-1])

    closure._graph.pause = look
    closure.apply(([2], [3]), ([], []))
    with pytest.raises(RuntimeError, match="changed while"):
        next(walks[0])


SYMMETRY = "p(Y, X) :- p(X, Y)."


@pytest.mark.plain
@pytest.mark.parametrize("rules", ["", SYMMETRY])
def test_joins_read_it(rules: str) -> None:
    """Plans read a relation whose closure is the former one, by keys, from either end and as a whole."""
    kb = tidelog.KnowledgeBase(f"p(X, Z) :- p(X, Y), p(Y, Z). {rules}")
    kb.update(add={"p": [(1, 2), (2, 3), (3, 1), (4, 5)], "m": [(n,) for n in range(1, 8)]})
    node = kb._engine.closures.get("p")
    assert node is not None
    queries = [
        "p(2, X)",
        "p(X, 3)",
        "p(X, Y)",
        "m(X), m(Y), p(X, Y)",
        "m(X), not p(X, 3)",
        "m(X), not p(X, X)",
        "p(X, X)",
    ]

    def answers() -> list[list[Any]]:
        return [sorted(map(str, kb.query(query))) for query in queries]

    before = answers()
    edges = [(kb._engine.store.terms.encode(x), kb._engine.store.terms.encode(y)) for x, y in [(2, 3), (3, 4), (6, 7)]]
    node.closure.apply(columns(edges[:1]), columns(edges[1:]))
    former = node.closure.former()
    assert former is not None
    assert answers() != before
    relation = kb._engine.store.relation("p", 2)
    relation.become_closure(former)
    assert answers() == before
    node.closure.undo()
    relation.become_closure(node.closure)
    assert answers() == before


TWINS = "q(X, Y) :- p(Y, X). p(X, Y) :- q(Y, X)."
UPDATES: dict[str, dict[str, Any]] = {
    "edges come and go": {"delete": {"p": [(2, 3), (7, 8)]}, "add": {"p": [(3, 1), (5, 20), (20, 4)]}},
    "many edges": {"add": {"p": [(node, node + 1) for node in range(20, 60)]}},
    "other rules": {"add_rules": SYMMETRY},
}


@pytest.mark.parametrize("rules", ["", SYMMETRY, TWINS])
@pytest.mark.parametrize("update", UPDATES)
def test_within_updates(rules: str, update: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each predicate showed can be read at every look of an update, and after one that fails at any of them."""
    kb = tidelog.KnowledgeBase(f"p(X, Z) :- p(X, Y), p(Y, Z). {rules}")
    kb.update(add={"p": [(node, node + 1) for node in range(12)]})
    closures = kb._engine.closures

    def pairs(view: ReadableClosure | None) -> set[Pair] | None:
        return None if view is None else pair_set(*view.pairs())

    names = [name for name in ("p", "q") if closures.get(name) is not None]
    before = {name: pairs(closures.get(name).view(name)) for name in names}
    looks, last = 0, 0

    def look(_limits: Limits, _began: float, _busiest: Any = None) -> None:
        nonlocal looks
        looks += 1
        for name in names:
            assert pairs(closures.get(name).views_before()[name]) == before[name]
        if looks == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(Limits, "check_time", look)
    while looks == last:
        looks, last = 0, last + 5
        with suppress(KeyboardInterrupt):
            kb.update(**UPDATES[update])
        for name in names:
            node = closures.get(name)
            assert pairs(node.views_before()[name]) == pairs(node.view(name))
    # The rule that makes it symmetric may be there already.
    assert looks > (0 if update == "other rules" and rules == SYMMETRY else 1)
