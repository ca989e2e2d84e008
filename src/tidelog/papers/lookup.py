"""Rule instances that are found when they are asked for, where there are too many to keep.

Bodies are matched atom by atom in indexes of I, which are built at first use. `using` matches the annotated queries (9)
of Backward/Forward, so that it gives each instance once. Rules have positive atoms only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tidelog.language.syntax import Atom, Constant, Rule, Term, Variable
from tidelog.papers.instances import Fact, Instance

Value = Constant | None
Values = dict[str, Value]
Index = dict[tuple[Value, ...], list[Fact]]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """An atom with the names of its variables, which are hashed faster than they are."""

    predicate: str
    terms: tuple[str | Constant, ...]

    @staticmethod
    def of(atom: Atom) -> _Pattern:
        return _Pattern(atom.predicate, tuple(map(_term, atom.arguments)))


def _term(term: Term) -> str | Constant:
    if isinstance(term, Variable):
        return term.name
    assert isinstance(term, Constant)
    return term


@dataclass(frozen=True, slots=True)
class _Step:
    """A body atom to match next: its place in the body, and the arguments that have values by then."""

    place: int
    atom: _Pattern
    known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Start:
    """A rule, the atom that a given fact matches (its head or the body atom at `place`), and the steps from there."""

    text: str
    head: _Pattern
    length: int
    atom: _Pattern
    place: int | None
    steps: tuple[_Step, ...]


class InstancesOnDemand:
    """The instances of rules in a set of facts."""

    def __init__(self, rules: Iterable[Rule], facts: Collection[Fact]) -> None:
        self._facts = facts
        self._by_predicate: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            self._by_predicate[fact.predicate].append(fact)
        self._indexes: dict[tuple[str, tuple[int, ...]], Index] = {}
        self._heads: defaultdict[str, list[_Start]] = defaultdict(list)
        self._bodies: defaultdict[str, list[_Start]] = defaultdict(list)
        for rule in rules:
            for start in _starts(rule):
                known = self._heads if start.place is None else self._bodies
                known[start.atom.predicate].append(start)

    @property
    def all(self) -> Iterable[Instance]:
        return chain.from_iterable(map(self.deriving, self._facts))

    def deriving(self, fact: Fact) -> Iterator[Instance]:
        """Π.matchHead(F), rule by rule."""
        for start in self._heads.get(fact.predicate, ()):
            yield from self._instances(start, fact)

    def using(self, fact: Fact) -> Iterator[Instance]:
        """Π.matchBody(F): B₁ to Bᵢ₋₁ match other facts than Bᵢ."""
        for start in self._bodies.get(fact.predicate, ()):
            for instance in self._instances(start, fact):
                if fact not in instance.body[: start.place]:
                    yield instance

    def _instances(self, start: _Start, fact: Fact) -> Iterator[Instance]:
        values = _matched(start.atom, fact, {})
        if values is None:
            return
        found: list[Fact] = [fact] * start.length
        for complete in self._matches(start.steps, values, found):
            yield Instance(start.text, _ground(start.head, complete), tuple(found))

    def _matches(self, steps: Sequence[_Step], values: Values, found: list[Fact]) -> Iterator[Values]:
        """The values of all matches of the steps; `found` then holds the facts."""
        if not steps:
            yield values
            return
        step, *later = steps
        for fact in self._candidates(step, values):
            extended = _matched(step.atom, fact, values)
            if extended is not None:
                found[step.place] = fact
                yield from self._matches(later, extended, found)

    def _candidates(self, step: _Step, values: Values) -> Collection[Fact]:
        atom, known = step.atom, step.known
        if len(known) == len(atom.terms):
            fact = _ground(atom, values)
            return (fact,) if fact in self._facts else ()
        if (atom.predicate, known) not in self._indexes:
            self._indexes[atom.predicate, known] = _index(self._by_predicate[atom.predicate], known)
        key = tuple([_value(atom.terms[place], values) for place in known])
        return self._indexes[atom.predicate, known].get(key, ())


def _starts(rule: Rule) -> Iterator[_Start]:
    body = [_Pattern.of(item) for item in rule.body if isinstance(item, Atom)]
    if len(body) < len(rule.body):
        raise ValueError(f"only rules with positive atoms can be looked up: {rule}")
    head = _Pattern.of(rule.head)
    for place in (None, *range(len(body))):
        first = head if place is None else body[place]
        yield _Start(str(rule), head, len(body), first, place, tuple(_steps(body, place, first)))


def _steps(body: Sequence[_Pattern], start: int | None, first: _Pattern) -> Iterator[_Step]:
    """An order in which each atom comes with as many known arguments as possible."""
    known = set(first.terms)
    left = [place for place in range(len(body)) if place != start]
    while left:
        steps = [_Step(place, body[place], _known(body[place], known)) for place in left]
        chosen = max(steps, key=lambda step: len(step.known))
        yield chosen
        left.remove(chosen.place)
        known.update(chosen.atom.terms)


def _known(atom: _Pattern, terms: Collection[str | Constant]) -> tuple[int, ...]:
    return tuple(i for i, term in enumerate(atom.terms) if isinstance(term, Constant) or term in terms)


def _matched(atom: _Pattern, fact: Fact, values: Values) -> Values | None:
    extended = values.copy()
    for term, cell in zip(atom.terms, fact.row, strict=True):
        value = extended.setdefault(term, cell) if isinstance(term, str) else term
        if value is not cell and value != cell:
            return None
    return extended


def _index(facts: Iterable[Fact], places: tuple[int, ...]) -> Index:
    index: Index = defaultdict(list)
    for fact in facts:
        index[tuple([fact.row[place] for place in places])].append(fact)
    return index


def _ground(atom: _Pattern, values: Values) -> Fact:
    return Fact(atom.predicate, tuple([_value(term, values) for term in atom.terms]))


def _value(term: str | Constant, values: Values) -> Value:
    return values[term] if isinstance(term, str) else term
