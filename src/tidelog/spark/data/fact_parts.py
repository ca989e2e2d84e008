"""Facts as rows of ids in Parquet, in parts: one for what was given, and one for each round that found something new.

Writing a part cuts the lineage of a round. The files lie where every executor can read them, so losing an executor
costs the tasks that it was running and nothing else. A round writes the new facts of all predicates in one job, a
folder for each; the same job counts them.

Each file also holds the number of its predicate, as `q`, so that the files of many predicates are read by one scan
(`wide_frames.py`). A predicate of arity 0 has one column, which holds 0, since Parquet has no rows without columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import observed
from tidelog.spark.data.driver_files import write_part
from tidelog.spark.data.wide_frames import keys, read_wide, widened

MOST_PARTS = 24


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


class Relations:
    """The facts of all predicates, in a working folder."""

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
        self._by_name.setdefault(predicate, Relation(len(self._by_name), arity))

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
        return self._appended(self._write(distinct, names)[0])

    def add_wide(self, wide: DataFrame, names: Sequence[str]) -> dict[str, int] | None:
        """Add facts that are all new, in a wide frame; None, and nothing added, if a row has a negative number."""
        parts, refused = self._write(wide, names)
        return None if refused else self._appended(parts)

    def add_few(self, facts: Mapping[str, Sequence[tuple[int, ...]]]) -> int:
        """Add a few facts that are all new, without a job; returns how many there are."""
        folder = Path(self._next_folder("facts"))
        for name, rows in facts.items():
            relation = self[name]
            cells = list(zip(*rows, strict=True)) if relation.arity else [(0,) * len(rows)]
            if rows:
                path = folder / f"p={relation.number}"
                columns = {"q": pa.array([relation.number] * len(rows), pa.int32())} | {
                    column: pa.array(ids, pa.int64()) for column, ids in zip(relation.columns, cells, strict=True)
                }
                write_part(path, pa.table(columns))
                relation.parts.append(Part(str(path), len(rows)))
                relation.delta += 1
        return sum(map(len, facts.values()))

    def _appended(self, parts: Mapping[str, Part]) -> dict[str, int]:
        for name, part in parts.items():
            if part.count:
                self[name].parts.append(part)
                self[name].delta += 1
        return {name: part.count for name, part in parts.items()}

    def _write(self, wide: DataFrame, names: Sequence[str]) -> tuple[dict[str, Part], int]:
        """Write rows by the number of their predicate, and count them; also, how many have a negative number."""
        folder = self._next_folder("facts")
        counted = Observation()
        numbers = {name: self[name].number for name in names}
        counts = [F.count_if(F.col("p") == number).alias(f"n{number}") for number in numbers.values()]
        counts.append(F.count_if(F.col("p") < 0).alias("negative"))
        rows = wide.withColumn("q", F.col("p")).observe(counted, *counts)
        rows.write.mode("overwrite").partitionBy("p").parquet(folder)
        parts = {
            name: Part(f"{folder}/p={number}", observed(counted, f"n{number}")) for name, number in numbers.items()
        }
        return parts, observed(counted, "negative")

    def staged(self, frame: DataFrame, schema: str) -> DataFrame:
        """The same rows, written and read back, so that they are computed once."""
        path = self._next_folder("staged")
        frame.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(schema).parquet(path)

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
        if not scattered:
            return
        paths = [part.path for name in scattered for part in self[name].old_parts]
        merged = read_wide(self._spark, paths, self.width(scattered))
        for name, part in self._write(merged, scattered)[0].items():
            self[name].parts = [part, *self[name].delta_parts]
