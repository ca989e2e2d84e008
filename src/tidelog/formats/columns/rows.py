"""Rows as Python programs give them: whether something is a table or an iterable of rows, and which row is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidelog.errors import ArityError, DataError
from tidelog.formats.display import counted

Where = Callable[[int], str]
"""The place of a row in messages, by its number from 0 on."""


def is_table(rows: object) -> bool:
    """Whether this has columns, which Arrow reads: a DataFrame, or anything of Arrow."""
    libraries = ("pandas", "pyarrow")
    return hasattr(rows, "__arrow_c_stream__") or type(rows).__module__.partition(".")[0] in libraries


def rows_of(rows: Any, predicate: str) -> list[Any]:
    """The rows of anything that has some, unchecked."""
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise DataError(f"{predicate}: {type(rows).__name__} holds no rows; give tuples, a DataFrame or an Arrow table")
    return list(rows)


def check_rows(rows: Sequence[Any], where: Where) -> int:
    """How many values each row has, if all of them are rows and have as many as the first."""
    if not set(map(type, rows)) <= {tuple, list}:
        for number, row in enumerate(rows):
            if not isinstance(row, tuple | list):
                raise DataError(f"{where(number)}: {row!r:.60} is no row; give a tuple, such as ({row!r:.60},)")
    arity = len(rows[0])
    if set(map(len, rows)) != {arity}:
        number = next(number for number, row in enumerate(rows) if len(row) != arity)
        raise ArityError(
            f"{where(number)}: {counted(len(rows[number]), 'value')} where the rows before have {arity}; "
            "every row of a predicate has the same number of values"
        )
    return arity
