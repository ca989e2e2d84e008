"""Plots of reports, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.bench.report import Plot


def write_plots(plots: list[Plot], prefix: Path) -> list[Path]:
    """Write PREFIX-1.png, PREFIX-1.svg and so on (no number where there is only one plot)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # The same figures make the same file, so that a run again shows no difference but that of its figures.
    plt.rcParams["svg.hashsalt"] = "tidelog"
    written = []
    for number, plot in enumerate(plots, 1):
        figure, axes = plt.subplots(figsize=(9, 5) if plot.bars else (7, 4.2), layout="constrained")
        (_draw_bars if plot.bars else _draw_lines)(axes, plot)
        axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
        axes.grid(axis="y", alpha=0.3)
        if len(plot.series) > 1:
            axes.legend(fontsize="small")
        for suffix in ("png", "svg"):
            path = prefix.with_name(f"{prefix.name}{f'-{number}' if len(plots) > 1 else ''}.{suffix}")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
            written.append(path)
        plt.close(figure)
    return written


def _draw_lines(axes: Any, plot: Plot) -> None:
    for name, points in plot.series.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=4, label=name)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")


def _draw_bars(axes: Any, plot: Plot) -> None:
    """Bars side by side for each category; one that was not measured is left out."""
    categories = list(dict.fromkeys(x for points in plot.series.values() for x, _ in points))
    width = 0.8 / len(plot.series)
    for number, (name, points) in enumerate(plot.series.items()):
        places = [categories.index(x) - 0.4 + width * (number + 0.5) for x, _ in points]
        axes.bar(places, [y for _, y in points], width, label=name)
    axes.set_xticks(range(len(categories)), categories, rotation=25, ha="right", fontsize="small")
    if plot.log_y:
        axes.set_yscale("log")
