"""The past of a closure: the base edges that it followed from at some moment, for whoever still asks.

What a change did is not listed before somebody looks, and by then the closure may have moved on. So whoever holds a
change holds the *moment* after it. A moment knows the step that led to it and the moment that followed: from the base
edges of the present, the way back can be walked. Nobody knows the moments of before but who holds them, so a past that
nobody can ask for is gone at once, and one that somebody holds costs each change no more than its own edges. When a
held past has become longer than the base, the base is kept instead, and the past ends there.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidelog.closures.closure_change import Edges

# What a step takes besides its edges, in edges.
STEP = 32
# A past that is no longer than so many edges is never worth a copy of the base.
SHORT = 1 << 12


class Base(Protocol):
    """Base edges as they are."""

    @property
    def edge_count(self) -> int: ...

    def base_edges(self) -> Edges: ...


class Moment:
    """The state of a closure after a change."""

    __slots__ = ("__weakref__", "edges", "following", "made_by", "version")

    def __init__(self, version: int, made_by: tuple[Edges, Edges] | None = None) -> None:
        self.version = version  # that the closure has for as long as this is the present
        self.made_by = made_by  # the base edges that the change took, then those that it brought
        self.following: Moment | None = None
        self.edges: Edges | None = None  # all base edges, where they are known


class History:
    """The present of a closure, and how it goes on from there."""

    def __init__(self, version: int) -> None:
        self.now = Moment(version)
        self._before: weakref.ref[Moment] | None = None
        self._length = 0  # of the past that somebody holds, in edges

    def advance(self, version: int, gone: Edges, come: Edges, base: Base) -> None:
        """A change is done, and the base is as it is now."""
        former, now = self.now, Moment(version, (gone, come))
        held = self._before is not None and self._before() is not None
        length = (self._length if held else 0) + len(gone[0]) + len(come[0]) + STEP
        if held and length > max(base.edge_count, SHORT):
            now.edges = base.base_edges()
            length = 0
        # From here on nothing fails.
        if former.edges is None:
            former.following = now
        self.now, self._before, self._length = now, weakref.ref(former), length

    def keep(self, edges: Edges) -> None:
        """Let the present say itself what its base edges are: the closure may not be able to any more."""
        self.now.edges = edges


@dataclass(frozen=True, slots=True)
class Past:
    """A state of the base: edges of some moment, and the steps that had led there, the first one first."""

    edges: Edges
    steps: list[tuple[Edges, Edges]]

    @classmethod
    def of(cls, moment: Moment, base: Base) -> Past:
        """The base before the change that led to a moment, from the base edges of the present."""
        steps = [] if moment.made_by is None else [moment.made_by]
        while moment.edges is None and moment.following is not None:
            moment = moment.following
            assert moment.made_by is not None
            steps.append(moment.made_by)
        return cls(base.base_edges() if moment.edges is None else moment.edges, steps)

    def base(self) -> Edges:
        """The base edges before all of the steps."""
        if not self.steps:
            return self.edges
        sides = [side for step in self.steps for side in step]
        touched, first = np.unique(np.concatenate([packed(side) for side in sides]), return_index=True)
        # An edge was there before just if the first that was done to it was to take it.
        took = np.repeat(np.arange(len(sides)) % 2 == 0, [len(side[0]) for side in sides])
        now = packed(self.edges)
        return unpacked(np.concatenate([now[~np.isin(now, touched)], touched[took[first]]]))


def packed(edges: Edges) -> NDArray[np.int64]:
    """Each edge as one number."""
    return edges[0].astype(np.int64) << 32 | edges[1]


def unpacked(packed: NDArray[np.int64]) -> Edges:
    return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)
