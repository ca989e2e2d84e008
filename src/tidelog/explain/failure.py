"""Why a fact does not hold: the rule that came closest to it, and the first part of its body that nothing matches.

Each rule that could derive the fact is matched from its head, one step of its plan after the other, until no match is
left. The rule with the fewest steps left came closest, and one match of the steps before them shows how far it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.engine.queries import run_query
from tidelog.engine.rules.compiled import group_predicate, normal_form
from tidelog.engine.update.match_rows import matches
from tidelog.explain.backwards import BackwardRules, values_in_place_of_aggregates
from tidelog.explain.writing import Binding, Wording
from tidelog.language import display_predicate
from tidelog.language.syntax import Atom, Query, Variable, variables
from tidelog.machine import flags as F
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import HEAD, Absent, Compare, Define, Match, Plan, Step, Take, make_plan
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far a rule got: the steps that a match was found for, what it bound, and the steps left."""

    rule: NormalRule
    matched: tuple[Step, ...]
    left: tuple[Step, ...]
    binding: Binding


class Inquest:
    """Looks for what a fact that does not hold lacks."""

    def __init__(self, backwards: BackwardRules, wording: Wording) -> None:
        self._backwards = backwards
        self._engine = backwards.engine
        self._wording = wording

    def report(self, fact: Atom, row: Cells | None, predicates: list[str]) -> str:
        """What the fact lacks, in words."""
        text = self._wording.text(fact)
        name = display_predicate(fact.predicate, self._wording.prefixes)
        if row is None:
            return f"{text} does not hold: {self._unknown(name, fact.arity, predicates)}"
        rules = self._engine.graph.producers(fact.predicate)
        if not rules:
            return f"{text} does not hold: it is not explicit, and there is no rule for `{name}`."
        attempts = [attempt for number in rules if (attempt := self._attempt(number, row)) is not None]
        if not attempts:
            return f"{text} does not hold: it is not explicit, and no rule for `{name}` has a head that fits."
        closest = min(attempts, key=lambda attempt: (len(attempt.left), -len(attempt.matched)))
        return "\n".join(self._lines(text, closest))

    def _unknown(self, name: str, arity: int, predicates: list[str]) -> str:
        if name in predicates:
            return f"`{name}` does not have {arity} argument{'' if arity == 1 else 's'}."
        similar = get_close_matches(name, predicates, n=1)
        hint = f" Did you mean `{similar[0]}`?" if similar else ""
        return f"nothing is known of `{name}`; no fact and no rule mentions it.{hint}"

    # --- attempts ---------------------------------------------------------------------------------------------------

    def _attempt(self, number: int, row: Cells) -> Attempt | None:
        """How far a rule gets; None where its head does not fit."""
        plain, aggregate = normal_form(self._engine.graph.rule(number), number)
        normal = values_in_place_of_aggregates(aggregate) if aggregate else plain
        plan = make_plan(normal, HEAD, (), self._engine.store.estimate)
        shadow = self._backwards.shadow(normal.head.predicate, normal.head.arity)
        shadow.load(row.reshape(1, -1), F.IN)
        best: Attempt | None = None
        try:
            with self._engine.store.borrowed():
                for length in range(1, len(plan.steps) + 1):
                    binding = self._match(plan.steps[:length], plan, shadow, number)
                    if binding is None:
                        break
                    best = Attempt(aggregate or plan.rule, plan.steps[1:length], plan.steps[length:], binding)
        finally:
            self._backwards.forget()
        return best

    def _match(self, steps: tuple[Step, ...], plan: Plan, shadow: Relation, number: int) -> Binding | None:
        """The first match of some steps from the head."""
        bound = tuple(dict.fromkeys(variable for step in steps for variable in _bound_by(step)))
        offset = self._engine.store.assemble(Plan(plan.rule, plan.pivot, steps), shadow, bound, number)
        head = np.zeros(1, np.int32)
        found = matches(self._backwards.runner(), HOLDING, offset, len(bound), head, most=1)
        return dict(zip(bound, found[0].tolist(), strict=True)) if len(found) else None

    # --- words ------------------------------------------------------------------------------------------------------

    def _lines(self, text: str, closest: Attempt) -> Iterator[str]:
        yield f"{text} does not hold. The rule that came closest:"
        yield f"  {self._wording.text(closest.rule.source)}"
        for step in closest.matched:
            yield f"    ✓ {self._said(step, closest.binding)}"
        if not closest.left:
            yield f"    ✗ {self._other_value(closest)}"
            return
        failed, *open_steps = closest.left
        yield f"    ✗ {self._said(failed, closest.binding)}  {self._verdict(failed, closest.binding)}"
        for step in open_steps:
            yield f"    ? {self._said(step, closest.binding)}"

    def _said(self, step: Step, binding: Binding) -> str:
        wording = self._wording
        match step:
            case Take(atom=atom) | Match(atom=atom):
                return wording.text(wording.atom(atom, binding))
            case Absent(atom=atom):
                return f"not {wording.text(wording.atom(atom, binding))}"
            case Compare(comparison=comparison):
                return wording.comparison(comparison, binding)
            case Define(definition=definition):
                return wording.definition(definition.variable, definition.expression, binding)

    def _verdict(self, step: Step, binding: Binding) -> str:
        match step:
            case Take() | Match():
                return "no fact matches"
            case Absent(atom=atom):
                return f"but {self._witness(self._wording.atom(atom, binding))} holds"
            case Define(binds=True):
                return "has no value"
        return "is not so"

    def _witness(self, pattern: Atom) -> str:
        """A fact that matches a negated atom."""
        named = {variable: Variable(f"V{place}") for place, variable in enumerate(dict.fromkeys(variables(pattern)))}
        arguments = (named[term] if isinstance(term, Variable) else term for term in pattern.arguments)
        asked = Atom(pattern.predicate, tuple(arguments))
        _, answers, _ = run_query(self._engine, Query((asked,)))
        binding = dict(zip(named.values(), answers[0].tolist(), strict=True))
        return self._wording.text(self._wording.atom(asked, binding))

    def _other_value(self, attempt: Attempt) -> str:
        """For an aggregate whose body matches: the value that its group has instead."""
        head, binding = attempt.rule.head, attempt.binding
        number = next(n for n, rule in self._engine.graph.rules.items() if rule is attempt.rule.source)
        groups = self._engine.store.relation(group_predicate(number), head.arity).rows()
        for column, term in enumerate(head.arguments):
            if isinstance(term, Variable):
                groups = groups[groups[:, column] == binding[term]]
        if not len(groups):
            return "the values of its group cannot be aggregated"
        return f"its group gives {self._wording.fact(head.predicate, groups[0].tolist())}"


def _bound_by(step: Step) -> Iterator[Variable]:
    match step:
        case Take(atom=atom) | Match(atom=atom):
            yield from variables(atom)
        case Define(definition=definition):
            yield definition.variable
