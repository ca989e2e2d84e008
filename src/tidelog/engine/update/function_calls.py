"""Functions that kernels leave to Python: those of the language, for arguments that kernels cannot take, and functions
registered from Python.

Kernels look results up in a memo, a relation from arguments to result. They request what is missing there
(`joins.look_ahead`); here the requests are answered, whole columns at a time, and remembered. So a function is called
once for each combination of arguments, and is taken to give the same result every time. A call that raises fails the
rule instance; so does a result that no fact can hold. The store keeps the reasons of the first of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from tidelog.errors import DataError, TidelogError
from tidelog.language.functions import COMPUTED, CallFailed
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.runtime.signals import comes_from_signal, interruptible
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store
from tidelog.store.term_table import Ids
from tidelog.values import Value

# Cells of requests beyond which larger batches gain nothing.
MOST_REQUESTS = 1 << 16


def answer_requests(
    store: Store, functions: Mapping[str, Callable[..., Any]], between: Callable[[], None] = lambda: None
) -> None:
    """Call the function that a kernel asked for, and remember the results. `between` is called after each call of a
    registered function, which may take long.
    """
    requests = store.arrays.requests[: int(store.machine[M.REQUEST_COUNT])].copy()
    store.machine[M.REQUEST_COUNT] = 0
    memo, size = requests[:2].tolist()  # the same for all
    relation = store.operation_memo(-1 - memo, size) if memo < 0 else store.relations[memo]
    name, calls = store.memo_functions[relation.number], _distinct(requests.reshape(-1, size + 2)[:, 2:])
    if name in functions:
        results = _registered(store, name, functions[name], calls, between)
    elif name in COMPUTED:
        results = _built_in(store, name, calls)
    else:
        hint = f"register it with kb.register({name!r}, function)"
        raise TidelogError(f"the function `{name}` is not registered; {hint}")
    store.remember(relation, np.column_stack((calls, results)))
    if 2 * len(requests) > len(store.arrays.requests):
        store.arrays.grow_requests(MOST_REQUESTS)


def _distinct(calls: Cells) -> Cells:
    """Each call once."""
    if len(calls) == 1:
        return calls
    varied = [column for column in calls.T if (column != column[0]).any()]
    if not varied:
        return calls[:1]
    if len(varied) <= 2:
        keys = varied[0].astype(np.int64) << 32 | varied[-1]
        _, firsts = np.unique(keys, return_index=True)
    else:
        _, firsts = np.unique(calls, axis=0, return_index=True)
    return calls if len(firsts) == len(calls) else calls[np.sort(firsts)]


def _columns(store: Store, calls: Cells) -> list[list[Value]]:
    table = store.terms.table
    return [table.decode_column(column) for column in calls.T]


# ---- the functions of the language


def _built_in(store: Store, name: str, calls: Cells) -> Ids:
    """The terms of the results; FAILURE where a call has none."""
    columns, function = _columns(store, calls), COMPUTED[name]
    try:
        return store.terms.encode_values(list(map(function, *columns)) if columns else [function()])
    except (CallFailed, DataError):
        pass  # A call has no value: take them one by one.
    return np.array([_term_of_call(store, name, values) for values in zip(*columns, strict=True)], np.int32)


def _term_of_call(store: Store, name: str, values: tuple[Value, ...]) -> int:
    try:
        return store.terms.encode(COMPUTED[name](*values))
    except CallFailed as problem:
        if problem.args:
            store.note_problem(name, values, str(problem))
    except DataError as problem:
        store.note_problem(name, values, f"has no value: {problem}")
    return K.FAILURE


# ---- registered functions


def _registered(
    store: Store, name: str, function: Callable[..., Any], calls: Cells, between: Callable[[], None]
) -> Ids:
    results = np.empty(len(calls), np.int32)
    columns = _columns(store, calls)
    for place, values in enumerate(zip(*columns, strict=True) if columns else [()]):
        results[place] = _result(store, name, function, values)
        between()
    return results


def _result(store: Store, name: str, function: Callable[..., Any], values: tuple[Value, ...]) -> int:
    """The term of a call's result; FAILURE where it has none, and the store knows why."""
    try:
        result = interruptible(function, *values)
    except Exception as problem:  # A registered function may raise anything; the rule instance fails, and is counted.
        if comes_from_signal(problem):
            raise  # The function has not failed.
        store.note_problem(name, values, f"raised {shown_problem(problem)}")
        return K.FAILURE
    with suppress(DataError):
        return store.terms.encode(result)
    store.note_problem(name, values, f"returned {shown_result(result)}, which no fact can hold")
    return K.FAILURE


def shown_problem(problem: Exception) -> str:
    """What a function raised, as text."""
    text = _shortened(str, problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def shown_result(result: object) -> str:
    """What a function returned, as text."""
    return _shortened(repr, result)


def _shortened(convert: Callable[[Any], str], thing: object) -> str:
    """A thing as text, which its own methods make, and they may fail as well."""
    try:
        return f"{convert(thing):.200}"
    except Exception:
        return f"a {type(thing).__name__}"
