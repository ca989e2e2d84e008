"""Types that are given for the columns of a table of texts: `string`, `int`, `float`, `bool`, `iri`, or `auto`, with
which each cell has a type of its own (`formats.columns.cells`).

A type that is given decides: as an `int`, `007` is 7, and as a `string` it is `"007"`, whether the cell is quoted or
not. A cell that does not fit is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, Kinds, column_of_kinds
from tidelog.formats.columns.cell_numbers import parse_float, parse_integer
from tidelog.formats.columns.cells import CellError, float_cells, type_cells
from tidelog.formats.display import counted
from tidelog.values import IRI

AUTO = "auto"
KIND_OF_TYPE = {"string": STR, "int": INT, "float": FLOAT, "bool": BOOL, "iri": IRI_KIND}
TYPES = (AUTO, *KIND_OF_TYPE)
_INTEGER = r"[+-]?[0-9]+"
_FLOAT = r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+|-?inf|nan"
# Where somebody says that a column holds numbers, signs and zeros in front do no harm.
PATTERN_OF_TYPE = {"int": _INTEGER, "float": rf"{_INTEGER}|{_FLOAT}", "bool": "true|false", "iri": ".+"}

_PYTHON_TYPES: Mapping[object, str] = {str: "string", int: "int", float: "float", bool: "bool", IRI: "iri"}
_CONVERT: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "string": lambda texts: texts,
    "iri": lambda texts: pc.replace_substring_regex(texts, r"^<(.*)>$", r"\1"),
    "int": lambda texts: pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()),
    "float": float_cells,
    "bool": lambda texts: pc.equal(texts, "true"),
}
# For types that a text may fit and yet have no value: the conversion of a single cell.
_CONVERT_ONE: Mapping[str, Callable[[str], object]] = {"int": parse_integer, "float": parse_float}


def checked_types(types: object, where: str) -> tuple[str, ...]:
    """The names of types; Python's own types are taken for theirs."""
    if isinstance(types, str) or not isinstance(types, Sequence):
        raise DataError(f'{where}: types are a list with a type for each column, such as ["string", "int"]')
    names: list[str] = []
    for given in types:
        name = _PYTHON_TYPES.get(given) if isinstance(given, type) else given
        if name not in TYPES:
            raise DataError(f"{where}: {given!r:.60} is no type; use {', '.join(TYPES)}")
        names.append(name)
    return tuple(names)


def typed_columns(texts: Sequence[pa.Array], known: Sequence[Kinds | None], types: Sequence[str]) -> list[pa.Array]:
    """Columns of text as constants of the types given for them; `known` has the kinds of quoted cells."""
    if len(texts) != len(types):
        reason = f"{counted(len(texts), 'column')}, but {counted(len(types), 'type')} given; give one for each column"
        raise CellError(0, reason)
    columns: list[pa.Array] = []
    mistakes: list[CellError] = []
    for number, (column, kinds, type_) in enumerate(zip(texts, known, types, strict=True), start=1):
        try:
            columns.append(typed_column(column, type_, kinds))
        except CellError as mistake:
            reason = str(mistake) if type_ == AUTO else f"column {number}: {mistake}"
            mistakes.append(CellError(mistake.row, reason))
    if mistakes:
        raise min(mistakes, key=lambda mistake: mistake.row)
    return columns


def typed_column(texts: pa.Array, type_: str, known: Kinds | None = None) -> pa.Array:
    """Cells of text as constants of one type; `CellError` says which cell does not fit."""
    if type_ == AUTO:
        return type_cells(texts, known)
    literals = np.flatnonzero(known == LITERAL) if known is not None else np.empty(0, np.int64)
    if literals.size:
        raise CellError(int(literals[0]), f"an RDF literal is no {type_}; give the type {AUTO}")
    if type_ in PATTERN_OF_TYPE:
        fits = pc.match_substring_regex(texts, f"^(?:{PATTERN_OF_TYPE[type_]})$").to_numpy(zero_copy_only=False)
        if not fits.all():
            row = int(np.argmin(fits))
            raise CellError(row, f"{texts[row].as_py()[:60]!r} is no {type_}")
    try:
        values = _CONVERT[type_](texts)
    except (pa.ArrowInvalid, DataError):
        raise _first_failure(texts, type_) from None
    return column_of_kinds(np.full(len(texts), KIND_OF_TYPE[type_], np.int8), lambda _, __: values)


def _first_failure(texts: pa.Array, type_: str) -> CellError:
    """The cell to blame for a column that cannot be converted."""
    for row, text in enumerate(texts.to_pylist()):
        try:
            _CONVERT_ONE[type_](text)
        except DataError as error:
            return CellError(row, str(error))
    raise AssertionError("a column fails to convert although each of its cells does")
