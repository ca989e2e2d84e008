"""The facts of an update: from whatever holds rows to records, and to rows of ids that are given or taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import ArityError, DataError
from tidelog.formats.batch import FactBatch
from tidelog.formats.tables import columns_of
from tidelog.language import resolve_predicate
from tidelog.spark.data.dictionary import NOT_A_TERM
from tidelog.spark.data.fact_encoding import MANY_VALUES, encoded_records
from tidelog.spark.data.fact_records import ARROW_RECORD, RECORD_TYPE, record_batch
from tidelog.spark.data.wide_frames import keys, union_all
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.pipeline.fact_sources import Source
from tidelog.spark.small.record_encoding import FEW_VALUES, GIVE, TAKE, Encoded, encoded

Given = Mapping[str, Any]
"""Facts by predicate: a Spark DataFrame, or rows in any form that `KnowledgeBase.update` takes."""


class Records:
    """The records of an update: what is given and what is taken, told apart by their source."""

    def __init__(self, spark: SparkSession, prefixes: Mapping[str, str], arities: Mapping[str, int]) -> None:
        self._spark = spark
        self._prefixes = prefixes
        self._batches: list[pa.RecordBatch] = []
        self._frames: list[DataFrame] = []
        self.arities = dict(arities)
        self.names: set[str] = set()
        self._stored: str | None = None
        self._gives = False
        self.count = 0

    def add(self, facts: Given, kind: str) -> None:
        """Take in facts of a kind."""
        self._gives = self._gives or (kind == GIVE and bool(facts))
        for name, rows in facts.items():
            predicate = resolve_predicate(name, dict(self._prefixes))
            if isinstance(rows, DataFrame):
                self._note(predicate, len(rows.columns))
                records = Source(predicate=predicate, frame=rows).records(self._spark)
                self._frames.append(records.withColumn("source", F.lit(kind)))
                continue
            columns = columns_of(rows, name)
            if columns is not None:
                self._note(predicate, len(columns))
                batch = record_batch(FactBatch(predicate, columns, kind, 1))
                self.count += batch.num_rows * len(columns)
                self._batches.append(batch)

    def _note(self, predicate: str, arity: int) -> None:
        self.names.add(predicate)
        known = self.arities.setdefault(predicate, arity)
        if known != arity:
            raise ArityError(f"`{predicate}` has {known} arguments, but a row has {arity} values")

    def few(self, work: Work) -> pa.Table | None:
        """All records, where they are few enough for the driver; None for more."""
        self._gather(work)
        if self._stored is None:
            return pa.Table.from_batches(self._batches, ARROW_RECORD) if self.count <= FEW_VALUES else None
        return pq.read_table(self._stored).cast(ARROW_RECORD) if self.count <= FEW_VALUES else None

    def encoded(self, work: Work) -> DataFrame | None:
        """Rows of ids under the numbers of their predicates, and whether each is to `give` or to `take`."""
        few = self.few(work)
        if few is not None:
            asked = encoded(work.dictionary.parts, work.dictionary.size, few)
            work.dictionary.append(asked.terms)
            return given_frame(work, asked, self.names)
        records = self._records()
        if records is None:
            return None
        if self._gives:
            values = records.where(F.col("source") == GIVE).select(F.explode("arguments").alias("value"))
            work.dictionary.extend(values, large=self.count > MANY_VALUES)
        numbers = {name: (work.number(name), arity) for name, arity in self.arities.items() if name in self.names}
        rows = encoded_records(records, numbers, work.dictionary, ["source"])
        columns = ["p", *keys(work.old_width(numbers))]
        marked = rows.groupBy(*columns).agg(
            F.max(F.col("source") == GIVE).alias("give"), F.max(F.col("source") == TAKE).alias("take")
        )
        return work.cut(marked)

    def _records(self) -> DataFrame | None:
        if self._stored is not None:
            return self._spark.read.schema(RECORD_TYPE).parquet(self._stored)
        return self._local() if self._batches else None

    def _local(self) -> DataFrame:
        return self._spark.createDataFrame(pa.Table.from_batches(self._batches, ARROW_RECORD), RECORD_TYPE)

    def _gather(self, work: Work) -> None:
        """Write what lies in frames, once, and count it on the way."""
        if not self._frames or self._stored is not None:
            return
        frames = [*self._frames, *([self._local()] if self._batches else [])]
        found = Observation()
        counted = F.sum(F.size("arguments")).alias("values")
        self._stored = work.stage_path(union_all(frames).observe(found, counted, F.max("reason").alias("reason")))
        reason, values = found.get["reason"], found.get["values"]
        if reason is not None:
            raise DataError(reason)
        self.count = values or 0


def given_frame(work: Work, asked: Encoded, names: Iterable[str]) -> DataFrame | None:
    """What is given and taken of some predicates, as `Records.encoded` lays it out."""
    wanted = set(names)
    facts = [fact for fact in asked.give | asked.take if fact[0] in wanted]
    if not facts:
        return None
    width = work.old_width({name for name, _ in facts})
    columns: dict[str, pa.Array] = {"p": pa.array([work.number(name) for name, _ in facts], pa.int32())}
    padded = [(*(ids or (0,)), *[NOT_A_TERM] * width)[:width] for _, ids in facts]
    for place, column in enumerate(keys(width)):
        columns[column] = pa.array([ids[place] for ids in padded], pa.int64())
    columns[GIVE] = pa.array([fact in asked.give for fact in facts], pa.bool_())
    columns[TAKE] = pa.array([fact in asked.take for fact in facts], pa.bool_())
    return work.spark.createDataFrame(pa.table(columns))
