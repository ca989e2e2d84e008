"""Files that survive a crash: written, forced to disk, and only then given their name. And files that are ours alone.

A rename within a folder is atomic, but it survives a crash only once the folder itself has been forced to disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from tidelog.errors import StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storage_errors(action: str, where: Path) -> Iterator[None]:
    """Turn errors of the file system into a `StorageError` that says what could not be done, where and why."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)
        if problem.errno in _FULL:
            reason = "the disk is full; make room and try again. What was there before is still there"
        raise StorageError(f"cannot {action} {where}: {reason}") from problem


def create_file(path: Path, content: bytes, mode: str = "xb") -> None:
    """Write a file that must not exist yet, unless `mode` says otherwise, and force it to disk."""
    with path.open(mode) as file:
        file.write(content)
        force(file)


def force(file: Any) -> None:
    """Force what was written to a file to disk."""
    file.flush()
    os.fsync(file.fileno())


def force_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder where there is none, and those that it lies in, with their names on disk, to write to it within.
    Where that fails, those that are new are removed again, as far as they are empty.
    """
    with storage_errors("write", folder):
        fresh = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with storage_errors("write", folder):
            folder.mkdir(parents=True, exist_ok=True)
            for path in fresh or [folder]:
                force_folder(path.parent)
        yield
    except BaseException:
        for path in fresh:
            with suppress(OSError):
                path.rmdir()
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file: after a crash it holds either the old or the new content."""
    beside = path.with_name(path.name + ".new")
    create_file(beside, content, mode="wb")
    beside.replace(path)
    force_folder(path.parent)


@contextmanager
def reading(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file: not a folder, nor a pipe or device, which might never end."""
    with storage_errors("read", path), os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        try:
            yield file
        except MemoryError as problem:
            raise StorageError(f"cannot read {path}: there is not enough memory for what it holds") from problem


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


def open_own(path: Path) -> int:
    """A descriptor of a file to write to: neither a link to somebody else's file, nor a file with a second name, under
    which it belongs to a copy that must not change.
    """
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
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
    """Whether there is a regular file of this name, not a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checksum_of(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


class OpenFile:
    """The descriptor of a file that this process alone has open.

    `close` closes it, and so does the end of its last reference or of the program. A `farewell`, if given, is called
    with the descriptor before. Forked children close it at once: otherwise they would share its lock and its position,
    and keep both after this process has ended.
    """

    def __init__(self, path: Path, descriptor: int, farewell: Callable[[int], None] | None = None) -> None:
        self._path = path
        self._descriptor = descriptor
        self._end = weakref.finalize(self, _end, descriptor, farewell)
        _open_files.add(self)

    @property
    def descriptor(self) -> int:
        """Refused once it is closed: the next file that anybody opens may get the same number."""
        if not self._end.alive:
            raise StorageError(f"{self._path} has been closed")
        return self._descriptor

    def close(self) -> None:
        self._end()

    def drop(self) -> None:
        """Close it without the farewell."""
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
