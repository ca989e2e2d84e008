"""What changes did to a closure, for readers who may come late.

A change is not listed until somebody looks, and by then the closure may have moved on. So a `ClosureChange` holds the
*moment* after it. A moment knows the step that led to it and the moment that followed, so that its base edges can be
found by walking back from those of the present. Only changes hold past moments: a past that nobody can ask about is
gone at once, and one that somebody holds costs each later change no more than its own edges. Once a held past is longer
than the base, the base is kept instead, and the past ends there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.closures.edges import Edges, Ints, packed, unpacked
from tidelog.machine.growth import Pause, no_pause

if TYPE_CHECKING:
    from tidelog.closures.closed_graph import ClosedGraph
    from tidelog.closures.closure import Closure

Step = tuple[Edges, Edges]
"""The base edges that a change deleted, and those that it added."""

PIECE = 1 << 16
STEP_COST = 32  # what a step takes besides its edges, in edges
SHORT = 1 << 12  # a past of no more edges than this is never worth a copy of the base


class Moment:
    """The state of a closure after a change."""

    __slots__ = ("__weakref__", "edges", "following", "made_by", "version")

    def __init__(self, version: int, made_by: Step | None = None) -> None:
        self.version = version  # of the closure, as long as this is the present
        self.made_by = made_by
        self.following: Moment | None = None
        self.edges: Edges | None = None  # all base edges, where they are known


class History:
    """The present of a closure, and how it goes on from there."""

    def __init__(self, version: int) -> None:
        self.now = Moment(version)
        self._before: weakref.ref[Moment] | None = None
        self._length = 0  # of the past that somebody holds, in edges

    def advance(self, version: int, gone: Edges, come: Edges, graph: ClosedGraph) -> None:
        """Note a change that is done; the graph is as it left it."""
        former, now = self.now, Moment(version, (gone, come))
        held = self._before is not None and self._before() is not None
        length = (self._length if held else 0) + len(gone[0]) + len(come[0]) + STEP_COST
        if held and length > max(graph.edge_count, SHORT):
            now.edges = graph.base_edges()
            length = 0
        # From here on nothing fails.
        if former.edges is None:
            former.following = now
        self.now, self._before, self._length = now, weakref.ref(former), length


def past_of(moment: Moment, graph: ClosedGraph) -> tuple[Edges, list[Step]]:
    """The base edges of a later moment, and the steps that led there, in order. The first led to the moment.

    The graph is that of the present.
    """
    steps = [] if moment.made_by is None else [moment.made_by]
    while moment.edges is None and moment.following is not None:
        moment = moment.following
        assert moment.made_by is not None
        steps.append(moment.made_by)
    return graph.base_edges() if moment.edges is None else moment.edges, steps


def base_before(edges: Edges, steps: list[Step]) -> Edges:
    """The base edges before some steps that led to these."""
    if not steps:
        return edges
    sides = [side for step in steps for side in step]
    touched, first = np.unique(np.concatenate([packed(side) for side in sides]), return_index=True)
    # An edge was there before if and only if the first step that touched it deleted it.
    deleted = np.repeat(np.arange(len(sides)) % 2 == 0, [len(side[0]) for side in sides])
    now = packed(edges)
    return unpacked(np.concatenate([now[~np.isin(now, touched)], touched[deleted[first]]]))


class ClosureChange:
    """The net effect of a change: how many pairs appeared and vanished, and which.

    They can be read at any time and by any thread. Until the next change the closure itself knows them. After that they
    are found again in a copy of what it was, which takes as long as building that.
    """

    def __init__(self, closure: Closure, moment: Moment, added_count: int, removed_count: int) -> None:
        self.added_count = added_count
        self.removed_count = removed_count
        self._closure = closure
        self._moment = moment

    def count(self, added: bool) -> int:
        return self.added_count if added else self.removed_count

    def rows(self, added: bool, most: int, look: Pause = no_pause) -> Ints:
        """The first pairs that appeared, or that vanished, one in each row. `look` may raise between two pieces."""
        rows = np.empty((min(most, self.count(added)), 2), np.int32)
        if len(rows) == 0:
            return rows
        filled = 0
        with self._closure.at(self._moment, look) as closure:
            pieces = closure.changed_pairs(added, min(PIECE, len(rows)))
            while filled < len(rows):
                source, target = next(pieces)
                place = rows[filled : filled + len(source)]
                place[:, 0], place[:, 1] = source[: len(place)], target[: len(place)]
                filled += len(place)
                look()
        return rows

    def chunks(self, added: bool, size: int = PIECE, sources: Ints | None = None) -> Iterator[Edges]:
        """The pairs in pieces of `size` or somewhat more; the last may be smaller. Where `sources` are given, only the
        pairs from these terms. For whoever changes the closure, before the next change.
        """
        count = self.count(added)
        if count:
            self._expect_no_other()
            # No larger than what there is to list: the system takes long to give large pieces of memory.
            for piece in self._closure.changed_pairs(added, min(size, count), sources):
                yield piece
                self._expect_no_other()

    def _expect_no_other(self) -> None:
        if self._moment.version != self._closure.version:
            raise RuntimeError("The closure has changed since. Read what a change did before the next one.")
