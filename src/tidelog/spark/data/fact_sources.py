"""Where facts come from: text files, Parquet, any Spark table or DataFrame; each becomes records.

Columns of Spark types become values by column expressions. A row with a null, or with a value that does not fit the
type given for its column, becomes a record with a reason. Parquet files are checked before they are read, so that a
truncated file is reported by its name and does not end the run.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidelog.errors import DataError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, STR
from tidelog.formats.column_types import KIND_OF_TYPE, PATTERN_OF_TYPE, checked_types
from tidelog.formats.folder import warn_of_header
from tidelog.spark.data.dictionary import VALUE_TYPE
from tidelog.spark.data.fact_records import RECORD_TYPE, records_of_files, rejected
from tidelog.spark.data.text_sources import SEPARATOR_OF, TEXT_FORMATS, TextSource, read_text
from tidelog.spark.data.wide_frames import union_all

FORMATS = (*TEXT_FORMATS, "parquet", "table")


@dataclass(frozen=True)
class Source(TextSource):
    """Files by a pattern, a table by its name, or a DataFrame, and how to read them."""

    frame: DataFrame | None = None

    def __post_init__(self) -> None:
        if self.types is not None:
            object.__setattr__(self, "types", checked_types(self.types, f"source {self.name}"))
        if self.frame is None and self.kind not in FORMATS:
            raise DataError(f"source {self.name}: the format {self.kind!r} is not known; use {', '.join(FORMATS)}")
        if (self.frame is not None or self.kind in ("table", "parquet")) and not self.predicate:
            raise DataError(f"source {self.name}: say which `predicate` its rows are facts of")

    @property
    def name(self) -> str:
        return self.path or f"DataFrame for {self.predicate}"

    def records(self, spark: SparkSession) -> DataFrame:
        if self.frame is not None:
            return self._records_of_frame(self.frame)
        if self.kind == "table":
            return self._records_of_frame(spark.table(self.path))
        if self.kind == "parquet":
            return self._records_of_parquet(spark, self._paths())
        paths = self._paths()
        if self.header is None and self.kind in SEPARATOR_OF:
            warn_of_header(Path(paths[0]))
        return records_of_files(spark, paths, partial(read_text, source=self))

    def _paths(self) -> list[str]:
        found = sorted(glob.glob(self.path, recursive=True))
        files = [
            str(part)
            for path in map(Path, found)
            for part in (sorted(path.iterdir()) if path.is_dir() else [path])
            if not part.name.startswith((".", "_"))
        ]
        if not files:
            raise DataError(f"source {self.name}: no file matches; check the path")
        return files

    def _records_of_parquet(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        refused = {path: reason for path in paths if (reason := _unreadable(path))}
        good = [path for path in paths if path not in refused]
        parts = []
        if refused:
            records = [rejected(path, [None], [reason]) for path, reason in refused.items()]
            parts.append(spark.createDataFrame(pa.Table.from_batches(records), RECORD_TYPE))
        if good:
            schema = _simple_schema(good[0])
            frame = (spark.read.schema(schema) if schema else spark.read).parquet(*good)
            place, row = F.col("_metadata.file_path"), F.col("_metadata.row_index") + 1
            parts.append(self._records_of_frame(frame, place, row))
        return union_all(parts)

    def _records_of_frame(self, frame: DataFrame, source: Column | None = None, row: Column | None = None) -> DataFrame:
        names = self._column_names(frame)
        types = self.types or ("auto",) * len(names)
        if len(types) != len(names):
            raise DataError(f"source {self.name}: {len(names)} columns, but {len(types)} types")
        typed = list(zip(names, types, strict=True))
        cells = [self._value(name, frame.schema[name].dataType, type_) for name, type_ in typed]
        reasons = [_reason(name, cell, type_) for (name, type_), cell in zip(typed, cells, strict=True)]
        values = frame.select(
            F.array(*cells).alias("arguments"),
            F.coalesce(*reasons, F.lit(None)).cast("string").alias("reason"),
            (F.lit(self.name) if source is None else source).alias("source"),
            (F.lit(None) if row is None else row).cast("bigint").alias("row"),
        )
        fits = F.col("reason").isNull()
        return values.select(
            F.when(fits, F.lit(self.predicate)).alias("predicate"),
            F.when(fits, F.col("arguments")).alias("arguments"),
            "source",
            "row",
            "reason",
        )

    def _column_names(self, frame: DataFrame) -> list[str]:
        if self.columns is None:
            return list(frame.columns)
        names = [frame.columns[wanted] if isinstance(wanted, int) else wanted for wanted in self.columns]
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise DataError(
                f"source {self.name}: no column is named {missing[0]}; there are {', '.join(frame.columns)}"
            )
        return names

    def _value(self, name: str, spark_type: T.DataType, type_: str) -> Column:
        """The value of a column, null if it does not fit."""
        column = F.col(f"`{name}`")
        if type_ == "auto":
            for kind, fitting in _KINDS_OF_TYPES.items():
                if isinstance(spark_type, fitting):
                    return _struct(column, kind)
            raise DataError(
                f"source {self.name}, column {name}: facts cannot hold values of type {spark_type.simpleString()}; "
                "cast the column, or leave it out with `columns`"
            )
        if isinstance(spark_type, T.StringType):
            return _from_text(column, type_)
        if type_ == "int" and isinstance(spark_type, T.FractionalType):
            whole = column.try_cast("bigint")
            return _struct(F.when(whole == column, whole), INT)
        kind = KIND_OF_TYPE[type_]
        return _struct(column.try_cast(_SPARK_TYPES[kind]), kind)


_SPARK_TYPES = {STR: "string", INT: "bigint", FLOAT: "double", BOOL: "boolean", IRI_KIND: "string"}
_SPARK_TYPES_OF_ARROW = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}
_KINDS_OF_TYPES: dict[int, tuple[type[T.DataType], ...]] = {
    STR: (T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType),
    INT: (T.IntegralType,),
    FLOAT: (T.FractionalType,),
    BOOL: (T.BooleanType,),
}


def _struct(column: Column, kind: int) -> Column:
    """Values of one kind from a column of plain values; null stays null."""
    text, integer, number = F.lit(""), F.lit(0), F.lit(0.0)
    if kind in (INT, BOOL):
        integer = column.cast("bigint")
    elif kind == FLOAT:
        number = column.cast("double") + F.lit(0.0)
    else:
        text = column.cast("string")
    return F.when(column.isNotNull(), F.struct(F.lit(kind), text, integer, number).cast(VALUE_TYPE))


def _reason(name: str, cell: Column, type_: str) -> Column:
    """Why the value of a column is missing; null if it is not."""
    column = F.col(f"`{name}`")
    return F.when(column.isNull(), F.lit(f"column {name}: a missing value; facts have no nulls")).when(
        cell.isNull(), F.concat(F.lit(f"column {name}: "), column.cast("string"), F.lit(f" is no {type_}"))
    )


def _from_text(column: Column, type_: str) -> Column:
    """Text as a type, by the same patterns as in files."""
    kind = KIND_OF_TYPE[type_]
    if type_ not in PATTERN_OF_TYPE:
        return _struct(F.regexp_replace(column, r"^<(.*)>$", "$1") if kind == IRI_KIND else column, kind)
    fits = column.rlike(f"^(?:{PATTERN_OF_TYPE[type_]})$")
    value = column.try_cast(_SPARK_TYPES[kind])
    if kind == FLOAT:  # a number that is too large is not an infinity
        fits &= (F.abs(value) != F.lit(math.inf)) | column.endswith("inf")
    return _struct(F.when(fits, value), kind)


def _simple_schema(path: str) -> str | None:
    """The schema of a Parquet file whose columns have plain types; for any other file Spark has to run a job."""
    types = {field.name: _SPARK_TYPES_OF_ARROW.get(field.type) for field in pq.read_schema(path)}
    known = [f"`{name}` {type_}" for name, type_ in types.items() if type_ and "`" not in name]
    return ", ".join(known) if known and len(known) == len(types) else None


def _unreadable(path: str) -> str | None:
    """Why a file cannot be read; None if it can."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return f"{path}: not a readable Parquet file ({error}); write it again"
    return None
