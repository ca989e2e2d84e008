"""How far a rule gets towards a fact that does not hold: the parts of its body that hold together, and those that fail.

The rule is matched from its head, one step of its plan after the other. A step that nothing matches has failed: it is
left out, and the rest is matched without it, so that what the other parts bind says more about what is missing. Parts
that need a value which only a failed part could give stay open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.engine.rules.compiled import normal_form
from tidelog.engine.update.match_rows import matches
from tidelog.engine.update.runner import OutOfPatience
from tidelog.explain.backwards import BackwardRules, values_in_place_of_aggregates
from tidelog.explain.writing import Binding
from tidelog.language.syntax import Atom, Constant, Rule, Variable, variables
from tidelog.machine import flags as F
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, HEAD, Absent, Compare, Define, Match, Plan, Side, Step, Take, make_plan
from tidelog.store.relation import Relation

# Candidates that all attempts for one question may look at: a second or two.
ALLOWANCE = 20_000_000

# In bodies of up to this many atoms, each is left out in turn, to see whether it is the only one that is missing.
MOST_LEFT_OUT = 6


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
    """Tries rules, until the allowance is spent."""

    def __init__(self, backwards: BackwardRules) -> None:
        self._backwards = backwards
        self._engine = backwards.engine
        self._left = ALLOWANCE

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def attempts(self, number: int, goal: Atom) -> list[Attempt]:
        """How far a rule gets towards facts that match the goal: none where its head does not fit, and several where
        any one of some atoms would be enough.
        """
        plain, aggregate = normal_form(self._engine.graph.rule(number), number)
        normal = values_in_place_of_aggregates(aggregate) if aggregate else plain
        terms = zip(normal.head.arguments, goal.arguments, strict=True)
        fixed = [(term, given) for term, given in terms if isinstance(given, Constant)]
        known = {term: given for term, given in fixed if isinstance(term, Variable)}
        rule = replace(
            normal,
            head=Atom(goal.predicate, tuple(term for term, _ in fixed)),
            # A variable that is in negated atoms alone means "there is none", and those that bind it may be left out.
            negatives=tuple(_put(atom, known) for atom in normal.negatives),
        )
        shadow = self._backwards.shadow(f"{goal.predicate} by {len(fixed)}", len(fixed))
        values = [given.value for _, given in fixed]
        row = self._engine.store.terms.encode_values(values) if values else np.empty(0, np.int32)
        shadow.load(row.reshape(1, -1), F.IN)
        try:
            with self._engine.store.borrowed():
                return list(self._tried(aggregate or normal, rule, shadow, number))
        finally:
            self._backwards.forget()

    def _tried(self, shown: NormalRule, rule: NormalRule, shadow: Relation, number: int) -> Iterator[Attempt]:
        greedy = self._greedily(shown, rule, shadow, number)
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
            plan = make_plan(rest, HEAD, (), self._engine.store.estimate)
            length, binding, _ = self._longest(plan, shadow, number)
            if not needing and length == len(plan.steps):
                yield Attempt(shown, plan.steps[1:], (step,), (), binding)

    def _greedily(self, shown: NormalRule, rule: NormalRule, shadow: Relation, number: int) -> Attempt | None:
        """Leave out whatever fails first, until the rest holds."""
        failed: list[Step] = []
        left_open: list[Step] = []
        while True:
            plan = make_plan(rule, HEAD, (), self._engine.store.estimate)
            length, binding, cut = self._longest(plan, shadow, number)
            if length == 0:
                return None
            if length == len(plan.steps):
                return Attempt(shown, plan.steps[1:], tuple(failed), tuple(left_open), binding)
            step = plan.steps[length]
            (left_open if cut else failed).append(step)
            rule, needing = _without(rule, step)
            left_open += needing

    def matches(self, pattern: Atom) -> bool:
        """Whether some fact matches an atom by itself."""
        rule = normalise(Rule(Atom("#any"), (pattern,)))
        with self._engine.store.borrowed():
            plan = make_plan(rule, ALL, (), self._engine.store.estimate)
            offset = self._engine.store.assemble(plan, None, (), 0)
            return len(matches(self._backwards.runner(), HOLDING, offset, 0, most=1)) > 0

    def _longest(self, plan: Plan, shadow: Relation, number: int) -> tuple[int, Binding, bool]:
        """How many steps of a plan have a match together, what it binds, and whether the search for more was cut."""
        best: Binding = {}
        for length in range(1, len(plan.steps) + 1):
            try:
                binding = self._match(plan.steps[:length], plan, shadow, number)
            except OutOfPatience:
                return length - 1, best, True
            if binding is None:
                return length - 1, best, False
            best = binding
        return len(plan.steps), best, False

    def _match(self, steps: tuple[Step, ...], plan: Plan, shadow: Relation, number: int) -> Binding | None:
        """The first match of some steps from the head."""
        bound = tuple(dict.fromkeys(variable for step in steps for variable in _bound_by(step)))
        offset = self._engine.store.assemble(Plan(plan.rule, plan.pivot, steps), shadow, bound, number)
        runner = self._backwards.runner()
        try:
            with runner.patience(max(1, self._left)):
                found = matches(runner, HOLDING, offset, len(bound), np.zeros(1, np.int32), most=1)
        finally:
            self._left -= runner.candidates
        return dict(zip(bound, found[0].tolist(), strict=True)) if len(found) else None


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
