"""Closures inside a larger recursion: what a module yields whatever the other rules of its component do.

Modular (section 4) lets the modules and the other rules of a component exchange what they derive until nothing is new.
A deletion then has to take back whatever might rest on itself: a pair may hold only by an edge that was derived from
it. So the module alone cannot say which pairs stay; the paper deletes whole cones and derives them again.

Here the edges that do not depend on the recursion, since they are explicit or come from rules below, can have a
closure of their own: the *core*. It is a component below, with all that `closures` offers, and the closure's predicate
reads it by one more rule, which adds no fact:

    R(x, y) :- core of R(x, y).

But this rule is not recursive. Its derivations are counted, and a pair of the core is safe: deleting an edge that
leaves the core as it is costs the search for a replacement path, and where the core loses pairs, just those look for
another derivation. All else is left to the general algorithms.

A core costs the listing of its pairs, and deletion by ranks does well without it where relations have few cycles. So it
begins only when a deletion was expensive for the little that it took with it: in large cliques and in other strongly
connected graphs that is the first edge. It begins before the next update, in a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.engine.modules.closure_base import ClosureBase, relation_name
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.modules.closure_registry import Closures, Host, Registry
from tidelog.engine.rules.compiled import AUXILIARY, CompiledRule
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Request
from tidelog.errors import StorageError
from tidelog.language.syntax import Atom, Rule, Variable
from tidelog.machine import registers as M
from tidelog.program.graph import Component
from tidelog.program.lattices import aggregates
from tidelog.program.modules import Module, recognise_cores
from tidelog.program.normal_form import NormalRule
from tidelog.store.relation import Relation

CORE = "#core"
CORE_BASE = f"{CORE} base"
_ENDS = (Variable("X"), Variable("Y"))


class Core(ClosureNode):
    """The core of a closure: shown in relations of its own, and fed by rules that are not recursive."""

    def _shown_in(self, predicate: str) -> Relation:
        return self._store.relation(relation_name(CORE, predicate, self.module), 2)

    def _base_of(self, module: Module, rules: dict[int, Rule]) -> ClosureBase:
        return ClosureBase(self._store, module, rules, CORE_BASE, shares_rules=True)

    def rules_within(self, component: Component) -> Iterator[CompiledRule]:
        """The rules by which the predicates of the closure read the core."""
        for predicate, member in zip(self.module.predicates, self.members, strict=True):
            head, body = Atom(predicate, _ENDS), Atom(member.relation.name, _ENDS)
            normal = NormalRule(Rule(head, (body,)), head, (body,), (), (), (), ())
            yield CompiledRule(self._store, AUXILIARY, normal, frozenset(component.predicates), False)

    def is_concerned(self, request: Request, changed: Iterable[str]) -> bool:
        """Whether an update may change the base of the core."""
        if self.begins or self.follows_rules:
            return True
        if any(name in given for given in (request.add, request.delete) for name in self.module.predicates):
            return True
        return any(name in node.readers for node in self.base.nodes for name in changed)

    def come_back(self) -> None:
        self.base.forget_plans()

    def retire(self) -> None:
        for member in self.members:
            member.relation.become_closure(None)
            self._store.retire(member.relation)
        super().retire()


class Cores(Registry[Core]):
    """The cores of an engine."""

    def __init__(self, engine: Host, closures: Closures, enabled: bool) -> None:
        super().__init__(engine, enabled)
        self._closures = closures
        self.wanted: dict[str, None] = {}  # predicates that are to have one

    @property
    def names(self) -> tuple[str, ...]:
        """The names that cores are saved under: those of the relations that show their pairs."""
        return tuple(core.relation.name for core in self.each())

    def rules_within(self, component: Component) -> list[CompiledRule]:
        """The rules by which the predicates of a component read their cores."""
        return [rule for core in self.of(component.predicates) for rule in core.rules_within(component)]

    def _modules(self, predicate: str) -> Iterator[Module]:
        """The closures that are parts of a component's recursion."""
        graph = self._engine.graph
        component = graph.component(predicate)
        if self._enabled and component.recursive_rules and self._closures.get(predicate) is None:
            yield from recognise_cores(component, graph.rules)

    def _rules(self, module: Module) -> dict[int, Rule]:
        """The rules that feed a core, and those that the module stands for."""
        graph = self._engine.graph
        predicates, own = set(module.predicates), set(module.rules)
        return {
            number: rule
            for number, rule in ((number, graph.rule(number)) for number in graph.component(module.predicate).rules)
            if rule.head.predicate in predicates
            and (number in own or (not graph.recursive(number) and not aggregates(rule)))
        }

    def want(self, predicates: Iterable[str]) -> None:
        """Closures of these predicates are to have a core, if there are any."""
        if self._enabled:
            self.wanted.update(dict.fromkeys(predicates))

    def begin(self) -> list[str]:
        """Let the cores begin that are wanted; their predicates."""
        if not self.wanted:
            return []
        graph = self._engine.graph
        for first in dict.fromkeys(graph.component(name).predicates[0] for name in self.wanted):
            for module in self._modules(first):
                if module.predicate not in self._nodes:
                    core = Core(self._engine.store, module, self._rules(module))
                    core.follow_records({})
                    self._begin(core)
                    self._engine.forget_plans(module.predicate)
        self.wanted.clear()
        return [core.module.predicate for core in self._begun]

    def follow_rules(self, touched: Iterable[str]) -> list[str]:
        """The rules have changed: let cores follow, or end where they cannot; the predicates concerned."""
        graph = self._engine.graph
        components = {component.predicates[0]: component for component in map(graph.component, touched)}
        for core in self.of(name for component in components.values() for name in component.predicates):
            modules = self._modules(core.module.predicate)
            module = next((module for module in modules if module.predicates == core.module.predicates), None)
            if module is None or not core.can_follow(module):
                self._end(core)
                continue
            rules = self._rules(module)
            if (module, rules) != (core.module, core.rules):
                self._followed.append(core)
                core.follow_rules(module, rules)
        return [name for core in (*self._ended, *self._followed) for name in core.module.predicates]

    def _maintain_base(self, transaction: Transaction, node: Core, request: Request) -> None:
        errors = transaction.machine[M.ERRORS : M.ERRORS_END].copy()
        facts = self._engine.store.rule_counts.facts.copy()
        super()._maintain_base(transaction, node, request)
        # The same instances count in the component itself.
        transaction.machine[M.ERRORS : M.ERRORS_END] = errors
        self._engine.store.rule_counts.facts[:] = facts

    def restore(self, names: Iterable[str]) -> None:
        """A saved engine is open again: build the cores from their bases, which are there."""
        graph, saved = self._engine.graph, set(names)
        for first in dict.fromkeys(graph.component(name).predicates[0] for name in graph.predicates) if saved else ():
            for module in self._modules(first):
                name = relation_name(CORE, module.predicate, module)
                if name in saved:
                    saved.remove(name)
                    core = Core(self._engine.store, module, self._rules(module))
                    core.restore()
                    self._add(core)
        if saved:
            raise StorageError(f"`{min(saved)}` was saved as the core of a closure, and by the rules there is none")
