"""The facts of an update: from rows in any form to records, and to rows of ids that are given or taken."""

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
from tidelog.spark.data.fact_parts import MANY_VALUES, encoded_records
from tidelog.spark.data.fact_records import ARROW_RECORD, RECORD_TYPE, record_batch
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.term_lookup import FEW_VALUES, GIVE, TAKE, Encoded, encode_few
from tidelog.spark.data.wide_frames import NOT_A_TERM, union_all
from tidelog.spark.maintain.update_work import Work

Given = Mapping[str, Any]
"""Facts by predicate: a Spark DataFrame, or rows in any form that `KnowledgeBase.update` takes."""


class Records:
    """The records of an update: facts to give and facts to take, told apart by their source."""

    def __init__(self, spark: SparkSession, prefixes: Mapping[str, str], arities: Mapping[str, int]) -> None:
        self._spark = spark
        self._prefixes = prefixes
        self._batches: list[pa.RecordBatch] = []
        self._frames: list[DataFrame] = []
        self.arities = dict(arities)
        self.names: set[str] = set()
        self._stored: str | None = None
        self._gives = False
        self._count = 0

    def add(self, facts: Given, kind: str) -> None:
        """Add facts to give, or to take."""
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
                self._count += batch.num_rows * len(columns)
                self._batches.append(batch)

    def _note(self, predicate: str, arity: int) -> None:
        self.names.add(predicate)
        known = self.arities.setdefault(predicate, arity)
        if known != arity:
            raise ArityError(f"`{predicate}` has {known} arguments, but a row has {arity} values")

    def few(self, work: Work) -> pa.Table | None:
        """All records, if they are few enough for the driver."""
        self._gather(work)
        if self._count > FEW_VALUES:
            return None
        if self._stored is not None:
            return pq.read_table(self._stored).cast(ARROW_RECORD)
        return pa.Table.from_batches(self._batches, ARROW_RECORD)

    def encoded(self, work: Work) -> DataFrame | None:
        """Rows of ids under the numbers of their predicates, and whether each is to `give` or to `take`."""
        few = self.few(work)
        if few is not None:
            asked = encode_few(work.dictionary, few)
            work.dictionary.append(asked.terms)
            return given_frame(work, asked, self.names)
        records = self._spark.read.schema(RECORD_TYPE).parquet(self._stored) if self._stored else self._local()
        if self._gives:
            values = records.where(F.col("source") == GIVE).select(F.explode("arguments").alias("value"))
            work.dictionary.extend(values, large=self._count > MANY_VALUES)
        numbers = {name: (work.facts.stored[name].number, self.arities[name]) for name in self.names}
        rows = encoded_records(records, numbers, work.dictionary, ["source"])
        kinds = (F.max(F.col("source") == kind).alias(kind) for kind in (GIVE, TAKE))
        return work.staging.cut(rows.groupBy(*work.facts.columns(numbers)).agg(*kinds))

    def _local(self) -> DataFrame:
        return self._spark.createDataFrame(pa.Table.from_batches(self._batches, ARROW_RECORD), RECORD_TYPE)

    def _gather(self, work: Work) -> None:
        """Write the records of frames, once, and count them on the way."""
        if not self._frames or self._stored is not None:
            return
        frames = [*self._frames, *([self._local()] if self._batches else [])]
        found = Observation()
        counted = F.sum(F.size("arguments")).alias("values")
        self._stored = work.staging.write(union_all(frames).observe(found, counted, F.max("reason").alias("reason")))
        reason, values = found.get["reason"], found.get["values"]
        if reason is not None:
            raise DataError(reason)
        self._count = values or 0


def given_frame(work: Work, asked: Encoded, names: Iterable[str]) -> DataFrame | None:
    """What is given and taken of some predicates, laid out as by `Records.encoded`."""
    wanted = set(names)
    facts = [fact for fact in asked.give | asked.take if fact[0] in wanted]
    if not facts:
        return None
    number, *cells = work.facts.columns({name for name, _ in facts})
    table: dict[str, pa.Array] = {number: pa.array([work.facts.stored[name].number for name, _ in facts], pa.int32())}
    padding = [NOT_A_TERM] * len(cells)
    rows = [(*(ids or (0,)), *padding)[: len(cells)] for _, ids in facts]
    table |= {column: pa.array(ids, pa.int64()) for column, ids in zip(cells, zip(*rows, strict=True), strict=True)}
    for kind, chosen in ((GIVE, asked.give), (TAKE, asked.take)):
        table[kind] = pa.array([fact in chosen for fact in facts], pa.bool_())
    return work.spark.createDataFrame(pa.table(table))
