"""Functions on numbers that kernels do not compute: powers, logarithms, trigonometry, rounding to digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal

from tidelog.language.arithmetic import NoValue, computed
from tidelog.language.functions.failing import CallFailed, number
from tidelog.language.syntax import Call
from tidelog.values import Value

# More digits than this have no float.
_MOST_DIGITS = 400


def _finite(function: Callable[..., float]) -> Callable[..., float]:
    """A function of floats; it fails where the result is no finite number."""

    def call(*values: Value) -> float:
        try:
            result = function(*map(number, values))
        except (ValueError, OverflowError):
            raise CallFailed from None
        if result - result != 0.0:
            raise CallFailed
        return result

    return call


def _power(base: Value, exponent: Value) -> Value:
    try:
        return computed(Call("**", ()), (base, exponent))
    except NoValue:
        raise CallFailed from None


def _truncated(value: Value) -> int:
    try:
        return math.trunc(number(value))
    except (ValueError, OverflowError):
        raise CallFailed from None


def _round_to(value: Value, digits: Value) -> int | float:
    """Rounded to so many decimal places, halves to even, as the number is written; an integer stays one."""
    if type(digits) is not int or not -_MOST_DIGITS <= digits <= _MOST_DIGITS:
        raise CallFailed
    found = number(value)
    if isinstance(found, int):
        return found if digits >= 0 else round(found, digits)
    if found - found != 0.0:
        raise CallFailed
    written = Decimal(repr(found))
    step = Decimal(1).scaleb(-digits)
    if written.adjusted() - step.adjusted() >= 28 or step.adjusted() <= written.as_tuple().exponent:  # type: ignore[operator]
        return found
    return float(written.quantize(step, ROUND_HALF_EVEN)) + 0.0


def _sign(value: Value) -> int:
    found = number(value)
    if found != found:
        raise CallFailed
    return (found > 0) - (found < 0)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "pow": _power,
    "log2": _finite(math.log2),
    "log10": _finite(math.log10),
    "sin": _finite(math.sin),
    "cos": _finite(math.cos),
    "tan": _finite(math.tan),
    "asin": _finite(math.asin),
    "acos": _finite(math.acos),
    "atan": _finite(math.atan),
    "atan2": _finite(math.atan2),
    "degrees": _finite(math.degrees),
    "radians": _finite(math.radians),
    "trunc": _truncated,
    "round_to": _round_to,
    "sign": _sign,
}
