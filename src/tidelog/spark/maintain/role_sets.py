"""The sets that the atoms of a plan match in: one for each role, as each phase of an update gives them.

The roles, and which set a phase gives to each, are those of the embedded engine (`match_sets`). What a set is does
not matter here: updates on Spark have DataFrames, small ones have facts that they look up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidelog.program.plan import Absent, Match, Side, Take

F = TypeVar("F")


@dataclass(frozen=True)
class Sets(Generic[F]):
    """A set, by predicate, for each role that an atom can have in a plan."""

    take: Callable[[str], F]
    lower_before: Callable[[str], F]
    lower_after: Callable[[str], F]
    own_before: Callable[[str], F]
    own_after: Callable[[str], F]
    absent_before: Callable[[str], F]
    absent_after: Callable[[str], F]

    def lookup(self, step: Take | Match | Absent) -> F:
        """The facts that a step is to match."""
        name = step.atom.predicate
        match step:
            case Take():
                return self.take(name)
            case Match(own=True, side=side):
                return self.own_before(name) if side is Side.BEFORE else self.own_after(name)
            case Match(side=side):
                return self.lower_before(name) if side is Side.BEFORE else self.lower_after(name)
            case Absent(side=side):
                return self.absent_before(name) if side is Side.BEFORE else self.absent_after(name)


@dataclass(frozen=True)
class Phases(Generic[F]):
    """The facts of a predicate around an update, from which the sets of each phase are put together."""

    before: Callable[[str], F]
    after: Callable[[str], F]
    unchanged: Callable[[str], F]
    either: Callable[[str], F]
    come: Callable[[str], F]
    gone: Callable[[str], F]

    def held(self, take: Callable[[str], F] | None = None) -> Sets[F]:
        """Instances that held before the update."""
        old = self.before
        return Sets(take or old, old, old, old, old, old, old)

    def holding(self, own: Callable[[str], F] | None = None, take: Callable[[str], F] | None = None) -> Sets[F]:
        """Instances that hold after it, with the facts of the component in a set of their own."""
        new = self.after
        return Sets(take or new, new, new, own or new, own or new, new, new)

    def created(self, negated: bool, own: Callable[[str], F] | None = None) -> Sets[F]:
        """Instances that hold now and use something new from below."""
        new, own = self.after, own or self.after
        return Sets(self.gone if negated else self.come, self.unchanged, new, own, own, self.either, new)

    def destroyed(self, negated: bool) -> Sets[F]:
        """Instances that held before and used something that is gone from below."""
        old = self.before
        return Sets(self.come if negated else self.gone, self.unchanged, old, old, old, self.either, old)
