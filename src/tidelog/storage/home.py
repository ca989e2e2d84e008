"""The folder of a saved knowledge base: generations of snapshot and journal, and `CURRENT`, which names the one that
counts.

    LOCK  CURRENT  snapshot-3/  journal-3.log

A save writes the next generation beside the present one, with an empty journal, and then replaces `CURRENT`: with that
rename the new state counts.

The folder may hold other people's files. So nothing is taken for ours because of its name alone: a save notes in `LOCK`
beforehand what it will write and remove, and a new generation gets a number that no file has. What the note names and
`CURRENT` does not is left over from a crash or from the last save, and the next save removes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.engine.image import Image
from tidelog.errors import StorageError, StorageWarning, warn
from tidelog.runtime.signals import interruptible
from tidelog.storage import folder_lock as locks
from tidelog.storage.checked_json import Item, to_text
from tidelog.storage.durable_files import create_file, force_folder, is_own, made_folder, read_file, storage_errors
from tidelog.storage.folder_lock import FolderLock
from tidelog.storage.journal import Contents, Decode, Journal, Record, create_journal, is_journal, read_journal, to_json
from tidelog.storage.snapshot_files import is_snapshot_file, read_snapshot, write_snapshot

CURRENT = "CURRENT"
FORMAT = "tidelog knowledge base"
VERSION = 2  # In version 1, the tables of snapshots are Parquet files.

# Nobody saves that often; after a number that somebody made up, numbers start again at 1.
_LAST = 2**62


@dataclass(frozen=True, slots=True)
class Generation:
    """A snapshot, its journal, and the checksum of the snapshot's manifest."""

    number: int
    manifest: str = ""

    def snapshot(self, folder: Path) -> Path:
        return folder / f"snapshot-{self.number}"

    def journal(self, folder: Path) -> Path:
        return folder / f"journal-{self.number}.log"


def read_current(folder: Path) -> Generation:
    """The generation that counts."""
    path = folder / CURRENT
    if not os.path.lexists(path):
        raise StorageError(f"there is no saved knowledge base in {folder}: write one there with kb.save")
    content = Item.of_json(read_file(path), path)
    if content.get("format") != FORMAT:
        raise StorageError(
            f"{path} is not of a tidelog knowledge base, and is left as it is; move it away, or choose another folder"
        )
    version = content["version"].integer(1)
    if version > VERSION:
        raise StorageError(f"{folder} was saved by a newer tidelog (format {version}, here up to {VERSION}): upgrade")
    return Generation(content["generation"].integer(1, _LAST), content["manifest"].text())


def _present(folder: Path) -> Generation | None:
    """The generation that counts, which a save replaces, if there is one. Files that are not ours are refused."""
    path = folder / CURRENT
    if not os.path.lexists(path):
        return None
    if not is_own(path):
        raise StorageError(f"{path} is no regular file, and is left as it is; move it away, or choose another folder")
    return read_current(folder)


def _write_current(folder: Path, generation: Generation) -> None:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "generation": generation.number,
        "manifest": generation.manifest,
    }
    # In the snapshot's folder, where everything is ours.
    draft = generation.snapshot(folder) / CURRENT
    create_file(draft, to_text(content))
    draft.replace(folder / CURRENT)
    force_folder(folder)


def _next_generation(folder: Path, after: int) -> Generation:
    """A generation of which no file exists, so that nobody's file is overwritten."""
    number = after
    while True:
        number = number + 1 if number < _LAST else 1
        generation = Generation(number)
        if not (os.path.lexists(generation.snapshot(folder)) or os.path.lexists(generation.journal(folder))):
            return generation


def _sweep_all_but(folder: Path, kept: Generation | None, numbers: Iterable[int]) -> None:
    """Remove our files of other generations; files that cannot be removed, and any others, stay."""
    for generation in map(Generation, numbers):
        if kept is not None and generation.number == kept.number:
            continue
        snapshot, journal = generation.snapshot(folder), generation.journal(folder)
        with suppress(OSError, StorageError):
            if is_own(journal) and is_journal(journal):
                journal.unlink()
        if snapshot.is_symlink():
            continue
        with suppress(OSError):
            for path in list(snapshot.iterdir()):
                if is_own(path) and (is_snapshot_file(path.name) or path.name == CURRENT):
                    path.unlink()
            snapshot.rmdir()


def write_generation(folder: Path, image: Image, lock: FolderLock) -> Generation:
    """Make an image the content of the folder. Where that fails, the folder keeps its content."""
    with storage_errors("write", folder):
        present = _present(folder)
        _sweep_all_but(folder, present, lock.left)
        draft = _next_generation(folder, present.number if present else 0)
        ours = {draft.number} | ({present.number} if present else set())
        lock.note(ours)
    try:
        generation = Generation(draft.number, interruptible(write_snapshot, draft.snapshot(folder), image))
        create_journal(generation.journal(folder))
        with storage_errors("write", folder):
            _write_current(folder, generation)
    except BaseException:
        # If the new CURRENT is already in place, the new generation counts and stays.
        with suppress(StorageError, OSError):
            _sweep_all_but(folder, _present(folder), ours)
            lock.sign()
        raise
    _sweep_all_but(folder, generation, ours)
    lock.sign()
    return generation


def save_image(folder: Path, image: Image) -> None:
    """Save into a folder that nobody has open. Where that fails, everything created for it is removed."""
    with made_folder(folder):
        with storage_errors("write", folder):
            _present(folder)  # refuses a folder of somebody else before anything is written there
        with FolderLock.for_writing(folder) as lock:
            try:
                write_generation(folder, image, lock)
            except BaseException:
                if lock.created and not os.path.lexists(folder / CURRENT):
                    lock.discard()
                raise


def _read_generation(folder: Path, generation: Generation) -> tuple[Image, Contents]:
    image = read_snapshot(generation.snapshot(folder), generation.manifest)
    contents = read_journal(generation.journal(folder))
    if contents.torn:
        warn(
            f"the last update in {generation.journal(folder)} was being written when its writer stopped; "
            "it never took place and is left out",
            StorageWarning,
        )
    return image, contents


def read_image(folder: Path) -> tuple[Image, list[bytes]]:
    """What a folder holds: a snapshot, and the updates since. Nothing is written, not even a lock."""
    require_folder(folder)
    while True:
        lock = FolderLock.for_reading(folder)
        try:
            image, contents = _read_generation(folder, read_current(folder))
        except StorageError:
            if lock is not None or not _has_lock(folder):
                raise
        else:
            if lock is not None or not _has_lock(folder):
                return image, contents.payloads
        finally:
            if lock is not None:
                lock.release()
        # A writer came in between, with its lock: try again.


def _has_lock(folder: Path) -> bool:
    """Whether there is a file to lock; a dangling link is none, and no writer creates one there."""
    return os.path.exists(folder / locks.NAME)


def is_home(folder: Path) -> bool:
    """Whether a path leads to the folder of a saved knowledge base."""
    return (folder / CURRENT).is_file()


def require_folder(folder: Path) -> None:
    """Refuse a path that leads to no folder."""
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}: write a knowledge base there with kb.save")


Waiting = Callable[[Callable[[], None]], None]
"""Calls something that takes as long as a disk does."""


def _wait_here(work: Callable[[], None]) -> None:
    work()


class Home:
    """A folder that is open for writing: locked, with a journal that takes each update."""

    def __init__(self, folder: Path, lock: FolderLock, generation: Generation, journal: Journal) -> None:
        self.folder = folder
        self.prefixes: dict[str, str] = {}  # that are declared already where records begin
        self._process = os.getpid()
        self._stamp: tuple[int, ...] = ()
        self._lock: FolderLock | None = lock
        self._generation = generation
        self._journal = journal

    @classmethod
    def open(cls, folder: Path) -> tuple[Home, Image, list[bytes]]:
        """Lock a folder, and read what it holds: a snapshot, and the updates since."""
        require_folder(folder)
        folder = folder.resolve()
        read_current(folder)  # fails before a lock file is created where nothing is saved
        lock = FolderLock.for_writing(folder)
        try:
            generation = read_current(folder)
            image, contents = _read_generation(folder, generation)
            journal = Journal(generation.journal(folder), contents)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, generation, journal), image, contents.payloads

    def record(self, record: Record, decode: Decode, waiting: Waiting = _wait_here) -> None:
        """Make an update durable, unless it asks for nothing. `decode` gives the constants of its facts, and `waiting`
        calls what waits for the disk.
        """
        self._check()
        if record.prefixes == self.prefixes:
            record = replace(record, prefixes={})
        if record != Record():
            payload = to_json(record, decode)
            waiting(lambda: self._journal.append(payload))
            self.prefixes.update(record.prefixes)

    @property
    def journal_bytes(self) -> int:
        """The length of the journal."""
        return self._journal.end

    def save(self, image: Image) -> None:
        """Write a new snapshot and start an empty journal."""
        lock = self._check()
        try:
            generation = write_generation(self.folder, image, lock)
            path = generation.journal(self.folder)
            journal = Journal(path, read_journal(path))
        except BaseException:
            # If the new snapshot counts already, updates must not go to the old journal.
            with suppress(StorageError):
                if read_current(self.folder) != self._generation:
                    self.close()
            raise
        self._journal.close()
        self._generation, self._journal = generation, journal

    def _check(self) -> FolderLock:
        """The lock, if we still hold it, the folder is unchanged, and our generation still counts."""
        if self._lock is None:
            raise StorageError(f"the knowledge base in {self.folder} has been closed; open it again to change it")
        if os.getpid() != self._process:
            raise StorageError(
                f"{self.folder} is open in process {self._process}, and this is a child of it; open a copy"
            )
        if not self._lock.is_in_place():
            raise StorageError(
                f"{self.folder} was moved or removed, or its lock was, and may have another writer; save elsewhere"
            )
        stamp: tuple[int, ...] = ()
        with suppress(OSError):
            found = os.stat(self.folder / CURRENT)
            stamp = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        # Read again only where the file has been replaced or written to.
        if stamp != self._stamp:
            if read_current(self.folder) != self._generation:
                raise StorageError(f"{self.folder} holds another state, which somebody else put there; save elsewhere")
            self._stamp = stamp
        return self._lock

    def close(self) -> None:
        if self._lock is not None:
            self._journal.close()
            self._lock.release()
            self._lock = None
