"""Large sets of rows for an oracle that knows nothing of the engine: sorted keys, bits of Python integers, plain joins.

A row of small numbers is packed into one 64-bit key, so that a relation is a sorted array. A relation of pairs that may
have millions is a list of integers instead, whose bits are the successors of each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

# Bits of a column, by arity.
BITS = {1: 31, 2: 31, 3: 20, 4: 15, 5: 12}


@dataclass(frozen=True)
class Table:
    """Rows as sorted keys."""

    arity: int
    keys: Longs

    @classmethod
    def of(cls, *columns: Longs) -> Table:
        """Rows that may come in any order, and more than once."""
        keys = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            keys = keys << BITS[len(columns)] | np.asarray(column, np.int64)
        return cls(len(columns), np.unique(keys))

    @classmethod
    def empty(cls, arity: int) -> Table:
        return cls(arity, np.empty(0, np.int64))

    def columns(self) -> list[Longs]:
        bits = BITS[self.arity]
        return [self.keys >> bits * (self.arity - 1 - place) & (1 << bits) - 1 for place in range(self.arity)]

    def rows(self) -> list[tuple[int, ...]]:
        return list(zip(*(column.tolist() for column in self.columns()), strict=True))

    def __len__(self) -> int:
        return len(self.keys)

    def table(self) -> Table:
        return self

    def minus(self, other: Table) -> Table:
        return Table(self.arity, np.setdiff1d(self.keys, other.keys, assume_unique=True))

    def plus(self, other: Table) -> Table:
        return Table(self.arity, np.union1d(self.keys, other.keys))

    def where(self, chosen: NDArray[np.bool_]) -> Table:
        return Table(self.arity, self.keys[chosen])

    def project(self, *places: int) -> Table:
        columns = self.columns()
        return Table.of(*(columns[place] for place in places))

    def within(self, place: int, values: Table, negated: bool = False) -> Table:
        """The rows whose column is among the values, or is not."""
        return self.where(np.isin(self.columns()[place], values.keys, invert=negated))


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes: the successors of each as bits."""

    successors: Sequence[int]

    def __len__(self) -> int:
        return sum(row.bit_count() for row in self.successors)

    def table(self) -> Table:
        keys = [node << BITS[2] | bits_of(row) for node, row in enumerate(self.successors) if row]
        return Table(2, np.concatenate([np.empty(0, np.int64), *keys]))

    def minus(self, other: Pairs) -> Pairs:
        return Pairs([row & ~away for row, away in zip(self.successors, other.successors, strict=True)])

    def between(self, sources: Table, targets: Table) -> Table:
        """The pairs from some nodes to some nodes."""
        mask, chosen = mask_of(targets), mask_of(sources)
        return Pairs([row & mask if chosen >> node & 1 else 0 for node, row in enumerate(self.successors)]).table()

    def apart(self, kept: Iterable[int] = ()) -> Pairs:
        """Without the pairs of a node with itself, but for some nodes."""
        rows = [row & ~(1 << node) for node, row in enumerate(self.successors)]
        for node in kept:
            rows[node] |= 1 << node
        return Pairs(rows)

    def counts(self) -> Table:
        """How many successors a node has, where there are any."""
        sizes = np.array([row.bit_count() for row in self.successors], np.int64)
        return Table.of(np.flatnonzero(sizes), sizes[sizes > 0])


Rows = Table | Pairs


def bits_of(row: int) -> Longs:
    """The places of the bits that are set in a number."""
    raw = np.frombuffer(row.to_bytes(row.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))


def mask_of(values: Table) -> int:
    """The number whose bits are the values of one column."""
    mask = 0
    for (value,) in values.rows():
        mask |= 1 << value
    return mask


def reachable(nodes: int, edges: Table) -> Pairs:
    """The transitive closure: strongly connected components come sinks first, so all that they reach is known."""
    successors: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in edges.rows():
        successors[source].append(target)
    rows = [0] * nodes
    for component in _components(successors):
        row = 0
        for node in component:
            for target in successors[node]:
                row |= 1 << target | rows[target]
        for node in component:
            rows[node] = row
    return Pairs(rows)


def _components(successors: list[list[int]]) -> Iterable[list[int]]:
    """Tarjan's algorithm, without recursion."""
    numbers = [0] * len(successors)
    lowest = [0] * len(successors)
    visited, stack = 0, []
    for root in range(len(successors)):
        if numbers[root]:
            continue
        frames = [(root, iter(successors[root]))]
        visited += 1
        numbers[root] = lowest[root] = visited
        stack.append(root)
        while frames:
            node, rest = frames[-1]
            for target in rest:
                if not numbers[target]:
                    visited += 1
                    numbers[target] = lowest[target] = visited
                    stack.append(target)
                    frames.append((target, iter(successors[target])))
                    break
                lowest[node] = min(lowest[node], numbers[target])
            else:
                frames.pop()
                if frames:
                    parent = frames[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == numbers[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    for member in component:
                        numbers[member] = len(successors) + 1  # no longer lowers anything
                    yield component


def joined(left: Table, left_place: int, right: Table, right_place: int) -> tuple[list[Longs], list[Longs]]:
    """The columns of both sides of all pairs of rows that agree in a column each."""
    left_columns, right_columns = left.columns(), right.columns()
    order = np.argsort(right_columns[right_place], kind="stable")
    sorted_keys = right_columns[right_place][order]
    first = np.searchsorted(sorted_keys, left_columns[left_place], "left")
    counts = np.searchsorted(sorted_keys, left_columns[left_place], "right") - first
    from_left = np.repeat(np.arange(len(left)), counts)
    within = np.arange(len(from_left)) - np.repeat(np.cumsum(counts) - counts, counts)
    from_right = order[np.repeat(first, counts) + within]
    return [column[from_left] for column in left_columns], [column[from_right] for column in right_columns]
