"""The form in which facts travel between files, tables and the engine: one Arrow array for each argument.

A column holds one kind of constant or several. One kind: a native Arrow array of strings (plain or dictionary),
integers, floats or booleans. Several kinds, IRIs or RDF literals: a dense union whose children are named after their
kinds; the child `literal` holds N-Triples text such as `"chat"@fr`. There are no nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import language
from tidelog.arrow_checks import union_layout
from tidelog.values import IRI, Literal, Record, Value, check_language

STR, INT, FLOAT, BOOL, IRI_KIND, LITERAL = range(6)
KINDS = ("str", "int", "float", "bool", "iri", "literal")
ARROW_TYPES = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.string())
KIND_OF_TYPE: Mapping[type, int] = {
    str: STR,
    int: INT,
    float: FLOAT,
    bool: BOOL,
    IRI: IRI_KIND,
    Literal: LITERAL,
    Record: LITERAL,
}
BATCH_ROWS = 1 << 17

Kinds = npt.NDArray[np.int8]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FactBatch:
    """Facts of one predicate, and where they come from. Without columns: the one fact of a predicate of arity 0.

    Examples:
        >>> import pyarrow as pa
        >>> from tidelog.formats import FactBatch
        >>> batch = FactBatch("edge", [pa.array(["a", "b"]), pa.array([1, 2])], "a list", 1)
        >>> tidelog.KnowledgeBase().load([batch])
        <Change: + edge: 2>
    """

    predicate: str
    columns: list[pa.Array]
    source: str
    first_line: int

    @property
    def rows(self) -> int:
        """How many facts these are.

        Examples:
            >>> import pyarrow as pa
            >>> from tidelog.formats import FactBatch
            >>> FactBatch("node", [pa.array(["a", "b"])], "a list", 1).rows
            2
        """
        return len(self.columns[0]) if self.columns else 1


class Part(NamedTuple):
    """The cells of one kind in a column: their values in the order of the rows, and the rows (None: every row)."""

    kind: int
    values: pa.Array
    rows: Rows | None


def column_of_kinds(kinds: Kinds, values_of_kind: Callable[[int, npt.NDArray[np.bool_] | None], pa.Array]) -> pa.Array:
    """The column whose row i is of kind `kinds[i]`; `values_of_kind(kind, mask)` yields the values where mask holds."""
    present = np.unique(kinds).tolist() or [STR]
    if len(present) == 1 and present[0] not in (IRI_KIND, LITERAL):
        return values_of_kind(present[0], None)
    codes = np.zeros(len(kinds), np.int8)
    offsets = np.zeros(len(kinds), np.int32)
    children = []
    for code, kind in enumerate(present):
        mask = kinds == kind
        codes[mask] = code
        offsets[mask] = np.arange(np.count_nonzero(mask), dtype=np.int32)
        children.append(values_of_kind(kind, None if len(present) == 1 else mask))
    names = [KINDS[kind] for kind in present]
    return pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), children, names)


def parts(column: pa.Array) -> list[Part]:
    """A column taken apart by the kind of its cells."""
    if not pa.types.is_union(column.type):
        return [Part(native_kind(column.type), _plain(column), None)]
    children, offsets = union_layout(column)
    found = []
    for child in map(int, np.unique(children)):
        rows = np.flatnonzero(children == child)
        values = column.field(child).take(pa.array(offsets[rows]))
        kind = KINDS.index(column.type.field(child).name)
        found.append(Part(kind, _plain(values), None if rows.size == len(children) else rows))
    return found or [Part(STR, pa.array([], pa.string()), None)]


def kinds_in(column: pa.Array) -> set[int]:
    """The kinds of the constants in a column."""
    if not pa.types.is_union(column.type):
        return {native_kind(column.type)}
    children, _ = union_layout(column)
    return {KINDS.index(column.type.field(child).name) for child in map(int, np.unique(children))} or {STR}


_FITS: Sequence[tuple[int, Callable[[pa.DataType], bool]]] = (
    (BOOL, pa.types.is_boolean),
    (INT, pa.types.is_integer),
    (FLOAT, pa.types.is_floating),
    (STR, lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_)),
)


def native_kind(type_: pa.DataType) -> int:
    """The kind of the constants in an Arrow array that is not a union."""
    if pa.types.is_dictionary(type_):
        return native_kind(type_.value_type)
    for kind, fits in _FITS:
        if fits(type_):
            return kind
    raise TypeError(f"no column of facts: {type_}")


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def join_parts(found: Sequence[Part], arrays: Sequence[pa.Array]) -> pa.Array:
    """One array in row order from one array per part."""
    if len(found) == 1:
        return arrays[0]
    order = np.concatenate([part.rows for part in found if part.rows is not None])
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return pa.concat_arrays(list(arrays)).take(pa.array(place))


def slices(columns: Sequence[pa.Array]) -> Iterator[list[pa.Array]]:
    """Columns cut into pieces of at most `BATCH_ROWS` rows, which keeps the text made from them small."""
    rows = len(columns[0]) if columns else 0
    for start in range(0, rows, BATCH_ROWS):
        yield [column.slice(start, BATCH_ROWS) for column in columns]


def values_of(column: pa.Array) -> list[Value]:
    """A column as Python values."""
    found = parts(column)
    if len(found) == 1:
        return _python_values(found[0])
    values: list[Any] = [None] * len(column)
    for part in found:
        assert part.rows is not None
        for row, value in zip(part.rows.tolist(), _python_values(part), strict=True):
            values[row] = value
    return values


def _python_values(part: Part) -> list[Value]:
    values: list[Any] = part.values.to_pylist()
    convert = _FROM_ARROW.get(part.kind)
    return [convert(value) for value in values] if convert else values


def literal_text(literal: Literal) -> str:
    """An RDF literal with its language or datatype; `^^<>` marks one that has neither, unlike a string."""
    check_language(literal)
    return language.literal_text(literal)


_FROM_ARROW: Mapping[int, Callable[[str], Value]] = {IRI_KIND: IRI, LITERAL: language.parse_literal}
TO_ARROW: Mapping[int, Callable[[Any], Any]] = {IRI_KIND: str, LITERAL: literal_text}
