"""The base of a closure: the pairs that it starts from, and the rules that give them.

The base of a predicate is an ordinary component. It holds the predicate's explicit facts, and what its rules derive but
for those of the module (X_R in Modular, section 5). A linear pair has no base of its own: its edges are the facts of
the predicate that it reads. Where several predicates are twins, each has a base, and their copies lead from there to
the base of the leader, which the closure is of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tidelog.closures.edges import Edges
from tidelog.engine.rules.compiled import CompiledRule, Node, normal_form
from tidelog.engine.transaction.task import explicit_rows
from tidelog.engine.update.deltas import NO_RULE_CHANGE, RuleChange
from tidelog.language.syntax import Atom, Rule
from tidelog.machine import term_kinds as K
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

BASE = "#base"
FED = "#fed"  # for edges that other rules of the same recursion derive


def relation_name(kind: str, predicate: str, module: Module) -> str:
    """The name of a relation that serves a closure. It names the copies too: what a predicate had with other twins is
    still there until the update is done.
    """
    return " ".join((kind, predicate, *module.copies))


class ClosureBase:
    """The base of one module, under one set of rules."""

    def __init__(self, store: Store, module: Module, rules: dict[int, Rule]) -> None:
        self._store = store
        self.module = module
        self.rules = rules
        self._nodes: tuple[Node, ...] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the closure starts from pairs of its own, and not from the facts of another predicate."""
        return self.module.kind is not Kind.LINEAR

    @property
    def predicate(self) -> str:
        """The predicate whose facts are the edges of the closure."""
        return self.module.base or self._name(self.module.predicate)

    def _name(self, predicate: str) -> str:
        return relation_name(BASE, predicate, self.module)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The components of the base, each after those that are copied into it."""
        if self._nodes is None:
            self._nodes = tuple(self._make_nodes()) if self.is_own else ()
        return self._nodes

    def _make_nodes(self) -> Iterator[Node]:
        rules: dict[str, list[CompiledRule]] = {predicate: [] for predicate in self.module.predicates}
        for number, rule in self._feeding().items():
            rules[rule.head.predicate].append(self._rule(number, rule))
        for twin in self.module.twins:
            copy = self.rules[twin.copy]
            rules[copy.head.predicate].append(self._rule(twin.copy, copy, twin.predicate))
        for predicate in reversed(rules):
            yield Node(self._store, (predicate,), [self._relation(predicate)], rules[predicate])

    def _feeding(self) -> dict[int, Rule]:
        """All rules but those that the module stands for."""
        return {number: rule for number, rule in self.rules.items() if number not in self.module.rules}

    def _rule(self, number: int, rule: Rule, copied: str | None = None) -> CompiledRule:
        """A rule, deriving into the base of its head, and from that of a twin that it copies."""
        normal = normal_form(rule, number)[0]
        head = Atom(self._name(rule.head.predicate), normal.head.arguments)
        positives = normal.positives
        if copied is not None:
            positives = (Atom(self._name(copied), positives[0].arguments),)
        return CompiledRule(self._store, number, replace(normal, head=head, positives=positives), frozenset(), False)

    def change_since(self, former: ClosureBase | None, node: Node) -> RuleChange:
        """The rules that no longer derive into a component of the base, and those that now do."""
        if former is None:
            return NO_RULE_CHANGE
        before, now = former._feeding(), self._feeding()
        gone = tuple(
            self._rule(number, rule)
            for number, rule in before.items()
            if number not in now and rule.head.predicate == node.predicates[0]
        )
        come = tuple(rule for rule in node.rules if rule.number in now and rule.number not in before)
        return RuleChange(gone, come)

    def forget_plans(self) -> None:
        """What the rules of the base read has moved, or their plans have."""
        self._nodes = None

    def retire(self) -> None:
        """The base serves no more. Another one will have another name where its twins are joined otherwise."""
        for node in self.nodes:
            self._store.retire(node.relations[0])

    def _relation(self, predicate: str) -> Relation:
        return self._store.relation(self._name(predicate), 2)

    def explicit_relation(self, predicate: str) -> Relation:
        """Where the explicit facts of a predicate lie."""
        return self._relation(predicate) if self.is_own else self._store.relation(predicate, 2)

    def explicit_rows(self, predicate: str) -> Cells:
        return explicit_rows(self._relation(predicate)) if self.is_own else np.empty((0, 2), np.int32)

    def rows(self, facts: Cells | None = None) -> Cells:
        """The rows of some facts of the base predicate, or all of its rows."""
        return self._store.relation(self.predicate, 2).rows(facts)

    def edges(self, rows: Cells) -> Edges:
        """Rows of the base predicate as edges of the closure."""
        if self.module.diagonal is Diagonal.NONE:
            rows = rows[rows[:, 0] != rows[:, 1]]
        if self.module.inverse:
            rows = rows[:, ::-1]
        return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])

    def is_unfit(self, rows: Cells) -> bool:
        """Whether rows hold floats where the module compares ends by value: equal numbers may be different terms."""
        if not self.module.needs_distinct_values:
            return False
        return bool((self._store.terms.table.kinds[rows.ravel()] == K.FLOAT).any())
