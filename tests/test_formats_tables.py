"""DataFrames, Arrow tables, NumPy arrays and plain rows as columns of facts."""

from __future__ import annotations

import datetime
import enum
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidelog import IRI, ArityError, DataError, Literal
from tidelog.formats import columns_of, values_of
from tidelog.values import Row, identity


def rows_of(data: Any) -> list[Row] | None:
    columns = columns_of(data, "p")
    return None if columns is None else list(zip(*map(values_of, columns), strict=True))


def constants(rows: list[Row] | None) -> Any:
    return rows and [[identity(value) for value in row] for row in rows]


class Colour(enum.IntEnum):
    RED = 1


FRAME = {"name": ["a", "b"], "size": [1, 2], "weight": [0.5, 1.5], "good": [True, False]}
FRAME_ROWS: list[Row] = [("a", 1, 0.5, True), ("b", 2, 1.5, False)]


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame(FRAME),
        pd.DataFrame(FRAME, index=[7, 7]),
        pd.DataFrame(FRAME).astype({"name": "category", "size": "Int32", "good": "boolean"}),
        pd.DataFrame(FRAME).astype({"name": "string[pyarrow]"}),
        pd.DataFrame(FRAME).astype(object),
        pl.DataFrame(FRAME),
        pl.DataFrame(FRAME).with_columns(pl.col("name").cast(pl.Categorical), pl.col("size").cast(pl.UInt8)),
        pa.table(FRAME),
        pa.table(FRAME).to_batches()[0],
        pa.concat_tables([pa.table(FRAME).slice(0, 1), pa.table(FRAME).slice(1)]),
        pa.RecordBatchReader.from_batches(pa.table(FRAME).schema, pa.table(FRAME).to_batches()),
        FRAME_ROWS,
        [list(row) for row in FRAME_ROWS],
        iter(FRAME_ROWS),
        dict.fromkeys(FRAME_ROWS),
        [(np.str_("a"), np.int64(1), np.float32(0.5), np.bool_(True)), ("b", Colour.RED + 1, 1.5, False)],
    ],
)
def test_every_table_gives_the_same_rows(data: Any) -> None:
    assert constants(rows_of(data)) == constants(FRAME_ROWS)


def test_mixed_rows_keep_each_kind() -> None:
    rows: list[Row] = [(1,), (1.0,), (True,), ("1",), (IRI("http://x"),), (Literal("x", language="en"),), (Colour.RED,)]
    assert constants(rows_of(rows)) == constants([*rows[:-1], (1,)])
    assert constants(rows_of(pd.DataFrame({"x": [row[0] for row in rows]}))) == constants([*rows[:-1], (1,)])


def test_numpy_arrays_are_rows() -> None:
    assert rows_of(np.array([[1, 2], [3, 4]])) == [(1, 2), (3, 4)]
    assert rows_of(np.array([["a", "b"]])) == [("a", "b")]
    assert rows_of(np.array([["a", 1]], dtype=object)) == [("a", 1)]


@pytest.mark.parametrize(
    "data", [[], pd.DataFrame(FRAME).head(0), pl.DataFrame(FRAME).head(0), pa.table({}), np.zeros((0, 2))]
)
def test_no_rows(data: Any) -> None:
    assert columns_of(data, "p") is None


def test_columns_share_memory_with_arrow() -> None:
    table = pa.table({"x": pa.array(range(1000)), "y": pa.array(map(str, range(1000)))})
    columns = columns_of(table, "p")
    assert columns is not None
    for mine, theirs in zip(columns, table.columns, strict=True):
        assert mine.buffers()[1].address == theirs.chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ([("a",), (None,)], "p, row 2, column 1: a missing value"),
        ([("a", datetime.date(2020, 1, 1))], "p, row 1, column 2: a fact cannot hold a value of type date"),
        ([("a", ("b",))], "type tuple"),
        ([(1,), (2**63,)], "p, row 2, column 1: the integer .* 64 bits"),
        ([("a",), ("\ud800",)], "p, row 2, column 1: .*surrogate"),
        ([(IRI("\ud800"),)], "surrogate"),
        ([(Literal("x", language="no such"),)], "p, row 1, column 1: 'no such' is no language tag"),
        (["ab"], "p, row 1: 'ab' is no row"),
        ("ab", "str holds no rows"),
        (3, "int holds no rows"),
        (np.zeros(3), "1 dimensions"),
        (np.array([[1, 2j]]), "p, column 1: Arrow has no such values"),
        (np.zeros((1, 2), ">i8"), "p, column 1: Arrow has no such values"),
        (np.ma.array([[1, 2]], mask=[[False, True]]), "p: an array with masked values"),
        (pd.DataFrame({"x": [2j]}), "p, column 'x': Arrow has no such values"),
        (pd.DataFrame({"x": pd.arrays.SparseArray([1, 2])}), "p, column 'x': Arrow has no such values"),
        (pd.DataFrame({"x": [1.0, None]}), "column 'x', row 2: a missing value"),
        (pd.DataFrame({"x": ["a", None]}), "row 2, column 1: a missing value"),
        (
            pd.DataFrame({"when": [pd.Timestamp("2020-01-01")]}),
            "column 'when': facts cannot hold values of type timestamp",
        ),
        (pl.DataFrame({"x": [1, None]}), "column 'x', row 2: a missing value"),
        (pl.DataFrame({"x": [[1]]}), "column 'x': facts cannot hold"),
        (pl.DataFrame({"x": [object()]}), "cannot be turned into Arrow|cannot hold"),
        (pa.table({"x": pa.array([2**64 - 1], pa.uint64())}), "64 bits"),
        # A null that only the dictionary holds, and that nobody counts.
        (pa.table({"x": pa.DictionaryArray.from_arrays([0, 1], pa.array(["a", None]))}), "row 2: a missing value"),
    ],
)
def test_values_that_no_fact_can_hold(data: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        columns_of(data, "p")


def test_rows_of_different_lengths() -> None:
    with pytest.raises(ArityError, match="p, row 3: 1 value where the rows before have 2"):
        columns_of([("a", "b"), ("c", "d"), ("e",)], "p")


def test_unions_of_unknown_children_are_refused() -> None:
    codes, offsets = pa.array([0], pa.int8()), pa.array([0], pa.int32())
    union = pa.UnionArray.from_dense(codes, offsets, [pa.array([1])], ["date"])
    with pytest.raises(DataError, match="a union with a child"):
        columns_of(pa.table({"x": union}), "p")
    mixed = columns_of([(1,), ("a",)], "p")
    assert mixed is not None
    assert rows_of(pa.table({"x": mixed[0]})) == [(1,), ("a",)]
