"""Facts on their way in from files, within the limits of the knowledge base.

A file can hold far more than its size on disk: a kilobyte of gzip is a megabyte of rows. So limits are checked batch
by batch, before an update begins. Rows that repeat are one fact: duplicates are dropped before anything is refused, so
that the memory needed follows the limit and not the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.engine.engine import Engine
from tidelog.errors import LimitError
from tidelog.formats.byte_files import after_block
from tidelog.machine.jit import working_time
from tidelog.store.relation_parts import Cells

Item = TypeVar("Item")


class Deadline:
    """The time limit for reading facts."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._began = working_time()

    def check(self) -> None:
        if self._timeout is not None and working_time() - self._began > self._timeout:
            raise LimitError(f"reading the facts took more than {self._timeout} s; give it more time, or less to read")

    def watched(self, items: Iterable[Item]) -> Iterator[Item]:
        """Items that come in time; readers of files check that while they look for the next one."""
        iterator = iter(items)
        item: Item | None
        while True:
            former = after_block.set(self.check)
            try:
                item = next(iterator, None)
            finally:
                after_block.reset(former)
            self.check()
            if item is None:
                return
            yield item


class LoadedRows:
    """Rows by predicate; there may be no more different ones than the limit on facts allows."""

    def __init__(self, engine: Engine) -> None:
        self._limit = engine.limits.max_facts
        self._held: dict[str, list[Cells]] = {}
        self._distinct: dict[str, int] = {}  # rows of a predicate that are known to be different
        self._fresh = 0  # rows that came since the last count
        named = [name for name in engine.store.named() if not name.startswith("#")]
        relations = {name: engine.explicit_relation(name) for name in named}
        self._explicit = {name: found.explicit_count for name, found in relations.items() if found is not None}

    def take(self, predicate: str, rows: Cells, place: str) -> None:
        """Keep the rows of a batch from some place."""
        self._held.setdefault(predicate, []).append(rows)
        self._fresh += len(rows)
        known = sum(self._distinct.values())
        # Counting again pays only once there is as much to count as was counted.
        if self._limit is None or known + self._fresh <= self._limit or self._fresh < known:
            return
        self._count()
        if self._least() > self._limit:
            raise LimitError(
                f"more than {self._limit} facts: {place} brings the number of different ones that are given to "
                f"{self._least()}; allow more, or load less"
            )

    def _count(self) -> None:
        """Drop rows that repeat."""
        for predicate, parts in self._held.items():
            if len(parts) > 1 or self._distinct.get(predicate) != len(parts[0]):
                rows = distinct_rows(np.concatenate(parts))
                self._held[predicate], self._distinct[predicate] = [rows], len(rows)
        self._fresh = 0

    def _least(self) -> int:
        """The least number of facts there will be: all explicit ones stay, and some of them may come again."""
        grown = (max(0, count - self._explicit.get(name, 0)) for name, count in self._distinct.items())
        return sum(self._explicit.values()) + sum(grown)

    def all(self) -> dict[str, Cells]:
        """The rows of each predicate as one array. They are handed over one predicate after the other, so that as few
        as possible are in memory twice.
        """
        return {predicate: np.concatenate(self._held.pop(predicate)) for predicate in list(self._held)}


def distinct_rows(rows: Cells) -> Cells:
    """Rows without those that repeat, in any order."""
    if rows.shape[1] == 0:
        return rows[:1]
    return np.unique(row_keys(rows)).view(np.int32).reshape(-1, rows.shape[1])


def row_keys(rows: Cells) -> npt.NDArray[Any]:
    """Each row, which has at least one column, as one value: equal rows have equal values."""
    whole: npt.NDArray[np.void] = np.ascontiguousarray(rows).view(np.dtype((np.void, 4 * rows.shape[1]))).ravel()
    return whole.view({4: np.int32, 8: np.int64}.get(whole.itemsize, whole.dtype))
