"""The functions of the language on texts, and those that convert values: Python computes them for every engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tidelog.values import INTEGER_MAX, INTEGER_MIN, Value


class CallFailed(Exception):
    """A built-in function that cannot take its arguments."""


def _text(value: Value) -> str:
    if type(value) is not str:
        raise CallFailed
    return value


def _concat(*parts: Value) -> str:
    return "".join(map(_text, parts))


def _substr(text: Value, begin: Value, count: Value) -> str:
    if type(begin) is not int or type(count) is not int or begin < 0 or count < 0:
        raise CallFailed
    return _text(text)[begin : begin + count]


def _str(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return str(value)


# Python accepts more as numbers: underscores, blanks around them, digits of other scripts, `nan`.
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _int(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CallFailed
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise CallFailed
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise CallFailed from None
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise CallFailed
    return number


def _float(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CallFailed
    if isinstance(value, str) and not _FLOAT.fullmatch(value):
        raise CallFailed
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise CallFailed from None
    if number - number != 0.0:
        raise CallFailed
    return number


BUILT_IN: Mapping[str, Callable[..., Value]] = {
    "concat": _concat,
    "lower": lambda text: _text(text).lower(),
    "upper": lambda text: _text(text).upper(),
    "length": lambda text: len(_text(text)),
    "substr": _substr,
    "str": _str,
    "int": _int,
    "float": _float,
}
