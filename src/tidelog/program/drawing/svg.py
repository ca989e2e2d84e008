"""The hyper rule dependency graph as an SVG image that any browser shows: rules in frames, arrows between frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from tidelog.program.drawing.layering import Layout, Point, lay_out
from tidelog.program.drawing.picture import Arrow, Box, Fate, Line, Picture, Touch
from tidelog.program.drawing.text import FRAME_COLOURS, RULE_COLOURS, title

_MARGIN = 24.0
_PADDING = 10.0
_TITLE = 22.0
_RULE = 24.0
_RULE_GAP = 6.0
_LETTER = 7.25
_TITLE_LETTER = 6.4
_LONGEST_RULE = 72
_LONGEST_LABEL = 14
_LABEL = 9.0
_LEGEND = 34.0
_INK = "#1f2328"
_FAINT = "#57606a"

_STYLE = f"""
  text {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px; fill: {_INK}; }}
  .title, .label, .legend {{ font-family: "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; }}
  .title {{ font-size: 12px; font-weight: 600; }}
  .label {{ font-size: 9.5px; fill: {_FAINT}; text-anchor: end; }}
  .halo {{ stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }}
  .legend {{ font-size: 11px; fill: {_FAINT}; }}
  .arrow {{ fill: none; stroke: {_FAINT}; stroke-width: 1.4; }}
  .strict {{ stroke-dasharray: 6 4; }}
"""


def to_svg(picture: Picture) -> str:
    """The picture as a complete SVG document."""
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    edges = [(numbers[arrow.source], numbers[arrow.target]) for arrow in picture.arrows]
    layout = lay_out([_size(box) for box in picture.boxes], sorted(set(edges))).moved(_MARGIN, _MARGIN)
    width = max(layout.width + 2 * _MARGIN, 460.0)
    height = layout.height + 2 * _MARGIN + _LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0.5 L8,4 L0,7.5 z" fill="{_FAINT}"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_arrows(picture, edges, layout),
    ]
    for number, box in enumerate(picture.boxes):
        lines.extend(_frame(box, *layout.centres[number]))
    lines.extend(_legend(picture, height - _LEGEND / 2))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _size(box: Box) -> tuple[float, float]:
    text = max(len(_short(line)) for line in box.lines) * _LETTER + 2 * _PADDING
    width = max(text, len(title(box)) * _TITLE_LETTER) + 2 * _PADDING
    return width, _TITLE + len(box.lines) * (_RULE + _RULE_GAP) + _PADDING


def _short(line: Line) -> str:
    text = f"r{line.number}  {line.text}"
    return text if len(text) <= _LONGEST_RULE else text[: _LONGEST_RULE - 1] + "…"


# ── frames ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _frame(box: Box, x: float, y: float) -> Iterator[str]:
    width, height = _size(box)
    left, top = x - width / 2, y - height / 2
    dashes = ' stroke-dasharray="5 4"' if box.touch is Touch.GONE else ""
    yield _rectangle(left, top, width, height, 10, FRAME_COLOURS[box.touch], dashes)
    yield f'<text class="title" x="{left + _PADDING:.1f}" y="{top + 16:.1f}">{escape(title(box))}</text>'
    for index, line in enumerate(box.lines):
        yield from _rule(line, left + _PADDING, top + _TITLE + index * (_RULE + _RULE_GAP), width - 2 * _PADDING)


def _rule(line: Line, left: float, top: float, width: float) -> Iterator[str]:
    struck = ' text-decoration="line-through"' if line.fate is Fate.REMOVED else ""
    yield f"<g><title>{escape(line.text)}</title>"
    yield _rectangle(left, top, width, _RULE, 6, RULE_COLOURS[line.fate])
    place = f'x="{left + _PADDING:.1f}" y="{top + 16:.1f}"'
    yield f'<text {place} xml:space="preserve"{struck}>{escape(_short(line))}</text>'
    yield "</g>"


def _rectangle(
    left: float, top: float, width: float, height: float, radius: int, colours: tuple[str, str], more: str = ""
) -> str:
    fill, border = colours
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
        f'fill="{fill}" stroke="{border}"{more}/>'
    )


# ── arrows ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _arrows(picture: Picture, edges: Sequence[tuple[int, int]], layout: Layout) -> Iterator[str]:
    sources, targets = [source for source, _ in edges], [target for _, target in edges]
    turns = [[layout.centres[edge[0]], *layout.crossings[edge], layout.centres[edge[1]]] for edge in edges]
    leaving = _ports(sources, [turn[1][1] for turn in turns], picture, layout, side=1)
    arriving = _ports(targets, [turn[-2][1] for turn in turns], picture, layout, side=-1)
    for arrow, source, start, turn, end in zip(picture.arrows, sources, leaving, turns, arriving, strict=True):
        yield _arrow(arrow, [start, (layout.exits[source], start[1]), *turn[1:-1], end])
    arrows_into = Counter(targets)
    for arrow, target, end in zip(picture.arrows, targets, arriving, strict=True):
        if arrows_into[target] * _LABEL <= _size(picture.boxes[target])[1]:
            yield from _label(arrow, end)


def _ports(boxes: Sequence[int], heights: Sequence[float], picture: Picture, layout: Layout, side: int) -> list[Point]:
    """Where arrows touch the side of a frame: spread over it, ordered by the heights that they come from."""
    by_box: dict[int, list[int]] = defaultdict(list)
    for index, box in enumerate(boxes):
        by_box[box].append(index)
    ports: list[Point] = [(0.0, 0.0)] * len(boxes)
    for box, indexes in by_box.items():
        width, height = _size(picture.boxes[box])
        x, y = layout.centres[box]
        step = min(16.0, (height - 10) / len(indexes))
        for place, index in enumerate(sorted(indexes, key=lambda index: heights[index])):
            ports[index] = x + side * width / 2, y + (place - (len(indexes) - 1) / 2) * step
    return ports


def _arrow(arrow: Arrow, points: Sequence[Point]) -> str:
    """Straight lines across layers, curves through the gaps between them."""
    path = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for index, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        bend = (to_x - x) / 2
        path.append(
            f"C{x + bend:.1f},{y:.1f} {to_x - bend:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"
            if index % 2 == 1
            else f"L{to_x:.1f},{to_y:.1f}"
        )
    kind = "arrow strict" if arrow.strict else "arrow"
    names = escape(", ".join(arrow.predicates))
    return f'<path class="{kind}" d={quoteattr(" ".join(path))} marker-end="url(#tip)"><title>{names}</title></path>'


def _label(arrow: Arrow, tip: Point) -> Iterator[str]:
    """The predicates of an arrow, before its tip and on a white background."""
    names = ", ".join(arrow.predicates)
    short = escape(names if len(names) <= _LONGEST_LABEL else names[: _LONGEST_LABEL - 1] + "…")
    place = f'x="{tip[0] - 10:.1f}" y="{tip[1] - 4:.1f}"'
    yield f'<text class="label halo" {place}>{short}</text>'
    yield f'<text class="label" {place}>{short}</text>'


# ── legend ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _legend(picture: Picture, y: float) -> Iterator[str]:
    x = _MARGIN
    for text, kind in (("reads", "arrow"), ("reads under negation or an aggregate", "arrow strict")):
        yield f'<path class="{kind}" d="M{x:.1f},{y:.1f} h30" marker-end="url(#tip)"/>'
        yield f'<text class="legend" x="{x + 38:.1f}" y="{y + 4:.1f}">{text}</text>'
        x += 38 + len(text) * 6.4 + 22
    if any(box.touch is not Touch.NONE for box in picture.boxes):  # the picture of an update
        for touch in (Touch.DIRECT, Touch.REACHED, Touch.GONE):
            yield _rectangle(x, y - 7, 22, 14, 4, FRAME_COLOURS[touch])
            yield f'<text class="legend" x="{x + 30:.1f}" y="{y + 4:.1f}">{touch.value}</text>'
            x += 30 + len(touch.value) * 6.4 + 22
