"""The aggregate functions on one group: `count sum min max avg median`.

Integers stay integers (and a sum that leaves 64 bits fails the group); sums with floats are exactly rounded, so that
they do not depend on the order of facts. Of `1` and `1.0`, equal in value, `min`, `max` and `median` take the
integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tidelog.store.layout import K_INTEGER
from tidelog.store.relation import Cells
from tidelog.store.terms import Terms
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Value


class GroupFailed(Exception):
    """A group whose values cannot be aggregated."""


def _numbers(values: list[Value]) -> list[int | float]:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        raise GroupFailed
    return numbers


def _exact_sum(numbers: list[int | float]) -> float:
    try:
        total = math.fsum(numbers)
    except (OverflowError, ValueError):
        raise GroupFailed from None
    if not math.isfinite(total):
        raise GroupFailed
    return total


def _sum(values: list[Value]) -> Value:
    numbers = _numbers(values)
    if any(isinstance(number, float) for number in numbers):
        return _exact_sum([float(number) for number in numbers])
    total = sum(numbers)
    if not INTEGER_MIN <= total <= INTEGER_MAX:
        raise GroupFailed
    return total


def _in_order(values: list[Value]) -> list[Value]:
    """Values of one kind in ascending order, an integer before the float of the same value."""
    kinds = {float if type(value) is int else type(value) for value in values}
    if len(kinds) > 1 or not kinds <= {float, str, bool, IRI} or any(value != value for value in values):
        raise GroupFailed
    return sorted(values, key=lambda value: (value, isinstance(value, float)))


def _max(values: list[Value]) -> Value:
    ordered = _in_order(values)
    return next(value for value in ordered if value == ordered[-1])


def _median(values: list[Value]) -> Value:
    numbers = _in_order(list(_numbers(values)))
    middle, odd = divmod(len(numbers), 2)
    if odd:
        return numbers[middle]
    return _exact_sum([float(number) for number in numbers[middle - 1 : middle + 1]]) / 2  # type: ignore[arg-type]


def _avg(values: list[Value]) -> Value:
    return _exact_sum([float(number) for number in _numbers(values)]) / len(values)


_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {
    "sum": _sum,
    "min": lambda values: _in_order(values)[0],
    "max": _max,
    "avg": _avg,
    "median": _median,
}


def _fold_integers(function: str, numbers: npt.NDArray[np.int64]) -> Value | None:
    """The common case without Python objects: a column of integers. None where it needs the long way."""
    if function == "min":
        return int(numbers.min())
    if function == "max":
        return int(numbers.max())
    if function == "sum" and abs(float(np.abs(numbers.astype(np.float64)).sum())) < 2.0**62:
        return int(numbers.sum())
    if function == "median" and len(numbers) % 2:
        return int(np.partition(numbers, len(numbers) // 2)[len(numbers) // 2])
    return None


def fold(function: str, terms: Terms, column: Cells, distinct: bool) -> Value:
    """The aggregate of a column of terms."""
    if distinct:
        column = np.unique(column)
    if function == "count":
        return len(column)
    if (terms.kinds(column) == K_INTEGER).all():
        result = _fold_integers(function, terms.payloads(column))
        if result is not None:
            return result
    return _FUNCTIONS[function](terms.decode_column(column))
