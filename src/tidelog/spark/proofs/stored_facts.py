"""The facts of a version as proofs ask for them: which are explicit, and the instances of rules that derive them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidelog.language.syntax import Atom, Constant, Variable, variables
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import HEAD
from tidelog.proofs.attempts import values_in_place_of_aggregates
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.small.matching import Facts
from tidelog.spark.small.pending_facts import Groups, PendingFacts


class BodyMatch(NamedTuple):
    """A match of a rule's body: the facts that its atoms match, and the ids that its variables stand for."""

    facts: tuple[Fact, ...]
    ids: Ids


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule instance. That of a rule with aggregates has the matches of a whole group."""

    rule: NormalRule
    head: Fact
    matches: Sequence[BodyMatch]

    @property
    def premises(self) -> dict[Fact, None]:
        """All facts that it uses, each once, in the order of the body."""
        return dict.fromkeys(fact for match in self.matches for fact in match.facts)

    @property
    def variables(self) -> list[Variable]:
        """The variables that the ids of its matches belong to."""
        return bound_variables(self.rule)


def bound_variables(rule: NormalRule) -> list[Variable]:
    """The variables that a match binds."""
    found = [variable for atom in rule.positives for variable in variables(atom)]
    return list(dict.fromkeys([*found, *(item.variable for item in rule.definitions)]))


class StoredFacts:
    """The facts of a version, to look up."""

    def __init__(self, facts: PendingFacts) -> None:
        self._facts = facts
        self.values = facts.values

    def holding(self, facts: Iterable[Fact]) -> dict[Fact, bool]:
        """Those of some facts that hold, and whether they are explicit."""
        asked = list(facts)
        self._facts.look_up(asked)
        found = ((fact, self._facts.before(fact)) for fact in asked)
        return {fact: state.explicit for fact, state in found if state is not None}

    def count(self, predicate: str) -> int:
        stored = self._facts.stored.get(predicate)
        return stored.facts if stored else 0

    def has_explicit(self, predicate: str) -> bool:
        stored = self._facts.stored.get(predicate)
        return bool(stored and stored.explicit)

    def matching(self, predicate: str, columns: Sequence[int], keys: Collection[Ids]) -> dict[Ids, bool]:
        """The facts of a predicate that have one of these keys in some columns, and whether they are explicit."""
        return {ids: state.explicit for ids, state in self._facts.files.matching(predicate, columns, keys).items()}

    def instances(self, rule: NormalRule, wanted: set[Ids], places: Sequence[int] | None = None) -> Iterator[Instance]:
        """The instances of a rule that derive wanted facts; with `places`, that derive facts with wanted ids there."""
        if rule.aggregates:
            yield from self._groups(rule, wanted)
            return
        asked = rule.head.arguments if places is None else tuple(rule.head.arguments[place] for place in places)
        for head, match in self._matches(rule, Atom(rule.head.predicate, asked), wanted):
            yield Instance(rule, head, [match])

    def _groups(self, rule: NormalRule, wanted: set[Ids]) -> Iterator[Instance]:
        """Of facts, which other rules may derive as well, those that are the values of their groups."""
        groups = Groups(self._facts, rule)
        derived = {ids for _, ids in groups.heads(groups.deriving(wanted), before=True)} & wanted
        found: dict[Fact, list[BodyMatch]] = defaultdict(list)
        plain = values_in_place_of_aggregates(rule)
        if derived:
            for head, match in self._matches(plain, plain.head, derived):
                found[head].append(match)
        yield from (Instance(rule, head, matches) for head, matches in found.items())

    def _matches(self, rule: NormalRule, asked: Atom, wanted: set[Ids]) -> Iterator[tuple[Fact, BodyMatch]]:
        """The heads and matches of a rule that is asked about these ids."""
        sets = self._facts.phases.held(lambda _: Facts(wanted))
        found = self._facts.instances(replace(rule, head=asked), HEAD, (), sets)
        heads = found.facts(rule.head)
        bodies = (
            zip(*(found.facts(atom) for atom in rule.positives), strict=True) if rule.positives else [()] * len(heads)
        )
        rows = found.values(bound_variables(rule))
        for head, body, ids in zip(heads, bodies, rows, strict=True):
            yield head, BodyMatch(tuple(body), ids)

    def ids(self, terms: Iterable[Constant]) -> Ids:
        """The ids of constants; a constant that no fact has gets one that no fact has."""
        return tuple(self.values.ids([term.value for term in terms]))
