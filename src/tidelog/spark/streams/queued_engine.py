"""Engines that apply batches in a thread. What is taken in waits in a folder: a source need not wait for the work.

A batch is taken in as soon as it is in the inbox. So Spark reads batch k + 1 while batch k is being applied, and who
applies batch k can look ahead, at what batch k + 1 deletes. The changes of a batch go to the sink afterwards, and only
then does the batch leave the inbox; if they were lost, the engine that committed them yields them again.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tidelog.errors import StorageError, TidelogError
from tidelog.live.update_sources import UpdateMapping
from tidelog.spark.streams.intake import Parse
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Batch, Note, OnBatch, Piece, StreamEngine
from tidelog.spark.streams.update_records import Entry
from tidelog.storage.durable_files import force_folder, replace_file, storage_errors
from tidelog.values import is_unicode

# So many batches may wait in the inbox before a source has to wait.
MOST_WAITING = 4

_NAME = re.compile(r"(\d+)\.json")


class Inbox:
    """A folder of batches that were taken in but not yet applied: a source need not wait for the work.

    A batch is here from the moment when Spark may forget it until its changes are in the sink."""

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


def _entry(place: object, body: object, fault: object = "") -> Entry:
    """A record as it was put; batches of an earlier version have no faults."""
    if isinstance(place, str) and isinstance(body, str) and isinstance(fault, str) and is_unicode(place + body + fault):
        return Entry(place, body, fault)
    raise TypeError("a record is made of texts")


class QueuedEngine(StreamEngine):
    """Takes batches in, and applies them in a thread."""

    def __init__(self, inbox: Path, sink: Sink, quarantine: Quarantine, parse: Parse, on_batch: OnBatch) -> None:
        super().__init__(sink, quarantine, on_batch)
        self._parse = parse
        self._inbox = Inbox(inbox)
        self._arrivals: Queue[Batch | None] = Queue()
        self._room = threading.Semaphore(MOST_WAITING)
        self._failure: BaseException | None = None

    def _open(self) -> tuple[Sequence[Note], Sequence[Any]]:
        """Begin, or continue; returns the notes that were committed for the last batch, and the changes with them."""
        raise NotImplementedError

    def _changes(self, pieces: Pieces) -> Iterator[Any]:
        """Apply pieces, each with its note; an iterator of changes that goes on after a piece that was refused."""
        raise NotImplementedError

    def _settle(self, finished: int) -> None:
        """Tidy up; called after each batch, with the number of those finished so far."""

    def _end(self) -> None:
        """End, when all that was taken in is applied; or, if that failed, what is left to do in any case."""

    def start(self) -> None:
        notes, changes = self._open()
        self._resume(notes, changes)
        self._worker = threading.Thread(target=self._work, name="tidelog stream", daemon=True)
        self._worker.start()

    def _resume(self, notes: Sequence[Note], changes: Sequence[Any]) -> None:
        """Queue the batches in the inbox; the first one may be half done."""
        self.last = int(notes[-1]["batch"]) if notes else -1
        for number in self._inbox.batches:
            batch = Batch(number, self._inbox.get(number), self._parse)
            if number == self.last:
                batch.resume(notes, changes)
            if batch.is_done:
                self._finish(batch)
            else:
                self._room.acquire(blocking=False)
                self._arrivals.put(batch)
            self.last = max(self.last, number)

    def take(self, number: int, entries: Sequence[Entry]) -> None:
        """Take a batch in, unless it came before, once there is room for it; it is safe when this returns."""
        if number <= self.last or not entries:
            return
        while not self._room.acquire(timeout=0.1):
            self._check()
        self._check()
        self._inbox.put(number, entries)
        self.last = number
        self._arrivals.put(Batch(number, entries, self._parse))

    @property
    def waiting(self) -> int:
        return len(self._inbox.batches)

    def close(self) -> None:
        """Apply what was taken in."""
        self._arrivals.put(None)
        self._worker.join()
        try:
            self._check()
        finally:
            self._end()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            for finished, batch in enumerate(self._applied(), 1):
                self._finish(batch)
                self._room.release()
                self._settle(finished)
        except BaseException as problem:
            self._failure = problem

    def _applied(self) -> Iterator[Batch]:
        """Each batch once all of it is committed."""
        pieces = Pieces(self._arrivals)
        changes = self._changes(pieces)
        while True:
            try:
                change = next(changes, None)
            except TidelogError as problem:
                pieces.replace(pieces.current.without_culprit(problem))
                continue
            if change is None:
                return
            batch = pieces.current.batch
            batch.committed(pieces.current.end, change)
            if batch.is_done:
                yield batch

    def _finish(self, batch: Batch) -> None:
        """Write what a batch changed, and only then remove it from the inbox."""
        super()._finish(batch)
        self._inbox.remove(batch.number)


class Pieces:
    """The pieces of batches as a source of updates for a stream."""

    current: Piece

    def __init__(self, arrivals: Queue[Batch | None]) -> None:
        self._arrivals = arrivals
        self._pieces: deque[Piece] = deque()
        self._ended = False

    def take(self) -> UpdateMapping | None:
        while not self._pieces and not self._ended:
            self._receive(self._arrivals.get())
        if not self._pieces:
            return None
        self.current = self._pieces.popleft()
        return self.current.with_note()

    def peek(self, place: int = 0) -> UpdateMapping | None:
        with suppress(Empty):
            while place >= len(self._pieces) and not self._ended:
                self._receive(self._arrivals.get_nowait())
        return self._pieces[place].update if place < len(self._pieces) else None

    def _receive(self, batch: Batch | None) -> None:
        self._ended = batch is None
        if batch is not None:
            self._pieces.extend(batch.pieces())

    def replace(self, pieces: Sequence[Piece]) -> None:
        """Put these next, in place of the current one."""
        self._pieces.extendleft(reversed(pieces))
