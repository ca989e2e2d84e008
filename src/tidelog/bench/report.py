"""What a benchmark yields: tables, plots and checks; how they are printed and written."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tidelog.bench.measure import Failed, Measured

Cell = str | int | float | Measured | Failed | None
"""A measurement shows its CPU time; None shows as a dash."""


@dataclass
class Table:
    """Rows under named columns, and what must be known to read them."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    note: str = ""


@dataclass
class Plot:
    """Lines over an axis, or figures of categories (`bars`), by name of the series; labels say the units.

    A figure of None took longer than `limit` seconds. At the value `even`, categories neither win nor lose. Plots that
    follow each other and have the same `picture` stand side by side, under that title.
    """

    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[Any, float | None]]]
    bars: bool = False
    log_x: bool = False
    log_y: bool = True
    limit: float | None = None
    even: float | None = None
    picture: str = ""


@dataclass
class Check:
    """A figure that is determined exactly, by a paper or by the input."""

    claim: str
    expected: Any
    found: Any

    @property
    def holds(self) -> bool:
        return bool(self.expected == self.found)


@dataclass
class Report:
    """A benchmark's outcome."""

    title: str
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return all(check.holds for check in self.checks)


def factor(ours: Cell, theirs: Cell) -> float | None:
    """How many times faster we are: their time by ours."""
    ours, theirs = seconds(ours), seconds(theirs)
    return None if ours is None or theirs is None else theirs / max(ours, 1e-9)


def ratio(ours: Cell, theirs: Cell) -> str | None:
    """The same for people."""
    times = factor(ours, theirs)
    if times is None:
        return None
    return f"{times:,.0f}×" if times >= 10 else f"{times:.2f}×"


def seconds(cell: Cell) -> float | None:
    """The CPU time in a cell."""
    if isinstance(cell, Measured):
        return cell.cpu
    return cell if isinstance(cell, float) else None


def quickest(cells: Iterable[Cell]) -> Measured | None:
    """The measurement with the least CPU time."""
    return min((cell for cell in cells if isinstance(cell, Measured)), key=lambda cell: cell.cpu, default=None)


def cell_text(cell: Cell) -> str:
    """A cell for people: three significant digits for times."""
    match cell:
        case None:
            return "–"
        case Measured():
            return cell_text(cell.cpu)
        case Failed():
            return cell.reason
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return (
                f"{cell:,.0f}"
                if abs(cell) >= 1000
                else f"{cell:.3g}"
                if abs(cell) >= 0.001 or not cell
                else f"{cell:.2g}"
            )
    return str(cell)


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": processor,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "tidelog": version("tidelog"),
    }


def show(report: Report, console: Console) -> None:
    """Print a report."""
    console.print(Text(report.title, style="bold"))
    console.print(Text(", ".join(machine().values()), style="dim"))
    for table in report.tables:
        console.print(_rich_table(table))
    for check in report.checks:
        sign = Text("✓ ", style="green") if check.holds else Text("✗ ", style="red")
        text = f"{check.claim}: {cell_text(check.found)}"
        console.print(sign + Text(text if check.holds else f"{text}, expected {cell_text(check.expected)}"))


def _rich_table(table: Table) -> RichTable:
    made = RichTable(title=table.title, title_justify="left", caption=table.note or None, caption_justify="left")
    for number, name in enumerate(table.columns):
        numeric = any(isinstance(row[number], int | float | Measured) for row in table.rows)
        made.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(cell_text(cell)) for cell in row))
    return made


def write_json(report: Report, path: Path, options: dict[str, Any]) -> None:
    """Everything, for programs."""
    content = {"machine": machine(), "options": options, **asdict(report)}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
