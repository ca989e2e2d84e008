"""A graph of base edges together with the pairs that follow from them, in the memory that kernels work on.

This is the state of a closure, which `closure` takes through its changes. `SymmetricGraph` and `DirectedGraph` say
which pairs follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tidelog.closures import base_graph as graph
from tidelog.closures import closure_registers as C
from tidelog.closures.differences import CYCLIC, GIVEN, clear_log, list_changed, settle_diagonal
from tidelog.closures.edges import Edges, Ints, as_edges, located
from tidelog.closures.memory import Memory
from tidelog.closures.read_kernels import FORMER
from tidelog.machine.growth import Pause, no_pause
from tidelog.machine.jit import address

Diagonal = Literal["closure", "given"]

Watch = Callable[[int], None]
"""Called again and again during a change, with a lower bound on how many more pairs there are than before it. Raises to
have the change taken back."""

Emitter = Callable[[int, int, int, int, int], tuple[int, int]]
"""Writes pairs of terms, piece by piece. Gets where to go on, the place for the pairs (as `located` gives it) and how
many are there already; returns where to go on next, and how many are there then. Stops where fewer entries may be left
than there are nodes."""

SLICE = 1 << 18  # words and edges that a kernel looks at before it pauses: half a millisecond
PIECE = 1 << 20  # terms

NO_EDGES: Edges = (np.empty(0, np.int32), np.empty(0, np.int32))


def watch_nothing(_more: int) -> None:
    """Nobody watches."""


class ReadablePairs(Protocol):
    """Pairs that readers can ask for."""

    @property
    def directed(self) -> bool: ...

    @property
    def version(self) -> int: ...

    @property
    def view(self) -> int: ...

    def __len__(self) -> int: ...


class Former(NamedTuple):
    """Where the pairs are read that followed before the change, and how many there were."""

    view: int
    size: int
    memory: Memory | None = None
    """Where they lie, if it is not the memory of the graph."""


UNKNOWN = Former(0, 0)


class ClosedGraph(ABC):
    """Base edges between terms (32-bit numbers from 0 on), and what follows from them.

    `diagonal` says which pairs (x, x) follow: with "closure" those that the base edges imply, with "given" only those
    that are base edges themselves. `capacity` is the number of terms that there is room for at first.
    """

    directed: bool
    implied_diagonal: int  # the rule of `differences` for the pairs (x, x) that the base edges imply
    patience = 1.0  # how much more than a rebuild a change may cost before there is one

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64) -> None:
        self.diagonal: Diagonal = diagonal
        self.memory = Memory(self.directed, capacity)
        self.crowded = False  # most nodes have lost their last edge
        self.version = 0  # another one after every change
        self.pause: Pause = no_pause  # called between two kernels
        self.watch: Watch = watch_nothing
        self.former: Former | None = None  # None: the pairs are those that followed before
        self.resting = False  # a change pauses; the former pairs can be told then
        self.rests = 0  # how often a change has gone on after a pause
        self._initial_capacity = capacity
        self._pairs = 0  # of different nodes

    def empty_copy(self) -> Self:
        """A graph of the same kind, without edges."""
        return type(self)(self.diagonal)

    def __len__(self) -> int:
        """How many pairs follow."""
        return self._pairs + self.memory[C.REFLEXIVE]

    @property
    def view(self) -> int:
        """What `read_kernels` reads the pairs by."""
        return self.memory.at

    @property
    def is_empty(self) -> bool:
        """Whether there has been no edge yet."""
        return self.memory[C.NODES] == 0

    # --- changing -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a change: forget what the last one did."""
        clear_log(self.memory.at)
        self.former = Former(self.view + FORMER, len(self))
        self.memory.m[C.PAUSE_AT] = SLICE

    def apply(self, gone: Edges, come: Edges) -> tuple[int, int]:
        """Delete base edges, then add some. Returns how many pairs appeared and vanished."""
        known = self.memory[C.NODES]
        ends = self._numbers(np.concatenate([*gone, *come]))
        deletions, additions = len(gone[0]), len(come[0])
        deleted = ends[:deletions], ends[deletions : 2 * deletions]
        added = ends[2 * deletions : 2 * deletions + additions], ends[2 * deletions + additions :]
        self._update(deleted, added, known)
        self._settle_diagonal(ends)
        appeared, vanished = self._compare()
        self._pairs += appeared - vanished
        self.memory.retired.clear()
        if self.memory[C.FLIPPED]:
            appeared, vanished = appeared + len(self._flipped(True)), vanished + len(self._flipped(False))
        return appeared, vanished

    def reload(self, edges: Edges) -> None:
        """Start again from base edges, without the nodes that have none; there is no change to read afterwards.

        The former pairs, or those that there were if no change had begun, stay readable until it is done.
        """
        former = self.former or Former(self.view, len(self))
        left = self._clear()
        if former is not UNKNOWN and former.memory is None:
            former = Former(left.at + former.view - self.view, former.size, left)
        self.former = former
        del left
        self._pairs = 0
        self.crowded = False
        self.apply(NO_EDGES, as_edges(edges))
        clear_log(self.memory.at)
        self.former = None

    def _clear(self, nodes: int = 0) -> Memory:
        """Drop all nodes and edges; the registers stay in their place, and with them the view. Returns what was there,
        with registers elsewhere.
        """
        left, self.memory = self.memory, Memory(self.directed, max(nodes, self._initial_capacity))
        self.memory.trade_places(left)
        return left

    @abstractmethod
    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        """Change base edges, given as nodes, and what follows from them; nodes from `known` on are new."""

    @abstractmethod
    def _compare(self) -> tuple[int, int]:
        """How many pairs of different nodes appeared and vanished in the current change."""

    # --- what the last change did -------------------------------------------------------------------------------------

    def changed_pairs(self, appeared: bool, size: int, sources: Ints | None = None) -> Iterator[Edges]:
        """The pairs of terms that appeared, or that vanished, or only those from some sources; every piece but the last
        has at least `size`.
        """
        emit = self._emitter(appeared, sources)
        begin = 0
        reflexive = self.memory.arrays[C.TERMS][self._among(self._flipped(appeared), sources)]
        while True:
            filled = len(reflexive)
            room = max(size, filled) + self.memory[C.NODES]
            source, target = np.empty(room, np.int32), np.empty(room, np.int32)
            source[:filled] = target[:filled] = reflexive
            begin, filled = emit(begin, *located((source, target)), filled)
            if filled == 0:
                return
            yield source[:filled], target[:filled]
            reflexive = reflexive[:0]

    @abstractmethod
    def _emitter(self, appeared: bool, sources: Ints | None) -> Emitter:
        """What lists those of the pairs that have different nodes, or only those from some sources."""

    def _among(self, nodes: Ints, terms: Ints | None) -> Ints:
        """Those of the nodes that have one of some terms, or all."""
        return nodes if terms is None else nodes[self._are_of(nodes, terms)]

    def _are_of(self, nodes: Ints, terms: Ints) -> NDArray[np.bool_]:
        """Which of the nodes have one of some terms."""
        return np.isin(self.memory.arrays[C.TERMS][nodes], terms)

    def _changed_nodes(self) -> Ints:
        """The members of all components that may have changed."""
        nodes = np.empty(self.memory[C.NODES] if self.memory[C.TOUCHED] else 0, np.int32)
        return nodes[: list_changed(self.memory.at, address(nodes))]

    def _settle_diagonal(self, ends: Ints) -> None:
        rule = self.implied_diagonal if self.diagonal == "closure" else GIVEN
        checked = np.concatenate([ends, self._changed_nodes()]) if rule == CYCLIC else ends
        settle_diagonal(self.memory.at, address(checked), len(checked), rule)

    def _flipped(self, appeared: bool) -> Ints:
        """The nodes whose pair with themselves appeared, or vanished."""
        flipped = self.memory.entries(C.FLIPPED_LIST, C.FLIPPED)
        kept: Ints = flipped[self.memory.arrays[C.DIAGONAL][flipped] & C.HOLDS == appeared]
        return kept

    # --- nodes and edges ----------------------------------------------------------------------------------------------

    @property
    def edge_count(self) -> int:
        """How many base edges there are, except for loops."""
        return self.memory[C.EDGES]

    def base_edges(self) -> Edges:
        """The base edges, as terms."""
        memory = self.memory
        source, target = np.empty(memory[C.EDGES], np.int32), np.empty(memory[C.EDGES], np.int32)
        graph.read_edges(memory.at, address(source), address(target))
        loops = memory.entries(C.TERMS, C.NODES)[memory.entries(C.LOOPS, C.NODES) == 1]
        return np.concatenate([source, loops]), np.concatenate([target, loops])

    def _numbers(self, terms: Ints) -> Ints:
        """The nodes of terms; new terms get new nodes."""
        nodes = np.empty(len(terms), np.int32)
        for first in range(0, max(1, len(terms)), PIECE):
            if first:
                self._report_progress()
            piece = terms[first : first + PIECE]
            self._run(graph.intern, address(piece), address(nodes[first:]), len(piece))
        return nodes

    def _link(self, edges: Edges) -> None:
        """Add base edges, given as nodes; if they are many, by laying out all edges anew."""
        if len(edges[0]) <= self.memory[C.EDGES]:
            self._run(graph.link, *located(edges))
            return
        before = self.base_edges()
        source, target = (np.concatenate([self._numbers(old), new]) for old, new in zip(before, edges, strict=True))
        pools = [self.memory.replace_entries(pool, np.empty(len(source), np.int32)) for pool in (C.OUT, C.INTO)]
        graph.load(self.memory.at, *located((source, target)), *pools)

    def _unlink(self, edges: Edges) -> None:
        """Delete base edges, given as nodes."""
        by_source, by_target = (np.argsort(side, kind="stable") for side in edges)
        forth = (edges[0][by_source], edges[1][by_source])
        back = (edges[0][by_target], edges[1][by_target])
        graph.unlink(self.memory.at, *located(forth), *located(back))

    # --- kernels and their room ---------------------------------------------------------------------------------------

    def _run(self, kernel: Callable[..., int], *arguments: int) -> int:
        """Run a kernel, making room whenever it asks, until it is done or gives up. Returns how far it came."""
        begin = 0
        while True:
            self._rest(self.pause)
            begin = kernel(self.memory.at, *arguments, begin)
            status = self.memory[C.STATUS]
            if status in (C.DONE, C.TOO_MUCH):
                return begin
            self._report_progress()
            if status != C.PAUSED:
                self._make_room(C.Pool(status), self.memory[C.NEEDED])

    def _finishes(self, kernel: Callable[..., int], *arguments: int) -> bool:
        """Run a kernel; false if it gave up."""
        self._run(kernel, *arguments)
        return self.memory[C.STATUS] == C.DONE

    def _report_progress(self) -> None:
        """Tell the watcher, who may stop the change; otherwise let kernels go on for another slice."""
        self._rest(lambda: self.watch(max(0, self.memory[C.PAIRS])))
        self.memory.m[C.PAUSE_AT] = self.memory[C.WORK] + SLICE

    def _rest(self, meanwhile: Pause) -> None:
        """Pause between two kernels. If that raises, the former pairs can still be told."""
        self.resting = True
        meanwhile()
        self.resting = False
        self.rests += 1

    def _make_room(self, pool: C.Pool, needed: int) -> None:
        if pool == C.MEMBERS and self.memory[C.NODES] == self.memory[C.CAPACITY]:
            self._grow_nodes()
        else:
            self._enlarge(pool, needed)

    def _grow_nodes(self) -> None:
        memory, nodes = self.memory, self.memory[C.NODES]
        degrees = memory.sizes(C.OUT)[:nodes] + memory.sizes(C.INTO)[:nodes] + memory.entries(C.LOOPS, C.NODES)
        isolated = np.count_nonzero((degrees == 0) & (memory.entries(C.FORMER, C.NODES) != C.CREATED))
        # Nodes keep their numbers when they lose their last edge. Once they are many, the next change leaves them out.
        self.crowded = bool(2 * isolated > nodes)
        memory.grow(2 * memory[C.CAPACITY])
        graph.rehash(memory.at)

    def _enlarge(self, pool: C.Pool, needed: int) -> None:
        """Let a pool of lists take as much again, or what is needed if that is more."""
        live = int(self.memory.sizes(pool).sum())
        room = live + max(live, needed)
        entries = self.memory.replace_entries(pool, np.empty(room, np.int32))
        graph.compact(self.memory.at, pool, entries, room)
