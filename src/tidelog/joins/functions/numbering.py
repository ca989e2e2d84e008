"""The functions that kernels compute, by number, and what a computation returns instead of a term."""

from __future__ import annotations  # kernel constants

from collections.abc import Iterable

ARITIES = {
    "length": 1,
    "upper": 1,
    "lower": 1,
    "trim": 1,
    "substr": 3,
    "concat": 2,
    "contains": 2,
    "starts_with": 2,
    "ends_with": 2,
    "replace": 3,
    "split": 3,
    "format": None,  # any number of arguments
    "str": 1,
    "int": 1,
    "float": 1,
    "is_int": 1,
    "is_float": 1,
    "type": 1,
    "trunc": 1,
    "sign": 1,
    "round_to": 2,
    "pow": 2,
    "atan2": 2,
    "log2": 1,
    "log10": 1,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "asin": 1,
    "acos": 1,
    "atan": 1,
    "degrees": 1,
    "radians": 1,
    "year": 1,
    "month": 1,
    "day": 1,
    "weekday": 1,
    "hour": 1,
    "minute": 1,
    "second": 1,
    "epoch": 1,
    "date": 1,
    "datetime": 1,
    "from_epoch": 1,
    "duration": 1,
    "decimal": 1,
    "seconds": 1,
    "json": 2,
    "has_json": 2,
}
"""How many arguments each of them takes."""

_NUMBERS = {name: number for number, name in enumerate(ARITIES)}

LENGTH, UPPER, LOWER, TRIM, SUBSTR, CONCAT, CONTAINS, STARTS_WITH, ENDS_WITH, REPLACE, SPLIT, FORMAT = range(12)
STR, INT, FLOAT, IS_INT, IS_FLOAT, TYPE = range(12, 18)
TRUNC, SIGN, ROUND_TO, POW, ATAN2, LOG2, LOG10, SIN, COS, TAN, ASIN, ACOS, ATAN, DEGREES, RADIANS = range(18, 33)
YEAR, MONTH, DAY, WEEKDAY, HOUR, MINUTE, SECOND, EPOCH = range(33, 41)
DATE, DATETIME, FROM_EPOCH, DURATION, DECIMAL, SECONDS, JSON, HAS_JSON = range(41, 49)

NONE = -1  # the number of a function that kernels do not compute

# What a computation returns in the place of a term.
ASK = -1  # Python has to compute this one
FULL = -2  # the dictionary has to grow first


def number_of(function: str, arguments: int) -> int:
    """The number of a function with so many arguments."""
    fits = function in _NUMBERS and ARITIES[function] in (None, arguments) and arguments > 0
    return _NUMBERS[function] if fits else NONE


def replaced_by(names: Iterable[str]) -> int:
    """A bit for each of these functions, by number: registered functions have taken their places."""
    return sum(1 << _NUMBERS[name] for name in names if name in _NUMBERS)
