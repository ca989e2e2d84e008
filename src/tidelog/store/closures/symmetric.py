"""The symmetric-transitive closure: two terms are related when they lie in one connected component."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelog.store.closures.change import Edges
from tidelog.store.closures.closure import Closure
from tidelog.store.closures.components import cut, join, sweep
from tidelog.store.closures.differences import GIVEN, LINKED, collect_changed, emit_cells
from tidelog.store.closures.state import (
    CREATED,
    EDGES,
    MOVED,
    NODES,
    SIZE,
    TOUCHED,
    UNMOVED,
    Ints,
)


class SymmetricClosure(Closure):
    """R(x,y) → R(y,x) and R(x,y), R(y,z) → R(x,z) over the base edges."""

    directed = False

    def _diagonal_rule(self) -> int:
        return LINKED if self.diagonal == "closure" else GIVEN

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        scalars = self._state.scalars
        # Reading the whole graph once: what a search may cost before it is better to sweep.
        budget = int(scalars[NODES] + 4 * scalars[EDGES])
        done = self._run(cut, *deleted, budget)
        if done < len(deleted[0]):
            self._sweep(deleted[0][done:], deleted[1][done:])
        self._link(*added)
        self._run(join, *added)

    def _sweep(self, source: Ints, target: Ints) -> None:
        self._unlink(source, target)
        nodes = int(self._state.scalars[NODES])
        if self._state.members.used[0] + nodes > len(self._state.members.pool):
            members = self._enlarged(self._state.members, len(self._state.terms), nodes)
            self._state = self._state._replace(members=members)
        sweep(self._state, np.concatenate([source, target]))

    def _compare(self) -> tuple[int, int]:
        """From the nodes that moved, in cells of equal former and present component, and the sizes of those components."""
        state = self._state
        moved = state.moved[: state.scalars[MOVED]]
        touched = state.touched[: state.scalars[TOUCHED]]
        former, present = state.former[moved].astype(np.int64), state.component[moved].astype(np.int64)
        left = former != present
        sizes = state.members.table[touched, SIZE].astype(np.int64)
        stayed = np.zeros(len(state.terms), np.int64)
        stayed[touched] = sizes
        np.subtract.at(stayed, present[left], 1)
        cells = former[left & (former != CREATED)] << 32 | present[left & (former != CREATED)]
        _, counts = np.unique(cells, return_counts=True)
        kept = _ordered_pairs(stayed[touched]) + _ordered_pairs(counts)
        return _ordered_pairs(sizes) - kept, _ordered_pairs(state.former_size[touched].astype(np.int64)) - kept

    def _emit(self, appeared: bool, size: int) -> Iterator[Edges]:
        state = self._state
        nodes = np.empty(len(state.terms), np.int32)
        nodes = nodes[: collect_changed(state, nodes)]
        former, present = state.former[nodes], state.component[nodes]
        former = np.where(former == UNMOVED, present, np.where(former == CREATED, CREATED - nodes, former))
        groups, parts = (present, former) if appeared else (former, present)
        order = np.lexsort((parts, groups))
        nodes, groups, parts = nodes[order], groups[order], parts[order]
        edge_of_group = np.concatenate([[True], groups[1:] != groups[:-1]])
        edge_of_cell = edge_of_group | np.concatenate([[True], parts[1:] != parts[:-1]])
        cells = np.stack([*_bounds(edge_of_group), *_bounds(edge_of_cell)]).astype(np.int32)
        position = 0
        largest = int((cells[1] - cells[0]).max())
        while position < len(nodes):
            source = np.empty(max(size, largest), np.int32)
            target = np.empty_like(source)
            position, filled = emit_cells(nodes, cells, position, source, target, 0)
            yield source[:filled], target[:filled]


def _ordered_pairs(sizes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    """How many ordered pairs of different members sets of these sizes have together."""
    return int((sizes * (sizes - 1)).sum())


def _bounds(edges: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[Ints, Ints]:
    """For each element of an array, where the run that it is in begins and ends."""
    starts = np.flatnonzero(edges).astype(np.int32)
    ends = np.append(starts[1:], len(edges)).astype(np.int32)
    return np.repeat(starts, ends - starts), np.repeat(ends, ends - starts)
