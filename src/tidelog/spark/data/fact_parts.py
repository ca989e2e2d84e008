"""Facts as rows of ids in Parquet, in parts: one for what was given, and one for each round that found something new.

Writing a part cuts the lineage of a round. The files lie where every executor can read them, so losing an executor
costs the tasks that it was running and nothing else. A round writes the new facts of all predicates in one job, a
folder for each; the same job counts them.

The files of many predicates are read by one scan (`wide_frames.py`). A predicate of arity 0 has one column, which holds
0, since Parquet has no rows without columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.bucketed_facts import BucketFile, Buckets, number_of_buckets
from tidelog.spark.data.encoded_blocks import FactFile
from tidelog.spark.data.taking_in import TakenIn
from tidelog.spark.data.wide_frames import key_types, keys, read_wide, widened, write_wide

MOST_PARTS = 24

# The number of a row that is not a fact: it says that there are more facts than were allowed.
BEYOND_LIMIT = -1


@dataclass(frozen=True)
class Part:
    """The facts of one predicate that one job wrote; and files that have them decoded, with the kinds of each column,
    if whoever read them has written such files. If facts lie in buckets, it has one of the `files` for each bucket."""

    path: str
    count: int
    decoded: tuple[FactFile, ...] = ()
    bucket_count: int = 0
    files: Mapping[int, str] = field(default_factory=dict)


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

    def __init__(self, spark: SparkSession, folder: str, reserved: Iterable[str] = ()) -> None:
        """`reserved` are predicates that have numbers before they are declared."""
        super().__init__()
        self.spark = spark
        self.folder = folder
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(reserved))}
        self._jobs = 0

    def declare(self, predicate: str, arity: int, number: int | None = None) -> None:
        """Make sure that there is a predicate; one that is new gets this number, unless another predicate has it."""
        if predicate not in self:
            used = set(self.numbers.values())
            if number is None or (number in used and self.numbers.get(predicate) != number):
                number = next(free for free in count(len(self.numbers)) if free not in used)
            self[predicate] = Relation(self.numbers.setdefault(predicate, number), arity)

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
        return self.spark.read.schema(schema).parquet(*paths) if paths else self.spark.createDataFrame([], schema)

    def width(self, predicates: Iterable[str]) -> int:
        return max(self[name].width for name in predicates)

    def wide(self, predicates: Collection[str]) -> DataFrame:
        """The facts of predicates, each of which has some, in one frame and by one scan."""
        paths = [part.path for name in predicates for part in self[name].parts]
        return read_wide(self.spark, paths, self.width(predicates))

    def add_new(self, candidates: DataFrame, names: Sequence[str]) -> dict[str, int]:
        """Write the candidates, a wide frame, that are new, as the next parts; returns how many of each predicate.

        One pass finds the new ones of all predicates."""
        width = self.width(names)
        distinct = candidates.distinct()
        known = [name for name in names if self.count(name)]
        if known:
            distinct = distinct.join(widened(self.wide(known), width), ["p", *keys(width)], "left_anti")
        return self._appended(self._write(distinct, names))

    def add_round(self, candidates: DataFrame, names: Sequence[str]) -> dict[str, int]:
        """The same for a round of a recursion, which shuffles the candidates alone: known facts lie in buckets."""
        partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        count = number_of_buckets(sum(map(self.count, names)), partitions)
        folder = Path(self.next_folder("facts"))
        folder.mkdir(parents=True)
        rewritten = [name for name in names if self._is_scattered(name, count)]
        outside = [
            part.path for name in names for part in self[name].parts if name in rewritten or part.bucket_count != count
        ]
        buckets = Buckets(
            count,
            {self[name].number: self[name].arity for name in names},
            self._bucket_files([name for name in names if name not in rewritten], count),
            frozenset(self[name].number for name in rewritten),
            str(folder),
        )
        files = buckets.new_of(candidates, read_wide(self.spark, outside, self.width(names)) if outside else None)
        for name in rewritten:
            known = self._bucketed(name, [file for file in files if not file.new], folder / "known", count)
            self[name].parts = [known]
        new = [file for file in files if file.new]
        return self._appended({name: self._bucketed(name, new, folder / "new", count) for name in names})

    def _is_scattered(self, name: str, buckets: int) -> bool:
        """Whether the known facts of a predicate are to be written again, in so many buckets and in one part.

        Those that another job of the same round has found stay apart."""
        parts = self[name].parts
        scattered = len(parts) > MOST_PARTS or any(part.bucket_count != buckets for part in parts)
        return scattered and not self[name].delta

    def _bucket_files(self, names: Iterable[str], buckets: int) -> dict[int, dict[int, list[str]]]:
        """The files of known facts, by bucket and by the number of their predicate."""
        found: dict[int, dict[int, list[str]]] = {bucket: {} for bucket in range(buckets)}
        for name in names:
            for part in self[name].parts:
                for bucket, path in part.files.items() if part.bucket_count == buckets else ():
                    found[bucket].setdefault(self[name].number, []).append(path)
        return found

    def _bucketed(self, name: str, files: Iterable[BucketFile], folder: Path, buckets: int) -> Part:
        """A part of those of the files that have facts of a predicate; they move to its folder."""
        path = folder / f"p={self[name].number}"
        path.mkdir(parents=True)
        own = [file for file in files if file.number == self[name].number]
        moved = {file.bucket: str(Path(file.path).rename(path / Path(file.path).name)) for file in own}
        return Part(str(path), sum(file.count for file in own), bucket_count=buckets, files=moved)

    def add_wide(self, wide: DataFrame, names: Sequence[str]) -> dict[str, int] | None:
        """Add facts that are all new, in a wide frame; None, and nothing added, if a row is under `BEYOND_LIMIT`."""
        parts = self._write(wide, names, {"": BEYOND_LIMIT})
        return None if parts.pop("").count else self._appended(parts)

    def add_files(self, files: Mapping[str, Sequence[FactFile]]) -> int:
        """Add files of facts that are all new, which move to the folder; returns how many facts there are."""
        folder = Path(self.next_folder("facts"))
        parts = {}
        for name, own in files.items():
            path = folder / f"p={self[name].number}"
            path.mkdir(parents=True)
            for file in own:
                Path(file.path).rename(path / Path(file.path).name)
            decoded = tuple(file for file in own if file.decoded)
            parts[name] = Part(str(path), sum(file.count for file in own), decoded)
        return sum(self._appended(parts).values())

    def _appended(self, parts: Mapping[str, Part]) -> dict[str, int]:
        for name, part in parts.items():
            if part.count:
                self[name].parts.append(part)
                self[name].delta += 1
        return {name: part.count for name, part in parts.items()}

    def _write(self, wide: DataFrame, names: Sequence[str], others: Mapping[str, int] | None = None) -> dict[str, Part]:
        """Write rows by the number of their predicate, and count them; also those under other numbers."""
        folder = self.next_folder("facts")
        numbers = {name: self[name].number for name in names} | dict(others or {})
        counts = write_wide(wide.withColumn("q", F.col("p")), numbers, folder)
        return {name: Part(f"{folder}/p={number}", counts[name]) for name, number in numbers.items()}

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, written and read back, so that they are computed once."""
        path = self.next_folder("staged")
        frame.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def next_folder(self, what: str) -> str:
        self._jobs += 1
        return f"{self.folder}/{what}-{self._jobs:05d}"

    def settle(self, predicates: Iterable[str]) -> None:
        """End the rounds of these predicates: none of their facts is new any more."""
        for name in predicates:
            self[name].delta = 0


# ── facts that are taken in ──────────────────────────────────────────────────────────────────────────────────────────


def load(taken: TakenIn, relations: Relations) -> int:
    """Add facts that were taken in, all of the arity of their predicate; returns how many were new."""
    fresh: dict[str, list[FactFile]] = defaultdict(list)
    compared: dict[str, list[FactFile]] = defaultdict(list)
    for file in taken.facts:
        twice = file.number in taken.repeated or relations.count(file.predicate)
        relations.declare(file.predicate, file.arity, file.number)
        if relations[file.predicate].number != file.number:
            file = _renumbered(file, relations[file.predicate].number)
        (compared if twice else fresh)[file.predicate].append(file)
    added = relations.add_files(fresh)
    if compared:
        width = relations.width(compared)
        paths = [file.path for files in compared.values() for file in files]
        found = relations.add_new(widened(read_wide(relations.spark, paths, width), width), list(compared))
        added += sum(found.values())
    return added


def _renumbered(file: FactFile, number: int) -> FactFile:
    """The same file for another number: a task took a hash for it, and the number was in use."""
    table = pq.ParquetFile(file.path).read()
    pq.write_table(table.set_column(0, "q", pa.array(np.full(table.num_rows, number, np.int32))), file.path)
    return replace(file, number=number)
