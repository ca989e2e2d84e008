"""Rule instances, found when they are asked for: those in which a given fact takes part, and those that derive it.

The engine's logical plans (`program.plan`) say in which order a body is matched from each start. Here they run over
`Facts`, each step for all matches so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidelog.engine.engine import Engine
from tidelog.errors import TidelogError
from tidelog.language.syntax import Atom, Call, Comparison, Constant, Term, Variable
from tidelog.live.operations.computing import Computer, Item, variables_of
from tidelog.live.operations.facts import Columns, Fact, Facts, Row
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, HEAD, Absent, Compare, Define, Match, Pivot, Plan, Start, Step, Take, make_plan

Values = list[int]
"""The values of a rule's variables, by their slots."""

Matches = list[Values]
Matcher = Callable[[Facts, Computer, Matches], Matches]
"""One step of a plan: the matches so far, extended or fewer."""

UNBOUND = -1


class UnfitRuleError(TidelogError):
    """The mode cannot maintain a rule."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance rσ of a rule: B₁σ, …, Bₖσ → Hσ. Rule and body determine the rest."""

    rule: int
    body: tuple[Fact, ...]
    head: Fact


@dataclass(frozen=True, slots=True, eq=False)
class RuleStart:
    """A rule and the body atom that a given fact matches: the next thing to determine for the fact. A negated atom
    stands for "there is no such fact".
    """

    rule: int
    position: int
    negated: bool

    def __str__(self) -> str:
        return f"rule {self.rule}, {'negated ' if self.negated else ''}atom {self.position}"


class _Search:
    """One plan of one rule, ready to run."""

    def __init__(self, plan: Plan, encode: Callable[[Constant], int]) -> None:
        self._slots: dict[Variable, int] = {}
        self._encode = encode
        first = plan.steps[0] if plan.steps else None
        self._take = self._pattern(first.atom, ()) if isinstance(first, Take) else None
        # A fact that matches a negated atom says nothing about the variables that occur only there.
        ignored = plan.rule.negated_only
        self._ignored = [slot for variable, slot in self._slots.items() if variable in ignored]
        steps = [step for step in plan.steps if not isinstance(step, Take)]
        self._steps = [(self._matcher(step), isinstance(step, Absent)) for step in steps]
        self._head = self._source(plan.rule.head)
        self._body = [self._source(atom) for atom in plan.rule.positives]
        self._size = len(self._slots)

    def run(
        self, facts: Facts, computer: Computer, row: Row, with_negation: bool
    ) -> Iterator[tuple[tuple[Fact, ...], Fact]]:
        """The bodies and heads of the instances. Without negation, negated atoms are taken to hold."""
        unbound = [UNBOUND] * self._size
        taken = unbound if self._take is None else self._take.matched(row, unbound)
        if taken is None:
            return
        for slot in self._ignored:
            taken[slot] = UNBOUND
        matches = [taken]
        for matcher, negation in self._steps:
            if with_negation or not negation:
                matches = matcher(facts, computer, matches)
            if not matches:
                return
        for values in matches:
            yield tuple([source.fact(values) for source in self._body]), self._head.fact(values)

    def _slot(self, variable: Variable) -> int:
        return self._slots.setdefault(variable, len(self._slots))

    def _source(self, atom: Atom) -> _Source:
        return _Source(atom.predicate, tuple(map(self._place, atom.arguments)))

    def _place(self, term: Term) -> int:
        """Where the value of a term is: a slot, or below zero the complement of a term number."""
        if isinstance(term, Variable):
            return self._slot(term)
        assert isinstance(term, Constant)
        return ~self._encode(term)

    def _pattern(self, atom: Atom, bound: Columns) -> _Pattern:
        source = self._source(atom)
        return _Pattern(source, bound, tuple(column for column in range(atom.arity) if column not in bound))

    def _matcher(self, step: Step) -> Matcher:
        match step:
            case Match(atom=atom, bound=bound):
                return partial(_match, self._pattern(atom, bound))
            case Absent(atom=atom, bound=bound):
                return partial(_reject, self._pattern(atom, bound))
            case Compare(comparison=comparison):
                return partial(_compare, comparison, self._slots_of(comparison))
            case Define(definition=definition):
                slot, expression = self._slot(definition.variable), definition.expression
                if isinstance(expression, Call):
                    return partial(_compute, slot, expression, self._slots_of(expression), step.binds)
                return partial(_copy, slot, self._place(expression), step.binds)
        raise AssertionError(step)

    def _slots_of(self, item: Item) -> tuple[int, ...]:
        return tuple(map(self._slot, variables_of(item)))


@dataclass(frozen=True, slots=True)
class _Source:
    """An atom as it is put together from values."""

    predicate: str
    places: tuple[int, ...]

    def fact(self, values: Values) -> Fact:
        return self.predicate, self.row(values, range(len(self.places)))

    def row(self, values: Values, columns: Iterable[int]) -> Row:
        places = self.places
        return tuple([values[places[column]] if places[column] >= 0 else ~places[column] for column in columns])


@dataclass(frozen=True, slots=True)
class _Pattern:
    """An atom of which some columns have values already; the others bind variables, or are compared."""

    source: _Source
    bound: Columns
    free: Columns

    def found(self, facts: Facts, values: Values) -> Iterable[Row]:
        source, bound = self.source, self.bound
        if not self.free:
            fact = source.fact(values)
            return (fact[1],) if fact in facts else ()
        return facts.matching(source.predicate, bound, source.row(values, bound))

    def matched(self, row: Row, values: Values) -> Values | None:
        """The values with those that a fact adds."""
        extended = values.copy()
        for column in self.free:
            place, cell = self.source.places[column], row[column]
            if place < 0:
                if ~place != cell:
                    return None
            elif extended[place] == UNBOUND:
                extended[place] = cell
            elif extended[place] != cell:
                return None
        return extended


def _match(pattern: _Pattern, facts: Facts, _: Computer, matches: Matches) -> Matches:
    extended = [pattern.matched(row, values) for values in matches for row in pattern.found(facts, values)]
    return [values for values in extended if values is not None]


def _reject(pattern: _Pattern, facts: Facts, _: Computer, matches: Matches) -> Matches:
    """Keep the matches for which there is no such fact."""
    return [
        values
        for values in matches
        if not any(pattern.matched(row, values) is not None for row in pattern.found(facts, values))
    ]


def _rows(slots: Sequence[int], matches: Matches) -> list[Row]:
    return [tuple([values[slot] for slot in slots]) for values in matches]


def _compare(item: Comparison, slots: Sequence[int], _: Facts, computer: Computer, matches: Matches) -> Matches:
    verdicts = computer.holds(item, _rows(slots, matches))
    return [values for values, holds in zip(matches, verdicts, strict=True) if holds]


def _compute(
    slot: int, expression: Call, slots: Sequence[int], binds: bool, _: Facts, computer: Computer, matches: Matches
) -> Matches:
    found = computer.values(expression, _rows(slots, matches))
    given = [(values, value) for values, value in zip(matches, found, strict=True) if value is not None]
    return _defined(slot, binds, given)


def _copy(slot: int, place: int, binds: bool, _: Facts, __: Computer, matches: Matches) -> Matches:
    return _defined(slot, binds, [(values, values[place] if place >= 0 else ~place) for values in matches])


def _defined(slot: int, binds: bool, given: Iterable[tuple[Values, int]]) -> Matches:
    """Bind a variable to its value, or keep the matches in which it has it."""
    if not binds:
        return [values for values, value in given if values[slot] == value]
    matches = []
    for values, value in given:
        extended = values.copy()
        extended[slot] = value
        matches.append(extended)
    return matches


class Instances:
    """The instances of a program in I. The caller has the lock of the knowledge base."""

    def __init__(self, engine: Engine, facts: Facts) -> None:
        self._engine = engine
        self._facts = facts
        self._rules: dict[int, NormalRule] = {}
        self._positive: dict[str, list[RuleStart]] = {}
        self._negative: dict[str, list[RuleStart]] = {}
        self._deriving: dict[str, list[int]] = {}
        self._searches: dict[RuleStart | int, _Search] = {}
        self._starts: dict[int, tuple[RuleStart, ...]] = {}
        self._constants: dict[Constant, int] = {}
        self.computer = Computer(engine)
        for number, rule in engine.graph.rules.items():
            self._take(number, normalise(rule))

    def _take(self, number: int, rule: NormalRule) -> None:
        check_rule(rule, self._engine)
        self._rules[number] = rule
        self._deriving.setdefault(rule.head.predicate, []).append(number)
        self._starts[number] = tuple(RuleStart(number, position, False) for position in range(len(rule.positives)))
        negated = tuple(RuleStart(number, position, True) for position in range(len(rule.negatives)))
        for starts, atoms, by_predicate in (
            (self._starts[number], rule.positives, self._positive),
            (negated, rule.negatives, self._negative),
        ):
            for start, atom in zip(starts, atoms, strict=True):
                by_predicate.setdefault(atom.predicate, []).append(start)

    def starts(self, predicate: str) -> Sequence[RuleStart]:
        """Where a fact of a predicate takes part in bodies."""
        return self._positive.get(predicate, ())

    def negated(self, predicate: str) -> Sequence[RuleStart]:
        """Where bodies ask for the absence of a fact of a predicate."""
        return self._negative.get(predicate, ())

    def starts_of(self, instance: Instance) -> Sequence[RuleStart]:
        """The starts from which an instance is found, for each fact of its body."""
        return self._starts[instance.rule]

    def is_derived(self, predicate: str) -> bool:
        return predicate in self._deriving

    def from_nothing(self) -> Iterator[Instance]:
        """The instances of rules whose bodies have no positive atoms."""
        for number, rule in self._rules.items():
            if not rule.positives:
                search = _Search(make_plan(rule, ALL, (), self._engine.store.estimate), self._encode)
                for body, head in search.run(self._facts, self.computer, (), True):
                    yield Instance(number, body, head)

    def using(self, start: RuleStart, fact: Fact, with_negation: bool = True) -> Iterator[Instance]:
        """The instances with a fact at some place of the body, and the others in I. One in which it stands at several
        places is found at the first of them.
        """
        for body, head in self._search(start).run(self._facts, self.computer, fact[1], with_negation):
            if start.negated or fact not in body[: start.position]:
                yield Instance(start.rule, body, head)

    def deriving(self, fact: Fact) -> Iterator[Instance]:
        """The instances with a fact as their head, and their bodies in I."""
        for number in self._deriving.get(fact[0], ()):
            for body, head in self._search(number).run(self._facts, self.computer, fact[1], True):
                yield Instance(number, body, head)

    def holds(self, instance: Instance) -> bool:
        """Whether an instance that was found earlier is still one."""
        if not all(fact in self._facts for fact in instance.body):
            return False
        if not self._rules[instance.rule].negatives:
            return True
        return any(found.body == instance.body for found in self.deriving(instance.head))

    def _search(self, start: RuleStart | int) -> _Search:
        found = self._searches.get(start)
        if found is None:
            number = start if isinstance(start, int) else start.rule
            pivot = HEAD
            if isinstance(start, RuleStart):
                pivot = Pivot(Start.NEGATIVE if start.negated else Start.POSITIVE, start.position)
            plan = make_plan(self._rules[number], pivot, (), self._engine.store.estimate)
            found = self._searches[start] = _Search(plan, self._encode)
        return found

    def _encode(self, constant: Constant) -> int:
        if constant not in self._constants:
            self._constants[constant] = self._engine.store.terms.encode(constant.value)
        return self._constants[constant]

    @property
    def constants(self) -> Iterable[int]:
        """The terms that rules name."""
        return self._constants.values()


def check_rule(rule: NormalRule, engine: Engine) -> None:
    """Refuse what the mode cannot do."""
    if rule.aggregates:
        raise UnfitRuleError(
            f'`overlap="operations"` has no aggregates, and a rule has: {engine.printed(rule.source)}\n'
            'hint: `overlap="batches"` maintains all rules'
        )
