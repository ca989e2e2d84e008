"""The standard streams of the commands: what cannot be written to standard output ends in one message, and not in a
traceback; and streams that are closed are no trouble.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast


class OutputError(Exception):
    """Standard output cannot be written to. No `TidelogError`: a shell that tells those and goes on ends at this."""


def open_closed_streams() -> None:
    """Open what whoever started the process has closed: what is printed there goes nowhere, reading fails.

    Otherwise the next file that is opened would get the number of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), mode, encoding="utf-8"))


@contextmanager
def output_told() -> Iterator[None]:
    """Raise `OutputError` where standard output fails; a reader that has seen enough is a `BrokenPipeError` still."""
    file = sys.stdout
    with redirect_stdout(cast(TextIO, _Told(file))):
        try:
            yield
            sys.stdout.flush()
        finally:
            _drop_unwritable(file)


def _drop_unwritable(file: TextIO) -> None:
    """What is left over goes nowhere: the interpreter must not complain when it flushes at its end."""
    try:
        file.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


class _Told:
    """A file of text that tells its failures as `OutputError`."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with _failures():
            return self._file.write(text)

    def flush(self) -> None:
        with _failures():
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror or error}; write elsewhere") from None
    except UnicodeEncodeError as error:
        missing = error.object[error.start]
        raise OutputError(
            f"cannot write {missing!a} to standard output, whose encoding is {error.encoding}; "
            "set PYTHONIOENCODING=utf-8"
        ) from None
