"""What came and what went, as bars: an SVG image for notebooks. Names are escaped, so that none can become markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tidelog.formats.display import MOST_ROWS

_LONGEST_NAME = 30
_ROW, _MIDDLE, _LONGEST_BAR = 20, 360, 110
_WIDTH = 560
_CAME, _WENT, _FAINT = "#2d8a46", "#cf3a3a", "#57606a"
_FONT = 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12"'


def change_bars(counts: Sequence[tuple[str, int, int]]) -> str:
    """For each predicate, how many of its facts came, to the right, and went, to the left."""
    shown = counts[:MOST_ROWS]
    most = max(max(came, went) for _, came, went in shown)
    height = _ROW * len(shown) + 4
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" {_FONT}>']
    for number, (name, came, went) in enumerate(shown):
        y = number * _ROW + 2
        short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
        lines.append(f'<text x="0" y="{y + 13}" fill="{_FAINT}"><title>{escape(name)}</title>{escape(short)}</text>')
        lines.extend(_bar(y, went, went / most, -1))
        lines.extend(_bar(y, came, came / most, 1))
    return "\n".join([*lines, "</svg>"])


def _bar(y: int, count: int, share: float, side: int) -> Iterator[str]:
    """A bar from the middle to one side, with its count behind it."""
    if not count:
        return
    width = max(1.0, _LONGEST_BAR * share)
    colour, sign, anchor = (_CAME, "+", "start") if side > 0 else (_WENT, "−", "end")
    left = _MIDDLE if side > 0 else _MIDDLE - width
    place = f'x="{_MIDDLE + side * (width + 5):.1f}" y="{y + 13}" text-anchor="{anchor}"'
    yield f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" fill="{colour}"/>'
    yield f'<text {place} fill="{colour}">{sign}{count:,}</text>'
