"""A closure: a relation that nobody stores, taken from one state of its base edges to the next.

It answers whether it contains a pair, lists the neighbours of a term, counts its pairs exactly, and tells what a change
of its base edges did to it. A change is made as a whole or not at all. The pairs are the business of its graph
(`closed_graph`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.closures import read_kernels as kernels
from tidelog.closures.closed_graph import ClosedGraph, Watch, watch_nothing
from tidelog.closures.edges import Edges, EdgesLike, as_edges, located, without_change
from tidelog.closures.history import ClosureChange, History, Moment, base_before, past_of
from tidelog.errors import TidelogError
from tidelog.machine.growth import Pause, no_pause
from tidelog.machine.jit import address
from tidelog.runtime.thread_locks import ThreadLock


class ReadableClosure:
    """What every reader can ask of a closure: the pairs of a graph, as they are or each the other way round."""

    def __init__(self, graph: ClosedGraph, turned: bool = False) -> None:
        self._graph = graph
        self._turned = turned

    @property
    def view(self) -> int:
        """What `read_kernels` reads the closure by."""
        return self._graph.memory.at + self._turned

    @property
    def version(self) -> int:
        """A number that every change replaces."""
        return self._graph.version

    def __len__(self) -> int:
        return len(self._graph)

    def contains(self, xs: ArrayLike, ys: ArrayLike) -> NDArray[np.bool_]:
        """For each pair of terms, whether it is in the closure."""
        edges = as_edges((xs, ys))
        answers = np.empty(len(edges[0]), np.bool_)
        kernels.read_contains(self.view, *located(edges), address(answers))
        return answers

    def pairs(self, size: int = 1 << 16) -> Iterator[Edges]:
        """All pairs, in pieces of at most `size`."""
        version, node, cursor = self.version, 0, 0
        while node >= 0:
            if version != self.version:
                raise RuntimeError("The closure changed while its pairs were read. Read them again.")
            source, target = np.empty(size, np.int32), np.empty(size, np.int32)
            node, cursor, count = kernels.read_pairs(self.view, node, cursor, *located((source, target)))
            if count:
                yield source[:count], target[:count]


class Closure(ReadableClosure):
    """The pairs of a graph under change."""

    def __init__(self, graph: ClosedGraph) -> None:
        super().__init__(graph)
        self._history = History(self.version)
        self._can_undo = False
        # Held by whoever changes the closure, and by whoever reads what an earlier change did.
        self._lock = ThreadLock()
        self._changing = False

    def turned(self) -> ReadableClosure:
        """The same closure with each pair the other way round."""
        return ReadableClosure(self._graph, True) if self._graph.directed else self

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
            self._changing, self._graph.watch = True, watch
            appeared, vanished = self._applied(gone, come)
            self._can_undo = True
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
        change = self.apply(come, gone)
        self._can_undo = False
        return change

    def changed_pairs(self, appeared: bool, size: int) -> Iterator[Edges]:
        """The pairs of terms that the last change brought, or took; every piece but the last has at least `size`."""
        return self._graph.changed_pairs(appeared, size)

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
