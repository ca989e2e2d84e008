"""What an update asks of a component, in facts and rules, and what it has changed in a relation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidelog.engine.compiled import CompiledRule
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

NOTHING: Cells = np.empty(0, np.int32)


@dataclass(slots=True)
class Explicit:
    """What an update does to the explicit facts of a component, as fact numbers by relation."""

    deleted: dict[int, Cells] = field(default_factory=dict)
    added: dict[int, Cells] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleChange:
    """Rules of a component that an update removes and adds."""

    removed: tuple[CompiledRule, ...] = ()
    added: tuple[CompiledRule, ...] = ()

    added_numbers: frozenset[int] = frozenset()

    @classmethod
    def of(cls, removed: Iterable[CompiledRule], added: Iterable[CompiledRule]) -> RuleChange:
        come = tuple(added)
        return cls(tuple(removed), come, frozenset(rule.number for rule in come))


class Changed(Protocol):
    """The facts of a relation that left I and those that came into it."""

    @property
    def removed(self) -> Cells: ...

    @property
    def added(self) -> Cells: ...

    @property
    def removed_count(self) -> int:
        """How many left, known without listing them."""

    @property
    def added_count(self) -> int:
        """How many came, known without listing them."""

    @property
    def dead_count(self) -> int:
        """How many dead records lie in the relation because of it."""

    def __bool__(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed in a relation that lies in records."""

    removed: Cells
    added: Cells

    @property
    def removed_count(self) -> int:
        return len(self.removed)

    @property
    def added_count(self) -> int:
        return len(self.added)

    @property
    def dead_count(self) -> int:
        return len(self.removed)

    def __bool__(self) -> bool:
        return len(self.removed) > 0 or len(self.added) > 0


class Appended:
    """What changed in a relation that only got new records, all of them in I; listed when somebody asks."""

    removed: Cells = NOTHING
    removed_count = 0
    dead_count = 0

    def __init__(self, relation: Relation, start: int, stop: int) -> None:
        self.relation = relation
        self.start = start
        self.stop = stop
        self.added_count = stop - start
        self._facts: Cells | None = None

    @property
    def added(self) -> Cells:
        if self._facts is None:
            self._facts = np.arange(self.start, self.stop, dtype=np.int32)
        return self._facts

    def __bool__(self) -> bool:
        return True
