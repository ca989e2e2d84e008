"""Parts of JSON texts by their paths: `$.a[0]`, `$["a b"].c`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tidelog.language.functions.failing import CallFailed, text
from tidelog.values import INTEGER_MAX, INTEGER_MIN, Value, is_unicode

_STEP = re.compile(r"""\.([^\W\d][\w-]*)|\[([0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*"|'[^'\\]*')\]""")


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[str | int, ...]:
    """The names and numbers that a path is made of."""
    if not path.startswith("$"):
        raise CallFailed("has no path: one begins with `$`")
    steps: list[str | int] = []
    place = 1
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise CallFailed(f'has no path: `{path[place:]}` is neither `.name` nor `[0]` nor `["name"]`')
        quoted = found[3]
        if quoted is not None:
            try:
                steps.append(json.loads(quoted) if quoted[0] == '"' else quoted[1:-1])
            except ValueError:
                raise CallFailed("has no path: a name in it is no JSON string") from None
        else:
            steps.append(found[1] if found[1] is not None else int(found[2]))
        place = found.end()
    return tuple(steps)


@lru_cache(maxsize=64)
def _parsed(document: str) -> Any:
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        raise CallFailed("reads no JSON") from None


def _json(document: Value, path: Value) -> Value:
    """A string, a number or a boolean as a value; an object or an array as JSON text again."""
    found = _parsed(text(document))
    for step in _steps(text(path)):
        there = isinstance(found, dict) and step in found if isinstance(step, str) else _has_place(found, step)
        if not there:
            raise CallFailed("finds nothing there")
        found = found[step]
    if found is None:
        raise CallFailed("finds null there")
    if isinstance(found, dict | list):
        found = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    if isinstance(found, str) and not is_unicode(found):
        raise CallFailed("finds half of a surrogate pair")
    if isinstance(found, int) and not INTEGER_MIN <= found <= INTEGER_MAX:
        raise CallFailed("finds an integer beyond 64 bits")
    if isinstance(found, float) and found - found != 0.0:
        raise CallFailed("finds a number that is not finite")
    return found


def _has_place(found: object, step: int) -> bool:
    return isinstance(found, list) and step < len(found)


def _has(document: Value, path: Value) -> bool:
    """Whether there is a value; a text that is no JSON has none."""
    _steps(text(path))
    try:
        _json(document, path)
    except CallFailed:
        return False
    return True


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"json": _json, "has_json": _has}
