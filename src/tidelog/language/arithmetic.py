"""What arithmetic yields, or why it yields nothing, in Python: for expressions in facts, and for messages.

Rules are evaluated by the engines, which only count what has no value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from tidelog.language.literals import render_value
from tidelog.language.syntax import Call, Constant
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

Number = int | float


class NoValue(Exception):
    """An expression has no value; the message says why."""


def kind_of(value: Value) -> str:
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


def computed(call: Call, arguments: tuple[Value, ...]) -> Value:
    """The value of a call of plain arithmetic."""
    shown = str(Call(call.function, tuple(map(Constant, arguments))))
    whole = call.function in _OF_INTEGERS
    numbers: list[Number] = []
    for argument in arguments:
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise NoValue(f"{shown} needs numbers, and {render_value(argument)} is a {kind_of(argument)}")
        if whole and not isinstance(argument, int):
            raise NoValue(f"{shown} needs integers, and {render_value(argument)} is none")
        numbers.append(argument)
    if call.function in ("/", "%", "div", "mod") and numbers[1] == 0:
        raise NoValue(f"{shown} is a division by zero")
    if call.function in ("shl", "shr") and not 0 <= numbers[1] <= 63:
        raise NoValue(f"{shown} shifts by {numbers[1]} bits, which is not from 0 to 63")
    try:
        result = OPERATIONS[call.function](*numbers)
    except OverflowError:
        raise NoValue(f"{shown} is no finite number") from None
    except (ArithmeticError, ValueError):
        raise NoValue(f"{shown} has no value") from None
    if isinstance(result, int) and not INTEGER_MIN <= result <= INTEGER_MAX:
        raise NoValue(f"{shown} does not fit into 64 bits")
    if not math.isfinite(result):
        raise NoValue(f"{shown} is no finite number")
    return result


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        # A larger power does not fit anyway, and would take long to compute.
        return base ** (exponent if -1 <= base <= 1 else min(exponent, 64))
    if not (math.isfinite(base) and math.isfinite(exponent)):
        raise ValueError
    return math.pow(base, exponent)


_OF_INTEGERS: Mapping[str, Callable[..., int]] = {
    "div": operator.floordiv,
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
}

OPERATIONS: Mapping[str, Callable[..., Number]] = {
    **_OF_INTEGERS,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "mod": operator.mod,
    "**": _power,
    "neg": operator.neg,
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
