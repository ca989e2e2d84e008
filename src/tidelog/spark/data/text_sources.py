"""Text files as records: a row that does not fit becomes a record with a reason, not a failure.

A file is cut into chunks of whole rows. A chunk is read at once, by the readers of `tidelog.formats`; if that fails,
its halves are read, and so on down to the bad rows, so that a few of them do not slow down the rest. Turtle and `.dlog`
have no rows, so such a file is read or refused as a whole.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from tidelog.errors import DataError, TidelogError
from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, STR, FactBatch, column_of_kinds, values_of
from tidelog.formats.byte_files import decode, open_input, read_lines
from tidelog.formats.cells import FLOAT_PATTERN, INTEGER_PATTERN, CellError, float_cells, type_cells
from tidelog.formats.delimited import DelimitedReader
from tidelog.formats.display import counted
from tidelog.formats.folder import SEPARATORS
from tidelog.formats.jsonl import parse_json, value_from_json
from tidelog.formats.rdf import read_rdf
from tidelog.formats.tables import columns_of_rows
from tidelog.spark.data.fact_records import read_whole_file, record_batch, rejected

KIND_OF_TYPE = {"string": STR, "int": INT, "float": FLOAT, "bool": BOOL, "iri": IRI_KIND}
TYPES = ("auto", *KIND_OF_TYPE)
TEXT_FORMATS = ("csv", "tsv", "facts", "jsonl", "nt", "ttl", "dlog")
SEPARATOR_OF = {suffix.removeprefix("."): separator for suffix, separator in SEPARATORS.items()}
PATTERN_OF_TYPE = {"int": INTEGER_PATTERN, "float": rf"{INTEGER_PATTERN}|{FLOAT_PATTERN}", "bool": "true|false"}
_CHUNK_ROWS = 50_000


@dataclass(frozen=True)
class TextSource:
    """How to read text files: facts of which predicate, from which columns (by name or by number from 0 on), as which
    types."""

    path: str = ""
    predicate: str | None = None
    format: str | None = None
    header: bool = False
    columns: tuple[str | int, ...] | None = None
    types: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        return self.format or Path(self.path.removesuffix(".gz")).suffix.removeprefix(".")


Row = tuple[int, bytes]
"""A row of a file, after the number of its first line."""

Parser = Callable[[bytes, int], Iterable[FactBatch]]
"""Reads the facts of a chunk that begins at a line."""


def read_text(path: str, source: TextSource) -> Iterator[pa.RecordBatch]:
    """The records of one file; if it cannot be read to its end, a last record says why."""
    try:
        if source.kind in ("ttl", "dlog"):
            yield from read_whole_file(path)
            return
        with open_input(Path(path)) as stream:
            rows = _rows(read_lines(stream, path), source.kind in SEPARATOR_OF)
            parse = _parser(path, source, _header(rows, path, source))
            while chunk := list(islice(rows, _CHUNK_ROWS)):
                yield from _read_apart(parse, chunk, path)
    except TidelogError as error:
        yield rejected(path, [None], [str(error)])


def _rows(blocks: Iterable[tuple[int, list[bytes]]], quoted: bool) -> Iterator[Row]:
    """Whole rows: if cells may be quoted, a row continues until its quotes are closed."""
    held, first = b"", 0
    for line, block in blocks:
        for number, data in enumerate(block, line):
            held, first = (held + b"\n" + data, first) if held else (data, number)
            if quoted and held.count(b'"') % 2:
                continue
            if held.strip():
                yield first, held.removesuffix(b"\r")
            held = b""
    if held:
        yield first, held


def _header(rows: Iterator[Row], path: str, source: TextSource) -> list[str] | None:
    if not (source.header and source.kind in SEPARATOR_OF):
        return None
    for _, data in rows:
        text = decode(data, path, 1).removeprefix("\ufeff")
        return [name.strip().strip('"') for name in text.split(SEPARATOR_OF[source.kind])]
    return []


def _read_apart(parse: Parser, chunk: list[Row], path: str) -> Iterator[pa.RecordBatch]:
    """Read a chunk; if that fails, its halves, and so on down to the bad rows."""
    bad: list[int | None] = []
    reasons = []
    waiting = [chunk]
    while waiting:
        rows = waiting.pop()
        lines = [line for line, _ in rows]
        try:
            # All is read before the first record is yielded. RDF has batches by predicate, not by row.
            found = list(parse(b"\n".join(data for _, data in rows), lines[0]))
            whole = len(found) == 1 and found[0].rows == len(rows)
            yield from [record_batch(batch, lines if whole else lines[:1] * batch.rows) for batch in found]
        except TidelogError as error:
            if len(rows) == 1:
                bad += lines
                reasons.append(str(error))
            else:
                middle = len(rows) // 2
                waiting += [rows[middle:], rows[:middle]]
    if bad:
        yield rejected(path, bad, reasons)


# ── parsers of chunks ────────────────────────────────────────────────────────────────────────────────────────────────


def _parser(path: str, source: TextSource, names: list[str] | None) -> Parser:
    if source.kind == "nt":
        return lambda data, _: read_rdf(io.BytesIO(data), Path(path), turtle=False)
    predicate = source.predicate or Path(path).stem
    read = _json_columns if source.kind == "jsonl" else _cell_columns

    def parse(data: bytes, line: int) -> Iterator[FactBatch]:
        for columns in read(data, line, path, source, names):
            yield FactBatch(predicate, columns, path, line)

    return parse


def _cell_columns(
    data: bytes, line: int, path: str, source: TextSource, names: list[str] | None
) -> Iterator[list[pa.Array]]:
    separator = SEPARATOR_OF[source.kind]
    decode(data, path, line)
    if source.types is None:
        for _, columns in DelimitedReader(io.BytesIO(data), separator, path):
            yield _chosen(columns, source, names)
        return
    cells = _chosen(_string_columns(data, separator), source, names)
    if len(cells) != len(source.types):
        raise DataError(f"{len(cells)} columns where {len(source.types)} types are given")
    yield [
        typed_column(column, type_, place)
        for place, (column, type_) in enumerate(zip(cells, source.types, strict=True))
    ]


def _string_columns(data: bytes, separator: str) -> list[pa.Array]:
    width = data.split(b"\n", 1)[0].count(separator.encode()) + 1
    types = {f"f{number}": pa.string() for number in range(width)}
    try:
        table = pcsv.read_csv(
            io.BytesIO(data + b"\n"),
            read_options=pcsv.ReadOptions(autogenerate_column_names=True, block_size=max(len(data) * 2, 1 << 20)),
            parse_options=pcsv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise DataError(str(error)) from None
    return [column.combine_chunks().cast(pa.string()) for column in table.columns]


def _chosen(columns: Sequence[pa.Array], source: TextSource, names: list[str] | None) -> list[pa.Array]:
    if source.columns is None:
        return list(columns)
    found = []
    for wanted in source.columns:
        if isinstance(wanted, str) and wanted not in (names or ()):
            known = f"; there are {', '.join(names)}" if names else "; set `header = true`, or give numbers from 0"
            raise DataError(f"no column is named {wanted}{known}")
        number = wanted if isinstance(wanted, int) else (names or []).index(wanted)
        if number >= len(columns):
            raise DataError(f"{len(columns)} columns, but column {wanted} is wanted")
        found.append(columns[number])
    return found


def typed_column(texts: pa.Array, type_: str, place: int) -> pa.Array:
    """Cells of text as constants of the type given for their column."""
    if type_ == "auto":
        try:
            return type_cells(texts)
        except CellError as error:
            raise DataError(f"column {place + 1}: {error}") from None
    if type_ in PATTERN_OF_TYPE:
        fits = pc.match_substring_regex(texts, f"^(?:{PATTERN_OF_TYPE[type_]})$")
        if not pc.all(fits).as_py():
            bad = texts.filter(pc.invert(fits))[0].as_py()
            raise DataError(f"column {place + 1}: {bad[:60]!r} is no {type_}")
    try:
        values = _CONVERT[type_](texts)
    except (pa.ArrowInvalid, DataError) as error:
        raise DataError(f"column {place + 1}: {error}") from None
    kind = KIND_OF_TYPE[type_]
    return column_of_kinds(pa.array([kind] * len(texts), pa.int8()).to_numpy(), lambda _, mask: values)


_CONVERT: dict[str, Callable[[pa.Array], pa.Array]] = {
    "string": lambda texts: texts,
    "iri": lambda texts: pc.replace_substring_regex(texts, r"^<(.*)>$", r"\1"),
    "int": lambda texts: pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()),
    "float": float_cells,
    "bool": lambda texts: pc.equal(texts, "true"),
}


def _json_columns(
    data: bytes, line: int, path: str, source: TextSource, _: list[str] | None
) -> Iterator[list[pa.Array]]:
    rows = [_json_row(parse_json(text), source) for text in decode(data, path, line).split("\n")]
    columns = columns_of_rows(rows, lambda row: f"row {row + 1}")
    if columns is not None:
        yield columns


def _json_row(value: Any, source: TextSource) -> tuple[Any, ...]:
    cells = [value_from_json(cell) for cell in _json_cells(value, source.columns)]
    if source.types is None:
        return tuple(cells)
    if len(cells) != len(source.types):
        raise DataError(f"{counted(len(cells), 'value')}, but {counted(len(source.types), 'type')} given")
    return tuple(
        _json_typed(cell, type_, place) for place, (cell, type_) in enumerate(zip(cells, source.types, strict=True))
    )


def _json_cells(value: Any, columns: tuple[str | int, ...] | None) -> list[Any]:
    if isinstance(value, list):
        wanted = range(len(value)) if columns is None else columns
        if any(not isinstance(number, int) or number >= len(value) for number in wanted):
            raise DataError(f"an array of {len(value)} values, but the columns {list(wanted)} are wanted")
        return [value[number] for number in wanted]  # type: ignore[index]
    if not isinstance(value, dict):
        raise DataError('a row is an array, such as ["a", 3], or an object')
    names = list(value) if columns is None else columns
    missing = [str(name) for name in names if name not in value]
    if missing:
        raise DataError(f"no value for {', '.join(missing)}")
    return [value[name] for name in names]


def _json_typed(cell: Any, type_: str, place: int) -> Any:
    """A JSON value as the type of its column: text is read as in CSV, and an integer may be a float."""
    if type_ == "auto" or (type_ == "string" and isinstance(cell, str)):
        return cell
    if type_ == "float" and type(cell) is int:
        return float(cell)
    fitting = {"int": int, "float": float, "bool": bool}.get(type_)
    if fitting is not None and type(cell) is fitting:
        return cell
    if not isinstance(cell, str):
        raise DataError(f"column {place + 1}: {cell!r:.60} is no {type_}")
    return values_of(typed_column(pa.array([cell], pa.string()), type_, place))[0]
