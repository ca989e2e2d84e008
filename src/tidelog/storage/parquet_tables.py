"""The dictionary and the relations as Parquet files, and back. All that kernels rely on is checked in what is read:
columns and their types, kinds of constants, texts in UTF-8, numbers of constants. Impossible counters are left out, and
derivations are counted again when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.arrow_checks import text_offsets
from tidelog.engine.image import Arrays, Cells, RelationImage
from tidelog.errors import StorageError
from tidelog.machine import term_kinds as K
from tidelog.storage.durable_files import checksum_of, force, reading
from tidelog.values import SEPARATOR

TEXT_KINDS = (K.STRING, K.IRI, K.LITERAL)
NUMBER_KINDS = (K.INTEGER, K.FLOAT, K.BOOLEAN)

# By kind: a lookup in a table costs nothing.
_IS_TEXT, _IS_NUMBER = (np.isin(np.arange(256), kinds) for kinds in (TEXT_KINDS, NUMBER_KINDS))

# Constants, and bytes of a text, are numbered by 32 bits.
_MOST = 2**31 - 1

_TERM_COLUMNS: Mapping[str, pa.DataType] = {"kind": pa.uint8(), "number": pa.int64(), "text": pa.large_string()}
_COUNTERS = ("nonrecursive", "recursive")


# --- files --------------------------------------------------------------------------------------------------------


def write_table(path: Path, table: pa.Table) -> str:
    """Write a table to a new file, force it to disk, and return its checksum."""
    with path.open("xb") as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False)
        force(file)
    with reading(path) as file:
        return checksum_of(file)


def read_table(path: Path, expected: str) -> pa.Table:
    """The table in a file, which must be as it was written."""
    with reading(path) as file:
        if checksum_of(file) != expected:
            raise damaged(path)
        file.seek(0)
        try:
            table = pq.ParquetFile(file).read(use_threads=False)
            table.schema.names  # noqa: B018 (raises where a name is not Unicode)
        except (UnicodeDecodeError, OverflowError, MemoryError) as problem:
            raise _refuse(path, str(problem) or "it takes more memory than there is") from problem
        return table


def damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its checksum is not the one that was saved; restore it from a copy")


def _refuse(path: Path, problem: str) -> StorageError:
    return StorageError(f"{path} cannot be understood: {problem}; restore it from a copy")


def _check_columns(path: Path, table: pa.Table, columns: Mapping[str, pa.DataType]) -> None:
    found = {field.name: field.type for field in table.schema}
    if len(found) != table.num_columns or list(found.items()) != list(columns.items()):
        shown = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        wanted = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise _refuse(path, f"it has the columns {shown:.200}, not {wanted:.200}")
    try:
        table.validate(full=True)
    except pa.ArrowException as problem:
        raise _refuse(path, str(problem)) from None


# --- the dictionary -----------------------------------------------------------------------------------------------


def table_of_terms(terms: Arrays) -> pa.Table:
    """A row for each term from number 1 on: its kind, and its number or text. Texts lie in the heap in that order."""
    kinds, payloads, sizes = (terms[name][1:] for name in ("kinds", "payloads", "sizes"))
    is_text = _IS_TEXT[kinds]
    offsets = np.zeros(len(kinds) + 1, np.int64)
    np.cumsum(np.where(is_text, sizes, 0), out=offsets[1:])
    texts = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(terms["text"]))
    columns = {
        "kind": pa.array(kinds),
        "number": pa.array(np.where(is_text, 0, payloads), mask=is_text),
        "text": pc.if_else(pa.array(is_text), texts, None),
    }
    return pa.table(columns)


def terms_of_table(path: Path, table: pa.Table) -> Arrays:
    _check_columns(path, table, _TERM_COLUMNS)
    _check_terms(path, table)
    texts = pc.fill_null(table["text"], "").combine_chunks()
    offsets = text_offsets(texts) if len(texts) else np.zeros(1, np.int64)
    heap = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    sizes = np.diff(offsets)
    if sizes.max(initial=0) > _MOST:
        raise _refuse(path, "it has a text of more than two billion bytes")
    kinds = table["kind"].to_numpy()
    numbers = pc.fill_null(table["number"], 0).to_numpy()
    payloads = np.where(_IS_TEXT[kinds], offsets[:-1] - offsets[0], numbers)
    return {
        "kinds": np.concatenate((np.array([255], np.uint8), kinds)),
        "payloads": np.concatenate((np.zeros(1, np.int64), payloads)),
        "sizes": np.concatenate((np.zeros(1, np.int32), sizes.astype(np.int32))),
        "text": heap,
    }


def _check_terms(path: Path, table: pa.Table) -> None:
    """Check that each constant is of a known kind, and has what its kind needs."""
    if table.num_rows >= _MOST:
        raise _refuse(path, f"it has {table.num_rows} constants, and there can be at most {_MOST}")
    if table["kind"].null_count:
        raise _refuse(path, "a constant has no kind")
    kinds = table["kind"].to_numpy()
    is_text, is_number = _IS_TEXT[kinds], _IS_NUMBER[kinds]
    for fits, problem in (
        (is_text | is_number, "a constant of an unknown kind"),
        (_is_there(table["text"]) == is_text, "a text without characters, or a number with some"),
        (_is_there(table["number"]) == is_number, "a number without a value, or a text with one"),
    ):
        if not fits.all():
            raise _refuse(path, f"row {int(np.argmin(fits))} is {problem}")
    numbers = pc.fill_null(table["number"], 0).to_numpy()
    _check_numbers(path, kinds, numbers)
    literals = table["text"].filter(pa.array(kinds == K.LITERAL))
    if pc.any(pc.less(pc.count_substring(literals, SEPARATOR), 2)).as_py():
        raise _refuse(path, "a literal has no datatype and language")


def _is_there(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_valid(column).to_numpy()
    return found


def _check_numbers(path: Path, kinds: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64]) -> None:
    truths = numbers[kinds == K.BOOLEAN]
    if ((truths != 0) & (truths != 1)).any():
        raise _refuse(path, "a boolean is neither true nor false")
    bits = numbers[kinds == K.FLOAT]
    floats = bits.view(np.float64)
    # There is one zero and one NaN: equal constants have the same number.
    usual = np.where(floats == 0.0, 0.0, np.where(np.isnan(floats), np.nan, floats))
    if (usual.view(np.int64) != bits).any():
        raise _refuse(path, "a float is a zero or NaN other than the canonical one")


# --- relations ----------------------------------------------------------------------------------------------------


def table_of_relation(relation: RelationImage) -> pa.Table:
    columns: dict[str, Any] = {
        f"c{place}": np.ascontiguousarray(relation.rows[:, place]) for place in range(relation.arity)
    }
    columns["explicit"] = relation.explicit
    if relation.counters is not None:
        columns.update(zip(_COUNTERS, np.ascontiguousarray(relation.counters.T), strict=True))
    return pa.table(columns)


def relation_of_table(path: Path, name: str, arity: int, term_count: int, table: pa.Table) -> RelationImage:
    """A relation whose facts hold constants of a dictionary of the given size."""
    columns = {f"c{place}": pa.int32() for place in range(min(arity, table.num_columns))}
    columns["explicit"] = pa.bool_()
    counted = _COUNTERS[1] in table.column_names
    if counted:
        columns.update(dict.fromkeys(_COUNTERS, pa.int32()))
    if arity != len(columns) - (3 if counted else 1):
        raise _refuse(path, f"`{name}` has {arity} arguments, and the file {table.num_columns} columns")
    _check_columns(path, table, columns)
    if any(column.null_count for column in table.columns):
        raise _refuse(path, f"`{name}` has an empty cell")
    rows = np.empty((table.num_rows, arity), np.int32)
    for place in range(arity):
        rows[:, place] = table[f"c{place}"].to_numpy()
    if rows.size and not (rows.min() > 0 and rows.max() < term_count):
        raise _refuse(path, f"`{name}` holds a constant that the dictionary does not have")
    return RelationImage(name, rows, table["explicit"].to_numpy(), _counters_of(table) if counted else None)


def _counters_of(table: pa.Table) -> Cells | None:
    """The counters of all facts; none at all where one of them is impossible."""
    counters: Cells = np.stack([table[column].to_numpy() for column in _COUNTERS], axis=1)
    return counters if counters.min(initial=0) >= 0 else None
