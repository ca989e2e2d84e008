"""Metrics of a stream: updates per second, latency, backlog, facts that came and went, work by kind.

They are a file in the checkpoint that is replaced after each batch, for `tidelog pipeline status` and other readers.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tidelog.errors import DataError

# Seconds over which rates are taken.
WINDOW = 10.0


@dataclass
class Outcome:
    """The outcome of a batch: records taken, facts that came and went, records refused, work by kind."""

    records: int
    added: int
    removed: int
    refused: int
    work: Mapping[str, int]


@dataclass
class Totals:
    """Sums since the last start of the stream."""

    batches: int = 0
    updates: int = 0
    refused: int = 0
    added: int = 0
    removed: int = 0
    work: dict[str, int] = field(default_factory=dict)


@dataclass
class View:
    """The metrics as they are shown."""

    batch: int
    updates_per_second: float
    latency: float
    slowest: float
    backlog: Mapping[str, int]
    state: Mapping[str, int]
    totals: Totals
    running: bool
    at: float

    def lines(self) -> list[str]:
        totals = self.totals
        work = ", ".join(f"{kind} {count:,}" for kind, count in sorted(totals.work.items()) if count)
        waiting = ", ".join(f"{count:,} {what}" for what, count in self.backlog.items()) or "nothing"
        return [
            f"batch {self.batch}, {'running' if self.running else 'stopped'}",
            f"{totals.updates:,} updates in {totals.batches:,} batches, {self.updates_per_second:,.0f}/s lately",
            f"latency {self.latency:.2f} s, at most {self.slowest:.2f} s",
            f"waiting: {waiting}",
            *(
                [f"state: {self.state['shards']:,} shards of keys, {self.state['bytes'] / 1e6:,.1f} MB"]
                if self.state
                else []
            ),
            f"facts: {totals.added:,} came, {totals.removed:,} went; {totals.refused:,} records refused",
            f"work: {work or 'none'}",
        ]


class Metrics:
    """Counts batches as they are finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._totals = Totals()
        self._recent: deque[tuple[float, int, float]] = deque()
        self._slowest = 0.0
        self._batch = -1
        self._arrived: dict[int, float] = {}
        self.backlog: dict[str, int] = {}
        self.state: dict[str, int] = {}

    def arrived(self, batch: int) -> None:
        """Note that Spark has handed a batch over."""
        self._arrived[batch] = time.monotonic()

    def finished(self, batch: int, outcome: Outcome) -> None:
        """Note that the changes of a batch are in the sink."""
        now = time.monotonic()
        latency = now - self._arrived.pop(batch, now)
        self._slowest = max(self._slowest, latency)
        self._batch = max(self._batch, batch)
        self._recent.append((now, outcome.records, latency))
        totals = self._totals
        totals.batches += 1
        totals.updates += outcome.records
        totals.added += outcome.added
        totals.removed += outcome.removed
        totals.refused += outcome.refused
        totals.work = dict(Counter(totals.work) + Counter(outcome.work))
        self.publish(running=True)

    def view(self, running: bool) -> View:
        now = time.monotonic()
        while len(self._recent) > 2 and self._recent[0][0] < now - WINDOW:
            self._recent.popleft()
        return View(
            self._batch,
            self._rate(),
            self._recent[-1][2] if self._recent else 0.0,
            self._slowest,
            dict(self.backlog),
            dict(self.state),
            self._totals,
            running,
            time.time(),
        )

    def _rate(self) -> float:
        """Updates between the first and the last of the recent batches."""
        if len(self._recent) < 2:
            return 0.0
        seconds = self._recent[-1][0] - self._recent[0][0]
        return sum(updates for _, updates, _ in list(self._recent)[1:]) / seconds if seconds else 0.0

    def publish(self, running: bool) -> View:
        """Write the file for other readers. It is not forced to the disk, since nobody needs it after a crash."""
        view = self.view(running)
        beside = self._path.with_name(f".{self._path.name}-{os.getpid()}")
        beside.write_text(json.dumps(asdict(view), indent=1), encoding="utf-8")
        beside.replace(self._path)
        return view


def read_view(path: Path) -> View:
    """The latest metrics of a stream, which may run in another process."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there are no metrics in {path.parent}: the stream has not run yet") from None
    return View(**{**found, "totals": Totals(**found["totals"])})
