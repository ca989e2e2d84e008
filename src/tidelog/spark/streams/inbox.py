"""Batches that were taken in but not yet applied: a file for each, so that a source need not wait for the work.

A batch is here from the moment when Spark may forget it until its changes are in the sink.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tidelog.errors import StorageError
from tidelog.spark.streams.update_records import Entry
from tidelog.storage.durable_files import force_folder, replace_file, storage_errors
from tidelog.values import is_unicode

_NAME = re.compile(r"(\d+)\.json")


def _entry(place: object, body: object, fault: object = "") -> Entry:
    """A record as it was put; batches of an earlier version have no faults."""
    if isinstance(place, str) and isinstance(body, str) and isinstance(fault, str) and is_unicode(place + body + fault):
        return Entry(place, body, fault)
    raise TypeError("a record is made of texts")


class Inbox:
    """A folder of batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def batches(self) -> list[int]:
        """The waiting batches, in order."""
        if not self._folder.is_dir():
            return []
        with storage_errors("read", self._folder):
            return sorted(int(found[1]) for path in self._folder.iterdir() if (found := _NAME.fullmatch(path.name)))

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"

    def put(self, batch: int, entries: Sequence[Entry]) -> None:
        content = json.dumps([[entry.place, entry.body, entry.fault] for entry in entries])
        with storage_errors("write", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path(batch), content.encode())

    def get(self, batch: int) -> list[Entry]:
        with storage_errors("read", self._folder):
            content = self._path(batch).read_bytes()
        try:
            return [_entry(*record) for record in json.loads(content)]
        except (ValueError, TypeError, RecursionError) as problem:
            raise StorageError(f"{self._path(batch)} holds no batch ({problem}); restore the folder") from None

    def remove(self, batch: int) -> None:
        with storage_errors("write", self._folder):
            self._path(batch).unlink(missing_ok=True)
            force_folder(self._folder)
