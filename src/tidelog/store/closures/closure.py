"""What the two closures have in common: a set of base edges under change, and the pairs that follow from them.

A closure is a relation that nobody stores: it answers whether it contains a pair, walks through the neighbours of a term,
counts its pairs exactly, and tells what a change of its base edges did to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.errors import LimitError
from tidelog.store.closures import graph, kernels
from tidelog.store.closures.change import ClosureChange, Edges
from tidelog.store.closures.differences import forget_changes, settle_diagonal
from tidelog.store.closures.search import trace
from tidelog.store.closures.state import (
    BOUNDS,
    DIAGONAL,
    DONE,
    EDGES,
    FLIPPED,
    FULL_INTO,
    FULL_MEMBERS,
    FULL_OUT,
    LOW,
    NEEDED,
    NODES,
    NUMBER,
    SIZE,
    START,
    STATUS,
    TOO_MUCH,
    Blocks,
    Ints,
    Rows,
    empty_state,
    size_in_bytes,
    with_capacity,
)
from tidelog.store.jit import address

Diagonal = Literal["closure", "given"]

POOL_LIMIT = 2**31 - 1


class Closure(ABC):
    """A closure over terms (32-bit numbers from 0 on).

    `diagonal` says which pairs (x, x) it holds: with "closure" those that follow from the base edges, with "given" only
    those that are base edges themselves.
    """

    directed: bool

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64) -> None:
        self.diagonal: Diagonal = diagonal
        self.version = 0
        self._capacity = capacity
        self._state = empty_state(self.directed, capacity)
        self._pairs = 0  # of different nodes
        self._last: tuple[Edges, Edges] | None = None
        self._crowded = False
        self._view = np.zeros(kernels.V_FIELDS, np.int64)
        self._refresh_view()

    # --- changing ------------------------------------------------------------------------------------------

    def apply(self, deleted: tuple[ArrayLike, ArrayLike], added: tuple[ArrayLike, ArrayLike]) -> ClosureChange:
        """Delete base edges, then add some; each comes as an array of sources and an array of targets.

        Every edge to delete is a base edge, and every edge to add is none after the deletions. Whatever is raised, the
        closure is as before.
        """
        gone, come = _edges(deleted), _edges(added)
        if self._crowded:
            self._reload(self.base_edges())
        self.version += 1
        forget_changes(self._state)
        try:
            change = self._apply(gone, come)
        except BaseException:
            self._reload(_difference(_union(self.base_edges(), gone), _difference(come, gone)))
            raise
        self._last = (gone, come)
        return change

    def undo(self) -> ClosureChange:
        """Take the last change back; the closure then holds the same pairs as before it."""
        if self._last is None:
            raise RuntimeError("There is no change to take back: the last one has been taken back already, or there was none.")
        gone, come = self._last
        change = self.apply(come, gone)
        self._last = None
        return change

    def _apply(self, gone: Edges, come: Edges) -> ClosureChange:
        known = int(self._state.scalars[NODES])
        deleted = (self._numbers(gone[0]), self._numbers(gone[1]))
        added = (self._numbers(come[0]), self._numbers(come[1]))
        self._update(deleted, added, known)
        for source, target in (deleted, added):
            settle_diagonal(self._state, source, target, self._diagonal_rule())
        appeared, vanished = self._compare()
        self._pairs += appeared - vanished
        self._refresh_view()
        flipped = self._flipped(True), self._flipped(False)
        return ClosureChange(self, appeared + len(flipped[0]), vanished + len(flipped[1]))

    @abstractmethod
    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        """Change base edges, given as nodes, and what follows from them; nodes from `known` on are new."""

    @abstractmethod
    def _compare(self) -> tuple[int, int]:
        """How many pairs of different nodes appeared and vanished in the current change."""

    @abstractmethod
    def _emit(self, appeared: bool, size: int) -> Iterator[Edges]:
        """Those pairs, as nodes."""

    @abstractmethod
    def _diagonal_rule(self) -> int:
        """Which rule of `differences` decides on the diagonal."""

    def _flipped(self, appeared: bool) -> Ints:
        """The nodes whose pair with themselves appeared, or vanished."""
        flipped = self._state.flipped[: self._state.scalars[FLIPPED]]
        kept: Ints = flipped[self._state.diagonal[flipped] == appeared]
        return kept

    def changed_pairs(self, appeared: bool, size: int) -> Iterator[Edges]:
        """The pairs of terms that the last change brought, or took."""
        terms = self._state.terms
        flipped = terms[self._flipped(appeared)]
        if len(flipped):
            yield flipped, flipped
        for source, target in self._emit(appeared, size):
            yield terms[source], terms[target]

    # --- reading -------------------------------------------------------------------------------------------

    @property
    def view(self) -> int:
        """The address of the table that `kernels` reads; it stays the same for the life of the closure."""
        return address(self._view)

    def __len__(self) -> int:
        return int(self._pairs + self._state.scalars[DIAGONAL])

    def contains(self, xs: ArrayLike, ys: ArrayLike) -> NDArray[np.bool_]:
        """For each pair of terms, whether it is in the closure."""
        source, target = _edges((xs, ys))
        answers = np.empty(len(source), np.uint8)
        kernels.read_contains(self.view, source, target, answers)
        return answers.view(np.bool_)

    def successors(self, term: int) -> Ints:
        """All y with a pair (term, y)."""
        return self._neighbours(term, 0)

    def predecessors(self, term: int) -> Ints:
        """All x with a pair (x, term)."""
        return self._neighbours(term, 1)

    def _neighbours(self, term: int, backward: int) -> Ints:
        found = np.empty(kernels.read_degree(self.view, int(term), backward), np.int32)
        kernels.read_neighbours(self.view, int(term), backward, found)
        return found

    def pairs(self, size: int = 1 << 16) -> Iterator[Edges]:
        """All pairs, in pieces of at most `size`."""
        version, node, cursor = self.version, 0, 0
        while node >= 0:
            if version != self.version:
                raise RuntimeError("The closure changed while its pairs were read. Read them again.")
            source, target = np.empty(size, np.int32), np.empty(size, np.int32)
            node, cursor, count = kernels.read_pairs(self.view, node, cursor, source, target)
            if count:
                yield source[:count], target[:count]

    def path(self, x: int, y: int) -> list[tuple[int, int]]:
        """A shortest chain of base edges from x to y, each as it is in the base; empty when the pair is not in the closure."""
        if not self.contains([x], [y])[0]:
            return []
        state = self._state
        first, last = (int(node) for node in self._numbers(np.array([x, y], np.int32)))
        if first == last and state.loops[first]:
            return [(x, y)]
        node = trace(state, first, last, not self.directed)
        chain = [self._base_edge(node, last, state.lists[BOUNDS][0])]
        while node != first:
            previous = int(state.lists[NUMBER][node])
            chain.append(self._base_edge(previous, node, state.lists[LOW][node]))
            node = previous
        return chain[::-1]

    def _base_edge(self, node: int, following: int, against: int) -> tuple[int, int]:
        terms = self._state.terms
        edge = int(terms[node]), int(terms[following])
        return edge[::-1] if against else edge

    def base_edges(self) -> Edges:
        """The base edges, as terms."""
        source, target = self._linked()
        loops = np.flatnonzero(self._state.loops[: self._state.scalars[NODES]])
        terms = self._state.terms
        return terms[np.concatenate([source, loops])], terms[np.concatenate([target, loops])]

    @property
    def nbytes(self) -> int:
        """The memory that the closure takes."""
        return size_in_bytes(self._state)

    # --- saving --------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Ints]:
        """All that has to be kept: the base edges. What follows from them is found again faster than it could be read."""
        source, target = self.base_edges()
        return {"source": source, "target": target}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Ints], diagonal: Diagonal = "closure", **options: Any) -> Self:
        """The closure that `to_arrays` was asked of."""
        closure = cls(diagonal, **options)
        closure._reload((arrays["source"], arrays["target"]))
        return closure

    def _reload(self, edges: Edges) -> None:
        """Begin again from base edges, without the nodes that have none; there is no change to read afterwards."""
        self._state = empty_state(self.directed, self._capacity)
        self._pairs = 0
        self._crowded = False
        self.version += 1
        self._apply(_edges(((), ())), _edges(edges))

    # --- nodes, edges, room --------------------------------------------------------------------------------

    def _numbers(self, terms: Ints) -> Ints:
        nodes = np.empty(len(terms), np.int32)
        self._run(graph.intern, terms, nodes)
        return nodes

    def _linked(self) -> Edges:
        """The base edges that are no loops, as nodes."""
        table = self._state.out.table[: self._state.scalars[NODES]].astype(np.int64)
        sizes = table[:, SIZE]
        source = np.repeat(np.arange(len(table), dtype=np.int32), sizes)
        shift = np.repeat(table[:, START] - (np.cumsum(sizes) - sizes), sizes)
        return source, self._state.out.pool[np.arange(len(source)) + shift]

    def _link(self, source: Ints, target: Ints) -> None:
        """Add base edges; many at once by laying all out anew."""
        state = self._state
        if len(source) <= state.scalars[EDGES]:
            self._run(graph.link, source, target)
            return
        loops = np.flatnonzero(state.loops[: state.scalars[NODES]]).astype(np.int32)
        sources, targets = self._linked()
        source, target = np.concatenate([sources, loops, source]), np.concatenate([targets, loops, target])
        self._check_limit(len(source))
        self._state = state._replace(
            out=state.out._replace(pool=np.empty(len(source), np.int32)),
            into=state.into._replace(pool=np.empty(len(source), np.int32)),
        )
        graph.load(self._state, source, target)

    def _unlink(self, source: Ints, target: Ints) -> None:
        by_source, by_target = np.argsort(source, kind="stable"), np.argsort(target, kind="stable")
        graph.unlink(self._state, source[by_source], target[by_source], target[by_target], source[by_target])

    def _run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Run a kernel to its end, making room whenever it asks. Returns where it gave up as too much, or where it ended."""
        begin = 0
        while True:
            begin = kernel(self._state, *arguments, begin)
            status = int(self._state.scalars[STATUS])
            if status in (DONE, TOO_MUCH):
                return begin
            self._make_room(status, int(self._state.scalars[NEEDED]))

    def _finishes(self, kernel: Callable[..., int], *arguments: Any) -> bool:
        """Run a kernel to its end; false when it gave up as too much."""
        self._run(kernel, *arguments)
        return bool(self._state.scalars[STATUS] == DONE)

    def _make_room(self, status: int, needed: int) -> None:
        state = self._state
        nodes = int(state.scalars[NODES])
        if status == FULL_OUT:
            self._state = state._replace(out=self._enlarged(state.out, nodes, needed))
        elif status == FULL_INTO:
            self._state = state._replace(into=self._enlarged(state.into, nodes, needed))
        elif status == FULL_MEMBERS and nodes == len(state.terms):
            self._grow_nodes()
        else:
            self._state = state._replace(members=self._enlarged(state.members, len(state.terms), needed))

    def _grow_nodes(self) -> None:
        state = self._state
        nodes = int(state.scalars[NODES])
        degrees = state.out.table[:nodes, SIZE] + state.into.table[:nodes, SIZE] + state.loops[:nodes]
        # Nodes that lost their last edge keep their numbers; when they are the majority, the next change begins by leaving them out.
        self._crowded = bool(np.count_nonzero(degrees) * 2 < nodes) and self._state.scalars[EDGES] > 0
        capacity = 2 * len(state.terms)
        self._check_limit(capacity)
        self._state = with_capacity(state, capacity)
        graph.rehash(self._state.slots, self._state.terms, nodes)

    def _enlarged(self, blocks: Blocks, lists: int, needed: int) -> Blocks:
        """The same lists without gaps in a pool with room for as much again, or for what is needed."""
        live = int(blocks.table[:lists, SIZE].sum(dtype=np.int64))
        size = live + max(live, needed)
        self._check_limit(size)
        pool = np.empty(size, np.int32)
        used = graph.compact(blocks, lists, pool)
        return Blocks(blocks.table, pool, np.array([used], np.int64))

    @staticmethod
    def _check_limit(size: int) -> None:
        if size > POOL_LIMIT:
            raise LimitError(
                f"A closure would need lists of {size:,} entries, more than {POOL_LIMIT:,}. "
                "Split the relation, or turn the closure modules off."
            )

    def _refresh_view(self) -> None:
        state, view = self._state, self._view
        view[kernels.V_DIRECTED] = self.directed
        view[kernels.V_NODES] = state.scalars[NODES]
        view[kernels.V_SLOTS] = address(state.slots)
        view[kernels.V_MASK] = len(state.slots) - 1
        view[kernels.V_TERMS] = address(state.terms)
        view[kernels.V_DIAGONAL] = address(state.diagonal)
        view[kernels.V_COMPONENT] = address(state.component)
        view[kernels.V_MEMBERS] = address(state.members.table)
        view[kernels.V_MEMBERS_POOL] = address(state.members.pool)
        for rows, first in ((state.forward, kernels.V_SETS), (state.backward, kernels.V_SETS + kernels.SET_FIELDS)):
            view[first : first + kernels.SET_FIELDS] = _set_fields(rows)


def _set_fields(rows: Rows) -> list[int]:
    return [address(rows.table), address(rows.keys), address(rows.words), address(rows.counts), int(rows.meta[1])]


def _edges(edges: tuple[ArrayLike, ArrayLike]) -> Edges:
    """Two arrays of equal length in the form that kernels take."""
    source, target = (np.array(side, np.int32, order="C").reshape(-1) for side in edges)
    if len(source) != len(target):
        raise ValueError(f"An edge has a source and a target, but there are {len(source)} sources and {len(target)} targets.")
    return source, target


def _packed(edges: Edges) -> NDArray[np.int64]:
    return edges[0].astype(np.int64) << 32 | edges[1]


def _unpacked(packed: NDArray[np.int64]) -> Edges:
    return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)


def _union(edges: Edges, others: Edges) -> Edges:
    return _unpacked(np.union1d(_packed(edges), _packed(others)))


def _difference(edges: Edges, others: Edges) -> Edges:
    return _unpacked(np.setdiff1d(_packed(edges), _packed(others)))
