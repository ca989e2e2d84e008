"""Rules read backwards: from a fact that a rule could derive to the facts that its body matches.

Most rules are read as they stand, but two kinds are not. A rule with aggregates must be asked about the group that its
head is the value of, and all matches of that group count together. And the rules of a transitive closure with very many
pairs would offer every node on every path between two others as a stop. The lowest proof of such a pair is found in
another way (`closure_proofs`). Where all proofs are asked for, the first stop is the next node of the closure's *base*
(the pairs that it starts from), so that proofs follow paths of base pairs. Each twin has a base, and each base is taken
to hold the pairs of all of them, since the rules by which twins copy each other copy these first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from tidelog.engine.engine import Engine
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.rules.compiled import group_predicate, normal_form
from tidelog.engine.update.runner import Runner
from tidelog.explain.closure_rules import (
    base_name,
    can_copy_first,
    closed_predicate,
    copies_twin,
    is_copy,
    is_mirror,
    is_turned,
    leads_one_way,
    mirror_among,
    own_rules,
    says_nothing,
)
from tidelog.language.syntax import Aggregate, Atom, Term, Variable
from tidelog.program.modules import Kind
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import HEAD, make_plan
from tidelog.store.relation import Relation

# Closures with more pairs than this are explained from their base.
SEARCHED_PAIRS = 5000


@dataclass(frozen=True, slots=True)
class BackwardRule:
    """A rule with a plan from its head. `turned` is the premise that a closure's base holds the other way round."""

    number: int
    normal: NormalRule
    premises: tuple[Atom, ...]
    extras: tuple[Variable, ...]
    grouping: bool
    offset: int
    closures: tuple[bool, ...]
    turned: int | None = None

    @property
    def width(self) -> int:
        """The cells that a match delivers."""
        return sum(atom.arity for atom in self.premises) + len(self.extras)


class BackwardRules:
    """The rules of an engine, read backwards, and the relations that their heads are taken from."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._rules: dict[tuple[int, str], BackwardRule] = {}
        self._shadows: dict[str, Relation] = {}
        self._inner: BackwardRules | None = None
        self._generation = 0  # of the code that the plans lie in

    @contextmanager
    def searching(self) -> Iterator[BackwardRules]:
        """For the duration of one search."""
        if self._generation != self.engine.store.code.generation:
            self._generation = self.engine.store.code.generation
            self._rules.clear()
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
        over_base = self._closure_over(predicate)
        if over_base is not None:
            return list(self._of_base(over_base, closed_predicate(predicate)))
        closure = self.large_closure(predicate)
        if closure is not None:
            return list(self._along_paths(closure, predicate))
        return [self._plain(number) for number in self.engine.graph.producers(predicate)]

    def large_closure(self, predicate: str) -> ClosureNode | None:
        """The closure that a predicate is, if that has very many pairs. Others are searched like any rules: a linear
        one, whose rules offer only the next nodes as stops, and one whose rules lead several ways or mix twins.
        """
        closure = self.engine.closures.get(predicate)
        if closure is None or not closure.base.is_own or len(closure.relation) <= SEARCHED_PAIRS:
            return None
        rules = self.rules_of(closure)
        if closure.module.twins and (closure.module.kind is not Kind.TRANSITIVE or not can_copy_first(rules)):
            return None
        return closure if leads_one_way(rules) else None

    def rules_of(self, closure: ClosureNode) -> list[NormalRule]:
        """The rules that a closure stands for."""
        return [self._normal(number) for number in closure.module.rules]

    def _normal(self, number: int) -> NormalRule:
        return normal_form(self.engine.graph.rule(number), number)[0]

    def _closure_over(self, predicate: str) -> ClosureNode | None:
        """The closure one of whose bases a predicate is."""
        closed = closed_predicate(predicate)
        closure = self.engine.closures.get(closed)
        return (
            closure if closure is not None and closure.base.is_own and base_name(closure, closed) == predicate else None
        )

    # --- rules as they stand ----------------------------------------------------------------------------------------

    def _plain(self, number: int) -> BackwardRule:
        return self._known(number, "plain", self._make_plain)

    def _make_plain(self, number: int) -> BackwardRule:
        plain, aggregate = normal_form(self.engine.graph.rule(number), number)
        if aggregate is None:
            return self._made(number, plain, plain.positives)
        searched = with_group_check(aggregate, number)
        return replace(self._made(number, searched, aggregate.positives, aggregate), grouping=True)

    def _known(self, number: int, variant: str, make: Callable[[int], BackwardRule]) -> BackwardRule:
        known = self._rules.get((number, variant))
        if known is None or known.closures != self._closures_among(known.normal):
            known = self._rules[number, variant] = make(number)
        return known

    def _closures_among(self, rule: NormalRule) -> tuple[bool, ...]:
        """Which predicates are closures now: a plan is good for as long as that stays so."""
        return tuple(self.engine.store.is_closure(atom.predicate) for atom in (*rule.positives, *rule.negatives))

    def _made(
        self, number: int, searched: NormalRule, premises: tuple[Atom, ...], rule: NormalRule | None = None
    ) -> BackwardRule:
        """Plan a rule; `searched` is what is matched, `rule` what it stands for."""
        rule = rule or searched
        extras = tuple(definition.variable for definition in searched.definitions)
        delivered = (*(term for atom in premises for term in atom.arguments), *extras)
        offset = self._assemble(searched, number, delivered)
        return BackwardRule(number, rule, premises, extras, False, offset, self._closures_among(rule))

    def _assemble(self, normal: NormalRule, number: int, delivered: tuple[Term, ...]) -> int:
        """A plan from the head, which is taken from the shadow, to what each match delivers."""
        store = self.engine.store
        plan = make_plan(normal, HEAD, (), store.estimate)
        return store.assemble(plan, self.shadow(normal.head.predicate, normal.head.arity), delivered, number)

    # --- closures along paths ---------------------------------------------------------------------------------------

    def _of_base(self, closure: ClosureNode, predicate: str) -> Iterator[BackwardRule]:
        """The rules that derive the pairs of a closure's base."""
        head = base_name(closure, predicate)
        for own in own_rules(closure, predicate):
            yield self._known(own.number, head, lambda number: self._into_base(number, head))
        for number, rule in self._rules_into(closure, predicate):
            if copies_twin(rule):
                yield self._known(number, head, lambda number: self._copy_of_base(closure, number, head))

    def _into_base(self, number: int, head: str) -> BackwardRule:
        normal = self._normal(number)
        return self._made(number, replace(normal, head=Atom(head, normal.head.arguments)), normal.positives)

    def _copy_of_base(self, closure: ClosureNode, number: int, head: str) -> BackwardRule:
        """A rule by which a predicate or its base has what the base of a twin has."""
        normal = self._normal(number)
        (copied,) = normal.positives
        searched = replace(normal, head=Atom(head, normal.head.arguments), positives=(_started_from(closure, copied),))
        return self._made(number, searched, (_of_own_base(closure, copied),), normal)

    def _rules_into(self, closure: ClosureNode, predicate: str) -> Iterator[tuple[int, NormalRule]]:
        """The rules of a closure that yield pairs of a predicate from other pairs."""
        numbered = zip(closure.module.rules, self.rules_of(closure), strict=True)
        return (
            (number, rule) for number, rule in numbered if rule.head.predicate == predicate and not says_nothing(rule)
        )

    def _along_paths(self, closure: ClosureNode, predicate: str) -> Iterator[BackwardRule]:
        for own in own_rules(closure, predicate):
            yield self._plain(own.number)
        rules = list(self._rules_into(closure, predicate))
        transitive = not all(is_copy(rule) for _, rule in rules)
        for number, rule in rules:
            if copies_twin(rule):
                yield self._copied(closure, number, transitive)
            else:
                yield from self._first_steps(closure, number, rule)

    def _copied(self, closure: ClosureNode, number: int, transitive: bool) -> BackwardRule:
        """A rule that copies a twin into a predicate. If that is transitive, it copies only from the base of the twin:
        what is joined both before and after a copy could grow at both ends, so that all pairs would be looked at.
        """
        if not transitive:
            return self._plain(number)
        head = self.engine.graph.rule(number).head.predicate
        variant = f"path {base_name(closure, head)}"
        return self._known(number, variant, lambda number: self._copy_of_base(closure, number, head))

    def _first_steps(self, closure: ClosureNode, number: int, rule: NormalRule) -> Iterator[BackwardRule]:
        base = base_name(closure, rule.head.predicate)
        yield self._known(number, f"path {base}", lambda number: self._step(closure, number, turned=False))
        if closure.module.kind is Kind.SYMMETRIC_TRANSITIVE and not is_mirror(rule):
            yield self._known(number, f"turned {base}", lambda number: self._step(closure, number, turned=True))

    def _step(self, closure: ClosureNode, number: int, turned: bool) -> BackwardRule:
        """A rule of a closure whose first step is a pair of the base, possibly turned round."""
        normal = self._normal(number)
        place = _first_step(normal)
        atom = normal.positives[place]
        first = replace(atom, arguments=atom.arguments[::-1]) if turned else atom
        premises = list(normal.positives)
        premises[place] = _of_own_base(closure, first)
        searched = replace(normal, positives=(_started_from(closure, first), *normal.positives))
        made = self._made(number, searched, tuple(premises), normal)
        return replace(made, turned=place) if turned else made

    def turn(self, predicate: str) -> NormalRule:
        """The rule that turns the pairs of a symmetric closure round."""
        closure = self.engine.closures.get(predicate)
        assert closure is not None
        mirror = mirror_among(self.rules_of(closure))
        assert mirror is not None
        return mirror


def _of_own_base(closure: ClosureNode, atom: Atom) -> Atom:
    """The atom that asks for a pair of the closure to be one that it starts from."""
    return Atom(base_name(closure, atom.predicate), atom.arguments)


def _started_from(closure: ClosureNode, atom: Atom) -> Atom:
    """The same, but of the relation that holds all of these pairs: the base of the leader."""
    turned = is_turned(closure, atom.predicate)
    return Atom(closure.base.predicate, atom.arguments[::-1] if turned else atom.arguments)


def _first_step(normal: NormalRule) -> int:
    """The atom that leads away from the first argument of the head."""
    start = normal.head.arguments[0]
    return next(place for place, atom in enumerate(normal.positives) if start in atom.arguments)


def values_in_place_of_aggregates(aggregate: NormalRule) -> NormalRule:
    """The body of a rule with aggregates, from a head whose aggregates are values."""
    arguments = tuple(
        Variable(f"#value {column}") if isinstance(term, Aggregate) else term
        for column, term in enumerate(aggregate.head.arguments)
    )
    return replace(aggregate, head=Atom(aggregate.head.predicate, arguments), aggregates=())


def with_group_check(aggregate: NormalRule, number: int) -> NormalRule:
    """The same, for a head that must be the value of its group."""
    rule = values_in_place_of_aggregates(aggregate)
    return replace(rule, positives=(Atom(group_predicate(number), rule.head.arguments), *rule.positives))
