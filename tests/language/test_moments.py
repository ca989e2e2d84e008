"""Dates, times, durations, decimals and large integers in facts and rules, against the oracle."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from naive_functions import Failure, aggregate, call, compare
from tidelog.errors import DataError
from tidelog.language import parse_atom
from tidelog.moments import XSD
from tidelog.values import Literal, Value, checked_value, identity, literal_of

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
MOMENTS: tuple[object, ...] = (
    NOON,
    datetime(2024, 2, 29, 12, 30, 0, 500_000, tzinfo=timezone(timedelta(hours=2))),
    datetime(2024, 3, 1),
    date(2024, 2, 29),
    timedelta(days=1, seconds=90),
    timedelta(microseconds=-5),
    time(6, 30),
    Decimal("1.10"),
    Decimal("-200"),
    Decimal("-1234567890123456789012345678901234567890.125"),
)
VALUES: tuple[Value, ...] = (
    *(checked_value(value) for value in MOMENTS),
    Literal("123456789012345678901234567890", f"{XSD}integer"),
    Literal("2024-02-29T13:00:00+01:00", f"{XSD}dateTime"),
    Literal("P1M", f"{XSD}duration"),
    Literal("chat", language="fr"),
    *(7, -2, 0, 2.5, math.nan, "a", True),
)
BINARY = ("+", "-", "*", "/", "%", "mod", "div", "min2", "max2")
UNARY = ("neg", "abs", "int", "float")


def expected(name: str, *arguments: Value) -> Value | None:
    with suppress(Failure):
        return call(name, arguments, {})
    return None


def holds(name: str, left: Value, right: Value) -> bool:
    with suppress(Failure):
        return compare(name, left, right)
    return False


def test_operators_give_what_the_oracle_says() -> None:
    rules = [f'r("{name}", X, Y, Z) :- v(X), v(Y), Z = X {name} Y.' for name in BINARY[:-2]]
    rules += [f'r("{name}", X, Y, Z) :- v(X), v(Y), Z = {name}(X, Y).' for name in ("min2", "max2")]
    rules += [f'c("{name}", X, Y) :- v(X), v(Y), X {name} Y.' for name in ("<", "<=", ">", ">=", "=", "!=")]
    rules += ["u(neg, X, Y) :- v(X), Y = -X."]
    rules += [f'u("{name}", X, Y) :- v(X), Y = {name}(X).' for name in UNARY[1:]]
    with pytest.warns(tidelog.CrossProductWarning):
        kb = tidelog.KnowledgeBase("\n".join(rules))
    kb.update(add={"v": [(value,) for value in VALUES]})
    pairs = [(left, right) for left in VALUES for right in VALUES]
    results = [(name, left, right, expected(name, left, right)) for name in BINARY for left, right in pairs]
    assert rows(kb, "r") == {tuple(map(identity, row)) for row in results if row[3] is not None}  # type: ignore[arg-type]
    true = [(name, *pair) for name in ("<", "<=", ">", ">=", "=", "!=") for pair in pairs if holds(name, *pair)]
    assert rows(kb, "c") == {tuple(map(identity, row)) for row in true}
    ones = [(name, value, expected(name, value)) for name in UNARY for value in VALUES]
    assert rows(kb, "u") == {tuple(map(identity, row)) for row in ones if row[2] is not None}  # type: ignore[arg-type]


def rows(kb: tidelog.KnowledgeBase, predicate: str) -> set[tuple[object, ...]]:
    return {tuple(map(identity, row)) for row in kb.facts(predicate)}


@pytest.mark.parametrize("maintenance", ["auto", "dred", "counting", "backward-forward-counting", "recompute"])
def test_moments_are_maintained(maintenance: str) -> None:
    kb = tidelog.KnowledgeBase(
        'late(X) :- done(X, T), due(X, U), T > U + duration("PT1H").  least(min(T)) :- done(_, T).'
        "  spent(sum(D)) :- done(X, T), begun(X, S), D = T - S.",
        maintenance=maintenance,
    )
    hour = timedelta(hours=1)
    kb.update(add={"done": [(n, NOON + n * hour) for n in range(4)], "due": [(n, NOON) for n in range(4)]})
    kb.update(add={"begun": [(n, NOON) for n in range(4)]})
    assert set(kb.facts("late")) == {(2,), (3,)}
    assert [row[0].value for row in kb.facts("least")] == [NOON]
    assert [row[0].value for row in kb.facts("spent")] == [6 * hour]
    kb.update(delete={"done": [(0, NOON), (3, NOON + 3 * hour)]})
    assert set(kb.facts("late")) == {(2,)}
    assert (NOON + hour,) in kb.facts("least")
    assert "late(2)" in kb
    assert "2024-02-29T14:00:00Z" in str(kb.explain("late(2)"))


def test_what_has_no_value_is_counted() -> None:
    kb = tidelog.KnowledgeBase("p(X) :- v(X), X > 3.")
    change = kb.update(add={"v": [(date(2024, 1, 1),), (5,)]})
    assert list(kb.facts("p")) == [(5,)]
    assert change.errors == 1


def test_aggregates_of_moments() -> None:
    values = [checked_value(value) for value in (NOON, NOON + timedelta(seconds=0.5), NOON - timedelta(days=1))]
    values.append(Literal("2024-02-29T13:00:00.5+01:00", f"{XSD}dateTime"))
    kb = tidelog.KnowledgeBase("least(min(X)) :- v(X).  most(max(X)) :- v(X).")
    kb.update(add={"v": [(value,) for value in values]})
    assert list(kb.facts("least")) == [(aggregate("min", values, False),)]
    assert list(kb.facts("most")) == [(aggregate("max", values, False),)]


LARGE = Literal("123456789012345678901", f"{XSD}integer")
GROUPS = (
    [math.nan, LARGE],
    [math.nan, LARGE, 1],
    [math.nan, checked_value(Decimal("1.5"))],
    [1.5, checked_value(Decimal("1.5"))],
    [1.5, Literal("1.50", f"{XSD}precisionDecimal")],
    [1, 1.0, checked_value(Decimal(1))],
    [LARGE, checked_value(Decimal(LARGE.text))],
    [Literal("1.50", f"{XSD}precisionDecimal"), Literal("1.5", f"{XSD}precisionDecimal")],
)


@pytest.mark.parametrize("values", GROUPS)
@pytest.mark.parametrize("function", ["min", "max"])
def test_the_order_of_arrival_does_not_matter(function: str, values: list[Value]) -> None:
    """NaN has no order, and equal values of different types have one."""
    rules = f"one({function}(X)) :- v(X).  beside({function}(X, X)) :- v(X).  body(N) :- N = {function} {{ X : v(X) }}."
    best = None
    with suppress(Failure):
        best = aggregate(function, values, False)
    for arrivals in permutations(values):
        kb = tidelog.KnowledgeBase(rules)
        changes = [kb.update(add={"v": [(value,)]}) for value in arrivals]
        for predicate in ("one", "beside", "body"):
            assert rows(kb, predicate) == (set() if best is None else {(identity(best),)})
        assert (changes[-1].errors > 0) == (best is None)


def test_nan_has_no_order_among_decimals() -> None:
    kb = tidelog.KnowledgeBase("p(min2(X, Y)) :- v(X), w(Y).  p(max2(Y, X)) :- v(X), w(Y).")
    change = kb.update(add={"v": [(math.nan,)], "w": [(Decimal("1.5"),), (LARGE,)]})
    assert (change.errors, list(kb.facts("p"))) == (4, [])


def test_decimals_do_not_depend_on_the_context_of_the_thread() -> None:
    kb = tidelog.KnowledgeBase("p(-X), p(abs(X)), p(X % 7), p(X mod 7), p(X div 7), p(X + 1) :- v(X).")
    with localcontext(prec=3):
        kb.update(add={"v": [(Decimal("-12345678.25"),)]})
    assert {row[0].value for row in kb.facts("p")} == {
        *(Decimal("12345678.25"), Decimal("-2.25"), Decimal(-1763668), Decimal("-12345677.25")),
    }


# ---- on their way in and out


@given(
    st.one_of(
        st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])),
        st.dates(),
        st.timedeltas(),
        st.times(),
        st.decimals(allow_nan=False, allow_infinity=False, places=5),
    )
)
def test_literals_read_back(value: object) -> None:
    literal = literal_of(value)
    assert literal is not None
    assert literal.value == value
    assert literal_of(literal.value) == literal
    assert parse_atom(f'p("{literal.text}"^^<{literal.datatype}>)', {}).row == (literal,)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.timedelta64(1, "Y"), "no fixed length"),
        (np.timedelta64(14, "M"), "no fixed length"),
        (np.timedelta64(10**18, "W"), "too large"),
        (np.timedelta64(2**62, "D"), "too large"),
        (np.datetime64(10**12, "Y"), "too large"),
        (np.datetime64(10**5, "Y"), "out of reach"),
        (np.datetime64("NaT"), "missing"),
        (np.timedelta64(1, "ns"), "nanoseconds"),
    ],
)
def test_moments_of_numpy_that_do_not_fit_are_refused(value: np.generic, reason: str) -> None:
    kb = tidelog.KnowledgeBase()
    frame = pd.DataFrame({"a": pd.Series([value], dtype=object)})
    for given_rows in ([(value,)], np.array([[value]]), frame):
        with pytest.raises(DataError, match=reason):
            kb.update(add={"p": given_rows})
    with pytest.raises(DataError, match=reason):
        checked_value(value)


def test_tables_bring_moments() -> None:
    kb = tidelog.KnowledgeBase()
    stamps = pd.DataFrame({"t": pd.to_datetime(["2024-02-29T12:00:00Z"]), "d": pd.to_timedelta(["90s"])})
    kb.update(add={"pandas": stamps})
    assert (NOON, timedelta(seconds=90)) in kb.facts("pandas")
    table = pa.table({"t": pa.array([NOON], pa.timestamp("us", "UTC")), "d": pa.array([date(2024, 2, 29)])})
    kb.update(add={"arrow": table})
    assert (NOON, date(2024, 2, 29)) in kb.facts("arrow")
    kb.update(add={"numpy": [(np.datetime64("2024-02-29T12:00"), np.timedelta64(3, "s"))]})
    assert (datetime(2024, 2, 29, 12), timedelta(seconds=3)) in kb.facts("numpy")
    kb.update(add={"money": pa.table({"m": pa.array([Decimal("1.50")], pa.decimal128(5, 2))})})
    assert (Decimal("1.5"),) in kb.facts("money")


@pytest.mark.parametrize(
    "value",
    [pd.NaT, pd.Timestamp(1), np.datetime64("NaT"), np.datetime64(1, "ns"), time(1, tzinfo=UTC), Decimal("NaN")],
)
def test_what_facts_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(DataError):
        tidelog.KnowledgeBase().update(add={"p": [(value,)]})  # type: ignore[dict-item]


def test_moments_survive_saving(tmp_path: Path) -> None:
    kb = tidelog.KnowledgeBase("p(X, T + duration(60)) :- at(X, T).")
    kb.update(add={"at": [("a", NOON)]})
    kb.save(tmp_path / "kb")
    again = tidelog.KnowledgeBase.open(tmp_path / "kb")
    again.update(add={"at": [("b", NOON)]})
    assert ("b", NOON + timedelta(minutes=1)) in again.facts("p")
    assert [answer["X"] for answer in again.query("p(X, T), T > $then", then=NOON)] == ["a", "b"]


def test_parts_of_moments() -> None:
    kb = tidelog.KnowledgeBase(
        "p(year(T), month(T), day(T), hour(T), minute(T), second(T), weekday(T)) :- at(T)."
        '  q(date(T), epoch(T), from_epoch(epoch(T))) :- at(T).  s(seconds(duration("PT1M1.5S"))) :- at(_).'
        '  d(datetime("2024-01-02T03:04:05Z"), date("2024-01-02"), decimal("1.50")) :- at(_).'
    )
    kb.update(add={"at": [(NOON,)]})
    assert list(kb.facts("p")) == [(2024, 2, 29, 12, 0, 0, 4)]
    assert (NOON.date(), int(NOON.timestamp()), NOON) in kb.facts("q")
    assert list(kb.facts("s")) == [(61.5,)]
    assert (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), date(2024, 1, 2), Decimal("1.5")) in kb.facts("d")
