"""Which derivation counters an algorithm keeps, which rules are counted, and what `auto` has learnt about costs."""

from __future__ import annotations  # kernel constants

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# Which counter a derivation moves.
NO_COUNTER = -1
NON_RECURSIVE = 0
RECURSIVE = 1
AT_LEVEL = 2  # that of the derivations at the level of their fact, see `engine.algorithms.counting_trace`
PROTECT_ONLY = 3  # move none, but a fact with a non-recursive derivation is safe from overdeletion


class Counters(Enum):
    """None (DRed, B/F); of non-recursive derivations (B/F with counters); of all (counting, DRed^c); of those at the
    level of their fact (recursive counting); of none, with ranks in their place (best values).
    """

    NONE = 0
    NON_RECURSIVE = 1
    ALL = 2
    LEVELS = 3
    RANKS = 4

    @property
    def keeps_order(self) -> bool:
        """Whether the second cell says in which order facts were found, by ranks or by levels."""
        return self in (Counters.NON_RECURSIVE, Counters.LEVELS, Counters.RANKS)

    def of(self, recursive: bool, deleting: bool) -> int:
        """The counter that an instance of a rule moves."""
        if self is Counters.NONE:
            return NO_COUNTER
        if self is Counters.RANKS:
            return PROTECT_ONLY if deleting else NO_COUNTER
        if not recursive:
            return NON_RECURSIVE
        if self is Counters.ALL:
            return RECURSIVE
        if self is Counters.LEVELS:
            return AT_LEVEL
        return PROTECT_ONLY if deleting else NO_COUNTER


# All costs are in candidates of materialisation, some 6 ns each; these were measured (docs/explanation/algorithms.md).
# Inserting a fact takes as long as looking at so many candidates; less where a relation is known by its bits.
INSERTION_COST, DENSE_INSERTION_COST = 25, 11
# How fast earlier deletions are forgotten: with each new one, and with each that was not even tried.
REMEMBERED, TRIED_AGAIN = 0.8, 0.95
# A deletion that was given up counts as so many times what it had taken by then, and at least as so many times what it
# was allowed to take.
DISAPPOINTMENT, HOPELESSNESS = 3, 1.5


@dataclass(slots=True)
class Costs:
    """What maintaining a component has taken so far, which `auto` learns from."""

    # Candidates that materialisation looks at for each fact, as of the last time; a guess before that was seen.
    effort: float = 3.0
    insertion: int = INSERTION_COST
    # What recent deletions took, and how many facts the component's rules had lost by them. It begins as if a few had
    # been lost at no cost, so that a single expensive one does not decide.
    spent: float = 0.0
    lost: float = 5.0
    # How many facts of the component itself went recently, and how many its rules had lost.
    went: float = 0.0
    went_for: float = 1.0

    def of_materialising(self, facts: int) -> float:
        return (self.effort + self.insertion) * facts

    def learn_materialising(self, facts: int, candidates: int, dense: bool) -> None:
        self.effort = candidates / facts
        self.insertion = DENSE_INSERTION_COST if dense else INSERTION_COST

    def of_deleting(self, lost: int) -> float:
        """A forecast of the cost where so many facts are lost; 0 before anything was seen."""
        return self.spent / self.lost * lost

    def learn_deletion(self, lost: int, spent: int) -> None:
        self.spent = REMEMBERED * self.spent + spent
        self.lost = REMEMBERED * self.lost + lost

    def learn_failure(self, lost: int, spent: int, patience: int) -> None:
        """A deletion was given up after so much work, because it would have taken more than it may."""
        self.learn_deletion(lost, max(DISAPPOINTMENT * spent, int(HOPELESSNESS * patience)))

    def of_going(self, lost: int) -> float:
        """A forecast of how many facts of the component go, where its rules lose so many."""
        return self.went / self.went_for * lost

    def learn_going(self, lost: int, went: int) -> None:
        self.went = REMEMBERED * self.went + went
        self.went_for = REMEMBERED * self.went_for + lost

    def forget(self) -> None:
        """A deletion was not tried: things may have changed since the last attempt."""
        self.spent *= TRIED_AGAIN


class Counted(NamedTuple):
    """How the derivations of a rule are counted: in which counter, and for levels in the component of which
    predicates, since in another one they would be different.
    """

    counter: int
    within: frozenset[str] = frozenset()

    @classmethod
    def of(cls, counter: int, predicates: Iterable[str]) -> Counted:
        """As a component of these predicates counts."""
        return cls(counter, frozenset(predicates)) if counter == AT_LEVEL else cls(counter)


class CountedRules:
    """How the derivations of each rule are counted: changed by an update, put back if it fails."""

    def __init__(self, rules: Iterable[tuple[int, Counted]] = ()) -> None:
        self._rules = dict(rules)
        self._before: dict[int, Counted | None] = {}
        self.version = 0  # changes whenever a rule is counted differently

    def get(self, rule: int) -> Counted | None:
        """None where the rule is not counted."""
        return self._rules.get(rule)

    def counter(self, rule: int) -> int | None:
        """The counter; None where the rule is not counted."""
        counted = self._rules.get(rule)
        return None if counted is None else counted.counter

    def count(self, rule: int, counted: Counted) -> None:
        """From now on the derivations of a rule are counted so."""
        if self._rules.get(rule) != counted:
            self._before.setdefault(rule, self._rules.get(rule))
            self._rules[rule] = counted
            self.version += 1

    def forget(self, rules: Iterable[int]) -> None:
        """The derivations of these rules are no longer counted."""
        for rule in self._rules.keys() & set(rules):
            self._before.setdefault(rule, self._rules.pop(rule))
            self.version += 1

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For an update that overtakes the one in work: what it changes is put back without that."""
        outer, self._before = self._before, {}
        try:
            yield
        finally:
            self._before = outer

    def commit(self) -> None:
        self._before.clear()

    def roll_back(self) -> None:
        self.version += 1
        for rule, counted in self._before.items():
            if counted is None:
                self._rules.pop(rule, None)
            else:
                self._rules[rule] = counted
        self._before.clear()
