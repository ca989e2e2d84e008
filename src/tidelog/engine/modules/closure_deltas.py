"""What an update does to the pairs of a closure: listed for whoever looks, recorded for rules that read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelog.closures.history import ClosureChange
from tidelog.engine.modules.replacement import MissingPairs
from tidelog.engine.outcome import LateRows
from tidelog.engine.transaction import Transaction
from tidelog.machine import flags as F
from tidelog.machine.jit import address
from tidelog.runtime.signals import check
from tidelog.runtime.thread_locks import Readers
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.update_kernels import load_rows

PIECE = 1 << 20


class LazyRows(LateRows):
    """Pairs that a change of a closure brought or took, listed when somebody looks."""

    def __init__(self, change: ClosureChange, appeared: bool, readers: Readers) -> None:
        super().__init__(change.count(appeared), readers)
        self._change: ClosureChange | None = change
        self._appeared = appeared

    def pieces(self) -> Iterator[Cells]:
        """For the update that they are told of."""
        assert self._change is not None
        return (np.stack(pair, axis=1) for pair in self._change.chunks(self._appeared, PIECE))

    def _listed(self, most: int) -> Cells:
        assert self._change is not None
        return self._change.rows(self._appeared, most, check)

    def _let_go(self) -> None:
        self._change = None


class TurnedRows:
    """The same pairs the other way round."""

    def __init__(self, rows: LazyRows) -> None:
        self._rows = rows
        self.count: int = rows.count

    def read(self) -> Cells:
        return self._rows.read()[:, ::-1]

    def first(self, most: int) -> Cells:
        return self._rows.first(most)[:, ::-1]

    def pieces(self) -> Iterator[Cells]:
        return (piece[:, ::-1] for piece in self._rows.pieces())


ChangedPairs = LazyRows | MissingPairs | TurnedRows


class ClosureDelta:
    """How a closure's pairs changed. Records for them are made when a rule that reads the predicate first asks."""

    dead_count = 0  # The records of a closure are gone when the update is done.

    def __init__(self, transaction: Transaction, relation: Relation, gone: ChangedPairs, come: ChangedPairs) -> None:
        self._transaction = transaction
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
            self._record(self.gone, F.OLD)
            self._record(self.come, F.IN)
            facts = np.arange(self.gone.count + self.come.count, dtype=np.int32)
            self._facts = facts[: self.gone.count], facts[self.gone.count :]
        return self._facts

    def _record(self, pairs: ChangedPairs, flags: int) -> None:
        self._relation.reserve(pairs.count)
        for piece in pairs.pieces():
            rows = np.ascontiguousarray(piece)
            load_rows(self._transaction.machine, self._relation.number, address(rows), len(rows), flags)
            self._transaction.check_limits()
