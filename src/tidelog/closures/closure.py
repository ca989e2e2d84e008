"""A closure: a relation that nobody stores, taken from one state of its base edges to the next.

It answers whether it contains a pair, lists the neighbours of a term, counts its pairs exactly, and tells what a change
of its base edges did to it. A change is made as a whole or not at all. The pairs are the business of its graph
(`closed_graph`).

While a change is made, and after it, the closure can also be read as it was before, which costs the change nothing:

    former = closure.former()  # at a pause of the change, or after it
    if former is not None:
        former.contains([x], [y])
    closure.forget()  # nobody asks for what was before the change any more
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.closures import read_kernels as kernels
from tidelog.closures.closed_graph import UNKNOWN, ClosedGraph, ReadablePairs, Watch, watch_nothing
from tidelog.closures.edges import Edges, EdgesLike, Ints, as_edges, located, without_change
from tidelog.closures.history import ClosureChange, History, Moment, base_before, past_of
from tidelog.errors import TidelogError
from tidelog.machine.growth import Pause, no_pause
from tidelog.machine.jit import address
from tidelog.runtime.thread_locks import ThreadLock


class ReadableClosure:
    """What every reader can ask of a closure: the pairs of a graph, as they are or each the other way round."""

    def __init__(self, pairs: ReadablePairs, turned: bool = False) -> None:
        self._pairs = pairs
        self._turned = turned

    @property
    def view(self) -> int:
        """What `read_kernels` reads the closure by."""
        return self._pairs.view + (kernels.TURNED if self._turned else 0)

    @property
    def version(self) -> int:
        """A number that every change replaces."""
        return self._pairs.version

    def turned(self) -> ReadableClosure:
        """The same closure with each pair the other way round."""
        return ReadableClosure(self._pairs, not self._turned) if self._pairs.directed else self

    def __len__(self) -> int:
        return len(self._pairs)

    def contains(self, xs: ArrayLike, ys: ArrayLike) -> NDArray[np.bool_]:
        """For each pair of terms, whether it is in the closure."""
        edges = as_edges((xs, ys))
        answers = np.empty(len(edges[0]), np.bool_)
        kernels.read_contains(self.view, *located(edges), address(answers))
        return answers

    def pairs(self, size: int = 1 << 16) -> Iterator[Edges]:
        """All pairs, in pieces of at most `size`."""
        version, place = self.version, (0, 0)
        while place[0] >= 0:
            if version != self.version:
                raise RuntimeError("The closure changed while its pairs were read. Read them again.")
            edges, place = self.page(place, size)
            if len(edges[0]):
                yield edges

    def page(self, place: tuple[int, int], size: int) -> tuple[Edges, tuple[int, int]]:
        """At most `size` pairs from a place on, which is (0, 0) at first, and the place to go on from; its first number
        is negative where there are no more.
        """
        source, target = np.empty(size, np.int32), np.empty(size, np.int32)
        node, cursor, count = kernels.read_pairs(self.view, *place, *located((source, target)))
        return (source[:count], target[:count]), (node, cursor)


class FormerPairs:
    """The pairs that a graph had before the change in work, or the last one. What is read in several steps must be read
    within one pause.
    """

    def __init__(self, graph: ClosedGraph) -> None:
        self._graph = graph
        self.directed = graph.directed

    @property
    def version(self) -> int:
        return self._graph.version + self._graph.rests

    @property
    def view(self) -> int:
        former = self._graph.former
        return self._graph.view if former is None else former.view

    def __len__(self) -> int:
        former = self._graph.former
        return len(self._graph) if former is None else former.size


class Closure(ReadableClosure):
    """The pairs of a graph under change."""

    def __init__(self, graph: ClosedGraph) -> None:
        super().__init__(graph)
        self._graph = graph
        self._history = History(self.version)
        self._can_undo = False
        self._undoing = False
        # Held by whoever changes the closure, and by whoever reads what an earlier change did.
        self._lock = ThreadLock()
        self._changing = False

    # --- changing -----------------------------------------------------------------------------------------------------

    def apply(self, deleted: EdgesLike, added: EdgesLike, watch: Watch = watch_nothing) -> ClosureChange:
        """Delete base edges, then add some; each comes as an array of sources and an array of targets.

        Every edge to delete must be a base edge, and no edge to add may be one after the deletions. If anything is
        raised, also by `watch`, the closure is as before.
        """
        gone, come = as_edges(deleted), as_edges(added)
        if min((int(side.min()) for side in (*gone, *come) if len(side)), default=0) < 0:
            raise ValueError("Terms are numbered from 0 on; an edge has a negative one.")
        with self._lock.mutex:
            self.forget()
            change = self._changed(gone, come, watch)
            self._can_undo = True
            return change

    def _changed(self, gone: Edges, come: Edges, watch: Watch) -> ClosureChange:
        self._changing, self._graph.watch = True, watch
        appeared, vanished = self._applied(gone, come)
        self._changing, self._graph.watch = False, watch_nothing
        return ClosureChange(self, self._history.now, appeared, vanished)

    def _applied(self, gone: Edges, come: Edges) -> tuple[int, int]:
        """Apply a change, or leave all as it was. Returns how many pairs appeared and vanished."""
        graph = self._graph
        # A reload replaces the edges themselves, so they are kept; otherwise the change is taken back from them.
        before = graph.base_edges() if graph.crowded or graph.is_empty else None
        try:
            if graph.crowded:
                self._reload(graph.base_edges())
            graph.version += 1
            graph.begin()
            counts = graph.apply(gone, come)
            self._history.advance(graph.version, gone, come, graph)
        except BaseException:
            if not graph.resting:
                # It is unknown how far Python came between two kernels.
                graph.former = UNKNOWN
            if before is None:
                before = without_change(graph.base_edges(), gone, come)
            graph.watch = watch_nothing
            # What earlier changes did can still be told if there is not enough memory to build the closure again.
            self._history.now.edges = before
            self._changing = False
            self._reload(before)
            raise
        return counts

    def _reload(self, edges: Edges) -> None:
        """Build the closure anew from base edges."""
        self._graph.version += 1
        self._graph.reload(edges)

    def undo(self) -> ClosureChange:
        """Take the last change back; the closure then holds the same pairs as before it."""
        last = self._history.now.made_by
        if last is None or not self._can_undo:
            raise RuntimeError("There is no change to take back, or the last one has been taken back already.")
        gone, come = last
        with self._lock.mutex:
            self._undoing = True
            change = self._changed(come, gone, watch_nothing)
            self._can_undo = False
            self.forget()
            return change

    def changed_pairs(self, appeared: bool, size: int, sources: Ints | None = None) -> Iterator[Edges]:
        """The pairs of terms that the last change brought, or took, or only those from some sources; every piece but
        the last has at least `size`.
        """
        return self._graph.changed_pairs(appeared, size, sources)

    # --- before the change --------------------------------------------------------------------------------------------

    def former(self) -> ReadableClosure | None:
        """The closure as it was before the last change, until `forget`; where nothing has changed, it is the same.

        To be read after the change, or at its pauses, when `graph.pause` or the watch is called; never while a kernel
        runs. Ask anew at each pause, since the view may be another one. None where it cannot be told: while the change
        is taken back, be it by `undo` or after a failure of the system; then the closure is again what it was.
        """
        return None if self._undoing or self._graph.former is UNKNOWN else ReadableClosure(FormerPairs(self._graph))

    def forget(self) -> None:
        """Let the closure as it is be what it was; what the last change did can still be read."""
        self._graph.former = None
        self._undoing = False

    def base_edges(self) -> Edges:
        """The base edges, as terms."""
        return self._graph.base_edges()

    def over(self, edges: Edges) -> Closure:
        """A closure of the same kind, over other base edges."""
        copy = Closure(self._graph.empty_copy())
        copy._reload(edges)
        return copy

    # --- the past -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Moment:
        """The state after the last change, to be asked for later."""
        return self._history.now

    @contextmanager
    def at(self, moment: Moment, look: Pause = no_pause) -> Iterator[Closure]:
        """The closure as it was at a moment, with the change that led there as its last: the closure itself, which
        nobody changes meanwhile, or a copy of what it was. `look` may raise while the copy is made.
        """
        with self._lock.mutex:
            if self._changing:
                raise TidelogError("this cannot be read within the update that is in work; read it afterwards")
            if moment.version == self.version:
                yield self
                return
            past = past_of(moment, self._graph)
        graph = self._graph.empty_copy()
        graph.watch = lambda _more: look()
        copy = Closure(graph)
        copy._reload(base_before(*past))
        if moment.made_by is not None:
            copy.apply(*moment.made_by, graph.watch)
        yield copy
