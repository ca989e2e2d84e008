"""Records: facts on their way in, as rows with their predicate, their values and the place where they were read.

All sources become frames of records. A record with a `reason` is not a fact but a row that does not fit, to be
quarantined or reported. Executors read files with the readers of `tidelog.formats`, one file in each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import TidelogError
from tidelog.formats.batch import BOOL, FLOAT, INT, FactBatch, Part, column_of_kinds, join_parts, parts
from tidelog.formats.folder import read_file
from tidelog.language.syntax import Atom, Constant
from tidelog.spark.data.dictionary import ARROW_VALUE, FIELDS, VALUE_TYPE, fields_of

RECORD_TYPE = f"predicate string, arguments array<{VALUE_TYPE}>, source string, row bigint, reason string"
ARROW_RECORD = pa.schema(
    [
        ("predicate", pa.string()),
        ("arguments", pa.list_(ARROW_VALUE)),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
    ]
)


def records_of_atoms(spark: SparkSession, atoms: Iterable[Atom], source: str) -> DataFrame:
    """The facts of a program's text."""
    rows = [
        {
            "predicate": atom.predicate,
            "arguments": [
                dict(zip(FIELDS, fields_of(term.value), strict=True))
                for term in atom.arguments
                if isinstance(term, Constant)
            ],
            "source": source,
            "row": atom.place.line if atom.place else None,
        }
        for atom in atoms
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, ARROW_RECORD), RECORD_TYPE)


def records_of_files(
    spark: SparkSession, paths: Sequence[str], read: Callable[[str], Iterable[pa.RecordBatch]]
) -> DataFrame:
    """The records that a function reads from files, in a task for each file."""
    listed = spark.createDataFrame(pa.table({"path": pa.array(paths, pa.string())}), "path string")

    def read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from read(path)

    return listed.repartition(len(paths)).mapInArrow(read_all, RECORD_TYPE)


def read_whole_file(
    path: str, header: bool = False, types: Mapping[str, Sequence[str]] | None = None
) -> Iterator[pa.RecordBatch]:
    """The facts of a file, under the name of its predicate; if it cannot be read, a last record says why. `types` are
    those of the columns of CSV and TSV files, by path.
    """
    try:
        for batch in read_file(path, header=header, types=(types or {}).get(path)):
            yield record_batch(batch)
    except TidelogError as error:
        yield rejected(path, [None], [str(error)])


def record_batch(batch: FactBatch, rows: Sequence[int] | None = None) -> pa.RecordBatch:
    count = batch.rows
    numbers = pa.array(range(batch.first_line, batch.first_line + count) if rows is None else rows, pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(batch.predicate, count),
            _lists([structs_of_column(column) for column in batch.columns], count),
            pa.repeat(batch.source, count),
            numbers,
            pa.nulls(count, pa.string()),
        ],
        schema=ARROW_RECORD,
    )


def rejected(source: str, rows: Sequence[int | None], reasons: Sequence[str]) -> pa.RecordBatch:
    """Records of rows that do not fit."""
    found = [{"source": source, "row": row, "reason": reason} for row, reason in zip(rows, reasons, strict=True)]
    return pa.RecordBatch.from_pylist(found, ARROW_RECORD)


def structs_of_column(column: pa.Array) -> pa.Array:
    """A column of facts as structs."""
    found = parts(column)
    return join_parts(found, [_structs(part) for part in found])


def _structs(part: Part) -> pa.Array:
    count = len(part.values)
    kinds = pa.array(np.full(count, part.kind, np.int8))
    text, integer, number = (pa.repeat(fixed, count) for fixed in ("", 0, 0.0))
    if part.kind in (INT, BOOL):
        integer = part.values.cast(pa.int64())
    elif part.kind == FLOAT:
        number = pc.add(part.values.cast(pa.float64()), 0.0)
    else:
        text = part.values.cast(pa.string())
    return pa.StructArray.from_arrays([kinds, text, integer, number], fields=list(ARROW_VALUE))


def column_of_structs(structs: pa.StructArray) -> pa.Array:
    """A column of facts from structs."""
    kinds = structs.field("kind").to_numpy(zero_copy_only=False).astype(np.int8)
    integers, numbers, texts = (structs.field(name) for name in ("integer", "number", "text"))

    def of_kind(kind: int, mask: np.ndarray[Any, Any] | None) -> pa.Array:
        values = {INT: integers, BOOL: integers, FLOAT: numbers}.get(kind, texts)
        chosen = values if mask is None else values.filter(pa.array(mask))
        return chosen.cast(pa.bool_()) if kind == BOOL else chosen

    return column_of_kinds(kinds, of_kind)


def _lists(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Columns as one list for each row."""
    arity = len(columns)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * arity)
    if not columns:
        return pa.ListArray.from_arrays(offsets, pa.array([], ARROW_VALUE))
    order = np.arange(rows * arity).reshape(arity, rows).T.ravel()
    return pa.ListArray.from_arrays(offsets, pa.concat_arrays(list(columns)).take(pa.array(order)))
