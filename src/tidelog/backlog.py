"""What waits to be worked on in `kb.live()`: updates one after the other, merged into batches of net operations.

Of all operations on one fact only the last one counts, and it counts only if it differs from what is explicit now (the
cancel transitions of Fully Dynamic Materialization Maintenance, section 2.1, with the order of updates kept). A batch
that is in work can still lose operations: where what comes in takes back at least half of it and brings less than it
takes back, working on is not worth while. Each such restart leaves fewer operations than there were, so that
endless deleting and adding again cannot keep a batch from being finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tidelog.reason.engine import Engine
from tidelog.reason.outcome import Request
from tidelog.sources import UpdateMapping
from tidelog.store.layout import F_EXPLICIT
from tidelog.store.records import Cells

Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Submission:
    """One update as it was submitted; its number says when."""

    number: int
    update: UpdateMapping

    @property
    def changes_rules(self) -> bool:
        return bool(self.update.get("add_rules") or self.update.get("remove_rules"))


@dataclass(frozen=True, slots=True)
class Part:
    """A submission with its facts encoded."""

    number: int
    delete: Mapping[str, Cells]
    add: Mapping[str, Cells]

    @property
    def operations(self) -> int:
        return sum(len(rows) for facts in (self.delete, self.add) for rows in facts.values())


@dataclass(slots=True)
class Batch:
    """Parts that are worked on together.

    Operations are netted one by one, in Python, and only where they have to be: a batch of one part, such as a large
    load, is what it is, until something comes that could take half of it back.
    """

    parts: list[Part] = field(default_factory=list)
    arities: dict[str, int] = field(default_factory=dict)
    _net: dict[Key, bool] = field(default_factory=dict)
    _netted: int = 0  # parts that `_net` knows of
    _effective: frozenset[Key] | None = None

    @property
    def last(self) -> int:
        return self.parts[-1].number

    @property
    def operations(self) -> int:
        return sum(part.operations for part in self.parts)

    @property
    def net(self) -> Mapping[Key, bool]:
        """Of each fact that the parts mention, whether it is explicit after them."""
        for part in self.parts[self._netted :]:
            self._net.update((key, False) for key in _keys(part.delete))
            self._net.update((key, True) for key in _keys(part.add))
        self._netted = len(self.parts)
        return self._net

    def append(self, part: Part) -> None:
        self.parts.append(part)

    def merge(self, later: Batch) -> None:
        """Let a later batch be part of this one."""
        self.parts += later.parts
        self.arities.update(later.arities)

    def split(self) -> list[Batch]:
        """A batch for each part."""
        return [Batch([part], dict(self.arities)) for part in self.parts]

    def request(self, engine: Engine) -> Request:
        """The operations to work on; of several parts only those that change something, as things are now."""
        if len(self.parts) == 1:
            return Request(self.parts[0].delete, self.parts[0].add)
        before = _explicit_now(engine, self.net)
        effective = [key for key, wanted in self.net.items() if wanted != before[key]]
        self._effective = frozenset(effective)
        delete: dict[str, list[tuple[int, ...]]] = {}
        add: dict[str, list[tuple[int, ...]]] = {}
        for key in effective:
            (add if self.net[key] else delete).setdefault(key[0], []).append(key[1])
        return Request(_as_cells(delete, self.arities), _as_cells(add, self.arities))

    def is_undone_by(self, later: Batch) -> bool:
        """Whether what comes after this batch, which is in work, makes it better to start again."""
        if 2 * later.operations < (self.operations if self._effective is None else len(self._effective)):
            return False  # It cannot take half back; this is asked after every slice.
        effective = self.net.keys() if self._effective is None else self._effective
        changed = [key for key, wanted in later.net.items() if self.net.get(key) != wanted]
        taken_back = sum(1 for key in changed if key in effective)
        return 2 * taken_back >= len(effective) and 2 * taken_back > len(changed)


def _keys(rows: Mapping[str, Cells]) -> Iterable[Key]:
    return ((predicate, tuple(row)) for predicate, cells in rows.items() for row in cells.tolist())


def _as_cells(rows: Mapping[str, list[tuple[int, ...]]], arities: Mapping[str, int]) -> dict[str, Cells]:
    return {
        predicate: np.array(listed, np.int32).reshape(len(listed), arities[predicate])
        for predicate, listed in rows.items()
    }


def _explicit_now(engine: Engine, keys: Iterable[Key]) -> dict[Key, bool]:
    """Which of these facts are explicit."""
    by_predicate: dict[str, list[tuple[int, ...]]] = {}
    for predicate, row in keys:
        by_predicate.setdefault(predicate, []).append(row)
    result: dict[Key, bool] = {}
    for predicate, rows in by_predicate.items():
        cells = np.array(rows, np.int32).reshape(len(rows), -1)
        found = _are_explicit(engine, predicate, cells)
        result.update(((predicate, row), there) for row, there in zip(rows, found, strict=True))
    return result


def _are_explicit(engine: Engine, predicate: str, rows: Cells) -> list[bool]:
    relation = engine.explicit_relation(predicate)
    if relation is None:
        return [False] * len(rows)
    facts = engine.store.find_facts(relation, rows)
    flags = relation.cells[facts, relation.flags_column]
    return ((facts >= 0) & (flags & F_EXPLICIT != 0)).tolist()
