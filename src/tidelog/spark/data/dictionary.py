"""Constants on Spark: values as structs, and the dictionary that gives each a dense id.

A value is a struct of its kind and three fields. The kind says which field counts: `text` (strings, IRIs, RDF
literals), `integer` (integers and booleans) or `number` (floats). No field is null and the others hold fixed values, so
two structs are equal exactly when they are the same constant. Facts are joined by ids alone.

The dictionary lies in Parquet files, one for the new constants of each step. New ids follow the greatest one, so no
constant ever changes its id.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, literal_text
from tidelog.language import parse_literal
from tidelog.language.syntax import Constant
from tidelog.spark.data.wide_frames import NOT_A_TERM, observed, write_part
from tidelog.values import IRI, Literal, Value, canonical

FIELDS = ("kind", "text", "integer", "number")
VALUE_TYPE = "struct<kind:tinyint,text:string,integer:bigint,number:double>"
ARROW_VALUE = pa.struct([("kind", pa.int8()), ("text", pa.string()), ("integer", pa.int64()), ("number", pa.float64())])
_STORED = "id bigint, kind tinyint, text string, integer bigint, number double"

Fields = tuple[int, str, int, Any]


def fields_of(value: Value) -> Fields:
    match canonical(value):
        case bool(truth):
            return (BOOL, "", int(truth), 0.0)
        case int(integer):
            return (INT, "", integer, 0.0)
        case float(number):
            return (FLOAT, "", 0, number)
        case str(text):
            return (STR, text, 0, 0.0)
        case IRI(iri):
            return (IRI_KIND, iri, 0, 0.0)
        case Literal() as literal:
            return (LITERAL, literal_text(literal), 0, 0.0)


def value_of(fields: Sequence[Any]) -> Value:
    kind, text, integer, number = fields
    if kind == STR:
        return str(text)
    if kind == INT:
        return int(integer)
    if kind == FLOAT:
        return float(number)
    if kind == BOOL:
        return bool(integer)
    return IRI(text) if kind == IRI_KIND else parse_literal(text)


def values_frame(spark: SparkSession, values: Iterable[Value]) -> DataFrame:
    """Constants of the driver as a frame with a column `value`."""
    cells = [dict(zip(FIELDS, fields_of(value), strict=True)) for value in values]
    return spark.createDataFrame(pa.table({"value": pa.array(cells, ARROW_VALUE)})).select(
        F.col("value").cast(VALUE_TYPE).alias("value")
    )


@dataclass
class Dictionary:
    """The constants that have ids, in the files `parts`; `floats` says whether any of them is a float."""

    spark: SparkSession
    folder: str
    parts: list[str] = field(default_factory=list)
    size: int = 0
    floats: bool = False

    def frame(self) -> DataFrame:
        """Every constant: columns `id` and `value`."""
        if not self.parts:
            return self.spark.createDataFrame([], f"id bigint, value {VALUE_TYPE}")
        stored = self.spark.read.schema(_STORED).parquet(*self.parts)
        return stored.select("id", F.struct(*FIELDS).alias("value"))

    def kinds(self) -> frozenset[int]:
        """The kinds of the constants."""
        if not self.parts:
            return frozenset()
        kinds = self.spark.read.schema("kind tinyint").parquet(*self.parts).distinct()
        return frozenset(row["kind"] for row in kinds.collect())

    def extend(self, values: DataFrame, large: bool = False) -> int:
        """Give ids to those constants of a column `value` that have none; returns how many there were.

        A few constants are sorted in one partition. Many (`large`) are numbered in parallel buckets, which takes a pass
        to count the buckets. Either way, a task that runs again gives the same ids."""
        new = values.distinct()
        if self.size:
            new = new.join(self.frame().select("value"), "value", "left_anti")
        numbered = self._numbered_in_buckets(new) if large else new.withColumn("id", _row_number() + self.size - 1)
        found = Observation()
        counts = F.count("*").alias("count"), F.count_if(F.col("kind") == FLOAT).alias("floats")
        path = self._next_part
        numbered.select("id", "value.*").observe(found, *counts).write.mode("overwrite").parquet(path)
        shutil.rmtree(self._staging, ignore_errors=True)
        count = observed(found, "count")
        if count:
            self._note(path, count, observed(found, "floats") > 0)
        return count

    def append(self, constants: Sequence[Fields]) -> None:
        """Give the next ids to a few constants that have none, in this order and without a job."""
        if not constants:
            return
        path = Path(self._next_part)
        shutil.rmtree(path, ignore_errors=True)
        columns = zip(FIELDS, ARROW_VALUE, zip(*constants, strict=True), strict=True)
        ids = pa.array(range(self.size, self.size + len(constants)), pa.int64())
        table = pa.table({"id": ids} | {name: pa.array(cells, type_.type) for name, type_, cells in columns})
        write_part(path, table)
        self._note(str(path), len(constants), any(kind == FLOAT for kind, *_ in constants))

    def _note(self, path: str, count: int, floats: bool) -> None:
        self.parts.append(path)
        self.size += count
        self.floats = self.floats or floats

    @property
    def _next_part(self) -> str:
        return f"{self.folder}/part-{len(self.parts):05d}-{self.size}"

    @property
    def _staging(self) -> str:
        return f"{self.folder}/staging"

    def _numbered_in_buckets(self, new: DataFrame) -> DataFrame:
        buckets = 64
        bucket = F.pmod(F.xxhash64("value"), F.lit(buckets))
        new.withColumn("bucket", bucket).write.mode("overwrite").parquet(self._staging)
        rows = self.spark.read.schema(f"value {VALUE_TYPE}, bucket bigint").parquet(self._staging)
        counts = {row["bucket"]: row["count"] for row in rows.groupBy("bucket").count().collect()}
        offsets = accumulate((counts.get(number, 0) for number in range(buckets - 1)), initial=self.size)
        offset = F.element_at(F.array(*map(F.lit, offsets)), F.col("bucket").cast("int") + 1)
        return rows.withColumn("id", offset + _row_number("bucket") - 1)

    def with_values(self, frame: DataFrame, columns: Mapping[str, str], missing: bool = False) -> DataFrame:
        """Add columns of values for columns of ids; `missing` keeps rows with a cell that is not an id, as null."""
        for id_name, value_name in columns.items():
            frame = frame.join(self._named(id_name, value_name), id_name, "left" if missing else "inner")
        return frame

    def with_ids(self, frame: DataFrame, columns: Mapping[str, str], missing: bool = False) -> DataFrame:
        """Add columns of ids for columns of values; `missing` keeps the rows whose value has none, as `NOT_A_TERM`."""
        for value_name, id_name in columns.items():
            frame = frame.join(self._named(id_name, value_name), value_name, "left" if missing else "inner")
            if missing:
                frame = frame.withColumn(id_name, F.coalesce(F.col(id_name), F.lit(NOT_A_TERM)))
        return frame

    def _named(self, id_name: str, value_name: str) -> DataFrame:
        return self.frame().select(F.col("id").alias(id_name), F.col("value").alias(value_name))

    def ids_of(self, constants: Iterable[Constant]) -> dict[Constant, int]:
        """The ids of a few constants; those without an id get one."""
        wanted = list(dict.fromkeys(constants))
        if not wanted:
            return {}
        values = values_frame(self.spark, [constant.value for constant in wanted])
        self.extend(values)
        found = values.join(self.frame(), "value").select("id", "value.*").collect()
        return {Constant(value_of(row[1:])): row[0] for row in found}

    @property
    def is_local(self) -> bool:
        """Whether the driver can read and write the files without Spark."""
        return "://" not in self.folder


def _row_number(bucket: str | None = None) -> Column:
    window = Window.partitionBy(bucket) if bucket else Window.partitionBy()
    return F.row_number().over(window.orderBy("value"))
