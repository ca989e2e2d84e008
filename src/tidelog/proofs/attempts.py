"""How far a rule gets towards a fact that does not hold: the parts of its body that hold together, and those that fail.

The rule is matched from its head, one step of its plan after the other. A step that nothing matches has failed: it is
left out, and the rest is matched without it, so that what the other parts bind says more about what is missing. Parts
that need a value which only a failed part could give stay open. How matches are found is up to the engine: its
`Grounds`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from tidelog.language.syntax import Aggregate, Atom, Constant, Rule, Variable, variables
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import HEAD, Absent, Compare, Define, Match, Plan, Side, Step, Take, make_plan
from tidelog.proofs.wording import Binding
from tidelog.values import Value

# In bodies of up to this many atoms, each is left out in turn, to see whether it is the only one that is missing.
MOST_LEFT_OUT = 6


class OutOfReach(Exception):
    """The search for a match takes too long, or needs too many facts."""


class Matcher(Protocol):
    """Matches plans from the head."""

    def __call__(self, plan: Plan, bound: Sequence[Variable]) -> Binding | None:
        """The first match of a plan's steps, as terms of these variables; raises `OutOfReach`."""


class Grounds(Protocol):
    """What is asked of an engine."""

    @property
    def exhausted(self) -> bool:
        """Whether enough has been tried."""

    def producers(self, predicate: str) -> Collection[int]:
        """The numbers of the rules that derive a predicate."""

    def rule(self, number: int) -> Rule: ...

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        """How many facts match an atom of which some arguments are bound."""

    def asking(self, number: int, head: Atom, values: Sequence[Value]) -> AbstractContextManager[Matcher]:
        """For matching a rule from a head with these arguments."""

    def matches(self, pattern: Atom) -> bool:
        """Whether some fact matches an atom by itself."""

    def least_fact(self, pattern: Atom) -> Sequence[int]:
        """Of the facts that match an atom, of which there are some, the one with the least terms."""

    def outdone_by(self, fact: Atom) -> Sequence[int] | None:
        """For a fact of a predicate that keeps the best value of each group, the one that its group has, if that is
        better.
        """

    def group(self, rule: NormalRule, binding: Binding) -> Sequence[int] | None:
        """What a rule with aggregates derives for a group, given by some of its variables."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far a rule got. `held` are steps that one match was found for, and what it bound; `failed` are those that
    nothing matches, and `open` those that need what failed.
    """

    rule: NormalRule
    held: tuple[Step, ...]
    failed: tuple[Step, ...]
    open: tuple[Step, ...]
    binding: Binding


class Attempts:
    """Tries rules."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def attempts(self, number: int, goal: Atom) -> list[Attempt]:
        """How far a rule gets towards facts that match the goal: none where its head does not fit, and several where
        any one of some atoms would be enough.
        """
        written = normalise(self._grounds.rule(number))
        normal = values_in_place_of_aggregates(written) if written.aggregates else written
        terms = zip(normal.head.arguments, goal.arguments, strict=True)
        fixed = [(term, given) for term, given in terms if isinstance(given, Constant)]
        known = {term: given for term, given in fixed if isinstance(term, Variable)}
        rule = replace(
            normal,
            head=Atom(goal.predicate, tuple(term for term, _ in fixed)),
            # A variable that is in negated atoms alone means "there is none", and those that bind it may be left out.
            negatives=tuple(_put(atom, known) for atom in normal.negatives),
        )
        with self._grounds.asking(number, rule.head, [given.value for _, given in fixed]) as matcher:
            return list(self._tried(written, rule, matcher))

    def _tried(self, shown: NormalRule, rule: NormalRule, matcher: Matcher) -> Iterator[Attempt]:
        greedy = self._greedily(shown, rule, matcher)
        if greedy is None:
            return
        yield greedy
        if not 1 < len(rule.positives) <= MOST_LEFT_OUT:
            return
        for position, atom in enumerate(rule.positives):
            step = Match(atom, position, (), Side.AFTER, own=False)
            if len(greedy.failed) == 1 and _atom(greedy.failed[0]) is atom:
                continue
            rest, needing = _without(rule, step)
            plan = make_plan(rest, HEAD, (), self._grounds.estimate)
            length, binding, _ = _longest(plan, matcher)
            if not needing and length == len(plan.steps):
                yield Attempt(shown, plan.steps[1:], (step,), (), binding)

    def _greedily(self, shown: NormalRule, rule: NormalRule, matcher: Matcher) -> Attempt | None:
        """Leave out whatever fails first, until the rest holds."""
        failed: list[Step] = []
        left_open: list[Step] = []
        while True:
            plan = make_plan(rule, HEAD, (), self._grounds.estimate)
            length, binding, cut = _longest(plan, matcher)
            if length == 0:
                return None
            if length == len(plan.steps):
                return Attempt(shown, plan.steps[1:], tuple(failed), tuple(left_open), binding)
            step = plan.steps[length]
            (left_open if cut else failed).append(step)
            rule, needing = _without(rule, step)
            left_open += needing


def _longest(plan: Plan, matcher: Matcher) -> tuple[int, Binding, bool]:
    """How many steps of a plan have a match together, what it binds, and whether the search for more was cut."""
    best: Binding = {}
    for length in range(1, len(plan.steps) + 1):
        steps = plan.steps[:length]
        bound = tuple(dict.fromkeys(variable for step in steps for variable in _bound_by(step)))
        try:
            binding = matcher(Plan(plan.rule, plan.pivot, steps), bound)
        except OutOfReach:
            return length - 1, best, True
        if binding is None:
            return length - 1, best, False
        best = binding
    return len(plan.steps), best, False


def values_in_place_of_aggregates(aggregate: NormalRule) -> NormalRule:
    """The body of a rule with aggregates, from a head whose aggregates are values."""
    arguments = tuple(
        Variable(f"#value {column}") if isinstance(term, Aggregate) else term
        for column, term in enumerate(aggregate.head.arguments)
    )
    return replace(aggregate, head=Atom(aggregate.head.predicate, arguments), aggregates=())


def _put(atom: Atom, known: Mapping[Variable, Constant]) -> Atom:
    """An atom with known values in the place of variables."""
    terms = (known.get(term, term) if isinstance(term, Variable) else term for term in atom.arguments)
    return replace(atom, arguments=tuple(terms))


def _atom(step: Step) -> Atom | None:
    return step.atom if isinstance(step, Take | Match | Absent) else None


def _bound_by(step: Step) -> Iterator[Variable]:
    match step:
        case Take(atom=atom) | Match(atom=atom):
            yield from variables(atom)
        case Define(definition=definition):
            yield definition.variable


def _without(rule: NormalRule, step: Step) -> tuple[NormalRule, list[Step]]:
    """A rule without a step, and the steps that cannot be made without it."""
    before = _bound(rule)
    match step:
        case Match(position=position):
            positives = rule.positives[:position] + rule.positives[position + 1 :]
            rule = replace(rule, positives=positives)
        case Absent(position=position):
            rule = replace(rule, negatives=rule.negatives[:position] + rule.negatives[position + 1 :])
        case Compare(comparison=comparison):
            rule = replace(rule, conditions=tuple(item for item in rule.conditions if item is not comparison))
        case Define(definition=definition):
            rule = replace(rule, definitions=tuple(item for item in rule.definitions if item is not definition))
    lost = before - _bound(rule)
    if not lost:
        return rule, []
    definitions = [item for item in rule.definitions if lost.intersection(variables(item.expression))]
    conditions = [item for item in rule.conditions if lost.intersection(variables(item))]
    negatives = [atom for atom in rule.negatives if lost.intersection(variables(atom))]
    rest = replace(
        rule,
        definitions=tuple(item for item in rule.definitions if item not in definitions),
        conditions=tuple(item for item in rule.conditions if item not in conditions),
        negatives=tuple(atom for atom in rule.negatives if atom not in negatives),
    )
    needing: list[Step] = [Define(item, binds=False) for item in definitions]
    needing += [Compare(item) for item in conditions]
    needing += [Absent(atom, 0, (), Side.AFTER) for atom in negatives]
    return rest, needing


def _bound(rule: NormalRule) -> set[Variable]:
    """The variables that a rule binds from its head, its positive atoms and its definitions."""
    bound = {variable for atom in (rule.head, *rule.positives) for variable in variables(atom)}
    pending = list(rule.definitions)
    while ready := [item for item in pending if bound.issuperset(variables(item.expression))]:
        pending = [item for item in pending if item not in ready]
        bound.update(item.variable for item in ready)
    return bound
