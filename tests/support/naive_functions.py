"""What expressions, comparisons and aggregates yield, said as plainly as it can be; the arithmetic of the oracle.

Integers are 64-bit and signed. `int op int` is an integer, but for `int / int`, the float nearest to the quotient; all
other arithmetic takes floats and gives a float. What has no value (a type that does not fit, division by zero,
overflow, a result that is not finite) raises `Failure`: the rule instance does not match and is counted. Booleans are
no numbers, IRIs no strings.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value, identity

Functions = Mapping[str, Callable[..., Value]]
Number = int | float

INTEGER = re.compile(r"[+-]?[0-9]+")
FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Failure(Exception):
    """An expression without a value; its message says why."""


def number(value: Value) -> Number:
    if type(value) is int or type(value) is float:
        return value
    raise Failure(f"{value!r} is not a number")


def integer(value: Value) -> int:
    if type(value) is int:
        return value
    raise Failure(f"{value!r} is not an integer")


def boolean(value: Value) -> bool:
    if type(value) is bool:
        return value
    raise Failure(f"{value!r} is not a boolean")


def text(value: Value) -> str:
    if type(value) is str:
        return value
    raise Failure(f"{value!r} is not a string")


def is_number(value: Value) -> bool:
    return type(value) in (int, float)


def checked(value: object) -> Value:
    """A result that a fact can hold: an integer of 64 bits, a finite float, or a value that is no number."""
    if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise Failure("integer overflow")
    if type(value) is float and not math.isfinite(value):
        raise Failure("the result is not finite")
    if isinstance(value, str | int | float | bool | IRI | Literal):
        return value
    raise Failure(f"{value!r} is not a value that a fact can hold")


def chosen(left: Value, right: Value, sign: int) -> Value:
    """The lesser (sign 1) or greater (sign -1) of two numbers, the first of two equal ones; NaN is neither."""
    first, second = number(left), number(right)
    if math.isnan(first) or math.isnan(second):
        raise Failure("NaN has no order")
    return right if sign * second < sign * first else left


def to_integer(value: Value) -> int:
    if isinstance(value, str):
        if not INTEGER.fullmatch(value):
            raise Failure(f"{value!r} does not read as an integer")
        return int(value)
    return math.trunc(number(value))


def to_float(value: Value) -> float:
    if isinstance(value, str):
        if not FLOAT.fullmatch(value):
            raise Failure(f"{value!r} does not read as a number")
        return float(value)
    return float(number(value))


def to_string(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def concat(first: Value, second: Value, *others: Value) -> str:
    return "".join(text(part) for part in (first, second, *others))


def substring(value: Value, start: Value, count: Value) -> str:
    if integer(start) < 0 or integer(count) < 0:
        raise Failure("substr takes no negative start or count")
    return text(value)[integer(start) : integer(start) + integer(count)]


BUILT_IN: Mapping[str, Callable[..., Value]] = {
    "+": lambda a, b: number(a) + number(b),
    "-": lambda a, b: number(a) - number(b),
    "*": lambda a, b: number(a) * number(b),
    "/": lambda a, b: number(a) / number(b),
    "%": lambda a, b: number(a) % number(b),
    "neg": lambda a: -number(a),
    "abs": lambda a: abs(number(a)),
    "min2": lambda a, b: chosen(a, b, 1),
    "max2": lambda a, b: chosen(a, b, -1),
    "floor": lambda a: math.floor(number(a)),
    "ceil": lambda a: math.ceil(number(a)),
    "round": lambda a: round(number(a)),
    "sqrt": lambda a: math.sqrt(number(a)),
    "log": lambda a: math.log(number(a)),
    "exp": lambda a: math.exp(number(a)),
    "concat": concat,
    "lower": lambda a: text(a).lower(),
    "upper": lambda a: text(a).upper(),
    "length": lambda a: len(text(a)),
    "substr": substring,
    "str": to_string,
    "int": to_integer,
    "float": to_float,
}


# These make no new magnitude, so they take an infinite number of the data as it is.
KEEPING = frozenset({"neg", "abs", "min2", "max2"})


def call(name: str, arguments: Sequence[Value], registered: Functions) -> Value:
    """The value of a function, built in or registered. Whatever a registered one raises fails the instance only; any
    value that a fact can hold is one that it can return.
    """
    if name in BUILT_IN:
        try:
            value = BUILT_IN[name](*arguments)
            return value if name in KEEPING and type(value) is float else checked(value)
        except (ArithmeticError, ValueError) as error:
            raise Failure(str(error)) from error
    function = registered[name]
    try:
        value = function(*arguments)
        return value if type(value) is float else checked(value)
    except Exception as error:
        raise Failure(str(error)) from error


ORDERS: Mapping[str, Callable[..., bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def same(left: Value, right: Value) -> bool:
    """`=`: numbers by value, all else as constants."""
    if is_number(left) and is_number(right):
        return left == right
    return identity(left) == identity(right)


def kind(value: Value) -> str:
    """Values of one kind have an order among themselves; an RDF literal of another datatype has none."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case IRI():
            return "iri"
    raise Failure(f"{value!r} has no order")


def compare(comparison: str, left: Value, right: Value) -> bool:
    if comparison in ("=", "!="):
        return same(left, right) == (comparison == "=")
    if kind(left) != kind(right):
        raise Failure(f"{left!r} and {right!r} have no order")
    return ORDERS[comparison](left, right)


def ordered(values: Sequence[Value]) -> list[Value]:
    """Values of one kind in ascending order; an integer before the float of the same value."""
    if len({kind(value) for value in values}) > 1:
        raise Failure("values of several kinds have no order")
    if any(value != value for value in values):
        raise Failure("NaN has no order")
    return sorted(values, key=lambda value: (value, isinstance(value, float)))


def float_sum(values: Sequence[Value]) -> float:
    """The exact sum, rounded once (as `math.fsum` does), so that it does not depend on the order of the rows."""
    try:
        return float(sum(Fraction(float(number(value))) for value in values))
    except (ArithmeticError, ValueError) as error:
        raise Failure(str(error)) from error


def total(values: Sequence[Value]) -> Value:
    numbers = [number(value) for value in values]
    if all(isinstance(value, int) for value in numbers):
        return checked(sum(numbers))
    return float_sum(values)


def median(values: Sequence[Value]) -> Value:
    numbers = ordered([number(value) for value in values])
    middle, odd = divmod(len(numbers), 2)
    return numbers[middle] if odd else checked(float_sum(numbers[middle - 1 : middle + 1]) / 2)


def greatest(values: Sequence[Value]) -> Value:
    """The first of the equal greatest ones: of `1` and `1.0`, the integer."""
    in_order = ordered(values)
    return next(value for value in in_order if value == in_order[-1])


AGGREGATES: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "count": len,
    "sum": total,
    "min": lambda values: ordered(values)[0],
    "max": greatest,
    "avg": lambda values: float_sum(values) / len(values),
    "median": median,
    "any": lambda values: any(map(boolean, values)),
    "all": lambda values: all(map(boolean, values)),
}


def aggregate(name: str, values: Sequence[Value], distinct: bool) -> Value:
    """The aggregate of one group, which has at least one row; `distinct` drops repeated constants."""
    if distinct:
        values = list({identity(value): value for value in values}.values())
    return AGGREGATES[name](values)


# One order for all values, for those that a recursion keeps and for witnesses.


def better(left: Value, right: Value, rising: bool) -> bool:
    """Whether a value is better than another, different one. Numbers come first, then strings, IRIs, booleans and
    literals; within a kind, smaller ones are better, or larger ones; and an integer is, than the float of its value.
    """
    first, second = _place(left), _place(right)
    if first[0] != second[0]:
        return first[0] < second[0]
    if first[1] == second[1]:
        return isinstance(right, float)
    return bool(first[1] > second[1] if rising else first[1] < second[1])


def _place(value: Value) -> tuple[int, object]:
    match value:
        case bool():
            return 3, value
        case int() | float():
            return 0, value
        case str():
            return 1, value
        case IRI():
            return 2, value.value
    return 4, (value.datatype, value.language, value.text)


def witness(function: str, values: Sequence[Value], witnesses: Sequence[Value]) -> Value:
    """What stands beside the least or greatest value; the best of several, as for `min`."""
    chosen_value = identity(aggregate(function, values, False))
    beside = [there for value, there in zip(values, witnesses, strict=True) if identity(value) == chosen_value]
    best = beside[0]
    for other in beside:
        if identity(other) != identity(best) and better(other, best, rising=False):
            best = other
    return best
