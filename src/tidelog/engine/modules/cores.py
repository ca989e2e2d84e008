"""Closures inside a larger recursion: what a module yields whatever the other rules of its component do.

Modular (section 4) lets the modules and the other rules of a component exchange what they derive until nothing is new.
A deletion then has to take back whatever might rest on itself: a pair may hold only by an edge that was derived from
it. So the module alone cannot say which pairs stay; the paper deletes whole cones and derives them again.

Here the edges that owe nothing to the recursion, since they are explicit or come from rules below, can have a closure
of their own: the *core*. It is a component below, with all that `closures` offers, and the closure's predicate
reads it by one more rule, which adds no fact:

    R(x, y) :- core of R(x, y).

But this rule is not recursive. Its derivations are counted, and a pair of the core is safe: to delete an edge that
leaves the core as it is costs the search for a replacement path, and where the core loses pairs, just those look for
another derivation. All else is left to the general algorithms.

A core costs the listing of its pairs, and deletion by ranks does well without it where relations have few cycles. So it
begins only when a deletion was dear for the little that went by it: in large cliques and in other strongly connected
graphs that is the first edge. It does so before the next update, on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.engine.compiled import AUXILIARY, CompiledRule, Node, aggregates
from tidelog.engine.modules.closure_deltas import ClosureDelta
from tidelog.engine.modules.closure_node import ClosureNode, ClosureState, relation_name
from tidelog.engine.outcome import Request
from tidelog.engine.transaction import Transaction
from tidelog.errors import StorageError
from tidelog.language.syntax import Atom, Rule, Variable
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Module, recognise_cores
from tidelog.program.normal_form import NormalRule
from tidelog.store.relation import Relation

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine

CORE = "#core"
CORE_BASE = f"{CORE} base"
_ENDS = (Variable("X"), Variable("Y"))


class Core(ClosureNode):
    """The core of a closure: shown in relations of its own, and fed by rules that are not recursive."""

    def _shown_in(self, predicate: str) -> Relation:
        return self._store.relation(relation_name(CORE, predicate, self.module), 2)

    def _base_name(self, predicate: str) -> str:
        return relation_name(CORE_BASE, predicate, self.module)

    def _base_node(self, predicate: str, rules: list[CompiledRule]) -> Node:
        node = super()._base_node(predicate, rules)
        node.keeps_count_alone = True  # The same rules derive into the relation of the predicate, too.
        return node

    def rules_within(self, component: Component) -> Iterator[CompiledRule]:
        """The rules by which the predicates of the closure read the core."""
        for predicate, member in zip(self.module.predicates, self.members, strict=True):
            head, body = Atom(predicate, _ENDS), Atom(member.relation.name, _ENDS)
            normal = NormalRule(Rule(head, (body,)), head, (body,), (), (), (), ())
            yield CompiledRule(self._store, AUXILIARY, normal, frozenset(component.predicates), False)

    def is_concerned(self, request: Request, changed: Iterable[str]) -> bool:
        """Whether an update may change what the core is given."""
        if self.begins or self._before is not None:
            return True
        if any(name in given for given in (request.add, request.delete) for name in self.module.predicates):
            return True
        return any(name in base.readers for base in self.bases for name in changed)

    def retire(self) -> None:
        """Nobody reads the core any more."""
        for member in self.members:
            member.relation.become_closure(None)
            self._store.retire(member.relation)
        self.forget_base()


class Cores:
    """The cores of an engine, by predicate; twins have one together."""

    def __init__(self, engine: Engine, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._cores: dict[str, Core] = {}
        self._wanted: dict[str, None] = {}  # predicates that are to have one
        # What the update in work did.
        self._begun: list[Core] = []
        self._followed: list[tuple[Core, ClosureState]] = []
        self._ended: list[Core] = []
        self._maintained: list[Core] = []

    def of(self, predicates: Iterable[str]) -> list[Core]:
        """The cores of some predicates."""
        return list(dict.fromkeys(self._cores[name] for name in predicates if name in self._cores))

    @property
    def names(self) -> tuple[str, ...]:
        """What the cores are saved under: where their pairs are shown."""
        return tuple(core.relation.name for core in self._each())

    @property
    def bases(self) -> Iterator[str]:
        """The relations that hold what is given of cores."""
        return (base.relations[0].name for core in self._each() for base in core.bases)

    def _each(self) -> Iterable[Core]:
        return dict.fromkeys(self._cores.values())

    def forget_plans(self) -> None:
        """Plans lie elsewhere now."""
        for core in self._each():
            core.forget_plans()

    def rules_within(self, component: Component) -> list[CompiledRule]:
        """The rules by which the predicates of a component read their cores."""
        return [rule for core in self.of(component.predicates) for rule in core.rules_within(component)]

    def have_ended(self, predicates: Iterable[str]) -> bool:
        """Whether one of these predicates had a core until the update in work."""
        names = set(predicates)
        return any(not names.isdisjoint(core.module.predicates) for core in self._ended)

    # --- recognition --------------------------------------------------------------------------------------------------

    def _modules(self, graph: RuleGraph, predicate: str) -> Iterator[Module]:
        """The closures that are parts of a component's recursion."""
        component = graph.component(predicate)
        if self._enabled and component.recursive_rules and self._engine.closures.get(predicate) is None:
            yield from recognise_cores(component, graph.rules)

    def _rules(self, graph: RuleGraph, module: Module) -> dict[int, Rule]:
        """The rules that feed a core, and those that the module stands for."""
        predicates, own = set(module.predicates), set(module.rules)
        return {
            number: rule
            for number, rule in ((number, graph.rule(number)) for number in graph.component(module.predicate).rules)
            if rule.head.predicate in predicates
            and (number in own or (not graph.recursive(number) and not aggregates(rule)))
        }

    # --- beginning and ending -----------------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        return bool(self._wanted)

    def want(self, predicates: Iterable[str]) -> None:
        """Closures of these predicates are to have a core, if there are any."""
        if self._enabled:
            self._wanted.update(dict.fromkeys(predicates))

    def want_none(self) -> None:
        self._wanted.clear()

    def begin(self) -> list[str]:
        """Let the cores begin that are wanted; their predicates."""
        graph = self._engine.graph
        for first in dict.fromkeys(graph.component(name).predicates[0] for name in self._wanted):
            for module in self._modules(graph, first):
                if module.predicate not in self._cores:
                    self._begin(Core(self._engine.store, module, self._rules(graph, module)))
        self._wanted.clear()
        return [core.module.predicate for core in self._begun]

    def _begin(self, core: Core) -> None:
        core.follow_records({})
        self._add(core)
        self._begun.append(core)
        self._engine.forget_plans(core.module.predicate)

    def exchange(self, touched: Iterable[str]) -> list[str]:
        """The rules have changed: let cores follow, or end where they cannot; the predicates concerned."""
        graph = self._engine.graph
        components = {component.predicates[0]: component for component in map(graph.component, touched)}
        for core in self.of(name for component in components.values() for name in component.predicates):
            modules = self._modules(graph, core.module.predicate)
            module = next((module for module in modules if module.predicates == core.module.predicates), None)
            if module is not None and core.can_follow(module):
                self._follow(core, module)
            else:
                self._remove(core)
                self._ended.append(core)
        concerned = (*self._ended, *(core for core, _ in self._followed))
        return [name for core in concerned for name in core.module.predicates]

    def _follow(self, core: Core, module: Module) -> None:
        rules = self._rules(self._engine.graph, module)
        if (module, rules) != (core.module, core.rules):
            self._followed.append((core, core.state()))
            core.follow_rules(module, rules)

    def _add(self, core: Core) -> None:
        self._cores.update(dict.fromkeys(core.module.predicates, core))

    def _remove(self, core: Core) -> None:
        for predicate in core.module.predicates:
            del self._cores[predicate]

    # --- updates ------------------------------------------------------------------------------------------------------

    def maintain(self, transaction: Transaction, core: Core) -> dict[str, ClosureDelta]:
        """Let a core follow its base, which has been maintained."""
        self._maintained.append(core)
        return core.maintain(transaction)

    def commit(self) -> None:
        for core in self._maintained:
            core.commit()
        for core in self._ended:
            core.retire()
        self._settle()

    def roll_back(self) -> None:
        """Cores that the failed update began are none; the others are as before it."""
        for core in self._begun:
            core.give_way()
            self._remove(core)
        for core in self._each():
            core.roll_back()
        for core, state in reversed(self._followed):
            core.go_back(state)
        for core in self._ended:
            core.forget_plans()
            self._add(core)
        self._settle()

    def _settle(self) -> None:
        self._begun.clear()
        self._followed.clear()
        self._ended.clear()
        self._maintained.clear()

    def restore(self, names: Iterable[str]) -> None:
        """A saved engine is open again: build the cores from their bases, which are there."""
        graph, saved = self._engine.graph, set(names)
        for first in dict.fromkeys(graph.component(name).predicates[0] for name in graph.predicates) if saved else ():
            for module in self._modules(graph, first):
                name = relation_name(CORE, module.predicate, module)
                if name in saved:
                    saved.remove(name)
                    core = Core(self._engine.store, module, self._rules(graph, module))
                    core.restore()
                    self._add(core)
        if saved:
            raise StorageError(f"`{min(saved)}` was saved as the core of a closure, and by the rules there is none")
