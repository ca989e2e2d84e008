"""What every reader can ask of a closure, in either direction, by its view (`read_kernels`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.closures import read_kernels as kernels
from tidelog.closures.edges import Edges, Ints, as_edges, located
from tidelog.machine.jit import address


class ReadableClosure(ABC):
    """The pairs of a closure."""

    @property
    @abstractmethod
    def view(self) -> int:
        """What `read_kernels` reads the closure by."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that every change replaces."""

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
