"""Facts and figures for people: tables for terminals (rich) and for notebooks (HTML), counts, rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidelog.language.literals import render_value
from tidelog.values import Row

MOST_ROWS = 20
MOST_EXAMPLES = 3

Cell = str | int | float


def counted(number: int, noun: str) -> str:
    """`1 fact`, `2 facts`"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cell_text(cell: Cell) -> str:
    """A cell of a table: integers with separators, times in seconds with three digits."""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.3f}" if isinstance(cell, float) else cell


def rich_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str = "") -> Any:
    """A table for rich; numbers to the right. Title and caption may be wider than it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table()
    body = [list(row) for row in rows]
    for number, name in enumerate(columns):
        numeric = all(isinstance(row[number], int | float) for row in body)
        made.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in body:
        made.add_row(*(Text(cell_text(cell)) for cell in row))
    return Group(Text(title, "italic"), made, *([Text(caption, "dim italic")] if caption else []))


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str = "") -> str:
    """The same table for a notebook."""
    from html import escape

    def shown(cell: Cell) -> str:
        side = "right" if isinstance(cell, int | float) else "left"
        return f'<td style="text-align: {side}">{escape(cell_text(cell))}</td>'

    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "\n".join(f"<tr>{''.join(map(shown, row))}</tr>" for row in rows)
    below = f"<div><i>{escape(caption)}</i></div>" if caption else ""
    return f"<div><b>{escape(title)}</b></div>\n<table>\n<tr>{head}</tr>\n{body}\n</table>{below}"


def row_text(row: Row) -> str:
    """A row as the language writes it: `(a, "b c", 3)`."""
    return f"({', '.join(map(render_value, row))})"


def more_text(total: int, shown: int) -> str:
    """The line below a table that does not show all rows."""
    return f"… {total - shown:,} more of {total:,}" if total > shown else ""
