"""Streaming frames of records: from files, from brokers, from any source that Spark reads.

Each row has the bytes of a record (`body`), where it came from (`place`), and the columns `o0`, `o1`, … that say in
which order the records of a batch were given, since Spark promises no order. Files are taken by the time of their last
change, then by name; where these columns are equal, the order in which a task reads counts, line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import DataError
from tidelog.formats.batch import values_of
from tidelog.formats.files.updates import Facts, Update
from tidelog.spark.data.fact_records import Rejected
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.pipeline.pipeline_config import StreamConfig, StreamSource
from tidelog.spark.streams.mqtt import MqttSource, read_options
from tidelog.spark.streams.update_records import Entry, entry_of, parse_entry

Parse = Callable[[str], Update]

_LIMITS = {"kafka": "maxOffsetsPerTrigger", "mqtt": "mostPerBatch"}
_ORDER = {"kafka": ("partition", "offset"), "mqtt": ("number",)}
_FILE_ORDER = [f"_metadata.{name}" for name in ("file_modification_time", "file_path", "file_block_start")]
_OPERATION = ("op", "predicate", "arguments")


def parser(config: StreamConfig) -> Parse:
    """How the text of a record is read."""
    is_csv, in_time = config.source.format == "csv", config.engine == "memory"
    return partial(parse_entry, csv=is_csv, allow_rules=config.allow_rules, allow_times=in_time)


def open_intake(spark: SparkSession, config: StreamConfig) -> DataFrame:
    """The streaming frame of the records."""
    source = config.source
    if source.format == "mqtt":
        spark.dataSource.register(MqttSource)
    try:
        return _files(spark, config) if source.is_file else _messages(spark, config)
    except (PySparkException, Py4JJavaError) as error:
        told = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
        reason = told.partition("\n")[0]
        raise DataError(f"[stream.source]: Spark cannot read {source.format}: {reason}") from None


def _files(spark: SparkSession, config: StreamConfig) -> DataFrame:
    source = config.source
    columns = source.format == "parquet"
    # Only a line feed ends a record: a quoted cell of CSV may hold a carriage return.
    options = {"lineSep": "\n", **(source.options or {})}
    reader = spark.readStream.format("parquet" if columns else "text").options(**options)
    if columns:
        reader = reader.schema(source.schema or ", ".join(f"{name} string" for name in _OPERATION))
    if config.most_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", config.most_per_batch)
    body = F.to_json(F.struct(*_OPERATION)) if columns else F.col("value")
    return _laid_out(reader.load(source.path), F.col("_metadata.file_name"), body.cast("binary"), _FILE_ORDER)


def _messages(spark: SparkSession, config: StreamConfig) -> DataFrame:
    source = config.source
    options = dict(source.options or {})
    if source.format == "mqtt":
        options.setdefault("spool", str(config.checkpoint / "mqtt"))
        read_options(options).warn_of_plain_password()
    reader = spark.readStream.format(source.format).options(**options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    if config.most_per_batch is not None and source.format in _LIMITS:
        reader = reader.option(_LIMITS[source.format], config.most_per_batch)
    frame = reader.load(source.path) if source.path else reader.load()
    if source.format == "mqtt" and source.value == "value":
        body = F.coalesce(F.col("value").cast("binary"), F.col("raw"))
    elif source.value in frame.columns:
        # Spark would turn any bytes into text, and those that are not UTF-8 into another record.
        is_binary = frame.schema[source.value].dataType.typeName() == "binary"
        body = F.col(source.value) if is_binary else F.col(source.value).cast("string")
    elif set(_OPERATION) <= set(frame.columns):
        body = F.to_json(F.struct(*_OPERATION))
    else:
        body = F.expr(source.value)
        _check_expression(frame, source, body)
    place = F.col("topic") if "topic" in frame.columns else F.lit(source.format)
    body = F.coalesce(body.cast("binary"), F.lit("null").cast("binary"))
    return _laid_out(frame, place, body, source.order or _ORDER.get(source.format, ()))


def _check_expression(frame: DataFrame, source: StreamSource, body: Column) -> None:
    """Refuse what is neither a column nor an expression over columns that yields the text of a record."""
    try:
        found = frame.select(body).schema[0].dataType.typeName()
    except PySparkException:
        found = "nothing"
    if found not in ("string", "binary"):
        raise DataError(
            f"[stream.source]: {source.format} has no column `{source.value}`; there are {', '.join(frame.columns)}: "
            'name the one with the record by value = "…", or write an SQL expression that makes one of them'
        )


def _laid_out(frame: DataFrame, place: Column, body: Column, order: Iterable[str]) -> DataFrame:
    ordered = [F.col(name).alias(f"o{number}") for number, name in enumerate(order)]
    return frame.select(place.alias("place"), body.alias("body"), *ordered)


def order_columns(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith("o")]


def facts_of_sources(spark: SparkSession, sources: Sequence[Source]) -> Facts:
    """The facts of sources, with which a stream begins besides its program, on the driver."""
    facts: Facts = {}
    for source in sources:
        for found in (found for piece in source.pieces(spark) for found in piece.on_driver()):
            if isinstance(found, Rejected):
                raise DataError(found.reasons[0])
            rows = zip(*map(values_of, found.batch.columns), strict=True) if found.batch.columns else [()]
            facts.setdefault(found.batch.predicate, []).extend(rows)
    return facts


def entries_of(rows: pa.Table) -> list[Entry]:
    """The records of a batch, in order."""
    order = order_columns(rows.column_names)
    rows = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
    rows = rows.sort_by([(name, "ascending") for name in (*order, "row")])
    places, bodies = rows.column("place").to_pylist(), rows.column("body").to_pylist()
    return list(map(entry_of, places, bodies))
