"""Parquet files, in and out.

Columns of one native kind keep their type. A column of IRIs, literals or mixed kinds is written as strings, each a
constant as text, and the metadata of its field says so (`tidelog:kind` = `constant`): reading restores it exactly.
The fact of a predicate of arity 0 is a file of one row whose only field is marked `nullary`, since Parquet has no rows
without columns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import ARROW_TYPES, BATCH_ROWS, IRI_KIND, FactBatch, kinds_in, parts, slices
from tidelog.formats.columns.tables import CONSTANT_KIND, KIND_KEY, NULLARY_KIND, columns_of_table
from tidelog.formats.files.byte_files import OnBytes, data_error, ignore_bytes, io_errors, size_of_regular
from tidelog.formats.files.rendering import CONSTANT_RENDERERS, Columns, render

_LONG_TEXT = 1 << 16
_BATCH_BYTES = 128 << 20
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_NULLARY_FIELD = pa.field("holds", pa.bool_(), metadata={KIND_KEY: NULLARY_KIND})


def read_parquet(path: Path, predicate: str, on_bytes: OnBytes = ignore_bytes) -> Iterator[FactBatch]:
    """The facts of a Parquet file, in batches; the first row has number 1."""
    with io_errors(str(path)):
        size = size_of_regular(path)
        try:
            longest = _longest_texts(path)
            # Repeated in each row, a few long strings could fill the memory: they stay in dictionaries.
            kept = [name for name, size in longest.items() if size > _LONG_TEXT]
            with pq.ParquetFile(path, read_dictionary=kept) as file:
                rows, row, schema = file.metadata.num_rows, 1, with_spark_kinds(file.schema_arrow)
                spelt = (size for name, size in longest.items() if name not in kept)
                for batch in file.iter_batches(_rows_at_once(file.metadata, spelt)):
                    source = f"{path} from row {row}"
                    columns = columns_of_table(pa.Table.from_batches([batch], schema), source)
                    on_bytes(size * batch.num_rows // rows)
                    if columns is not None:
                        yield FactBatch(predicate, columns, str(path), row)
                    row += batch.num_rows
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise data_error(str(path), None, f"not a readable Parquet file ({error}); write it again") from None


def _longest_texts(path: Path) -> dict[str, int]:
    """For each column of strings, the size of the longest one in any of its dictionaries, or of a first value where it
    has none. Only values are used: the statistics of a damaged file crash Arrow.
    """
    with pq.ParquetFile(path) as file:
        is_text = (pa.types.is_string, pa.types.is_large_string)
        texts = [field.name for field in file.schema_arrow if any(check(field.type) for check in is_text)]
    longest = dict.fromkeys(texts, 0)
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for group in range(file.metadata.num_row_groups if texts else 0):
            for batch in islice(file.iter_batches(1, [group], texts), 1):
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    values = column.dictionary if pa.types.is_dictionary(column.type) else column
                    longest[name] = max(longest[name], pc.max(pc.binary_length(values)).as_py() or 0)
    return longest


def _rows_at_once(metadata: pq.FileMetaData, longest: Iterable[int]) -> int:
    """As many rows as fit into a batch of bounded size."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    sizes = [group.total_byte_size // max(group.num_rows, 1) for group in groups]
    return max(1, min(BATCH_ROWS, _BATCH_BYTES // max([1, *sizes, *longest])))


def with_spark_kinds(schema: pa.Schema) -> pa.Schema:
    """A schema with the kinds of its columns, for files by Spark: it keeps the metadata of fields elsewhere."""
    try:
        written = json.loads((schema.metadata or {}).get(_SPARK_SCHEMA, b"{}"))
        for number, field in enumerate(written.get("fields", ())):
            kind = field.get("metadata", {}).get(KIND_KEY.decode())
            if kind is not None:
                schema = schema.set(number, schema.field(number).with_metadata({KIND_KEY: kind.encode()}))
    except (ValueError, AttributeError, TypeError, IndexError, RecursionError):
        raise pa.ArrowInvalid("what Spark says of its columns cannot be read") from None
    return schema


def write_parquet(file: IO[bytes], batches: Iterable[Columns], constants: Collection[int] = ()) -> None:
    """Write the columns of all batches; the kinds in all of them decide the type of a column, but columns with these
    numbers hold constants as text."""
    held = list(batches)
    if held and not held[0]:
        table = pa.table([pa.array([True])], schema=pa.schema([_NULLARY_FIELD]))
        pq.write_table(table, file)
        return
    arity = len(held[0]) if held else 0
    types = [
        None if number in constants else _native_type([columns[number] for columns in held]) for number in range(arity)
    ]
    schema = _schema(types)
    with pq.ParquetWriter(file, schema) as writer:
        for columns in held:
            for piece in slices(columns):
                arrays = [_written(column, type_) for column, type_ in zip(piece, types, strict=True)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def write_empty_parquet(file: IO[bytes], arity: int) -> None:
    """Write a file for a predicate without facts."""
    schema = _schema([None] * arity) if arity else pa.schema([_NULLARY_FIELD])
    pq.write_table(schema.empty_table(), file)


def _schema(types: Sequence[pa.DataType | None]) -> pa.Schema:
    """Columns of these types; those without one hold constants as text."""
    constants = {KIND_KEY: CONSTANT_KIND}
    return pa.schema(
        pa.field(f"c{number}", type_) if type_ else pa.field(f"c{number}", pa.string(), metadata=constants)
        for number, type_ in enumerate(types)
    )


def _native_type(pieces: Iterable[pa.Array]) -> pa.DataType | None:
    """The Arrow type of a column of one native kind; None for any other."""
    kinds = {kind for piece in pieces for kind in kinds_in(piece)}
    return ARROW_TYPES[kinds.pop()] if len(kinds) == 1 and max(kinds) < IRI_KIND else None


def _written(column: pa.Array, type_: pa.DataType | None) -> pa.Array:
    if type_ is None:
        return render(column, CONSTANT_RENDERERS).cast(pa.string())
    return parts(column)[0].values.cast(type_)
