"""What every reader of a closure can ask of it, by its view (`kernels`), in either direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.closures import read_kernels as kernels
from tidelog.closures.closure_change import Edges
from tidelog.closures.memory import Ints
from tidelog.machine.jit import address


class ReadableClosure(ABC):
    """The pairs of a closure."""

    @property
    @abstractmethod
    def view(self) -> int:
        """What `kernels` reads the closure by."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Another number after each change."""

    @abstractmethod
    def __len__(self) -> int: ...

    def contains(self, xs: ArrayLike, ys: ArrayLike) -> NDArray[np.bool_]:
        """For each pair of terms, whether it is in the closure."""
        edges = as_edges((xs, ys))
        answers = np.empty(len(edges[0]), np.bool_)
        kernels.read_contains(self.view, *located(edges), address(answers))
        return answers

    def successors(self, term: int) -> Ints:
        """All y with a pair (term, y)."""
        return self._neighbours(term, 0)

    def predecessors(self, term: int) -> Ints:
        """All x with a pair (x, term)."""
        return self._neighbours(term, 1)

    def _neighbours(self, term: int, backward: int) -> Ints:
        found = np.empty(kernels.read_degree(self.view, int(term), backward), np.int32)
        kernels.read_neighbours(self.view, int(term), backward, address(found))
        return found

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


def located(edges: Edges) -> tuple[int, int, int]:
    """Where edges lie in memory, and how many there are: the form that kernels take. The caller keeps them alive."""
    return address(edges[0]), address(edges[1]), len(edges[0])


def as_edges(edges: tuple[ArrayLike, ArrayLike]) -> Edges:
    source, target = (np.array(side, np.int32, order="C").reshape(-1) for side in edges)
    if len(source) != len(target):
        raise ValueError(f"Each edge has a source and a target: not {len(source)} sources and {len(target)} targets.")
    return source, target
