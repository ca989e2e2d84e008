"""Files as streams of bytes: gzip where the name says so, failures as `DataError`, a count of bytes for progress."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from tidelog.errors import DataError
from tidelog.values import is_unicode

BLOCK_BYTES = 8 << 20
LONGEST_ROW_BYTES = 64 << 20
# More columns than any predicate has arguments; each column is an array of its own.
MOST_COLUMNS = 1 << 12
# As Python objects, data takes tens of times its size on disk, so it is read in smaller blocks.
SMALL_BLOCK_BYTES = 1 << 19

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

OnBytes = Callable[[int], None]

# Called after each block that is read, so that a reader can stop early: a large file may hold no facts at all.
after_block: ContextVar[Callable[[], None]] = ContextVar("after_block", default=lambda: None)


class Readable(Protocol):
    """What the readers need of a file."""

    def read(self, size: int = -1, /) -> bytes: ...


class _Counted:
    """A file that reports how many bytes were read from it."""

    def __init__(self, file: Readable, on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._on_bytes(len(data))
        after_block.get()()
        return data


def ignore_bytes(_: int) -> None:
    """For callers that show no progress."""


def data_error(source: str, line: int | None, reason: str) -> DataError:
    """A `DataError` that begins with its place; its text is printable whatever the file is called."""
    source = source if is_unicode(source) else ascii(source)
    return DataError(f"{source}, line {line}: {reason}" if line is not None else f"{source}: {reason}")


def place(source: str, lines: Sequence[int], row: int) -> str:
    """The place of a row; `lines` holds the line of each row."""
    return f"{source}, line {lines[row]}"


@contextmanager
def io_errors(source: str) -> Iterator[None]:
    """Turn errors of the operating system or a decompressor into a `DataError` about that source."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise data_error(source, None, f"damaged gzip data ({error}); fetch the file again") from None
    except UnicodeEncodeError:
        raise data_error(source, None, "a path with half of a surrogate pair; rename the file") from None
    except OSError as error:
        advice = "make room and try again" if error.errno in _NO_ROOM else "check the path and its permissions"
        raise data_error(source, None, f"{error.strerror or error}; {advice}") from None


def size_of_regular(path: Path) -> int:
    """The size of a file; a pipe or a device, which may never answer or never end, is refused."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise data_error(str(path), None, "not a regular file; give a file or a folder of files")
    return found.st_size


@contextmanager
def open_input(path: Path, on_bytes: OnBytes = ignore_bytes) -> Iterator[Readable]:
    """A file to read, unzipped where its name ends in `.gz`."""
    with io_errors(str(path)):
        size = size_of_regular(path)
        if path.suffix == ".gz" and not size:
            raise EOFError("the file is empty")  # which the decompressor takes for a file that holds nothing
        with path.open("rb") as file:
            counted = _Counted(file, on_bytes)
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=counted, mode="rb") as unzipped:  # type: ignore[call-overload]
                    # Few bytes may expand to many: `on_bytes` is called for each block, if only with 0.
                    yield _Counted(unzipped, lambda _: on_bytes(0))
            else:
                yield counted


@contextmanager
def new_files(folder: Path) -> Iterator[Path]:
    """A folder to write files to, which move to the given one when all of them are complete."""
    import tempfile  # which brings much along, and readers do not need it

    with io_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-", ignore_cleanup_errors=True) as unfinished:
            yield Path(unfinished)
            for path in Path(unfinished).iterdir():
                with io_errors(str(folder / path.name)):
                    os.replace(path, folder / path.name)


def read_lines(stream: Readable, source: str) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file without their ends, in blocks, each block with the number of its first line."""
    blocks = iter(lambda: stream.read(min(SMALL_BLOCK_BYTES, BLOCK_BYTES)), b"")
    line = 1
    for lines in split_lines(blocks, source):
        yield line, lines
        line += len(lines)


def split_lines(blocks: Iterable[bytes], source: str) -> Iterator[list[bytes]]:
    """The lines of a text that comes in blocks, as they complete; the last one may lack its line end."""
    begun: list[bytes] = []  # the pieces of an incomplete line
    length, line = 0, 1
    for block in blocks:
        first, *others = block.split(b"\n")
        begun.append(first)
        length += len(first)
        if others:
            lines = [b"".join(begun), *others[:-1]]
            begun, length = others[-1:], len(others[-1])
            line += len(lines)
            yield lines
        check_row_length(length, source, line)
    if length:
        yield [b"".join(begun)]


def check_row_length(length: int, source: str, line: int) -> None:
    """Refuse a row that would not fit into memory, as in a file that is not text at all."""
    if length > LONGEST_ROW_BYTES:
        limit = LONGEST_ROW_BYTES >> 20
        raise data_error(source, line, f"a row of more than {limit} MiB; is a quote left open, or is this no text?")


def check_columns(count: int, source: str, line: int) -> None:
    """Refuse a row with more cells than any fact has."""
    if count > MOST_COLUMNS:
        raise data_error(source, line, f"a row of more than {MOST_COLUMNS:,} cells; is this a table of facts?")


def decode(data: bytes, source: str, line: int) -> str:
    """Text from bytes that begin on the given line; invalid UTF-8 and NUL are reported with their line."""
    text, mistake = decode_lines(data, source, line)
    if mistake is not None:
        raise mistake
    return text


def decode_lines(data: bytes, source: str, line: int) -> tuple[str, DataError | None]:
    """The text of the lines before the first one that is not text, and the error for that one."""
    try:
        nul = data.index(b"\0") if b"\0" in data else len(data)
        text = data[:nul].decode()
    except UnicodeDecodeError as error:
        bad, reason = error.start, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file in UTF-8"
    else:
        if nul == len(data):
            return text, None
        bad, reason = nul, "a NUL byte; is this a binary file, or text in UTF-16? Save it in UTF-8"
    before = data[: data.rfind(b"\n", 0, bad) + 1]
    return before.decode(), data_error(source, line + before.count(b"\n"), reason)
