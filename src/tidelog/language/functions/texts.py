"""Functions on texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tidelog.language.functions.conversions import to_text
from tidelog.language.functions.failing import CallFailed, place, text
from tidelog.values import Value

# `{}` is the next value and `{2}` the third; `{{` and `}}` are braces.
_FIELD = re.compile(r"\{\{|\}\}|\{([0-9]*)\}|[{}]")


def _concat(first: Value, second: Value) -> str:
    return text(first) + text(second)


def _substr(whole: Value, begin: Value, count: Value) -> str:
    first = place(begin)
    return text(whole)[first : first + place(count)]


def _split(whole: Value, separator: Value, number: Value) -> str:
    if not text(separator):
        raise CallFailed("splits at an empty text")
    parts = text(whole).split(text(separator))
    if place(number) >= len(parts):
        raise CallFailed(f"has no value: there are {len(parts)} parts, numbered from 0")
    return parts[place(number)]


def _format(pattern: Value, *values: Value) -> str:
    used = 0

    def filled(field: re.Match[str]) -> str:
        nonlocal used
        if field[0] in ("{{", "}}"):
            return field[0][0]
        if field[1] is None:
            raise CallFailed("has a single brace; write two for one of the text")
        number = int(field[1][:6]) if field[1] else used
        used += not field[1]
        if number >= len(values):
            raise CallFailed("has more fields than values")
        return to_text(values[number])

    return _FIELD.sub(filled, text(pattern))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "concat": _concat,
    "lower": lambda whole: text(whole).lower(),
    "upper": lambda whole: text(whole).upper(),
    "length": lambda whole: len(text(whole)),
    "substr": _substr,
    "contains": lambda whole, part: text(part) in text(whole),
    "starts_with": lambda whole, part: text(whole).startswith(text(part)),
    "ends_with": lambda whole, part: text(whole).endswith(text(part)),
    "replace": lambda whole, part, other: text(whole).replace(text(part), text(other)),
    "split": _split,
    "trim": lambda whole: text(whole).strip(),
    "format": _format,
}
