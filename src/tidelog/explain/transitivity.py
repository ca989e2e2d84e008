"""The transitive rules of a closure, as a proof along a path uses them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidelog.explain.copies import is_copy
from tidelog.explain.packing import Facing
from tidelog.language.syntax import Variable
from tidelog.program.normal_form import NormalRule


@dataclass(frozen=True, slots=True)
class Transitivity:
    """A transitive rule: the variables of its head and the one between, and for each atom which end of the head it
    holds and whether it leads on in the direction of the head."""

    rule: NormalRule
    head: tuple[Variable, Variable]
    between: Variable
    parts: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, rule: NormalRule) -> Transitivity:
        first, last = rule.head.arguments
        assert isinstance(first, Variable)
        assert isinstance(last, Variable)
        parts = []
        for atom in rule.positives:
            end = 0 if first in atom.arguments else 1
            parts.append((end, atom.arguments[end] == (first, last)[end]))
        between = next(term for term in rule.positives[0].arguments if term not in (first, last))
        assert isinstance(between, Variable)
        return cls(rule, (first, last), between, tuple(parts))

    @property
    def facing(self) -> Facing:
        ends = dict(self.parts)
        return Facing((ends[0], ends[1]))

    @property
    def rank(self) -> tuple[bool, int]:
        """A rule that does not compare yields every pair; then those that are followed exactly."""
        return bool(self.rule.conditions), list(Facing).index(self.facing)


def transitivities(rules: Iterable[NormalRule]) -> list[Transitivity]:
    return [Transitivity.of(rule) for rule in rules if not is_copy(rule)]


def best_by_predicate(rules: Iterable[NormalRule]) -> dict[str, Transitivity]:
    """Of the transitive rules of each predicate, the one that proofs use."""
    ordered = sorted(transitivities(rules), key=lambda rule: rule.rank, reverse=True)
    return {rule.rule.head.predicate: rule for rule in ordered}


def leads_one_way(rules: Iterable[NormalRule]) -> bool:
    """Whether all transitive rules of a closure ask for their parts alike, and not for both against the path.

    Only then the lowest proof of a pair lies along one path that is followed in one orientation.
    """
    facings = {rule.facing for rule in transitivities(rules)}
    return len(facings) == 1 and Facing.AGAINST not in facings


def can_copy_first(rules: Collection[NormalRule]) -> bool:
    """Whether, of twins, what is copied once it has been joined can as well be copied first and joined then.

    So it is where each transitive rule speaks of one twin alone, where such rules ask the same of the pairs that they
    yield, whichever the twin, and where copies ask nothing.
    """
    steps = transitivities(rules)
    alone = all(atom.predicate == step.rule.head.predicate for step in steps for atom in step.rule.positives)
    alike = len({bool(step.rule.conditions) for step in best_by_predicate(rules).values()}) == 1
    return alone and alike and not any(rule.conditions for rule in rules if is_copy(rule))
