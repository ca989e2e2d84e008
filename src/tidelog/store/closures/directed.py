"""The transitive closure: strongly connected components, and which of them reach which nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from tidelog.store.closures.change import Edges
from tidelog.store.closures.closure import Closure, Diagonal, _located
from tidelog.store.closures.differences import CYCLIC, GIVEN, compare, emit_rows
from tidelog.store.closures.layout import (
    BACKWARD,
    COMPONENTS,
    EDGES,
    FORWARD,
    MEMBERS,
    NODES,
    ROOM,
    SAVED,
    USED,
    WIDTH,
    WORDS,
)
from tidelog.store.closures.memory import check_limit
from tidelog.store.closures.reachability import condense, extend, fill, loosen, record, shrink
from tidelog.store.closures.rows import copy_rows, single_rows
from tidelog.store.jit import address

Layout = Literal["auto", "dense", "sparse"]

DENSE_BYTES = 1 << 26  # dense rows up to this size need no thought
SPARSE_WORD, DENSE_WORD = 12, 8  # bytes of a word
FEW_EDGES = 32  # so few changes are never worth starting afresh at once


class DirectedClosure(Closure):
    """R(x,y), R(y,z) → R(x,z) over the base edges.

    `layout` is for tests: "auto" keeps dense rows of bits while they are small, and beyond that the smaller form.
    """

    directed = True

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64, layout: Layout = "auto") -> None:
        super().__init__(diagonal, capacity=capacity)
        self._layout: Layout = layout

    def _diagonal_rule(self) -> int:
        return CYCLIC if self.diagonal == "closure" else GIVEN

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        edges = self._memory[EDGES]
        self._unlink(deleted)
        if len(deleted[0]) + len(added[0]) > max(FEW_EDGES, edges // 4):
            self._link(added)
            self._rebuild()
            return
        self._add_single_rows(known)
        budget = self._rebuilding_cost()
        shrunk = self._finishes(loosen, *_located(deleted), budget) and self._finishes(shrink, budget)
        self._link(added)
        if not (shrunk and self._finishes(extend, *_located(added), budget)):
            self._rebuild()

    def _rebuilding_cost(self) -> int:
        """What starting afresh costs, in the unit in which kernels count their work: words and edges looked at."""
        memory = self._memory
        words = memory[FORWARD + USED] + memory[BACKWARD + USED]
        return 4 * words + 16 * (memory[NODES] + memory[EDGES])

    def _rebuild(self) -> None:
        """Find all components and fill all rows again."""
        self._run(record)
        memory = self._memory
        for rows in (FORWARD, BACKWARD):
            memory.clear_rows(rows)
        if memory[MEMBERS + ROOM] < memory[NODES]:
            memory.hold_pool(MEMBERS, np.empty(memory[NODES], np.int32))
        condense(memory.m)
        for rows in (FORWARD, BACKWARD):
            self._lay_out(rows, memory[COMPONENTS])
            self._run(fill, rows == FORWARD)

    # --- the form of the rows ---------------------------------------------------------------------------------

    def _lay_out(self, rows: int, needed: int) -> None:
        """Copy the rows to a pool with room for so many more words, in the form that suits them now."""
        memory = self._memory
        width = self._width(rows, needed)
        if width:
            alive = memory.alive()
            room = width * (alive + max(alive >> 3, -(-needed // width)))
        else:
            live = self._sparse_words(rows)
            room = live + max(live >> 1, needed)
        check_limit(room)
        keys, words = np.empty(0 if width else room, np.int32), np.empty(room, np.int64)
        used = copy_rows(memory.m, rows, address(keys), address(words), width)
        memory.hold_rows(rows, keys, words, width)
        memory.m[rows + USED] = used
        memory.clear_row()

    def _width(self, rows: int, needed: int) -> int:
        """The width of dense rows, or 0 where sparse ones are better."""
        width = (self._memory[NODES] + 63) >> 6
        if self._layout != "auto":
            return width if self._layout == "dense" else 0
        dense = self._memory.alive() * width * DENSE_WORD
        if 2 * dense <= DENSE_BYTES:
            return width
        return width if (self._sparse_words(rows) + needed) * SPARSE_WORD > dense else 0

    def _sparse_words(self, rows: int) -> int:
        """How many words the rows have in sparse form, or a few more."""
        memory = self._memory
        if memory[rows + WIDTH]:
            return int(np.count_nonzero(memory.arrays[rows + WORDS][: memory[rows + USED]]))
        return int(memory.sizes(rows).sum())

    def _add_single_rows(self, known: int) -> None:
        """Rows for the nodes from `known` on."""
        memory = self._memory
        new = memory[NODES] - known
        if new == 0:
            return
        for rows in (FORWARD, BACKWARD):
            width = memory[rows + WIDTH]
            if 0 < width < (memory[NODES] + 63) >> 6 or memory[rows + USED] + new * max(1, width) > memory[rows + ROOM]:
                self._lay_out(rows, new * max(1, (memory[NODES] + 63) >> 6))
        single_rows(memory.m, known)

    def _make_room(self, pool: int, needed: int) -> None:
        if pool in (FORWARD, BACKWARD):
            self._lay_out(pool, needed)
        elif pool == SAVED:
            self._memory.lengthen_log(needed)
        else:
            super()._make_room(pool, needed)

    # --- what changed -----------------------------------------------------------------------------------------

    def _compare(self) -> tuple[int, int]:
        return compare(self._memory.m)

    def _emit(self, appeared: bool, size: int) -> Iterator[Edges]:
        index, member = 0, 0
        while True:
            source = np.empty(size + self._memory[NODES], np.int32)
            target = np.empty_like(source)
            index, member, filled = emit_rows(self._memory.m, appeared, index, member, *_located((source, target)))
            if filled == 0:
                return
            yield source[:filled], target[:filled]
