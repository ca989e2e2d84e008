"""The least height of a pair of a transitive closure, over all paths of its base and all trees over each path.

A proof of a pair is a binary tree over the steps of a path. Let a step have a proof of height b, and draw a tree of
height k over 2^k places: the step is a block of 2^b places that begins at a multiple of its size. A path has a tree of
height k if and only if its blocks fit, in order, into 2^k places, and it is best to put each as far left as it goes:
these are the alphabetic minimax trees of Golumbic ("Combinatorial merging", 1976) with integer weights. Where a block
ends depends on where the one before it ended, and is never further left if that ended further right. So the best path
to every node is found by Dijkstra's algorithm for shortest paths, with the places in use as the distance.

In a symmetric closure a step can be taken against its direction at the cost of one more level. If the rule asks for
both of its parts in the direction of the path, nothing else changes. If it asks for one part each way, as in

    near(X, Z) :- near(Y, X), near(Y, Z).

then what it proves holds both ways at once, and direction matters only to a step that fills its block: such a step must
lie in a left half or in a right half, depending on its direction. In any other block there is a level to spare.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple


class Step(NamedTuple):
    """The heights at which the base gives a pair, in the direction of the path and against it."""

    forward: int
    backward: int


class Facing(Enum):
    """The directions in which a rule asks for the left and the right part of a path that it proves forwards."""

    ALONG = (True, True)
    APART = (False, True)
    TOGETHER = (True, False)
    AGAINST = (False, False)


class _Arrival(NamedTuple):
    """A way to reach a node: the places in use, the node, where the last step's block begins, and the node before."""

    places: int
    node: int
    start: int
    previous: int


class Path(NamedTuple):
    """The nodes of a path, and for each step where its block begins."""

    nodes: list[int]
    starts: list[int]


def put(places: int, step: Step, facing: Facing) -> tuple[int, int]:
    """Where the leftmost block for a step begins and ends if so many places are in use."""
    match facing:
        case Facing.ALONG:
            size = step.forward
        case Facing.AGAINST:
            size = max(step)
        case Facing.APART | Facing.TOGETHER:
            size = min(step)
    number = -(-places >> size)
    if facing in (Facing.APART, Facing.TOGETHER) and step.forward != step.backward:
        goes_right = (step.forward < step.backward) == (facing is Facing.APART)
        number += (number & 1) != goes_right
    return number << size, (number + 1) << size


class Packing:
    """The lowest proofs of all pairs from one node, found only as far as somebody asks."""

    def __init__(self, source: int, steps: Callable[[int], Mapping[int, Step]], facing: Facing) -> None:
        self._source = source
        self._steps = steps
        self._facing = facing
        self._direct = steps(source)
        self._best: dict[int, _Arrival] = {}
        self._further: dict[int, _Arrival] = {}  # the best with more than one step
        self._heap: list[_Arrival] = []
        self._leave(source, 0, self._direct.items())

    def height(self, target: int) -> int:
        """The least height of the pair from the source to a node that it reaches."""
        arrival = self._arrival(target)
        return self._direct[target].forward if arrival is None else _levels(arrival.places)

    def path(self, target: int) -> Path:
        """The path of a lowest proof."""
        arrival = self._arrival(target)
        if arrival is None:
            return Path([self._source, target], [0])
        nodes, starts = [target], [arrival.start]
        while arrival.previous != self._source:
            nodes.append(arrival.previous)
            arrival = self._best[arrival.previous]
            starts.append(arrival.start)
        return Path([self._source, *reversed(nodes)], starts[::-1])

    def _arrival(self, target: int) -> _Arrival | None:
        """The best way with more than one step, if it is lower than the direct one."""
        direct = self._direct[target].forward if target in self._direct else None
        while target not in self._further and self._heap:
            if direct is not None and self._heap[0].places > 1 << direct:
                break
            self._settle(heapq.heappop(self._heap))
        found = self._further.get(target)
        if direct is not None and (found is None or _levels(found.places) >= direct):
            return None
        return found

    def _settle(self, arrival: _Arrival) -> None:
        if arrival.previous != self._source:
            self._further.setdefault(arrival.node, arrival)
        if arrival.node not in self._best:
            self._best[arrival.node] = arrival
            if arrival.node != self._source:
                self._leave(arrival.node, arrival.places, self._steps(arrival.node).items())

    def _leave(self, node: int, places: int, steps: Iterable[tuple[int, Step]]) -> None:
        for following, step in steps:
            if following not in self._further:
                start, end = put(places, step, self._facing)
                heapq.heappush(self._heap, _Arrival(end, following, start, node))


def _levels(places: int) -> int:
    return (places - 1).bit_length()
