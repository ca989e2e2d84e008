"""One writer at a time: a lock on a folder, which the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tidelog.errors import StorageError
from tidelog.storage.files import storage_errors

NAME = "LOCK"

# Somebody who only reads or saves holds the lock for a moment: worth a short wait.
PATIENCE = 0.5


class FolderLock:
    """A lock on a folder, held until `release`: exclusive for who writes, shared for who reads."""

    def __init__(self, folder: Path, exclusive: bool) -> None:
        self._folder = folder
        self._exclusive = exclusive
        # Who only reads can do so where nothing can be written.
        access = os.O_RDWR if exclusive else os.O_RDONLY
        with storage_errors("lock", folder):
            self._file = os.open(folder / NAME, access | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._acquire(fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            self._check_place()
            if exclusive:
                self._sign()
        except BaseException:
            os.close(self._file)
            raise

    def _acquire(self, kind: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._file, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"{self._folder} is in use by {self._holder()}; close the knowledge base there and try again"
                    ) from None
                time.sleep(0.02)

    def _check_place(self) -> None:
        """Whoever held the lock before may have removed the folder, and the lock with it."""
        with storage_errors("lock", self._folder):
            if not os.path.samestat(os.fstat(self._file), os.stat(self._folder / NAME)):
                raise StorageError(f"{self._folder} was removed and made again while it was being locked; try again")

    def is_in_place(self) -> bool:
        """Whether those who come would find this lock: nobody has removed it, or moved its folder away."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._folder / NAME))
        except OSError:
            return False

    def _sign(self) -> None:
        """Leave word of who holds the lock, for those who are kept out: a courtesy, for which the disk may be full."""
        holder = {"pid": os.getpid(), "host": platform.node(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(holder).encode(), 0)

    def _holder(self) -> str:
        try:
            holder = json.loads(os.pread(self._file, 4096, 0))
            return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
        except (ValueError, LookupError, TypeError):
            return "another process"

    def release(self) -> None:
        if self._exclusive:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
        os.close(self._file)

    def discard(self) -> None:
        """Remove the file of the lock, which is still held: its folder is to go."""
        with suppress(OSError):
            (self._folder / NAME).unlink()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
