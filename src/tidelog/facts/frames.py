"""Rows of term numbers as tables of Arrow, pandas and Polars, without a Python object for each value where the columns
allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.store.arrow_columns import decode_arrow

if TYPE_CHECKING:
    from tidelog.facts.results import Encoded


def arrow_table(names: Sequence[str], encoded: Encoded) -> pa.Table:
    """An Arrow table; a column of several kinds, or of IRIs, is a dense union named after the kinds."""
    cells, terms = encoded
    if not cells.shape[1]:
        return _table_without_columns(len(cells))
    return pa.Table.from_arrays([decode_arrow(terms, column) for column in cells.T], names=list(names))


def _table_without_columns(rows: int) -> pa.Table:
    """Facts without arguments, and answers of queries without variables. Without columns Arrow does not know how many
    rows there are; a struct array does.
    """
    return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def pandas_frame(names: Sequence[str], encoded: Encoded) -> Any:
    """A pandas DataFrame."""
    import pandas

    columns = {
        # Explicitly objects: pandas would turn integers among them into floats.
        name: values.to_pandas() if isinstance(values, pa.Array) else pandas.Series(values, dtype=object)
        for name, values in _plain_columns(names, encoded).items()
    }
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(encoded.cells)))


def polars_frame(names: Sequence[str], encoded: Encoded) -> Any:
    """A Polars DataFrame."""
    import polars

    if not encoded.cells.shape[1]:
        return polars.from_arrow(_table_without_columns(len(encoded.cells)))
    series = [
        polars.from_arrow(values).alias(name)
        if isinstance(values, pa.Array)
        else polars.Series(name, values, dtype=polars.Object)
        for name, values in _plain_columns(names, encoded).items()
    ]
    return polars.DataFrame(series)


def _plain_columns(names: Sequence[str], encoded: Encoded) -> dict[str, Any]:
    """Columns of one kind as Arrow arrays, all others as lists of Python values."""
    cells, terms = encoded
    result: dict[str, Any] = {}
    for name, column in zip(names, cells.T, strict=True):
        array = decode_arrow(terms, column)
        result[name] = terms.decode_column(column) if pa.types.is_union(array.type) else array
    return result
