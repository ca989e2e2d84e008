"""Facts as rows of ids in Parquet, in parts: one for what was given, and one for each round that found something new.

Facts come as records, whose constants get ids. Writing a part cuts the lineage of a round. The files lie where every
executor can read them, so losing an executor costs the tasks that it was running and nothing else. A round writes the
new facts of all predicates in one job, a folder for each; the same job counts them.

The files of many predicates are read by one scan (`wide_frames.py`). A predicate of arity 0 has one column, which holds
0, since Parquet has no rows without columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.term_lookup import FEW_VALUES, Ids, encode_few
from tidelog.spark.data.wide_frames import (
    key_types,
    keys,
    padded,
    read_wide,
    union_all,
    widened,
    write_part,
    write_wide,
)

MOST_PARTS = 24
MANY_VALUES = 1_000_000

Shapes = dict[str, dict[int, int]]
"""For each predicate, how many of its records have how many arguments."""

# The number of a row that is not a fact: it says that there are more facts than were allowed.
BEYOND_LIMIT = -1


@dataclass(frozen=True)
class Part:
    """The facts of one predicate that one job wrote."""

    path: str
    count: int


@dataclass
class Relation:
    """The facts of a predicate, which has a number. The last `delta` parts are those of the last round."""

    number: int
    arity: int
    parts: list[Part] = field(default_factory=list)
    delta: int = 0

    @property
    def width(self) -> int:
        return max(1, self.arity)

    @property
    def columns(self) -> list[str]:
        return keys(self.width)

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def old_parts(self) -> list[Part]:
        return self.parts[: len(self.parts) - self.delta]

    @property
    def delta_parts(self) -> list[Part]:
        return self.parts[len(self.parts) - self.delta :]


class Relations(dict[str, Relation]):
    """The facts of all predicates, in a working folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        super().__init__()
        self._spark = spark
        self.folder = folder
        self._jobs = 0

    def declare(self, predicate: str, arity: int) -> None:
        self.setdefault(predicate, Relation(len(self), arity))

    def count(self, predicate: str) -> int:
        return self[predicate].count if predicate in self else 0

    @property
    def total(self) -> int:
        return sum(map(self.count, self))

    def frame(self, predicate: str, parts: Iterable[Part] | None = None) -> DataFrame:
        """The facts of a predicate, or of some of its parts, in columns `c0`, `c1`, …"""
        relation = self[predicate]
        paths = [part.path for part in (relation.parts if parts is None else parts)]
        schema = key_types(relation.width)
        return self._spark.read.schema(schema).parquet(*paths) if paths else self._spark.createDataFrame([], schema)

    def width(self, predicates: Iterable[str]) -> int:
        return max(self[name].width for name in predicates)

    def wide(self, predicates: Collection[str]) -> DataFrame:
        """The facts of predicates, each of which has some, in one frame and by one scan."""
        paths = [part.path for name in predicates for part in self[name].parts]
        return read_wide(self._spark, paths, self.width(predicates))

    def add_new(self, candidates: DataFrame, names: Sequence[str]) -> dict[str, int]:
        """Write the candidates, a wide frame, that are new, as the next parts; returns how many of each predicate.

        One pass finds the new ones of all predicates."""
        width = self.width(names)
        distinct = candidates.distinct()
        known = [name for name in names if self.count(name)]
        if known:
            distinct = distinct.join(widened(self.wide(known), width), ["p", *keys(width)], "left_anti")
        return self._appended(self._write(distinct, names))

    def add_wide(self, wide: DataFrame, names: Sequence[str]) -> dict[str, int] | None:
        """Add facts that are all new, in a wide frame; None, and nothing added, if a row is under `BEYOND_LIMIT`."""
        parts = self._write(wide, names, {"": BEYOND_LIMIT})
        return None if parts.pop("").count else self._appended(parts)

    def add_few(self, facts: Mapping[str, Sequence[Ids]]) -> int:
        """Add a few facts that are all new, without a job; returns how many there are."""
        folder = Path(self._next_folder("facts"))
        parts = {}
        for name, rows in facts.items():
            if rows:
                relation = self[name]
                path = folder / f"p={relation.number}"
                cells = list(zip(*rows, strict=True)) if relation.arity else [(0,) * len(rows)]
                columns = {"q": pa.array([relation.number] * len(rows), pa.int32())} | {
                    column: pa.array(ids, pa.int64()) for column, ids in zip(relation.columns, cells, strict=True)
                }
                write_part(path, pa.table(columns))
                parts[name] = Part(str(path), len(rows))
        return sum(self._appended(parts).values())

    def _appended(self, parts: Mapping[str, Part]) -> dict[str, int]:
        for name, part in parts.items():
            if part.count:
                self[name].parts.append(part)
                self[name].delta += 1
        return {name: part.count for name, part in parts.items()}

    def _write(self, wide: DataFrame, names: Sequence[str], others: Mapping[str, int] | None = None) -> dict[str, Part]:
        """Write rows by the number of their predicate, and count them; also those under other numbers."""
        folder = self._next_folder("facts")
        numbers = {name: self[name].number for name in names} | dict(others or {})
        counts = write_wide(wide.withColumn("q", F.col("p")), numbers, folder)
        return {name: Part(f"{folder}/p={number}", counts[name]) for name, number in numbers.items()}

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, written and read back, so that they are computed once."""
        path = self._next_folder("staged")
        frame.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(frame.schema).parquet(path)

    def _next_folder(self, what: str) -> str:
        self._jobs += 1
        return f"{self.folder}/{what}-{self._jobs:05d}"

    def settle(self, predicates: Iterable[str]) -> None:
        """End the rounds of these predicates: none of their facts is new any more."""
        for name in predicates:
            self[name].delta = 0

    def compact(self, predicates: Iterable[str]) -> None:
        """Merge the parts that are older than the last round, where there are many."""
        scattered = [name for name in predicates if len(self[name].old_parts) > MOST_PARTS]
        if scattered:
            paths = [part.path for name in scattered for part in self[name].old_parts]
            merged = read_wide(self._spark, paths, self.width(scattered))
            for name, part in self._write(merged, scattered).items():
                self[name].parts = [part, *self[name].delta_parts]


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    for name, arity in arities.items():
        relations.declare(name, arity)
    if 0 < values <= FEW_VALUES and fresh and dictionary.is_local:
        return _load_few(good.toArrow(), arities, dictionary, relations)
    dictionary.extend(good.select(F.explode("arguments").alias("value")), large=values > MANY_VALUES)
    if not arities:
        return 0
    numbers = {name: (relations[name].number, arity) for name, arity in arities.items()}
    return sum(relations.add_new(encoded_records(good, numbers, dictionary), list(arities)).values())


def _load_few(records: pa.Table, arities: Mapping[str, int], dictionary: Dictionary, relations: Relations) -> int:
    columns = (records.column(name).to_pylist() for name in ("predicate", "arguments"))
    fits = [arities.get(name) == len(arguments) for name, arguments in zip(*columns, strict=True)]
    found = encode_few(dictionary, records.filter(pa.array(fits, pa.bool_())))
    dictionary.append(found.terms)
    facts: dict[str, list[Ids]] = {name: [] for name in arities}
    for name, ids in sorted(found.give):
        facts[name].append(ids)
    return relations.add_few(facts)


def encoded_records(
    records: DataFrame, numbers: Mapping[str, tuple[int, int]], dictionary: Dictionary, kept: Sequence[str] = ()
) -> DataFrame:
    """The records of predicates, given with number and arity, as a wide frame of ids; columns in `kept` stay.

    Records of another arity, and those with a constant that has no id, are left out."""
    arities = sorted({arity for _, arity in numbers.values()})
    frames = []
    for arity in arities:
        own = {name: number for name, (number, length) in numbers.items() if length == arity}
        number_of = F.create_map(*(F.lit(item) for pair in own.items() for item in pair))
        fitting = records.where(F.col("predicate").isin(list(own)) & (F.size("arguments") == arity))
        arguments = [F.col("arguments")[place].alias(f"a{place}") for place in range(arity)]
        frame = fitting.select(number_of[F.col("predicate")].alias("p"), *arguments, *kept)
        frame = dictionary.with_ids(frame, {f"a{place}": f"c{place}" for place in range(arity)})
        if not arity:
            frame = frame.withColumn("c0", F.lit(0).cast("bigint"))
        frames.append(padded(frame, max(1, arity), max(1, *arities), kept))
    return union_all(frames)
