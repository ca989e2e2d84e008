"""Where facts come from: text files, Parquet, any Spark table or DataFrame; each is read in pieces.

Files are read by tasks, with the readers of `tidelog.formats`; Parquet a few row groups at a time. Frames, and Parquet
files whose columns need a conversion, pass through Spark: their columns become plain ones by expressions. A row with a
null, or with a value that does not fit the type given for its column, is rejected with a reason. Parquet files are
checked before they are read, so that a truncated file is reported by its name and does not end the run.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidelog.arrow_checks import check_sound
from tidelog.errors import DataError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, STR, FactBatch, column_of_kinds
from tidelog.formats.columns.cells import CellError, parse_constants
from tidelog.formats.columns.column_types import KIND_OF_TYPE, PATTERN_OF_TYPE, checked_types
from tidelog.formats.columns.tables import CONSTANT_KIND, KIND_KEY, NULLARY_KIND
from tidelog.formats.files.folder import warn_of_header
from tidelog.formats.files.parquet import with_spark_kinds
from tidelog.spark.data.fact_records import Facts, Found, Rejected
from tidelog.spark.data.taking_in import FramePiece, Piece
from tidelog.spark.data.text_sources import SEPARATOR_OF, TEXT_FORMATS, TextSource, read_contents, read_text
from tidelog.spark.places import absolute_path, is_address

_NULL = "column {}: a missing value; facts have no nulls"

FORMATS = (*TEXT_FORMATS, "parquet", "table")
_NO_FORMAT = ("DATA_SOURCE_NOT_FOUND", "Failed to find")


@dataclass(frozen=True)
class Source(TextSource):
    """Files by a pattern, a table by its name, a DataFrame, or what a format of the session reads; and how.

    `options` are those of Spark's reader."""

    frame: DataFrame | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.types is not None:
            object.__setattr__(self, "types", checked_types(self.types, f"source {self.name}"))
        if self.frame is None and self.kind not in FORMATS and self.format is None:
            raise self._unknown
        if (self.frame is not None or self.kind not in TEXT_FORMATS) and not self.predicate:
            raise DataError(f"source {self.name}: say which `predicate` its rows are facts of")

    @property
    def _unknown(self) -> DataError:
        known = f"{', '.join(FORMATS)}, or one that the session has"
        return DataError(f"source {self.name}: the format {self.kind!r} is not known; use {known}")

    @property
    def name(self) -> str:
        return self.path or f"DataFrame for {self.predicate}"

    @property
    def _named(self) -> str:
        assert self.predicate is not None
        return self.predicate

    def pieces(self, spark: SparkSession) -> list[Piece | FramePiece]:
        """What tasks are to read."""
        if self.frame is not None:
            return [self._piece_of_frame(self.frame)]
        if self.kind == "table" or self.kind not in FORMATS or (self.kind == "parquet" and is_address(self.path)):
            return [self._piece_of_frame(self._read_by_spark(spark))]
        if is_address(self.path):
            return [self._piece_of_contents(spark)]
        paths = self._paths()
        if self.kind == "parquet":
            return self._pieces_of_parquet(spark, paths)
        if self.header is None and self.kind in SEPARATOR_OF:
            warn_of_header(Path(paths[0]))
        return [Piece(partial(read_text, path, self), _size(path)) for path in paths]

    def _read_by_spark(self, spark: SparkSession) -> DataFrame:
        """A table, or what a format of the session reads."""
        reader = spark.read.options(**self.options)
        try:
            if self.kind == "table":
                return reader.table(self.path)
            return reader.format(self.kind).load(self.path)
        except (PySparkException, Py4JJavaError) as error:
            if any(sign in str(error) for sign in _NO_FORMAT):
                raise self._unknown from None
            raise DataError(f"source {self.name}: Spark cannot read it ({str(error).partition(chr(10))[0]})") from None

    def _piece_of_contents(self, spark: SparkSession) -> FramePiece:
        """Text files that only Spark can open: it hands whole files to tasks."""
        files = spark.read.format("binaryFile").options(**self.options).load(self.path).select("path", "content")
        return FramePiece(files, partial(read_contents, source=self))

    def _paths(self) -> list[str]:
        found = sorted(glob.glob(absolute_path(self.path), recursive=True))
        files = [
            str(part)
            for path in map(Path, found)
            for part in (sorted(path.iterdir()) if path.is_dir() else [path])
            if not part.name.startswith((".", "_"))
        ]
        if not files:
            raise DataError(f"source {self.name}: no file matches; check the path")
        return files

    def _pieces_of_parquet(self, spark: SparkSession, paths: Sequence[str]) -> list[Piece | FramePiece]:
        found: list[Piece | FramePiece] = []
        converted: dict[frozenset[str], list[str]] = {}
        for path in paths:
            try:
                with pq.ParquetFile(path) as file:
                    metadata, schema = file.metadata, with_spark_kinds(file.schema_arrow)
            except (OSError, pa.ArrowException) as error:
                reason = f"{path}: not a readable Parquet file ({error}); write it again"
                found.append(Piece(partial(_rejected, path, reason), 0))
                continue
            marks = {field.name: (field.metadata or {}).get(KIND_KEY) for field in schema}
            if list(marks.values()) == [NULLARY_KIND]:
                found.append(Piece(partial(_read_unit, path, metadata.num_rows, self._named), 0))
                continue
            marked = frozenset(name for name, mark in marks.items() if mark == CONSTANT_KIND)
            names = self._chosen(schema.names)
            if self._is_plain(schema, names):
                found += self._row_groups(path, metadata, names, marked)
            else:
                converted.setdefault(marked, []).append(path)
        for marked, alike in converted.items():
            row = (F.col("_metadata.row_index") + 1).cast("bigint")
            place = F.col("_metadata.file_path").alias("source"), row.alias("row")
            found.append(self._piece_of_frame(spark.read.parquet(*alike), place, marked))
        return found

    def _is_plain(self, schema: pa.Schema, names: Sequence[str]) -> bool:
        """Whether facts can have the columns of a file as they are."""
        types = self._types(names)
        kinds = [_KIND_OF_ARROW.get(schema.field(name).type) for name in names]
        return all(
            kind is not None and type_ in ("auto", *(t for t, k in KIND_OF_TYPE.items() if k == kind))
            for kind, type_ in zip(kinds, types, strict=True)
        )

    def _row_groups(
        self, path: str, metadata: pq.FileMetaData, names: Sequence[str], marked: frozenset[str]
    ) -> Iterator[Piece]:
        kinds = [CONSTANTS if self._holds_constants(name, marked) else STR for name in names]
        first = 1
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group)
            yield Piece(partial(_read_group, path, group, first, names, kinds, self._named), rows.total_byte_size)
            first += rows.num_rows

    def _holds_constants(self, name: str, marked: Collection[str]) -> bool:
        """Whether a column is marked as one of constants as text, and nobody asks for another type."""
        return name in marked and self.types is None

    def _piece_of_frame(
        self, frame: DataFrame, place: Sequence[Column] = (), marked: frozenset[str] = frozenset()
    ) -> FramePiece:
        """The cells that fit as columns of plain types; the `source` and the `row` if they differ from row to row.

        If types are asked for, there is the reason for each row in which a cell does not fit. All that a row has
        besides its cells would take longer to bring to a task than they do."""
        names = self._chosen(frame.columns)
        marks = {field.name: field.metadata.get(KIND_KEY.decode()) for field in frame.schema.fields}
        if list(marks.values()) == [NULLARY_KIND.decode()]:
            return FramePiece(frame.select(F.lit(0).alias("unit")), _FrameReader(self._named, self.name, [], []).read)
        marked |= {name for name, mark in marks.items() if mark == CONSTANT_KIND.decode()}
        typed = list(zip(names, self._types(names), strict=True))
        cells = [self._cell(name, frame.schema[name].dataType, type_) for name, type_ in typed]
        cells = [
            (CONSTANTS if self._holds_constants(name, marked) else kind, cell)
            for name, (kind, cell) in zip(names, cells, strict=True)
        ]
        reasons = [_reason(name, cell, type_) for (name, type_), (_, cell) in zip(typed, cells, strict=True)]
        asked = any(type_ != "auto" for _, type_ in typed)
        laid_out = frame.select(
            *(cell.alias(f"a{number}") for number, (_, cell) in enumerate(cells)),
            *([F.coalesce(*reasons).cast("string").alias("reason")] if asked else ()),
            # Without any column, batches would lose their rows.
            *(place if cells or place else (F.lit(0).alias("unit"),)),
        )
        reader = _FrameReader(self._named, self.name, names, [kind for kind, _ in cells])
        return FramePiece(laid_out, reader.read)

    def _types(self, names: Sequence[str]) -> Sequence[str]:
        types = self.types or ("auto",) * len(names)
        if len(types) != len(names):
            raise DataError(f"source {self.name}: {len(names)} columns, but {len(types)} types")
        return types

    def _chosen(self, known: Sequence[str]) -> list[str]:
        """The names of the columns that are wanted."""
        if self.columns is None:
            return list(known)
        names = [known[wanted] if isinstance(wanted, int) else wanted for wanted in self.columns]
        missing = [name for name in names if name not in known]
        if missing:
            raise DataError(f"source {self.name}: no column is named {missing[0]}; there are {', '.join(known)}")
        return names

    def _cell(self, name: str, spark_type: T.DataType, type_: str) -> tuple[int, Column]:
        """The kind of a column, and its value, null if it does not fit."""
        column = F.col(quoted(name))
        if type_ == "auto":
            kind = kind_of_spark_type(spark_type, f"source {self.name}, column {name}")
            return kind, column.cast(_SPARK_TYPES[kind])
        kind = KIND_OF_TYPE[type_]
        if isinstance(spark_type, T.StringType):
            return kind, _from_text(column, type_)
        if type_ == "int" and isinstance(spark_type, T.FractionalType):
            whole = column.try_cast("bigint")
            return kind, F.when(whole == column, whole)
        return kind, column.try_cast(_SPARK_TYPES[kind])


CONSTANTS = -1
"""Stands for the kind of a column that holds constants as text."""

_SPARK_TYPES = {STR: "string", INT: "bigint", FLOAT: "double", BOOL: "boolean", IRI_KIND: "string"}
_KIND_OF_ARROW = {
    pa.string(): STR,
    pa.large_string(): STR,
    pa.int8(): INT,
    pa.int16(): INT,
    pa.int32(): INT,
    pa.int64(): INT,
    pa.float32(): FLOAT,
    pa.float64(): FLOAT,
    pa.bool_(): BOOL,
}
_KINDS_OF_TYPES: dict[int, tuple[type[T.DataType], ...]] = {
    STR: (T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType),
    INT: (T.IntegralType,),
    FLOAT: (T.FractionalType,),
    BOOL: (T.BooleanType,),
}


def kind_of_spark_type(type_: T.DataType, place: str) -> int:
    """The kind of the constants of a Spark type; raises for one that facts cannot hold."""
    for kind, fitting in _KINDS_OF_TYPES.items():
        if isinstance(type_, fitting):
            return kind
    raise DataError(
        f"{place}: facts cannot hold values of type {type_.simpleString()}; cast the column, or leave it out"
    )


def quoted(name: str) -> str:
    """The name of a column as Spark reads it, whatever it consists of."""
    return "`" + name.replace("`", "``") + "`"


def _reason(name: str, cell: Column, type_: str) -> Column:
    """Why the value of a column is missing; null if it is not."""
    column = F.col(quoted(name))
    return F.when(column.isNull(), F.lit(_NULL.format(name))).when(
        cell.isNull(), F.concat(F.lit(f"column {name}: "), column.cast("string"), F.lit(f" is no {type_}"))
    )


def _from_text(column: Column, type_: str) -> Column:
    """Text as a type, by the same patterns as in files."""
    kind = KIND_OF_TYPE[type_]
    if type_ not in PATTERN_OF_TYPE:
        return column
    fits = column.rlike(f"^(?:{PATTERN_OF_TYPE[type_]})$")
    value = column.try_cast(_SPARK_TYPES[kind])
    if kind == IRI_KIND:
        value = F.regexp_replace(column, r"^<(.*)>$", "$1")
    if kind == FLOAT:  # a number that is too large is not an infinity
        fits &= (F.abs(value) != F.lit(math.inf)) | column.endswith("inf")
    return F.when(fits, value)


def _size(path: str) -> int:
    """The size of a file; if it has vanished, whoever reads it will say so."""
    return os.path.getsize(path) if os.path.exists(path) else 0


# ── in tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rejected(path: str, reason: str) -> Iterator[Found]:
    yield Rejected(path, [None], [reason])


def _read_unit(path: str, rows: int, predicate: str) -> Iterator[Found]:
    """The fact of a predicate without arguments, if there is one."""
    if rows:
        yield Facts(FactBatch(predicate, [], path, 1), [1])


def _read_group(
    path: str, group: int, first: int, names: Sequence[str], kinds: Sequence[int], predicate: str
) -> Iterator[Found]:
    """The facts of a row group of a Parquet file, whose first row has this number."""
    try:
        with pq.ParquetFile(path, read_dictionary=list(names)) as file:
            table = file.read_row_group(group, list(dict.fromkeys(names)))
        columns = [_one_array(table.column(name)) for name in names]
        for column in columns:
            check_sound(column)
    except (OSError, pa.ArrowException, DataError) as error:
        yield Rejected(path, [None], [f"{path}: not a readable Parquet file ({error}); write it again"])
        return
    reasons = _null_reasons(names, columns, table.num_rows)
    rows = np.arange(first, first + table.num_rows)
    yield from _sifted(predicate, path, rows, columns, reasons, kinds)


def _null_reasons(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """For each row the first column that has no value there; null where all have one."""
    reasons = pa.nulls(rows, pa.string())
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            reasons = pc.coalesce(reasons, pc.if_else(column.is_null(), _NULL.format(name), None))
    return reasons


@dataclass(frozen=True)
class _FrameReader:
    """Reads the rows of a frame that `_piece_of_frame` has laid out."""

    predicate: str
    source: str
    names: Sequence[str]
    kinds: Sequence[int]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Found]:
        for batch in batches:
            if "source" not in batch.schema.names:
                yield from self._facts(batch, self.source, [None] * batch.num_rows)
                continue
            sources = batch.column("source").dictionary_encode()
            for number, source in enumerate(sources.dictionary.to_pylist()):
                own = batch if len(sources.dictionary) == 1 else batch.filter(pc.equal(sources.indices, number))
                yield from self._facts(own, source, own.column("row").to_numpy())

    def _facts(self, batch: pa.RecordBatch, source: str, rows: Any) -> Iterator[Found]:
        cells = batch.columns[: len(self.kinds)]
        if "reason" in batch.schema.names:
            reasons = batch.column("reason")
        else:
            reasons = _null_reasons(self.names, cells, batch.num_rows)
        yield from _sifted(self.predicate, source, rows, cells, reasons, self.kinds)


def _of_kind(column: pa.Array, kind: int) -> pa.Array:
    """A column of plain values as constants of a kind."""
    if kind == CONSTANTS:
        if not pa.types.is_dictionary(column.type):
            return parse_constants(column.cast(pa.string()))
        return parse_constants(column.dictionary.cast(pa.string())).take(column.indices)
    if kind != IRI_KIND:
        return column
    return column_of_kinds(np.full(len(column), kind, np.int8), lambda _, __: column)


def _sifted(
    predicate: str, source: str, rows: Any, columns: Sequence[pa.Array], reasons: pa.Array, kinds: Sequence[int]
) -> Iterator[Found]:
    """Facts of columns of these kinds, apart from the rows that have a reason not to be."""
    bad = np.flatnonzero(reasons.is_valid().to_numpy(zero_copy_only=False))
    if bad.size:
        fine = pa.array(np.delete(np.arange(len(reasons)), bad))
        yield Rejected(source, [_number(rows[row]) for row in bad], reasons.take(pa.array(bad)).to_pylist())
        rows = [rows[row] for row in fine.to_pylist()]
        columns = [column.take(fine) for column in columns]
    try:
        columns = [_of_kind(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    except CellError as error:
        yield Rejected(source, [None], [f"{source}: not a file of constants ({error}); write it again"])
        return
    if len(rows):
        yield Facts(FactBatch(predicate, columns, source, 1), rows)


def _number(row: Any) -> int | None:
    return None if row is None else int(row)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, with offsets of 64 bits if its text needs them."""
    if pa.types.is_string(column.type) and column.nbytes >= 1 << 31:
        column = column.cast(pa.large_string())
    chunks = column.unify_dictionaries().chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
