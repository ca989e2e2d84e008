"""Regular expressions, by RE2: its time is linear in the text, whatever the expression, so that no data can hang rules.

Python's own `re` backtracks and may take exponential time; it is no substitute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tidelog.extras import needing
from tidelog.language.functions.failing import CallFailed, text
from tidelog.values import Value


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    with needing("a regular expression", "regex"):
        import re2  # type: ignore[import-untyped]
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else problem
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise CallFailed(f"has no regular expression: {shown}") from None


def _matches(whole: Value, expression: Value) -> bool:
    return _compiled(text(expression)).fullmatch(text(whole)) is not None


def _extract(whole: Value, expression: Value) -> str:
    """The first match, or its first group if there is one."""
    found = _compiled(text(expression)).search(text(whole))
    if found is None:
        raise CallFailed("finds no match")
    part: str | None = found[1] if found.re.groups else found[0]
    if part is None:
        raise CallFailed("finds a match without the group")
    return part


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"matches": _matches, "extract": _extract}
