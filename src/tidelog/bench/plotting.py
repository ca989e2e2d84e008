"""Plots of reports, as PNG and SVG, in one style.

Lines are named where they end. What belongs to a category is a row of dots, because dots on a logarithmic axis say
nothing wrong about where zero is, and rows have room for names. A time-out is a hollow arrow at the limit. Legends
stand above the data, never on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tidelog.bench.report import Plot, cell_text

# Colours that everybody can tell apart (Okabe and Ito); the first one is ours.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f", "#b8a800")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_INK, _FAINT = "#1f2328", "#8c959f"
_STYLE = {
    # The same figures make the same file, so that a run again shows no difference but that of its figures.
    "svg.hashsalt": "tidelog",
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.titlesize": "large",
    "font.size": 9.5,
    "grid.color": "#d9dee3",
    "legend.frameon": False,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
# Inches.
_ROW, _SERIES_IN_ROW = 0.14, 0.07
_PANEL = {1: (7.2, 4.2), 2: (5.4, 3.8), 3: (3.7, 3.2)}


def write_plots(plots: Sequence[Plot], prefix: Path) -> list[Path]:
    """Write PREFIX-1.png, PREFIX-1.svg and so on (no number where there is only one picture)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pictures = [list(group) for _, group in groupby(plots, key=lambda plot: plot.picture or id(plot))]
    written = []
    with plt.rc_context(_STYLE):
        for number, panels in enumerate(pictures, 1):
            figure = _picture(plt, panels)
            for suffix in ("png", "svg"):
                path = prefix.with_name(f"{prefix.name}{f'-{number}' if len(pictures) > 1 else ''}.{suffix}")
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
                written.append(path)
            plt.close(figure)
    return written


def _picture(plt: Any, panels: Sequence[Plot]) -> Any:
    """The panels of one picture, two or three in a row."""
    columns = len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3
    rows = -(-len(panels) // columns)
    size = _size_of_rows(panels[0]) if panels[0].bars else (_PANEL[columns][0] * columns, _PANEL[columns][1] * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, plot in zip(grid.flat, panels, strict=False):
        (_draw_rows if plot.bars else _draw_lines)(axes, plot)
    if panels[0].picture:
        figure.suptitle(panels[0].picture, x=0.01, ha="left", fontweight="bold")
    return figure


def _size_of_rows(plot: Plot) -> tuple[float, float]:
    return 8.4, 1.5 + len(_categories(plot)) * (_ROW + _SERIES_IN_ROW * len(plot.series))


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_lines(axes: Any, plot: Plot) -> None:
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    for number, (name, points) in enumerate(plot.series.items()):
        known = [(x, y) for x, y in points if y is not None]
        colour = _colour(plot, name)
        axes.plot(
            *zip(*known, strict=True), color=colour, marker="o", markersize=4, linewidth=2.4 if not number else 1.5
        )
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.grid(axis="y")
    for axis, log in ((axes.xaxis, plot.log_x), (axes.yaxis, plot.log_y)):
        _plain_numbers(axis, log)
    if plot.log_y:
        _whole_decades(axes)
    else:
        axes.set_ylim(bottom=0)
    if len(plot.series) > 1:
        _name_lines(axes, plot)
    else:
        _name_points(axes, *plot.series.values())


def _name_lines(axes: Any, plot: Plot) -> None:
    """The name of each line at its end. Names that would overlap move apart, in the order of the ends."""
    axes.figure.canvas.draw()  # places on the page are known from now on
    ends = []
    for name, points in plot.series.items():
        end = [(x, y) for x, y in points if y is not None][-1]
        ends.append((axes.transAxes.inverted().transform(axes.transData.transform(end))[1], name))
    ends.sort()
    gap = 0.062
    heights: list[float] = []
    for height, _ in ends:
        heights.append(max(height, heights[-1] + gap) if heights else height)
    excess = max(0.0, heights[-1] - 1.0)
    for (_, name), height in zip(ends, heights, strict=True):
        axes.annotate(
            name,
            (1.015, height - excess),
            xycoords="axes fraction",
            va="center",
            fontsize="small",
            color=_colour(plot, name),
            fontweight="bold" if name == next(iter(plot.series)) else "normal",
        )


def _name_points(axes: Any, points: Sequence[tuple[Any, float | None]]) -> None:
    """The figure of each point of a single line."""
    for x, y in points:
        if y is not None:
            axes.annotate(
                cell_text(y),
                (x, y),
                xytext=(1, 7),
                textcoords="offset points",
                ha="right",
                fontsize="small",
                color=_INK,
            )
    axes.margins(x=0.2, y=0.15)


def _whole_decades(axes: Any) -> None:
    """At least two labelled ticks, so that the scale can be read."""
    low, high = axes.get_ylim()
    if high / low < 100:
        axes.set_ylim(min(low, 10 ** _power(low)), max(high, 10 ** (_power(high) + 1)) if high / low < 10 else high)


def _power(value: float) -> int:
    return math.floor(math.log10(value))


# ── rows of dots ─────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_rows(axes: Any, plot: Plot) -> None:
    """A row for each category, from top to bottom, with a dot for each series; what was not measured has none."""
    categories = _categories(plot)
    places = {category: len(categories) - 1 - number for number, category in enumerate(categories)}
    if plot.log_y:
        axes.set_xscale("log")
    step = 0.62 / max(1, len(plot.series) - 1)
    for number, (name, points) in enumerate(plot.series.items()):
        shift = 0.31 - number * step if len(plot.series) > 1 else 0.0
        look = {"color": _colour(plot, name), "linestyle": "none", "markersize": 7 if not number else 5.5}
        known = [(y, places[x] + shift) for x, y in points if y is not None]
        late = [places[x] + shift for x, y in points if y is None]
        axes.plot(*zip(*known, strict=True), marker=_MARKERS[number % len(_MARKERS)], label=name, **look)
        if late:
            axes.plot([plot.limit] * len(late), late, marker=">", markerfacecolor="white", **look)
    if plot.limit is not None:
        axes.axvline(plot.limit, color=_FAINT, linewidth=1, linestyle=":")
        axes.annotate(
            f"▷ took longer than {plot.limit:g} s",
            (plot.limit, 0),
            xytext=(-4, 3),
            ha="right",
            textcoords="offset points",
            xycoords=("data", "axes fraction"),
            fontsize="small",
            color=_FAINT,
        )
    if plot.even is not None:
        axes.axvline(plot.even, color=_INK, linewidth=1)
    axes.set_yticks(list(places.values()), list(places))
    axes.set_ylim(-0.75, len(categories) - 0.4)
    axes.set(xlabel=plot.y_label, ylabel=plot.x_label)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    for place in list(places.values())[1:]:
        axes.axhline(place + 0.5, color="#eef1f4", linewidth=1, zorder=0)
    _plain_numbers(axes.xaxis, plot.log_y)
    if not plot.log_y:
        axes.set_xlim(left=0)
    if len(plot.series) > 1:
        axes.figure.legend(
            title=plot.title,
            title_fontproperties={"size": "large", "weight": "bold"},
            alignment="left",
            loc="outside upper left",
            ncols=len(plot.series),
            fontsize="small",
            handletextpad=0.1,
            columnspacing=1.0,
        )
    else:
        axes.set_title(plot.title)


def _categories(plot: Plot) -> list[Any]:
    return list(dict.fromkeys(x for points in plot.series.values() for x, _ in points))


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _colour(plot: Plot, name: str) -> str:
    return _COLOURS[list(plot.series).index(name) % len(_COLOURS)]


def _plain_numbers(axis: Any, log: bool) -> None:
    """10,000 and 10 M, and not 10⁴ and 1e7; on a logarithmic axis powers of ten have the labels."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    if log:
        axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """A number on an axis."""
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
