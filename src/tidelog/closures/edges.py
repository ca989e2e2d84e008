"""Base edges as two arrays of numbers, sources and targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidelog.machine.jit import address

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Edges = tuple[Ints, Ints]
EdgesLike = tuple[ArrayLike, ArrayLike]


def as_edges(edges: EdgesLike) -> Edges:
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


def without_change(edges: Edges, gone: Edges, come: Edges) -> Edges:
    """The edges from before a change that may be done in part: some edges are gone, and some have come."""
    before = np.union1d(packed(edges), packed(gone))
    return unpacked(np.setdiff1d(before, np.setdiff1d(packed(come), packed(gone))))
