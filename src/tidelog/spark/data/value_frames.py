"""Frames of values: DataFrames of facts with their constants as structs, in columns `c0`, `c1`, …"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.formats.batch import BOOL, FLOAT, INT, FactBatch
from tidelog.spark.data.dictionary import VALUE_TYPE
from tidelog.spark.data.fact_records import Facts, Found, column_of_structs
from tidelog.spark.data.fact_sources import kind_of_spark_type
from tidelog.spark.data.taking_in import FramePiece
from tidelog.spark.data.wide_frames import keys


def kinds_of_frame(frame: DataFrame, predicate: str) -> list[int]:
    """The kind of the constants in each column of a frame; raises for a type that facts cannot hold."""
    return [kind_of_spark_type(field.dataType, f"`{predicate}`, column {field.name}") for field in frame.schema.fields]


def frame_of_values(frame: DataFrame, predicate: str) -> DataFrame:
    """The rows of a frame as values; a null ends the job that meets it."""
    cells = []
    named = list(zip(frame.columns, kinds_of_frame(frame, predicate), strict=True))
    frame = frame.toDF(*keys(len(named)))  # Names may occur twice, or be the same to Spark.
    for place, (name, kind) in enumerate(named):
        column = F.col(f"c{place}")
        value = F.struct(*_fields(column, kind)).cast(VALUE_TYPE)
        if frame.schema[place].nullable:
            missing = f"`{predicate}`, column {name}: a missing value; facts have no nulls: leave these rows out"
            raised = F.raise_error(F.lit(missing)).cast(VALUE_TYPE)
            value = F.coalesce(F.when(column.isNotNull(), value), raised)
        cells.append(value.alias(f"c{place}"))
    return frame.select(*cells)


def _fields(column: Column, kind: int) -> list[Column]:
    text, integer, number = F.lit(""), F.lit(0), F.lit(0.0)
    if kind in (INT, BOOL):
        integer = column.cast("bigint")
    elif kind == FLOAT:
        number = column.cast("double") + F.lit(0.0)
    else:
        text = column.cast("string")
    return [F.lit(kind), text, integer, number]


@dataclass(frozen=True)
class ValueSource:
    """A frame of values as a source of facts."""

    predicate: str
    arity: int
    frame: DataFrame

    def pieces(self, _: SparkSession, /) -> list[FramePiece]:
        """What tasks are to read."""
        # Without any column, batches would lose their rows.
        rows = self.frame if self.arity else self.frame.select(F.lit(0).alias("c0"))
        return [FramePiece(rows, partial(_read_values, self.predicate, self.arity))]


def _read_values(predicate: str, arity: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Found]:
    for batch in batches:
        if batch.num_rows:
            columns = [column_of_structs(column) for column in batch.columns[:arity]]
            yield Facts(FactBatch(predicate, columns, "a frame", 1))
