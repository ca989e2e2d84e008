"""The heads of all rules of a round as rows of ids in one frame; constants that rules computed get their ids here.

Heads that hold values are written to files first, because they are needed twice: for the new constants, and for the
rows. Heads with values in the same columns are encoded together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import VALUE_TYPE, Dictionary
from tidelog.spark.data.wide_frames import padded, union_all
from tidelog.spark.plan.rule_frames import Head

Heads = Sequence[tuple[int, int, Head]]
"""The heads of several rules: the number of each predicate, its arity, and its facts."""

Stage = Callable[[DataFrame, str], DataFrame]
"""Writes a frame of a schema and reads it back, so that it is computed once."""


def encoded(heads: Heads, stage: Stage, dictionary: Dictionary) -> DataFrame:
    """All heads as rows of ids under their numbers, as `Relations.wide` lays them out."""
    width = max(max(1, arity) for _, arity, _ in heads)
    plain = [
        padded(head.frame.withColumn("p", F.lit(number)), max(1, arity), width)
        for number, arity, head in heads
        if not head.unencoded
    ]
    return union_all([*plain, *_encoded_values(heads, width, stage, dictionary)])


def _encoded_values(heads: Heads, width: int, stage: Stage, dictionary: Dictionary) -> list[DataFrame]:
    computed = [entry for entry in heads if entry[2].unencoded]
    if not computed:
        return []
    shape_of = [(arity, head.unencoded) for _, arity, head in computed]
    shapes = list(dict.fromkeys(shape_of))
    tagged = [
        _uniform(head, arity, width).withColumns({"p": F.lit(number), "s": F.lit(shapes.index(shape))})
        for (number, arity, head), shape in zip(computed, shape_of, strict=True)
    ]
    stored = stage(union_all(tagged), f"p int, s int, {_columns(width)}")
    values = F.explode(F.array(*(f"v{number}" for number in range(width)))).alias("value")
    dictionary.extend(stored.select(values).where("value IS NOT NULL"))
    found = []
    for shape, (arity, unencoded) in enumerate(shapes):
        places = [name.removeprefix("c") for name in unencoded]
        rows = stored.where(F.col("s") == shape).drop(*(f"c{place}" for place in places))
        rows = dictionary.with_ids(rows, {f"v{place}": f"c{place}" for place in places})
        found.append(padded(rows, arity, width))
    return found


def _uniform(head: Head, arity: int, width: int) -> DataFrame:
    """A head with a column of ids and one of values for each argument, one of them null."""
    columns = []
    for number in range(width):
        name = f"c{number}"
        holds_value, holds_id = name in head.unencoded, name not in head.unencoded and number < arity
        columns.append((F.col(name) if holds_id else F.lit(None).cast("bigint")).alias(name))
        columns.append((F.col(name) if holds_value else F.lit(None).cast(VALUE_TYPE)).alias(f"v{number}"))
    return head.frame.select(*columns)


def _columns(width: int) -> str:
    return ", ".join(f"c{number} bigint, v{number} {VALUE_TYPE}" for number in range(width))
