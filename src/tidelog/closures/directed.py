"""The transitive closure: strongly connected components, and which of them reach which nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

import numpy as np

from tidelog.closures import closure_registers as C
from tidelog.closures.closure import Closure, Diagonal
from tidelog.closures.closure_change import Edges
from tidelog.closures.differences import CYCLIC, GIVEN, compare, emit_rows
from tidelog.closures.memory import check_limit
from tidelog.closures.node_sets import copy_rows, single_rows
from tidelog.closures.reachability import condense, extend, fill, loosen, record, shrink
from tidelog.closures.readable import located
from tidelog.machine.jit import address

Layout = Literal["auto", "dense", "sparse"]

DENSE_BYTES = 1 << 26  # dense rows up to this size need no thought
SPARSE_WORD, DENSE_WORD = 12, 8  # bytes of a word
FEW_EDGES = 32  # so few changes are never worth starting afresh at once
MANY_EDGES = 1 << 14  # a first load of more edges is worth numbering its nodes with care


class DirectedClosure(Closure):
    """R(x,y), R(y,z) → R(x,z) over the base edges.

    `layout` is for tests: "auto" keeps dense rows of bits while they are small, and beyond that the smaller form.
    """

    directed = True

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64, layout: Layout = "auto") -> None:
        super().__init__(diagonal, capacity=capacity)
        self._layout: Layout = layout

    def _empty_copy(self) -> Self:
        return type(self)(self.diagonal, layout=self._layout)

    def _diagonal_rule(self) -> int:
        return CYCLIC if self.diagonal == "closure" else GIVEN

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        edges = self._memory[C.EDGES]
        self._unlink(deleted)
        if len(deleted[0]) + len(added[0]) > max(FEW_EDGES, edges // 4):
            self._link(added)
            self._rebuild()
            return
        self._add_single_rows(known)
        budget = int(self.patience * self._rebuilding_cost())
        shrunk = self._finishes(loosen, *located(deleted), budget) and self._finishes(shrink, budget)
        self._link(added)
        if not (shrunk and self._finishes(extend, *located(added), budget)):
            self._rebuild()

    def _rebuilding_cost(self) -> int:
        """What starting afresh costs, in the unit in which kernels count their work: words and edges looked at."""
        memory = self._memory
        words = memory[C.FORWARD + C.USED] + memory[C.BACKWARD + C.USED]
        return 4 * words + 16 * (memory[C.NODES] + memory[C.EDGES])

    def _rebuild(self) -> None:
        """Find all components and fill all rows again."""
        self._run(record)
        memory = self._memory
        memory.m[C.PAIRS] = -self._pairs  # they are counted again
        for rows in (C.FORWARD, C.BACKWARD):
            memory.clear_rows(rows)
        self._condense()
        for rows in (C.FORWARD, C.BACKWARD):
            self._lay_out(rows, memory[C.COMPONENTS])
            self._run(fill, rows == C.FORWARD)

    def _condense(self) -> None:
        if self._memory[C.MEMBERS + C.ROOM] < self._memory[C.NODES]:
            self._enlarge(C.MEMBERS, self._memory[C.NODES])
        condense(self._memory.m)

    def _apply(self, gone: Edges, come: Edges) -> tuple[int, int]:
        if self._memory[C.NODES] == 0 and len(come[0]) > max(MANY_EDGES, FEW_EDGES):
            self._number_depth_first(come)
        return super()._apply(gone, come)

    def _number_depth_first(self, come: Edges) -> None:
        """Number the nodes of a first, large load depth first: then what a node reaches has few, neighbouring words.

        The search begins where there is less, at the sources or at the sinks, so that it follows the branches of trees.
        """
        source, target = self._numbers(come[0]), self._numbers(come[1])
        if np.count_nonzero(np.bincount(source)) > np.count_nonzero(np.bincount(target)):
            source, target = target, source
        self._link((source, target))
        self._condense()
        terms = self._memory.arrays[C.TERMS][self._memory.entries(C.ORDER, C.NODES)]
        self._clear(len(terms))
        self._numbers(terms)

    # --- the form of the rows ---------------------------------------------------------------------------------

    def _lay_out(self, rows: int, needed: int, new_rows: int = 0) -> None:
        """Copy the rows to a pool with room for more words, or for new rows, in the form that suits them now."""
        memory = self._memory
        more = memory[C.NODES] >> 3 if new_rows else 0
        # No wider than the row under construction: kernels go through both together.
        width = self._width(rows, needed, min(memory[C.NODES] + more, memory[C.CAPACITY]))
        if width:
            alive = memory.alive()
            room = width * (alive + max(alive >> 3, new_rows, -(-needed // width)))
        else:
            live = self._sparse_words(rows)
            room = live + max(live >> 1, needed, new_rows)
        check_limit(room)
        keys, words = np.empty(0 if width else room, np.int32), np.empty(room, np.int64)
        used = copy_rows(memory.m, rows, address(keys), address(words), width)
        memory.hold_rows(rows, keys, words, width)
        memory.m[rows + C.USED] = used
        memory.clear_row()

    def _width(self, rows: int, needed: int, nodes: int) -> int:
        """The width of dense rows for so many nodes, or 0 where sparse rows are better."""
        width = (nodes + 63) >> 6
        if self._layout != "auto":
            return width if self._layout == "dense" else 0
        dense = self._memory.alive() * width * DENSE_WORD
        if 2 * dense <= DENSE_BYTES:
            return width
        return width if (self._sparse_words(rows) + needed) * SPARSE_WORD > dense else 0

    def _sparse_words(self, rows: int) -> int:
        """How many words the rows have in sparse form, or a few more."""
        memory = self._memory
        if memory[rows + C.WIDTH]:
            return int(np.count_nonzero(memory.arrays[rows + C.WORDS][: memory[rows + C.USED]]))
        return int(memory.sizes(rows).sum())

    def _add_single_rows(self, known: int) -> None:
        """Rows for the nodes from `known` on."""
        memory = self._memory
        new = memory[C.NODES] - known
        if new == 0:
            return
        for rows in (C.FORWARD, C.BACKWARD):
            width = memory[rows + C.WIDTH]
            narrow = 0 < width < (memory[C.NODES] + 63) >> 6
            if narrow or memory[rows + C.USED] + new * max(1, width) > memory[rows + C.ROOM]:
                self._lay_out(rows, 0, new)
        single_rows(memory.m, known)

    def _make_room(self, pool: int, needed: int) -> None:
        if pool == C.SAVED:
            self._memory.lengthen_rows(C.SAVED, needed)
        elif pool in (C.FORWARD, C.BACKWARD):
            self._make_room_for_words(pool, needed)
        else:
            super()._make_room(pool, needed)

    def _make_room_for_words(self, rows: int, needed: int) -> None:
        memory = self._memory
        gaps = memory[rows + C.USED] - self._sparse_words(rows)
        if memory[rows + C.WIDTH] or 4 * gaps > memory[rows + C.USED] or self._width(rows, needed, memory[C.NODES]):
            self._lay_out(rows, needed)
        else:
            memory.lengthen_rows(rows, needed)

    # --- what changed -----------------------------------------------------------------------------------------

    def _compare(self) -> tuple[int, int]:
        index, member, appeared, vanished = 0, 0, 0, 0
        while True:
            index, member, more, less = compare(self._memory.m, index, member)
            appeared, vanished = appeared + more, vanished + less
            if self._memory[C.STATUS] == C.DONE:
                return appeared, vanished
            self._look_around()

    def _emitter(self, appeared: bool) -> Callable[[Edges, int], int]:
        index, member = 0, 0

        def emit(pairs: Edges, filled: int) -> int:
            nonlocal index, member
            index, member, filled = emit_rows(self._memory.m, appeared, index, member, *located(pairs), filled)
            return filled

        return emit
