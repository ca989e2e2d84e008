"""Aggregates of whole groups of values that no engine folds by itself: `stddev quantile list concat string_agg`.

Their results do not depend on the order of the values: sums are exact, and lists are in order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tidelog.language.functions.failing import CallFailed, number, text
from tidelog.language.literals import unquote
from tidelog.language.syntax import with_option
from tidelog.values import IRI, Literal, Value


def folded(function: str, values: Sequence[Value]) -> Value:
    """The aggregate of a group, which is not empty; `CallFailed` where it has none."""
    name, option = with_option(function)
    return _WITH_OPTIONS[name](values, option) if option else _FUNCTIONS[name](values)


def is_folded(function: str) -> bool:
    """Whether an aggregate is one of these."""
    return function in _FUNCTIONS or with_option(function)[0] in _WITH_OPTIONS


def _finite(values: Sequence[Value]) -> list[int | float]:
    numbers = [number(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise CallFailed
    return numbers


def _stddev(values: Sequence[Value]) -> float:
    """The standard deviation of a sample: of one value, there is none."""
    exact = [Fraction(value) for value in _finite(values)]
    count = len(exact)
    if count < 2:
        raise CallFailed
    variance = (count * sum(value * value for value in exact) - sum(exact) ** 2) / (count * (count - 1))
    try:
        return math.sqrt(variance)
    except OverflowError:
        raise CallFailed from None


def _quantile(values: Sequence[Value], share: Fraction) -> int | float:
    """The value at a share of the way from the least to the greatest; between two values, on the line from one to the
    other.
    """
    ordered = sorted(_finite(values), key=lambda value: (value, isinstance(value, float)))
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    if place == below:
        return ordered[below]
    low, high = Fraction(ordered[below]), Fraction(ordered[below + 1])
    return float(low + (high - low) * (place - below))


def _joined(values: Sequence[Value], separator: str = "") -> str:
    """The texts in order."""
    return separator.join(sorted(map(text, values)))


def _list(values: Sequence[Value]) -> str:
    plain = [_in_json(value) for value in sorted(values, key=order)]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _in_json(value: Value) -> str | int | float | bool:
    if isinstance(value, IRI | Literal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallFailed
    return value


def order(value: Value) -> tuple[int, object, bool]:
    """The place of a value in the order of all values, that of `propagation.offers`: numbers by value, an integer
    before the equal float; then strings, IRIs, booleans, literals.
    """
    match value:
        case bool():
            return 3, value, False
        case int() | float():
            return 0, value, isinstance(value, float)
        case str():
            return 1, value, False
        case IRI():
            return 2, value.value, False
    return 4, (value.datatype, value.language, value.text), False


_FUNCTIONS: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "stddev": _stddev,
    "list": _list,
    "concat": _joined,
}
# With the text of a number or a string that is a part of the aggregate.
_WITH_OPTIONS: Mapping[str, Callable[[Sequence[Value], str], Value]] = {
    "quantile": lambda values, share: _quantile(values, Fraction(share)),
    "string_agg": lambda values, separator: _joined(values, unquote(separator)),
}
