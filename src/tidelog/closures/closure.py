"""What the two closures have in common: a set of base edges under change, and the pairs that follow from them.

A closure is a relation that nobody stores: it answers whether it contains a pair, walks through the neighbours of a
term, counts its pairs exactly, and tells what a change of its base edges did to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from tidelog.closures import base_graph as graph
from tidelog.closures import closure_registers as C
from tidelog.closures.closure_change import ClosureChange, Edges
from tidelog.closures.differences import forget_changes, settle_diagonal
from tidelog.closures.graph_search import trace
from tidelog.closures.history import History, Moment, Past, packed, unpacked
from tidelog.closures.memory import Ints, Memory
from tidelog.closures.readable import ReadableClosure, as_edges, located
from tidelog.errors import TidelogError
from tidelog.machine.growth import Pause, no_pause
from tidelog.machine.jit import address
from tidelog.runtime.thread_locks import ThreadLock

Diagonal = Literal["closure", "given"]

Watch = Callable[[int], None]
"""Told by how many pairs there are more at least than before a change, again and again while it is in work; raises to
have it taken back."""

SLICE = 1 << 25  # words and edges between two looks around: some tens of milliseconds
PIECE = 1 << 20  # terms


def watch_nothing(_more: int) -> None:
    """Nobody minds."""


class Closure(ReadableClosure):
    """A closure over terms (32-bit numbers from 0 on).

    `diagonal` says which pairs (x, x) it holds: with "closure" those that follow from the base edges, with "given" only
    those that are base edges themselves. `capacity` is the number of terms that it has room for at first.
    """

    directed: bool
    patience = 1.0  # how much more than starting afresh a change may cost before that is done

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64) -> None:
        self.diagonal: Diagonal = diagonal
        self._version = 0
        self._initial_capacity = capacity
        self._memory = Memory(self.directed, capacity)
        self._pairs = 0  # of different nodes
        self._history = History(self._version)
        self._can_undo = False
        self._crowded = False
        self.breathe: Pause = no_pause  # between two kernels
        # Whoever changes the closure has it, and whoever reads what an earlier change did.
        self._lock = ThreadLock()
        self._changing = False
        self._watch: Watch = watch_nothing

    # --- changing ---------------------------------------------------------------------------------------------

    def apply(
        self,
        deleted: tuple[ArrayLike, ArrayLike],
        added: tuple[ArrayLike, ArrayLike],
        watch: Watch = watch_nothing,
    ) -> ClosureChange:
        """Delete base edges, then add some; each comes as an array of sources and an array of targets.

        Every edge to delete is a base edge, and every edge to add is none after the deletions. Whatever is raised, be
        it by `watch`, the closure is as before.
        """
        gone, come = as_edges(deleted), as_edges(added)
        if min((int(side.min()) for side in (*gone, *come) if len(side)), default=0) < 0:
            raise ValueError("Terms are numbered from 0 on; an edge has a negative one.")
        with self._lock.mutex:
            self._changing, self._watch = True, watch
            appeared, vanished = self._applied(gone, come)
            self._can_undo = True
            self._changing, self._watch = False, watch_nothing
            return ClosureChange(self, self._history.now, appeared, vanished)

    def _applied(self, gone: Edges, come: Edges) -> tuple[int, int]:
        """Apply a change, or leave all as it was; how many pairs appeared and vanished."""
        # Beginning again replaces the edges themselves, so they are kept; otherwise the change is taken back from them.
        anew = self._crowded or self._memory[C.NODES] == 0
        before = self.base_edges() if anew else None
        try:
            if self._crowded:
                self._reload(self.base_edges())
            self._version += 1
            forget_changes(self._memory.m)
            self._memory.m[C.PAUSE_AT] = SLICE
            counts = self._apply(gone, come)
            self._history.advance(self._version, gone, come, self)
        except BaseException:
            if before is None:
                before = _difference(_union(self.base_edges(), gone), _difference(come, gone))
            self._watch = watch_nothing
            # What earlier changes did can be told, even if memory is too short to build the closure again.
            self._history.keep(before)
            self._changing = False
            self._reload(before)
            raise
        return counts

    def undo(self) -> ClosureChange:
        """Take the last change back; the closure then holds the same pairs as before it."""
        last = self._history.now.made_by
        if last is None or not self._can_undo:
            raise RuntimeError("There is no change to take back, or the last one has been taken back already.")
        gone, come = last
        change = self.apply(come, gone)
        self._can_undo = False
        return change

    def _apply(self, gone: Edges, come: Edges) -> tuple[int, int]:
        known = self._memory[C.NODES]
        ends = self._numbers(np.concatenate([*gone, *come]))
        deletions, additions = len(gone[0]), len(come[0])
        deleted = ends[:deletions], ends[deletions : 2 * deletions]
        added = ends[2 * deletions : 2 * deletions + additions], ends[2 * deletions + additions :]
        self._update(deleted, added, known)
        settle_diagonal(self._memory.m, address(ends), len(ends), self._diagonal_rule())
        appeared, vanished = self._compare()
        self._pairs += appeared - vanished
        self._memory.retired.clear()
        if self._memory[C.FLIPPED]:
            appeared, vanished = appeared + len(self._flipped(True)), vanished + len(self._flipped(False))
        return appeared, vanished

    @abstractmethod
    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        """Change base edges, given as nodes, and what follows from them; nodes from `known` on are new."""

    @abstractmethod
    def _compare(self) -> tuple[int, int]:
        """How many pairs of different nodes appeared and vanished in the current change."""

    @abstractmethod
    def _emitter(self, appeared: bool) -> Callable[[Edges, int], int]:
        """A function that writes those pairs, as terms, piece by piece.

        It gets arrays and the number of entries that are filled already, and returns how many are then. It stops when
        there are not as many left as there are nodes.
        """

    @abstractmethod
    def _diagonal_rule(self) -> int:
        """Which rule of `differences` decides on the diagonal."""

    def _flipped(self, appeared: bool) -> Ints:
        """The nodes whose pair with themselves appeared, or vanished."""
        flipped = self._memory.entries(C.FLIPPED_LIST, C.FLIPPED)
        kept: Ints = flipped[self._memory.arrays[C.DIAGONAL][flipped] == appeared]
        return kept

    def changed_pairs(self, appeared: bool, size: int) -> Iterator[Edges]:
        """The pairs of terms that the last change brought, or took; all pieces but the last have at least `size`."""
        emit = self._emitter(appeared)
        reflexive = self._memory.arrays[C.TERMS][self._flipped(appeared)]
        while True:
            filled = len(reflexive)
            room = max(size, filled) + self._memory[C.NODES]
            source, target = np.empty(room, np.int32), np.empty(room, np.int32)
            source[:filled] = target[:filled] = reflexive
            filled = emit((source, target), filled)
            if filled == 0:
                return
            yield source[:filled], target[:filled]
            reflexive = reflexive[:0]

    # --- the past ---------------------------------------------------------------------------------------------

    @property
    def now(self) -> Moment:
        """The state after the last change, to be asked for later on."""
        return self._history.now

    @contextmanager
    def at(self, moment: Moment, look: Pause = no_pause) -> Iterator[Self]:
        """The closure as it was at a moment, the change that led there being its last: itself, which nobody changes
        meanwhile, or a copy of what it was. While the copy is made, `look` may raise.
        """
        with self._lock.mutex:
            if self._changing:
                raise TidelogError("this cannot be read within the update that is in work; read it afterwards")
            if moment.version == self._version:
                yield self
                return
            past = Past.of(moment, self)
        copy = self._empty_copy()
        copy._watch = lambda _more: look()
        copy._reload(past.base())
        if moment.made_by is not None:
            copy.apply(*moment.made_by, copy._watch)
        yield copy

    def _empty_copy(self) -> Self:
        """A closure of the same kind, without edges."""
        return type(self)(self.diagonal)

    # --- reading ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> int:
        return address(self._memory.m)

    @property
    def version(self) -> int:
        return self._version

    def __len__(self) -> int:
        return self._pairs + self._memory[C.REFLEXIVE]

    def turned(self) -> ReadableClosure:
        """The same closure with each pair the other way round."""
        return _TurnedClosure(self) if self.directed else self

    def path(self, x: int, y: int) -> list[tuple[int, int]]:
        """A shortest chain of base edges from x to y, each as it is in the base; empty when the pair does not hold."""
        if not self.contains([x], [y])[0]:
            return []
        arrays = self._memory.arrays
        first, last = (int(node) for node in self._numbers(np.array([x, y], np.int32)))
        if first == last and arrays[C.LOOPS][first]:
            return [(x, y)]
        node = trace(self._memory.m, first, last, not self.directed)
        chain = [self._base_edge(node, last, arrays[C.BOUNDS][0])]
        while node != first:
            previous = int(arrays[C.NUMBER][node])
            chain.append(self._base_edge(previous, node, arrays[C.LOW][node]))
            node = previous
        return chain[::-1]

    def _base_edge(self, node: int, following: int, against: int) -> tuple[int, int]:
        terms = self._memory.arrays[C.TERMS]
        edge = int(terms[node]), int(terms[following])
        return edge[::-1] if against else edge

    @property
    def edge_count(self) -> int:
        """How many base edges there are, loops aside."""
        return self._memory[C.EDGES]

    def base_edges(self) -> Edges:
        """The base edges, as terms."""
        source, target = np.empty(self._memory[C.EDGES], np.int32), np.empty(self._memory[C.EDGES], np.int32)
        graph.read_edges(self._memory.m, address(source), address(target))
        loops = self._memory.entries(C.TERMS, C.NODES)[self._memory.entries(C.LOOPS, C.NODES) == 1]
        return np.concatenate([source, loops]), np.concatenate([target, loops])

    @property
    def nbytes(self) -> int:
        """The memory that the closure takes."""
        return self._memory.nbytes

    # --- saving -----------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Ints]:
        """All that has to be kept: the base edges. What follows from them is found faster than it could be read."""
        source, target = self.base_edges()
        return {"source": source, "target": target}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Ints], diagonal: Diagonal = "closure", **options: Any) -> Self:
        """The closure that `to_arrays` was asked of."""
        closure = cls(diagonal, **options)
        closure._reload((arrays["source"], arrays["target"]))
        closure._history = History(closure._version)
        return closure

    def _reload(self, edges: Edges) -> None:
        """Begin again from base edges, without the nodes that have none; there is no change to read afterwards."""
        self._clear()
        self._pairs = 0
        self._crowded = False
        self._version += 1
        self._apply(as_edges(((), ())), as_edges(edges))
        forget_changes(self._memory.m)

    def _clear(self, nodes: int = 0) -> None:
        """Forget all nodes and edges; the registers stay in their place, and with them the view."""
        registers = self._memory.m
        self._memory = Memory(self.directed, max(nodes, self._initial_capacity))
        registers[:] = self._memory.m
        self._memory.m = registers

    # --- nodes, edges, room -----------------------------------------------------------------------------------

    def _numbers(self, terms: Ints) -> Ints:
        nodes = np.empty(len(terms), np.int32)
        self._run(graph.intern, address(terms), address(nodes), min(len(terms), PIECE))
        for first in range(PIECE, len(terms), PIECE):
            self._look_around()
            piece = terms[first : first + PIECE]
            self._run(graph.intern, address(piece), address(nodes[first:]), len(piece))
        return nodes

    def _link(self, edges: Edges) -> None:
        """Add base edges, given as nodes; many at once by laying all out anew."""
        if len(edges[0]) <= self._memory[C.EDGES]:
            self._run(graph.link, *located(edges))
            return
        before = self.base_edges()
        source, target = (np.concatenate([self._numbers(old), new]) for old, new in zip(before, edges, strict=True))
        pools = [self._memory.replace_entries(pool, np.empty(len(source), np.int32)) for pool in (C.OUT, C.INTO)]
        graph.load(self._memory.m, *located((source, target)), *pools)

    def _unlink(self, edges: Edges) -> None:
        by_source, by_target = (np.argsort(side, kind="stable") for side in edges)
        forth = (edges[0][by_source], edges[1][by_source])
        back = (edges[0][by_target], edges[1][by_target])
        graph.unlink(self._memory.m, *located(forth), *located(back))

    def _run(self, kernel: Callable[..., int], *arguments: int) -> int:
        """Run a kernel, making room whenever it asks, until it is done or gives up. Returns how far it came."""
        begin = 0
        while True:
            self.breathe()
            begin = kernel(self._memory.m, *arguments, begin)
            status = self._memory[C.STATUS]
            if status in (C.DONE, C.TOO_MUCH):
                return begin
            self._look_around()
            if status != C.PAUSED:
                self._make_room(status, self._memory[C.NEEDED])

    def _look_around(self) -> None:
        """Let whoever watches say that this is enough; otherwise kernels may work for another while."""
        self._watch(max(0, self._memory[C.PAIRS]))
        self._memory.m[C.PAUSE_AT] = self._memory[C.WORK] + SLICE

    def _finishes(self, kernel: Callable[..., int], *arguments: int) -> bool:
        """Run a kernel; false when it gave up."""
        self._run(kernel, *arguments)
        return self._memory[C.STATUS] == C.DONE

    def _make_room(self, pool: int, needed: int) -> None:
        if pool == C.MEMBERS and self._memory[C.NODES] == self._memory[C.CAPACITY]:
            self._grow_nodes()
        else:
            self._enlarge(pool, needed)

    def _grow_nodes(self) -> None:
        memory, nodes = self._memory, self._memory[C.NODES]
        degrees = memory.sizes(C.OUT)[:nodes] + memory.sizes(C.INTO)[:nodes] + memory.entries(C.LOOPS, C.NODES)
        lonely = np.count_nonzero((degrees == 0) & (memory.entries(C.FORMER, C.NODES) != C.CREATED))
        # Nodes that lost their last edge keep their numbers; once they are many, the next change leaves them out.
        self._crowded = bool(2 * lonely > nodes)
        memory.grow(2 * memory[C.CAPACITY])
        graph.rehash(memory.m)

    def _enlarge(self, pool: int, needed: int) -> None:
        """Let a pool of lists take as much again, or what is needed."""
        live = int(self._memory.sizes(pool).sum())
        room = live + max(live, needed)
        entries = self._memory.replace_entries(pool, np.empty(room, np.int32))
        graph.compact(self._memory.m, pool, entries, room)


class _TurnedClosure(ReadableClosure):
    """A directed closure, read the other way round."""

    def __init__(self, closure: Closure) -> None:
        self._closure = closure

    @property
    def view(self) -> int:
        return self._closure.view + 1

    @property
    def version(self) -> int:
        return self._closure.version

    def __len__(self) -> int:
        return len(self._closure)


def _union(edges: Edges, others: Edges) -> Edges:
    return unpacked(np.union1d(packed(edges), packed(others)))


def _difference(edges: Edges, others: Edges) -> Edges:
    return unpacked(np.setdiff1d(packed(edges), packed(others)))
