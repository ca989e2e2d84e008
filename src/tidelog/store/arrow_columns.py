"""Whole Arrow columns to numbers of terms and back, without a Python object for each cell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.arrow_checks import check_sound, text_offsets, union_layout
from tidelog.errors import DataError
from tidelog.formats.batch import column_of_kinds
from tidelog.language import literal_text, parse_literal
from tidelog.machine import term_kinds as K
from tidelog.store.term_table import Ids, TermTable
from tidelog.store.terms import Terms


def encode_arrow(terms: Terms, column: pa.Array | pa.ChunkedArray) -> Ids:
    """The numbers of an Arrow column: strings, integers, floats, booleans, dictionaries, or a dense union as in
    `formats.batch`. All of it is checked before any of it is kept.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        check_sound(chunk)
    try:
        parts = [_encode_sound(terms, chunk) for chunk in chunks]
    except pa.ArrowException as problem:  # such as a type for which Arrow has no function
        raise DataError(f"a column of type {column.type} cannot be read: {problem}") from None
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int32), *parts])


def _encode_sound(terms: Terms, column: pa.Array) -> Ids:
    """The same for an array that was checked."""
    if not len(column):
        return np.empty(0, np.int32)  # its dictionary or children were not checked
    if column.null_count:
        raise DataError("a column holds a null; facts have no empty cells")
    kind = column.type
    if pa.types.is_dictionary(kind):
        if column.dictionary.null_count:
            return _encode_sound(terms, column.dictionary_decode())
        return _encode_sound(terms, column.dictionary)[column.indices.to_numpy(zero_copy_only=False)]
    if pa.types.is_union(kind):
        return _encode_union(terms, column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _encode_texts(terms, column, K.STRING)
    if pa.types.is_boolean(kind):
        return terms.encode_numbers(column.to_numpy(zero_copy_only=False))
    if pa.types.is_integer(kind):
        return terms.encode_numbers(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
    if pa.types.is_floating(kind):
        return terms.encode_numbers(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_string_view(kind):
        return _encode_sound(terms, column.cast(pa.large_string()))
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return terms.encode_values(column.to_pylist())
    raise DataError(f"a column of type {kind} cannot hold facts: use strings, integers, floats or booleans")


def _encode_texts(terms: Terms, column: pa.Array, kind: int) -> Ids:
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer if buffer is not None and buffer.size else b"\0", np.uint8)
    return terms.encode_heap(data, text_offsets(column).astype(np.int64), kind)


def _encode_union(terms: Terms, column: pa.UnionArray) -> Ids:
    if column.type.mode != "dense":
        raise DataError("a sparse union; facts are read from dense unions")
    children, places = union_layout(column)
    result = np.empty(len(column), np.int32)
    for number in range(column.type.num_fields):
        chosen = children == number
        if chosen.any():
            # Only the values that rows refer to: another may be a null, or no constant.
            taken = column.field(number).take(pa.array(places[chosen]))
            result[chosen] = _encode_child(terms, taken, column.type.field(number).name)
    return result


def _encode_child(terms: Terms, child: pa.Array, name: str) -> Ids:
    if name not in ("iri", "literal"):
        return _encode_sound(terms, child)
    texts = child.dictionary_decode() if pa.types.is_dictionary(child.type) else child
    if texts.null_count or not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise DataError(f"the child {name} of a union holds {child.type}, or nulls; it holds strings")
    if name == "iri":
        return _encode_texts(terms, texts, K.IRI)
    return terms.encode_values([parse_literal(text) for text in texts.to_pylist()])


def decode_arrow(table: TermTable, ids: Ids) -> pa.Array:
    """A column of the natural Arrow type if all terms are of one kind, else a dense union as in `formats.batch`."""
    if not len(ids):
        return pa.array([], pa.string())
    ids = np.ascontiguousarray(ids, np.int32)

    def of_kind(kind: int, mask: npt.NDArray[np.bool_] | None) -> pa.Array:
        return _decode_kind(table, ids if mask is None else ids[mask], kind)

    # Kinds of terms and of columns have the same numbers.
    return column_of_kinds(table.kinds[ids].astype(np.int8), of_kind)


def _decode_kind(table: TermTable, ids: Ids, kind: int) -> pa.Array:
    if kind == K.INTEGER:
        return pa.array(table.payloads[ids])
    if kind == K.FLOAT:
        return pa.array(table.payloads[ids].view(np.float64))
    if kind == K.BOOLEAN:
        return pa.array(table.payloads[ids].astype(np.bool_))
    if kind == K.LITERAL:
        return pa.array([literal_text(table.decode(int(term))) for term in ids], pa.large_string())  # type: ignore[arg-type]
    data, offsets = table.gathered(ids)
    return pa.LargeStringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(data))
