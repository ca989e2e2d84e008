"""How the helpers of closure kernels are compiled: once, and not once for each constant that a caller passes.

Numba makes a version of a helper for every constant among its arguments. Here most calls pass one, the number of a
register; without those versions the kernels of closures compile in half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import types

from tidelog.store import jit

Function = TypeVar("Function", bound=Callable[..., Any])


def _once(dispatcher: Any) -> Any:
    if jit.JIT_DISABLED:
        return dispatcher
    select = dispatcher.get_call_template

    def select_by_type(arguments: Any, keywords: Any) -> Any:
        by_name = {name: types.unliteral(argument) for name, argument in keywords.items()}
        return select(tuple(types.unliteral(argument) for argument in arguments), by_name)

    dispatcher.get_call_template = select_by_type
    return dispatcher


def device(function: Function) -> Function:
    """Compile a helper that only other kernels call."""
    return _once(jit.device(function))


def inlined(function: Function) -> Function:
    """Compile a helper that is too small to be called, and becomes part of its callers."""
    return _once(jit.inlined(function))
