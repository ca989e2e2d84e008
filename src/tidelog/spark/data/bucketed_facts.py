"""The new ones among candidates, found bucket by bucket, so that a round of a recursion shuffles its candidates alone.

To compare what a round derives with all that is known by a join, Spark would read and shuffle the known facts in every
round. Instead, facts are dealt out to *buckets* by a hash, and a file holds facts of one bucket. The candidates of a
bucket come to one task, which reads the files of the bucket by itself and writes what is new as one more of them (as
the sets of BigDatalog do in memory: Shkapsky et al., "Big Data Analytics with Datalog Queries on Spark"). Known facts
that do not lie in buckets yet, or in too many files, are shuffled along once, and written again.

A file that a task writes counts only if the task tells of it, as in `encoded_blocks.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.data.wide_frames import keys, widened

BUCKET_FACTS = 4 << 20
"""About so many known facts are in a bucket at most: a task holds them."""

# Facts are dealt out by their number and these columns, however many columns the frame has that they come in.
_DEALT_BY = 2
_BATCH_ROWS = 1 << 20
_KNOWN = "known"

Cells: TypeAlias = pa.Table
"""Facts of one predicate, in columns of ids."""


@dataclass(frozen=True)
class BucketFile:
    """Facts of one predicate in one bucket: new ones, or all that were known, written again."""

    bucket: int
    number: int
    new: bool
    count: int
    path: str


@dataclass(frozen=True)
class Buckets:
    """How tasks find new facts: the arities of predicates by their numbers, and the files of known facts by bucket.

    Known facts that tasks are given, not told the files of, are written again if they are `rewritten`, whose numbers
    are given. Files go to `folder`."""

    count: int
    arities: Mapping[int, int]
    files: Mapping[int, Mapping[int, Sequence[str]]]
    rewritten: frozenset[int]
    folder: str

    def new_of(self, candidates: DataFrame, known: DataFrame | None) -> list[BucketFile]:
        """What tasks write: the new ones of candidates, a wide frame. `known` are facts that lie in no bucket yet."""
        width = max(_DEALT_BY, *self.arities.values())
        rows = widened(candidates, width)
        if known is not None:
            flagged = widened(known, width).withColumn(_KNOWN, F.lit(True))
            rows = rows.withColumn(_KNOWN, F.lit(False)).unionByName(flagged)
        dealt_by = ["p", *keys(_DEALT_BY)]
        # What `repartition` computes as well, so that all facts of a bucket are in one task.
        bucket = F.pmod(F.hash(*dealt_by), F.lit(self.count)).alias("bucket")
        told = rows.repartition(self.count, *dealt_by).select("*", bucket).mapInArrow(self._told, "told string")
        files = [BucketFile(**json.loads(row["told"])) for row in told.collect()]
        places = Counter((file.bucket, file.number, file.new) for file in files)
        assert max(places.values(), default=1) == 1, "a bucket is in two tasks"
        return files

    def _told(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known, candidates = self._gathered(batches)
        for bucket, number in dict.fromkeys((*known, *candidates)):
            place = bucket, number
            files = self._written(bucket, number, known.get(place), candidates.get(place))
            told = [json.dumps(vars(file)) for file in files]
            yield pa.RecordBatch.from_pydict({"told": pa.array(told, pa.string())})

    def _gathered(self, batches: Iterator[pa.RecordBatch]) -> tuple[Gathered, Gathered]:
        """The known facts that are not in files of buckets, and the candidates."""
        known, candidates = Gathered(self.arities), Gathered(self.arities)
        for batch in batches:
            if _KNOWN in batch.schema.names:
                flags = batch.column(_KNOWN)
                known.add(batch.filter(flags))
                batch = batch.filter(pc.invert(flags))
            candidates.add(batch)
        known.sort_out()
        candidates.sort_out()
        return known, candidates

    def _written(self, bucket: int, number: int, moved: Cells | None, rows: Cells | None) -> Iterator[BucketFile]:
        """Files of what is new among the rows of a predicate in a bucket, and of what was known, if that is wanted."""
        columns = keys(max(1, self.arities[number]))
        tables = [pq.ParquetFile(path).read(columns) for path in self.files.get(bucket, {}).get(number, ())]
        if moved is not None:
            tables.append(moved)
        known = pa.concat_tables(tables, promote_options="default") if tables else None
        if known is not None and number in self.rewritten:
            yield self._file(bucket, number, False, known)
        if rows is not None:
            new = rows if known is None else without(rows, known)
            if new.num_rows:
                yield self._file(bucket, number, True, new)

    def _file(self, bucket: int, number: int, new: bool, facts: Cells) -> BucketFile:
        path = Path(self.folder) / f"{uuid4().hex}.parquet"
        numbers = pa.array(np.full(facts.num_rows, number, np.int32))
        # Made anew, as all that write facts declare columns alike only if nothing is said about nulls.
        table = pa.table([numbers, *facts.columns], ["q", *facts.column_names])
        pq.write_table(table, path, use_dictionary=["q"], compression="none")
        return BucketFile(bucket, number, new, facts.num_rows, str(path))


def number_of_buckets(facts: int, partitions: int) -> int:
    """How many buckets so many facts need, and at least one for each partition of a shuffle.

    It doubles as facts come, so that they are seldom dealt out anew."""
    buckets = partitions
    while buckets * BUCKET_FACTS < facts:
        buckets *= 2
    return buckets


class Gathered(dict[tuple[int, int], Cells]):
    """Distinct rows of a task by bucket and predicate. A task has one bucket, unless Spark has joined some."""

    def __init__(self, arities: Mapping[int, int]) -> None:
        super().__init__()
        self._arities = arities
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= _BATCH_ROWS:
            self.sort_out()

    def sort_out(self) -> None:
        """Drop what is there twice, so that a task holds no more than it has to."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        places = rows.select(["bucket", "p"])
        for bucket, number in zip(*(column.to_pylist() for column in distinct(places).columns), strict=True):
            own = pc.and_(pc.equal(rows.column("bucket"), bucket), pc.equal(rows.column("p"), number))
            mine = rows.select(keys(max(1, self._arities[number]))).filter(own)
            before = self.get((bucket, number))
            self[bucket, number] = distinct(mine if before is None else pa.concat_tables([before, mine]))


def distinct(rows: pa.Table) -> pa.Table:
    """Each row of a table once."""
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def without(rows: Cells, others: Cells) -> Cells:
    """The rows of one table that are not in another."""
    if not rows.num_rows or not others.num_rows:
        return rows
    return rows.join(others, rows.column_names, join_type="left anti", use_threads=False)
