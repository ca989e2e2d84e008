"""Rows in the order of the times from which they count: what has to be deleted by some time is found at its beginning.

Rows are kept as bytes, since most come in and go in blocks, and nobody looks at them one by one.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tidelog.store.relation_parts import Cells

Key = bytes
"""A row of terms."""


def keys_of(rows: Cells) -> list[Key]:
    """Rows, one by one."""
    width = 4 * rows.shape[1]
    if not width:
        return [b""] * len(rows)
    data = np.ascontiguousarray(rows, np.int32).tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]


def rows_of(keys: Iterable[Key], arity: int) -> Cells:
    """The same rows as an array."""
    listed = list(keys)
    return np.frombuffer(b"".join(listed), np.int32).reshape(len(listed), arity)


class Timeline:
    """Rows by time."""

    def __init__(self) -> None:
        self._times: list[int] = []  # sorted
        self._rows: dict[int, list[Key]] = {}

    def add(self, time: int, keys: Sequence[Key]) -> None:
        found = self._rows.get(time)
        if found is None:
            insort(self._times, time)
            self._rows[time] = list(keys)
        else:
            found.extend(keys)

    def add_all(self, keys: Iterable[Key], times: Iterable[int]) -> None:
        """Put rows in, each at its time."""
        by_time: dict[int, list[Key]] = {}
        for key, time in zip(keys, times, strict=True):
            by_time.setdefault(time, []).append(key)
        for time, found in by_time.items():
            self.add(time, found)

    def until(self, time: int) -> Iterator[tuple[int, list[Key]]]:
        """The rows of each time up to this one."""
        for each in self._times[: bisect_right(self._times, time)]:
            yield each, self._rows[each]

    def drop_until(self, time: int) -> None:
        """Forget the rows up to a time."""
        end = bisect_right(self._times, time)
        for each in self._times[:end]:
            del self._rows[each]
        del self._times[:end]
