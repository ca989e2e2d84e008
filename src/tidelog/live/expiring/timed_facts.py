"""What is known of time, as it follows from hidden facts and rules: the time, lifetimes, when rows came in, and in
which order they expire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.engine.engine import Engine
from tidelog.errors import StorageError
from tidelog.facts.reading import Reader
from tidelog.language.syntax import Expiry
from tidelog.live.expiring.lifetimes import EXPIRES, NOW, Lifetime, arrived, expiry_of, lifetimes_of, time_in, times_of
from tidelog.live.expiring.timelines import Key, Timeline, keys_of
from tidelog.program.catalogue import Catalogue
from tidelog.store.relation_parts import Cells

Times = npt.NDArray[np.int64]


@dataclass(slots=True)
class Known:
    """What is known of time: all of it follows from hidden facts and rules."""

    now: int | None = None
    expiries: dict[str, Expiry] = field(default_factory=dict)
    lifetimes: dict[str, list[Lifetime]] = field(default_factory=dict)
    # By predicate, when each of its rows came in; as long as that matters.
    arrivals: dict[str, dict[Key, int]] = field(default_factory=dict)
    timelines: dict[str, Timeline] = field(default_factory=dict)  # by holder


class TimedFacts:
    """Reads and encodes what lifetimes are about. The caller has the lock."""

    def __init__(self, engine: Engine, reader: Reader, catalogue: Catalogue) -> None:
        self._engine = engine
        self._reader = reader
        self._catalogue = catalogue

    def explicit(self, predicate: str) -> Cells:
        return self._reader.rows(predicate, explicit=True).cells

    def _values(self, predicate: str, arity: int) -> list[tuple[object, ...]]:
        decode, rows = self._engine.store.terms.table.decode, self._hidden(predicate, arity)
        return [tuple(map(decode, row)) for row in rows.tolist()]

    def _hidden(self, predicate: str, arity: int) -> Cells:
        """The facts of a hidden predicate. Those of a saved folder may come from a stranger."""
        rows = self.explicit(predicate)
        if len(rows) and rows.shape[1] != arity:
            raise StorageError(f"{predicate} has {rows.shape[1]} arguments, not {arity}")
        return rows

    def known(self) -> Known:
        """All that is known of time."""
        known = Known()
        for (now,) in self._values(NOW, 1):
            known.now = time_in(now)
        for row in self._values(EXPIRES, 4):
            expiry = expiry_of(*row)
            known.expiries[expiry.predicate] = expiry
        known.lifetimes = lifetimes_of(known.expiries.values(), self._engine.graph.rules.values())
        for predicate, lifetimes in known.lifetimes.items():
            self._find_rows(known, predicate, lifetimes)
        return known

    def _find_rows(self, known: Known, predicate: str, lifetimes: list[Lifetime]) -> None:
        came = self._hidden(arrived(predicate), self._catalogue.arities.get(predicate, 0) + 1)
        times = map(time_in, self._engine.store.terms.table.decode_column(came[:, -1])) if len(came) else ()
        arrivals = dict(zip(keys_of(came[:, :-1]) if len(came) else (), times, strict=True))
        known.arrivals[predicate] = arrivals
        for lifetime in lifetimes:
            timeline = known.timelines[lifetime.holder] = Timeline()
            if lifetime.argument is None:
                timeline.add_all(arrivals.keys(), arrivals.values())
            else:
                rows = self.explicit(lifetime.holder)
                timeline.add_all(keys_of(rows), self.event_times(lifetime, rows).tolist())

    def event_times(self, lifetime: Lifetime, rows: Cells) -> Times:
        """The times from which rows count, of a lifetime that is counted from an argument."""
        if not len(rows):
            return np.empty(0, np.int64)
        assert lifetime.argument is not None
        if lifetime.argument >= rows.shape[1]:
            raise StorageError(f"{lifetime.given} has {rows.shape[1]} arguments, and none to count its age from")
        terms, places = np.unique(rows[:, lifetime.argument], return_inverse=True)
        values = self._engine.store.terms.table.decode_column(terms)
        return np.fromiter(times_of(values, lifetime, self._catalogue.display(lifetime.given)), np.int64)[places]

    def encoded(self, rows: list[tuple[object, ...]], arity: int) -> Cells:
        """Values as rows of terms."""
        columns = [self._engine.store.terms.encode_values(column) for column in zip(*rows, strict=True)]
        return np.stack(columns, axis=1) if columns else np.empty((0, arity), np.int32)
