"""Checks of what Python programs pass in, before anything is done with it: facts, texts, limits, functions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeGuard

from tidelog.errors import DataError, StorageError, TidelogError
from tidelog.language import AGGREGATES
from tidelog.language.checks import OPERATORS, RESERVED_FUNCTIONS
from tidelog.language.functions.registered import Lattice
from tidelog.language.names import HEAD_AGGREGATES, RESERVED, is_word
from tidelog.moments import microseconds
from tidelog.values import is_unicode

if TYPE_CHECKING:
    from pathlib import Path

Time = datetime | float | str
"""A moment, a number of seconds since 1970, or the text of a moment as XML Schema writes it."""


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether this is a mapping; what most mappings are is found at once."""
    return isinstance(value, dict) or isinstance(value, Mapping)  # noqa: SIM101


def checked_facts(facts: object, part: str) -> Mapping[str, Any]:
    """The facts of an update, which must be rows by predicate."""
    if facts is None:
        return {}
    if not is_mapping(facts):
        kind = type(facts).__name__
        raise DataError(f'`{part}` is a mapping of predicates to rows, such as {{"edge": [("a", "b")]}}, not a {kind}')
    return facts


def checked_text(text: object, part: str) -> str:
    """Rules, a program or a query, which must be text."""
    if not isinstance(text, str):
        raise TidelogError(f"`{part}` is a text in the language, not {text!r:.60} of type {type(text).__name__}")
    return text


def checked_commit(commit: object) -> Mapping[str, str]:
    """The note of an update, which must map texts to texts."""
    if commit is None:
        return {}
    if not isinstance(commit, Mapping) or not all(isinstance(text, str) for item in commit.items() for text in item):
        raise DataError(f'`commit` is a mapping of texts, such as {{"batch": "17"}}, not {commit!r}')
    if not all(map(is_unicode, itertools.chain(*commit.items()))):
        raise DataError(f"`commit` holds half of a surrogate pair, which is no Unicode text: {commit!a:.60}")
    return dict(commit)


def checked_time(at: object) -> int:
    """A time, in microseconds since 1970: a moment, its text as XML Schema writes it, or a number of seconds."""
    time = microseconds(at)
    if time is None:
        raise DataError(
            f"{at!r:.60} is no time; give a datetime, a text such as `2026-11-18T12:00:00Z`, or a number of seconds "
            "since 1970"
        )
    return time


def checked_path(path: str | os.PathLike[str]) -> Path:
    """A path that a file system accepts. An empty one is refused, since `Path` takes it for the present folder."""
    from pathlib import Path

    if not os.fspath(path):
        raise StorageError("'' is no path: give the name of a file or folder; `.` is the present folder")
    try:
        named = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise StorageError(f"{os.fspath(path)!a:.60} is no path: it holds NUL or half of a surrogate pair")
    return Path(path)


def check_limits(max_facts: object, timeout: object) -> None:
    """Refuse limits that no update could keep, or that none could break."""
    if max_facts is not None and (type(max_facts) is not int or max_facts < 0):
        raise TidelogError(f"`max_facts` is a whole number from 0 on, or None for no limit, not {max_facts!r}")
    # NaN is not from 0 on, either.
    if timeout is not None and not (type(timeout) in (int, float) and timeout >= 0):  # type: ignore[operator]
        raise TidelogError(f"`timeout` is a number of seconds from 0 on, or None for no limit, not {timeout!r}")


def checked_marking(marking: object) -> int:
    """How many updates a stream looks ahead."""
    if not isinstance(marking, int) or marking < 0:
        raise TidelogError(
            f"`marking` is how many updates a stream looks ahead, from 0 on, or True for 1 and False for 0, "
            f"not {marking!r:.60}"
        )
    return int(marking)


def check_on_error(on_error: object) -> None:
    """Refuse a way to treat failures that there is not."""
    if on_error not in ("count", "raise"):
        raise TidelogError(f'`on_error` is "count" or "raise", not {on_error!r:.60}')


def check_function(name: object, function: object) -> None:
    """Refuse a function that rules could not call by its name."""
    if not isinstance(name, str) or not is_word(name) or name in RESERVED:
        raise TidelogError(f"{name!r} cannot name a function: use a word of letters, digits and `_`")
    if name in RESERVED_FUNCTIONS or name in OPERATORS:
        raise TidelogError(f"`{name}` is a function of the language; choose another name")
    if name in AGGREGATES:
        raise TidelogError(f"`{name}` is an aggregate of the language; choose another name")
    if isinstance(function, Lattice):
        _check_lattice(name, function)
    if not callable(function):
        raise TidelogError(f"`{name}` cannot be registered: {function!r:.60} cannot be called; pass a Python function")


def _check_lattice(name: str, lattice: Lattice) -> None:
    """Refuse a lattice that rules could not join values by."""
    if name in HEAD_AGGREGATES:
        raise TidelogError(f"`{name}` is an aggregate of the language; choose another name")
    for part, function in (("join", lattice.join), ("order", lattice.order)):
        if not (callable(function) or (function is None and part == "order")):
            what = f"the `{part}` of the lattice `{name}` cannot be called: {function!r:.60}"
            raise TidelogError(f"{what}; pass a Python function of two values")
