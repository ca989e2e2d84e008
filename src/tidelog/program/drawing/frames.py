"""Frames with lines of text, and arrows between them, as an SVG image that any browser and notebook shows.

Frames are laid out from left to right. What is written in them is escaped: no name can become markup. The styles of an
image hold within it alone, because a notebook puts many images into one page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from tidelog.program.drawing.layering import Layout, Point, lay_out

_MARGIN = 24.0
_PADDING = 10.0
_TITLE = 22.0
_LINE = 24.0
_LINE_GAP = 6.0
_LETTER = 7.25
_TITLE_LETTER = 7.4
_LEGEND_LETTER = 6.4
_LONGEST_LINE = 72
_LONGEST_LABEL = 14
_LABEL = 9.0
_LEGEND = 34.0
_INK = "#1f2328"
_FAINT = "#57606a"

STYLE = f"""
  .tidelog text {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px;
    fill: {_INK}; }}
  .tidelog .title, .tidelog .label, .tidelog .legend {{
    font-family: "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; }}
  .tidelog .title {{ font-size: 12px; font-weight: 600; }}
  .tidelog .label {{ font-size: 9.5px; fill: {_FAINT}; text-anchor: end; }}
  .tidelog .halo {{ stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }}
  .tidelog .legend {{ font-size: 11px; fill: {_FAINT}; }}
  .tidelog .arrow {{ fill: none; stroke: {_FAINT}; stroke-width: 1.4; }}
  .tidelog .dashed {{ stroke-dasharray: 6 4; }}
"""

Colours = tuple[str, str]
"""Fill and border."""


@dataclass(frozen=True, slots=True)
class FrameLine:
    """A line in a frame. A long one is cut; a hint shows `whole`."""

    text: str
    whole: str
    colours: Colours
    struck: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A box with a title above its lines."""

    title: str
    lines: tuple[FrameLine, ...]
    colours: Colours
    dashed: bool = False

    @property
    def size(self) -> tuple[float, float]:
        text = max((len(_short(line.text)) for line in self.lines), default=0) * _LETTER + 2 * _PADDING
        width = max(text, len(_short(self.title)) * _TITLE_LETTER) + 2 * _PADDING
        return width, _TITLE + len(self.lines) * (_LINE + _LINE_GAP) + _PADDING


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow between two frames, by their numbers."""

    source: int
    target: int
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: a kind of arrow, or of frame where it has colours."""

    text: str
    colours: Colours | None = None
    dashed: bool = False


def draw(frames: Sequence[Frame], links: Sequence[Link], legend: Sequence[Key] = ()) -> str:
    """A complete SVG document. Each link leads from a smaller number to a larger one."""
    edges = [(link.source, link.target) for link in links]
    layout = lay_out([frame.size for frame in frames], sorted(set(edges))).moved(_MARGIN, _MARGIN)
    width = max(layout.width + 2 * _MARGIN, 460.0 if legend else 0.0)
    height = layout.height + 2 * _MARGIN + (_LEGEND if legend else 0.0)
    lines = [
        f'<svg class="tidelog" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0.5 L8,4 L0,7.5 z" fill="{_FAINT}"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_arrows(frames, links, edges, layout),
    ]
    for number, frame in enumerate(frames):
        lines.extend(_frame(frame, *layout.centres[number]))
    lines.extend(_legend(legend, height - _LEGEND / 2))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _short(text: str, longest: int = _LONGEST_LINE) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


# ── frames ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _frame(frame: Frame, x: float, y: float) -> Iterator[str]:
    width, height = frame.size
    left, top = x - width / 2, y - height / 2
    dashes = ' stroke-dasharray="5 4"' if frame.dashed else ""
    yield _rectangle(left, top, width, height, 10, frame.colours, dashes)
    yield f'<text class="title" x="{left + _PADDING:.1f}" y="{top + 16:.1f}">{escape(_short(frame.title))}</text>'
    for index, line in enumerate(frame.lines):
        yield from _line(line, left + _PADDING, top + _TITLE + index * (_LINE + _LINE_GAP), width - 2 * _PADDING)


def _line(line: FrameLine, left: float, top: float, width: float) -> Iterator[str]:
    struck = ' text-decoration="line-through"' if line.struck else ""
    yield f"<g><title>{escape(line.whole)}</title>"
    yield _rectangle(left, top, width, _LINE, 6, line.colours)
    place = f'x="{left + _PADDING:.1f}" y="{top + 16:.1f}"'
    yield f'<text {place} xml:space="preserve"{struck}>{escape(_short(line.text))}</text>'
    yield "</g>"


def _rectangle(
    left: float, top: float, width: float, height: float, radius: int, colours: Colours, more: str = ""
) -> str:
    fill, border = colours
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
        f'fill="{fill}" stroke="{border}"{more}/>'
    )


# ── arrows ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _arrows(
    frames: Sequence[Frame], links: Sequence[Link], edges: Sequence[tuple[int, int]], layout: Layout
) -> Iterator[str]:
    sources, targets = [source for source, _ in edges], [target for _, target in edges]
    turns = [[layout.centres[edge[0]], *layout.crossings[edge], layout.centres[edge[1]]] for edge in edges]
    leaving = _ports(sources, [turn[1][1] for turn in turns], frames, layout, side=1)
    arriving = _ports(targets, [turn[-2][1] for turn in turns], frames, layout, side=-1)
    for link, start, turn, end in zip(links, leaving, turns, arriving, strict=True):
        yield _arrow(link, [start, (layout.exits[link.source], start[1]), *turn[1:-1], end])
    arrows_into = Counter(targets)
    for link, end in zip(links, arriving, strict=True):
        if link.label and arrows_into[link.target] * _LABEL <= frames[link.target].size[1]:
            yield from _label(link, end)


def _ports(
    boxes: Sequence[int], heights: Sequence[float], frames: Sequence[Frame], layout: Layout, side: int
) -> list[Point]:
    """Where arrows touch the side of a frame: spread over it, ordered by the heights that they come from."""
    by_box: dict[int, list[int]] = defaultdict(list)
    for index, box in enumerate(boxes):
        by_box[box].append(index)
    ports: list[Point] = [(0.0, 0.0)] * len(boxes)
    for box, indexes in by_box.items():
        width, height = frames[box].size
        x, y = layout.centres[box]
        step = min(16.0, (height - 10) / len(indexes))
        for place, index in enumerate(sorted(indexes, key=lambda index: heights[index])):
            ports[index] = x + side * width / 2, y + (place - (len(indexes) - 1) / 2) * step
    return ports


def _arrow(link: Link, points: Sequence[Point]) -> str:
    """Straight lines across layers, curves through the gaps between them."""
    path = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for index, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        bend = (to_x - x) / 2
        path.append(
            f"C{x + bend:.1f},{y:.1f} {to_x - bend:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"
            if index % 2 == 1
            else f"L{to_x:.1f},{to_y:.1f}"
        )
    kind = "arrow dashed" if link.dashed else "arrow"
    title = f"<title>{escape(link.label)}</title>" if link.label else ""
    return f'<path class="{kind}" d={quoteattr(" ".join(path))} marker-end="url(#tip)">{title}</path>'


def _label(link: Link, tip: Point) -> Iterator[str]:
    """The label of an arrow, before its tip and on a white background."""
    short = escape(_short(link.label, _LONGEST_LABEL))
    place = f'x="{tip[0] - 10:.1f}" y="{tip[1] - 4:.1f}"'
    yield f'<text class="label halo" {place}>{short}</text>'
    yield f'<text class="label" {place}>{short}</text>'


# ── legend ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _legend(keys: Sequence[Key], y: float) -> Iterator[str]:
    x = _MARGIN
    for key in keys:
        if key.colours is None:
            kind, indent = "arrow dashed" if key.dashed else "arrow", 38
            yield f'<path class="{kind}" d="M{x:.1f},{y:.1f} h30" marker-end="url(#tip)"/>'
        else:
            indent = 30
            yield _rectangle(x, y - 7, 22, 14, 4, key.colours)
        yield f'<text class="legend" x="{x + indent:.1f}" y="{y + 4:.1f}">{escape(key.text)}</text>'
        x += indent + len(key.text) * _LEGEND_LETTER + 22
