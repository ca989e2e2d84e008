"""The engine `spark`: a materialisation in Parquet that each batch moves on by a version (`Materialisation.update`).

The number of the batch and how much of it is done are part of the version's manifest, and a version keeps its changes.
After a crash, the changes of a batch so far are those of the versions that it made, and only the rest of it is applied.
While a batch is applied, the facts that the next one deletes are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from tidelog.spark.maintain.materialisation import Materialisation
from tidelog.spark.stored.version_reader import Collected
from tidelog.spark.streams.intake import Parse
from tidelog.spark.streams.queued_engine import Pieces, QueuedEngine
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Note, OnBatch

# Versions that stay readable behind the one that a finished batch made.
KEPT_VERSIONS = 10


class VersionEngine(QueuedEngine):
    """Applies each batch as one or more versions of the materialisation that `begin` opens or creates."""

    made: Materialisation

    def __init__(
        self,
        inbox: Path,
        begin: Callable[[], Materialisation],
        sink: Sink,
        quarantine: Quarantine,
        parse: Parse,
        on_batch: OnBatch,
    ) -> None:
        super().__init__(inbox, sink, quarantine, parse, on_batch)
        self._begin = begin

    def _open(self) -> tuple[Sequence[Note], Sequence[Collected]]:
        self.made = self._begin()
        batch = self.made.commit_info.get("batch")
        made = self._versions_of(batch) if batch else []
        return [one.commit_info for one in made], [one.collected for one in made]

    def _versions_of(self, batch: str) -> list[Materialisation]:
        """The versions that a batch made, the oldest first."""
        versions = (self.made.at(version) for version in reversed(self.made.versions))
        return list(takewhile(lambda one: one.commit_info.get("batch") == batch, versions))[::-1]

    def _changes(self, pieces: Pieces) -> Iterator[Collected]:
        return _Versions(self.made, pieces)

    def _settle(self, finished: int) -> None:
        self.made.vacuum(keep=KEPT_VERSIONS)


class _Versions(Iterator[Collected]):
    """The changes of pieces, each of which becomes a version. A generator would end with a piece that is refused."""

    def __init__(self, made: Materialisation, pieces: Pieces) -> None:
        self._made = made
        self._pieces = pieces

    def __next__(self) -> Collected:
        update = self._pieces.take()
        if update is None:
            raise StopIteration
        self._made.update(**update, ahead=self._pieces.peek)
        return self._made.collected
