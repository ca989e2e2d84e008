"""Rules that are made of pairs alone: by these closures (`program.modules`) and twins (`program.twins`) are known."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.language.syntax import Atom, Comparison, Rule, Term, Variable


class Pair(NamedTuple):
    """A binary atom on two different variables."""

    predicate: str
    first: str
    second: str

    @property
    def ends(self) -> frozenset[str]:
        return frozenset((self.first, self.second))

    def turned(self) -> Pair:
        return Pair(self.predicate, self.second, self.first)


class Shape(NamedTuple):
    """A rule made of pairs alone; `compares` where it asks for different ends of its head."""

    head: Pair
    body: tuple[Pair, ...]
    compares: bool


def shape_of(rule: Rule) -> Shape | None:
    """A rule as pairs of variables, or None where it has anything else in it."""
    head = _pair(rule.head)
    atoms = [item for item in rule.body if isinstance(item, Atom)]
    others = [item for item in rule.body if not isinstance(item, Atom)]
    body = [pair for pair in map(_pair, atoms) if pair]
    if head is None or len(body) < len(atoms):
        return None
    if not all(isinstance(item, Comparison) and _separates(item, head) for item in others):
        return None
    return Shape(head, tuple(body), compares=bool(others))


def _pair(atom: Atom) -> Pair | None:
    names = [argument.name for argument in atom.arguments if isinstance(argument, Variable)]
    return Pair(atom.predicate, *names) if len(set(names)) == 2 == atom.arity else None


def _separates(comparison: Comparison, head: Pair) -> bool:
    """Whether a comparison is `x != z` on the two ends of the head, either way round."""
    sides: tuple[Term, Term] = (comparison.left, comparison.right)
    names = {side.name for side in sides if isinstance(side, Variable)}
    return comparison.operator == "!=" and names == head.ends
