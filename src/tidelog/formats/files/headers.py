"""Whether the first line of a CSV or TSV file looks like the names of its columns.

Files have no header unless somebody says so. A header that nobody mentions would become a fact, so a first line that
looks like one is told of. It does where each of its cells is a text and either a column goes on with numbers, booleans
or IRIs, or the cells are names that columns often have and that do not occur again below.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from tidelog.errors import DataError
from tidelog.formats.batch import values_of
from tidelog.formats.files.byte_files import open_input
from tidelog.formats.files.delimited import DelimitedReader
from tidelog.values import Value

_BYTES = 1 << 16

_NAME = re.compile(r"[^\W\d][\w .-]*")
# The last word of a name: `from_station`, `userId` and `Product Name` end in one.
_LAST_WORD = re.compile(r"[A-Z]?[a-z]+$|[A-Z]+$")
_WORDS = """
    amount attribute child city class code color colour column count country date day dest destination dst edge email
    end event field first from group id index item key kind label last lat left length level line location lon manager
    month name node num number object order origin parent part percent person place predicate price product property
    quantity reading relation right role score sensor sex size source speed src start state station status subject
    target temp temperature text time timestamp title to total type unit url user username value weight width year zip
"""
_USUAL = frozenset(_WORDS.split())


def likely_header(path: Path, separator: str) -> str | None:
    """The first line of a file if it looks like a header."""
    with open_input(path) as stream:
        data = stream.read(_BYTES)
    whole = data if len(data) < _BYTES else data[: data.rfind(b"\n") + 1]
    try:
        for _, columns in DelimitedReader(io.BytesIO(whole), separator, str(path)):
            cells = list(map(values_of, columns))
            names = [column[0] for column in cells]
            return separator.join(map(str, names)) if _is_header(names, [column[1:] for column in cells]) else None
    except DataError:
        pass  # Reading the file says what is wrong with it.
    return None


def _is_header(names: Sequence[Value], below: Sequence[Sequence[Value]]) -> bool:
    texts = [name for name in names if isinstance(name, str)]
    if not texts or len(texts) < len(names) or not all(any(map(str.isalpha, text)) for text in texts):
        return False
    if any(column and not any(isinstance(cell, str) for cell in column) for column in below):
        return True
    different = len(set(texts)) == len(texts) and all(map(_NAME.fullmatch, texts))
    again = any(text in column for text, column in zip(texts, below, strict=True))
    return different and not again and any(map(_is_usual, texts))


def _is_usual(name: str) -> bool:
    found = _LAST_WORD.search(name.strip())
    return found is not None and found[0].lower() in _USUAL
