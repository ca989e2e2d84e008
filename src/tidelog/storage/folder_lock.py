"""One writer at a time: a lock on a folder, which the operating system drops when its holder dies, however it dies.

The lock is on the file `LOCK`. It says who holds it, and which generations of snapshots are being written or removed
(`storage.home`): that identifies the leftovers of a crash, and nothing else is ever taken for ours. The file is never
truncated, and a file that somebody else has made is never written to.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import platform
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidelog.errors import StorageError
from tidelog.storage.durable_files import OpenFile, open_own, open_regular, storage_errors

NAME = "LOCK"

# Readers and savers hold the lock for a moment only: worth a short wait.
PATIENCE = 0.5

# How a lock of ours begins, and what it says.
_BEGINNING = b'{"pid": '
_FIELDS = {"pid", "host", "since", "generations"}
_LONGEST = 4096


class FolderLock:
    """A lock on a folder, held until `release` or until nothing refers to it: exclusive for a writer, shared for
    readers.
    """

    def __init__(self, folder: Path, file: OpenFile, created: bool) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._file = file
        self.created = created  # whether the file did not exist before
        # Generations that were being written or removed when the last holder stopped.
        self.left: frozenset[int] = frozenset()

    @classmethod
    def for_writing(cls, folder: Path) -> FolderLock:
        """An exclusive lock; the file is created where there is none."""
        with storage_errors("lock", folder):
            descriptor, created = _open_or_create(folder / NAME)
        lock = cls(folder, OpenFile(folder / NAME, descriptor, _sign_off), created)
        lock._acquire(fcntl.LOCK_EX)
        return lock

    @classmethod
    def for_reading(cls, folder: Path) -> FolderLock | None:
        """A shared lock; None where there is no file to lock, so nobody has written there since it was copied."""
        try:
            with storage_errors("lock", folder):
                # Reading works on read-only file systems, and through links as well.
                descriptor = open_regular(folder / NAME, os.O_RDONLY)
            lock = cls(folder, OpenFile(folder / NAME, descriptor), created=False)
            lock._acquire(fcntl.LOCK_SH)
        except StorageError as problem:
            if isinstance(problem.__cause__, FileNotFoundError):
                return None
            raise
        return lock

    def _acquire(self, kind: int) -> None:
        try:
            with storage_errors("lock", self._folder):
                self._wait_for(kind)
                if not self._is_same_file():  # The last holder may have removed the folder, and the lock with it.
                    raise StorageError(
                        f"{self._folder} was removed and made again while it was being locked; try again"
                    )
            self.left = _generations(_read(self._file.descriptor))
            if kind == fcntl.LOCK_EX:
                self.sign(self.left)
        except BaseException:
            self._file.drop()  # the file speaks of another holder
            raise

    def _wait_for(self, kind: int) -> None:
        deadline = time.monotonic() + PATIENCE
        looked = False
        while True:
            try:
                fcntl.flock(self._file.descriptor, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not looked:
                    # An unreachable knowledge base may still hold it.
                    looked = True
                    gc.collect()
                elif time.monotonic() > deadline:
                    raise StorageError(f"{self._folder} is in use by {self._holder()}") from None
                else:
                    time.sleep(0.02)

    def is_in_place(self) -> bool:
        """Whether others would find this lock: nobody has removed it, or moved its folder away."""
        try:
            return self._is_same_file()
        except OSError:
            return False

    def _is_same_file(self) -> bool:
        return os.path.samestat(os.fstat(self._file.descriptor), os.stat(self._path))

    # --- what the file says -------------------------------------------------------------------------------------------

    def sign(self, generations: Iterable[int] = ()) -> None:
        """Say who holds the lock, for those who are kept out, and that only the generation that counts is left, and
        those given: a courtesy, so a full disk is no error.
        """
        with suppress(OSError):
            self._say(generations)

    def _say(self, generations: Iterable[int]) -> None:
        holder = {"pid": os.getpid(), "host": platform.node(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        _write(self._file.descriptor, {**holder, "generations": sorted(generations)})

    def note(self, generations: Iterable[int]) -> None:
        """Note, before they are written or removed, that these generations are ours, and that not all of them count."""
        with storage_errors("write", self._path):
            self._say(generations)
            os.fsync(self._file.descriptor)
        self.left = frozenset()

    def _holder(self) -> str:
        holder = _parsed(_read(self._file.descriptor))
        pid, host = holder.get("pid"), holder.get("host")
        if type(pid) is not int:
            return "another process; close the knowledge base there and try again"
        named = f"process {pid} on {host} (since {holder.get('since')})"
        if pid == os.getpid():
            return f"{named}, which is this one; close the knowledge base that has it open and try again"
        if host == platform.node() and not _is_alive(pid):
            return (
                f"a process that has it from {named}, which has ended; end that one too: `fuser {self._path}` names it"
            )
        return f"{named}; close the knowledge base there and try again"

    # --- the end ------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Remove the lock file while the lock is held: its folder will go, or had no such file before."""
        with suppress(OSError):
            self._path.unlink()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _open_or_create(path: Path) -> tuple[int, bool]:
    """A descriptor of the lock file, and whether the file is new."""
    while True:
        with suppress(FileExistsError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), True
        with suppress(FileNotFoundError):  # Removed in between: create one.
            descriptor = open_own(path)
            if _is_ours(_read(descriptor)):
                return descriptor, False
            os.close(descriptor)
            raise StorageError(
                f"{path} is no lock of tidelog, and is left as it is; move it away, or choose another folder"
            )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _is_ours(content: bytes) -> bool:
    """Whether a file holds what we write, complete or as a crash left it."""
    return not content.strip(b"\0") or (content.startswith(_BEGINNING) and _parsed(content).keys() <= _FIELDS)


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, _LONGEST, 0)


def _write(descriptor: int, content: dict[str, Any]) -> None:
    """Overwrite all that is there; trailing spaces mean nothing."""
    text = json.dumps(content).encode()
    os.pwrite(descriptor, text.ljust(min(os.fstat(descriptor).st_size, _LONGEST)), 0)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _generations(content: bytes) -> frozenset[int]:
    found = _parsed(content).get("generations")
    if not isinstance(found, list):
        return frozenset()
    return frozenset(number for number in found if type(number) is int and number > 0)


def _sign_off(descriptor: int) -> None:
    """Say that nobody holds the lock; what a crash left is still there until the next save."""
    with suppress(OSError):
        _write(descriptor, {"pid": None, "generations": sorted(_generations(_read(descriptor)))})
