"""What an update asks for, and what it did: rows by predicate, copied as late as can be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol

import numpy as np

from tidelog.language.syntax import Rule
from tidelog.store.records import Cells
from tidelog.store.relation import Relation

Rows = Mapping[str, Cells]

# From so many new rows on, a change copies them only when somebody looks.
LAZY_FROM = 10_000


class ChangedRows(Protocol):
    """Rows that an update removed or added, and how many they are."""

    @property
    def count(self) -> int: ...

    def read(self) -> Cells: ...

    def first(self, most: int) -> Cells:
        """So many of them, without a look at the others where that is dear."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    rows: Cells

    @property
    def count(self) -> int:
        return len(self.rows)

    def read(self) -> Cells:
        return self.rows

    def first(self, most: int) -> Cells:
        return self.rows[:most]


NO_ROWS = StoredRows(np.empty((0, 0), np.int32))


@dataclass(slots=True)
class Outcome:
    """What an update did: rows by predicate where there are any, rule applications by kind, instances that failed in
    an expression.
    """

    removed: dict[str, ChangedRows]
    added: dict[str, ChangedRows]
    work: dict[str, int]
    errors: int


@dataclass(slots=True)
class Request:
    """What an update asks for, with rows encoded."""

    delete: Rows = field(default_factory=dict)
    add: Rows = field(default_factory=dict)
    remove_rules: tuple[int, ...] = ()
    add_rules: tuple[Rule, ...] = ()


NO_REQUEST = Request()


class LateRows(ABC):
    """Rows that are listed when somebody looks, once: it may be any thread, at any time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._rows: Cells | None = None
        # An update that is about to change what the rows lie in waits for whoever is reading them.
        self._lock = RLock()

    def read(self) -> Cells:
        with self._lock:
            if self._rows is None:
                self._rows = self._listed(self.count)
                self._let_go()
            return self._rows

    def first(self, most: int) -> Cells:
        with self._lock:
            return self._listed(min(most, self.count)) if self._rows is None else self._rows[:most]

    @abstractmethod
    def _listed(self, most: int) -> Cells:
        """So many rows; there are no fewer."""

    @abstractmethod
    def _let_go(self) -> None:
        """The rows are listed: forget what they were found in."""


class AppendedRows(LateRows):
    """Rows of new records, copied when somebody looks, at the latest before the records change."""

    def __init__(self, relation: Relation, start: int, stop: int) -> None:
        super().__init__(stop - start)
        self._place: tuple[Relation, int] | None = (relation, start)

    def _listed(self, most: int) -> Cells:
        assert self._place is not None
        relation, start = self._place
        return relation.cells[start : start + most, : relation.arity].copy()

    def _let_go(self) -> None:
        self._place = None
