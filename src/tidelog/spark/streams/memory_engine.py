"""The engine `memory`: one knowledge base on the driver, with a journal, which applies batches in a thread.

A batch is taken in as soon as it is in the inbox. So Spark reads batch k + 1 while batch k is being applied, and the
facts that batch k + 1 deletes are marked ahead (`KnowledgeBase.stream`). An update, the number of its batch and how
much of that is done are one record of the journal. The changes of a batch go to the sink afterwards, and only then does
the batch leave the inbox; if they were lost, opening the journal yields them again.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, Queue

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import StorageError, TidelogError
from tidelog.facts.results import Change
from tidelog.live.update_sources import UpdateMapping
from tidelog.spark.streams.intake import Parse
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Batch, Note, OnBatch, Piece, StreamEngine
from tidelog.spark.streams.update_records import Entry
from tidelog.storage.durable_files import force_folder, replace_file, storage_errors
from tidelog.values import is_unicode

# So many batches may wait in the inbox before a source has to wait.
MOST_WAITING = 4

# After so many batches a snapshot is taken and the journal begins anew.
SNAPSHOT_EVERY = 1000

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


class MemoryEngine(StreamEngine):
    """Takes batches in, and applies them in a thread."""

    def __init__(
        self,
        folder: Path,
        begin: Callable[[], KnowledgeBase],
        sink: Sink,
        quarantine: Quarantine,
        parse: Parse,
        on_batch: OnBatch = lambda *_: None,
    ) -> None:
        super().__init__(sink, quarantine, on_batch)
        self._begin = begin
        self._parse = parse
        self._home = folder / "kb"
        self._inbox = Inbox(folder / "inbox")
        self._arrivals: Queue[Batch | None] = Queue()
        self._room = threading.Semaphore(MOST_WAITING)
        self._failure: BaseException | None = None

    def start(self) -> None:
        if not (self._home / "CURRENT").exists():
            self._begin().save(self._home)
        notes: list[Note] = []
        changes: list[Change] = []

        def remember(note: Note, change: Change) -> None:
            """Keep what the journal holds of the last batch."""
            if notes and notes[-1]["batch"] != note["batch"]:
                notes.clear()
                changes.clear()
            notes.append(note)
            changes.append(change)

        self.kb = KnowledgeBase.open(self._home, journal=True, on_replay=remember)
        self._resume(notes, changes)
        self._worker = threading.Thread(target=self._work, name="tidelog stream", daemon=True)
        self._worker.start()

    def _resume(self, notes: Sequence[Note], changes: Sequence[Change]) -> None:
        """Queue the batches in the inbox; the first one may be half done."""
        self.last = int(self.kb.commit_info.get("batch", -1))
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
        """Apply what was taken in, and leave a snapshot to the next start."""
        self._arrivals.put(None)
        self._worker.join()
        try:
            self._check()
            self.kb.save(self._home)
        finally:
            self.kb.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            for finished, batch in enumerate(self._applied(), 1):
                self._finish(batch)
                self._room.release()
                if finished % SNAPSHOT_EVERY == 0:
                    self.kb.save(self._home)
        except BaseException as problem:
            self._failure = problem

    def _applied(self) -> Iterator[Batch]:
        """Each batch once all of it is committed."""
        pieces = _Pieces(self._arrivals)
        changes = self.kb.stream(pieces)
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


class _Pieces:
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

    def peek(self) -> UpdateMapping | None:
        if not self._pieces and not self._ended:
            try:
                self._receive(self._arrivals.get_nowait())
            except Empty:
                return None
        return self._pieces[0].update if self._pieces else None

    def _receive(self, batch: Batch | None) -> None:
        self._ended = batch is None
        if batch is not None:
            self._pieces.extend(batch.pieces())

    def replace(self, pieces: Sequence[Piece]) -> None:
        """Put these next, in place of the current one."""
        self._pieces.extendleft(reversed(pieces))
