"""The rules of a closure as proofs of its pairs use them: bases, copies between twins, and transitive rules.

A closure starts from *bases*: for each of its predicates, a relation of the pairs that this one is given. Its own rules
are of two kinds. A *copy* has one body atom: it turns the pairs of a symmetric closure round, or takes those of a twin.
The others are transitive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.language.syntax import Variable
from tidelog.program.normal_form import NormalRule
from tidelog.proofs.packing import Facing
from tidelog.store.relation_parts import Cells

Pair = tuple[int, int]

# The name of a predicate is a word or ends with `>`.
_BASE_NAME = re.compile("#base (.*?)(?: [0-9]+)*", re.DOTALL)


class PairFact(NamedTuple):
    """A pair, and the predicate of the closure that it belongs to."""

    predicate: str
    pair: Pair


class PairStep(NamedTuple):
    """A fact, the rule of the closure that yields it (None: it is a leaf), and the premises and terms of the rule."""

    fact: PairFact
    rule: NormalRule | None
    premises: tuple[PairFact, ...]
    binding: Mapping[Variable, int]


# --- bases ------------------------------------------------------------------------------------------------------------


def base_name(closure: ClosureNode, predicate: str) -> str:
    return closure.base.explicit_relation(predicate).name


def closed_predicate(name: str) -> str:
    """The predicate that users know a closure's base by; any other name stays as it is."""
    base = _BASE_NAME.fullmatch(name)
    return base[1] if base else name


def is_turned(closure: ClosureNode, predicate: str) -> bool:
    """Whether a predicate holds the pairs of the leader the other way round."""
    return closure.members[closure.module.predicates.index(predicate)].turned


def base_rows(closure: ClosureNode, predicate: str) -> Cells:
    """All pairs that a closure starts from, which the base of the leader holds, as pairs of a predicate."""
    rows = closure.base.explicit_relation(closure.module.predicate).rows()
    return rows[:, ::-1] if is_turned(closure, predicate) else rows


def own_rules(closure: ClosureNode, predicate: str) -> list[CompiledRule]:
    """The rules that derive into the base of a predicate, except for copies."""
    return [
        rule
        for base in closure.base.nodes
        if base.predicates == (predicate,)
        for rule in base.rules
        if rule.number not in closure.module.rules
    ]


# --- copies -----------------------------------------------------------------------------------------------------------


def is_copy(rule: NormalRule) -> bool:
    return len(rule.positives) == 1


def copies_twin(rule: NormalRule) -> bool:
    return is_copy(rule) and rule.positives[0].predicate != rule.head.predicate


def is_mirror(rule: NormalRule) -> bool:
    """Whether a rule turns the pairs of its predicate round."""
    return is_copy(rule) and not copies_twin(rule) and _turns(rule)


def says_nothing(rule: NormalRule) -> bool:
    """Whether a rule derives facts from themselves."""
    return is_copy(rule) and not copies_twin(rule) and not _turns(rule)


def _turns(copy: NormalRule) -> bool:
    return copy.positives[0].arguments != copy.head.arguments


def mirror_among(rules: Iterable[NormalRule]) -> NormalRule | None:
    """The rule that turns the pairs of a symmetric closure round; preferably one without conditions, for all pairs."""
    return min(filter(is_mirror, rules), key=lambda rule: len(rule.conditions), default=None)


def copy_step(rule: NormalRule, copied: PairFact) -> PairStep:
    binding = {
        term: end
        for term, end in zip(rule.positives[0].arguments, copied.pair, strict=True)
        if isinstance(term, Variable)
    }
    pair = copied.pair[::-1] if _turns(rule) else copied.pair
    return PairStep(PairFact(rule.head.predicate, pair), rule, (copied,), binding)


def origin(fact: PairFact, copies: Iterable[NormalRule]) -> PairFact:
    """What a fact was copied from, by rules of which the last comes first."""
    for rule in copies:
        pair = fact.pair[::-1] if _turns(rule) else fact.pair
        fact = PairFact(rule.positives[0].predicate, pair)
    return fact


def shortest_copies(predicate: str, rules: Collection[NormalRule]) -> dict[str, tuple[NormalRule, ...]]:
    """For each predicate that is copied into this one, directly or not: the fewest rules for it, the last first."""
    copies: dict[str, tuple[NormalRule, ...]] = {predicate: ()}
    for reached in (order := [predicate]):
        for rule in filter(is_copy, rules):
            copied = rule.positives[0].predicate
            if rule.head.predicate == reached and copied not in copies:
                copies[copied] = (*copies[reached], rule)
                order.append(copied)
    return copies


# --- transitive rules -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TransitiveRule:
    """A transitive rule: the variables of its head, the one between them, and for each body atom which end of the head
    it holds and whether it leads in the direction of the head."""

    rule: NormalRule
    head: tuple[Variable, Variable]
    between: Variable
    parts: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, rule: NormalRule) -> TransitiveRule:
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

    def step(self, pair: Pair, between: int, premises: Iterable[Pair]) -> PairStep:
        binding = {self.between: between, **dict(zip(self.head, pair, strict=True))}
        predicate = self.rule.head.predicate
        facts = tuple(PairFact(predicate, premise) for premise in premises)
        return PairStep(PairFact(predicate, pair), self.rule, facts, binding)


def transitive_rules(rules: Iterable[NormalRule]) -> list[TransitiveRule]:
    return [TransitiveRule.of(rule) for rule in rules if not is_copy(rule)]


def best_by_predicate(rules: Iterable[NormalRule]) -> dict[str, TransitiveRule]:
    """Of the transitive rules of each predicate, the one that proofs use: one without conditions, which yields every
    pair; then one that is followed exactly.
    """

    def preference(each: TransitiveRule) -> tuple[bool, int]:
        return bool(each.rule.conditions), list(Facing).index(each.facing)

    worst_first = sorted(transitive_rules(rules), key=preference, reverse=True)
    return {each.rule.head.predicate: each for each in worst_first}


def leads_one_way(rules: Iterable[NormalRule]) -> bool:
    """Whether all transitive rules of a closure ask for their parts alike, and not for both against the path.

    Only then does the lowest proof of a pair lie along one path that is followed in one orientation.
    """
    facings = {rule.facing for rule in transitive_rules(rules)}
    return len(facings) == 1 and Facing.AGAINST not in facings


def can_copy_first(rules: Collection[NormalRule]) -> bool:
    """Whether what twins join and then copy can just as well be copied first and then joined.

    That is so if each transitive rule speaks of one twin alone, if such rules put the same conditions on the pairs that
    they yield, whichever the twin, and if copies have no conditions.
    """
    transitive = transitive_rules(rules)
    alone = all(atom.predicate == each.rule.head.predicate for each in transitive for atom in each.rule.positives)
    alike = len({bool(each.rule.conditions) for each in best_by_predicate(rules).values()}) == 1
    return alone and alike and not any(rule.conditions for rule in rules if is_copy(rule))
