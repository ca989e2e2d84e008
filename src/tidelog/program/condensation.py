"""The strongly connected components of a directed graph, and a topological order of them, while the graph changes.

Every component (a `Part`) has a `position`, an integer smaller than those of the components it leads to. Positions are
sparse and need not be distinct, so that most new nodes find room without moving others.

An insertion whose arc runs against the order looks for a path back from both of its ends at once, only within the
positions between them (the affected region of Pearce and Kelly, "A dynamic topological sort algorithm for directed
acyclic graphs", 2006; the two-way search of Bender, Fineman, Gilbert and Tarjan, 2015). Where the searches meet, the
components on the cycle merge; where one search ends first, its side moves out of the way. A removal looks only at the
components that lost a node, and splits them by Tarjan's algorithm, its stack on the heap. For a batch that is large
compared to the graph the searches are not worth it: the whole graph is condensed again, with the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)

# The room between neighbours in the order: it can be halved 48 times before positions are spread out again.
_GAP = 1 << 48
# Condense the whole graph when a batch brings more than one new node for this many nodes.
_SMALL_BATCH = 4

_position = attrgetter("position")


class Part(Generic[N]):
    """One strongly connected component: its nodes, and its place in the topological order."""

    __slots__ = ("members", "position", "recorded")

    def __init__(self, members: Iterable[N], position: int, recorded: int) -> None:
        self.members: dict[N, None] = dict.fromkeys(members)
        self.position = position
        self.recorded = recorded


class Condensation(Generic[N]):
    """A directed graph without self-loops, its strongly connected components, and their topological order."""

    def __init__(self) -> None:
        self._successors: dict[N, dict[N, None]] = {}
        self._predecessors: dict[N, dict[N, None]] = {}
        self._part: dict[N, Part[N]] = {}
        self._before: dict[Part[N], tuple[N, ...]] = {}
        self._epoch = 0

    def __contains__(self, node: object) -> bool:
        return node in self._part

    def __len__(self) -> int:
        return len(self._part)

    def __iter__(self) -> Iterator[N]:
        return iter(self._part)

    def part(self, node: N) -> Part[N]:
        return self._part[node]

    def successors(self, node: N) -> Collection[N]:
        return self._successors[node].keys()

    def predecessors(self, node: N) -> Collection[N]:
        return self._predecessors[node].keys()

    def reachable(self, nodes: Iterable[N]) -> Collection[Part[N]]:
        """The components of these nodes, and all that they lead to, in an order that is the same every time."""
        seen = dict.fromkeys(self._part[node] for node in nodes)
        stack = list(seen)
        while stack:
            for part in self._neighbours(stack.pop(), self._successors):
                if part not in seen:
                    seen[part] = None
                    stack.append(part)
        return seen.keys()

    def walk(self, source: N, target: N) -> list[N]:
        """A shortest walk from one node of a component to another, both included."""
        part = self._part[source]
        came_from: dict[N, N] = {source: source}
        queue = deque((source,))
        while target not in came_from:
            node = queue.popleft()
            for successor in self._successors[node]:
                if successor in part.members and successor not in came_from:
                    came_from[successor] = node
                    queue.append(successor)
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(came_from[nodes[-1]])
        return nodes[::-1]

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────

    def start_record(self) -> dict[Part[N], tuple[N, ...]]:
        """Start a record: each component that exists now enters it before it changes."""
        self._epoch += 1
        self._before = {}
        return self._before

    def insert(self, nodes: Mapping[N, tuple[Collection[N], Collection[N]]]) -> None:
        """Add nodes, each with the nodes before and after it, which are created where they are missing."""
        if len(nodes) * _SMALL_BATCH > len(self._part):
            for node, (before, after) in nodes.items():
                self._connect(node, before, after, position=0)
            self._condense()
            return
        for node, (before, after) in nodes.items():
            self._connect(node, before, after, self._free_position(before, after))
            for successor in after:
                self._restore_order(self._part[node], self._part[successor])

    def remove(self, nodes: Iterable[N]) -> None:
        """Remove nodes with all their arcs; a component that loses a node may fall apart."""
        dirty: dict[Part[N], None] = {}
        for node in nodes:
            part = self._part.pop(node)
            self._record(part)
            del part.members[node]
            dirty[part] = None
            for successor in self._successors.pop(node):
                del self._predecessors[successor][node]
            for predecessor in self._predecessors.pop(node):
                del self._successors[predecessor][node]
        for part in dirty:
            if len(part.members) > 1:
                self._split(part)

    # ── nodes and arcs ───────────────────────────────────────────────────────────────────────────────────────────

    def _connect(self, node: N, before: Collection[N], after: Collection[N], position: int) -> None:
        self._create(node, position)
        for predecessor in before:
            self._create(predecessor, position - _GAP)
            self._successors[predecessor][node] = None
            self._predecessors[node][predecessor] = None
        for successor in after:
            self._create(successor, position + _GAP)
            self._successors[node][successor] = None
            self._predecessors[successor][node] = None

    def _create(self, node: N, position: int) -> None:
        if node not in self._part:
            self._part[node] = Part((node,), position, self._epoch)
            self._successors[node] = {}
            self._predecessors[node] = {}

    def _record(self, part: Part[N]) -> None:
        if part.recorded != self._epoch:
            part.recorded = self._epoch
            self._before[part] = tuple(part.members)

    def _neighbours(self, part: Part[N], arcs: Mapping[N, Iterable[N]]) -> Iterator[Part[N]]:
        """The components at the other end of a component's arcs, itself among them where an arc stays within."""
        for member in part.members:
            for other in arcs[member]:
                yield self._part[other]

    # ── insertion ────────────────────────────────────────────────────────────────────────────────────────────────

    def _free_position(self, before: Iterable[N], after: Iterable[N]) -> int:
        """A position above all of `before`, and below all of `after` if there is one."""
        low = max((self._part[node].position for node in before if node in self._part), default=None)
        high = min((self._part[node].position for node in after if node in self._part), default=None)
        if low is None:
            return 0 if high is None else high - _GAP
        if high is None:
            return low + _GAP
        return max((low + high) // 2, low + 1)

    def _restore_order(self, tail: Part[N], head: Part[N]) -> None:
        """Restore the order and the components after an arc from `tail` to `head` was added."""
        if tail is head or tail.position < head.position:
            return
        ancestors, descendants = {tail: None}, {head: None}
        upwards = self._explore(ancestors, self._predecessors, lambda p: p.position >= head.position and p is not head)
        downwards = self._explore(descendants, self._successors, lambda p: p.position <= tail.position)
        while True:
            found = next(upwards, None)
            if found is None:
                self._spread(_layers(ancestors), self._floor(ancestors), head.position)
                return
            if found in descendants:
                break
            found = next(downwards, None)
            if found is None:
                self._spread(_layers(descendants), tail.position, self._ceiling(descendants))
                return
            if found in ancestors:
                break
        for _ in upwards:
            pass
        self._close_cycle(head, ancestors)

    def _explore(
        self, seen: dict[Part[N], None], arcs: Mapping[N, Iterable[N]], admits: Callable[[Part[N]], bool]
    ) -> Iterator[Part[N]]:
        """Add to `seen` what it leads to; the generator stops at each arc, so that two searches can alternate.

        Like all collections of components here, `seen` keeps an order, so that members come in one order each time.
        """
        stack = list(seen)
        while stack:
            for part in self._neighbours(stack.pop(), arcs):
                if part not in seen and admits(part):
                    seen[part] = None
                    stack.append(part)
                yield part

    def _close_cycle(self, head: Part[N], ancestors: Collection[Part[N]]) -> None:
        """Merge `head` with those `ancestors` of the new arc that it leads to; the others move below it."""
        ring = {head: None}
        for part in sorted(ancestors, key=_position):
            if any(predecessor in ring for predecessor in self._neighbours(part, self._predecessors)):
                ring[part] = None
        position = head.position
        aside = dict.fromkeys(part for part in ancestors if part not in ring)
        self._merge(ring).position = position
        if aside:
            self._spread(_layers(aside), self._floor(aside), position)

    def _merge(self, parts: Iterable[Part[N]]) -> Part[N]:
        """Make one component of several; the largest absorbs the others."""
        ordered = sorted(parts, key=lambda part: len(part.members), reverse=True)
        largest = ordered[0]
        for part in ordered[1:]:
            self._record(part)
            self._record(largest)
            largest.members.update(part.members)
            for member in part.members:
                self._part[member] = largest
        return largest

    def _condense(self) -> None:
        """Compute components and positions from scratch; existing components can only merge, as no arc was lost."""
        for index, members in enumerate(components(self._part, self._successors)):
            part = self._merge(dict.fromkeys(self._part[member] for member in members))
            part.position = -index * _GAP

    # ── removal ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _split(self, part: Part[N]) -> None:
        """Replace a component that lost nodes by the components of what remains, in its place in the order."""
        pieces = list(components(part.members, self._successors))
        if len(pieces) == 1:
            return
        parts = [Part(members, part.position, self._epoch) for members in reversed(pieces)]
        for piece in parts:
            for member in piece.members:
                self._part[member] = piece
        apart = dict.fromkeys(parts)
        self._spread([[piece] for piece in parts], self._floor(apart), self._ceiling(apart))

    # ── positions ────────────────────────────────────────────────────────────────────────────────────────────────

    def _floor(self, parts: Collection[Part[N]]) -> int | None:
        """The highest position outside that leads into these components."""
        neighbours = (other for part in parts for other in self._neighbours(part, self._predecessors))
        return max((other.position for other in neighbours if other not in parts), default=None)

    def _ceiling(self, parts: Collection[Part[N]]) -> int | None:
        """The lowest position outside that these components lead to."""
        neighbours = (other for part in parts for other in self._neighbours(part, self._successors))
        return min((other.position for other in neighbours if other not in parts), default=None)

    def _spread(self, layers: list[list[Part[N]]], low: int | None, high: int | None) -> None:
        """Place layers of components, in this order, strictly between the positions `low` and `high` of others."""
        slots = len(layers) + 1
        if low is not None and high is not None and high - low < slots:
            moved = self._widen_gaps(max(_GAP, slots))
            low, high = moved[low], moved[high]
        if low is None:
            low = (0 if high is None else high) - slots * _GAP
        if high is None:
            high = low + slots * _GAP
        for index, layer in enumerate(layers, start=1):
            for part in layer:
                part.position = low + (high - low) * index // slots

    def _widen_gaps(self, gap: int) -> dict[int, int]:
        """Spread all positions out again; returns the new position for each old one."""
        parts = dict.fromkeys(self._part.values())
        moved = {old: index * gap for index, old in enumerate(sorted({part.position for part in parts}))}
        for part in parts:
            part.position = moved[part.position]
        return moved


def _layers(parts: Iterable[Part[N]]) -> list[list[Part[N]]]:
    """Components by position, lowest first; those of one position do not lead to each other."""
    return [list(layer) for _, layer in groupby(sorted(parts, key=_position), key=_position)]


def components(nodes: Collection[N], successors: Mapping[N, Iterable[N]]) -> Iterator[list[N]]:
    """Tarjan's algorithm on the subgraph of these nodes; a component comes after all that it leads to."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    pending: dict[N, None] = {}
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        pending[root] = None
        trail = [(root, iter(successors[root]))]
        while trail:
            node, arcs = trail[-1]
            for successor in arcs:
                if successor not in nodes:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    pending[successor] = None
                    trail.append((successor, iter(successors[successor])))
                    break
                if successor in pending and index[successor] < low[node]:
                    low[node] = index[successor]
            else:
                trail.pop()
                if trail and low[node] < low[trail[-1][0]]:
                    low[trail[-1][0]] = low[node]
                if low[node] == index[node]:
                    yield _unwind(pending, node)


def _unwind(pending: dict[N, None], node: N) -> list[N]:
    """Take the nodes of a finished component off Tarjan's stack."""
    component: list[N] = []
    while True:
        member, _ = pending.popitem()
        component.append(member)
        if member == node:
            return component
