"""Expressions, comparisons and aggregates as Spark SQL over structs of values.

Arithmetic is Spark's own: each function here builds the text of an expression from the names of columns. All other
functions, built in or registered, are called in Python, on batches of rows by Arrow. What has no value (a type that
does not fit, division by zero, overflow, a result that is not finite) is a null struct, and a comparison that cannot be
made is a null boolean; whatever is computed from a null is null.

Numbers are compared exactly, also integers with floats: by their floor and the rest above it, since casting a 64-bit
integer to a float would round it. Aggregates are exact as well, and independent of the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.errors import TidelogError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR
from tidelog.language.functions import BUILT_IN, CallFailed
from tidelog.language.functions.aggregates import folded, is_folded
from tidelog.language.functions.moments import OPERATIONS
from tidelog.spark.data.dictionary import VALUE_TYPE, Fields, fields_of, value_of
from tidelog.values import INTEGER_MAX, INTEGER_MIN, checked_value

Functions = Mapping[str, Callable[..., Any]]
INFINITY = "double('Infinity')"


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_integer(value: str) -> str:
    return f"{value}.kind = {INT}"


def is_number(value: str) -> str:
    return f"{value}.kind IN ({INT}, {FLOAT})"


def is_nan(value: str) -> str:
    return f"({value}.kind = {FLOAT} AND isnan({value}.number))"


def as_double(value: str) -> str:
    """A number as a double; null for everything else."""
    return f"CASE {value}.kind WHEN {INT} THEN double({value}.integer) WHEN {FLOAT} THEN {value}.number END"


def from_integer(integer: str) -> str:
    """The value of a bigint; null stays null."""
    return f"nvl2({integer}, named_struct('kind', {INT}Y, 'text', '', 'integer', {integer}, 'number', 0D), NULL)"


def from_double(number: str, finite: bool = True) -> str:
    """The value of a double, with an unsigned zero; null for null, and for infinities and NaN unless allowed."""
    fits = f"abs({number}) < {INFINITY}" if finite else f"{number} IS NOT NULL"
    return f"IF({fits}, named_struct('kind', {FLOAT}Y, 'text', '', 'integer', 0L, 'number', {number} + 0D), NULL)"


def _in_range(number: str) -> str:
    return f"({number} >= -{2**63}D AND {number} < {2**63}D)"


def floor_and_rest(value: str) -> str:
    """A struct that orders all numbers except NaN by value. Beyond 64 bits, the rest is the whole number."""
    number = f"{value}.number"
    beyond = f"IF({number} > 0, {INTEGER_MAX}L, {INTEGER_MIN + 1}L - 1L)"
    return (
        f"CASE WHEN {is_integer(value)} THEN named_struct('floor', {value}.integer, 'rest', 0D) "
        f"WHEN {_in_range(number)} THEN named_struct('floor', floor({number}), 'rest', {number} - floor({number})) "
        f"ELSE named_struct('floor', {beyond}, 'rest', {number}) END"
    )


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────────


def arithmetic(function: str, arguments: list[str]) -> str:
    """An arithmetic function of one or two columns of values."""
    computed = _BINARY[function](*arguments) if len(arguments) == 2 else _UNARY[function](*arguments)
    return _refusing_moments(arguments, computed) if function in OPERATIONS else computed


def _refusing_moments(values: Sequence[str], computed: str) -> str:
    """An expression that ends the work where a value is a date, a time, a duration, a decimal or a large integer."""
    found = " OR ".join(f"({value}.kind = {LITERAL} AND {value}.text RLIKE '{_MOMENT}')" for value in values)
    return f"IF({found}, raise_error('{_NO_MOMENTS}'), {computed})"


_MOMENT = "XMLSchema#(dateTime|dateTimeStamp|date|time|dayTimeDuration|duration|precisionDecimal|integer)>$"
_NO_MOMENTS = (
    "the Spark engine does not compute with dates, times, durations, decimals and large integers; the engine in memory "
    "has it: `--engine memory`, or `tidelog.KnowledgeBase`"
)


def _on_numbers(integers: Callable[[str, str], str], doubles: Callable[[str, str], str]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        of_integers = from_integer(integers(f"{left}.integer", f"{right}.integer"))
        of_doubles = from_double(f"({doubles(as_double(left), as_double(right))})")
        return f"IF({is_integer(left)} AND {is_integer(right)}, {of_integers}, {of_doubles})"

    return apply


# Every integer up to this one is a double; and a quotient shifted by so many bits is rounded only once.
_EXACT = 2**53
_SHIFT = 55


def _divide(left: str, right: str) -> str:
    """The double nearest to a quotient; for integers beyond 2 ** 53, dividing doubles would round twice."""
    small = " AND ".join(f"{value}.integer BETWEEN -{_EXACT}L AND {_EXACT}L" for value in (left, right))
    plain = f"({as_double(left)}) / nullif({as_double(right)}, 0D)"
    both = f"{is_integer(left)} AND {is_integer(right)} AND {left}.integer != 0 AND {right}.integer != 0"
    return from_double(
        f"(IF({both} AND NOT ({small}), {_long_quotient(f'{left}.integer', f'{right}.integer')}, {plain}))"
    )


def _long_quotient(left: str, right: str) -> str:
    """A quotient of bigints other than 0, from 63 bits of each; its last bit says whether there is a remainder."""
    shifted = f"({_leading(left)} * {2**_SHIFT}BD)"
    divisor = _leading(right)
    bits = f"(({shifted} div {divisor}) | IF({shifted} % {divisor} = 0, 0L, 1L))"
    sign = f"IF(({left} < 0) = ({right} < 0), 1D, -1D)"
    return f"({sign} * double({bits}) * pow(2D, double({_length(left)} - {_length(right)} - {_SHIFT})))"


def _magnitude(integer: str) -> str:
    """The absolute value of a bigint; half of it for the smallest one, whose absolute value does not fit."""
    return f"IF({integer} < -{INTEGER_MAX}L, {2**62}L, abs({integer}))"


def _length(integer: str) -> str:
    """How many bits the absolute value of a bigint has."""
    return f"(length(bin({_magnitude(integer)})) + IF({integer} < -{INTEGER_MAX}L, 1, 0))"


def _leading(integer: str) -> str:
    """The absolute value of a bigint, shifted left until it fills 63 bits, as a decimal."""
    moved = f"shiftleft({_magnitude(integer)}, 63 - length(bin({_magnitude(integer)})))"
    return f"CAST({moved} AS decimal(19, 0))"


def _modulo(left: str, right: str) -> str:
    """The remainder, with the sign of the divisor."""
    rest = f"({left} % nullif({right}, 0))"
    return f"IF({rest} != 0 AND ({rest} < 0) != ({right} < 0), {rest} + {right}, {rest})"


def _on_integers(operation: Callable[[str, str], str]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        both = f"{is_integer(left)} AND {is_integer(right)}"
        return f"IF({both}, {from_integer(operation(f'{left}.integer', f'{right}.integer'))}, NULL)"

    return apply


def _whole_quotient(left: str, right: str) -> str:
    """The quotient rounded down; null for the one that does not fit."""
    rest = f"({left} % nullif({right}, 0))"
    down = f"IF({rest} != 0 AND ({rest} < 0) != ({right} < 0), 1L, 0L)"
    return f"IF({right} = -1, try_subtract(0L, {left}), {left} div nullif({right}, 0) - {down})"


def _shifted_left(left: str, right: str) -> str:
    moved = f"shiftleft({left}, int({right}))"
    return f"IF({right} BETWEEN 0 AND 63 AND shiftright({moved}, int({right})) = {left}, {moved}, NULL)"


def _power(left: str, right: str) -> str:
    """Of integers an integer, unless the exponent is negative."""
    base, exponent = f"{left}.integer", f"{right}.integer"
    small = f"IF({exponent} % 2 = 0 AND ({base} != 0 OR {exponent} = 0), 1L, {base})"
    product = f"aggregate(sequence(1L, {exponent}), 1L, (product, _) -> try_multiply(product, {base}))"
    whole = f"CASE WHEN {base} BETWEEN -1 AND 1 THEN {small} WHEN {exponent} = 0 THEN 1L "
    whole += f"WHEN {exponent} <= 63 THEN {product} END"
    first, second = f"({as_double(left)})", f"({as_double(right)})"
    fits = f"abs({first}) < {INFINITY} AND abs({second}) < {INFINITY} AND NOT ({first} = 0 AND {second} < 0)"
    fits += f" AND NOT ({first} < 0 AND {second} % 1 != 0)"
    broken = from_double(f"(IF({fits}, pow({first}, {second}), NULL))")
    both = f"{is_integer(left)} AND {is_integer(right)} AND {exponent} >= 0"
    return f"IF({both}, {from_integer(whole)}, {broken})"


def _chosen(order: str) -> Callable[[str, str], str]:
    """The one of two numbers that comes first in an order; the left one if they are equal."""

    def choose(left: str, right: str) -> str:
        ordered = f"{is_number(left)} AND {is_number(right)} AND NOT {is_nan(left)} AND NOT {is_nan(right)}"
        return f"IF({ordered}, IF({floor_and_rest(left)} {order} {floor_and_rest(right)}, {left}, {right}), NULL)"

    return choose


def _negate(value: str) -> str:
    negative = from_integer(f"try_subtract(0L, {value}.integer)")
    return f"IF({is_integer(value)}, {negative}, {from_double(f'(-({as_double(value)}))', finite=False)})"


def _absolute(value: str) -> str:
    return f"CASE WHEN {as_double(value)} < 0 THEN {_negate(value)} WHEN {is_number(value)} THEN {value} END"


def _to_integer(function: str) -> Callable[[str], str]:
    def apply(value: str) -> str:
        number = f"{value}.number"
        whole = from_integer(f"IF({_in_range(number)}, try_cast({function}({number}) AS bigint), NULL)")
        return f"CASE {value}.kind WHEN {INT} THEN {value} WHEN {FLOAT} THEN {whole} END"

    return apply


def _of_double(function: Callable[[str], str]) -> Callable[[str], str]:
    return lambda value: from_double(function(f"({as_double(value)})"))


_BINARY: Mapping[str, Callable[[str, str], str]] = {
    "+": _on_numbers("try_add({}, {})".format, "({}) + ({})".format),
    "-": _on_numbers("try_subtract({}, {})".format, "({}) - ({})".format),
    "*": _on_numbers("try_multiply({}, {})".format, "({}) * ({})".format),
    "/": _divide,
    "%": _on_numbers(_modulo, lambda left, right: _modulo(f"({left})", f"({right})")),
    "mod": _on_numbers(_modulo, lambda left, right: _modulo(f"({left})", f"({right})")),
    "div": _on_integers(_whole_quotient),
    "band": _on_integers("({} & {})".format),
    "bor": _on_integers("({} | {})".format),
    "bxor": _on_integers("({} ^ {})".format),
    "shl": _on_integers(_shifted_left),
    "shr": _on_integers("IF({1} BETWEEN 0 AND 63, shiftright({0}, int({1})), NULL)".format),
    "**": _power,
    "min2": _chosen("<="),
    "max2": _chosen(">="),
}
_UNARY: Mapping[str, Callable[[str], str]] = {
    "neg": _negate,
    "abs": _absolute,
    "floor": _to_integer("floor"),
    "ceil": _to_integer("ceil"),
    "round": _to_integer("rint"),
    "sqrt": _of_double("IF({0} >= 0, sqrt({0}), NULL)".format),
    "log": _of_double("IF({0} > 0, ln({0}), NULL)".format),
    "exp": _of_double("exp({})".format),
}


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────────────────────────


def comparison(operator: str, left: str, right: str) -> str:
    """Whether a comparison of two columns of values holds; null if it cannot be made."""
    ordered_numbers = f"NOT {is_nan(left)} AND NOT {is_nan(right)}"
    numbers = f"{is_number(left)} AND {is_number(right)}"
    if operator in ("=", "!="):
        same = f"{floor_and_rest(left)} = {floor_and_rest(right)} AND {ordered_numbers}"
        verdict = f"IF({numbers}, {same}, {left} = {right})"
        verdict = verdict if operator == "=" else f"NOT {verdict}"
        return f"IF({left} IS NULL OR {right} IS NULL, NULL, {verdict})"
    ordered = (
        f"CASE WHEN {numbers} THEN {floor_and_rest(left)} {operator} {floor_and_rest(right)} AND {ordered_numbers} "
        f"WHEN {left}.kind != {right}.kind THEN NULL "
        f"WHEN {left}.kind IN ({STR}, {IRI_KIND}) THEN {left}.text {operator} {right}.text "
        f"WHEN {left}.kind = {BOOL} THEN {left}.integer {operator} {right}.integer END"
    )
    return _refusing_moments((left, right), ordered)


# ── functions called in Python ───────────────────────────────────────────────────────────────────────────────────────


def foreign_call(name: str, arguments: list[str], functions: Functions) -> Column:
    """A function other than arithmetic, called in Python for each row."""
    function = functions.get(name, BUILT_IN.get(name))
    if function is None:
        raise TidelogError(f"the function `{name}` is not registered; register it with register({name!r}, function)")
    return F.udf(_row_function(function), VALUE_TYPE, useArrow=True)(*arguments)


def _row_function(function: Callable[..., Any]) -> Callable[..., Fields | None]:
    """A function over fields of constants; None where it has no result that facts can hold."""

    def call(*arguments: Any) -> Fields | None:
        if any(argument is None for argument in arguments):
            return None
        try:
            return fields_of(checked_value(function(*(value_of(tuple(argument)) for argument in arguments))))
        except Exception:  # A registered function may raise anything; the rule instance fails, and is counted.
            return None

    return call


# ── aggregates ───────────────────────────────────────────────────────────────────────────────────────────────────────

# Integers are summed as decimals, and the sum must fit into 64 bits. A sum of floats is rounded once, from its exact
# value: each float is an integer times a power of two, so the integers of each power are summed as decimals, and the
# few sums of a group are put together in Python. A median needs the rows of its group in order, not in memory. A group
# whose values have no sum, no order or no single kind yields a null.

_NUMBER_CLASS = 10


def aggregate(
    frame: DataFrame, group: Sequence[str], function: str, value: str, distinct: bool, result: str
) -> DataFrame:
    """One row for each group: the columns of the group, and the aggregate of a column of values as another value."""
    rows = frame.select(*group, F.col(value).alias("v"))
    if function in ("min", "max", "sum"):
        rows = rows.withColumn("v", F.expr(_refusing_moments(["v"], "v")))
    if distinct:
        rows = rows.distinct()
    if function in ("sum", "avg"):
        return _total(rows, group, function, result)
    if function == "median":
        return _median(rows, group, result)
    if is_folded(function):
        return rows.groupBy(*group).agg(_row_fold(function)(F.collect_list("v")).alias(result))
    if function == "count":
        return rows.groupBy(*group).agg(F.expr(from_integer("count(*)")).alias(result))
    return _extreme(rows, group, function, result)


def _row_fold(function: str) -> Callable[..., Column]:
    """An aggregate that Python makes of all values of a group."""

    def fold(values: Sequence[Any]) -> Fields | None:
        try:
            return fields_of(folded(function, [value_of(tuple(value)) for value in values]))
        except CallFailed:
            return None

    return F.udf(fold, VALUE_TYPE, useArrow=True)


def _extreme(rows: DataFrame, group: Sequence[str], function: str, result: str) -> DataFrame:
    """The least or greatest value; of an integer and a float of the same value, the integer."""
    key = f"IF({is_number('v')}, {floor_and_rest('v')}, named_struct('floor', v.integer, 'rest', 0D))"
    last = f"int(v.kind = {FLOAT})" if function == "min" else f"-int(v.kind = {FLOAT})"
    kind_class = f"IF({is_number('v')}, {_NUMBER_CLASS}, int(v.kind))"
    orderable = (
        f"min({kind_class}) = max({kind_class}) AND count_if(v.kind = {LITERAL}) = 0 AND count_if({is_nan('v')}) = 0"
    )
    entry = f"named_struct('key', {key}, 'text', v.text, 'last', {last}, 'value', v)"
    return rows.groupBy(*group).agg(F.expr(f"IF({orderable}, {function}({entry}).value, NULL)").alias(result))


def _total(rows: DataFrame, group: Sequence[str], function: str, result: str) -> DataFrame:
    by_power = (
        rows.withColumn("number", F.expr(f"IF(abs({as_double('v')}) < {INFINITY}, {as_double('v')}, NULL)"))
        .withColumn("bits", F.expr("bigint(reflect('java.lang.Double', 'doubleToLongBits', nvl(number, 0D)))"))
        .withColumn("biased", F.expr("shiftright(bits, 52) & 2047"))
        .withColumn("fraction", F.expr("(bits & 4503599627370495L) + IF(biased = 0, 0L, 4503599627370496L)"))
        .withColumn("power", F.expr("nvl2(number, greatest(biased, 1) - 1075, NULL)"))
        .groupBy(*group, "power")
        .agg(
            F.expr("sum(CAST(IF(number < 0, -fraction, fraction) AS decimal(20, 0)))").alias("mantissa"),
            F.expr("sum(CAST(v.integer AS decimal(20, 0)))").alias("integers"),
            F.expr(f"count_if(NOT {is_integer('v')})").alias("others"),
            F.count("*").alias("count"),
        )
    )
    whole = by_power.groupBy(*group).agg(
        F.expr("collect_list(named_struct('power', power, 'mantissa', string(mantissa)))").alias("parts"),
        F.expr("count_if(power IS NULL) > 0").alias("bad"),
        F.sum("integers").alias("integers"),
        F.sum("others").alias("others"),
        F.sum("count").alias("count"),
    )
    summed = whole.withColumn("total", F.udf(_rounded_sum, "double", useArrow=True)("parts", "bad"))
    outcome = from_double("(total / count)", finite=False)
    if function == "sum":
        outcome = f"IF(others = 0, {from_integer('try_cast(integers AS bigint)')}, {from_double('total')})"
    return summed.select(*group, F.expr(outcome).alias(result))


def _rounded_sum(parts: list[Any], bad: bool) -> float | None:
    """The sum of mantissa * 2 ** power, rounded once; None where a value was no finite number."""
    if bad:
        return None
    exact = sum((int(part["mantissa"]) * Fraction(2) ** int(part["power"]) for part in parts), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return None


def _median(rows: DataFrame, group: Sequence[str], result: str) -> DataFrame:
    in_group = f"PARTITION BY {', '.join(group)}"
    unfit = f"NOT ({is_number('v')}) OR {is_nan('v')}"
    ranked = rows.select(
        *group,
        "v",
        F.expr(f"row_number() OVER ({in_group} ORDER BY {floor_and_rest('v')}, v.kind)").alias("rank"),
        F.expr(f"count(*) OVER ({in_group})").alias("count"),
        F.expr(f"count_if({unfit}) OVER ({in_group})").alias("unfit"),
    )
    ends = (
        ranked.where("rank BETWEEN count / 2 AND count / 2 + 1")
        .groupBy(*group)
        .agg(
            F.expr("min_by(v, rank)").alias("low"),
            F.expr("max_by(v, rank)").alias("high"),
            F.max("unfit").alias("unfit"),
            F.max("count").alias("count"),
        )
    )
    mean = from_double(f"((({as_double('low')}) + ({as_double('high')})) / 2)")
    outcome = f"CASE WHEN unfit > 0 THEN NULL WHEN count % 2 = 1 THEN low ELSE {mean} END"
    return ends.select(*group, F.expr(outcome).alias(result))
