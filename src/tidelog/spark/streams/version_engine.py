"""The engine `spark`: a materialisation in Parquet that each batch moves on by a version (`Materialisation.update`).

The number of the batch and how much of it is done are part of the version's manifest, and a version keeps its changes.
When a batch comes again after a crash, its changes so far are those of the versions that it made, and only the rest of
it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from tidelog.spark.maintain.materialisation import Materialisation
from tidelog.spark.stored.version_reader import Collected
from tidelog.spark.streams.intake import Parse
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Batch, OnBatch, StreamEngine, apply_batch
from tidelog.spark.streams.update_records import Entry

# Versions that stay readable behind the one that a finished batch made.
KEPT_VERSIONS = 10


class VersionEngine(StreamEngine):
    """Applies each batch as one or more versions of the materialisation that `begin` opens or creates."""

    made: Materialisation

    def __init__(
        self, begin: Callable[[], Materialisation], sink: Sink, quarantine: Quarantine, parse: Parse, on_batch: OnBatch
    ) -> None:
        super().__init__(sink, quarantine, on_batch)
        self._begin = begin
        self._parse = parse

    def start(self) -> None:
        self.made = self._begin()

    def take(self, number: int, entries: Sequence[Entry]) -> None:
        """Apply a batch; if it came before, only the rest of it."""
        last = int(self.made.commit_info.get("batch", -1))
        if number < last or not entries:
            return
        batch = Batch(number, entries, self._parse)
        if number == last:
            made = self._versions_of(number)
            batch.resume([one.commit_info for one in made], [one.collected for one in made])
        if not batch.is_done:
            apply_batch(batch, self._update)
        self._finish(batch)
        self.made.vacuum(keep=KEPT_VERSIONS)

    def _update(self, update: dict[str, Any]) -> Collected:
        self.made.update(**update)
        return self.made.collected

    def _versions_of(self, number: int) -> list[Materialisation]:
        """The versions that a batch made, the oldest first."""
        versions = (self.made.at(version) for version in reversed(self.made.versions))
        return list(takewhile(lambda one: one.commit_info.get("batch") == str(number), versions))[::-1]
