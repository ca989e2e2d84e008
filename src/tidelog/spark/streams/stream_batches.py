"""A batch that is being applied: its records, the pieces in which they are applied, how many are done, its engine.

All records between two changes of rules are one update, unless they say that they come at different times: of several
operations on a fact, the last one counts. If that update is refused, its records are applied half by half until the
culprit is found and left out. Every piece is committed together with a note that says how many records are done, and
which were left out since the last note. After a crash, the notes in the journal and the changes that it replays are all
that is needed to continue within a batch.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tidelog.errors import DataError, StorageError, TidelogError
from tidelog.formats import Update
from tidelog.spark.streams.intake import entries_of
from tidelog.spark.streams.metrics import Totals
from tidelog.spark.streams.sink import Quarantine, Sink, changed_facts, net_facts
from tidelog.spark.streams.spark_metrics import observe_records
from tidelog.spark.streams.update_records import Entry, come_together, net

Note = Mapping[str, str]

OnBatch = Callable[[int, Totals], None]
"""Is told of each batch that is in the sink, and what it came to."""


@dataclass
class Batch:
    """Records that came together. `changes` are those of its pieces so far, `done` counts the records behind them.

    `left_out` has the reasons of records that were refused, by place; `untold` those that no note has named yet."""

    number: int
    entries: Sequence[Entry]
    parse: Callable[[str], Update]
    done: int = 0
    changes: list[Any] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    untold: dict[int, str] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.done == len(self.entries)

    @property
    def refused(self) -> list[Entry]:
        """The records that were left out, in order."""
        reasons = {**self._read[1], **self.left_out}
        return [replace(self.entries[place], fault=reasons[place]) for place in sorted(reasons)]

    def resume(self, notes: Sequence[Note], changes: Sequence[Any]) -> None:
        """Continue after what an earlier run committed."""
        for note in notes:
            self.done = int(note["done"])
            self.left_out.update((place, reason) for place, reason in json.loads(note.get("refused", "[]")))
        self.changes.extend(changes)

    def pieces(self) -> Iterator[Piece]:
        """The pieces that are still to be applied."""
        parsed = self._read[0]
        runs: list[list[int]] = []
        for place, update in parsed.items():
            if place >= self.done:
                follows = runs and come_together(parsed[runs[-1][-1]], update)
                runs[-1].append(place) if follows else runs.append([place])
        for run in runs:
            yield Piece(self, run[-1] + 1, {place: parsed[place] for place in run})
        if not runs or runs[-1][-1] + 1 < len(self.entries):
            yield Piece(self, len(self.entries), {})

    @cached_property
    def _read(self) -> tuple[dict[int, Update], dict[int, str]]:
        """The updates by place, and the reasons of the records that cannot be read: the same every time."""
        parsed, reasons = {}, {}
        for place, entry in enumerate(self.entries):
            if entry.fault:
                reasons[place] = entry.fault
            elif entry.body.strip():
                try:
                    parsed[place] = self.parse(entry.body)
                except DataError as problem:
                    reasons[place] = str(problem)
        return parsed, reasons

    def note(self, done: int) -> dict[str, str]:
        """The note that is committed with a piece."""
        note = {"batch": str(self.number), "done": str(done)}
        if self.untold:
            note["refused"] = json.dumps(list(self.untold.items()), ensure_ascii=False)
        return note

    def committed(self, done: int, change: Any) -> None:
        self.done = done
        self.changes.append(change)
        for kind, count in change.work.items():
            self.work[kind] = self.work.get(kind, 0) + count
        self.untold.clear()


class Piece:
    """Records that are applied as one update; when it is committed, the first `end` records of the batch are done."""

    def __init__(self, batch: Batch, end: int, updates: Mapping[int, Update]) -> None:
        self.batch = batch
        self.end = end
        self._updates = updates
        self.update: dict[str, Any] = dict(net(list(updates.values()))) if updates else {}

    def with_note(self) -> dict[str, Any]:
        """The update, always the same object, with the note to commit."""
        self.update["commit"] = self.batch.note(self.end)
        return self.update

    def without_culprit(self, problem: TidelogError) -> list[Piece]:
        """The pieces to apply instead of one that was refused."""
        if isinstance(problem, StorageError) or not self._updates:
            raise problem
        places = list(self._updates)
        if len(places) == 1:
            self.batch.left_out[places[0]] = self.batch.untold[places[0]] = str(problem)
            return [Piece(self.batch, self.end, {})]
        middle = len(places) // 2
        halves = (places[:middle], places[middle - 1] + 1), (places[middle:], self.end)
        return [Piece(self.batch, end, {place: self._updates[place] for place in half}) for half, end in halves]


def apply_batch(batch: Batch, update: Callable[[dict[str, Any]], Any]) -> None:
    """Apply the rest of a batch, and leave out what is refused."""
    waiting = deque(batch.pieces())
    while waiting:
        piece = waiting.popleft()
        try:
            change = update(piece.with_note())
        except TidelogError as problem:
            waiting.extendleft(reversed(piece.without_culprit(problem)))
            continue
        batch.committed(piece.end, change)


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

    def frame(self, records: DataFrame) -> DataFrame:
        """The streaming frame to take batches from, made of the one of all records."""
        return observe_records(records)

    def read(self, rows: pa.Table) -> Any:
        """What `take` takes of the rows of a batch."""
        return entries_of(rows)

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
        counts = len(batch.entries), len(batch.refused), added, len(facts) - added
        self._on_batch(batch.number, Totals(1, *counts, dict(batch.work)))
