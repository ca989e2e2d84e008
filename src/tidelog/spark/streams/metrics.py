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
class Totals:
    """What a batch came to, or all batches since the last start of the stream: records taken and records refused, facts
    that came and went, work by kind.
    """

    batches: int = 0
    updates: int = 0
    refused: int = 0
    added: int = 0
    removed: int = 0
    work: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.batches + other.batches,
            self.updates + other.updates,
            self.refused + other.refused,
            self.added + other.added,
            self.removed + other.removed,
            dict(Counter(self.work) + Counter(other.work)),
        )


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
        lines = [
            f"batch {self.batch}, {'running' if self.running else 'stopped'}",
            f"{totals.updates:,} updates in {totals.batches:,} batches, {self.updates_per_second:,.0f}/s lately",
            f"latency {self.latency:.2f} s, at most {self.slowest:.2f} s",
            f"waiting: {waiting}",
        ]
        if self.state:
            counts = ", ".join(f"{count:,} {what} of keys" for what, count in self.state.items() if what != "bytes")
            lines.append(f"state: {counts}, {self.state['bytes'] / 1e6:,.1f} MB")
        lines.append(f"facts: {totals.added:,} came, {totals.removed:,} went; {totals.refused:,} records refused")
        return [*lines, f"work: {work or 'none'}"]


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

    def finished(self, batch: int, outcome: Totals) -> View:
        """Note that the changes of a batch are in the sink."""
        now = time.monotonic()
        latency = now - self._arrived.pop(batch, now)
        self._slowest = max(self._slowest, latency)
        self._batch = max(self._batch, batch)
        self._recent.append((now, outcome.updates, latency))
        self._totals += outcome
        return self.publish(running=True)

    def publish(self, running: bool) -> View:
        """Write the file for other readers. It is not forced to the disk, since nobody needs it after a crash."""
        while len(self._recent) > 2 and self._recent[0][0] < time.monotonic() - WINDOW:
            self._recent.popleft()
        times, updates, latencies = zip(*self._recent, strict=True) if self._recent else ((0.0,), (0,), (0.0,))
        seconds = times[-1] - times[0]
        rate = sum(updates[1:]) / seconds if seconds else 0.0
        state = dict(self.backlog), dict(self.state), self._totals
        view = View(self._batch, rate, latencies[-1], self._slowest, *state, running, time.time())
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
