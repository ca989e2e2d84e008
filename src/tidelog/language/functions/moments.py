"""Arithmetic and order of dates, times, durations, decimals and large integers, and functions that make and read them.

Kernels compute with numbers of 64 bits. What an operator yields where an operand is a literal is computed here, and
fails where Python has no such operation: a date has no order among times, and one with a time zone none among those
without.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from functools import cmp_to_key, lru_cache

from tidelog.language.functions.aggregates import order
from tidelog.language.functions.failing import CallFailed, number, text
from tidelog.moments import XSD, Moment, read, written
from tidelog.values import INTEGER_MAX, INTEGER_MIN, Literal, Value

_EXACT = Context(prec=60, traps=[InvalidOperation, DivisionByZero, Overflow])
_MOST_BITS = 12_000  # of an integer that is printed and read in a moment


@lru_cache(maxsize=4096)
def _moment(literal: Literal) -> Moment:
    found = read(literal.text, literal.datatype)
    if found is None:
        raise CallFailed
    return found


def _operand(value: Value) -> Moment | float:
    if isinstance(value, Literal):
        return _moment(value)
    return number(value)


def _value(result: object) -> Value:
    """What Python computed, as a constant."""
    if isinstance(result, bool):
        return result
    if isinstance(result, int):
        if INTEGER_MIN <= result <= INTEGER_MAX:
            return result
        if result.bit_length() > _MOST_BITS:
            raise CallFailed("has too many digits")
        return Literal(str(result), f"{XSD}integer")
    if isinstance(result, float):
        if result - result != 0.0:
            raise CallFailed
        return result
    if isinstance(result, Decimal) and not -6000 < result.adjusted() < 6000:
        raise CallFailed("has too many digits")
    try:
        shown = written(result)
    except (OverflowError, ValueError):  # in UTC, it is before the year 1 or after 9999
        raise CallFailed from None
    if shown is None:
        raise CallFailed
    return Literal(*shown)


def _pair(left: Value, right: Value) -> tuple[object, object]:
    """Two operands, both of them decimals if one is and the other is an integer; a date meets no moment."""
    first, second = _operand(left), _operand(right)
    exact = isinstance(first, Decimal) or isinstance(second, Decimal)
    if exact and isinstance(first, int | Decimal) and isinstance(second, int | Decimal):
        return Decimal(first), Decimal(second)
    if isinstance(first, datetime) != isinstance(second, datetime) and not _is_length(first) and not _is_length(second):
        raise CallFailed
    return first, second


def _is_length(value: object) -> bool:
    return isinstance(value, timedelta | int | float)


def _computed(compute: Callable[..., object], *operands: object) -> object:
    """What Python yields, for decimals with as many digits as we promise, whatever the context of the thread is."""
    if not any(isinstance(operand, Decimal) for operand in operands):
        return compute(*operands)
    with localcontext(_EXACT):
        return compute(*operands)


def _operation(compute: Callable[..., object]) -> Callable[[Value, Value], Value]:
    def call(left: Value, right: Value) -> Value:
        first, second = _pair(left, right)
        try:
            return _value(_computed(compute, first, second))
        except (TypeError, ArithmeticError, ValueError):
            raise CallFailed from None

    return call


def _chosen(least: bool) -> Callable[[Value, Value], Value]:
    def call(left: Value, right: Value) -> Value:
        before = OPERATIONS["<"]
        _check_order(left, right)
        return right if (before(right, left) if least else before(left, right)) else left

    return call


def _of_one(compute: Callable[..., object]) -> Callable[[Value], Value]:
    def call(value: Value) -> Value:
        try:
            return _value(_computed(compute, _operand(value)))
        except (TypeError, ArithmeticError):
            raise CallFailed from None

    return call


OPERATIONS: Mapping[str, Callable[..., Value]] = {
    "+": _operation(operator.add),
    "-": _operation(operator.sub),
    "*": _operation(operator.mul),
    "/": _operation(operator.truediv),
    "%": _operation(operator.mod),
    "mod": _operation(operator.mod),
    "div": _operation(operator.floordiv),
    "neg": _of_one(operator.neg),
    "abs": _of_one(abs),
    "min2": _chosen(least=True),
    "max2": _chosen(least=False),
    "<": _operation(operator.lt),
    "<=": _operation(operator.le),
    ">": _operation(operator.gt),
    ">=": _operation(operator.ge),
}
"""Operators by their names."""


def in_order(values: Sequence[Value]) -> list[Value]:
    """Values of which some are literals, in ascending order; equal ones as in the order of all values, so that it does
    not matter which of them came first.
    """
    _check_order(*values)
    return sorted(sorted(values, key=order), key=cmp_to_key(_compared))


def greatest(values: Sequence[Value]) -> Value:
    """The greatest of such values. Of several that are equal, numbers come before literals and an integer before a
    float, as for the least; among literals, the order is turned round.
    """
    ordered = in_order(values)
    equal = [value for value in ordered if not _compared(value, ordered[-1])]
    return equal[-1] if isinstance(equal[0], Literal) else equal[0]


def _compared(left: Value, right: Value) -> int:
    return bool(OPERATIONS["<"](right, left)) - bool(OPERATIONS["<"](left, right))


def _check_order(*values: Value) -> None:
    """Refuse what has no order, not even by itself: NaN, and literals of other datatypes."""
    if any(operand != operand for operand in map(_operand, values)):
        raise CallFailed


# ---- functions


def _reader(datatype: str) -> Callable[[Value], Value]:
    """A text, or a literal of this datatype, as a literal in its usual form."""

    def call(value: Value) -> Value:
        if isinstance(value, Literal) and value.datatype != XSD + datatype:
            raise CallFailed
        found = read(value.text if isinstance(value, Literal) else text(value), XSD + datatype)
        if found is None:
            raise CallFailed
        return _value(found)

    return call


def _duration(value: Value) -> Value:
    """A number of seconds, or a text such as `PT1H30M`."""
    if type(value) is int or type(value) is float:
        try:
            return _value(timedelta(seconds=value))
        except (OverflowError, ValueError):
            raise CallFailed from None
    return _reader("dayTimeDuration")(value)


def _decimal(value: Value) -> Value:
    """An integer, a float as it is written, or a text."""
    if type(value) is int or type(value) is float:
        return _value(Decimal(repr(value)))
    return _reader("precisionDecimal")(value)


def _from_epoch(value: Value) -> Value:
    try:
        return _value(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number(value)))
    except (OverflowError, ValueError):
        raise CallFailed from None


def _epoch(value: Value) -> int | float:
    """Seconds since 1970, of a moment without a time zone as if it were UTC."""
    moment = _operand(value)
    if not isinstance(moment, datetime):
        raise CallFailed
    length = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return _seconds_of(length)


def _seconds(value: Value) -> int | float:
    length = _operand(value)
    if not isinstance(length, timedelta):
        raise CallFailed
    return _seconds_of(length)


def _seconds_of(length: timedelta) -> int | float:
    return length.total_seconds() if length.microseconds else length.days * 86400 + length.seconds


def _field(name: str, kinds: type | tuple[type, ...]) -> Callable[[Value], int]:
    def call(value: Value) -> int:
        moment = _operand(value)
        if not isinstance(moment, kinds):
            raise CallFailed
        return int(getattr(moment, name))

    return call


def _weekday(value: Value) -> int:
    """From 1, a Monday, to 7."""
    moment = _operand(value)
    if not isinstance(moment, date):
        raise CallFailed
    return moment.isoweekday()


def _day_of(value: Value) -> Value:
    moment = _operand(value)
    if not isinstance(moment, datetime):
        raise CallFailed
    return _value(moment.date())


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "datetime": _reader("dateTime"),
    "date": lambda value: _day_of(value) if _is_moment(value) else _reader("date")(value),
    "duration": _duration,
    "decimal": _decimal,
    "epoch": _epoch,
    "from_epoch": _from_epoch,
    "seconds": _seconds,
    "year": _field("year", date),
    "month": _field("month", date),
    "day": _field("day", date),
    "hour": _field("hour", (datetime, time)),
    "minute": _field("minute", (datetime, time)),
    "second": _field("second", (datetime, time)),
    "weekday": _weekday,
}


def _is_moment(value: Value) -> bool:
    return isinstance(value, Literal) and value.datatype == f"{XSD}dateTime"
