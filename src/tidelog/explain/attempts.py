"""Matches for the attempts of `proofs/attempts.py`, found by the kernels in the relations of an engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tidelog.engine.algorithms.aggregate_functions import is_better
from tidelog.engine.propagation.match_sets import SHOWN
from tidelog.engine.rules.compiled import group_predicate
from tidelog.engine.update.match_rows import matches
from tidelog.engine.update.runner import OutOfPatience
from tidelog.explain.backwards import BackwardRules
from tidelog.language.syntax import Atom, Constant, Rule, Variable
from tidelog.machine import flags as F
from tidelog.program.lattices import RISES
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, Plan, make_plan
from tidelog.proofs.attempts import Matcher, OutOfReach
from tidelog.proofs.wording import Binding
from tidelog.store.relation_parts import Cells
from tidelog.values import Value

# Candidates that all attempts for one question may look at: a second or two.
ALLOWANCE = 20_000_000


class EngineGrounds:
    """The facts of an engine, until the allowance is spent."""

    def __init__(self, backwards: BackwardRules) -> None:
        self._backwards = backwards
        self._engine = backwards.engine
        self._left = ALLOWANCE

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def producers(self, predicate: str) -> Collection[int]:
        return self._engine.graph.producers(predicate)

    def rule(self, number: int) -> Rule:
        return self._engine.graph.rule(number)

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return self._engine.store.estimate(atom, bound)

    @contextmanager
    def asking(self, number: int, head: Atom, values: Sequence[Value]) -> Iterator[Matcher]:
        """The head is taken from a relation of its own."""
        store = self._engine.store
        shadow = self._backwards.shadow(f"{head.predicate} by {head.arity}", head.arity)
        row = store.terms.encode_values(list(values)) if values else np.empty(0, np.int32)
        shadow.load(row.reshape(1, -1), F.IN)

        def match(plan: Plan, bound: Sequence[Variable]) -> Binding | None:
            offset = store.assemble(plan, shadow, tuple(bound), number)
            runner = self._backwards.runner()
            try:
                with runner.patience(max(1, self._left)):
                    found = matches(
                        runner, SHOWN[self._engine.store.shown], offset, len(bound), np.zeros(1, np.int32), most=1
                    )
            except OutOfPatience:
                raise OutOfReach from None
            finally:
                self._left -= runner.candidates
            return dict(zip(bound, found[0].tolist(), strict=True)) if len(found) else None

        try:
            with store.borrowed():
                yield match
        finally:
            self._backwards.forget()

    def matches(self, pattern: Atom) -> bool:
        return len(self._facts(pattern, most=1)) > 0

    def least_fact(self, pattern: Atom) -> Sequence[int]:
        return min(self._facts(pattern, most=None).tolist())

    def _facts(self, pattern: Atom, most: int | None) -> Cells:
        """The facts that match an atom, or the first of them."""
        rule = normalise(Rule(Atom("#any"), (pattern,)))
        with self._engine.store.borrowed():
            plan = make_plan(rule, ALL, (), self._engine.store.estimate)
            offset = self._engine.store.assemble(plan, None, pattern.arguments, 0)
            return matches(self._backwards.runner(), SHOWN[self._engine.store.shown], offset, pattern.arity, most=most)

    def outdone_by(self, fact: Atom) -> Sequence[int] | None:
        lattice = self._engine.graph.component(fact.predicate).lattices.get(fact.predicate)
        if lattice is None or not all(isinstance(term, Constant) for term in fact.arguments):
            return None
        unknown = {lattice.column: Variable("Value"), lattice.witness: Variable("Witness")}
        pattern = Atom(fact.predicate, tuple(unknown.get(place, term) for place, term in enumerate(fact.arguments)))
        found = self._facts(pattern, most=1)
        if not len(found):
            return None
        value = self._engine.store.terms.table.decode(int(found[0, lattice.column]))
        asked = fact.row[lattice.column]
        # A fact that does not hold is never the join of its group.
        outdone = lattice.join is not None or is_better(value, asked, lattice.direction == RISES)
        return found[0].tolist() if outdone else None

    def group(self, rule: NormalRule, binding: Binding) -> Sequence[int] | None:
        predicate, lattices = rule.head.predicate, self._engine.graph.component(rule.head.predicate).lattices
        if predicate not in lattices:
            number = next(n for n, source in self._engine.graph.rules.items() if source is rule.source)
            predicate = group_predicate(number)
        groups = self._engine.store.relation(predicate, rule.head.arity).rows()
        for column, term in enumerate(rule.head.arguments):
            kept = lattices.get(predicate)
            if (
                isinstance(term, Variable)
                and term in binding
                and (kept is None or column in kept.group(rule.head.arity))
            ):
                groups = groups[groups[:, column] == binding[term]]
        return groups[0].tolist() if len(groups) else None
