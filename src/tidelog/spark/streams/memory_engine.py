"""The engine `memory`: one knowledge base on the driver, with a journal.

An update, the number of its batch and how much of that is done are one record of the journal. While a batch is applied,
the facts that the next one deletes are marked (`KnowledgeBase.stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.facts.results import Change
from tidelog.spark.streams.intake import Parse
from tidelog.spark.streams.queued_engine import Pieces, QueuedEngine
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Note, OnBatch

# After so many batches a snapshot is taken and the journal begins anew.
SNAPSHOT_EVERY = 1000


class MemoryEngine(QueuedEngine):
    """Applies batches to the knowledge base that `begin` makes, or that an earlier run left in the folder."""

    def __init__(
        self,
        folder: Path,
        begin: Callable[[], KnowledgeBase],
        sink: Sink,
        quarantine: Quarantine,
        parse: Parse,
        on_batch: OnBatch = lambda *_: None,
    ) -> None:
        super().__init__(folder / "inbox", sink, quarantine, parse, on_batch)
        self._begin = begin
        self._home = folder / "kb"

    def _open(self) -> tuple[Sequence[Note], Sequence[Change]]:
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
        # A snapshot is taken between two batches, and begins an empty journal: the last batch is done.
        if not notes and self.kb.commit_info:
            notes.append(self.kb.commit_info)
        return notes, changes

    def _changes(self, pieces: Pieces) -> Iterator[Change]:
        return self.kb.stream(pieces)

    def _settle(self, finished: int) -> None:
        if finished % SNAPSHOT_EVERY == 0:
            self.kb.save(self._home)

    def _end(self) -> None:
        """Leave a snapshot to the next start."""
        try:
            if self._failure is None:
                self.kb.save(self._home)
        finally:
            self.kb.close()
