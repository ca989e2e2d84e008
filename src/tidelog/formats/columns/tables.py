"""Columns of facts from tables of all sorts: pandas and Polars DataFrames, Arrow, NumPy arrays, iterables of rows.

Arrow data is not copied where its types allow. Python values are checked one by one, and a value that no fact can hold
is reported with its row and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.arrow_checks import check_sound
from tidelog.errors import DataError
from tidelog.formats import batch
from tidelog.formats.batch import ARROW_TYPES, KIND_OF_TYPE, KINDS, TO_ARROW
from tidelog.formats.columns.cells import CellError, parse_constants
from tidelog.formats.columns.rows import Where, check_rows, rows_of
from tidelog.values import INTEGER_MAX, INTEGER_MIN, Literal, Record, Value, canonical, in_microseconds, literal_of

# The metadata of an Arrow field: its strings are constants as text, or it stands for the fact of arity 0.
KIND_KEY = b"tidelog:kind"
CONSTANT_KIND = b"constant"
NULLARY_KIND = b"nullary"


def columns_of(rows: Any, predicate: str) -> list[pa.Array] | None:
    """The columns of a table or of an iterable of rows. None: there are no rows; []: the one fact of arity 0."""
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "iloc") and hasattr(rows, "columns"):
        return _columns_of_pandas(rows, predicate)
    if type(rows).__module__.partition(".")[0] == "polars" and "Object" in map(str, getattr(rows, "dtypes", ())):
        rows = rows.rows()  # Arrow has no Python objects, such as the literals and records that `to_polars` gives.
    if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.RecordBatch):
        return columns_of_table(_arrow_table(rows, predicate), predicate)
    if isinstance(rows, np.ndarray):
        return _columns_of_numpy(rows, predicate)
    return columns_of_rows(rows_of(rows, predicate), lambda row: f"{predicate}, row {row + 1}")


def columns_of_rows(rows: Sequence[Any], where: Where) -> list[pa.Array] | None:
    """The columns of tuples or lists."""
    if not rows:
        return None
    arity = check_rows(rows, where)
    return [column_of_values([row[number] for row in rows], where, number) for number in range(arity)]


def column_of_values(values: Sequence[Any], where: Where, number: int) -> pa.Array:
    """A column of Python values; `number` is that of the column, from 0."""
    if not set(map(type, values)) <= KIND_OF_TYPE.keys():
        values = [_plain_value(value, where, row, number) for row, value in enumerate(values)]
    if Literal in map(type, values):
        values = list(map(canonical, values))
    kinds = np.fromiter((KIND_OF_TYPE[type(value)] for value in values), np.int8, len(values))

    def of_kind(kind: int, mask: np.ndarray[Any, Any] | None) -> pa.Array:
        chosen = values if mask is None else [values[row] for row in np.flatnonzero(mask).tolist()]
        convert = TO_ARROW.get(kind)
        return _one_array(pa.array([convert(value) for value in chosen] if convert else chosen, ARROW_TYPES[kind]))

    try:
        return batch.column_of_kinds(kinds, of_kind)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid, DataError):
        for row, value in enumerate(values):
            _check_value(value, f"{where(row)}, column {number + 1}")
        raise


def _plain_value(value: Any, where: Where, row: int, number: int) -> Value:
    """A value as one of the types that facts hold: NumPy scalars and values of subclasses are converted."""
    is_moment = isinstance(value, np.datetime64 | np.timedelta64)
    if isinstance(value, np.generic) and not is_moment:
        value = value.item()
    if type(value) in KIND_OF_TYPE:
        return value
    try:
        literal = literal_of(in_microseconds(value) if is_moment else value)
    except DataError as problem:
        raise DataError(f"{where(row)}, column {number + 1}: {problem}") from None
    if literal is not None:
        return literal
    if isinstance(value, tuple):
        return _record(value, f"{where(row)}, column {number + 1}")
    if isinstance(value, str):
        return str.__str__(value)  # str() of a member of an enumeration is its name.
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    place = f"{where(row)}, column {number + 1}"
    if value is None:
        raise DataError(f"{place}: a missing value; facts have no nulls: leave the row out, or choose a value")
    name = type(value).__name__
    raise DataError(f"{place}: a fact cannot hold a value of type {name}; use str, int, float, bool or tidelog.IRI")


def _record(value: tuple[Any, ...], place: str) -> Record:
    try:
        return Record(*value)
    except DataError as problem:
        raise DataError(f"{place}: {problem}") from None


def _check_value(value: Value, place: str) -> None:
    """Say what is wrong with a value that Arrow refused."""
    if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise DataError(f"{place}: the integer {value:.3g} needs more than 64 bits; keep it as a string")
    texts = (value.text, value.datatype, value.language) if isinstance(value, Literal) else (str(value),)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise DataError(f"{place}: {texts[0]!r:.60} holds half a surrogate pair, which is no Unicode text") from None
    if isinstance(value, Literal):
        try:
            batch.literal_text(value)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None


def _one_array(array: Any) -> pa.Array:
    """One array where Arrow made several, because the text of a column exceeds what 32-bit offsets can address."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    if pa.types.is_string(array.type) and sum(chunk.nbytes for chunk in array.chunks) >= 1 << 31:
        array = array.cast(pa.large_string())
    return pa.concat_arrays(array.unify_dictionaries().chunks) if array.num_chunks else pa.array([], array.type)


def _columns_of_pandas(frame: Any, predicate: str) -> list[pa.Array] | None:
    if not len(frame):
        return None
    columns = []
    for number in range(frame.shape[1]):
        series = frame.iloc[:, number]
        if series.dtype == object:
            columns.append(column_of_values(series.tolist(), lambda row: f"{predicate}, row {row + 1}", number))
        else:
            columns.append(_foreign_column(series, f"{predicate}, column {series.name!r}"))
    return columns


def _columns_of_numpy(array: np.ndarray[Any, Any], predicate: str) -> list[pa.Array] | None:
    if array.ndim != 2:
        raise DataError(f"{predicate}: an array of {array.ndim} dimensions; give one with two, a fact per row")
    if array.dtype == object or _has_nul_within(array):
        return columns_of_rows(array.tolist(), lambda row: f"{predicate}, row {row + 1}")
    if not len(array):
        return None
    if np.ma.is_masked(array):
        raise DataError(f"{predicate}: an array with masked values; facts have no nulls: leave these rows out")
    columns = (np.ascontiguousarray(array[:, number]) for number in range(array.shape[1]))
    return [_foreign_column(column, f"{predicate}, column {number + 1}") for number, column in enumerate(columns)]


def _has_nul_within(array: np.ndarray[Any, Any]) -> bool:
    """Whether a text holds NUL before its end: NumPy pads texts with NUL, and Arrow would cut it there."""
    if array.dtype.kind != "U" or not array.size:
        return False
    characters = np.ascontiguousarray(array).view(np.uint32).reshape(array.size, -1)
    return bool(((characters[:, :-1] == 0) & (characters[:, 1:] != 0)).any())


def _foreign_column(values: Any, place: str) -> pa.Array:
    """A column of pandas or NumPy; in pandas, NaN is a missing value."""
    try:
        array = pa.array(values, from_pandas=not isinstance(values, np.ndarray))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{place}: Arrow has no such values ({error}); cast them to strings or numbers first") from None
    return fact_column(_sound_array(array, place), place)


def _arrow_table(rows: Any, predicate: str) -> pa.Table:
    """An Arrow table. One that is an Arrow table already stays as it is: the interface between libraries does not pass
    the sizes of buffers, which are needed to check offsets.
    """
    try:
        match rows:
            case pa.Table():
                return rows
            case pa.RecordBatch():
                return pa.Table.from_batches([rows])
            case pa.RecordBatchReader():
                return rows.read_all()
        return pa.table(rows)
    except Exception as error:  # whatever the exporting library raises
        raise DataError(f"{predicate}: the table cannot be turned into Arrow ({error})") from None


def columns_of_table(table: pa.Table, source: str) -> list[pa.Array] | None:
    """The columns of an Arrow table, with the kinds that the metadata of its fields gives."""
    try:
        table.validate()
        names = table.schema.names
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise DataError(f"{source}: the table is damaged ({error})") from None
    if not table.num_rows:
        return None
    if names and _kind(table.schema.field(0)) == NULLARY_KIND:
        return []
    return [
        _restored_column(column, field, f"{source}, column {name!r}")
        for column, field, name in zip(table.columns, table.schema, names, strict=True)
    ]


def _sound_array(array: pa.Array | pa.ChunkedArray, place: str) -> pa.Array:
    """Foreign data as one array, checked before anything is done with it."""
    try:
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
            check_sound(chunk)
        return _one_array(array)
    except (DataError, pa.ArrowException) as error:
        raise DataError(f"{place}: {error}") from None


def _kind(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(KIND_KEY)


def _restored_column(values: pa.ChunkedArray, field: pa.Field, place: str) -> pa.Array:
    """A column from an Arrow field: constants as text are parsed, native types checked."""
    array = _sound_array(values, place)
    try:
        column = fact_column(array, place)
        if _kind(field) != CONSTANT_KIND:
            return column
        if not _is_kind(column.type, batch.STR):
            raise DataError(f"{place}: constants as text are strings, not {column.type}; write the file again")
        try:
            return parse_constants(column.cast(pa.string()))
        except CellError as error:
            raise DataError(f"{place}, row {error.row + 1}: {error}") from None
        except pa.ArrowInvalid as error:
            raise DataError(f"{place}: {error}") from None
    except pa.ArrowException as error:  # such as a type for which Arrow has no function
        raise DataError(f"{place}: values of type {values.type} cannot be read: {error}") from None


def fact_column(array: pa.Array, place: str) -> pa.Array:
    """An Arrow array as a column of facts, without a copy where its type allows."""
    _refuse_nulls(array, place)
    type_ = array.type
    if pa.types.is_union(type_):
        _check_union(array, place)
        return array.take(pa.array(np.arange(len(array)))) if array.offset else array
    if pa.types.is_dictionary(type_) and _native_type(type_.value_type) not in (pa.string(), pa.large_string()):
        return fact_column(array.dictionary_decode(), place)
    if pa.types.is_temporal(type_) or pa.types.is_decimal(type_):
        return column_of_values(array.to_pylist(), lambda row: f"{place}, row {row + 1}", 0)
    native = _native_type(type_)
    if native is None:
        raise DataError(f"{place}: facts cannot hold values of type {type_}; cast them to strings or numbers first")
    try:
        return array if native == type_ else array.cast(native)
    except pa.ArrowInvalid as error:
        raise DataError(f"{place}: {error}; keep integers of more than 64 bits as strings") from None


def _native_type(type_: pa.DataType) -> pa.DataType | None:
    """The type of column that holds the values of an Arrow type; None: no column does."""
    if pa.types.is_dictionary(type_):
        values = _native_type(type_.value_type)
        return values and pa.dictionary(type_.index_type, values)
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_uint64(type_):
        return pa.int64()
    if pa.types.is_floating(type_):
        return pa.float64()
    fits = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean)
    return type_ if any(check(type_) for check in fits) else None


# For arrays of these types, `null_count` does not count all nulls.
_HIDING_NULLS = (pa.types.is_dictionary, pa.types.is_union, pa.types.is_run_end_encoded)


def _refuse_nulls(array: pa.Array, place: str) -> None:
    if array.null_count == 0 and not any(hides(array.type) for hides in _HIDING_NULLS):
        return
    missing = array.is_null()
    if array.null_count == 0 and pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        missing = array.dictionary_decode().is_null()
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py() + 1
        raise DataError(f"{place}, row {row}: a missing value; facts have no nulls: leave the row out")


def _is_kind(type_: pa.DataType, kind: int) -> bool:
    """Whether an Arrow type holds constants of a kind."""
    try:
        return batch.native_kind(type_) == batch.native_kind(ARROW_TYPES[kind])
    except TypeError:
        return False


def _check_union(array: pa.Array, place: str) -> None:
    """Refuse a union that is not as `tidelog.formats.batch` describes."""
    type_ = array.type
    if type_.mode != "dense":
        raise DataError(f"{place}: a sparse union; facts are read from dense unions")
    for number in range(type_.num_fields):
        child = type_.field(number)
        if child.name not in KINDS or not _is_kind(child.type, KINDS.index(child.name)):
            raise DataError(f"{place}: a union with a child {child}; its children are {', '.join(KINDS)}")
    for part in batch.parts(array):
        _refuse_nulls(part.values, place)
