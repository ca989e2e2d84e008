"""What an update asks for and what it changes: in all, in one component, and in one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.update.answers import AnswersChanged
from tidelog.engine.update.failures import Failures
from tidelog.engine.update.rows import Rows, rows_of
from tidelog.language.syntax import Rule
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

NOTHING: Cells = np.empty(0, np.int32)

EncodedFacts = Mapping[str, Cells]
"""Rows of terms by predicate."""


# Of more explicit facts of a predicate nobody keeps which of them an update took away or gave.
MOST_KEPT = 100_000


class ExplicitChange(NamedTuple):
    """The explicit facts that a predicate lost and won, as rows of terms; None instead of very many."""

    gone: Cells | None
    come: Cells | None


@dataclass(slots=True)
class Request:
    """What an update asks for."""

    delete: EncodedFacts = field(default_factory=dict)
    add: EncodedFacts = field(default_factory=dict)
    remove_rules: tuple[int, ...] = ()
    add_rules: tuple[Rule, ...] = ()
    # Predicates whose facts other modules keep from now on, though no rule comes or goes.
    rearranged: tuple[str, ...] = ()

    @property
    def changes_rules(self) -> bool:
        """Whether rules come or go, or serve others from now on."""
        return bool(self.remove_rules or self.add_rules or self.rearranged)

    def explicit(self, predicate: str) -> ExplicitChange:
        """What is asked for of a predicate; some of it may be there already, or not be there at all."""
        return ExplicitChange(self.delete.get(predicate, NOTHING), self.add.get(predicate, NOTHING))


NO_REQUEST = Request()


@dataclass(slots=True)
class Outcome:
    """What an update did: the rows of each predicate that changed, in I and in E, rule applications by kind, the rule
    instances that failed in an expression, hidden predicates that gained facts, and what changed in the answers of
    watched queries.
    """

    removed: dict[str, Rows]
    added: dict[str, Rows]
    explicit: dict[str, ExplicitChange]
    work: dict[str, int]
    errors: Failures
    hidden: list[str]
    answers: list[AnswersChanged] = field(default_factory=list)


@dataclass(slots=True)
class Explicit:
    """What an update does to the explicit facts of a component, as fact numbers by relation."""

    deleted: dict[int, Cells] = field(default_factory=dict)
    added: dict[int, Cells] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleChange:
    """Rules of a component that an update removes and adds."""

    removed: tuple[CompiledRule, ...] = ()
    added: tuple[CompiledRule, ...] = ()

    @cached_property
    def added_numbers(self) -> frozenset[int]:
        return frozenset(rule.number for rule in self.added)


NO_RULE_CHANGE = RuleChange()

Facts = tuple[Cells, Cells]
"""The numbers of the facts that left a relation, and of those that came into it."""


@dataclass(slots=True)
class Delta:
    """What changed in a relation: the rows that left I, and those that came into it.

    Components that follow the change fact by fact need the facts by their numbers. `list_facts` gives them, and first
    makes records for rows that have none; it is called when the first such component asks.
    """

    gone: Rows
    come: Rows
    list_facts: Callable[[], Facts]
    _facts: Facts | None = None

    @classmethod
    def of_facts(cls, relation: Relation, removed: Cells, added: Cells) -> Delta:
        """Facts that lie in records of the relation."""
        facts = removed, added
        return cls(rows_of(relation, removed), rows_of(relation, added), lambda: facts, facts)

    @property
    def removed(self) -> Cells:
        return self.listed()[0]

    @property
    def added(self) -> Cells:
        return self.listed()[1]

    @property
    def dead_count(self) -> int:
        """How many dead records the change has left in the relation."""
        return 0 if self._facts is None else len(self._facts[0])

    def __bool__(self) -> bool:
        return self.gone.count > 0 or self.come.count > 0

    def listed(self) -> Facts:
        if self._facts is None:
            self._facts = self.list_facts()
        return self._facts
