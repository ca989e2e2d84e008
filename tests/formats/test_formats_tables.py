"""DataFrames, Arrow tables, NumPy arrays and plain rows as columns of facts."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog import IRI, ArityError, DataError, KnowledgeBase, Literal
from tidelog.formats import FactBatch, columns_of, read_facts, values_of
from tidelog.formats.columns.tables import CONSTANT_KIND, KIND_KEY
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


@pytest.mark.parametrize("order", "<>")
def test_numpy_texts_keep_nul(order: str) -> None:
    rows = [["a\0b", ""], ["\0", "\0\0c"]]
    # NumPy pads texts with NUL, so it loses those at the end.
    assert rows_of(np.array(rows, f"{order}U4")) == [("a\0b", ""), ("", "\0\0c")]
    assert rows_of(np.zeros((1, 2), "U0")) == [("", "")]


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
        ([("a", object())], "p, row 1, column 2: a fact cannot hold a value of type object"),
        ([("a", ["b"])], "type list"),
        ([("a", (["b"],))], "p, row 1, column 2: a fact cannot hold .* of type list"),
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
        (np.array([["a", "\ud800"]]), "p, column 2: Arrow has no such values"),
        (np.ma.array([[1, 2]], mask=[[False, True]]), "p: an array with masked values"),
        (pd.DataFrame({"x": [2j]}), "p, column 'x': Arrow has no such values"),
        (pd.DataFrame({"x": pd.arrays.SparseArray([1, 2])}), "p, column 'x': Arrow has no such values"),
        (pd.DataFrame({"x": [1.0, None]}), "column 'x', row 2: a missing value"),
        (pd.DataFrame({"x": ["a", None]}), "row 2, column 1: a missing value"),
        (
            pd.DataFrame({"when": [pd.Period("2020-01")]}),
            "column 'when': ",
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


# ── arrays that are not what they claim ───────────────────────────────────────────────────────────────────────────────


def texts(data: bytes, offsets: list[int], wide: bool = False) -> pa.Array:
    """An array of strings of which only the sizes of the buffers have been checked."""
    type_, width = (pa.large_string(), np.int64) if wide else (pa.string(), np.int32)
    buffers = [None, pa.py_buffer(np.array(offsets, width).tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, len(offsets) - 1, buffers)


def union(children: list[pa.Array], names: list[str], codes: list[int], offsets: list[int]) -> pa.Array:
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    buffers = [
        None,
        pa.py_buffer(np.array(codes, np.int8).tobytes()),
        pa.py_buffer(np.array(offsets, np.int32).tobytes()),
    ]
    return pa.Array.from_buffers(pa.dense_union(fields), len(codes), buffers, children=children)


def indices(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int32())


def dictionary(places: list[int], values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(indices(places), values, safe=False)


BAD_TEXT = texts(b"a\xffb", [0, 1, 3])
HALF_A_CHARACTER = texts("é".encode(), [0, 1, 2])
SURROGATE = texts(b"\xed\xa0\x80", [0, 3])
VIEWS = pa.array(["a", "a long text that lies elsewhere"], pa.string_view())
UNSOUND = {
    "bytes that are no UTF-8": BAD_TEXT,
    "the same, wide": texts(b"a\xffb", [0, 1, 3], wide=True),
    "a character cut in two": HALF_A_CHARACTER,
    "half of a surrogate pair": SURROGATE,
    "a slice": BAD_TEXT.slice(1),
    "chunks": pa.chunked_array([pa.array(["a"]), BAD_TEXT]),
    "offsets that go back": texts(b"abcd", [0, 3, 1, 4]),
    "offsets below 0": texts(b"abcd", [0, -1, 4]),
    "offsets beyond the text": texts(b"abcd", [0, 9, 4]),
    "a dictionary": dictionary([0, 1], BAD_TEXT),
    "a dictionary whose bad text is not used": dictionary([0, 0], BAD_TEXT),
    "an index beyond the dictionary": dictionary([0, 2], pa.array(["a", "b"])),
    "an index below 0": dictionary([0, -1], pa.array(["a", "b"])),
    "an index into an empty dictionary": dictionary([0], pa.array([], pa.string())),
    "a child": union([BAD_TEXT], ["str"], [0, 0], [0, 1]),
    "an IRI": union([BAD_TEXT], ["iri"], [0, 0], [0, 1]),
    "a literal": union([BAD_TEXT], ["literal"], [0, 0], [0, 1]),
    "a code that the union does not have": union([pa.array(["a"])], ["str"], [0, 5], [0, 0]),
    "a code below 0": union([pa.array(["a"])], ["str"], [-1], [0]),
    "an offset beyond the child": union([pa.array(["a"])], ["str"], [0], [1]),
    "an offset below 0": union([pa.array(["a"])], ["str"], [0], [-1]),
    "views": pa.Array.from_buffers(VIEWS.type, 2, [None, VIEWS.buffers()[1], pa.py_buffer(b"\xff" * 31)]),
}


@pytest.mark.plain
@pytest.mark.parametrize("array", UNSOUND.values(), ids=UNSOUND)
def test_arrays_that_are_not_what_they_say_are_refused(array: Any) -> None:
    """Through the front door as a table, and through the dictionary itself; neither keeps anything."""
    kb = KnowledgeBase("p(a).")
    table = pa.Table.from_arrays([array], names=["x"])
    batch = FactBatch("p", [array], "somewhere", 1)
    for take in (lambda: kb.update(add={"p": table}), lambda: kb.load([batch])):
        with pytest.raises(DataError, match=r"damaged|null|missing"):
            take()
    assert list(kb.facts("p")) == [("a",)]
    assert len(kb._engine.store.terms) == 2


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([b"a"]), "binary"),
        (union([pa.array([1])], ["iri"], [0], [0]), "iri"),
        (union([pa.array([1])], ["literal"], [0], [0]), "literal"),
        (union([pa.array(["no literal"])], ["literal"], [0], [0]), "no literal"),
        (union([pa.array(["a", None])], ["str"], [0], [1]), "null|missing"),
        (union([pa.array([2**63], pa.uint64())], ["int"], [0], [0]), "type dense_union|bounds"),
        (dictionary([0, 1], pa.array(["a", None])), "null|missing"),
        (pa.array([["a"]]), "list"),
        (dictionary([0], pa.array([b"a"])), "binary"),
    ],
)
def test_columns_that_hold_no_facts(array: pa.Array, reason: str) -> None:
    kb = KnowledgeBase()
    for take in (
        lambda: kb.update(add={"p": pa.table({"x": array})}),
        lambda: kb.load([FactBatch("p", [array], "somewhere", 1)]),
    ):
        with pytest.raises(DataError, match=reason):
            take()
    assert len(kb) == 0


@pytest.mark.plain
def test_what_no_row_points_to_does_not_matter() -> None:
    kb = KnowledgeBase()
    kb.load([FactBatch("p", [dictionary([0, 0], pa.array(["a", None]))], "somewhere", 1)])
    kb.load([FactBatch("p", [union([pa.array(["b", None])], ["str"], [0], [0])], "somewhere", 1)])
    kb.load([FactBatch("p", [dictionary([], BAD_TEXT)], "somewhere", 1)])
    assert sorted(kb.facts("p")) == [("a",), ("b",)]
    assert len(kb._engine.store.terms) == 3


@pytest.mark.plain
def test_slices_and_codes_of_unions_are_minded() -> None:
    fields = [pa.field("int", pa.int64()), pa.field("iri", pa.string())]
    buffers = [None, pa.py_buffer(bytes([7, 9, 7, 9])), pa.py_buffer(np.array([0, 0, 1, 1], np.int32).tobytes())]
    children = [pa.array([1, 2]), pa.array(["a", "é"])]
    column = pa.Array.from_buffers(pa.dense_union(fields, [7, 9]), 4, buffers, children=children)
    for part, expected in ((column, {1, 2, IRI("a"), IRI("é")}), (column.slice(1, 2), {IRI("a"), 2})):
        for rows in (pa.table({"x": part}), pa.table({"x": part}).to_batches()[0]):
            assert {value for (value,) in rows_of(rows) or ()} == expected
        kb = KnowledgeBase()
        kb.load([FactBatch("p", [part], "somewhere", 1)])
        assert set(kb.facts("p")) == {(value,) for value in expected}


def test_sound_texts_of_all_kinds_come_in() -> None:
    words = ["", "a", "é", "\U0001f30a" * 5, "b" * 100]
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(words, type_)
        for column in (array, array.slice(1, 3), pa.chunked_array([array, array.slice(2)])):
            kb = KnowledgeBase()
            kb.load([FactBatch("p", [column], "somewhere", 1)])
            assert set(kb.facts("p")) == {(word,) for word in column.to_pylist()}


@pytest.mark.parametrize("metadata", [{}, {KIND_KEY: CONSTANT_KIND}])
def test_buffers_may_be_larger_than_their_arrays(metadata: dict[bytes, bytes]) -> None:
    words = [b'"a"', b'"bc"']
    offsets = np.array([0, 3, 7], np.int32).tobytes() + b"\xff" * 3
    array = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(words) + b"\xff")]
    )
    table = pa.table([array], schema=pa.schema([pa.field("x", pa.string(), metadata=metadata)]))
    expected = [("a",), ("bc",)] if metadata else [(word.decode(),) for word in words]
    assert rows_of(table) == expected
    assert rows_of(table.slice(1)) == expected[1:]


def test_parquet_with_texts_that_are_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": BAD_TEXT}), tmp_path / "p.parquet")
    kb = KnowledgeBase()
    with pytest.raises(DataError, match=r"p\.parquet from row 1, column 'x': the Arrow array is damaged"):
        kb.load(read_facts(tmp_path))
    assert len(kb) == 0


def test_frames_of_literals_and_records_come_back() -> None:
    kb = KnowledgeBase('p(1, [2, x]). p(2, "2024-02-29"^^xsd:date). p(3, 4).')
    for frame in (kb.facts("p").to_pandas(), kb.facts("p").to_polars(), kb.facts("p").to_arrow()):
        again = KnowledgeBase()
        again.update(add={"p": frame})
        assert again.facts("p") == kb.facts("p")
