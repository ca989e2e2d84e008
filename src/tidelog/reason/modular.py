"""Which components are closures, and how they become and cease to be (Modular, section 4: nothing outside knows which
they are).

A component is maintained as a closure while all of its recursion is one module that `program.modules` recognises.
Rules come and go: before an update that would break a module its pairs are put into records; after an update that
leaves a component a closure, it becomes one. Where everything about it is new, it is one from the start, and its
pairs are never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.language.syntax import Aggregate, Rule
from tidelog.program.graph import Impact, RuleGraph
from tidelog.program.modules import Kind, Module, recognise
from tidelog.reason.closures import ClosureNode
from tidelog.store.layout import F_EXPLICIT, K_FLOAT

if TYPE_CHECKING:
    from tidelog.reason.engine import Engine


class Closures:
    """The closures of an engine, by predicate."""

    def __init__(self, engine: Engine, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, ClosureNode] = {}
        self._unfit: set[str] = set()
        self._begun: list[str] = []
        self._followed: list[tuple[ClosureNode, Module, dict[int, Rule]]] = []

    def get(self, predicate: str) -> ClosureNode | None:
        return self._nodes.get(predicate)

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    # --- recognition --------------------------------------------------------------------------------------------------

    def _module(self, graph: RuleGraph, predicate: str) -> Module | None:
        """The module that a predicate's whole recursion is, if any."""
        component = graph.component(predicate)
        if not self._enabled or component.predicates != (predicate,) or predicate in self._unfit:
            return None
        modules, rest = recognise({number: graph.rule(number) for number in component.rules})
        if len(modules) != 1 or set(rest) & set(component.recursive_rules):
            return None
        if any(_aggregates(graph.rule(number)) for number in rest):
            return None
        return modules[0]

    def _rules(self, graph: RuleGraph, predicate: str) -> dict[int, Rule]:
        return {number: graph.rule(number) for number in graph.component(predicate).rules}

    # --- before an update ---------------------------------------------------------------------------------------------

    def leave(self, graph: RuleGraph) -> None:
        """Before the rules change to those of `graph`: keep the closures that stay what they are, hand the others
        back.
        """
        self._followed = []
        try:
            for predicate in list(self._nodes):
                self._follow_or_leave(graph, predicate)
        except BaseException:
            self.roll_back()
            raise

    def _follow_or_leave(self, graph: RuleGraph, predicate: str) -> None:
        node = self._nodes[predicate]
        rules = self._rules(graph, predicate)
        if rules == node.rules:
            return
        module = self._module(graph, predicate)
        if module == node.module:
            self._followed.append((node, node.module, node.rules))
            node.follow_rules(module, rules)
        else:
            self._hand_back(predicate)

    def begin(self, added: Iterable[int]) -> None:
        """Components of nothing but new rules and without facts are closures from the start."""
        self._begun = []
        graph, store = self._engine.graph, self._engine.store
        fresh = set(added)
        for predicate in dict.fromkeys(graph.rule(number).head.predicate for number in added):
            rules = self._rules(graph, predicate)
            module = self._module(graph, predicate)
            known = store.find(predicate)
            if module is None or not fresh.issuperset(rules) or (known is not None and known.count):
                continue
            self._nodes[predicate] = ClosureNode(store, module, rules)
            self._begun.append(predicate)
            if module.kind is Kind.LINEAR and module.base is not None and store.find(module.base) is not None:
                # The base may hold facts already; they come as an addition to an empty closure.
                self._take_over(predicate)
            else:
                self._nodes[predicate].relation.become_closure(self._nodes[predicate].closure)
            self._engine.forget_plans(predicate)

    # --- after an update ----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        for node in self._nodes.values():
            node.commit()
        self._begun = []
        self._followed = []

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
        for predicate in self._begun:
            self._nodes.pop(predicate).relation.become_closure(None)
            self._engine.forget_plans(predicate)
        for node, module, rules in self._followed:
            node.follow_rules(module, rules)
        for node in self._nodes.values():
            node.roll_back()
        self._begun = []
        self._followed = []

    def find(self, impact: Impact) -> None:
        """Rules changed: components that are closures now become ones."""
        graph = self._engine.graph
        touched = {graph.rule(number).head.predicate for number in impact.added if number in graph.rules}
        for hyper_node in impact.direct:
            touched.update(graph.rule(number).head.predicate for number in _rules_of(graph, hyper_node))
        for predicate in touched:
            self._become(predicate)

    def _become(self, predicate: str) -> None:
        """Take the pairs of a component out of their records, if it is a closure."""
        graph, store = self._engine.graph, self._engine.store
        module = None if predicate in self._nodes else self._module(graph, predicate)
        relation = store.find(predicate)
        if module is None or relation is None or not self._fits(module):
            return
        node = ClosureNode(store, module, self._rules(graph, predicate))
        flags = relation.cells[: relation.count, relation.flags_column]
        explicit = relation.cells[: relation.count][(flags & F_EXPLICIT) != 0, : relation.arity]
        self._engine.forget_counts(node.rules)
        try:
            if node.base is not None:
                self._engine.build_base(node.base, explicit)
            node.take_over()
        except BaseException:
            node.forget_base()
            self._engine.forget_counts(node.rules)
            raise
        self._nodes[predicate] = node
        self._engine.forget_plans(predicate)

    def _fits(self, module: Module) -> bool:
        store = self._engine.store
        relation = store.relation(module.predicate, 2)
        if module.needs_no_explicit_facts and relation.explicit_count:
            return False
        if module.needs_distinct_values:
            kinds = store.terms.kinds(relation.rows().ravel())
            return not (kinds == K_FLOAT).any()
        return True

    def _take_over(self, predicate: str) -> None:
        self._nodes[predicate].take_over()
        self._engine.forget_plans(predicate)

    def give_up(self, predicate: str) -> None:
        """A predicate that met facts which its module cannot take is left to the general algorithms."""
        self._unfit.add(predicate)
        if predicate in self._nodes:
            self._hand_back(predicate)

    def _hand_back(self, predicate: str) -> None:
        node = self._nodes[predicate]
        node.hand_back(node.explicit_rows())
        del self._nodes[predicate]
        node.forget_base()
        self._engine.forget_counts(node.rules)
        self._engine.forget_plans(predicate)

    def restore(self, predicates: Iterable[str]) -> None:
        """A saved engine is open again: build the closures from their bases, which are there."""
        for predicate in predicates:
            module = self._module(self._engine.graph, predicate)
            assert module is not None, f"`{predicate}` was saved as a closure and is none"
            node = ClosureNode(self._engine.store, module, self._rules(self._engine.graph, predicate))
            self._nodes[predicate] = node
            self._take_over(predicate)


def _aggregates(rule: Rule) -> bool:
    return any(isinstance(term, Aggregate) for term in rule.head.arguments)


def _rules_of(graph: RuleGraph, hyper_node: int) -> Iterator[int]:
    yield from graph.hyper_node(hyper_node).rules
