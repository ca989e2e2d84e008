"""Columns of facts to text, a whole column at a time: what CSV, TSV, JSON Lines, N-Triples and `.dlog` have in common.

A format says how each kind of constant looks, and what stands around and between the cells of a row; here the cells are
made, joined to rows, and returned as bytes. Only cells that need escapes, floats and literals pass through Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, join_parts, parts, slices
from tidelog.formats.columns.cells import IRI_UNSAFE, TYPED_PATTERNS
from tidelog.formats.files.delimited import NULLARY_ROW, literal_cell, quoted_cell
from tidelog.formats.files.jsonl import value_to_json
from tidelog.language.literals import parse_literal, quote
from tidelog.language.names import bracketed

Columns = Sequence[pa.Array]
Renderer = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class RowFormat:
    """How rows look: the text of each kind of constant, what opens a row, separates its cells and closes it."""

    renderers: Mapping[int, Renderer]
    opening: str
    separator: str
    closing: str
    nullary: str

    def lines(self, batches: Iterable[Columns]) -> Iterator[bytes]:
        """The rows of all batches as blocks of bytes."""
        for columns in batches:
            if not columns:
                yield self.nullary.encode()
            for piece in slices(columns):
                yield self._block([render(column, self.renderers) for column in piece])

    def _block(self, cells: list[pa.Array]) -> bytes:
        cells[0] = _join(self.opening, cells[0]) if self.opening else cells[0]
        cells[-1] = _join(cells[-1], self.closing)
        rows = _join(*cells, separator=self.separator)
        # The bytes of an array of strings are contiguous: they are the block.
        data = pa.concat_arrays([rows.cast(pa.large_binary())])
        end = pc.sum(pc.binary_length(data)).as_py()
        return bytes(data.buffers()[2][:end])


def render(column: pa.Array, renderers: Mapping[int, Renderer]) -> pa.Array:
    """The text of each cell of a column."""
    found = parts(column)
    return join_parts(found, [renderers[part.kind](part.values).cast(pa.large_string()) for part in found])


def _join(*pieces: pa.Array | str, separator: str = "") -> pa.Array:
    text = pa.large_string()
    wide = [pa.scalar(piece, text) if isinstance(piece, str) else piece.cast(text) for piece in pieces]
    return pc.binary_join_element_wise(*wide, pa.scalar(separator, text))


def by_cell(function: Callable[[Any], str]) -> Renderer:
    """A renderer that calls a Python function on every cell."""
    return lambda cells: pa.array([function(cell) for cell in cells.to_pylist()], pa.large_string())


def by_cell_where(pattern: str, careful: Callable[[str], str], common: Renderer) -> Renderer:
    """A renderer that calls a Python function only where a cell matches a pattern."""

    def renderer(cells: pa.Array) -> pa.Array:
        special = pc.match_substring_regex(cells, pattern)
        if not pc.any(special).as_py():
            return common(cells)
        rendered = pa.array([careful(cell) for cell in cells.filter(special).to_pylist()], pa.large_string())
        return pc.replace_with_mask(common(cells).cast(pa.large_string()), special, rendered)

    return renderer


def between(opening: str, closing: str) -> Renderer:
    """A renderer that puts text around every cell."""
    return lambda cells: _join(opening, cells, closing)


def floats(special: Mapping[str, str] = {}) -> Renderer:
    """The shortest text that reads back as the same float; `special` renames `inf`, `-inf` and `nan`."""
    return by_cell(lambda value: special.get(text := repr(value), text)) if special else by_cell(repr)


def plain(cells: pa.Array) -> pa.Array:
    """Cells as Arrow writes them: strings as they are, integers, `true` and `false`."""
    return pc.cast(cells, pa.large_string())


def delimited_format(separator: str) -> RowFormat:
    """CSV or TSV. A string is quoted where it would otherwise read as something else or break the row."""
    typed = "|".join(f"(?:{pattern})" for _, pattern in TYPED_PATTERNS)
    # U+FEFF at the beginning of a file would read as a byte order mark.
    needs_quotes = rf'^$|^\x{{FEFF}}|[\x00"\r\n{separator}]|^\(\)$|^(?:{typed})$'
    escaped_separator = f"\\u{ord(separator):04X}"
    renderers = {
        **CONSTANT_RENDERERS,
        STR: by_cell_where(needs_quotes, quoted_cell, plain),
        IRI_KIND: by_cell_where(
            rf"{IRI_UNSAFE}|{separator}",
            lambda iri: bracketed(iri).replace(separator, escaped_separator),
            between("<", ">"),
        ),
        LITERAL: by_cell(lambda literal: literal_cell(literal, separator)),
    }
    return RowFormat(renderers, opening="", separator=separator, closing="\n", nullary=NULLARY_ROW + "\n")


def json_format() -> RowFormat:
    """JSON Lines: one array per row, IRIs and literals as objects."""

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    renderers = {
        **CONSTANT_RENDERERS,
        STR: by_cell_where(r'[\x00-\x1f"\\]', text, between('"', '"')),
        FLOAT: floats({repr(value): text(value_to_json(value)) for value in (math.inf, -math.inf, math.nan)}),
        IRI_KIND: by_cell(lambda iri: text({"iri": iri})),
        LITERAL: by_cell(lambda syntax: text(value_to_json(parse_literal(syntax)))),
    }
    return RowFormat(renderers, opening="[", separator=", ", closing="]\n", nullary="[]\n")


CONSTANT_RENDERERS: Mapping[int, Renderer] = {
    STR: by_cell_where(r'[\x00-\x1f"\\\x7f\x{85}\x{2028}\x{2029}]', quote, between('"', '"')),
    INT: plain,
    FLOAT: floats(),
    BOOL: plain,
    IRI_KIND: by_cell_where(IRI_UNSAFE, bracketed, between("<", ">")),
    LITERAL: plain,
}
