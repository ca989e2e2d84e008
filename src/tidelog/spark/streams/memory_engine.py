"""The engine `memory`: one knowledge base on the driver, with a journal, which applies batches in a thread.

A batch is taken in as soon as it is in the inbox. So Spark reads batch k + 1 while batch k is being applied, and the
facts that batch k + 1 deletes are marked ahead (`KnowledgeBase.stream`). An update, the number of its batch and how
much of that is done are one record of the journal. The changes of a batch go to the sink afterwards, and only then does
the batch leave the inbox; if they were lost, opening the journal yields them again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, Queue

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import TidelogError
from tidelog.facts.results import Change
from tidelog.formats import Update
from tidelog.live.update_sources import UpdateMapping
from tidelog.spark.streams.inbox import Inbox
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Batch, Note, Piece
from tidelog.spark.streams.stream_engine import OnBatch, StreamEngine
from tidelog.spark.streams.update_records import Entry

# So many batches may wait in the inbox before a source has to wait.
MOST_WAITING = 4

# After so many batches a snapshot is taken and the journal begins anew.
SNAPSHOT_EVERY = 1000


class MemoryEngine(StreamEngine):
    """Takes batches in, and applies them in a thread."""

    def __init__(
        self,
        folder: Path,
        begin: Callable[[], KnowledgeBase],
        sink: Sink,
        quarantine: Quarantine,
        parse: Callable[[str], Update],
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
        self._replayed: tuple[list[Note], list[Change]] = [], []

    def start(self) -> None:
        if not (self._home / "CURRENT").exists():
            self._begin().save(self._home)
        self.kb = KnowledgeBase.open(self._home, journal=True, on_replay=self._remember)
        self._resume()
        self._worker = threading.Thread(target=self._work, name="tidelog stream", daemon=True)
        self._worker.start()

    # ── what an earlier run left ─────────────────────────────────────────────────────────────────────────────────────

    def _remember(self, note: Note, change: Change) -> None:
        notes, changes = self._replayed
        if notes and notes[-1]["batch"] != note["batch"]:
            notes.clear()
            changes.clear()
        notes.append(note)
        changes.append(change)

    def _resume(self) -> None:
        """Queue the batches in the inbox; the first one may be half done."""
        notes, changes = self._replayed
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
        self._replayed = [], []

    # ── taking in ────────────────────────────────────────────────────────────────────────────────────────────────────

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

    # ── applying ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        try:
            self._apply_all()
        except BaseException as problem:
            self._failure = problem

    def _apply_all(self) -> None:
        pieces = _Pieces(self._arrivals)
        changes = self.kb.stream(pieces)
        finished = 0
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
                self._finish(batch)
                self._room.release()
                finished += 1
                if finished % SNAPSHOT_EVERY == 0:
                    self.kb.save(self._home)

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
