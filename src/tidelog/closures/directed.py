"""The transitive closure: strongly connected components, and which of them reach which nodes."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from tidelog.closures import closed_graph
from tidelog.closures import closure_registers as C
from tidelog.closures.closed_graph import ClosedGraph, Diagonal, Emitter
from tidelog.closures.differences import CYCLIC, compare, emit_rows
from tidelog.closures.edges import Edges, Ints, located
from tidelog.closures.memory import check_limit
from tidelog.closures.node_sets import copy_rows, single_rows
from tidelog.closures.reachability import condense, extend, fill, loosen, record, shrink
from tidelog.machine.jit import address

Layout = Literal["auto", "dense", "sparse"]

DENSE_BYTES = 1 << 26  # rows are dense if they take no more than this, both ways together
SPARSE_WORD, DENSE_WORD = 12, 8  # bytes of a word
FEW_EDGES = 32  # so few changed edges never lead to a rebuild at once
MANY_EDGES = 1 << 14  # the nodes of a larger first load are numbered depth first


class DirectedGraph(ClosedGraph):
    """R(x,y), R(y,z) → R(x,z) over the base edges.

    `layout` is for tests: with "auto", rows are dense while they are small, and beyond that have the smaller form.
    """

    directed = True
    implied_diagonal = CYCLIC

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64, layout: Layout = "auto") -> None:
        super().__init__(diagonal, capacity=capacity)
        self._layout: Layout = layout

    def empty_copy(self) -> Self:
        return type(self)(self.diagonal, layout=self._layout)

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        edges, losses, gains = self.memory[C.EDGES], len(deleted[0]), len(added[0])
        if losses:
            self._unlink(deleted)
        # Where nodes reach hardly any others, edges are cheap to take one by one.
        share = 2 if self._pairs <= self.memory[C.NODES] else 4
        if losses + gains > max(FEW_EDGES, edges // share):
            self._link(added)
            self._rebuild()
            return
        self._add_single_rows(known)
        # What a rebuild costs, in the unit in which kernels count their work: words and edges looked at.
        words = self.memory.used(C.FORWARD) + self.memory.used(C.BACKWARD)
        budget = int(self.patience * (4 * words + 16 * (self.memory[C.NODES] + self.memory[C.EDGES])))
        done = losses == 0 or (self._finishes(loosen, *located(deleted), budget) and self._finishes(shrink, budget))
        if gains:
            self._link(added)
            done = done and self._finishes(extend, *located(added), budget)
        if not done:
            self._rebuild()

    def _rebuild(self) -> None:
        """Find all components again, and fill all rows again."""
        self._run(record)
        memory = self.memory
        memory.m[C.PAIRS] = -self._pairs  # they are counted again
        for rows in (C.FORWARD, C.BACKWARD):
            memory.clear_rows(rows)
        self._condense()
        for rows in (C.FORWARD, C.BACKWARD):
            self._lay_out(rows, memory[C.COMPONENTS])
            self._run(fill, rows == C.FORWARD)

    def _condense(self) -> None:
        if self.memory.room(C.MEMBERS) < self.memory[C.NODES]:
            self._enlarge(C.MEMBERS, self.memory[C.NODES])
        condense(self.memory.at)

    def apply(self, gone: Edges, come: Edges) -> tuple[int, int]:
        if self.is_empty and len(come[0]) > max(MANY_EDGES, FEW_EDGES):
            self._number_depth_first(come)
        return super().apply(gone, come)

    def _number_depth_first(self, come: Edges) -> None:
        """Number the nodes of a first, large load depth first, so that what a node reaches lies in few words.

        The search begins at the sources or at the sinks, whichever are fewer, so that it follows the branches of trees.
        """
        source, target = self._numbers(come[0]), self._numbers(come[1])
        if np.count_nonzero(np.bincount(source)) > np.count_nonzero(np.bincount(target)):
            source, target = target, source
        self._link((source, target))
        self._condense()
        terms = self.memory.arrays[C.TERMS][self.memory.entries(C.ORDER, C.NODES)]
        self._clear(len(terms))
        self._numbers(terms)

    # --- the form of the rows -----------------------------------------------------------------------------------------

    def _lay_out(self, rows: C.Pool, needed: int, new_rows: int = 0) -> None:
        """Make room for more words, or for new rows; mostly by copying the rows, in the form that now suits them."""
        memory = self.memory
        more = memory[C.NODES] >> 3 if new_rows else 0
        # No wider than the row under construction, since kernels go through both together.
        width = self._width(rows, needed, min(memory[C.NODES] + more, memory[C.CAPACITY]))
        if self._is_compact(rows) and not width:
            memory.lengthen_rows(rows, max(needed, new_rows))
            return
        if width:
            alive = memory.live_components()
            room = width * (alive + max(alive >> 3, new_rows, -(-needed // width)))
        else:
            live = self._sparse_words(rows)
            room = live + max(live >> 1, needed, new_rows)
        check_limit(room)
        keys, words = np.empty(0 if width else room, np.int32), np.empty(room, np.int64)
        table = np.zeros((memory[C.CAPACITY], 3), np.int32)
        place = address(keys), address(words), address(table), width
        component, used = copy_rows(memory.at, rows, *place, closed_graph.SLICE, 0, 0)
        while component < memory[C.COMPONENTS]:
            self._rest(self.pause)
            component, used = copy_rows(memory.at, rows, *place, closed_graph.SLICE, component, used)
        memory.hold(rows + C.POOL_TABLE, table)
        memory.hold_rows(rows, keys, words, width)
        memory.m[rows + C.POOL_USED] = used
        memory.clear_row()

    def _is_compact(self, rows: C.Pool) -> bool:
        """Whether rows are sparse and fill most of their pool: then they stay where they are."""
        memory = self.memory
        return memory.width(rows) == 0 and 4 * self._sparse_words(rows) > 3 * memory.used(rows)

    def _width(self, rows: C.Pool, needed: int, nodes: int) -> int:
        """The width of dense rows for so many nodes, or 0 where sparse rows are better."""
        width = (nodes + 63) >> 6
        if self._layout != "auto":
            return width if self._layout == "dense" else 0
        dense = self.memory.live_components() * width * DENSE_WORD
        if 2 * dense <= DENSE_BYTES:
            return width
        return width if (self._sparse_words(rows) + needed) * SPARSE_WORD > dense else 0

    def _sparse_words(self, rows: C.Pool) -> int:
        """How many words the rows have in sparse form; possibly a few more."""
        memory = self.memory
        if memory.width(rows):
            return int(np.count_nonzero(memory.arrays[rows + C.ROW_WORDS][: memory.used(rows)]))
        return int(memory.sizes(rows).sum())

    def _add_single_rows(self, known: int) -> None:
        """Make rows for the nodes from `known` on."""
        memory = self.memory
        new = memory[C.NODES] - known
        if new == 0:
            return
        for rows in (C.FORWARD, C.BACKWARD):
            width = memory.width(rows)
            narrow = 0 < width < (memory[C.NODES] + 63) >> 6
            if narrow or memory.used(rows) + new * max(1, width) > memory.room(rows):
                self._lay_out(rows, 0, new)
        single_rows(memory.at, known)

    def _make_room(self, pool: C.Pool, needed: int) -> None:
        if pool == C.SAVED:
            self.memory.lengthen_rows(C.SAVED, needed)
        elif pool in (C.FORWARD, C.BACKWARD):
            self._lay_out(pool, needed)
        else:
            super()._make_room(pool, needed)

    # --- what changed -------------------------------------------------------------------------------------------------

    def _compare(self) -> tuple[int, int]:
        nodes = self._changed_nodes()
        begin, appeared, vanished = 0, 0, 0
        while begin < len(nodes):
            if begin:
                self._report_progress()
            self._rest(self.pause)
            begin, more, less = compare(self.memory.at, address(nodes), len(nodes), begin)
            appeared, vanished = appeared + more, vanished + less
        return appeared, vanished

    def _emitter(self, appeared: bool, sources: Ints | None) -> Emitter:
        nodes = self._among(self._changed_nodes(), sources)
        return lambda *place: emit_rows(self.memory.at, appeared, address(nodes), len(nodes), *place)
