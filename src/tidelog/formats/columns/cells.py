"""Constants as text: the type of a cell, for CSV and TSV, a whole column at a time.

Every constant has one text (`"text"`, `42`, `3.5`, `true`, `<http://…>`, `"chat"@fr`), which reads back as the same
constant. The `literal` child of a column and Parquet columns of mixed kinds hold such texts.

An unquoted cell that reads as an integer, a float, `true` or `false` is one; `<…>` without blanks inside is an IRI in
the syntax of N-Triples; everything else is a string. A number has neither a plus sign nor zeros in front: `01234` and
`+49` are codes, which must not become the constants that `1234` and `49` are. Typing is per cell, so a column may mix
kinds. The first byte of each cell rules most strings out, so that regular expressions see only the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.arrow_checks import text_offsets
from tidelog.errors import DataError
from tidelog.formats import batch
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, Kinds
from tidelog.formats.columns.cell_numbers import parse_float, parse_integer
from tidelog.language.literals import parse_literal, unquote
from tidelog.language.names import unescape_iri
from tidelog.values import Literal, Value, canonical

# Both `re` and RE2 read these. A character of IRI_UNSAFE appears in an IRI only as `\uXXXX`.
_WHOLE = r"(?:0|[1-9][0-9]*)"
_EXPONENT = r"[eE][+-]?[0-9]+"
INTEGER_PATTERN = rf"-?{_WHOLE}"
FLOAT_PATTERN = rf"-?(?:(?:{_WHOLE}\.[0-9]*|\.[0-9]+)(?:{_EXPONENT})?|{_WHOLE}{_EXPONENT}|inf)|nan"
IRI_UNSAFE = r'[\x00-\x20<>"{}|^`\\]'
IRI_REFERENCE = r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>'
TYPED_PATTERNS = (
    (INT, INTEGER_PATTERN),
    (FLOAT, FLOAT_PATTERN),
    (BOOL, r"true|false"),
    (IRI_KIND, IRI_REFERENCE),
)
UNKNOWN = -1
_EMPTY = len(batch.KINDS)  # an empty cell, which is of no kind

_STARTS = np.zeros(256, np.bool_)
_STARTS[list(b"0123456789-.tfin<")] = True


class CellError(Exception):
    """A cell that is no value; `row` counts from 0."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def type_cells(texts: pa.Array, known: Kinds | None = None) -> pa.Array:
    """A column of facts from a column of text; `known` gives the kinds of quoted cells, `UNKNOWN` for the others."""
    kinds = np.full(len(texts), UNKNOWN, np.int8) if known is None else known.copy()
    starts, lengths = first_bytes(texts)
    candidates = np.flatnonzero(_STARTS[starts] & (kinds == UNKNOWN))
    kinds[kinds == UNKNOWN] = np.where(lengths == 0, _EMPTY, STR)[kinds == UNKNOWN]
    for kind, pattern in TYPED_PATTERNS if candidates.size else ():
        some = texts if candidates.size == len(texts) else texts.take(pa.array(candidates))
        match = pc.match_substring_regex(some, f"^(?:{pattern})$").to_numpy(zero_copy_only=False)
        kinds[candidates[match]] = kind
        candidates = candidates[~match]
    try:
        texts = _with_plain_literals(texts, kinds)
        return batch.column_of_kinds(
            kinds, lambda kind, mask: _CONVERT[kind](texts if mask is None else texts.filter(pa.array(mask)))
        )
    except (DataError, pa.ArrowInvalid):
        raise _first_failure(texts, kinds) from None


def parse_constants(texts: pa.Array) -> pa.Array:
    """A column of facts from constants as text, where every string is in quotes."""
    starts, lengths = first_bytes(texts)
    in_quotes = starts == ord('"')
    string = in_quotes & (lengths > 1) & pc.ends_with(texts, '"').to_numpy(zero_copy_only=False)
    known = np.select([string, in_quotes], [STR, LITERAL], UNKNOWN).astype(np.int8)
    column = type_cells(_unquoted(texts, string), known)
    for part in batch.parts(column):
        rows = np.arange(len(texts)) if part.rows is None else part.rows
        stray = rows[~in_quotes[rows]] if part.kind == STR else rows[:0]
        if stray.size:
            raise CellError(int(stray[0]), f"{texts[int(stray[0])].as_py()[:60]} is no constant; put strings in quotes")
    return column


def _unquoted(texts: pa.Array, string: npt.NDArray[np.bool_]) -> pa.Array:
    """The given cells without their quotes and escapes; the others stay."""
    escaped = np.flatnonzero(string & pc.match_substring(texts, "\\").to_numpy(zero_copy_only=False))
    inner = pc.if_else(pa.array(string), pc.utf8_slice_codeunits(texts, 1, -1), texts)
    if not escaped.size:
        return inner
    cells = inner.to_pylist()
    for row in escaped.tolist():
        try:
            cells[row] = unquote(texts[row].as_py())
        except DataError as error:
            raise CellError(row, str(error)) from None
    return pa.array(cells, pa.string())


def first_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The first byte of each string (0 for an empty one) and the length of each in bytes."""
    _, offset_buffer, data_buffer = texts.buffers()
    if offset_buffer is None or len(texts) == 0:
        return np.zeros(0, np.uint8), np.zeros(0, np.int32)
    offsets = text_offsets(texts)
    lengths = np.diff(offsets)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    if not data.size:
        return np.zeros(len(texts), np.uint8), lengths
    return np.where(lengths > 0, data[np.minimum(offsets[:-1], data.size - 1)], np.uint8(0)), lengths


def _with_plain_literals(texts: pa.Array, kinds: Kinds) -> pa.Array:
    """The cells with literals in canonical form; literals that stand for plain values become cells of those."""
    rows = np.flatnonzero(kinds == LITERAL).tolist()
    if not rows:
        return texts
    cells = texts.to_pylist()
    values = [canonical(parse_literal(cells[row])) for row in rows]
    for row, value in zip(rows, values, strict=True):
        kinds[row], cells[row] = batch.KIND_OF_TYPE[type(value)], _cell_text(value)
    return pa.array(cells, pa.string())


def _cell_text(value: Value) -> str:
    if isinstance(value, Literal):
        return batch.literal_text(value)
    return value if isinstance(value, str) else repr(value).lower()


def _first_failure(texts: pa.Array, kinds: Kinds) -> CellError:
    """Convert cell by cell after the whole column failed, to find the cell that is to blame."""
    for row, (text, kind) in enumerate(zip(texts.to_pylist(), kinds.tolist(), strict=True)):
        try:
            if kind in _CONVERT_ONE:
                _CONVERT_ONE[kind](text)
        except DataError as error:
            return CellError(row, str(error))
    raise AssertionError("a column fails to convert although each of its cells does")


def _parse_iri(text: str) -> str:
    return unescape_iri(text[1:-1])


def _refuse(_: object) -> Never:
    raise DataError('an empty cell; write "" for the empty string, or leave the row out')


def float_cells(cells: pa.Array) -> pa.Array:
    """Floats from texts; one that is too large is refused, not turned into infinity."""
    values = pc.cast(cells, pa.float64())
    infinite = pc.is_inf(values)
    if pc.any(infinite).as_py():
        for text in cells.filter(infinite).to_pylist():
            parse_float(text)
    return values


def _iris(cells: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(cells, "\\")).as_py():
        return pc.utf8_slice_codeunits(cells, 1, -1)
    return pa.array(map(_parse_iri, cells.to_pylist()), pa.string())


_CONVERT: Mapping[int, Callable[[pa.Array], pa.Array]] = {
    STR: lambda cells: cells,
    INT: lambda cells: pc.cast(cells, pa.int64()),
    FLOAT: float_cells,
    BOOL: lambda cells: pc.equal(cells, "true"),
    IRI_KIND: _iris,
    LITERAL: lambda cells: cells,
    _EMPTY: _refuse,
}
# For kinds that not every text fits: the conversion of a single cell.
_CONVERT_ONE: Mapping[int, Callable[[str], object]] = {
    INT: parse_integer,
    FLOAT: parse_float,
    IRI_KIND: _parse_iri,
    LITERAL: parse_literal,
    _EMPTY: _refuse,
}
