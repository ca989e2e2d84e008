"""CSV, TSV and `.facts` files: rows of cells between commas or tabs, read in blocks of bounded size.

Arrow splits a plain block, which is the common case, and its cells are typed column by column. Any other block, and any
block that Arrow or the typing refuses, goes through a careful scanner that knows which cells were quoted and on which
line each row begins. Only the scanner raises errors, so they are worded in one place. Of several mistakes the first in
the file is reported, wherever blocks end.

A quote counts only at the start of a cell; inside quotes, `""` is a quote, and separators and line ends are text. A
closing quote may be followed by `@language` or `^^<datatype>`, which makes the cell an RDF literal. The line `()` is
the fact of a predicate of arity 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv

from tidelog.errors import DataError
from tidelog.formats.batch import LITERAL, STR, Kinds
from tidelog.formats.columns.cells import UNKNOWN, CellError
from tidelog.formats.columns.column_types import AUTO, typed_columns
from tidelog.formats.display import counted
from tidelog.formats.files.byte_files import (
    BLOCK_BYTES,
    Readable,
    check_columns,
    check_row_length,
    data_error,
    decode_lines,
)
from tidelog.language.literals import parse_literal, quote
from tidelog.values import LANGUAGE_TAG

_QUOTE, _LINE_END, _RETURN = b'"\n\r'
Counts = npt.NDArray[np.int32]
Quoted = npt.NDArray[np.bool_]

NULLARY_ROW = "()"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CLOSED_QUOTE = re.compile(r'"[^"]*(?:""[^"]*)*"(?!")')


@dataclass(slots=True)
class _Table:
    """The rows of a block as text: for each column its cells, and kinds where quotes decide; for each row its line."""

    columns: list[pa.Array]
    known: list[Kinds] | None = None
    lines: list[int] = field(default_factory=list)

    def without_first_row(self) -> _Table:
        known = self.known and [kinds[1:] for kinds in self.known]
        return _Table([column.slice(1) for column in self.columns], known, self.lines[1:])

    def typed(self, chosen: Sequence[int] | None, types: Sequence[str] | None) -> list[pa.Array]:
        """The cells of the chosen columns as values; of several cells that are none, the one in the first row is
        reported.
        """
        width = len(self.columns)
        numbers = range(width) if chosen is None else chosen
        missing = [number for number in numbers if number >= width]
        if missing:
            raise CellError(0, f"{counted(width, 'column')}, but column {missing[0]} is wanted; they count from 0")
        known: Sequence[Kinds | None] = self.known or [None] * width
        return typed_columns(
            [self.columns[number] for number in numbers],
            [known[number] for number in numbers],
            [AUTO] * len(numbers) if types is None else types,
        )


class _NotPlainError(Exception):
    """A block that only the careful scanner can read."""


class DelimitedReader:
    """Iterates over the typed columns of a file, block by block, each with the line on which the block begins.

    With a `header`, the first row is skipped. `types` are those of the columns, `columns` the numbers of those to read,
    from 0 on. `line` is the number of the first line.
    """

    def __init__(
        self,
        stream: Readable,
        separator: str,
        source: str,
        header: bool = False,
        types: Sequence[str] | None = None,
        columns: Sequence[int] | None = None,
        line: int = 1,
    ) -> None:
        self._stream = stream
        self._separator = separator
        self._source = source
        self._skip_row = header
        self._types = types
        self._columns = columns
        self._arity: int | None = None
        self._line = line
        self._cells = _cell_pattern(separator)

    def __iter__(self) -> Iterator[tuple[int, list[pa.Array]]]:
        """Columns of at least one row; no columns at all for the fact of a predicate of arity 0."""
        rest = self._stream.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
        more = True
        while more:
            chunk = self._stream.read(BLOCK_BYTES)
            more = bool(chunk)
            data = rest + chunk
            if not more and data and not data.endswith(b"\n"):
                data += b"\n"
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                first_line = self._line
                columns, unread = self._parse(data[:end], last=not more)
                rest = unread + rest
                if columns is not None:
                    yield first_line, columns
            check_row_length(len(rest), self._source, self._line)

    def _parse(self, block: bytes, last: bool) -> tuple[list[pa.Array] | None, bytes]:
        """The columns of a block (None where it has no rows), and the bytes of a last row that is not complete yet."""
        try:
            table, end = self._split(block)
            if last and end < len(block):
                raise _NotPlainError  # a quote is left open
            columns = self._typed(table)
        except (pa.ArrowInvalid, CellError, _NotPlainError):
            return self._parse_carefully(block, last)  # it can say what is wrong, and where
        self._skip_row = self._skip_row and table is None
        self._line += block.count(b"\n", 0, end)
        return columns, block[end:]

    def _parse_carefully(self, block: bytes, last: bool) -> tuple[list[pa.Array] | None, bytes]:
        text, no_text = decode_lines(block, self._source, self._line)
        table, end, in_text = self._scan(text, last and no_text is None)
        try:
            columns = self._typed(table)
        except CellError as error:
            lines = table.lines[1:] if self._skip_row else table.lines
            raise data_error(self._source, lines[error.row], str(error)) from None
        mistake = in_text or no_text
        if mistake is not None:
            raise mistake
        self._skip_row = self._skip_row and not table.lines
        self._line += text.count("\n", 0, end)
        return columns, text[end:].encode()

    def _typed(self, table: _Table | None) -> list[pa.Array] | None:
        if table is None or not table.columns or not len(table.columns[0]):
            return None
        if self._skip_row and self._arity != 0:
            table = table.without_first_row()
        if not len(table.columns[0]):
            return None
        return [] if self._arity == 0 else table.typed(self._columns, self._types)

    def _split(self, block: bytes) -> tuple[_Table | None, int]:
        """The complete rows of a block by Arrow, and where they end."""
        if b"\0" in block or block.count(b"\r") != block.count(b"\r\n"):
            raise _NotPlainError
        quoted, end = _quote_layout(block, self._separator) if b'"' in block else (None, len(block))
        first = block[:end].lstrip(b"\r\n").split(b"\n", 1)[0].rstrip(b"\r")
        if not first:
            return None, end
        arity = first.count(self._separator.encode()) + 1 if quoted is None else quoted.shape[1]
        check_columns(arity, self._source, self._line)
        if first == NULLARY_ROW.encode() or self._arity not in (None, arity):
            raise _NotPlainError
        self._arity = arity
        names = [str(number) for number in range(arity)]
        table = pcsv.read_csv(
            pa.BufferReader(block[:end]),
            read_options=pcsv.ReadOptions(column_names=names, block_size=end + 1),
            parse_options=pcsv.ParseOptions(
                delimiter=self._separator,
                quote_char=False if quoted is None else '"',
                newlines_in_values=quoted is not None,
            ),
            convert_options=pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        columns = [pa.concat_arrays(column.chunks) for column in table.columns]
        if quoted is None:
            return _Table(columns), end
        # Cells in quotes are strings.
        return _Table(columns, [np.where(column, STR, UNKNOWN).astype(np.int8) for column in quoted.T]), end

    def _scan(self, text: str, last: bool) -> tuple[_Table, int, DataError | None]:
        """The complete rows of a text before its first mistake, where they end, and the mistake."""
        rows: list[list[str]] = []
        kinds: list[list[int]] = []
        lines: list[int] = []
        row: list[str] = []
        row_kinds: list[int] = []
        line, end = self._line, 0
        mistake: DataError | None = None
        for found in self._cells.finditer(text):
            in_quotes, suffix, plain, terminator, _ = found.groups()
            if terminator is None:
                # An open quote may be closed in the next block.
                if last or text[found.start()] != '"' or _CLOSED_QUOTE.match(text, found.start()):
                    mistake = self._bad_cell(text, found.start(), line + text.count("\n", end, found.start()))
                break
            cell, kind = _cell(in_quotes, suffix, plain)
            row.append(cell)
            row_kinds.append(kind)
            check_columns(len(row), self._source, line)
            if terminator == self._separator:
                continue
            if len(row) > 1 or cell or kind != UNKNOWN:
                mistake = self._wrong_arity(row, row_kinds, line)
                if mistake is not None:
                    break
                rows.append(row)
                kinds.append(row_kinds)
                lines.append(line)
            row, row_kinds = [], []
            line += text.count("\n", end, found.end())
            end = found.end()
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        known = [np.array(column, np.int8) for column in zip(*kinds, strict=True)]
        return _Table(columns, known, lines), end, mistake

    def _wrong_arity(self, row: list[str], kinds: list[int], line: int) -> DataError | None:
        nullary = row == [NULLARY_ROW] and kinds == [UNKNOWN]
        if self._arity is None:
            self._arity = 0 if nullary else len(row)
        found = 0 if nullary and self._arity == 0 else len(row)
        if found == self._arity:
            return None
        shown = self._separator.join(row)
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        reason = f"{counted(found, 'column')} where the rows before have {self._arity}: {shown!r}"
        return data_error(self._source, line, f"{reason}; every row of a predicate has the same number of columns")

    def _bad_cell(self, text: str, start: int, line: int) -> DataError:
        if text[start] != '"':
            reason = "a carriage return inside a line; end lines with \\n or \\r\\n, and quote a cell that holds one"
        elif _CLOSED_QUOTE.match(text, start):
            reason = 'text after a closing quote; double the quotes inside a cell, as in "say ""hi"""'
        else:
            reason = "the quote that opens this cell is never closed; close it, and double the quotes inside the cell"
        return data_error(self._source, line, reason)


def _quote_layout(block: bytes, separator: str) -> tuple[Quoted, int]:
    """Whether the cell in each row and column of a block is quoted, and where the last complete row ends.

    Arrow reads quoted cells, but does not say which cells were quoted. The parity of the number of quotes from the
    start of the block tells whether a byte lies inside quotes; separators and line ends outside quotes bound the cells.
    The parity is right only where every quote opens, closes or doubles: any other block is not plain, and neither is
    one without a complete row.
    """
    data = np.frombuffer(block, np.uint8)
    is_quote = data == _QUOTE
    quotes = np.cumsum(is_quote, dtype=np.int32)
    outside = quotes & 1 == 0
    bounds = np.flatnonzero(((data == ord(separator)) | (data == _LINE_END)) & outside)
    complete = np.flatnonzero(data[bounds] == _LINE_END)
    if not complete.size:
        raise _NotPlainError
    bounds = bounds[: complete[-1] + 1]
    ends_row = data[bounds] == _LINE_END
    starts = np.concatenate([[0], bounds[:-1] + 1])
    # A carriage return before the line end belongs to the line end.
    ends = bounds - ((data[bounds - 1] == _RETURN) & ends_row & (bounds > starts))
    quoted = is_quote[starts]
    loose = np.cumsum(outside & ~is_quote, dtype=np.int32)
    if _within(quotes, starts, ends)[~quoted].any() or _within(loose, starts, ends)[quoted].any():
        raise _NotPlainError  # a quote inside an unquoted cell, or text around a quoted one
    blank = (starts == ends) & ends_row & np.concatenate([[True], ends_row[:-1]])
    return _matrix(quoted[~blank], ends_row[~blank]), int(bounds[-1]) + 1


def _within(counted: Counts, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Counts:
    """How many of the counted bytes lie in each cell."""
    before = np.concatenate([[0], counted[starts[1:] - 1]])
    return np.where(ends > starts, counted[ends - 1] - before, 0)


def _matrix(quoted: Quoted, ends_row: Quoted) -> Quoted:
    """The cells as rows and columns."""
    if not quoted.size:
        return np.zeros((0, 0), np.bool_)
    arity = int(np.argmax(ends_row)) + 1
    if quoted.size % arity or not np.array_equal(np.flatnonzero(ends_row), np.arange(arity - 1, quoted.size, arity)):
        raise _NotPlainError  # the rows differ in length
    return quoted.reshape(-1, arity)


def _cell_pattern(separator: str) -> re.Pattern[str]:
    """A cell and its terminator. The last group is a character at which no cell can begin."""
    quoted_cell = rf'("[^"]*(?:""[^"]*)*")((?:@{LANGUAGE_TAG})?(?:\^\^<[^<>{separator}\n]*>)?)'
    plain_cell = rf'([^"{separator}\r\n][^{separator}\r\n]*)?'
    return re.compile(rf"(?:{quoted_cell}|{plain_cell})({separator}|\r?\n)|(.)", re.DOTALL)


def _cell(in_quotes: str | None, suffix: str | None, plain: str | None) -> tuple[str, int]:
    """The text of a cell, and its kind as far as quotes decide it."""
    if in_quotes is None:
        return plain or "", UNKNOWN
    text = in_quotes[1:-1].replace('""', '"')
    return (quote(text) + suffix, LITERAL) if suffix else (text, STR)


def quoted_cell(text: str) -> str:
    """A text in quotes, those in it doubled."""
    if "\0" in text:
        raise DataError("a text with a NUL character cannot be CSV or TSV; use the format jsonl or parquet")
    return '"' + text.replace('"', '""') + '"'


def literal_cell(literal_syntax: str, separator: str) -> str:
    """A literal in the syntax of N-Triples as a cell: quotes doubled, separators in the datatype escaped."""
    text = parse_literal(literal_syntax).text
    suffix = literal_syntax[len(quote(text)) :].replace(separator, f"\\u{ord(separator):04X}")
    return quoted_cell(text) + suffix
