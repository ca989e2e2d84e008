"""The journal: an append-only log of the updates since a snapshot. Each is on disk before its update returns.

A record is 20 bytes of header (a mark, its number from 1 on, the length of its payload and a checksum of all that) and
the payload. A crash can tear only the last record, since each is forced to disk before the next is written: an
incomplete record at the end is cut off. Anything wrong before another record is damage, and then nothing is cut.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import StorageError
from tidelog.storage import durable_files as files

MAGIC = b"tidelog journal 1\n"
MARK = b"\x9eREC"

_MARKS = re.compile(re.escape(MARK))
_HEADER = struct.Struct("<4sQII")
_LONGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Contents:
    """The payloads of a journal, and where its last complete record ends; `torn` where an incomplete one follows."""

    payloads: list[bytes]
    end: int
    torn: bool


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<QI", number, len(payload))))


def encode_record(number: int, payload: bytes) -> bytes:
    return _HEADER.pack(MARK, number, len(payload), _checksum(number, payload)) + payload


def _record_at(data: bytes, at: int) -> tuple[int, bytes] | None:
    """The number and the payload of the record at an offset, if there is a complete one."""
    if at + _HEADER.size > len(data):
        return None
    mark, number, length, expected = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : at + _HEADER.size + length]
    if mark != MARK or len(payload) != length or _checksum(number, payload) != expected:
        return None
    return number, payload


def _more_behind(data: bytes, at: int) -> bool:
    """Whether something follows the record that begins at an offset: then it was complete once."""
    if at + _HEADER.size > len(data):
        return False
    mark, _, length, _ = _HEADER.unpack_from(data, at)
    return mark == MARK and at + _HEADER.size + length < len(data)


def read_journal(path: Path) -> Contents:
    """Everything in a journal, up to a torn tail."""
    data = files.read_file(path)
    if not data.startswith(MAGIC):
        raise StorageError(f"{path} is no journal of this version of tidelog, or its beginning is damaged")
    payloads: list[bytes] = []
    at = len(MAGIC)
    while (record := _record_at(data, at)) is not None and record[0] == len(payloads) + 1:
        payloads.append(record[1])
        at += _HEADER.size + len(record[1])
    marks = _MARKS.finditer(data, at)
    if _more_behind(data, at) or any(_record_at(data, mark.start()) is not None for mark in marks):
        raise StorageError(
            f"{path} is damaged after update {len(payloads)} (byte {at}), with more updates behind; restore a copy"
        )
    return Contents(payloads, at, at < len(data))


def create_journal(path: Path) -> None:
    """Create an empty journal."""
    with files.storage_errors("write", path):
        files.create_file(path, MAGIC)
        files.force_folder(path.parent)


def is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does, as far as it goes."""
    with files.reading(path) as file:
        beginning = file.read(len(MAGIC)).rstrip(b"\0")
    return MAGIC.startswith(beginning)


class Journal:
    """A journal to append to. The caller holds the folder's lock."""

    def __init__(self, path: Path, contents: Contents) -> None:
        """Open a journal that has been read, and cut off a torn record."""
        self._path = path
        self._count = len(contents.payloads)
        self._end = contents.end
        self._broken = ""
        with files.storage_errors("open", path):
            self._file = files.OpenFile(path, files.open_own(path))
            self._cut()

    def append(self, payload: bytes) -> None:
        """Add a record and force it to disk. Where that fails, the journal is as before, or refuses further records."""
        if self._broken:
            raise StorageError(
                f"{self._path} takes no updates since an earlier failure ({self._broken}); open it again"
            )
        if len(payload) > _LONGEST:
            raise StorageError(f"an update is too large for {self._path} ({len(payload)} bytes); take it in parts")
        record = encode_record(self._count + 1, payload)
        with files.storage_errors("write", self._path):
            self._check_place()
            try:
                written = 0
                while written < len(record):
                    written += os.pwrite(self._file.descriptor, record[written:], self._end + written)
                os.fsync(self._file.descriptor)
            except BaseException as problem:
                self._take_back(problem)
                raise
        self._count += 1
        self._end += len(record)

    def _check_place(self) -> None:
        """Refuse a file that somebody has replaced or written to in spite of the lock: a record would be lost."""
        found, here = os.stat(self._path), os.fstat(self._file.descriptor)
        if not os.path.samestat(found, here) or here.st_size != self._end:
            raise StorageError(
                f"{self._path} was changed or replaced by somebody else; save elsewhere, or open the folder again"
            )

    def _take_back(self, problem: BaseException) -> None:
        """Cut off what a failed append left. If even that fails, the content of the disk is unknown."""
        try:
            self._cut()
        except (OSError, StorageError):
            self._broken = str(problem)

    def _cut(self) -> None:
        if os.fstat(self._file.descriptor).st_size != self._end:
            os.ftruncate(self._file.descriptor, self._end)
            os.fsync(self._file.descriptor)

    def close(self) -> None:
        self._file.close()
