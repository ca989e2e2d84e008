"""Aggregates as `groupBy`, exact and whatever the order of the rows.

Sums of integers are taken in decimals and must fit 64 bits. A sum of floats is rounded once, from its exact value: each
float is an integer times a power of two, so the integers of each power are summed in decimals, and the few sums of a
group are put together in Python. A median needs the rows of its group in order, not in memory. A group whose
values have no sum, no order or no single kind yields a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidelog.formats.batch import FLOAT, LITERAL
from tidelog.spark.expressions import (
    as_double,
    floor_and_rest,
    from_double,
    from_integer,
    is_integer,
    is_nan,
    is_number,
)

_NUMBER_CLASS = 10


def aggregate(frame: DataFrame, group: Sequence[str], function: str, value: str, distinct: bool, result: str) -> DataFrame:
    """One row for each group: the columns of the group, and the aggregate of a column of values as another value."""
    if distinct:
        frame = frame.select(*group, value).distinct()
    if function in ("sum", "avg"):
        return _total(frame, group, function, value, result)
    if function == "median":
        return _median(frame, group, value, result)
    column = from_integer(F.count("*")) if function == "count" else _extreme(function, F.col(value))
    return frame.groupBy(*group).agg(column.alias(result))


def _extreme(function: str, value: Column) -> Column:
    """The least or greatest value; of an integer and a float of the same value, the integer."""
    kind_class = F.when(is_number(value), F.lit(_NUMBER_CLASS)).otherwise(value["kind"])
    key = F.when(is_number(value), floor_and_rest(value)).otherwise(
        F.struct(value["integer"].alias("floor"), F.lit(0.0).alias("rest"))
    )
    later = F.lit(1) if function == "min" else F.lit(-1)
    entry = F.struct(
        key.alias("key"), value["text"].alias("text"), (later * (value["kind"] == FLOAT).cast("int")).alias("later"),
        value.alias("value"),
    )
    orderable = (
        (F.min(kind_class) == F.max(kind_class))
        & (F.count_if(value["kind"] == LITERAL) == 0)
        & (F.count_if(is_nan(value)) == 0)
    )
    return F.when(orderable, (F.min(entry) if function == "min" else F.max(entry))["value"])


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _total(frame: DataFrame, group: Sequence[str], function: str, value: str, result: str) -> DataFrame:
    column = F.col(value)
    counted = frame.select(*group, column.alias("value"), *_exact(as_double(column)))
    by_power = counted.groupBy(*group, "power").agg(
        F.sum("mantissa").alias("mantissa"),
        F.sum(F.col("value.integer").cast("decimal(20,0)")).alias("integers"),
        F.count("*").alias("rows"),
        F.count_if(~is_integer(F.col("value"))).alias("others"),
    )
    whole = by_power.groupBy(*group).agg(
        F.collect_list(F.struct("power", F.col("mantissa").cast("string").alias("mantissa"))).alias("parts"),
        F.sum("integers").alias("integers"),
        F.sum("rows").alias("rows"),
        F.sum("others").alias("others"),
        F.count_if(F.col("power").isNull()).alias("bad"),
    )
    rounded = F.udf(_rounded_sum, "double", useArrow=True)(F.col("parts"), F.col("bad") > 0)
    summed = whole.withColumn("total", rounded)
    if function == "avg":
        outcome = from_double(F.col("total") / F.col("rows"), finite=False)
    else:
        integers = from_integer(F.col("integers").try_cast("bigint"))
        outcome = F.when(F.col("others") == 0, integers).otherwise(from_double(F.col("total")))
    return summed.select(*group, outcome.alias(result))


def _exact(number: Column) -> tuple[Column, Column]:
    """A finite double as mantissa * 2 ** power; nulls for all else."""
    finite = F.when(F.abs(number) < float("inf"), number)
    bits = F.reflect(F.lit("java.lang.Double"), F.lit("doubleToLongBits"), F.coalesce(finite, F.lit(0.0))).cast("bigint")
    biased = F.shiftright(bits, 52).bitwiseAND(F.lit(0x7FF))
    fraction = bits.bitwiseAND(F.lit((1 << 52) - 1))
    mantissa = F.when(biased == 0, fraction).otherwise(fraction + F.lit(1 << 52))
    signed = F.when(finite < 0, -mantissa).otherwise(mantissa)
    power = F.greatest(biased, F.lit(1)) - 1075
    known = finite.isNotNull()
    return F.when(known, signed.cast("decimal(20,0)")).alias("mantissa"), F.when(known, power).alias("power")


def _rounded_sum(parts: list[Any], bad: bool) -> float | None:
    if bad:
        return None
    exact = sum((Fraction(int(part["mantissa"])) * Fraction(2) ** int(part["power"]) for part in parts), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return None


# ── medians ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _median(frame: DataFrame, group: Sequence[str], value: str, result: str) -> DataFrame:
    column = F.col(value)
    keyed = frame.select(*group, column.alias("value"), floor_and_rest(column).alias("key"))
    in_group = Window.partitionBy(*group)
    in_order = in_group.orderBy("key", F.col("value.kind") == FLOAT)
    numeric = is_number(F.col("value")) & ~is_nan(F.col("value"))
    ranked = keyed.select(
        *group,
        "value",
        F.row_number().over(in_order).alias("rank"),
        F.count("*").over(in_group).alias("rows"),
        F.count_if(~numeric).over(in_group).alias("bad"),
    )
    half = F.col("rows") / 2
    middle = ranked.where((F.col("rank") >= half) & (F.col("rank") <= half + 1))
    entry = F.struct("rank", "value")
    ends = middle.groupBy(*group).agg(
        F.min(entry)["value"].alias("low"), F.max(entry)["value"].alias("high"),
        F.max("bad").alias("bad"), F.max("rows").alias("rows"),
    )
    mean = from_double((as_double(F.col("low")) + as_double(F.col("high"))) / 2)
    outcome = F.when(F.col("bad") == 0, F.when(F.col("rows") % 2 == 1, F.col("low")).otherwise(mean))
    return ends.select(*group, outcome.alias(result))


