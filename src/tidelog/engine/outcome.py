"""What an update asks for, and what it did: rows by predicate, copied as late as can be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidelog.language.syntax import Rule
from tidelog.runtime.signals import deferred
from tidelog.runtime.thread_locks import Readers, ThreadLock
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

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


# For rows that lie where no update changes anything.
NOBODY_WAITS = Readers()


class LateRows(ABC):
    """Rows that are listed when somebody looks, once: it may be any thread, at any time. `readers` are those whom an
    update may have to wait for.
    """

    def __init__(self, count: int, readers: Readers = NOBODY_WAITS) -> None:
        self.count = count
        self._rows: Cells | None = None
        self._readers = readers
        # An update that is about to change what the rows lie in waits for whoever is reading them.
        self._lock = ThreadLock()

    def read(self) -> Cells:
        rows = self._rows
        return self._read(self.count) if rows is None else rows

    def first(self, most: int) -> Cells:
        rows = self._rows
        return self._read(min(most, self.count)) if rows is None else rows[:most]

    def _read(self, most: int) -> Cells:
        """List so many rows. What a handler raises meanwhile leaves no lock taken: it is raised between two pieces."""
        with deferred(), self._readers.entered(), self._lock.mutex:
            if self._rows is not None:
                return self._rows[:most]
            rows = self._listed(most)
            if most == self.count:
                self._rows = rows
                self._let_go()
            return rows

    @abstractmethod
    def _listed(self, most: int) -> Cells:
        """So many rows; there are no fewer."""

    @abstractmethod
    def _let_go(self) -> None:
        """The rows are listed: forget what they were found in."""


class AppendedRows(LateRows):
    """Rows of new records, copied when somebody looks, at the latest before the records change."""

    def __init__(self, relation: Relation, start: int, stop: int) -> None:
        super().__init__(stop - start, relation.store.readers)
        self._place: tuple[Relation, int] | None = (relation, start)

    def _listed(self, most: int) -> Cells:
        assert self._place is not None
        relation, start = self._place
        return relation.cells[start : start + most, : relation.arity].copy()

    def _let_go(self) -> None:
        self._place = None
