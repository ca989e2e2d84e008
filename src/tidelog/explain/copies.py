"""The rules by which predicates of a closure copy each other, and a symmetric closure itself, as proofs use them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tidelog.language.syntax import Variable
from tidelog.program.normal_form import NormalRule

Pair = tuple[int, int]


class PairFact(NamedTuple):
    """A pair, and the predicate of the closure that it is of."""

    predicate: str
    pair: Pair


class PairStep(NamedTuple):
    """A fact, the rule of the closure that yields it (None: it is a leaf), and the facts and terms that this takes."""

    fact: PairFact
    rule: NormalRule | None
    premises: tuple[PairFact, ...]
    binding: Mapping[Variable, int]


def is_copy(rule: NormalRule) -> bool:
    """Among the rules of a closure: the others are transitive."""
    return len(rule.positives) == 1


def copies_twin(rule: NormalRule) -> bool:
    return is_copy(rule) and rule.positives[0].predicate != rule.head.predicate


def is_mirror(rule: NormalRule) -> bool:
    return is_copy(rule) and not copies_twin(rule) and _turns(rule)


def says_nothing(rule: NormalRule) -> bool:
    """Whether facts follow from themselves."""
    return is_copy(rule) and not copies_twin(rule) and not _turns(rule)


def mirror_among(rules: Iterable[NormalRule]) -> NormalRule | None:
    """The rule that turns the pairs of a symmetric closure round; best one that does not compare, as that turns all."""
    return min(filter(is_mirror, rules), key=lambda rule: len(rule.conditions), default=None)


def copy_step(rule: NormalRule, copied: PairFact) -> PairStep:
    binding = {
        term: end
        for term, end in zip(rule.positives[0].arguments, copied.pair, strict=True)
        if isinstance(term, Variable)
    }
    pair = copied.pair[::-1] if _turns(rule) else copied.pair
    return PairStep(PairFact(rule.head.predicate, pair), rule, (copied,), binding)


def origin(fact: PairFact, way: Iterable[NormalRule]) -> PairFact:
    """What a fact has been copied from, along a way whose last rule comes first."""
    for rule in way:
        pair = fact.pair[::-1] if _turns(rule) else fact.pair
        fact = PairFact(rule.positives[0].predicate, pair)
    return fact


def shortest_ways(predicate: str, rules: Collection[NormalRule]) -> dict[str, tuple[NormalRule, ...]]:
    """By predicate that is copied into this one, also over others: the rules of a shortest way, the last first."""
    ways: dict[str, tuple[NormalRule, ...]] = {predicate: ()}
    for reached in (order := [predicate]):
        for rule in filter(is_copy, rules):
            copied = rule.positives[0].predicate
            if rule.head.predicate == reached and copied not in ways:
                ways[copied] = (*ways[reached], rule)
                order.append(copied)
    return ways


def _turns(copy: NormalRule) -> bool:
    return copy.positives[0].arguments != copy.head.arguments
