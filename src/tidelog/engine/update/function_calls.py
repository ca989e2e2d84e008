"""Functions that kernels cannot compute: the string functions of the language, and functions registered from Python.

Kernels look results up in a memo, a relation from arguments to result. They request what is missing there; here the
requests are answered, all of one function in a batch, and remembered. So a function is called once for each combination
of arguments, and is taken to give the same result every time. A call that raises fails the rule instance; so does a
result that no fact can hold. The store keeps the reasons of the first of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from tidelog.errors import DataError, TidelogError
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.program.text_functions import BUILT_IN, CallFailed
from tidelog.runtime.signals import comes_from_signal, interruptible
from tidelog.store.store import Store
from tidelog.values import IRI, Literal, Value


def answer_requests(store: Store, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Call every function that kernels asked for, and remember the results."""
    count = int(store.machine[M.REQUEST_COUNT])
    requests = store.arrays.requests[:count].tolist()
    store.machine[M.REQUEST_COUNT] = 0
    wanted: dict[int, dict[tuple[int, ...], None]] = {}
    place = 0
    while place < count:
        memo, size = requests[place], requests[place + 1]
        wanted.setdefault(memo, {})[tuple(requests[place + 2 : place + 2 + size])] = None
        place += 2 + size
    for memo, calls in wanted.items():
        name = store.memo_functions[memo]
        function = functions.get(name, BUILT_IN.get(name))
        if function is None:
            hint = f"register it with kb.register({name!r}, function)"
            raise TidelogError(f"the function `{name}` is not registered; {hint}")
        rows = []
        for arguments in calls:
            values = [store.terms.table.decode(term) for term in arguments]
            rows.append((*arguments, _result(store, name, function, values)))
        store.remember(store.relations[memo], np.array(rows, np.int32))


def _result(store: Store, name: str, function: Callable[..., Any], values: list[Value]) -> int:
    """The term of a call's result; FAILURE where it has none, and the store knows why."""
    try:
        result = interruptible(function, *values)
    except CallFailed:
        return K.FAILURE
    except Exception as problem:  # A registered function may raise anything; the rule instance fails, and is counted.
        if comes_from_signal(problem):
            raise  # The function has not failed.
        store.note_problem(name, values, f"raised {_shown(problem)}")
        return K.FAILURE
    if isinstance(result, str | int | float | bool | IRI | Literal | np.generic):
        with suppress(DataError):
            return store.terms.encode(result)  # type: ignore[arg-type]
    store.note_problem(name, values, f"returned {_shortened(repr, result)}, which no fact can hold")
    return K.FAILURE


def _shown(problem: Exception) -> str:
    text = _shortened(str, problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def _shortened(convert: Callable[[Any], str], thing: object) -> str:
    """A thing as text, which its own methods make, and they may fail as well."""
    try:
        return f"{convert(thing):.200}"
    except Exception:
        return f"a {type(thing).__name__}"
