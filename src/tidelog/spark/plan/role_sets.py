"""The sets of facts that the atoms of a plan match: one for each role of an atom, chosen by the phase of an update.

The roles, and the set that each phase chooses for each, are those of the embedded engine (`match_sets`). The kind of
set does not matter here: large updates match DataFrames, small ones match facts that they look up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Absent, Match, Pivot, Side, Start, Take

F = TypeVar("F")


@dataclass(frozen=True)
class Sets(Generic[F]):
    """For each role that an atom can have in a plan, a set of facts by predicate."""

    take: Callable[[str], F]
    lower_before: Callable[[str], F]
    lower_after: Callable[[str], F]
    own_before: Callable[[str], F]
    own_after: Callable[[str], F]
    absent_before: Callable[[str], F]

    def lookup(self, step: Take | Match | Absent) -> F:
        """The facts that a step matches."""
        name = step.atom.predicate
        match step:
            case Take():
                return self.take(name)
            case Match(own=True, side=side):
                return self.own_before(name) if side is Side.BEFORE else self.own_after(name)
            case Match(side=side):
                return self.lower_before(name) if side is Side.BEFORE else self.lower_after(name)
            case Absent(side=side):
                return self.absent_before(name) if side is Side.BEFORE else self.lower_after(name)


@dataclass(frozen=True)
class Phases(Generic[F]):
    """The facts of each predicate around an update, from which the sets of each phase are chosen."""

    before: Callable[[str], F]
    after: Callable[[str], F]
    unchanged: Callable[[str], F]
    either: Callable[[str], F]
    come: Callable[[str], F]
    gone: Callable[[str], F]
    count_come: Callable[[str], int]
    count_gone: Callable[[str], int]

    def held(self, take: Callable[[str], F] | None = None) -> Sets[F]:
        """For instances that held before the update."""
        old = self.before
        return Sets(take or old, old, old, old, old, old)

    def holding(self, own: Callable[[str], F] | None = None, take: Callable[[str], F] | None = None) -> Sets[F]:
        """For instances that hold after it; `own` chooses the facts of the component."""
        new = self.after
        return Sets(take or new, new, new, own or new, own or new, new)

    def whole(self, before: bool, take: Callable[[str], F] | None = None) -> Sets[F]:
        """For instances that held before the update, or hold after it."""
        return self.held(take) if before else self.holding(take=take)

    def changed_below(
        self, rule: NormalRule, component: Collection[str], created: bool, own: Callable[[str], F] | None = None
    ) -> Iterator[tuple[Pivot, Sets[F], int]]:
        """For instances that changes below the component create or destroy: pivots, sets, and numbers of facts.

        Facts that have come create instances through positive atoms, facts that have gone through negated ones. For
        instances that are destroyed it is the other way round."""
        whole = self.after if created else self.before
        for start, atoms in ((Start.POSITIVE, rule.positives), (Start.NEGATIVE, rule.negatives)):
            has_come = created is (start is Start.POSITIVE)
            count, take = (self.count_come, self.come) if has_come else (self.count_gone, self.gone)
            for position, atom in enumerate(atoms):
                if atom.predicate not in component and count(atom.predicate):
                    sets = Sets(take, self.unchanged, whole, own or whole, own or whole, self.either)
                    yield Pivot(start, position), sets, count(atom.predicate)
