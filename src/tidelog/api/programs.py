"""Programs in files, put together from their parts; see `tidelog.language.parts`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tidelog.formats.files.byte_files import decode, io_errors
from tidelog.language import DLOG, syntax_of_file
from tidelog.language.parts import Linked, Reader, linked, refuse_unused


def read_program(path: str | os.PathLike[str], parameters: Mapping[str, object] | None = None) -> str:
    """The text of a program in a file, with the files that it imports, and with values for its parameters.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "graph.dlog").write_text("edge(a, b).")
        >>> _ = (folder / "main.dlog").write_text('@import "graph.dlog".  near(X) :- edge($from, X).')
        >>> kb = tidelog.KnowledgeBase(tidelog.read_program(folder / "main.dlog", {"from": "a"}))
        >>> sorted(kb.facts("near"))
        [('b',)]
    """
    values = parameters or {}
    text, used = program_in(os.fspath(path), values)
    refuse_unused(values, used)
    return text


def program_in(path: str, values: Mapping[str, object]) -> Linked:
    """The same, with the parameters that were used; others may be those of queries."""
    text = _content(path)
    if syntax_of_file(path) != DLOG:
        return Linked(text, frozenset())
    return linked(text, path, _reader(Path(path).parent), values)


def _reader(folder: Path) -> Reader:
    def read(path: str) -> tuple[str, str, Reader]:
        file = folder / path
        return os.path.normpath(file), _content(os.path.normpath(file)), _reader(file.parent)

    return read


def _content(path: str) -> str:
    with io_errors(path):
        data = Path(path).read_bytes()
    return decode(data, path, 1).removeprefix("\ufeff")
