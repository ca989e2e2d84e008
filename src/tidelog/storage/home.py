"""The folder of a saved knowledge base: generations of snapshot and journal, and `CURRENT`, which names the one that
counts.

    LOCK  CURRENT  snapshot-3/  journal-3.log

A save writes the next generation beside the present one, with an empty journal, and then replaces `CURRENT`: that
rename is the moment at which the new state counts. What `CURRENT` does not name is rubbish of a crash or of the last
save, and is swept away by the next one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.errors import StorageError, StorageWarning, warn
from tidelog.language.syntax import Rule
from tidelog.reason.interrupts import interruptible
from tidelog.reason.outcome import Request
from tidelog.storage.files import force_folder, replace_file, storage_errors
from tidelog.storage.image import Image
from tidelog.storage.journal import Contents, Journal, create_journal, read_journal
from tidelog.storage.lock import FolderLock
from tidelog.storage.record import Record, to_json
from tidelog.storage.snapshot import read_snapshot, write_snapshot
from tidelog.store.terms import Terms

CURRENT = "CURRENT"
FORMAT = "tidelog knowledge base"
VERSION = 1

_GENERATION = re.compile(r"(?:snapshot-(\d+)|journal-(\d+)\.log|CURRENT\.new)")


@dataclass(frozen=True, slots=True)
class Generation:
    """A snapshot, its journal, and the checksum of the snapshot's manifest."""

    number: int
    manifest: str

    def snapshot(self, folder: Path) -> Path:
        return folder / f"snapshot-{self.number}"

    def journal(self, folder: Path) -> Path:
        return folder / f"journal-{self.number}.log"


def read_current(folder: Path) -> Generation:
    """The generation that counts."""
    path = folder / CURRENT
    if not path.exists():
        raise StorageError(f"there is no saved knowledge base in {folder}: write one there with kb.save")
    try:
        with storage_errors("read", path):
            content: dict[str, Any] = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise StorageError(f"{path} is not of a tidelog knowledge base")
        if content["version"] > VERSION:
            raise StorageError(
                f"{folder} was saved by a newer tidelog (format {content['version']}, here up to {VERSION}): upgrade"
            )
        return Generation(int(content["generation"]), str(content["manifest"]))
    except (ValueError, LookupError, TypeError) as problem:
        raise StorageError(f"{path} is damaged; restore it from a copy: {problem!r}") from problem


def _write_current(folder: Path, generation: Generation) -> None:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "generation": generation.number,
        "manifest": generation.manifest,
    }
    replace_file(folder / CURRENT, json.dumps(content, indent=1).encode())


def _next_number(folder: Path) -> int:
    matches = [_GENERATION.fullmatch(name) for name in os.listdir(folder)]
    numbers = [int(match[1] or match[2] or 0) for match in matches if match]
    return max(numbers, default=0) + 1


def _sweep(folder: Path, kept: Generation | None) -> None:
    """Remove what does not count; what cannot be removed now will be by the next save."""
    names = {kept.snapshot(folder).name, kept.journal(folder).name} if kept else set()
    for name in os.listdir(folder):
        if _GENERATION.fullmatch(name) and name not in names:
            path = folder / name
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_generation(folder: Path, image: Image) -> Generation:
    """Let an image be what the folder holds. The caller has the lock. Where it fails, the folder holds what it held."""
    with storage_errors("write", folder):
        present = read_current(folder) if (folder / CURRENT).exists() else None
        _sweep(folder, present)
        number = _next_number(folder)
    try:
        draft = Generation(number, "")
        generation = Generation(number, interruptible(write_snapshot, draft.snapshot(folder), image))
        create_journal(generation.journal(folder))
        with storage_errors("write", folder):
            _write_current(folder, generation)
    except BaseException:
        # Where even the new CURRENT is in place, the new generation counts and stays.
        with suppress(StorageError, OSError):
            _sweep(folder, read_current(folder) if (folder / CURRENT).exists() else None)
        raise
    _sweep(folder, generation)
    return generation


def save_image(folder: Path, image: Image) -> None:
    """Save into a folder that nobody has open. Where it fails, folders that were made for it are gone again."""
    with storage_errors("write", folder):
        fresh = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with storage_errors("write", folder):
            folder.mkdir(parents=True, exist_ok=True)
            force_folder(folder.parent)
        with FolderLock(folder, exclusive=True) as lock:
            _write_or_discard(folder, image, lock if fresh else None)
    except BaseException:
        for path in fresh:
            with suppress(OSError):
                path.rmdir()
        raise


def _write_or_discard(folder: Path, image: Image, lock: FolderLock | None) -> None:
    """Write a generation; where that fails, remove the lock that is given."""
    try:
        write_generation(folder, image)
    except BaseException:
        if lock is not None and not (folder / CURRENT).exists():
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


def warn_of_functions(names: Iterable[str]) -> None:
    """Say which Python functions must be registered before facts that they see change."""
    listed = ", ".join(f"`{name}`" for name in names)
    advice = "pass them to open as `functions`, or register them before the next update"
    warn(f"rules call {listed}, and functions are not saved: {advice}", StorageWarning)


def read_image(folder: Path) -> tuple[Image, list[bytes]]:
    """What a folder holds: a snapshot, and the updates since."""
    _require(folder)
    with FolderLock(folder, exclusive=False):
        image, contents = _read_generation(folder, read_current(folder))
    return image, contents.payloads


def _require(folder: Path) -> None:
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}: write a knowledge base there with kb.save")


class Home:
    """A folder that is open for writing: locked, with a journal that takes each update."""

    def __init__(self, folder: Path) -> None:
        _require(folder)
        self.folder = folder.resolve()
        self._process = os.getpid()
        self._prefixes: dict[str, str] = {}
        self._lock: FolderLock | None = FolderLock(self.folder, exclusive=True)
        try:
            self._generation = read_current(folder)
            self.image, contents = _read_generation(folder, self._generation)
            self.payloads = contents.payloads
            self._journal = Journal(self._generation.journal(folder), contents)
        except BaseException:
            self._lock.release()
            raise

    def begin(self, prefixes: Mapping[str, str]) -> None:
        """From now on updates are recorded; these prefixes are declared already."""
        self._prefixes = dict(prefixes)
        self.payloads.clear()

    def record(
        self,
        terms: Terms,
        request: Request,
        removed: tuple[Rule, ...],
        prefixes: Mapping[str, str],
        commit: Mapping[str, str],
    ) -> None:
        """Make an update durable, unless it asks for nothing. `removed` are the rules that the request takes out."""
        self._check()
        declared = {} if prefixes == self._prefixes else dict(prefixes)
        record = Record(request.add, request.delete, request.add_rules, removed, declared, commit)
        if record != Record():
            self._journal.append(to_json(record, terms))
            self._prefixes.update(declared)

    def save(self, image: Image) -> None:
        """A new snapshot, and an empty journal after it."""
        self._check()
        try:
            generation = write_generation(self.folder, image)
            path = generation.journal(self.folder)
            journal = Journal(path, read_journal(path))
        except BaseException:
            # Whatever failed after the new snapshot came to count: updates must not go to the old journal.
            with suppress(StorageError):
                if read_current(self.folder) != self._generation:
                    self.close()
            raise
        self._journal.close()
        self._generation, self._journal = generation, journal

    def _check(self) -> None:
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

    def close(self) -> None:
        if self._lock is not None:
            self._journal.close()
            self._lock.release()
            self._lock = None
