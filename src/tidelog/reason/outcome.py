"""What an update asks for, and what it did: rows by predicate, copied as late as can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class StoredRows:
    rows: Cells

    @property
    def count(self) -> int:
        return len(self.rows)

    def read(self) -> Cells:
        return self.rows


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


class AppendedRows:
    """Rows of new records, copied when somebody looks, at the latest before the records change."""

    def __init__(self, relation: Relation, start: int, stop: int) -> None:
        self._place: tuple[Relation, int, int] | None = (relation, start, stop)
        self._rows: Cells | None = None
        self.count = stop - start

    def read(self) -> Cells:
        if self._rows is None:
            assert self._place is not None
            relation, start, stop = self._place
            self._rows = relation.cells[start:stop, : relation.arity].copy()
            self._place = None
        return self._rows
