"""Draws the plots of the documentation from the tables beside them, so that both always show the same figures.

`make plots`, after a table has changed. The drawing itself is that of `tidelog bench NAME --plot`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.bench.report import Plot

HERE = Path(__file__).parent
PAGES = HERE.parent / "benchmarks"

Points = list[tuple[object, float | None]]


class Table:
    """A table of a page: the first one whose heading or caption contains a text."""

    def __init__(self, page: str, caption: str) -> None:
        text = (PAGES / page).read_text(encoding="utf-8")
        found = re.search(rf"{re.escape(caption)}[^\n]*\n(?:(?!\|)[^\n]*\n)*((?:\|[^\n]*\n)+)", text)
        if found is None:
            raise ValueError(f"{page} has no table below `{caption}`")
        lines = [line.strip("| \n").split(" | ") for line in found[1].splitlines()]
        self.columns, self.rows = lines[0], lines[2:]

    def points(self, column: str | int, x: Sequence[int] = (0,), unit: float = 1.0) -> Points:
        """A column over the first one, or over several joined. What took too long is None; a dash is left out."""
        place = self.columns.index(column) if isinstance(column, str) else column
        return [
            (", ".join(row[each] for each in x), None if row[place].startswith(">") else number(row[place]) * unit)
            for row in self.rows
            if row[place] not in ("–", "")
        ]

    def line(self, column: str, unit: float = 1.0) -> Points:
        """A column over the numbers of the first one."""
        return [(number(str(x)), y) for x, y in self.points(column, unit=unit)]


def number(text: str) -> float:
    return float(text.removesuffix(" (again)").replace(",", "").rstrip("×"))


def materialise() -> Iterator[Plot]:
    table = Table("materialisation.md", "**size 1, seed 0**")
    for row in table.rows:
        row[0] += ", with modules" if row[1] == "on" else ""
    names = ("tidelog", "DuckDB", "clingo", "SWI-Prolog", "plain Python")
    series = {name: table.points(name) for name in names}
    yield Plot("Materialisation, one thread", "", "CPU seconds", series, bars=True, limit=12)


def rules() -> Iterator[Plot]:
    table = Table("rule-updates.md", "**Fig. 7 and 8")
    series = {"rule added": table.points(2), "rule deleted": table.points(4)}
    label = "times faster than reasoning from scratch"
    yield Plot("A rule of RS2 comes or goes", "", label, series, bars=True, even=1)


def scale() -> Iterator[Plot]:
    table = Table("updates-and-scale.md", "**Closure of chains")
    for title, column, unit in (
        ("materialise everything", "CPU s", "CPU seconds"),
        ("an update of 10 + 10 facts", "update of 10 + 10, ms", "CPU ms"),
        ("memory", "MB", "MB"),
    ):
        series = {title: table.line(column)}
        yield Plot(title, "explicit facts", unit, series, log_x=True, picture="As the data grow")


def modular() -> Iterator[Plot]:
    table = Table("modular.md", "**Table 1: materialisation**")
    series = {"with modules": table.points("Mat-Mod"), "without": table.points("Mat")}
    yield Plot("Materialisation, closures as modules or not", "", "CPU seconds", series, bars=True)


def bf() -> Iterator[Plot]:
    for name in ("LUBM-L", "UOBM", "Claros-L", "Claros-LE"):
        table = Table("backward-forward.md", f"**{name}: what auto does**")
        columns = {"auto": "auto s", "B/F": "B/F s", "DRed": "DRed s", "again": "again s"}
        series = {title: table.line(column) for title, column in columns.items()}
        picture = "Deleting facts, or materialising again"
        yield Plot(name, "deleted facts", "CPU seconds", series, log_x=True, picture=picture)


def choice() -> Iterator[Plot]:
    for name in ("DAG, modules off", "cliques, modules off"):
        table = Table("choice.md", f"**{name}: delete**")
        series = {column: table.line(column) for column in table.columns[1:-1]}
        picture = "What auto chooses, and what every algorithm takes"
        yield Plot(name, "facts to delete", "CPU ms", series, log_x=True, picture=picture)


def dynamic() -> Iterator[Plot]:
    table = Table("fully-dynamic.md", "**Streams of 50 updates")
    one = dict(table.points("one at a time ms", (0, 1)))
    series: dict[str, Points] = {}
    for ahead in (1, 2, 5, 10):
        times = table.points(f"live, {ahead} ahead, ms", (0, 1))
        series[f"{ahead} ahead"] = [(row, (one[row] or 0) / time) for row, time in times if time]
    title = "Live updates: how many may wait while one is in work"
    yield Plot(title, "", "times faster than one at a time", series, bars=True, log_y=False, even=1)


def peers() -> Iterator[Plot]:
    series: dict[str, Points] = {}
    for title in ("DAG, 2,000 nodes, right-linear", "same generation", "Andersen points-to", "LUBM(10), 98 rules"):
        for engine, seconds in Table("peers.md", f"**{title} (").points("1 deleted, ms", unit=0.001):
            if engine != "tidelog, modules off":
                series.setdefault(str(engine), []).append((title, seconds))
    title = "One fact is deleted: what it takes until all conclusions are right again"
    yield Plot(title, "", "CPU seconds", series, bars=True, limit=120)


PICTURES = {each.__name__: each for each in (materialise, rules, scale, modular, bf, choice, dynamic, peers)}

if __name__ == "__main__":
    from tidelog.bench.plotting import write_plots

    for name, plots in PICTURES.items():
        write_plots(list(plots()), HERE / name)
