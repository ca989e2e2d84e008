"""What expressions, comparisons and aggregates yield, said as plainly as it can be; the arithmetic of the oracle.

Integers are 64-bit and signed. `int op int` is an integer, but for `int / int`, the float nearest to the quotient; all
other arithmetic takes floats and gives a float. What has no value (a type that does not fit, division by zero,
overflow, a result that is not finite) raises `Failure`: the rule instance does not match and is counted. Booleans are
no numbers, IRIs no strings.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, localcontext
from fractions import Fraction

from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Record, Value, identity, literal_of

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


def booleans(values: Sequence[Value]) -> list[bool]:
    """The values, each of which has to be one, whichever of them decide."""
    return list(map(boolean, values))


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
    return math.trunc(exact(value))


def to_float(value: Value) -> float:
    if isinstance(value, str):
        if not FLOAT.fullmatch(value):
            raise Failure(f"{value!r} does not read as a number")
        return float(value)
    return float(exact(value))


def exact(value: Value) -> Number | Fraction:
    """A number; also a decimal or a large integer."""
    meant = value.value if isinstance(value, Literal) else None
    return Fraction(meant) if isinstance(meant, Decimal | int) else number(value)


def to_string(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def concat(first: Value, second: Value, *others: Value) -> str:
    return "".join(text(part) for part in (first, second, *others))


def substring(value: Value, start: Value, count: Value) -> str:
    if integer(start) < 0 or integer(count) < 0:
        raise Failure("substr takes no negative start or count")
    return text(value)[integer(start) : integer(start) + integer(count)]


def split(value: Value, separator: Value, part: Value) -> str:
    parts = text(value).split(text(separator))
    if not 0 <= integer(part) < len(parts):
        raise Failure(f"there is no part {part!r}")
    return parts[integer(part)]


def formatted(pattern: Value, *values: Value) -> str:
    try:
        return text(pattern).format(*map(to_string, values))
    except (IndexError, KeyError) as error:
        raise Failure(str(error)) from error


def extract(value: Value, expression: Value) -> str:
    """By Python's own expressions, which say the same where tests use them."""
    found = re.search(text(expression), text(value))
    if found is None:
        raise Failure("no match")
    return found[1] if found.re.groups else found[0]


def json_part(document: Value, path: Value) -> Value:
    """Paths of tests have names and numbers alone."""
    found = json.loads(text(document))
    for name, place in re.findall(r"\.(\w+)|\[(\d+)\]", text(path)):
        try:
            found = found[name if name else int(place)]
        except (LookupError, TypeError) as error:
            raise Failure(str(error)) from error
    return json.dumps(found, separators=(",", ":")) if isinstance(found, list | dict) else checked(found)


def has_value(function: Callable[..., Value], *arguments: Value) -> bool:
    try:
        checked(function(*arguments))
    except (Failure, ArithmeticError, ValueError):
        return False
    return True


TYPES = {str: "string", int: "integer", float: "float", bool: "boolean", IRI: "iri", Literal: "literal"}


def round_to(value: Value, digits: Value) -> Number:
    found = number(value)
    if isinstance(found, int):
        return round(found, min(0, integer(digits)))
    exact, step = Fraction(repr(found)), Fraction(10) ** integer(digits)
    return float(Fraction(round(exact * step)) / step)


def shift(value: Value) -> int:
    if not 0 <= integer(value) <= 63:
        raise Failure(f"{value!r} is no number of bits to shift by")
    return integer(value)


def power(base: Number, exponent: Number) -> Number:
    if type(base) is int and type(exponent) is int and exponent >= 0:
        if abs(base) > 1 and exponent > 63:
            raise Failure("integer overflow")
        return base**exponent
    if not math.isfinite(base) or not math.isfinite(exponent):
        raise Failure("a power is of finite numbers")
    return math.pow(base, exponent)


BUILT_IN: Mapping[str, Callable[..., Value]] = {
    "+": lambda a, b: number(a) + number(b),
    "-": lambda a, b: number(a) - number(b),
    "*": lambda a, b: number(a) * number(b),
    "/": lambda a, b: number(a) / number(b),
    "%": lambda a, b: number(a) % number(b),
    "div": lambda a, b: integer(a) // integer(b),
    "mod": lambda a, b: number(a) % number(b),
    "band": lambda a, b: integer(a) & integer(b),
    "bor": lambda a, b: integer(a) | integer(b),
    "bxor": lambda a, b: integer(a) ^ integer(b),
    "shl": lambda a, b: integer(a) * 2 ** shift(b),
    "shr": lambda a, b: integer(a) // 2 ** shift(b),
    "**": lambda a, b: power(number(a), number(b)),
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
    "contains": lambda a, b: text(b) in text(a),
    "starts_with": lambda a, b: text(a)[: len(text(b))] == text(b),
    "ends_with": lambda a, b: text(a)[max(0, len(a) - len(text(b))) :] == b,
    "replace": lambda a, b, c: text(a).replace(text(b), text(c)),
    "split": split,
    "trim": lambda a: text(a).strip(),
    "format": formatted,
    "matches": lambda a, b: re.fullmatch(text(b), text(a)) is not None,
    "extract": extract,
    "json": json_part,
    "has_json": lambda a, b: has_value(json_part, a, b),
    "is_int": lambda a: has_value(to_integer, a),
    "is_float": lambda a: has_value(to_float, a),
    "type": lambda a: TYPES[type(a)],
    "pow": lambda a, b: power(number(a), number(b)),
    "log2": lambda a: math.log2(number(a)),
    "log10": lambda a: math.log10(number(a)),
    "sin": lambda a: math.sin(number(a)),
    "cos": lambda a: math.cos(number(a)),
    "tan": lambda a: math.tan(number(a)),
    "asin": lambda a: math.asin(number(a)),
    "acos": lambda a: math.acos(number(a)),
    "atan": lambda a: math.atan(number(a)),
    "atan2": lambda a, b: math.atan2(number(a), number(b)),
    "degrees": lambda a: math.degrees(number(a)),
    "radians": lambda a: math.radians(number(a)),
    "trunc": lambda a: math.trunc(number(a)),
    "round_to": round_to,
    "sign": lambda a: 0 if number(a) == 0 else 1 if a > 0 else -1,
    "str": to_string,
    "int": to_integer,
    "float": to_float,
}


# These make no new magnitude, so they take an infinite number of the data as it is.
KEEPING = frozenset({"neg", "abs", "min2", "max2"})


LIFTED: Mapping[str, Callable[..., object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "mod": operator.mod,
    "div": operator.floordiv,
    "neg": operator.neg,
    "abs": abs,
}


def lifted(function: Callable[..., object], arguments: Sequence[Value]) -> Value:
    """What Python yields for the dates, durations, decimals and integers that literals stand for."""
    if any(isinstance(argument, Record) for argument in arguments):
        raise Failure("records have no order and no arithmetic")
    plain = [argument.value if isinstance(argument, Literal) else number(argument) for argument in arguments]
    if any(type(one) is date and type(two) is datetime for one in plain for two in plain):
        raise Failure("a date and a moment")
    try:
        with localcontext(prec=60):
            result = function(*plain)
    except (TypeError, ArithmeticError, ValueError) as error:
        raise Failure(str(error)) from error
    if type(result) is int and not INTEGER_MIN <= result <= INTEGER_MAX:
        return Literal(str(result), "http://www.w3.org/2001/XMLSchema#integer")
    return checked(result if isinstance(result, int | float) else literal_of(result))


def call(name: str, arguments: Sequence[Value], registered: Functions) -> Value:
    """The value of a function, built in or registered. Whatever a registered one raises fails the instance only; any
    value that a fact can hold is one that it can return.
    """
    if name in ("min2", "max2") and any(isinstance(argument, Literal) for argument in arguments):
        left, right = arguments
        ordered(arguments)
        return right if compare("<" if name == "min2" else ">", right, left) else left
    if name in ("[]", "make_record"):
        return Record(*arguments)
    if name == "record_field":
        record, place, size = arguments
        fields = record.fields if isinstance(record, Record) else ()
        inside = isinstance(place, int) and len(fields) == size and 0 <= place < len(fields)
        return fields[place] if inside else record
    if name in LIFTED and any(isinstance(argument, Literal) for argument in arguments):
        return lifted(LIFTED[name], arguments)
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
    if isinstance(left, Literal) or isinstance(right, Literal):
        return bool(lifted(ORDERS[comparison], (left, right)))
    if kind(left) != kind(right):
        raise Failure(f"{left!r} and {right!r} have no order")
    return ORDERS[comparison](left, right)


def ordered(values: Sequence[Value]) -> list[Value]:
    """Values of one kind in ascending order; an integer before the float of the same value."""
    if any(isinstance(value, Literal) for value in values):
        for value in values:
            compare("<", value, values[0])
        plain = [value.value if isinstance(value, Literal) else value for value in values]
        if any(value != value for value in plain):
            raise Failure("NaN has no order")
        kinds = [(_place(value)[0], isinstance(value, float), _place(value)[1]) for value in values]
        places = sorted(range(len(values)), key=lambda place: (plain[place], *kinds[place]))
        return [values[place] for place in places]
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
    if any(isinstance(value, Literal) for value in values):
        result = values[0]
        for value in values[1:]:
            result = lifted(operator.add, (result, value))
        return result
    numbers = [number(value) for value in values]
    if all(isinstance(value, int) for value in numbers):
        return checked(sum(numbers))
    return float_sum(values)


def median(values: Sequence[Value]) -> Value:
    numbers = ordered([number(value) for value in values])
    middle, odd = divmod(len(numbers), 2)
    return numbers[middle] if odd else checked(float_sum(numbers[middle - 1 : middle + 1]) / 2)


def greatest(values: Sequence[Value]) -> Value:
    """The first of the equal greatest ones: of `1` and `1.0`, the integer; of literals alone, the last."""
    in_order = ordered(values)
    plain = [value.value if isinstance(value, Literal) else value for value in in_order]
    equal = [value for value, meant in zip(in_order, plain, strict=True) if meant == plain[-1]]
    return equal[-1] if isinstance(equal[0], Literal) else equal[0]


def deviation(values: Sequence[Value]) -> float:
    """Of a sample."""
    exact = [Fraction(number(value)) for value in values if math.isfinite(number(value))]
    if len(exact) < max(2, len(values)):
        raise Failure("no deviation")
    mean = sum(exact) / len(exact)
    try:
        return math.sqrt(sum((value - mean) ** 2 for value in exact) / (len(exact) - 1))
    except OverflowError as error:
        raise Failure(str(error)) from error


def quantile(values: Sequence[Value], share: Fraction) -> Value:
    numbers = ordered([number(value) for value in values])
    if not all(map(math.isfinite, numbers)):
        raise Failure("no quantile")
    below, rest = divmod(share * (len(numbers) - 1), 1)
    if not rest:
        return numbers[int(below)]
    low, high = (Fraction(value) for value in numbers[int(below) : int(below) + 2])
    return float((1 - rest) * low + rest * high)


def listed(values: Sequence[Value]) -> str:
    """As JSON text; IRIs and literals by their texts."""
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise Failure("no list")
    in_order: list[Value] = []
    for value in values:
        place = 0
        while place < len(in_order) and not (
            identity(in_order[place]) != identity(value) and better(value, in_order[place], rising=False)
        ):
            place += 1
        in_order.insert(place, value)
    plain = [value if isinstance(value, str | bool | int | float) else str(value) for value in in_order]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


AGGREGATES: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "count": len,
    "sum": total,
    "min": lambda values: ordered(values)[0],
    "max": greatest,
    "avg": lambda values: float_sum(values) / len(values),
    "median": median,
    "stddev": deviation,
    "list": listed,
    "concat": lambda values: "".join(sorted(text(value) for value in values)),
    "any": lambda values: any(booleans(values)),
    "all": lambda values: all(booleans(values)),
}


def aggregate(name: str, values: Sequence[Value], distinct: bool) -> Value:
    """The aggregate of one group, which has at least one row; `distinct` drops repeated constants."""
    if distinct:
        values = list({identity(value): value for value in values}.values())
    if name.startswith("quantile "):
        return quantile(values, Fraction(name.split()[1]))
    if name.startswith("string_agg "):
        return str(ast.literal_eval(name.partition(" ")[2])).join(sorted(text(value) for value in values))
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
