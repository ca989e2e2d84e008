"""Why a comparison or an expression has no value: what engines only count, said in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tidelog.language.literals import render_value
from tidelog.language.syntax import Call, Comparison, Constant, Expression, Variable
from tidelog.program.normal_form import is_foreign
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

Values = Mapping[Variable, Value]

CallProblem = Callable[[str, tuple[Value, ...]], str]
"""Why a call of a function, with these arguments, gave no value."""


class NoValue(Exception):
    """An expression has no value; the message says why."""


def why_no_value(expression: Expression, values: Values, call_problem: CallProblem) -> str:
    """Why an expression has no value under values of its variables."""
    try:
        _value(expression, values, call_problem)
    except NoValue as problem:
        return str(problem)
    return "has no value"


def why_incomparable(item: Comparison, values: Values, call_problem: CallProblem) -> str:
    """Why the values of two sides cannot be compared; `NoValue` where one has none."""
    left, right = (_value(side, values, call_problem) for side in (item.left, item.right))
    sides = f"{render_value(left)} {item.operator} {render_value(right)}"
    if _kind(left) == _kind(right):
        return f"{sides} compares two values of type {_kind(left)}, which have no order"
    return f"{sides} compares values of different types, {_kind(left)} and {_kind(right)}"


def _kind(value: Value) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case IRI():
            return "IRI"
        case Literal():
            return "literal"
    return "string"


def _value(expression: Expression, values: Values, call_problem: CallProblem) -> Value:
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Variable):
        return values[expression]
    arguments = tuple(_value(argument, values, call_problem) for argument in expression.arguments)
    if is_foreign(expression):
        raise NoValue(call_problem(expression.function, arguments))
    return _computed(expression, arguments)


def _computed(call: Call, arguments: tuple[Value, ...]) -> Value:
    shown = str(Call(call.function, tuple(map(Constant, arguments))))
    numbers: list[int | float] = []
    for argument in arguments:
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise NoValue(f"{shown} needs numbers, and {render_value(argument)} is a {_kind(argument)}")
        numbers.append(argument)
    if call.function in ("/", "%") and numbers[1] == 0:
        raise NoValue(f"{shown} is a division by zero")
    try:
        result = _OPERATIONS[call.function](*numbers)
    except (ArithmeticError, ValueError):
        raise NoValue(f"{shown} has no value") from None
    if isinstance(result, int) and not INTEGER_MIN <= result <= INTEGER_MAX:
        raise NoValue(f"{shown} does not fit into 64 bits")
    if not math.isfinite(result):
        raise NoValue(f"{shown} is no finite number")
    return result


_OPERATIONS: Mapping[str, Callable[..., int | float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": lambda left, right: left % right,
    "neg": lambda number: -number,
    "abs": abs,
    "min2": min,
    "max2": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
}
