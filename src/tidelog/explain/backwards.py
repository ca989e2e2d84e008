"""Rules read backwards: from a fact that a rule could derive to the facts that its body matches.

Most rules are read as they stand, but two kinds are not. A rule with aggregates must be asked about the group that its
head is the value of, and all matches of that group count together. And the rules of a transitive closure with very many
pairs would offer every node on every path between two others as a stop. The lowest proof of such a pair is found in
another way (`closure_proofs`). Where all proofs are asked for, the first stop is the next node of the closure's *base*
(the pairs that it starts from), so that proofs follow paths of base pairs. Each twin has a base, and each base is taken
to hold the pairs of all of them, since the rules by which twins copy each other copy these first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from tidelog.engine.engine import Engine
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.rules.compiled import group_predicate, normal_form
from tidelog.engine.update.runner import Runner
from tidelog.explain import closure_rules
from tidelog.language.syntax import Atom, Variable
from tidelog.program.graph import Component
from tidelog.program.modules import Kind
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import HEAD, make_plan
from tidelog.proofs.attempts import values_in_place_of_aggregates
from tidelog.store.relation import Relation

# Closures with more pairs than this are explained from their base.
SEARCHED_PAIRS = 5000


@dataclass(frozen=True, slots=True)
class BackwardRule:
    """A rule with a plan from its head. `turned` is the premise that a closure's base holds the other way round."""

    normal: NormalRule
    premises: tuple[Atom, ...]
    extras: tuple[Variable, ...]
    grouping: bool
    offset: int
    closures: tuple[bool, ...]
    turned: int | None

    @property
    def width(self) -> int:
        """The cells that a match delivers."""
        return sum(atom.arity for atom in self.premises) + len(self.extras)


class BackwardRules:
    """The rules of an engine, read backwards, and the relations that their heads are taken from."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._rules: dict[tuple[int, str, tuple[Atom, ...]], BackwardRule] = {}
        self._plain_forms: dict[int, tuple[NormalRule, NormalRule]] = {}
        self._kept_best: dict[int, bool] = {}  # whether a rule was read as one of best values
        self._shadows: dict[str, Relation] = {}
        self._inner: BackwardRules | None = None
        self._generation = 0  # of the code that the plans lie in

    @contextmanager
    def searching(self) -> Iterator[BackwardRules]:
        """For the duration of one search."""
        if self._generation != self.engine.store.code.generation:
            self._generation = self.engine.store.code.generation
            self._rules.clear()
            self._plain_forms.clear()
        try:
            yield self
        finally:
            self.forget()

    def inner(self) -> AbstractContextManager[BackwardRules]:
        """The same rules for a search within a search, with shadows of its own."""
        if self._inner is None:
            self._inner = BackwardRules(self.engine)
        return self._inner.searching()

    def runner(self) -> Runner:
        """For kernels that look for matches and change nothing."""
        self.engine.store.complete_tables()
        return self.engine.runner()

    def shadow(self, predicate: str, arity: int) -> Relation:
        """The relation that holds the discovered facts of a predicate; empty between searches."""
        if predicate not in self._shadows:
            self._shadows[predicate] = self.engine.store.new_relation(f"#cone {predicate}", arity)
        return self._shadows[predicate]

    def forget(self) -> None:
        """Empty the shadows, and give their memory back."""
        for shadow in self._shadows.values():
            if shadow.count:
                shadow.clear()
                shadow.compact()

    def rules_for(self, predicate: str) -> list[BackwardRule]:
        """All ways in which a fact of a predicate can come about."""
        closed = closure_rules.closed_predicate(predicate)
        over_base = self.engine.closures.get(closed)
        if over_base is not None and over_base.base.is_own and closure_rules.base_name(over_base, closed) == predicate:
            return list(self._into_base(over_base, closed))
        closure = self.large_closure(predicate)
        if closure is not None:
            return list(self._along_paths(closure, predicate))
        return [self._plain(number) for number in self.engine.graph.producers(predicate)]

    def large_closure(self, predicate: str) -> ClosureNode | None:
        """The closure that a predicate is, if that has very many pairs. Others are searched like any rules: a linear
        one, whose rules offer only the next nodes as stops, and one whose rules lead several ways or mix twins.
        """
        closure = self.engine.closures.get(predicate)
        if closure is None or closure.fed or not closure.base.is_own or len(closure.relation) <= SEARCHED_PAIRS:
            return None
        rules = self.rules_of(closure)
        if closure.module.twins and closure.module.kind is not Kind.TRANSITIVE:
            return None
        if closure.module.twins and not closure_rules.can_copy_first(rules):
            return None
        return closure if closure_rules.leads_one_way(rules) else None

    def joined_component(self, predicate: str) -> Component | None:
        """The component of a predicate, if values are joined by lattices of the user's own in its recursion."""
        component = self.engine.graph.component(predicate)
        return component if any(lattice.join for lattice in component.lattices.values()) else None

    def closure(self, predicate: str) -> ClosureNode:
        """The closure that a predicate is known to be."""
        closure = self.engine.closures.get(predicate)
        assert closure is not None
        return closure

    def rules_of(self, closure: ClosureNode) -> list[NormalRule]:
        """The rules that a closure stands for."""
        return [self._normal(number) for number in closure.module.rules]

    def _normal(self, number: int) -> NormalRule:
        return normal_form(self.engine.graph.rule(number), number)[0]

    def _keeps_best(self, number: int) -> bool:
        """Whether the head of a rule is of a predicate that keeps the best value of each group."""
        predicate = self.engine.graph.rule(number).head.predicate
        return predicate in self.engine.graph.component(predicate).lattices

    def _read(
        self, number: int, rule: NormalRule, searched: NormalRule, premises: tuple[Atom, ...], turned: int | None = None
    ) -> BackwardRule:
        """A rule with a plan from its head, which is taken from the shadow. `searched` is what is matched, and `rule`
        what it stands for.
        """
        store, head = self.engine.store, searched.head
        key = number, head.predicate, premises
        # A plan is good for as long as the same predicates are closures.
        closures = tuple(store.is_closure(atom.predicate) for atom in (*rule.positives, *rule.negatives))
        known = self._rules.get(key)
        if known is None or known.closures != closures:
            extras = tuple(definition.variable for definition in searched.definitions)
            delivered = (*(term for atom in premises for term in atom.arguments), *extras)
            plan = make_plan(searched, HEAD, (), store.estimate)
            offset = store.assemble(plan, self.shadow(head.predicate, head.arity), delivered, number)
            known = BackwardRule(rule, premises, extras, bool(rule.aggregates), offset, closures, turned)
            self._rules[key] = known
        return known

    def _plain(self, number: int) -> BackwardRule:
        """A rule as it stands."""
        if number not in self._plain_forms or self._kept_best.get(number) != self._keeps_best(number):
            self._kept_best[number] = self._keeps_best(number)
            plain, aggregate = normal_form(self.engine.graph.rule(number), number, self._keeps_best(number))
            searched = plain if aggregate is None else with_group_check(aggregate, number)
            self._plain_forms[number] = aggregate or plain, searched
        rule, searched = self._plain_forms[number]
        return self._read(number, rule, searched, rule.positives)

    # --- closures along paths ---------------------------------------------------------------------------------------

    def _rules_into(self, closure: ClosureNode, predicate: str) -> list[tuple[int, NormalRule]]:
        """The rules of a closure that yield pairs of a predicate from other pairs."""
        numbered = zip(closure.module.rules, self.rules_of(closure), strict=True)
        into = ((number, rule) for number, rule in numbered if rule.head.predicate == predicate)
        return [(number, rule) for number, rule in into if not closure_rules.says_nothing(rule)]

    def _into_base(self, closure: ClosureNode, predicate: str) -> Iterator[BackwardRule]:
        """The rules that derive the pairs of a closure's base."""
        base = closure_rules.base_name(closure, predicate)
        for own in closure_rules.own_rules(closure, predicate):
            rule = self._normal(own.number)
            searched = replace(rule, head=Atom(base, rule.head.arguments))
            yield self._read(own.number, searched, searched, rule.positives)
        for number, rule in self._rules_into(closure, predicate):
            if closure_rules.copies_twin(rule):
                yield self._copied(closure, number, rule, base)

    def _copied(self, closure: ClosureNode, number: int, rule: NormalRule, into: str) -> BackwardRule:
        """A rule by which a predicate or its base has what the base of a twin has."""
        (copied,) = rule.positives
        searched = replace(rule, head=Atom(into, rule.head.arguments), positives=(_started_from(closure, copied),))
        return self._read(number, rule, searched, (_of_own_base(closure, copied),))

    def _along_paths(self, closure: ClosureNode, predicate: str) -> Iterator[BackwardRule]:
        """The rules of a closure, along paths of its base.

        A copy of a twin into a predicate that is transitive copies only from the base of the twin: what is joined both
        before and after a copy could grow at both ends, so that all pairs would be looked at.
        """
        for own in closure_rules.own_rules(closure, predicate):
            yield self._plain(own.number)
        rules = self._rules_into(closure, predicate)
        transitive = not all(closure_rules.is_copy(rule) for _, rule in rules)
        for number, rule in rules:
            if not closure_rules.copies_twin(rule):
                yield self._step(closure, number, rule, turned=False)
                if closure.module.kind is Kind.SYMMETRIC_TRANSITIVE and not closure_rules.is_mirror(rule):
                    yield self._step(closure, number, rule, turned=True)
            elif transitive:
                yield self._copied(closure, number, rule, predicate)
            else:
                yield self._plain(number)

    def _step(self, closure: ClosureNode, number: int, rule: NormalRule, turned: bool) -> BackwardRule:
        """A rule of a closure whose first step is a pair of the base, possibly turned round."""
        # The atom that leads away from the first argument of the head.
        place = [rule.head.arguments[0] in atom.arguments for atom in rule.positives].index(True)
        atom = rule.positives[place]
        first = replace(atom, arguments=atom.arguments[::-1]) if turned else atom
        premises = list(rule.positives)
        premises[place] = _of_own_base(closure, first)
        searched = replace(rule, positives=(_started_from(closure, first), *rule.positives))
        return self._read(number, rule, searched, tuple(premises), place if turned else None)

    def turn(self, predicate: str) -> NormalRule:
        """The rule that turns the pairs of a symmetric closure round."""
        mirror = closure_rules.mirror_among(self.rules_of(self.closure(predicate)))
        assert mirror is not None
        return mirror


def _of_own_base(closure: ClosureNode, atom: Atom) -> Atom:
    """The atom that asks for a pair of the closure to be one that it starts from."""
    return Atom(closure_rules.base_name(closure, atom.predicate), atom.arguments)


def _started_from(closure: ClosureNode, atom: Atom) -> Atom:
    """The same, but of the relation that holds all of these pairs: the base of the leader."""
    turned = closure_rules.is_turned(closure, atom.predicate)
    return Atom(closure.base.predicate, atom.arguments[::-1] if turned else atom.arguments)


def with_group_check(aggregate: NormalRule, number: int) -> NormalRule:
    """The same, for a head that must be the value of its group."""
    rule = values_in_place_of_aggregates(aggregate)
    return replace(rule, positives=(Atom(group_predicate(number), rule.head.arguments), *rule.positives))
