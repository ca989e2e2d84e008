"""Tables of snapshots that earlier versions of tidelog wrote, as Parquet. They are read, and written no more.

What is special about Parquet is checked here: types, nulls, and whether Arrow finds a table sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.arrow_checks import text_offsets
from tidelog.errors import StorageError
from tidelog.storage import durable_files as disk
from tidelog.storage.array_files import Arrays, damaged, refused
from tidelog.storage.term_columns import IS_TEXT, check_kinds

_TERMS: Mapping[str, pa.DataType] = {"kind": pa.uint8(), "number": pa.int64(), "text": pa.large_string()}


def read_parquet(path: Path, expected: str, are_terms: bool) -> Arrays:
    """The columns in a file, those of the dictionary or of a relation. It must be as it was written."""
    table = _table(path, expected)
    return _term_arrays(path, table) if are_terms else _relation_arrays(path, table)


def _table(path: Path, expected: str) -> pa.Table:
    with disk.reading(path) as file:
        if disk.checksum_of(file) != expected:
            raise damaged(path)
        file.seek(0)
        try:
            table = pq.ParquetFile(file).read(use_threads=False)
            table.schema.names  # noqa: B018 (raises where a name is not Unicode)
            table.validate(full=True)
        except (UnicodeDecodeError, OverflowError, MemoryError) as problem:
            raise refused(path, str(problem) or "it takes more memory than there is") from problem
        except pa.ArrowException as problem:
            raise StorageError(f"cannot read {path}: {problem}") from problem
        if len(set(table.column_names)) < table.num_columns:
            raise refused(path, "it has two columns of one name")
        return table


def _relation_arrays(path: Path, table: pa.Table) -> Arrays:
    """The columns of a relation."""
    if any(column.null_count for column in table.columns):
        raise refused(path, "there is an empty cell")
    return {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}


def _term_arrays(path: Path, table: pa.Table) -> Arrays:
    """The columns of the dictionary. In Parquet a text has no number, and a number no text."""
    found = {field.name: field.type for field in table.schema}
    if list(found.items()) != list(_TERMS.items()):
        raise refused(path, f"it has the columns {', '.join(map(str, table.schema)):.200}")
    if table["kind"].null_count:
        raise refused(path, "a constant has no kind")
    kinds = table["kind"].to_numpy()
    check_kinds(path, kinds)
    is_text = IS_TEXT[kinds]
    for column, fits, problem in (
        ("text", is_text, "a text without characters, or a number with some"),
        ("number", ~is_text, "a number without a value, or a text with one"),
    ):
        wrong = pc.is_valid(table[column]).to_numpy() != fits
        if wrong.any():
            raise refused(path, f"row {int(np.argmax(wrong))} is {problem}")
    texts = pc.fill_null(table["text"], "").combine_chunks()
    offsets = text_offsets(texts) if len(texts) else np.zeros(1, np.int64)
    sizes = np.diff(offsets)
    if sizes.max(initial=0) > np.iinfo(np.int32).max:
        raise refused(path, "it has a text of more than two billion bytes")
    return {
        "kind": kinds,
        "number": pc.fill_null(table["number"], 0).to_numpy(),
        "size": sizes.astype(np.int32),
        "text": np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]],
    }
