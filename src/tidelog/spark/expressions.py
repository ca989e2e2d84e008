"""Expressions and comparisons as Spark columns over structs of values.

Arithmetic is done by column expressions. Every other function, built in or registered, is called in Python, a batch of
rows by Arrow. What has no value (a type that does not fit, division by zero, overflow, a result that is not finite)
is a null struct, and a comparison that cannot be made a null boolean: nulls travel through whatever is built on them.

Numbers are compared exactly, integers with floats too: by the pair of their floor and the rest above it, since casting an
integer of 64 bits to a float would round it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidelog.errors import TidelogError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, STR
from tidelog.spark.terms import VALUE_TYPE, Fields, fields_of, value_column, value_of
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal

Functions = Mapping[str, Callable[..., Any]]
_RANGE = float(2**63)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_integer(value: Column) -> Column:
    return value["kind"] == INT


def is_number(value: Column) -> Column:
    return value["kind"].isin(INT, FLOAT)


def is_nan(value: Column) -> Column:
    return (value["kind"] == FLOAT) & F.isnan(value["number"])


def as_double(value: Column) -> Column:
    """A number as a double; null for all else."""
    return F.when(is_integer(value), value["integer"].cast("double")).when(value["kind"] == FLOAT, value["number"])


def from_integer(integer: Column) -> Column:
    """The value of a bigint; null stays null."""
    return F.when(integer.isNotNull(), value_column(INT, integer=integer))


def from_double(number: Column, finite: bool = True) -> Column:
    """The value of a double; null stays null, and so does what is not finite unless that is allowed."""
    fits = number.isNotNull()
    if finite:
        fits = fits & (F.abs(number) < F.lit(math.inf))
    return F.when(fits, value_column(FLOAT, number=number))


def _in_range(number: Column) -> Column:
    return (number >= -_RANGE) & (number < _RANGE)


def floor_and_rest(value: Column) -> Column:
    """A struct by which numbers, but for NaN, are ordered by value. Beyond 64 bits, the rest is the whole number."""
    number = value["number"]
    floor = F.when(_in_range(number), F.floor(number)).when(number > 0, F.lit(INTEGER_MAX)).otherwise(INTEGER_MIN)
    rest = F.when(_in_range(number), number - F.floor(number)).otherwise(number)
    return F.struct(
        F.when(is_integer(value), value["integer"]).otherwise(floor).alias("floor"),
        F.when(is_integer(value), F.lit(0.0)).otherwise(rest).alias("rest"),
    )


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────────


def arithmetic(function: str, arguments: list[Column]) -> Column:
    """An arithmetic function of one or two values."""
    return _BINARY[function](*arguments) if len(arguments) == 2 else _UNARY[function](*arguments)


def _on_numbers(
    integers: Callable[[Column, Column], Column], doubles: Callable[[Column, Column], Column]
) -> Callable[[Column, Column], Column]:
    def apply(left: Column, right: Column) -> Column:
        of_integers = from_integer(integers(left["integer"], right["integer"]))
        of_doubles = from_double(doubles(as_double(left), as_double(right)))
        return F.when(is_integer(left) & is_integer(right), of_integers).otherwise(of_doubles)

    return apply


def _divide(left: Column, right: Column) -> Column:
    return from_double(as_double(left) / _not_zero(as_double(right)))


def _not_zero(number: Column) -> Column:
    return F.when(number != 0, number)


def _modulo(left: Column, right: Column) -> Column:
    """A remainder has the sign of the divisor."""
    rest = left % _not_zero(right)
    return F.when((rest != 0) & ((rest < 0) != (right < 0)), rest + right).otherwise(rest)


def _chosen(first_wins: Callable[[Column, Column], Column]) -> Callable[[Column, Column], Column]:
    def choose(left: Column, right: Column) -> Column:
        ordered = is_number(left) & is_number(right) & ~is_nan(left) & ~is_nan(right)
        first = first_wins(floor_and_rest(left), floor_and_rest(right))
        return F.when(ordered, F.when(first, left).otherwise(right))

    return choose


def _negate(value: Column) -> Column:
    negative = from_integer(F.try_subtract(F.lit(0).cast("bigint"), value["integer"]))
    return F.when(is_integer(value), negative).otherwise(from_double(-as_double(value), finite=False))


def _absolute(value: Column) -> Column:
    negative = F.when(is_integer(value), value["integer"] < 0).otherwise(as_double(value) < 0)
    return F.when(negative, _negate(value)).when(is_number(value), value)


def _to_integer(rounded: Callable[[Column], Column]) -> Callable[[Column], Column]:
    def apply(value: Column) -> Column:
        number = rounded(value["number"])
        whole = F.when(_in_range(number), number.try_cast("bigint"))
        return F.when(is_integer(value), value).when(value["kind"] == FLOAT, from_integer(whole))

    return apply


def _of_double(function: Callable[[Column], Column]) -> Callable[[Column], Column]:
    return lambda value: from_double(function(as_double(value)))


_BINARY: Mapping[str, Callable[[Column, Column], Column]] = {
    "+": _on_numbers(F.try_add, lambda left, right: left + right),
    "-": _on_numbers(F.try_subtract, lambda left, right: left - right),
    "*": _on_numbers(F.try_multiply, lambda left, right: left * right),
    "/": _divide,
    "%": _on_numbers(_modulo, _modulo),
    "min2": _chosen(lambda left, right: left <= right),
    "max2": _chosen(lambda left, right: left >= right),
}
_UNARY: Mapping[str, Callable[[Column], Column]] = {
    "neg": _negate,
    "abs": _absolute,
    "floor": _to_integer(lambda number: F.when(_in_range(number), F.floor(number)).cast("double")),
    "ceil": _to_integer(lambda number: F.when(_in_range(number), F.ceil(number)).cast("double")),
    "round": _to_integer(F.rint),
    "sqrt": _of_double(lambda number: F.when(number >= 0, F.sqrt(number))),
    "log": _of_double(lambda number: F.when(number > 0, F.ln(number))),
    "exp": _of_double(F.exp),
}


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────────────────────────

_ORDERS: Mapping[str, Callable[[Column, Column], Column]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def comparison(operator: str, left: Column, right: Column) -> Column:
    """Whether a comparison holds; null where it cannot be made."""
    comparable = left.isNotNull() & right.isNotNull()
    if operator == "=":
        return F.when(comparable, _same(left, right))
    if operator == "!=":
        return F.when(comparable, ~_same(left, right))
    return F.when(comparable, _ordered(_ORDERS[operator], left, right))


def _both(fits: Callable[[Column], Column], left: Column, right: Column) -> Column:
    return fits(left) & fits(right)


def _same(left: Column, right: Column) -> Column:
    by_value = (floor_and_rest(left) == floor_and_rest(right)) & ~is_nan(left) & ~is_nan(right)
    return F.when(_both(is_number, left, right), by_value).otherwise(left == right)


def _ordered(order: Callable[[Column, Column], Column], left: Column, right: Column) -> Column:
    by_value = order(floor_and_rest(left), floor_and_rest(right)) & ~is_nan(left) & ~is_nan(right)
    is_text = left["kind"].isin(STR, IRI_KIND) & (left["kind"] == right["kind"])
    is_truth = (left["kind"] == BOOL) & (right["kind"] == BOOL)
    return (
        F.when(_both(is_number, left, right), by_value)
        .when(is_text, order(left["text"], right["text"]))
        .when(is_truth, order(left["integer"], right["integer"]))
    )


# ── functions called in Python ───────────────────────────────────────────────────────────────────────────────────────


def foreign_call(name: str, arguments: list[Column], functions: Functions) -> Column:
    """A function that is no plain arithmetic, called in Python for each row."""
    from tidelog.reason.calls import BUILT_IN

    function = functions.get(name, BUILT_IN.get(name))
    if function is None:
        raise TidelogError(f"the function `{name}` is not registered; register it with register({name!r}, function)")
    return F.udf(_row_function(function), VALUE_TYPE, useArrow=True)(*arguments)


def _row_function(function: Callable[..., Any]) -> Callable[..., Fields | None]:
    def call(*arguments: Any) -> Fields | None:
        if any(argument is None for argument in arguments):
            return None
        try:
            result = function(*(value_of(tuple(argument)) for argument in arguments))
        except Exception:  # A registered function may raise anything; the rule instance fails, and is counted.
            return None
        return _checked_fields(result)

    return call


def _checked_fields(result: Any) -> Fields | None:
    """The fields of a result that a fact can hold; None for all others."""
    if hasattr(result, "item") and not isinstance(result, str):
        result = result.item()
    if not isinstance(result, str | int | float | bool | IRI | Literal):
        return None
    if isinstance(result, int) and not INTEGER_MIN <= result <= INTEGER_MAX:
        return None
    if isinstance(result, float) and not math.isfinite(result):
        return None
    return fields_of(result)
