"""The engine `spark`: a materialisation in Parquet that each batch moves on by a version (`Materialisation.update`).

The number of the batch and how much of it is done are part of the version's manifest, and a version keeps what it
changed. A batch that comes again after a crash finds the versions that it made, takes their changes for its own, and
does what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidelog.formats import Update
from tidelog.formats.updates import Facts
from tidelog.spark.maintain.materialisation import Materialisation
from tidelog.spark.options import Options
from tidelog.spark.stored.spark_change import Collected
from tidelog.spark.stored.version_history import History
from tidelog.spark.streams.metrics import Outcome
from tidelog.spark.streams.sink import Quarantine, Sink, changed_facts, net_facts
from tidelog.spark.streams.stream_batches import Batch, apply_batch
from tidelog.spark.streams.update_records import Entry

# Versions that stay readable behind the one that a finished batch made.
KEPT_VERSIONS = 10


class SparkStreamEngine:
    """Applies each batch exactly once, and writes each of their changes exactly once."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        program: str,
        facts: Callable[[], Facts],
        options: Options,
        sink: Sink,
        quarantine: Quarantine,
        parse: Callable[[str], Update],
        on_batch: Callable[[int, Outcome], None] = lambda *_: None,
    ) -> None:
        self._sink, self._quarantine, self._parse, self._on_batch = sink, quarantine, parse, on_batch
        if History(folder.absolute()).current() is None:
            Materialisation.create(spark, str(folder), program, facts(), options)
        self.made = Materialisation.open(spark, str(folder), options)

    @property
    def last(self) -> int:
        """The last batch of which anything was applied."""
        return int(self.made.commit_info.get("batch", -1))

    def take(self, number: int, entries: Sequence[Entry]) -> None:
        """Work a batch off; where it came before, only what is left of that."""
        if number < self.last or not entries:
            return
        batch = Batch(number, entries, self._parse)
        if number == self.last:
            made = self._versions_of(number)
            batch.resume([one.commit_info for one in made], [one.collected for one in made])
        if not batch.is_done:
            apply_batch(batch, self._update)
        facts = net_facts([list(changed_facts(change)) for change in batch.changes])
        self._sink.write(number, facts)
        self._quarantine.write(number, batch.refused)
        self.made.vacuum(keep=KEPT_VERSIONS)
        added = sum(fact.op == "added" for fact in facts)
        work = dict(batch.work)
        self._on_batch(number, Outcome(batch.size, added, len(facts) - added, len(batch.refused), work))

    def _update(self, update: dict[str, Any]) -> Collected:
        self.made.update(**update)
        return self.made.collected

    def _versions_of(self, number: int) -> list[Materialisation]:
        """The versions that a batch made, the oldest first."""
        versions = (self.made.at(version) for version in reversed(self.made.versions))
        return list(takewhile(lambda one: one.commit_info.get("batch") == str(number), versions))[::-1]
