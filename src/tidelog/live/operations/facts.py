"""The dataset I of the paper: facts with their ages, and indexes that are built where a rule first asks for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

Row = tuple[int, ...]
"""The arguments of a fact, as term numbers."""

Fact = tuple[str, Row]

Columns = tuple[int, ...]
Index = defaultdict[Row, dict[Row, None]]

_NO_ROWS: Mapping[Row, None] = {}


class Facts:
    """I, with the moment at which each fact was added: its *age*. A fact that is deleted and added again is younger."""

    def __init__(self) -> None:
        self._ages: dict[str, dict[Row, int]] = {}
        self._indexes: dict[str, dict[Columns, Index]] = {}

    def add(self, fact: Fact, age: int) -> None:
        predicate, row = fact
        self._ages.setdefault(predicate, {})[row] = age
        for columns, index in self._indexes.get(predicate, {}).items():
            index[_key(row, columns)][row] = None

    def remove(self, fact: Fact) -> None:
        predicate, row = fact
        del self._ages[predicate][row]
        for columns, index in self._indexes.get(predicate, {}).items():
            key = _key(row, columns)
            found = index[key]
            del found[row]
            if not found:
                del index[key]

    def load(self, predicate: str, rows: Iterable[Row]) -> None:
        """Facts that have been there from the beginning."""
        self._ages.setdefault(predicate, {}).update(dict.fromkeys(rows, 0))

    def age(self, fact: Fact) -> int:
        return self._ages[fact[0]][fact[1]]

    def __contains__(self, fact: Fact) -> bool:
        rows = self._ages.get(fact[0])
        return rows is not None and fact[1] in rows

    def __len__(self) -> int:
        return sum(map(len, self._ages.values()))

    def by_predicate(self) -> Mapping[str, Mapping[Row, int]]:
        return self._ages

    def matching(self, predicate: str, columns: Columns, key: Row) -> Iterable[Row]:
        """The facts of a predicate with these values in some columns."""
        if not columns:
            return self._ages.get(predicate, _NO_ROWS)
        indexes = self._indexes.setdefault(predicate, {})
        index = indexes.get(columns)
        if index is None:
            index = indexes[columns] = defaultdict(dict)
            for row in self._ages.get(predicate, ()):
                index[_key(row, columns)][row] = None
        return index.get(key, _NO_ROWS)


def _key(row: Row, columns: Columns) -> Row:
    return tuple([row[column] for column in columns])
