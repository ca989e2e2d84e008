"""Proofs in a recursion with lattices of the user's own, whose values are joins of what rules offer.

Two groups can give each other a part of their values, so that the facts that hold need not have a proof by each other:
a proof goes through values that groups had on their way. These are kept nowhere. So the component is derived once more,
in rounds and in relations of its own, with a note of each offer and of the round in which each value came about. An
offer rests on values of earlier rounds, and a value on some offers that its join needs, none of which is needless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from tidelog.engine.algorithms.kept_joins import GroupValues, Row
from tidelog.engine.propagation.match_sets import SHOWN
from tidelog.engine.rules.compiled import normal_form
from tidelog.engine.transaction.task import explicit_rows
from tidelog.engine.update.match_rows import matches
from tidelog.errors import TidelogError
from tidelog.explain.backwards import BackwardRules
from tidelog.explain.closure_proofs import Measure
from tidelog.language.names import is_checked_once
from tidelog.language.syntax import Atom, Variable
from tidelog.machine import flags as F
from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, make_plan
from tidelog.proofs.order import premises_first
from tidelog.proofs.proof import Proof
from tidelog.proofs.wording import Matched, Wording, conditions_of
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

Fact = tuple[str, Row]
Lower = Callable[[str, Cells], list[Proof]]
"""Proofs of facts of a lower component, all of one predicate."""


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """What a rule offers to a group, or what is explicit, and the match that it comes from."""

    fact: Fact
    premises: tuple[Fact, ...] = ()
    rule: NormalRule | None = None
    match: Matched | None = None


class _Plan(NamedTuple):
    """A rule of the component with a plan for all of its matches."""

    rule: NormalRule
    offset: int
    extras: tuple[Variable, ...]
    width: int


class JoinProofs:
    """Proofs of the facts of one component, during one search."""

    def __init__(self, backwards: BackwardRules, component: Component, measure: Measure) -> None:
        self._backwards = backwards
        self._engine = backwards.engine
        self._component = component
        self._measure = measure
        self._runner = backwards.runner()
        self._values: dict[str, GroupValues] = {}
        self._now: dict[str, dict[Row, Row]] = {}  # the row of each group
        self._offers: dict[tuple[str, Row], list[_Offer]] = {}  # of each group, in the order of rounds
        self._known: set[tuple[NormalRule | None, Fact, tuple[Fact, ...]]] = set()
        self._since: dict[Fact, int] = {}  # how many offers its group had when a value came about
        self._chosen: dict[Fact, list[_Offer]] = {}
        self._heights: dict[Fact, int] = {}
        for predicate in component.predicates:
            self._begin(predicate)

    def _begin(self, predicate: str) -> None:
        relation = self._engine.nodes.relation(predicate)
        lattice = self._component.lattices.get(predicate)
        if lattice is not None:
            self._values[predicate] = GroupValues(self._engine.store, self._runner, predicate, relation.arity, lattice)
        self._now[predicate] = {}
        self._take([_Offer((predicate, tuple(row))) for row in explicit_rows(relation).tolist()])

    # --- deriving once more -------------------------------------------------------------------------------------------

    @cached_property
    def _plans(self) -> list[_Plan]:
        return list(map(self._plan, self._component.rules))

    def _plan(self, number: int) -> _Plan:
        source, store = self._engine.graph.rule(number), self._engine.store
        rule = normal_form(source, number, source.head.predicate in self._values)[0]
        atoms = tuple(
            Atom(self._relation(atom).name, atom.arguments) if atom.predicate in self._now else atom
            for atom in rule.positives
        )
        extras = tuple(definition.variable for definition in rule.definitions)
        parts = (*(term for atom in atoms for term in atom.arguments), *extras, *rule.head.arguments)
        plan = make_plan(replace(rule, positives=atoms), ALL, (), store.estimate)
        return _Plan(rule, store.assemble(plan, None, parts, number), extras, len(parts))

    def _relation(self, atom: Atom) -> Relation:
        """The relation in which the values of a predicate lie meanwhile."""
        return self._engine.store.relation(f"#touched by proofs of {atom.predicate}", atom.arity)

    def _derive(self, fact: Fact) -> None:
        """Go on with the rounds until a fact has come about."""
        while fact not in self._since:
            relations = self._published()
            try:
                found = [offer for plan in self._plans for offer in self._found(plan)]
            finally:
                for relation in relations:
                    relation.clear()
            if not self._take(found):
                raise TidelogError("this fact cannot be derived again: a function of its recursion is not monotone")

    def _published(self) -> list[Relation]:
        """Put the values of the last round where the plans look for them."""
        found = []
        for predicate, rows in self._now.items():
            arity = self._engine.nodes.relation(predicate).arity
            relation = self._relation(Atom(predicate, tuple(Variable(f"#{place}") for place in range(arity))))
            relation.clear()
            if rows:
                relation.load(np.array(list(rows.values()), np.int32).reshape(len(rows), arity), F.IN | F.OLD)
            found.append(relation)
        return found

    def _found(self, plan: _Plan) -> Iterator[_Offer]:
        """What a rule offers now."""
        sets = SHOWN[self._engine.store.shown]
        for cells in matches(self._runner, sets, plan.offset, plan.width).tolist():
            rows: list[Row] = []
            binding: dict[Variable, int] = {}
            place = 0
            for atom in plan.rule.positives:
                rows.append(tuple(cells[place : place + atom.arity]))
                pairs = zip(atom.arguments, rows[-1], strict=True)
                binding.update({term: cell for term, cell in pairs if isinstance(term, Variable)})
                place += atom.arity
            binding.update(zip(plan.extras, cells[place:], strict=False))
            head = plan.rule.head.predicate, tuple(cells[place + len(plan.extras) :])
            premises = tuple(zip((atom.predicate for atom in plan.rule.positives), rows, strict=True))
            yield _Offer(head, premises, plan.rule, Matched(rows, binding))

    def _take(self, offers: Iterable[_Offer]) -> bool:
        """Join what a round offers to the values; whether anything is new."""
        changed: dict[tuple[str, Row], None] = {}
        for offer in offers:
            predicate, row = offer.fact
            values = self._values.get(predicate)
            key = (offer.rule, offer.fact, offer.premises)
            if key in self._known or (values is not None and not values.has_value(row)):
                continue
            self._known.add(key)
            group = row if values is None else values.group_of(row)
            self._offers.setdefault((predicate, group), []).append(offer)
            known = self._now[predicate].get(group)
            joined = row if known is None or values is None else values.combined(known, row)
            if joined != known:
                self._now[predicate][group] = joined
                changed[predicate, group] = None
        for predicate, group in changed:
            count = len(self._offers[predicate, group])
            self._since.setdefault((predicate, self._now[predicate][group]), count)
        return bool(changed)

    # --- what a value rests on ----------------------------------------------------------------------------------------

    def _choose(self, fact: Fact) -> list[_Offer]:
        """Offers that give a value together, none of which can be left out."""
        if fact not in self._chosen:
            predicate, row = fact
            values = self._values.get(predicate)
            if values is None:
                self._chosen[fact] = self._offers[predicate, row][:1]
            else:
                offers = self._offers[predicate, values.group_of(row)][: self._since[fact]]
                self._chosen[fact] = self._without_needless(values, row, offers)
        return self._chosen[fact]

    def _without_needless(self, values: GroupValues, row: Row, offers: list[_Offer]) -> list[_Offer]:
        kept: list[_Offer] = []
        joined: Row | None = None
        for offer in offers:
            following = offer.fact[1] if joined is None else values.combined(joined, offer.fact[1])
            if following != joined:
                kept.append(offer)
            joined = following
        for offer in list(reversed(kept)):
            others = [other.fact[1] for other in kept if other is not offer]
            if others and reduce(values.combined, others) == row:
                kept.remove(offer)
        return kept

    def _in_order(self, fact: Fact) -> list[Fact]:
        """All facts of the component that a fact rests on, itself the last."""
        self._derive(fact)
        return premises_first([fact], self._premises)

    def _premises(self, fact: Fact) -> list[Fact]:
        """The facts of the component that a fact rests on directly."""
        premises = (premise for offer in self._choose(fact) for premise in offer.premises)
        return [premise for premise in premises if premise[0] in self._now]

    def _lower_facts(self, facts: Iterable[Fact]) -> dict[str, Cells]:
        """What these facts rest on directly in lower components."""
        found: dict[str, dict[Row, None]] = {}
        for fact in facts:
            for offer in self._choose(fact):
                for predicate, row in offer.premises:
                    if predicate not in self._now and not predicate.startswith("#groups"):
                        found.setdefault(predicate, {})[row] = None
        return {predicate: np.array(list(rows), np.int32).reshape(len(rows), -1) for predicate, rows in found.items()}

    # --- proofs -------------------------------------------------------------------------------------------------------

    def height(self, fact: Fact) -> int:
        """How high the proof of a fact is."""
        order = self._in_order(fact)
        for predicate, rows in self._lower_facts(order).items():
            with self._backwards.inner() as inner:
                heights = self._measure(inner, predicate, rows)
            self._heights.update({(predicate, tuple(row)): h for row, h in zip(rows.tolist(), heights, strict=True)})
        for each in order:
            offers = list(map(self._height_of, self._choose(each)))
            self._heights[each] = offers[0] if len(offers) == 1 else 1 + max(offers)
        return self._heights[fact]

    def _height_of(self, offer: _Offer) -> int:
        """What a part that is checked once rests on, the rule with the part rests on: it is no step."""
        if offer.rule is None:
            return 0
        highest = max((self._heights.get(premise, 0) for premise in offer.premises), default=0)
        return highest if is_checked_once(offer.fact[0]) else 1 + highest

    def write(self, fact: Fact, wording: Wording, lower: Lower) -> Proof:
        """The proof of a fact."""
        order = self._in_order(fact)
        proofs: dict[Fact, Proof] = {}
        for predicate, rows in self._lower_facts(order).items():
            keys = [(predicate, tuple(row)) for row in rows.tolist()]
            proofs.update(zip(keys, lower(predicate, rows), strict=True))
        for each in order:
            offers = [self._proof(offer, proofs, wording) for offer in self._choose(each)]
            proofs[each] = offers[0] if len(offers) == 1 else self._joined(each, offers, wording)
        return proofs[fact]

    def _proof(self, offer: _Offer, proofs: dict[Fact, Proof], wording: Wording) -> Proof:
        text = wording.fact(*offer.fact)
        if offer.rule is None or offer.match is None:
            return Proof(text)
        premises = [(premise[0], proofs[premise]) for premise in dict.fromkeys(offer.premises) if premise in proofs]
        conditions = conditions_of(offer.rule, offer.fact[1], [offer.match], wording)
        return Proof.of_instance(offer.fact[0], text, wording.rule(offer.rule.source), premises, conditions)

    def _joined(self, fact: Fact, offers: list[Proof], wording: Wording) -> Proof:
        lattice = self._component.lattices[fact[0]]
        return Proof(wording.fact(*fact), f"the join of {len(offers)} values in `{lattice.shown}`", offers)
