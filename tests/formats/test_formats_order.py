"""The order in which constants are printed and written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import IRI, Literal
from tidelog.formats import columns_of, sorted_columns, sorted_rows, values_of
from tidelog.values import Row, Value, identity

ORDERED: list[Value] = [
    False, True, math.nan, -math.inf, -1, 1, 1.0, 2, math.inf, "", "B", "a", "é", "\U0001f600",
    IRI("a"), Literal("a", language="en"), Literal("b", "d"),
]  # fmt: skip


def identities(rows: list[Row]) -> list[list[object]]:
    return [[identity(value) for value in row] for row in rows]


def by_columns(rows: list[Row]) -> list[Row]:
    columns = columns_of(rows, "p")
    assert columns is not None
    return list(zip(*map(values_of, sorted_columns(columns)), strict=True))


@pytest.mark.parametrize("kinds", [ORDERED, ["b", "a"], [2, 1], [2.5, -1.0], ["b", 1, True, IRI("x"), "a"]])
def test_kinds_and_values_in_order(kinds: list[Value]) -> None:
    rows = [(value,) for value in sorted(kinds, key=lambda value: str(value), reverse=True)]
    expected = identities([(value,) for value in ORDERED]) if kinds is ORDERED else identities(sorted_rows(rows))
    assert identities(sorted_rows(rows)) == expected
    assert identities(by_columns(rows)) == expected


@given(st.lists(st.tuples(st.sampled_from(ORDERED), st.integers(0, 3), st.sampled_from("abc")), min_size=1))
def test_columns_are_ordered_like_rows(rows: list[Row]) -> None:
    assert identities(by_columns(rows)) == identities(sorted_rows(rows))
