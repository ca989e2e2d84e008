"""The symmetric-transitive closure: two terms are related when they lie in one connected component."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidelog.closures import closure_registers as C
from tidelog.closures.closed_graph import ClosedGraph, Emitter
from tidelog.closures.components import cut, join, sweep
from tidelog.closures.differences import LINKED, emit_cells
from tidelog.closures.edges import Edges, Ints, Longs, located
from tidelog.machine.jit import address


class SymmetricGraph(ClosedGraph):
    """R(x,y) → R(y,x) and R(x,y), R(y,z) → R(x,z) over the base edges."""

    directed = False
    implied_diagonal = LINKED

    def _update(self, deleted: Edges, added: Edges, known: int) -> None:
        # Searches may cost as much as reading the whole graph once; beyond that a sweep is better.
        budget = int(self.patience * (self.memory[C.NODES] + 4 * self.memory[C.EDGES]))
        done = self._run(cut, *located(deleted), budget)
        if done < len(deleted[0]):
            self._sweep((deleted[0][done:], deleted[1][done:]))
        self._link(added)
        self._run(join, *located(added))

    def _sweep(self, edges: Edges) -> None:
        self._unlink(edges)
        memory = self.memory
        if memory.used(C.MEMBERS) + memory[C.NODES] > memory.room(C.MEMBERS):
            self._enlarge(C.MEMBERS, memory[C.NODES])
        suspects = np.concatenate(edges)
        sweep(memory.at, address(suspects), len(suspects))

    def _compare(self) -> tuple[int, int]:
        """From the nodes that moved, in cells of equal former and present component, and the sizes of components."""
        arrays = self.memory.arrays
        moved = self.memory.entries(C.MOVED_LIST, C.MOVED)
        if len(moved) == 0:
            return 0, 0
        touched = self.memory.entries(C.TOUCHED_LIST, C.TOUCHED)
        former, present = arrays[C.FORMER][moved].astype(np.int64), arrays[C.COMPONENT][moved].astype(np.int64)
        former_sizes = arrays[C.FORMER_SIZE][touched].astype(np.int64)
        sizes = self.memory.sizes(C.MEMBERS)[touched].astype(np.int64)
        left = former != present
        arrived, arrivals = np.unique(present[left], return_counts=True)
        stayed = sizes.copy()
        order = np.argsort(touched)
        stayed[order[np.searchsorted(touched, arrived, sorter=order)]] -= arrivals
        known = left & (former != C.CREATED)
        _, cells = np.unique(former[known] << 32 | present[known], return_counts=True)
        kept = _ordered_pairs(stayed) + _ordered_pairs(cells)
        return _ordered_pairs(sizes) - kept, _ordered_pairs(former_sizes) - kept

    def _emitter(self, appeared: bool, sources: Ints | None) -> Emitter:
        nodes, cells = self._cells(appeared)
        terms = origins = self.memory.arrays[C.TERMS][nodes]
        if sources is not None:
            chosen = self._are_of(nodes, sources)
            origins, cells = origins[chosen], cells[chosen]
        return lambda *place: emit_cells(address(terms), address(origins), address(cells), len(origins), *place)

    def _cells(self, appeared: bool) -> tuple[Ints, Ints]:
        """The nodes of changed components by groups, and for each the bounds of its group and of its cell.

        A group is the nodes that are in one component now, or that were. The pairs between its cells appeared, or
        vanished.
        """
        nodes = self._changed_nodes()
        former, present = self.memory.arrays[C.FORMER][nodes], self.memory.arrays[C.COMPONENT][nodes]
        former = np.where(former == C.UNMOVED, present, np.where(former == C.CREATED, C.CREATED - nodes, former))
        groups, cells = (present, former) if appeared else (former, present)
        order = np.lexsort((cells, groups))
        new_group = _breaks(groups[order])
        new_cell = new_group | _breaks(cells[order])
        return nodes[order], np.stack([*_bounds(new_group), *_bounds(new_cell)], axis=1).astype(np.int32)


def _ordered_pairs(sizes: Longs) -> int:
    """How many ordered pairs of different members there are in sets of these sizes, together."""
    return int((sizes * (sizes - 1)).sum())


def _breaks(values: Ints) -> NDArray[np.bool_]:
    """Where an array begins, or has another value than just before."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _bounds(breaks: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each element, where its run begins and ends."""
    starts = np.flatnonzero(breaks)
    ends = np.append(starts[1:], len(breaks))
    return np.repeat(starts, ends - starts), np.repeat(ends, ends - starts)
