"""Records as text: `[1, "a", [2.5, true]]`, the canonical text by which two records are the same constant.

It is also text of the language, with every string in double quotes. A record within another one is a part of its text,
so that a field is taken out without looking into the others, and depth costs no stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

RECORD = "urn:tidelog:record"
"""The datatype of the literals that facts hold records as."""

MOST_CHARACTERS = 1 << 20
"""Of the text of a record. Records of records can double it with each step of a recursion."""

_STRING = r'"(?:[^"\\]|\\.)*"'
_MARKS = re.compile(rf"{_STRING}|<[^<>]*>|[\[\],]", re.DOTALL)
_TOKENS = re.compile(
    rf"\s*(?:(?P<mark>[\[\],])|(?P<scalar>{_STRING}(?:@[\w-]+|\^\^<[^<>]*>)?|<[^<>]*>|[^\s\[\],\"<>]+))\s*", re.DOTALL
)


def joined(fields: Iterable[str]) -> str:
    """The text of a record, from those of its fields."""
    return f"[{', '.join(fields)}]"


def split(text: str) -> list[str]:
    """The texts of the fields of a record, from its canonical text."""
    if text == "[]":
        return []
    fields, begin, depth = [], 1, 0
    for found in _MARKS.finditer(text):
        mark = found[0]
        if mark == "[":
            depth += 1
        elif mark == "]":
            depth -= 1
        elif mark == "," and depth == 1:
            fields.append(text[begin : found.start()])
            begin = found.end() + 1
    fields.append(text[begin:-1])
    return fields


def depth(text: str) -> int:
    """How deep records are nested in the text of one, which is itself the first level."""
    level = deepest = 0
    for found in _MARKS.finditer(text):
        level += {"[": 1, "]": -1}.get(found[0], 0)
        deepest = max(deepest, level)
    return deepest


def canonical_text(text: str, scalar: Callable[[str], str | None]) -> str | None:
    """The canonical text of a record that is written in any way; None for a text that is none. `scalar` gives the
    canonical text of a constant that is no record.
    """
    if not text.startswith("[") or len(text) > MOST_CHARACTERS:
        return None
    whole: list[str] = []
    stack, position, due = [whole], 0, True  # whether a field is due, or a comma or the end
    while position < len(text):
        found = _TOKENS.match(text, position)
        if found is None or (len(stack) == 1 and whole):
            return None
        position = found.end()
        if found["mark"] == "[" and due:
            stack.append([])
        elif found["mark"] == "]" and len(stack) > 1 and not (due and stack[-1]):
            fields = stack.pop()
            stack[-1].append(joined(fields))
            due = False
        elif found["mark"] == "," and len(stack) > 1 and not due:
            due = True
        else:
            constant = scalar(found["scalar"]) if found["scalar"] and due and len(stack) > 1 else None
            if constant is None:
                return None
            stack[-1].append(constant)
            due = False
    return whole[0] if len(stack) == 1 and whole else None
