"""The transitive closure: strongly connected components, and which of them reach which nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from tidelog.store.closures.change import Edges
from tidelog.store.closures.closure import Closure, Diagonal
from tidelog.store.closures.differences import CYCLIC, GIVEN, compare, emit_rows
from tidelog.store.closures.reachability import condense, extend, fill_all, loosen, record, shrink
from tidelog.store.closures.rows import copy_rows, single_rows
from tidelog.store.closures.state import (
    COMPONENTS,
    EDGES,
    FULL_BACKWARD,
    FULL_FORWARD,
    FULL_SAVED,
    GATHERED,
    NODES,
    SIZE,
    USED,
    WIDTH,
    Rows,
    empty_blocks,
    empty_rows,
)

Layout = Literal["auto", "dense", "sparse"]

DENSE_BYTES = 1 << 26  # dense rows up to this size need no thought
SPARSE_WORD, DENSE_WORD = 12, 8  # bytes
FEW_EDGES = 32  # so few changes are never worth starting afresh at once


class DirectedClosure(Closure):
    """R(x,y), R(y,z) → R(x,z) over the base edges.

    `layout` is for tests: "auto" keeps dense rows of bits while they are small, and beyond that whichever form is smaller.
    """

    directed = True

    def __init__(self, diagonal: Diagonal = "closure", *, capacity: int = 64, layout: Layout = "auto") -> None:
        self._layout: Layout = layout
        super().__init__(diagonal, capacity=capacity)

    def _diagonal_rule(self) -> int:
        return CYCLIC if self.diagonal == "closure" else GIVEN

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        edges = int(self._state.scalars[EDGES])
        self._unlink(*deleted)
        if len(deleted[0]) + len(added[0]) > max(FEW_EDGES, edges // 4):
            self._link(*added)
            self._rebuild()
            return
        self._add_single_rows(known)
        budget = self._rebuilding_cost()
        shrunk = self._finishes(loosen, *deleted, budget) and self._finishes(shrink, budget)
        self._link(*added)
        if not (shrunk and self._finishes(extend, *added, budget)):
            self._rebuild()

    def _rebuilding_cost(self) -> int:
        """What starting afresh costs, in the unit in which kernels count their work: words and edges looked at."""
        state = self._state
        words = state.forward.meta[USED] + state.backward.meta[USED]
        return int(4 * words + 16 * (state.scalars[NODES] + state.scalars[EDGES]))

    def _rebuild(self) -> None:
        """Find all components and fill all rows again."""
        self._run(record)
        state = self._state
        nodes = int(state.scalars[NODES])
        rows = len(state.terms)
        if len(state.members.pool) < nodes:
            state = state._replace(members=empty_blocks(rows, nodes))
        state = self._state = state._replace(forward=empty_rows(rows, 0, 0), backward=empty_rows(rows, 0, 0))
        condense(state)
        for forward in (True, False):
            self._lay_out(forward, int(state.scalars[COMPONENTS]))
            self._run(fill_all, forward)

    # --- the form of the rows ------------------------------------------------------------------------------

    def _lay_out(self, forward: bool, needed: int) -> None:
        """Copy the rows of one direction to a pool with room for so many more words, in the form that suits them now."""
        state = self._state
        rows = state.forward if forward else state.backward
        width = self._width(rows, needed)
        components = int(state.scalars[COMPONENTS])
        live = self._live_words(rows, width)
        room = live + max(live >> 1, needed)
        if width:
            alive = int(np.count_nonzero(state.members.table[:components, SIZE]))
            room = width * (alive + max(alive >> 3, -(-needed // width)))
        self._check_limit(room)
        copies = empty_rows(len(state.terms), room, width)
        copy_rows(rows, copies, components)
        self._state = state._replace(forward=copies) if forward else state._replace(backward=copies)
        state.gathered[:] = 0
        state.summary[:] = 0
        state.outline[:] = 0
        state.scalars[GATHERED] = 0

    def _width(self, rows: Rows, needed: int) -> int:
        """The width of dense rows, or 0 where sparse ones are better."""
        state = self._state
        width = int(state.scalars[NODES] + 63) >> 6
        if self._layout != "auto":
            return width if self._layout == "dense" else 0
        dense = int(state.scalars[COMPONENTS]) * width * DENSE_WORD
        if 2 * dense <= DENSE_BYTES:
            return width
        sparse = (self._live_words(rows, 0) + needed) * SPARSE_WORD
        return width if sparse > dense else 0

    def _live_words(self, rows: Rows, width: int) -> int:
        """How many words the rows have in sparse form, or how many they have as they are."""
        if rows.meta[WIDTH] and not width:
            return int(np.count_nonzero(rows.words[: rows.meta[USED]]))
        return int(rows.table[:, SIZE].sum(dtype=np.int64))

    def _add_single_rows(self, known: int) -> None:
        """Rows for the nodes from `known` on."""
        nodes = int(self._state.scalars[NODES])
        if nodes == known:
            return
        for forward in (True, False):
            rows = self._state.forward if forward else self._state.backward
            width = int(rows.meta[WIDTH])
            needed = (nodes - known) * max(1, width)
            narrow = 0 < width < (nodes + 63) >> 6
            if narrow or rows.meta[USED] + needed > len(rows.words):
                self._lay_out(forward, needed)
        single_rows(self._state, known, nodes)

    def _make_room(self, status: int, needed: int) -> None:
        if status in (FULL_FORWARD, FULL_BACKWARD):
            self._lay_out(status == FULL_FORWARD, needed)
        elif status == FULL_SAVED:
            self._state = self._state._replace(saved=self._longer_log(needed))
        else:
            super()._make_room(status, needed)

    def _longer_log(self, needed: int) -> Rows:
        saved = self._state.saved
        used = int(saved.meta[USED])
        size = used + max(used, needed)
        self._check_limit(size)
        keys, words = np.empty(size, np.int32), np.empty(size, np.int64)
        keys[:used], words[:used] = saved.keys[:used], saved.words[:used]
        return saved._replace(keys=keys, words=words)

    # --- what changed --------------------------------------------------------------------------------------

    def _compare(self) -> tuple[int, int]:
        return compare(self._state)

    def _emit(self, appeared: bool, size: int) -> Iterator[Edges]:
        state = self._state
        index, member = 0, 0
        largest = int(state.scalars[NODES])
        while True:
            source = np.empty(size + largest, np.int32)
            target = np.empty_like(source)
            index, member, filled = emit_rows(state, appeared, index, member, source, target, 0)
            if filled == 0:
                return
            yield source[:filled], target[:filled]
