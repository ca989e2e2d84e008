"""Aggregates as `groupBy`, exact and independent of the order of the rows.

Integers are summed as decimals, and the sum must fit into 64 bits. A sum of floats is rounded once, from its exact
value: each float is an integer times a power of two, so the integers of each power are summed as decimals, and the few
sums of a group are put together in Python. A median needs the rows of its group in order, not in memory. A group whose
values have no sum, no order or no single kind yields a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.formats.batch import FLOAT, LITERAL
from tidelog.spark.plan.sql_expressions import (
    INFINITY,
    as_double,
    floor_and_rest,
    from_double,
    from_integer,
    is_integer,
    is_nan,
    is_number,
)

_NUMBER_CLASS = 10


def aggregate(
    frame: DataFrame, group: Sequence[str], function: str, value: str, distinct: bool, result: str
) -> DataFrame:
    """One row for each group: the columns of the group, and the aggregate of a column of values as another value."""
    rows = frame.select(*group, F.col(value).alias("v"))
    if distinct:
        rows = rows.distinct()
    if function in ("sum", "avg"):
        return _total(rows, group, function, result)
    if function == "median":
        return _median(rows, group, result)
    if function == "count":
        return rows.groupBy(*group).agg(F.expr(from_integer("count(*)")).alias(result))
    return _extreme(rows, group, function, result)


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


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── medians ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
