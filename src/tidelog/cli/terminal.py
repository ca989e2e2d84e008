"""The terminal: output that fails ends in one message, not in a traceback; closed streams do no harm; and progress is
shown on standard error, where that is a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from tidelog.formats.files.byte_files import io_errors

if TYPE_CHECKING:
    from rich.console import Console


class OutputError(Exception):
    """Standard output cannot be written to. Not a `TidelogError`, because those do not end the shell, and this does."""


def open_closed_streams() -> None:
    """Open the standard streams that are closed: reading and results fail, and messages go nowhere.

    Otherwise the next file to be opened would get the descriptor of the stream.
    """
    for name, mode, access in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode, encoding="utf-8"))


@contextmanager
def checked_output() -> Iterator[None]:
    """Raise `OutputError` where standard output fails; a reader that left early is still a `BrokenPipeError`."""
    file = sys.stdout
    with redirect_stdout(cast(TextIO, _CheckedOutput(file))):
        try:
            try:
                yield
            except SystemExit:  # as `--help` ends
                sys.stdout.flush()
                raise
            sys.stdout.flush()
        finally:
            try:
                file.flush()
            except OSError:
                # Discard what could not be written, so that the interpreter does not complain when it flushes at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


class _CheckedOutput:
    """A text file whose failures are raised as `OutputError`."""

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


@contextmanager
def output(path: str | None) -> Iterator[IO[str]]:
    """A file to write text to, or standard output."""
    if path is None:
        yield sys.stdout
        return
    with io_errors(path), open(path, "w", encoding="utf-8") as file:
        yield file


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def reading(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A progress bar for reading a file or folder of so many bytes; yields the function to call with bytes read."""
    console = _console()
    if console is None:
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"reading {what}", total=total_bytes)
        yield lambda count: progress.update(task, advance=count)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life during work of unknown length."""
    console = _console()
    if console is None:
        yield
        return
    with console.status(what):
        yield


def _console() -> Console | None:
    """Where progress is shown: on standard error, if it is a terminal. Without rich, work is done in silence."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    return Console(stderr=True)
