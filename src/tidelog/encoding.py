"""Facts as the user gives them, to rows of term numbers: tuples, Arrow and data frames, and the facts of a change."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.errors import DataError
from tidelog.formats.tables import columns_of
from tidelog.results import FactSet
from tidelog.store.records import Cells
from tidelog.store.terms import Terms


def encode_rows(terms: Terms, name: str, rows: Any) -> Cells | None:
    """The rows of a predicate; None where there are none, whose number of values nobody knows."""
    if isinstance(rows, FactSet):
        if rows._terms is not terms:
            return _encode_tuples(terms, name, list(rows))
        return rows._cells() if len(rows) else None
    if isinstance(rows, set | frozenset | list | tuple):
        return _encode_tuples(terms, name, list(rows))
    columns = columns_of(rows, name)
    return None if columns is None else encode_columns(terms, columns)


def _encode_tuples(terms: Terms, name: str, rows: list[Any]) -> Cells | None:
    if not rows:
        return None
    if not all(isinstance(row, tuple | list) for row in rows):
        columns_of(rows, name)  # says which row is none
    arity = len(rows[0])
    if any(len(row) != arity for row in rows):
        columns_of(rows, name)  # says which row is longer or shorter
    cells = np.empty((len(rows), arity), np.int32)
    for column in range(arity):
        try:
            cells[:, column] = terms.encode_values([row[column] for row in rows])
        except DataError as problem:
            raise DataError(f"`{name}`, value {column + 1}: {problem}") from None
    return cells


def encode_columns(terms: Terms, columns: list[Any]) -> Cells:
    """Arrow columns of equal length; a fact without arguments has none."""
    if not columns:
        return np.empty((1, 0), np.int32)
    return np.stack([terms.encode_arrow(column) for column in columns], axis=1)
