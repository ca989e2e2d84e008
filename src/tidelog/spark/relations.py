"""Facts as rows of ids in Parquet, in parts: one for what was given, and one for each round that found something new.

Writing a part is how the lineage of a round is cut. The files stand where every executor reads them, so the loss of
an executor costs the tasks that it was running and nothing else. A round writes the new facts of all predicates in one
job, a folder each; which folders there are is counted on the way, so no job is spent on asking.

A predicate of arity 0 has one column too, which holds 0, as Parquet knows no rows without columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.terms import NOT_A_TERM, observed

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
        self.folder = folder
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

    def wide(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of several predicates in one frame: the number of the predicate in `p`, columns for the widest."""
        numbers = {name: number for number, name in enumerate(frames)}
        return self._wide(frames, numbers, max(self[name].width for name in frames))

    def _wide(self, frames: Mapping[str, DataFrame], numbers: Mapping[str, int], width: int) -> DataFrame:
        tagged = {name: frame.withColumn("p", F.lit(numbers[name])) for name, frame in frames.items()}
        return union_all([padded(frame, self[name].width, width) for name, frame in tagged.items()])

    def add_new(self, candidates: DataFrame, names: Sequence[str]) -> dict[str, int]:
        """Write those candidates, laid out as `wide` does, that are not yet known; returns how many of each predicate.

        They are the next part of their predicates. One pass tells the new ones for all predicates."""
        numbers = {name: number for number, name in enumerate(names)}
        width = max(self[name].width for name in names)
        distinct = candidates.distinct()
        known = {name: self.frame(name) for name in names if self.count(name)}
        if known:
            columns = ["p", *(f"c{number}" for number in range(width))]
            distinct = distinct.join(self._wide(known, numbers, width), columns, "left_anti")
        return self._appended(self._write(distinct, dict(enumerate(names))))

    def add_wide(self, wide: DataFrame, names: Sequence[str]) -> dict[str, int] | None:
        """Add facts that are all new, laid out as `wide` does; None, and nothing done, where a row is under -1."""
        parts = self._write(wide, dict(enumerate(names)) | {-1: ""})
        return None if parts.pop("").count else self._appended(parts)

    def add_few(self, facts: Mapping[str, Sequence[tuple[int, ...]]]) -> int:
        """Add a handful of facts that are all new, without a job; returns how many there are."""
        folder = Path(self._next_folder("facts"))
        for number, (name, rows) in enumerate(facts.items()):
            relation = self[name]
            cells = list(zip(*rows, strict=True)) if relation.arity else [(0,) * len(rows)]
            if rows:
                path = folder / f"p={number}"
                path.mkdir(parents=True)
                columns = {
                    column: pa.array(ids, pa.int64()) for column, ids in zip(relation.columns, cells, strict=True)
                }
                pq.write_table(pa.table(columns), path / "part-00000.parquet")
                relation.parts.append(Part(str(path), len(rows)))
                relation.delta += 1
        return sum(map(len, facts.values()))

    def _appended(self, parts: Mapping[str, Part]) -> dict[str, int]:
        for name, part in parts.items():
            if part.count:
                self[name].parts.append(part)
                self[name].delta += 1
        return {name: part.count for name, part in parts.items()}

    def _write(self, wide: DataFrame, names: Mapping[int, str]) -> dict[str, Part]:
        """Write rows by the number of their predicate, and count them on the way."""
        folder = self._next_folder("facts")
        counted = Observation()
        counts = [F.count_if(F.col("p") == number).alias(f"n{number}") for number in names]
        wide.observe(counted, *counts).write.mode("overwrite").partitionBy("p").parquet(folder)
        return {name: Part(f"{folder}/p={number}", observed(counted, f"n{number}")) for number, name in names.items()}

    def staged(self, frame: DataFrame, schema: str) -> DataFrame:
        """The same rows, written by one job and read back, so that they are computed once."""
        path = self._next_folder("staged")
        frame.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(schema).parquet(path)

    def _next_folder(self, what: str) -> str:
        self._jobs += 1
        return f"{self.folder}/{what}-{self._jobs:05d}"

    def settle(self, predicates: Iterable[str]) -> None:
        """End the rounds of these predicates: nothing is new any more."""
        for name in predicates:
            self[name].delta = 0

    def compact(self, predicates: Iterable[str]) -> None:
        """Merge the parts of before the last round where they have become many."""
        scattered = [name for name in predicates if len(self[name].old_parts) > MOST_PARTS]
        if not scattered:
            return
        merged = self.wide({name: self.frame(name, self[name].old_parts) for name in scattered})
        for name, part in self._write(merged, dict(enumerate(scattered))).items():
            self[name].parts = [part, *self[name].delta_parts]


def padded(frame: DataFrame, width: int, wanted: int, kept: Sequence[str] = ()) -> DataFrame:
    """Rows under the number `p` of their predicate, as wide as those of others; what pads them is no id."""
    missing = [F.lit(NOT_A_TERM).cast("bigint").alias(f"c{column}") for column in range(width, wanted)]
    return frame.select("p", *(f"c{column}" for column in range(width)), *missing, *kept)


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """One frame of all rows, by halves: Spark looks through the plan at each union, so a chain would cost squares."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union_all(frames[:middle]).unionByName(union_all(frames[middle:]))
