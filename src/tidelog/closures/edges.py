"""Base edges as two arrays of numbers, sources and targets, and what sets of them have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.machine.jit import address

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Edges = tuple[Ints, Ints]


def as_edges(edges: tuple[ArrayLike, ArrayLike]) -> Edges:
    source, target = (np.array(side, np.int32, order="C").reshape(-1) for side in edges)
    if len(source) != len(target):
        raise ValueError(f"Each edge has a source and a target: not {len(source)} sources and {len(target)} targets.")
    return source, target


def located(edges: Edges) -> tuple[int, int, int]:
    """Where edges lie in memory, and how many there are: the form that kernels take. The caller keeps them alive."""
    return address(edges[0]), address(edges[1]), len(edges[0])


def packed(edges: Edges) -> Longs:
    """Each edge as one number."""
    return edges[0].astype(np.int64) << 32 | edges[1]


def unpacked(packed: Longs) -> Edges:
    return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)


def union(edges: Edges, others: Edges) -> Edges:
    return unpacked(np.union1d(packed(edges), packed(others)))


def difference(edges: Edges, others: Edges) -> Edges:
    return unpacked(np.setdiff1d(packed(edges), packed(others)))
