"""From facts as users give them to rows of term numbers: tuples, Arrow and data frames, and the facts of a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tidelog.errors import ArityError, DataError
from tidelog.facts.results import FactSet
from tidelog.formats.display import counted
from tidelog.formats.tables import columns_of
from tidelog.language.checks import MOST_ARGUMENTS, too_many_arguments
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms

# Rows of Python values that are encoded in a few tenths of a millisecond.
PIECE = 1 << 11


def encode_rows(terms: Terms, name: str, rows: Any) -> Cells | None:
    """The rows of a predicate; None if there are none, since nobody knows how many values they would have."""
    if isinstance(rows, FactSet):
        if not rows._is_encoded_by(terms.table):
            return _encode_tuples(terms, name, list(rows))
        return rows._encoded().cells if len(rows) else None
    if isinstance(rows, set | frozenset | list | tuple):
        return _encode_tuples(terms, name, list(rows))
    columns = columns_of(rows, name)
    return None if columns is None else encode_columns(terms, columns)


def _encode_tuples(terms: Terms, name: str, rows: list[Any]) -> Cells | None:
    if not rows:
        return None
    cells = np.empty((len(rows), len(rows[0]) if isinstance(rows[0], tuple | list) else 0), np.int32)
    for first in range(0, len(rows), PIECE):
        if first:
            terms.between_blocks()
        piece = rows[first : first + PIECE]
        if not all(isinstance(row, tuple | list) and len(row) == cells.shape[1] for row in piece):
            columns_of(rows, name)  # says which row is wrong
        for column in range(cells.shape[1]):
            try:
                cells[first : first + PIECE, column] = terms.encode_values([row[column] for row in piece])
            except DataError as problem:
                raise DataError(f"`{name}`, value {column + 1}: {problem}") from None
    return cells


def encode_columns(terms: Terms, columns: list[Any]) -> Cells:
    """Arrow columns of equal length; a fact without arguments has none."""
    if not columns:
        return np.empty((1, 0), np.int32)
    return np.stack([terms.encode_arrow(column) for column in columns], axis=1)


def check_arity(arities: dict[str, int], predicate: str, name: str, rows: Cells) -> None:
    """Compare rows of a predicate, under the name that they were given by, with what is known of it."""
    known = arities.setdefault(predicate, rows.shape[1])
    if known > MOST_ARGUMENTS:
        raise too_many_arguments(name, known)
    if known != rows.shape[1]:
        raise ArityError(f"`{name}` has {counted(known, 'argument')}, but a row has {counted(rows.shape[1], 'value')}")


def check_arities_of(facts: Iterable[Mapping[str, Cells]], arities: dict[str, int]) -> None:
    """The same for all facts of an update, by predicate."""
    for part in facts:
        for predicate, rows in part.items():
            check_arity(arities, predicate, predicate, rows)
