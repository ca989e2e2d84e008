"""The plots of the documentation show the figures of the tables beside them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from places import ROOT

PLOTS = ROOT / "docs" / "plots"
DRAW = runpy.run_path(str(PLOTS / "draw.py"))
PICTURES = DRAW["PICTURES"]


@pytest.mark.parametrize("name", PICTURES)
def test_tables_have_what_the_plots_show(name: str) -> None:
    plots = list(PICTURES[name]())
    assert plots
    for plot in plots:
        assert all(points for points in plot.series.values()), plot.title
        assert plot.y_label, "units are said"


def test_figures_are_those_of_the_table() -> None:
    (plot,) = PICTURES["materialise"]()
    page = (ROOT / "docs" / "benchmarks" / "materialisation.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| same generation "))
    figures = {name: dict(points)["same generation"] for name, points in plot.series.items()}
    assert f"{figures['tidelog']:g}" in row.split(" | ")
    assert figures["plain Python"] is None, "a time-out"
    assert "> 12 s" in row


def test_every_plot_is_drawn_and_used() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    for name in PICTURES:
        assert (PLOTS / f"{name}.png").exists()
        assert f"plots/{name}.svg" in pages
    drawn = {path.stem for path in Path(PLOTS).iterdir() if path.suffix in (".png", ".svg")}
    assert drawn == set(PICTURES)
