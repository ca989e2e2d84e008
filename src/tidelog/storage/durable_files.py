"""Files that survive a crash: written, forced to the disk, and only then named. And files that are ours alone.

A rename within a folder is atomic, but it is on the disk only once the folder itself has been forced there too.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidelog.errors import StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storage_errors(action: str, where: Path) -> Iterator[None]:
    """Turn what the file system raises into a `StorageError` that says what could not be done, where and why."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)
        if problem.errno in _FULL:
            reason = "the disk is full; make room and try again. What was there before is still there"
        raise StorageError(f"cannot {action} {where}: {reason}") from problem
    except pa.ArrowException as problem:
        raise StorageError(f"cannot {action} {where}: {problem}") from problem


# --- writing ------------------------------------------------------------------------------------------------------


def write_file(path: Path, content: bytes) -> None:
    """Write a file and force it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        force(file)


def create_file(path: Path, content: bytes) -> None:
    """The same for a file that is not there yet."""
    with path.open("xb") as file:
        file.write(content)
        force(file)


def force(file: Any) -> None:
    """Force to the disk what was written to a file."""
    file.flush()
    os.fsync(file.fileno())


def force_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Give a file a new content: after a crash it holds the old one or the new one."""
    beside = path.with_name(path.name + ".new")
    write_file(beside, content)
    beside.replace(path)
    force_folder(path.parent)


# --- reading ------------------------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path) -> Iterator[BufferedReader]:
    """Open a file that is one: no folder, and no pipe or device, which might never end."""
    with storage_errors("read", path), os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        try:
            yield file
        except MemoryError as problem:
            raise StorageError(f"cannot read {path}: memory is too short for what it holds") from problem


def read_file(path: Path) -> bytes:
    with reading(path) as file:
        return file.read()


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StorageError(f"{path} is no regular file; a knowledge base has no pipes, devices or folders there")
    return descriptor


def open_own(path: Path, flags: int = os.O_RDWR) -> int:
    """The same for a file that is to be written to: neither a link that leads to a file of somebody else, nor a file
    that has another name too, under which it belongs to a copy that is to stay as it is.
    """
    try:
        descriptor = open_regular(path, flags | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise StorageError(
                f"{path} is a symbolic link, and a knowledge base writes to no file that lies elsewhere; "
                "put the file itself there, or remove the link"
            ) from None
        raise
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise StorageError(
            f"{path} is a hard link to a file that has another name as well, which would change with it; "
            "put a copy of the file in its place"
        )
    return descriptor


def is_own(path: Path) -> bool:
    """Whether there is a regular file of this name, and no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checksum_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return checksum_of(file)


def checksum_of(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


# --- descriptors --------------------------------------------------------------------------------------------------


class OpenFile:
    """The descriptor of a file that this process alone has open.

    It is closed by `close`, when nobody refers to it any more, and at the end of the program, after a `farewell` that
    gets the descriptor. Children that are forked close it at once: they would share its lock and its place otherwise,
    and keep both when this process is gone.
    """

    def __init__(self, path: Path, descriptor: int, farewell: Callable[[int], None] | None = None) -> None:
        self._path = path
        self._descriptor = descriptor
        self._end = weakref.finalize(self, _end, descriptor, farewell)
        _open_files.add(self)

    @property
    def descriptor(self) -> int:
        """Never one that has been closed: the next file that anybody opens may have its number."""
        if not self._end.alive:
            raise StorageError(f"{self._path} has been closed")
        return self._descriptor

    @property
    def is_open(self) -> bool:
        return self._end.alive

    def close(self) -> None:
        self._end()

    def drop(self) -> None:
        """Close it without a farewell."""
        if self._end.detach() is not None:
            os.close(self._descriptor)


def _end(descriptor: int, farewell: Callable[[int], None] | None) -> None:
    try:
        if farewell is not None:
            farewell(descriptor)
    finally:
        os.close(descriptor)


_open_files: weakref.WeakSet[OpenFile] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for file in list(_open_files):
        file.drop()


os.register_at_fork(after_in_child=_leave_all_to_parent)
