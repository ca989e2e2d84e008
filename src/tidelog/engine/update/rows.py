"""Rows that an update removed or added: their number is known at once, the rows themselves are read when needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidelog.runtime.signals import deferred
from tidelog.runtime.thread_locks import Readers, ThreadLock
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

# A change of more rows than this is copied only when it is read.
LAZY_FROM = 10_000

# For rows whose source no update changes.
NO_READERS = Readers()

Source = Callable[[int], Cells]
"""Gives the first rows, as many as it is asked for; there are at least that many."""

Search = Callable[[int, Cells], Cells]
"""Gives the rows that have one of some terms in a column."""


class Rows:
    """Rows that an update removed or added, read from their source on demand, at any time and from any thread.

    An update that is about to change the source has to wait for threads that are reading it: `readers` are these.
    `search` finds some of the rows, where that takes less time than to read all.
    """

    __slots__ = ("__weakref__", "_lock", "_readers", "_rows", "_search", "_source", "count", "in_records")

    def __init__(
        self,
        count: int,
        source: Source,
        readers: Readers = NO_READERS,
        in_records: bool = False,
        search: Search | None = None,
    ) -> None:
        self.count = count
        self._search = search
        self.in_records = in_records  # whether the source is records of a relation, which the next update may change
        self._source: Source | None = source
        self._readers = readers
        self._rows: Cells | None = None
        self._lock = ThreadLock()

    @classmethod
    def of(cls, cells: Cells) -> Rows:
        """Rows that are there already."""
        rows = cls(len(cells), lambda _: cells)
        rows.copy_now()
        return rows

    def read(self) -> Cells:
        """All rows."""
        return self.first(self.count)

    def first(self, most: int) -> Cells:
        """At most this many rows, without looking at the others where that is expensive."""
        if self._rows is not None:
            return self._rows[:most]
        # Signals wait, so that no handler can raise while the lock is held: sources let them in between two pieces.
        with deferred(), self._readers.entered(), self._lock.mutex:
            if self._rows is None:
                assert self._source is not None
                rows = self._source(min(most, self.count))
                if most < self.count:
                    return rows
                self._rows, self._source = rows, None
            return self._rows[:most]

    def having(self, column: int, terms: Cells) -> Cells:
        """The rows that have one of some terms in a column."""
        if self._search is not None and self._rows is None:
            return self._search(column, terms)
        rows = self.read()
        return rows[np.isin(rows[:, column], terms)]

    def turned(self) -> Rows:
        """The same pairs, with their columns swapped."""
        return Rows(
            self.count,
            lambda most: self.first(most)[:, ::-1],
            search=lambda column, terms: self.having(1 - column, terms)[:, ::-1],
        )

    def copy_now(self) -> None:
        """Read all rows inside the update that made them, while no other thread knows them."""
        if self._source is not None:
            self._rows, self._source = self._source(self.count), None


NO_ROWS = Rows.of(np.empty((0, 0), np.int32))


def rows_of(relation: Relation, facts: Cells) -> Rows:
    """The rows of some facts of a relation, while its records stay as they are."""
    if not len(facts):
        return NO_ROWS
    return Rows(len(facts), lambda most: relation.rows(facts[:most]), relation.store.readers, in_records=True)
