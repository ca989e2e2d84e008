"""The aggregate functions on groups, and witnesses of `min` and `max`. Those that need all values at once are in
`language.functions.aggregates`.

Integers stay integers (and a sum that leaves 64 bits fails the group). Sums with floats are exactly rounded, so that
they do not depend on the order of facts. Of `1` and `1.0`, which are equal in value, `min`, `max` and `median` take the
integer. Columns of integers or of floats, as most are, are folded for all groups at once, except for sums of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt

from tidelog.engine.update.joins import JoinFailed, Joins
from tidelog.language.functions import CallFailed
from tidelog.language.functions.aggregates import folded, is_folded, order
from tidelog.language.functions.moments import OPERATIONS, greatest, in_order
from tidelog.machine import term_kinds as K
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class GroupFailed(Exception):
    """A group whose values cannot be aggregated."""


def _numbers(values: list[Value]) -> list[int | float]:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        raise GroupFailed
    return numbers


def _booleans(values: list[Value]) -> list[bool]:
    booleans = [value for value in values if isinstance(value, bool)]
    if len(booleans) < len(values):
        raise GroupFailed
    return booleans


def _exact_sum(numbers: list[int | float]) -> float:
    try:
        try:
            total = math.fsum(numbers)
        except OverflowError:
            from fractions import Fraction

            # A partial sum leaves the range of floats, in this order of the facts; the sum itself may not.
            total = float(sum(map(Fraction, numbers)))
    except (OverflowError, ValueError):
        raise GroupFailed from None
    if not math.isfinite(total):
        raise GroupFailed
    return total


def _sum(values: list[Value]) -> Value:
    if any(isinstance(value, Literal) for value in values):
        return reduce(OPERATIONS["+"], sorted(values, key=order))
    numbers = _numbers(values)
    if any(isinstance(number, float) for number in numbers):
        return _exact_sum([float(number) for number in numbers])
    total = sum(numbers)
    if not INTEGER_MIN <= total <= INTEGER_MAX:
        raise GroupFailed
    return total


def _in_order(values: list[Value]) -> list[Value]:
    """Values of one kind in ascending order, an integer before the float of the same value."""
    if any(isinstance(value, Literal) for value in values):
        return in_order(values)
    kinds = {float if type(value) is int else type(value) for value in values}
    if len(kinds) > 1 or not kinds <= {float, str, bool, IRI} or any(value != value for value in values):
        raise GroupFailed
    return sorted(values, key=lambda value: (value, isinstance(value, float)))


def _max(values: list[Value]) -> Value:
    if any(isinstance(value, Literal) for value in values):
        return greatest(values)
    ordered = _in_order(values)
    return next(value for value in ordered if value == ordered[-1])


def _median(values: list[Value]) -> Value:
    numbers = _in_order(list(_numbers(values)))
    middle, odd = divmod(len(numbers), 2)
    if odd:
        return numbers[middle]
    return _exact_sum([float(number) for number in numbers[middle - 1 : middle + 1]]) / 2  # type: ignore[arg-type]


_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {
    "sum": _sum,
    "min": lambda values: _in_order(values)[0],
    "max": _max,
    "avg": lambda values: _exact_sum([float(number) for number in _numbers(values)]) / len(values),
    "median": _median,
    "any": lambda values: any(_booleans(values)),
    "all": lambda values: all(_booleans(values)),
}


def _at_once(function: str, numbers: Numbers, starts: Integers) -> list[tuple[Numbers, Mask]]:
    """The aggregates of groups of integers or of floats, without Python objects: values of one type each, and the
    groups that they are right for. Groups for which none are right go the long way.
    """
    sizes = _sizes(starts, len(numbers))
    if function in ("min", "max"):
        extreme = (np.minimum if function == "min" else np.maximum).reduceat(numbers, starts)
        return [(extreme, extreme == extreme)]
    if function == "median":
        return _medians(numbers, starts, sizes)
    if function not in ("sum", "avg"):
        return []
    if numbers.dtype != np.int64:
        return []
    total = np.add.reduceat(numbers, starts)
    magnitude = np.add.reduceat(np.abs(numbers.astype(np.float64)), starts)
    if function == "sum":
        return [(total, magnitude < 2.0**62)]
    return [(total / sizes, magnitude < 2.0**53)]


def _medians(numbers: Numbers, starts: Integers, sizes: Integers) -> list[tuple[Numbers, Mask]]:
    """The middle ones of odd groups; the means of the two middle ones of even groups, unless their sum overflows."""
    ordered = numbers[np.lexsort((numbers, np.repeat(np.arange(len(starts)), sizes)))]
    lower, upper = ordered[starts + (sizes - 1) // 2], ordered[starts + sizes // 2]
    with np.errstate(over="ignore", invalid="ignore"):
        means = (lower.astype(np.float64) + upper.astype(np.float64)) / 2
    odd = sizes % 2 == 1
    last = ordered[starts + sizes - 1]
    comparable = last == last  # NaN is the last in order
    return [(upper, comparable & odd), (means, comparable & ~odd & np.isfinite(means))]


def _fold_long(function: str, terms: Terms, column: Cells) -> Value | None:
    """The aggregate of one group of terms; None where it has none."""
    try:
        values = terms.table.decode_column(column)
        return folded(function, values) if is_folded(function) else _FUNCTIONS[function](values)
    except (GroupFailed, CallFailed):
        return None


def _sizes(starts: Integers, count: int) -> Integers:
    return np.diff(starts, append=count)


def _without_repeats(column: Cells, starts: Integers) -> tuple[Cells, Integers]:
    """Each term of a group once."""
    group = np.repeat(np.arange(len(starts)), _sizes(starts, len(column)))
    by_group = np.lexsort((column, group))
    column, group = column[by_group], group[by_group]
    first = np.ones(len(column), np.bool_)
    first[1:] = (column[1:] != column[:-1]) | (group[1:] != group[:-1])
    column, group = column[first], group[first]
    return column, np.searchsorted(group, np.arange(len(starts)))


def fold(function: str, terms: Terms, column: Cells, starts: Integers, distinct: bool) -> Cells:
    """The aggregates of groups of terms, which begin at `starts` and of which none is empty, as terms; FAILURE where a
    group has none.
    """
    if distinct:
        column, starts = _without_repeats(column, starts)
    if function == "count":
        return terms.encode_numbers(_sizes(starts, len(column)))
    result = np.full(len(starts), K.FAILURE, np.int32)
    long = np.ones(len(starts), np.bool_)
    numbers = terms.table.numbers(column)
    for values, right in _at_once(function, numbers, starts) if numbers is not None else ():
        result[right] = terms.encode_numbers(values[right])
        long &= ~right
    places = np.flatnonzero(long)
    if len(places):
        ends = starts + _sizes(starts, len(column))
        folded = [_fold_long(function, terms, column[starts[place] : ends[place]]) for place in places.tolist()]
        known = [number for number, value in enumerate(folded) if value is not None]
        result[places[known]] = terms.encode_values([folded[number] for number in known])
    return result


def fold_witnesses(function: str, terms: Terms, column: Cells, witnesses: Cells, starts: Integers) -> Cells:
    """For each group, the witness of its least or greatest value; of several, the first in the order of values (see
    `propagation.offers`). FAILURE where the values have no order.
    """
    best = fold(function, terms, column, starts, distinct=False)
    group = np.repeat(np.arange(len(starts)), _sizes(starts, len(column)))
    beside = np.flatnonzero(column == best[group])
    # Of equal witnesses one is enough; where several are left, their values decide.
    found = np.unique(np.stack((group[beside], witnesses[beside]), axis=1), axis=0)
    result = np.full(len(starts), K.FAILURE, np.int32)
    result[found[:, 0]] = found[:, 1]
    several = np.flatnonzero(np.bincount(found[:, 0], minlength=len(starts)) > 1)
    for place in several.tolist():
        choices = found[found[:, 0] == place, 1].astype(np.int32)
        values = terms.table.decode_column(choices)
        result[place] = choices[min(range(len(values)), key=lambda number: order(values[number]))]
    return result


def fold_joins(joins: Joins, column: Cells, starts: Integers, reasons: dict[int, str]) -> Cells:
    """The joins of groups. FAILURE where a group has none, and then its reason, by the place of the group."""
    column, starts = _without_repeats(column, starts)
    result = np.full(len(starts), K.FAILURE, np.int32)
    for place, terms in enumerate(np.split(column, starts[1:]) if len(starts) else ()):
        try:
            result[place] = joins.of_all(terms.tolist())
        except JoinFailed as problem:
            reasons[place] = str(problem)
    return result


def is_better(value: Value, other: Value, rising: bool) -> bool:
    """Whether a value comes before another one in that order, or in that for `max`."""
    (kind, place, _), (other_kind, other_place, _) = order(value), order(other)
    if rising and kind == other_kind and place != other_place:
        return order(value) > order(other)
    return order(value) < order(other)
