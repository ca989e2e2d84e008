"""Facts on their way in: NumPy arrays and iterables of rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from tidelog import DataError, KnowledgeBase, TidelogError


def taken(rows: Any) -> list[str]:
    """The facts that rows become, with their types."""
    kb = KnowledgeBase()
    kb.update(add={"p": rows})
    return sorted(map(repr, kb.facts("p")))


NUMBERS = np.array([[0, 1], [2, 3]])


@pytest.mark.plain
@pytest.mark.parametrize(
    ("array", "rows"),
    [
        *((NUMBERS.astype(kind), NUMBERS.tolist()) for kind in ("i1", "i2", "<i4", ">i4", "i8", "u1", "u8", object)),
        *((NUMBERS.astype(kind), NUMBERS.astype(float).tolist()) for kind in ("f2", "f4", "f8", ">f8", "g")),
        (NUMBERS.astype(bool), NUMBERS.astype(bool).tolist()),
        (NUMBERS.T[::-1], [[1, 3], [0, 2]]),
        (np.array([[-0.0, np.nan], [np.inf, 0.5]]), [[0.0, float("nan")], [float("inf"), 0.5]]),
        (np.array([["a", "é"], ["", "longer"]]), [["a", "é"], ["", "longer"]]),
        (np.array([["a\0b"]]), [["a\0b"]]),
        (np.array([["", ""], ["", ""]]), [["", ""]]),
        (np.array([["a", "bc"]], ">U3"), [["a", "bc"]]),
        (np.array([["漢字", "a\0é"], ["x", ""]])[:, ::-1], [["a\0é", "漢字"], ["", "x"]]),
        (np.array([["", ""]], "U0"), [["", ""]]),
        (np.array([["a", 1]], object), [["a", 1]]),
        (np.array([["2020-01-01"]], "M8[D]"), [[date(2020, 1, 1)]]),
        (np.array([["2020-01-01T10:00"]], "M8[ns]"), [[datetime(2020, 1, 1, 10)]]),
        (np.array([[90]], "m8[m]"), [[timedelta(hours=1, minutes=30)]]),
        (np.array([[np.datetime64("2020-01-01")]], object), [[date(2020, 1, 1)]]),
        (np.ma.array(NUMBERS), NUMBERS.tolist()),
        (np.empty((2, 0)), [[]]),
        (np.empty((0, 2)), []),
    ],
)
def test_arrays_are_their_rows(array: Any, rows: list[Any]) -> None:
    assert taken(array) == taken(rows)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "1 dimensions"),
        (np.zeros((1, 1, 1)), "3 dimensions"),
        (np.ma.array(NUMBERS, mask=NUMBERS == 1), "masked"),
        (np.array([[2**63]], np.uint64), "64 bits"),
        (np.array([[b"a"]]), "bytes"),
        (np.array([["2020-01-01", "NaT"]], "M8[D]"), "missing"),
        (np.array([["2020-01-01T00:00:00.000000001"]], "M8[ns]"), "nanoseconds"),
        (np.array([[1j]]), "complex"),
        (np.array([[None]], object), "None"),
        (np.array([["\ud800"]]), "no valid Unicode"),
    ],
)
def test_arrays_of_what_no_fact_holds(array: Any, message: str) -> None:
    kb = KnowledgeBase("p(a).")
    with pytest.raises(DataError, match=message):
        kb.update(add={"p": array})
    assert list(kb.facts("p")) == [("a",)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "b"), ("c",)], "p, row 2: 1 value where the rows before have 2"),
        ((row for row in [("a", "b"), "cd"]), "p, row 2: 'cd' is no row"),
        ({"a": "b"}, "p, row 1: 'a' is no row"),
        ("ab", "str holds no rows"),
        (7, "int holds no rows"),
        ([("a", {})], "`p`, value 2: a fact cannot hold"),
    ],
)
def test_rows_that_are_none(rows: Any, message: str) -> None:
    with pytest.raises(TidelogError, match=message):
        KnowledgeBase().update(add={"p": rows})
