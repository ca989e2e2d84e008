"""JSON Lines: values as JSON, and fact files with one array per line.

Strings, integers, floats and booleans are themselves. An IRI is `{"iri": "…"}`; an RDF literal is
`{"text": "…", "language": "…", "datatype": "…"}`, where language and datatype are optional. JSON has neither infinity
nor NaN: they are literals of `xsd:double`, as in the language. An array as a value is a record.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog import records
from tidelog.errors import DataError, TidelogError
from tidelog.formats.columns.cell_numbers import parse_float
from tidelog.formats.display import counted
from tidelog.formats.files.byte_files import Readable, check_columns, data_error, decode, place, read_lines
from tidelog.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    IRI,
    XSD,
    Literal,
    Record,
    Value,
    canonical,
    double_name,
    is_unicode,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

MOST_LEVELS = 50
"""Records that are nested deeper are written as literals: nobody reads them, and parsers give up."""

_LITERAL_KEYS = {"text", "language", "datatype"}


def parse_json(text: str) -> Any:
    """Any JSON value; DataError says what is wrong with the text. A name must not appear twice in an object."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise DataError("JSON nested too deeply; a row is an array of plain values") from None
    except ValueError:
        # Python refuses integers of thousands of digits.
        raise DataError("an integer that does not fit in 64 bits; write a literal, a float or a string") from None
    # Half of a surrogate pair appears in the text itself, or as an escape, which few texts have.
    if not is_unicode(json.dumps(value, ensure_ascii=False) if _SURROGATE.search(text) else text):
        raise DataError(
            "a text with half of a surrogate pair, which is no Unicode; write the whole pair, or leave it out"
        )
    return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DataError("a name appears twice in one object; merge the two")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_names, parse_float=parse_float)


def value_from_json(value: Any) -> Value:
    """A constant from its JSON form."""
    if isinstance(value, dict):
        texts = all(isinstance(text, str) for text in value.values())
        if texts and value.keys() == {"iri"}:
            return IRI(value["iri"])
        if texts and "text" in value and value.keys() <= _LITERAL_KEYS:
            return canonical(Literal(**value))
        shapes = '{"iri": "…"} or {"text": "…", "language": "…", "datatype": "…"}'
        raise DataError(f"an object that is no value; write {shapes}")
    if value is None:
        raise DataError("a null; facts have no nulls: leave the row out, or choose a value")
    if isinstance(value, list):
        return _record_from_json(value)
    if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise DataError("an integer of more than 64 bits; keep it as a string")
    return value


def _record_from_json(array: list[Any]) -> Record:
    level: list[Any] = [array]
    for _ in range(MOST_LEVELS):
        level = [inner for outer in level for inner in outer if isinstance(inner, list)]
        if not level:
            return Record(*map(value_from_json, array))
    shape = f'{{"text": "[1, [2, …]]", "datatype": "{records.RECORD}"}}'
    raise DataError(f"arrays nested more than {MOST_LEVELS} deep; write {shape}")


def value_to_json(value: Value) -> Any:
    """The JSON form of a constant."""
    if isinstance(value, IRI):
        return {"iri": value.value}
    if isinstance(value, Record) and records.depth(value.text) <= MOST_LEVELS:
        return list(map(value_to_json, value))
    if isinstance(value, Literal):
        return {"text": value.text, "language": value.language, "datatype": value.datatype}
    if isinstance(value, float) and not math.isfinite(value):
        return {"text": double_name(value), "datatype": f"{XSD}double"}
    return value


def row_from_json(row: Any) -> tuple[Value, ...]:
    """A row from a JSON array."""
    if not isinstance(row, list):
        raise DataError('a row is an array, such as ["a", 3]')
    return tuple(map(value_from_json, row))


def read_json_lines(stream: Readable, source: str) -> Iterator[tuple[int, list[pa.Array]]]:
    """The columns of a file with one array per line, block by block, each with its first line."""
    from tidelog.formats.columns.tables import columns_of_rows  # the rest of this module needs no Arrow

    arity: int | None = None
    for first_line, block in read_lines(stream, source):
        text = decode(b"\n".join(block), source, first_line)
        rows, lines = [], []
        text = text.removeprefix("\ufeff") if first_line == 1 else text
        for line, row_text in enumerate(text.split("\n"), first_line):
            if not row_text or row_text.isspace():
                continue
            try:
                row = row_from_json(parse_json(row_text))
            except DataError as error:
                raise data_error(source, line, str(error)) from None
            if arity is None:
                check_columns(len(row), source, line)
                arity = len(row)
            if len(row) != arity:
                reason = f"{counted(len(row), 'value')} where the rows before have {arity}"
                raise data_error(source, line, f"{reason}; every row of a predicate has the same number of values")
            rows.append(row)
            lines.append(line)
        try:
            columns = columns_of_rows(rows, partial(place, source, lines))
        except TidelogError as error:
            raise DataError(str(error)) from None
        if columns is not None:
            yield first_line, columns
