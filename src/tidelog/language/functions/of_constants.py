"""Calls whose arguments are constants, as in facts: their values, or why they have none."""

from __future__ import annotations

from tidelog.errors import DataError
from tidelog.language.arithmetic import OPERATIONS, NoValue, computed
from tidelog.language.functions import COMPUTED
from tidelog.language.functions.failing import CallFailed
from tidelog.language.syntax import Call, Constant
from tidelog.values import Literal, Value, checked_value


def value_of(call: Call, arguments: tuple[Value, ...]) -> Value:
    """The value of a call of a function of the language, with as many arguments as it takes."""
    of_literals = call.function in COMPUTED and any(isinstance(argument, Literal) for argument in arguments)
    if call.function in OPERATIONS and not of_literals:
        return computed(call, arguments)
    shown = str(Call(call.function, tuple(map(Constant, arguments))))
    try:
        return checked_value(COMPUTED[call.function](*arguments))
    except (CallFailed, DataError) as problem:
        raise NoValue(f"{shown} {problem}" if problem.args else f"{shown} has no value") from None
