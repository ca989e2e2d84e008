"""Conversions between texts and numbers, and tests whether they have a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from tidelog.language.functions.failing import CallFailed
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

# Python accepts more as numbers: underscores, blanks around them, digits of other scripts, `nan`.
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def to_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _convertible(value: Value) -> Value | Decimal:
    """A decimal or a large integer as that of Python."""
    meant = value.value if isinstance(value, Literal) else None
    return meant if isinstance(meant, Decimal | int) else value


def _int(constant: Value) -> int:
    value = _convertible(constant)
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
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


def _float(constant: Value) -> float:
    value = _convertible(constant)
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
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


def _has_value(convert: Callable[[Value], Value]) -> Callable[[Value], bool]:
    """Whether a conversion has a value."""

    def test(value: Value) -> bool:
        try:
            convert(value)
        except CallFailed:
            return False
        return True

    return test


def type_name(value: Value) -> str:
    """The type of a constant, as the language calls it."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "float"
        case IRI():
            return "iri"
        case Literal():
            return "literal"
    return "string"


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "str": to_text,
    "int": _int,
    "float": _float,
    "is_int": _has_value(_int),
    "is_float": _has_value(_float),
    "type": type_name,
}
