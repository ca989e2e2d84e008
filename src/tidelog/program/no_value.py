"""Why a comparison or an expression has no value: what engines only count, said in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.language.arithmetic import NoValue, computed, kind_of
from tidelog.language.literals import render_value
from tidelog.language.syntax import Comparison, Constant, Expression, Variable
from tidelog.program.normal_form import is_foreign
from tidelog.values import Value

Values = Mapping[Variable, Value]

CallProblem = Callable[[str, tuple[Value, ...]], str]
"""Why a call of a function, with these arguments, gave no value."""


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
    if kind_of(left) == kind_of(right):
        return f"{sides} compares two values of type {kind_of(left)}, which have no order"
    return f"{sides} compares values of different types, {kind_of(left)} and {kind_of(right)}"


def _value(expression: Expression, values: Values, call_problem: CallProblem) -> Value:
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Variable):
        return values[expression]
    arguments = tuple(_value(argument, values, call_problem) for argument in expression.arguments)
    if is_foreign(expression):
        raise NoValue(call_problem(expression.function, arguments))
    return computed(expression, arguments)
