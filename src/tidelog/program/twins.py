"""Rules that consist of pairs alone, and *twins*: predicates of a component that such rules make one relation, in two
directions or under several names.

Ontologies name a relation both ways round: `partOf(x, y) :- hasPart(y, x).` and `hasPart(x, y) :- partOf(y, x).` A rule
of this form is a *copy*: its head holds at least the pairs of its body, turned round or as they are. Where copies lead
from one predicate, the *leader*, to others and from each of these back to it, all hold the same pairs, up to their
direction: they are twins. What the rules of the component say of twins they say of the leader (`as_rule_of_leader`),
and a closure of one is a closure of all.

Copies may disagree on the direction of a twin. Then the leader holds the mirror image of each of its pairs, direction
means nothing, and one of the copies, read as a rule of the leader, is `R(y, x) :- R(x, y)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tidelog.language.syntax import Atom, Comparison, Rule, Variable

Copied = dict[str, dict[str, tuple[int, bool]]]
"""By predicate, those that it is copied to or from: the number of the rule, and whether it turns pairs round."""


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
    """A rule that consists of pairs alone; `compares` where it demands that the ends of its head differ."""

    head: Pair
    body: tuple[Pair, ...]
    compares: bool


def shape_of(rule: Rule) -> Shape | None:
    """A rule as pairs of variables, or None where it holds anything else."""
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
    names = {side.name for side in (comparison.left, comparison.right) if isinstance(side, Variable)}
    return comparison.operator == "!=" and names == head.ends


class Twin(NamedTuple):
    """A predicate that holds the leader's pairs."""

    predicate: str
    turned: bool  # the other way round
    copy: int  # the rule that copies it into the leader, or into a twin nearer to the leader


class Copies:
    """The copies between the predicates of a component."""

    def __init__(self, predicates: Collection[str], shapes: Mapping[int, Shape | None]) -> None:
        self._into: Copied = {predicate: {} for predicate in predicates}
        self._out_of: Copied = {predicate: {} for predicate in predicates}
        for number, shape in sorted(shapes.items()):
            if shape is not None and len(shape.body) == 1 and not shape.compares:
                head, body = shape.head, shape.body[0]
                if body.predicate in self._out_of:
                    copy = number, body.first != head.first
                    self._into[head.predicate].setdefault(body.predicate, copy)
                    self._out_of[body.predicate].setdefault(head.predicate, copy)

    def twins_of(self, leader: str) -> tuple[Twin, ...]:
        """The twins of a predicate, the nearest to it first."""
        reached = {twin.predicate for twin in _walk(leader, self._out_of)}
        return tuple(twin for twin in _walk(leader, self._into) if twin.predicate in reached)


def _walk(leader: str, copied: Copied) -> list[Twin]:
    """All predicates that copies join to the leader, those nearer to it first."""
    found = {leader: Twin(leader, False, 0)}
    for twin in (order := [found[leader]]):
        for predicate, (number, turns) in copied[twin.predicate].items():
            if predicate not in found:
                found[predicate] = Twin(predicate, twin.turned != turns, number)
                order.append(found[predicate])
    return order[1:]


def directions(leader: str, twins: Iterable[Twin]) -> dict[str, bool]:
    """Which of the predicates that hold the leader's pairs hold them the other way round."""
    return {leader: False, **{twin.predicate: twin.turned for twin in twins}}


def as_rule_of_leader(shape: Shape, leader: str, turned: Mapping[str, bool]) -> Shape:
    """The same rule with the leader in place of its twins, whose `directions` are given."""

    def renamed(pair: Pair) -> Pair:
        if pair.predicate not in turned:
            return pair
        return (pair.turned() if turned[pair.predicate] else pair)._replace(predicate=leader)

    return Shape(renamed(shape.head), tuple(map(renamed, shape.body)), shape.compares)
