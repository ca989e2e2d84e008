"""The heads of all rules of a round as rows of ids, in one frame: constants that rules computed get their ids here.

Heads that hold values are written to files first, because they are needed twice: for the constants that are new, and
for the rows. They are encoded together as far as the same columns of them hold values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.relations import Relations, padded, union_all
from tidelog.spark.rules import Head
from tidelog.spark.terms import VALUE_TYPE, Dictionary

Heads = Sequence[tuple[str, Head]]


def encoded(heads: Heads, numbers: Mapping[str, int], relations: Relations, dictionary: Dictionary) -> DataFrame:
    """All heads, as `Relations.wide` lays them out, under the given numbers of their predicates."""
    width = max(relations[name].width for name in numbers)
    plain = [
        padded(head.frame.withColumn("p", F.lit(numbers[name])), relations[name].width, width)
        for name, head in heads
        if not head.unencoded
    ]
    return union_all([*plain, *_encoded_values(heads, numbers, width, relations, dictionary)])


def _encoded_values(
    heads: Heads, numbers: Mapping[str, int], width: int, relations: Relations, dictionary: Dictionary
) -> list[DataFrame]:
    computed = [(name, head) for name, head in heads if head.unencoded]
    if not computed:
        return []
    shape_of = [(relations[name].arity, head.unencoded) for name, head in computed]
    shapes = list(dict.fromkeys(shape_of))
    tagged = [
        _uniform(head, shape[0], width).withColumns({"p": F.lit(numbers[name]), "s": F.lit(shapes.index(shape))})
        for (name, head), shape in zip(computed, shape_of, strict=True)
    ]
    stored = relations.staged(union_all(tagged), f"p int, s int, {_columns(width)}")
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
    """A head with both a column of ids and one of values for each argument, one of them null."""
    columns = []
    for number in range(width):
        name = f"c{number}"
        holds_value, holds_id = name in head.unencoded, name not in head.unencoded and number < arity
        columns.append((F.col(name) if holds_id else F.lit(None).cast("bigint")).alias(name))
        columns.append((F.col(name) if holds_value else F.lit(None).cast(VALUE_TYPE)).alias(f"v{number}"))
    return head.frame.select(*columns)


def _columns(width: int) -> str:
    return ", ".join(f"c{number} bigint, v{number} {VALUE_TYPE}" for number in range(width))
