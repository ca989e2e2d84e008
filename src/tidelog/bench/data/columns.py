"""Facts about named things, gathered predicate by predicate while a generator walks through its world."""

from __future__ import annotations

import pyarrow as pa

Names = list[str]


class Columns:
    """Members of classes, and pairs of properties, in the order in which they come; `prefix` begins every predicate."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._members: dict[str, Names] = {}
        self._pairs: dict[str, tuple[Names, Names]] = {}

    def typed(self, kind: str, name: str) -> None:
        self._members.setdefault(kind, []).append(name)

    def related(self, relation: str, subject: str, target: str) -> None:
        subjects, targets = self._pairs.setdefault(relation, ([], []))
        subjects.append(subject)
        targets.append(target)

    def tables(self) -> dict[str, pa.Table]:
        """A unary table for each class, with each member once, and a binary one for each property."""
        tables = {
            self._prefix + kind: pa.table({"c0": pa.array(dict.fromkeys(names), pa.string())})
            for kind, names in self._members.items()
        }
        for relation, columns in self._pairs.items():
            arrays = [pa.array(column, pa.string()) for column in columns]
            tables[self._prefix + relation] = pa.table(arrays, names=["c0", "c1"])
        return tables
