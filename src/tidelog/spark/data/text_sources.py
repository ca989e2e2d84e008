"""Text files as facts: a row that does not fit is rejected with a reason, and is not a failure.

A file is cut into chunks of whole rows. A chunk is read at once, by the readers of `tidelog.formats`; if that fails,
its halves are read, and so on down to the bad rows, so that a few of them do not slow down the rest. Turtle and `.dlog`
have no rows, so such a file is read or refused as a whole.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from tidelog.errors import DataError, TidelogError
from tidelog.formats.batch import FactBatch, values_of
from tidelog.formats.columns.cells import CellError
from tidelog.formats.columns.column_types import typed_column
from tidelog.formats.columns.tables import columns_of_rows
from tidelog.formats.display import counted
from tidelog.formats.files.byte_files import decode, open_input, read_lines
from tidelog.formats.files.delimited import DelimitedReader
from tidelog.formats.files.folder import SEPARATORS, read_file
from tidelog.formats.files.jsonl import parse_json, value_from_json
from tidelog.formats.files.rdf import read_rdf
from tidelog.spark.data.fact_records import Facts, Found, Rejected

TEXT_FORMATS = ("csv", "tsv", "facts", "jsonl", "nt", "ttl", "dlog")
SEPARATOR_OF = {suffix.removeprefix("."): separator for suffix, separator in SEPARATORS.items()}
_CHUNK_ROWS = 50_000


@dataclass(frozen=True)
class TextSource:
    """How to read text files: facts of which predicate, from which columns (by name or by number from 0 on), as which
    types."""

    path: str = ""
    predicate: str | None = None
    format: str | None = None
    header: bool | None = None  # None: there is none, with a warning where the first line looks like one
    columns: tuple[str | int, ...] | None = None
    types: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        return self.format or Path(self.path.removesuffix(".gz")).suffix.removeprefix(".")


Row = tuple[int, bytes]
"""A row of a file, after the number of its first line."""

Parser = Callable[[bytes, int], Iterable[FactBatch]]
"""Reads the facts of a chunk that begins at a line."""


def read_text(path: str, source: TextSource) -> Iterator[Found]:
    """The facts of one file; if it cannot be read to its end, the last thing found says why."""
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
        yield Rejected(path, [None], [str(error)])


def read_contents(batches: Iterable[pa.RecordBatch], source: TextSource) -> Iterator[Found]:
    """The facts of files that Spark has read, as rows of `path` and `content`."""
    with TemporaryDirectory(prefix="tidelog-") as folder:
        for batch in batches:
            for address, content in zip(batch.column("path").to_pylist(), batch.column("content"), strict=True):
                place = Path(folder, Path(address).name)
                place.write_bytes(content.as_buffer())
                for found in read_text(str(place), source):
                    yield _renamed(found, str(place), address)
                place.unlink()


def _renamed(found: Found, path: str, address: str) -> Found:
    """What was found, with the address of its file where it says its path."""
    if isinstance(found, Facts):
        return replace(found, batch=replace(found.batch, source=address))
    return replace(found, source=address, reasons=[reason.replace(path, address) for reason in found.reasons])


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


def read_whole_file(
    path: str, header: bool = False, types: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Found]:
    """The facts of a file, under the name of its predicate; if it cannot be read, the last thing found says why.

    `types` are those of the columns of CSV and TSV files, by path."""
    try:
        yield from map(Facts, read_file(path, header=header, types=(types or {}).get(path)))
    except TidelogError as error:
        yield Rejected(path, [None], [str(error)])


def _read_apart(parse: Parser, chunk: list[Row], path: str) -> Iterator[Found]:
    """Read a chunk; if that fails, its halves, and so on down to the bad rows."""
    bad: list[int | None] = []
    reasons = []
    waiting = [chunk]
    while waiting:
        rows = waiting.pop()
        lines = [line for line, _ in rows]
        try:
            # All is read before the first facts are yielded. RDF has batches by predicate, not by row.
            found = list(parse(b"\n".join(data for _, data in rows), lines[0]))
            whole = len(found) == 1 and found[0].rows == len(rows)
            yield from [Facts(batch, lines if whole else lines[:1] * batch.rows) for batch in found]
        except TidelogError as error:
            if len(rows) == 1:
                bad += lines
                reasons.append(str(error))
            else:
                middle = len(rows) // 2
                waiting += [rows[middle:], rows[:middle]]
    if bad:
        yield Rejected(path, bad, reasons)


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
    decode(data, path, line)
    chosen = None if source.columns is None else [_number(wanted, names) for wanted in source.columns]
    separator = SEPARATOR_OF[source.kind]
    for _, columns in DelimitedReader(io.BytesIO(data), separator, path, False, source.types, chosen, line):
        yield columns


def _number(wanted: str | int, names: list[str] | None) -> int:
    """The number of a column, from 0 on."""
    if isinstance(wanted, int):
        return wanted
    if wanted not in (names or ()):
        known = f"; there are {', '.join(names)}" if names else "; set `header = true`, or give numbers from 0"
        raise DataError(f"no column is named {wanted}{known}")
    return (names or []).index(wanted)


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
    try:
        return values_of(typed_column(pa.array([cell], pa.string()), type_))[0]
    except CellError as error:
        raise DataError(f"column {place + 1}: {error}") from None
