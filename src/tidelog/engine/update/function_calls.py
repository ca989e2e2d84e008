"""Functions that kernels cannot compute: the string functions of the language, and functions registered from Python.

Kernels look results up in a memo, a relation from arguments to result. They request what is missing there; here the
requests are answered, all of one function in a batch, and remembered. So a function is called once for each combination
of arguments, and is taken to give the same result every time. A call that raises fails the rule instance; so does a
result that no fact can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidelog.errors import DataError, TidelogError
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.program.text_functions import BUILT_IN
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
            rows.append((*arguments, _result(store, function, values)))
        store.remember(store.relations[memo], np.array(rows, np.int32))


def _result(store: Store, function: Callable[..., Any], values: list[Value]) -> int:
    """The term of a call's result, FAILURE where it has none."""
    try:
        result = interruptible(function, *values)
    except Exception as problem:  # A registered function may raise anything; the rule instance fails, and is counted.
        if comes_from_signal(problem):
            raise  # The function has not failed.
        return K.FAILURE
    if not isinstance(result, str | int | float | bool | IRI | Literal | np.generic):
        return K.FAILURE
    try:
        return store.terms.encode(result)  # type: ignore[arg-type]
    except DataError:
        return K.FAILURE
