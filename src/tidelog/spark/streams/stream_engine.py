"""What the engines of streams have in common: they take batches, and write the changes of each batch once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.spark.streams.metrics import Outcome
from tidelog.spark.streams.sink import Quarantine, Sink, changed_facts, net_facts
from tidelog.spark.streams.stream_batches import Batch

OnBatch = Callable[[int, Outcome], None]
"""Is told of each batch that is in the sink, and what it came to."""


class StreamEngine:
    """Applies each batch exactly once, and writes its changes exactly once."""

    def __init__(self, sink: Sink, quarantine: Quarantine, on_batch: OnBatch) -> None:
        self._sink = sink
        self._quarantine = quarantine
        self._on_batch = on_batch

    @property
    def waiting(self) -> int:
        """How many batches are taken in and not yet applied."""
        return 0

    def start(self) -> None:
        """Begin, or continue where an earlier run ended."""

    def take(self, number: int, rows: Any) -> None:
        """Take a batch, which may have come before; it is safe when this returns."""
        raise NotImplementedError

    def close(self) -> None:
        """Apply what was taken in, and end."""

    def _finish(self, batch: Batch) -> None:
        """Write the changes of a batch to the sink, and what was refused to quarantine."""
        facts = net_facts([changed_facts(change) for change in batch.changes])
        self._sink.write(batch.number, facts)
        self._quarantine.write(batch.number, batch.refused)
        added = sum(fact.op == "added" for fact in facts)
        outcome = Outcome(batch.size, added, len(facts) - added, len(batch.refused), dict(batch.work))
        self._on_batch(batch.number, outcome)
