"""Files that survive a crash: written, forced to the disk, and only then named.

A rename within a folder is atomic, but it is on the disk only once the folder itself has been forced there too.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
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


def write_file(path: Path, content: bytes) -> None:
    """Write a file and force it to the disk."""
    with path.open("wb") as file:
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


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checksum_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
