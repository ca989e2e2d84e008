"""Facts as rows of ids in Parquet, in parts: one for what was given, and one for each round that found something new.

Writing a part is how the lineage of a round is cut. The files stand where every executor reads them, so the loss of
an executor costs the tasks that it was running and nothing else. A round writes the new facts of all predicates in one
job, a folder each; which folders there are is counted on the way, so no job is spent on asking.

A predicate of arity 0 has one column too, which holds 0, as Parquet knows no rows without columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.records import RECORD_TYPE
from tidelog.spark.terms import VALUE_TYPE, observed

MOST_PARTS = 24


@dataclass(frozen=True)
class Part:
    """The facts of one predicate that one job wrote."""

    path: str
    count: int


@dataclass
class Relation:
    """The facts of a predicate. `delta` is how many of the last parts are those of the last round."""

    arity: int
    parts: list[Part] = field(default_factory=list)
    delta: int = 0

    @property
    def width(self) -> int:
        return max(1, self.arity)

    @property
    def columns(self) -> list[str]:
        return [f"c{number}" for number in range(self.width)]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def old_parts(self) -> list[Part]:
        return self.parts[: len(self.parts) - self.delta]

    @property
    def delta_parts(self) -> list[Part]:
        return self.parts[len(self.parts) - self.delta :]


class Relations:
    """The facts of all predicates, which a working folder holds."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder
        self._jobs = 0
        self._by_name: dict[str, Relation] = {}

    def __getitem__(self, predicate: str) -> Relation:
        return self._by_name[predicate]

    def __contains__(self, predicate: str) -> bool:
        return predicate in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def declare(self, predicate: str, arity: int) -> None:
        self._by_name.setdefault(predicate, Relation(arity))

    def count(self, predicate: str) -> int:
        found = self._by_name.get(predicate)
        return found.count if found else 0

    @property
    def total(self) -> int:
        return sum(relation.count for relation in self._by_name.values())

    def frame(self, predicate: str, parts: Iterable[Part] | None = None) -> DataFrame:
        """The facts of a predicate, or of some of its parts, in columns `c0`, `c1`, …"""
        relation = self._by_name[predicate]
        paths = [part.path for part in (relation.parts if parts is None else parts)]
        schema = ", ".join(f"{name} bigint" for name in relation.columns)
        if not paths:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*paths)

    def adopt(self, predicate: str, arity: int, parts: Iterable[Part]) -> None:
        """Take over parts that lie elsewhere."""
        self.declare(predicate, arity)
        self._by_name[predicate].parts.extend(parts)

    def add_new(self, candidates: Mapping[str, DataFrame]) -> dict[str, int]:
        """Write those candidates that are not yet known as the next part of their predicates; returns their counts."""
        return self._appended(self._write({name: self._unknown(name, frame) for name, frame in candidates.items()}))

    def _unknown(self, predicate: str, candidates: DataFrame) -> DataFrame:
        distinct = candidates.distinct()
        if not self.count(predicate):
            return distinct
        return distinct.join(self.frame(predicate), self[predicate].columns, "left_anti")

    def _appended(self, parts: Mapping[str, Part]) -> dict[str, int]:
        for name, part in parts.items():
            self[name].delta = 1 if part.count else 0
            if part.count:
                self[name].parts.append(part)
        return {name: part.count for name, part in parts.items()}

    def wide(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of several predicates in one frame: the number of the predicate in `p`, columns for the widest."""
        width = max(self[name].width for name in frames)
        tagged = [
            _padded(frame, number, self[name].width, width) for number, (name, frame) in enumerate(frames.items())
        ]
        return reduce(DataFrame.unionByName, tagged)

    def add_wide(self, wide: DataFrame, names: Sequence[str]) -> dict[str, int] | None:
        """Add facts that are all new, as `wide` lays them out; None, and nothing done, where a row is under -1."""
        parts = self._write_wide(wide, dict(enumerate(names)) | {-1: ""})
        return None if parts.pop("").count else self._appended(parts)

    def _write(self, frames: Mapping[str, DataFrame]) -> dict[str, Part]:
        """Write frames in one job, and count their rows on the way."""
        return self._write_wide(self.wide(frames), dict(enumerate(frames))) if frames else {}

    def _write_wide(self, wide: DataFrame, names: Mapping[int, str]) -> dict[str, Part]:
        self._jobs += 1
        folder = f"{self._folder}/job-{self._jobs:05d}"
        counted = Observation()
        counts = [F.count_if(F.col("p") == number).alias(f"n{number}") for number in names]
        wide.observe(counted, *counts).write.mode("overwrite").partitionBy("p").parquet(folder)
        return {name: Part(f"{folder}/p={number}", observed(counted, f"n{number}")) for number, name in names.items()}

    def stage(self, frames: Sequence[DataFrame]) -> list[DataFrame]:
        """The same frames, written by one job and read back: they are computed once. Columns hold ids or values."""
        self._jobs += 1
        folder = f"{self._folder}/staged-{self._jobs:05d}"
        kinds = [dict(frame.dtypes) for frame in frames]
        columns = sorted({f"{name}_{type_[0]}" for types in kinds for name, type_ in types.items()})
        tagged = [
            frame.select(F.lit(number).alias("p"), *(_kept(name, types) for name in columns))
            for number, (frame, types) in enumerate(zip(frames, kinds, strict=True))
        ]
        reduce(DataFrame.union, tagged).write.mode("overwrite").partitionBy("p").parquet(folder)
        schema = ", ".join(f"{name} {_TYPES[name[-1]]}" for name in columns)
        stored = self._spark.read.schema(f"{schema}, p int").parquet(folder)
        return [
            stored.where(F.col("p") == number).select(
                *(F.col(f"{name}_{type_[0]}").alias(name) for name, type_ in types.items())
            )
            for number, types in enumerate(kinds)
        ]

    def stage_records(self, records: DataFrame) -> DataFrame:
        """The same records, written by one job and read back."""
        self._jobs += 1
        path = f"{self._folder}/records-{self._jobs:05d}"
        records.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(RECORD_TYPE).parquet(path)

    def settle(self, predicates: Iterable[str]) -> None:
        """End the rounds of these predicates: nothing is new any more."""
        for name in predicates:
            self[name].delta = 0

    def compact(self, predicates: Iterable[str]) -> None:
        """Merge the parts of before the last round where they have become many."""
        scattered = [name for name in predicates if len(self[name].old_parts) > MOST_PARTS]
        merged = self._write({name: self.frame(name, self[name].old_parts) for name in scattered})
        for name, part in merged.items():
            self[name].parts = [part, *self[name].delta_parts]


# By the first letter of Spark's name for the type.
_TYPES = {"b": "bigint", "s": VALUE_TYPE}


def _kept(column: str, types: Mapping[str, str]) -> Column:
    """A column under its name and the letter of its type; null where a frame has none."""
    name, letter = column.split("_")
    found = F.col(name) if types.get(name, " ")[0] == letter else F.lit(None).cast(_TYPES[letter])
    return found.alias(column)


def _padded(frame: DataFrame, number: int, width: int, wanted: int) -> DataFrame:
    """The rows of one predicate under its number, as wide as those of the others."""
    missing = [F.lit(None).cast("bigint").alias(f"c{column}") for column in range(width, wanted)]
    return frame.select(F.lit(number).alias("p"), *(f"c{column}" for column in range(width)), *missing)
