"""From facts as users give them to rows of term numbers: tuples, arrays, data frames, facts of a change, files.

A file can hold far more than its size on disk: a kilobyte of gzip is a megabyte of rows. So limits are checked batch
by batch, before an update begins. Rows that repeat are one fact: duplicates are dropped before anything is refused, so
that the memory needed follows the limit and not the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.engine.engine import Engine
from tidelog.errors import ArityError, DataError, LimitError
from tidelog.extras import needing
from tidelog.facts.results import FactSet
from tidelog.formats.columns.rows import check_rows, is_table, rows_of
from tidelog.formats.display import counted
from tidelog.language.checks import MOST_ARGUMENTS, too_many_arguments
from tidelog.machine.jit import working_time
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms
from tidelog.values import INTEGER_MAX

Item = TypeVar("Item")

# Rows of Python values that are encoded in a few tenths of a millisecond.
PIECE = 1 << 11


def encode_rows(terms: Terms, name: str, rows: Any) -> Cells | None:
    """The rows of a predicate; None if there are none, since nobody knows how many values they would have."""
    if isinstance(rows, FactSet):
        if rows._terms is not terms.table:
            return _encode_tuples(terms, name, list(rows))
        return rows._encoded().cells if len(rows) else None
    if isinstance(rows, np.ndarray):
        return _encode_array(terms, name, rows)
    if is_table(rows):
        with needing(f"{name}: a table of facts"):
            from tidelog.formats.columns.tables import columns_of

        columns = columns_of(rows, name)
        return None if columns is None else encode_columns(terms, columns)
    return _encode_tuples(terms, name, rows_of(rows, name))


def _encode_array(terms: Terms, name: str, array: npt.NDArray[Any]) -> Cells | None:
    """The rows of a NumPy array; those of numbers and of texts need no Python object for each value."""
    if array.ndim != 2:
        raise DataError(f"{name}: an array of {array.ndim} dimensions; give one with two, a fact per row")
    if np.ma.is_masked(array):
        raise DataError(f"{name}: an array with masked values; facts have no nulls: leave these rows out")
    texts = array.dtype.kind == "U" and array.dtype.itemsize > 0
    if not array.size or not (texts or _holds_numbers(array)):
        # Of moments that count nanoseconds, Python's own values would be bare integers.
        rows = [list(row) for row in array] if array.dtype.kind in "Mm" else array.tolist()
        return _encode_tuples(terms, name, rows)
    encode = terms.encode_padded if texts else terms.encode_numbers
    return np.stack([encode(np.asarray(column)) for column in array.T], axis=1)


def _holds_numbers(array: npt.NDArray[Any]) -> bool:
    """Whether all values fit in 64 bits because of their type; of unsigned ones, some may not."""
    if array.dtype.kind == "u":
        return bool(array.max() <= INTEGER_MAX)
    return array.dtype.kind in "bif" and array.dtype.itemsize <= 8


def _encode_tuples(terms: Terms, name: str, rows: list[Any]) -> Cells | None:
    if not rows:
        return None
    cells = np.empty((len(rows), len(rows[0]) if isinstance(rows[0], tuple | list) else 0), np.int32)
    for first in range(0, len(rows), PIECE):
        if first:
            terms.between_blocks()
        piece = rows[first : first + PIECE]
        if not all(isinstance(row, tuple | list) and len(row) == cells.shape[1] for row in piece):
            check_rows(rows, lambda row: f"{name}, row {row + 1}")  # says which row is wrong
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
    from tidelog.store.arrow_columns import encode_arrow

    return np.stack([encode_arrow(terms, column) for column in columns], axis=1)


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


# --- facts of files, within the limits of the knowledge base --------------------------------------------------------


def in_time(items: Iterable[Item], timeout: float | None) -> Iterator[Item]:
    """Items that come within some seconds; readers of files check that while they look for the next one."""
    from tidelog.formats.files.byte_files import after_block

    began, iterator = working_time(), iter(items)

    def check() -> None:
        if timeout is not None and working_time() - began > timeout:
            what = f"reading the facts took more than {timeout} s; give it more time, or less to read"
            raise LimitError(what, "timeout")

    item: Item | None
    while True:
        former = after_block.set(check)
        try:
            item = next(iterator, None)
        finally:
            after_block.reset(former)
        check()
        if item is None:
            return
        yield item


class LoadedRows:
    """Rows by predicate; there may be no more different ones than the limit on facts allows."""

    def __init__(self, engine: Engine) -> None:
        self._limit = engine.limits.max_facts
        self._held: dict[str, list[Cells]] = {}
        self._distinct: dict[str, int] = {}  # rows of a predicate that are known to be different
        self._fresh = 0  # rows that came since the last count
        named = [name for name in engine.store.named() if not name.startswith("#")]
        relations = {name: engine.explicit_relation(name) for name in named}
        self._explicit = {name: found.explicit_count for name, found in relations.items() if found is not None}

    def take(self, predicate: str, rows: Cells, place: str) -> None:
        """Keep the rows of a batch from some place."""
        self._held.setdefault(predicate, []).append(rows)
        self._fresh += len(rows)
        known = sum(self._distinct.values())
        # Counting again pays only once there is as much to count as was counted.
        if self._limit is None or known + self._fresh <= self._limit or self._fresh < known:
            return
        self._count()
        if self._least() > self._limit:
            raise LimitError(
                f"more than {self._limit} facts: {place} brings the number of different ones that are given to "
                f"{self._least()}; allow more, or load less",
                "max_facts",
            )

    def _count(self) -> None:
        """Drop rows that repeat."""
        for predicate, parts in self._held.items():
            if len(parts) > 1 or self._distinct.get(predicate) != len(parts[0]):
                rows = distinct_rows(np.concatenate(parts))
                self._held[predicate], self._distinct[predicate] = [rows], len(rows)
        self._fresh = 0

    def _least(self) -> int:
        """The least number of facts there will be: all explicit ones stay, and some of them may come again."""
        grown = (max(0, count - self._explicit.get(name, 0)) for name, count in self._distinct.items())
        return sum(self._explicit.values()) + sum(grown)

    def all(self) -> dict[str, Cells]:
        """The rows of each predicate as one array. They are handed over one predicate after the other, so that as few
        as possible are in memory twice.
        """
        return {predicate: np.concatenate(self._held.pop(predicate)) for predicate in list(self._held)}


def distinct_rows(rows: Cells) -> Cells:
    """Rows without those that repeat, in any order."""
    if rows.shape[1] == 0:
        return rows[:1]
    return np.unique(row_keys(rows)).view(np.int32).reshape(-1, rows.shape[1])


def row_keys(rows: Cells) -> npt.NDArray[Any]:
    """Each row as one value: equal rows have equal values."""
    if not rows.shape[1]:
        return np.zeros(len(rows), np.int32)
    whole: npt.NDArray[np.void] = np.ascontiguousarray(rows).view(np.dtype((np.void, 4 * rows.shape[1]))).ravel()
    return whole.view({4: np.int32, 8: np.int64}.get(whole.itemsize, whole.dtype))
