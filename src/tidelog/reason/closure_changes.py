"""What an update does to the pairs of a closure: listed for whoever looks, recorded for rules that read."""

from __future__ import annotations

import numpy as np

from tidelog.reason.replacement import MissingPairs
from tidelog.store.closures import ClosureChange
from tidelog.store.jit import address
from tidelog.store.layout import F_IN, F_OLD
from tidelog.store.records import Cells
from tidelog.store.relation import Relation
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows


class LazyRows:
    """Pairs that a change of a closure brought or took, listed when somebody looks, at the latest before the next
    change.
    """

    def __init__(self, change: ClosureChange, appeared: bool) -> None:
        self._change: ClosureChange | None = change
        self._appeared = appeared
        self._rows: Cells | None = None
        self.count = change.added_count if appeared else change.removed_count

    def read(self) -> Cells:
        if self._rows is None:
            assert self._change is not None
            pairs = self._change.added() if self._appeared else self._change.removed()
            self._rows = np.stack(pairs, axis=1)
            self._change = None
        return self._rows


class TurnedRows:
    """The same pairs the other way round."""

    def __init__(self, rows: ChangedPairs) -> None:
        self._rows = rows
        self.count: int = rows.count

    def read(self) -> Cells:
        return self._rows.read()[:, ::-1]


ChangedPairs = LazyRows | MissingPairs | TurnedRows


class ClosureDelta:
    """How a closure's pairs changed. Records for them are made when a rule that reads the predicate first asks."""

    dead_count = 0  # The records of a closure are gone when the update is done.

    def __init__(self, store: Store, relation: Relation, gone: ChangedPairs, come: ChangedPairs) -> None:
        self._store = store
        self._relation = relation
        self._facts: tuple[Cells, Cells] | None = None
        self.gone = gone
        self.come = come

    @property
    def removed(self) -> Cells:
        return self._listed()[0]

    @property
    def added(self) -> Cells:
        return self._listed()[1]

    @property
    def removed_count(self) -> int:
        return self.gone.count

    @property
    def added_count(self) -> int:
        return self.come.count

    def __bool__(self) -> bool:
        return self.gone.count > 0 or self.come.count > 0

    def _listed(self) -> tuple[Cells, Cells]:
        if self._facts is None:
            gone, come = self.gone.read(), self.come.read()
            self._record(gone, F_OLD)
            self._record(come, F_IN)
            facts = np.arange(len(gone) + len(come), dtype=np.int32)
            self._facts = facts[: len(gone)], facts[len(gone) :]
        return self._facts

    def _record(self, rows: Cells, flags: int) -> None:
        if len(rows):
            self._relation.reserve(len(rows))
            rows = np.ascontiguousarray(rows)
            load_rows(self._store.machine, self._relation.number, address(rows), len(rows), flags)
