"""Records to encoded facts: which predicates there are, ids for all their constants, rows of ids in Parquet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.term_lookup import FEW_VALUES, Ids, encode_few
from tidelog.spark.data.wide_frames import padded, union_all

MANY_VALUES = 1_000_000

Shapes = dict[str, dict[int, int]]
"""For each predicate, how many of its records have how many arguments."""


def shapes_of(records: DataFrame) -> Shapes:
    """The predicates of records and the lengths of their rows, without the records that have a reason."""
    good = records.where(F.col("reason").isNull())
    found: Shapes = defaultdict(dict)
    for row in good.groupBy("predicate", F.size("arguments").alias("arity")).count().collect():
        found[row["predicate"]][row["arity"]] = row["count"]
    return dict(found)


def load(
    records: DataFrame, arities: Mapping[str, int], values: int, dictionary: Dictionary, relations: Relations
) -> int:
    """Encode the records of these predicates that have the right arity, and add them; returns how many were new.

    `values` is how many values they have. If there are few, the driver encodes them."""
    good = records.where(F.col("reason").isNull())
    fresh = not any(relations.count(name) for name in arities)
    if 0 < values <= FEW_VALUES and fresh and dictionary.is_local:
        return _load_few(good.toArrow(), arities, dictionary, relations)
    dictionary.extend(good.select(F.explode("arguments").alias("value")), large=values > MANY_VALUES)
    for name, arity in arities.items():
        relations.declare(name, arity)
    if not arities:
        return 0
    numbers = {name: (relations[name].number, arity) for name, arity in arities.items()}
    return sum(relations.add_new(encoded_records(good, numbers, dictionary), list(arities)).values())


def _load_few(records: pa.Table, arities: Mapping[str, int], dictionary: Dictionary, relations: Relations) -> int:
    facts: dict[str, list[Ids]] = {name: [] for name in arities}
    fitting = [
        name in arities and len(arguments) == arities[name]
        for name, arguments in zip(*(records.column(c).to_pylist() for c in ("predicate", "arguments")), strict=True)
    ]
    found = encode_few(dictionary, records.filter(pa.array(fitting, pa.bool_())))
    dictionary.append(found.terms)
    for name, ids in sorted(found.give):
        facts[name].append(ids)
    for name, arity in arities.items():
        relations.declare(name, arity)
    return relations.add_few(facts)


def encoded_records(
    records: DataFrame, numbers: Mapping[str, tuple[int, int]], dictionary: Dictionary, kept: Sequence[str] = ()
) -> DataFrame:
    """The records of predicates, given with number and arity, as a wide frame of ids; columns in `kept` stay.

    Records of another arity, and those with a constant that has no id, are left out."""
    arities = sorted({arity for _, arity in numbers.values()})
    width = max(1, *arities)
    return union_all([_encoded(records, numbers, arity, width, dictionary, kept) for arity in arities])


def _encoded(
    records: DataFrame,
    wanted: Mapping[str, tuple[int, int]],
    arity: int,
    width: int,
    dictionary: Dictionary,
    kept: Sequence[str],
) -> DataFrame:
    """The rows of all predicates of one arity."""
    numbers = {name: number for name, (number, length) in wanted.items() if length == arity}
    number_of = F.create_map(*(F.lit(item) for pair in numbers.items() for item in pair))
    fitting = records.where(F.col("predicate").isin(list(numbers)) & (F.size("arguments") == arity))
    arguments = [F.col("arguments")[place].alias(f"a{place}") for place in range(arity)]
    frame = fitting.select(number_of[F.col("predicate")].alias("p"), *arguments, *kept)
    frame = dictionary.with_ids(frame, {f"a{place}": f"c{place}" for place in range(arity)})
    if not arity:
        frame = frame.withColumn("c0", F.lit(0).cast("bigint"))
    return padded(frame, max(1, arity), width, kept)
