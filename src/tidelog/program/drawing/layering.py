"""Where to put the boxes of an acyclic graph: layers from left to right, few crossings, short and straight arrows.

The method of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system structures", 1981):
each box is in the layer after the last of its predecessors; long edges are cut into pieces by points of no size, one in
each layer; each layer is ordered by the barycentre of its neighbours, back and forth; then coordinates are computed,
layer by layer too: every box should be at the average of its neighbours, boxes may not overlap or change places, and
the least-squares solution of that is an isotonic regression (pool adjacent violators). Parts of the graph that are not
connected are laid out separately.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidelog.program.condensation import components

_SWEEPS = 8
_LAYER_GAP = 90.0
_BOX_GAP = 22.0
_PART_GAP = 40.0
_ROW_WIDTH = 1400.0
# Points of long edges resist more than boxes, which keeps long edges straight.
_POINT_WEIGHT = 4.0

Point = tuple[float, float]
Edge = tuple[int, int]


@dataclass(slots=True)
class Layout:
    """The centres of boxes, and the path of each edge between them.

    An edge runs straight from its box to `exits`, where the layer ends, and straight through each layer in between,
    from one point of `crossings` to the next: no box is in its way there.
    """

    centres: dict[int, Point]
    exits: dict[int, float]
    crossings: dict[Edge, list[Point]]
    width: float
    height: float

    def moved(self, right: float, down: float) -> Layout:
        return Layout(
            {box: (x + right, y + down) for box, (x, y) in self.centres.items()},
            {box: x + right for box, x in self.exits.items()},
            {edge: [(x + right, y + down) for x, y in points] for edge, points in self.crossings.items()},
            self.width,
            self.height,
        )


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> Layout:
    """Place boxes of these sizes, numbered so that each edge leads from a smaller number to a larger one."""
    parts = (_Part(boxes, sizes, edges_within).layout() for boxes, edges_within in _connected(len(sizes), edges))
    # Parts stand in rows, from left to right and from top to bottom.
    whole = Layout({}, {}, {}, 0.0, 0.0)
    left = top = row_height = 0.0
    for part in parts:
        if left > 0 and left + part.width > max(_ROW_WIDTH, whole.width):
            left, top, row_height = 0.0, top + row_height + _PART_GAP, 0.0
        placed = part.moved(left, top)
        whole.centres.update(placed.centres)
        whole.exits.update(placed.exits)
        whole.crossings.update(placed.crossings)
        whole.width = max(whole.width, left + part.width)
        row_height = max(row_height, part.height)
        whole.height = max(whole.height, top + row_height)
        left += part.width + _PART_GAP
    return whole


def _connected(count: int, edges: Iterable[Edge]) -> list[tuple[list[int], list[Edge]]]:
    """The boxes and edges of each connected part, the largest parts first."""
    neighbours: dict[int, list[int]] = {box: [] for box in range(count)}
    for source, target in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    parts = sorted(map(sorted, components(neighbours, neighbours)), key=len, reverse=True)
    part_of = {box: number for number, boxes in enumerate(parts) for box in boxes}
    within: list[list[Edge]] = [[] for _ in parts]
    for edge in edges:
        within[part_of[edge[0]]].append(edge)
    return list(zip(parts, within, strict=True))


class _Part:
    """One connected part being laid out. Its nodes are the boxes, followed by the points of long edges."""

    def __init__(self, boxes: Sequence[int], sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> None:
        self.boxes = boxes
        local = {box: node for node, box in enumerate(boxes)}
        self.edges = edges
        self.ends = [(local[source], local[target]) for source, target in edges]
        self.widths = [sizes[box][0] for box in boxes]
        self.heights = [sizes[box][1] for box in boxes]
        self.layer = self._layers()
        self.points: list[list[int]] = []
        self.links = self._cut_long_edges()
        self.before: list[list[int]] = [[] for _ in self.layer]
        self.after: list[list[int]] = [[] for _ in self.layer]
        for source, target in self.links:
            self.after[source].append(target)
            self.before[target].append(source)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        for node, layer in enumerate(self.layer):
            self.rows[layer].append(node)

    def layout(self) -> Layout:
        self._reduce_crossings()
        y = self._coordinates()
        top = min(middle - height / 2 for middle, height in zip(y, self.heights, strict=True))
        bottom = max(middle + height / 2 for middle, height in zip(y, self.heights, strict=True))
        # The left and right ends of each layer, which is as wide as its widest box.
        columns: list[tuple[float, float]] = []
        for row in self.rows:
            begin = columns[-1][1] + _LAYER_GAP if columns else 0.0
            columns.append((begin, begin + max(self.widths[node] for node in row)))
        left = [columns[layer][0] for layer in self.layer]
        right = [columns[layer][1] for layer in self.layer]
        numbered = list(enumerate(self.boxes))
        return Layout(
            centres={box: (left[node] + self.widths[node] / 2, y[node] - top) for node, box in numbered},
            exits={box: right[node] for node, box in numbered},
            crossings={
                edge: [(x, y[point] - top) for point in points for x in (left[point], right[point])]
                for edge, points in zip(self.edges, self.points, strict=True)
            },
            width=columns[-1][1],
            height=bottom - top,
        )

    def _layers(self) -> list[int]:
        """The longest path from a source; a source itself moves next to the first box that it leads to."""
        layer = [0] * len(self.boxes)
        for source, target in sorted(self.ends):
            layer[target] = max(layer[target], layer[source] + 1)
        first: dict[int, int] = {}
        for source, target in self.ends:
            first[source] = min(first.get(source, layer[target]), layer[target])
        for source in first.keys() - {target for _, target in self.ends}:
            layer[source] = first[source] - 1
        return layer

    def _cut_long_edges(self) -> list[Edge]:
        links: list[Edge] = []
        for source, target in self.ends:
            points = list(range(len(self.layer), len(self.layer) + self.layer[target] - self.layer[source] - 1))
            self.layer.extend(range(self.layer[source] + 1, self.layer[target]))
            self.widths.extend([0.0] * len(points))
            self.heights.extend([0.0] * len(points))
            self.points.append(points)
            links.extend(pairwise((source, *points, target)))
        return links

    # ── the order within layers ──────────────────────────────────────────────────────────────────────────────────

    def _reduce_crossings(self) -> None:
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            if fewest == 0:
                break
            forward = sweep % 2 == 0
            neighbours = self.before if forward else self.after
            place = {node: index for row in self.rows for index, node in enumerate(row)}
            for row in self.rows if forward else reversed(self.rows):
                row.sort(key=lambda node: _mean([place[other] for other in neighbours[node]], place[node]))
                place.update({node: index for index, node in enumerate(row)})
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        """Pairs of links that cross: inversions among the ends of links, taken in the order of their starts."""
        place = {node: index for row in self.rows for index, node in enumerate(row)}
        total = 0
        for row in self.rows:
            seen: list[int] = []
            for node in row:
                ends = sorted(place[other] for other in self.after[node])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # ── coordinates ──────────────────────────────────────────────────────────────────────────────────────────────

    def _coordinates(self) -> list[float]:
        y = [0.0] * len(self.layer)
        for row in self.rows:
            for node, offset in zip(row, self._offsets(row), strict=True):
                y[node] = offset
        for sweep in range(2 * _SWEEPS):
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                self._settle(row, y)
        return y

    def _settle(self, row: Sequence[int], y: list[float]) -> None:
        """Move the nodes of a layer as close as possible to the middle of their neighbours."""
        offsets = self._offsets(row)
        wishes = [_mean([y[other] for other in (*self.before[n], *self.after[n])], y[n]) for n in row]
        weights = [1.0 if node < len(self.boxes) else _POINT_WEIGHT for node in row]
        free = _isotonic([wish - offset for wish, offset in zip(wishes, offsets, strict=True)], weights)
        for node, offset, place in zip(row, offsets, free, strict=True):
            y[node] = offset + place

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """The centres of a layer's nodes when they are packed from 0 on."""
        offsets = [0.0]
        for above, below in pairwise(row):
            offsets.append(offsets[-1] + (self.heights[above] + self.heights[below]) / 2 + _BOX_GAP)
        return offsets


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _isotonic(values: Iterable[float], weights: Iterable[float]) -> list[float]:
    """The nondecreasing sequence nearest to the values in weighted least squares, by pooling adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        count = 1
        while pools and pools[-1][0] > value:
            other, other_weight, other_count = pools.pop()
            value = (value * weight + other * other_weight) / (weight + other_weight)
            weight += other_weight
            count += other_count
        pools.append((value, weight, count))
    return [value for value, _, count in pools for _ in range(count)]
