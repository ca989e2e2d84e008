"""Which components are closures, and how they become and cease to be (Modular, section 4: nothing outside knows which
they are).

A component is maintained as a closure while all of its recursion is one module that `program.modules` recognises.
Rules come and go, and each way from one state to another costs about as much as it changes: a closure becomes another
closure over the same base; records become a closure, whose base is filled from their explicit facts and its rules, so
that the pairs are never derived one by one; and before an update that leaves no module, the pairs are put into
records. Until the update commits, what was there before is kept, and put back if it fails.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from tidelog.language.syntax import Aggregate, Rule
from tidelog.program.graph import RuleGraph
from tidelog.program.modules import Module, recognise
from tidelog.reason.closures import ClosureDelta, ClosureNode, ClosureState
from tidelog.reason.replacement import ClosurePairs
from tidelog.reason.transaction import Transaction

if TYPE_CHECKING:
    from tidelog.reason.engine import Engine


class Closures:
    """The closures of an engine, by predicate."""

    def __init__(self, engine: Engine, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, ClosureNode] = {}
        self._unfit: set[str] = set()
        # What the update in work did: closures that began, in the place of records; that followed other rules; that
        # ended.
        self._begun: list[str] = []
        self._followed: list[tuple[ClosureNode, ClosureState]] = []
        self._ended: dict[str, ClosureNode] = {}
        self._virtual: set[str] = set()  # those of the ended ones whose pairs are no records
        self._maintained: list[ClosureNode] = []

    def get(self, predicate: str) -> ClosureNode | None:
        return self._nodes.get(predicate)

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    def forget_plans(self) -> None:
        """Plans lie elsewhere now."""
        for closure in self._nodes.values():
            closure.forget_plans()

    # --- recognition --------------------------------------------------------------------------------------------------

    def _module(self, graph: RuleGraph, predicate: str) -> Module | None:
        """The module that a predicate's whole recursion is, if any."""
        component = graph.component(predicate)
        if not self._enabled or component.predicates != (predicate,) or predicate in self._unfit:
            return None
        if not component.recursive_rules:
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

    def leave(self, graph: RuleGraph, touched: Iterable[str], afresh: Container[str]) -> None:
        """Before the rules change to those of `graph`: let closures follow where they can, and put the pairs of the
        others into records, but not of predicates that are derived afresh.
        """
        try:
            for predicate in touched:
                if predicate in self._nodes:
                    self._follow_or_leave(graph, predicate, predicate in afresh)
        except BaseException:
            self.roll_back()
            raise

    def _follow_or_leave(self, graph: RuleGraph, predicate: str, afresh: bool) -> None:
        node = self._nodes[predicate]
        rules = self._rules(graph, predicate)
        module = self._module(graph, predicate)
        if rules == node.rules and module == node.module:
            return
        if module is not None and node.can_follow(module):
            self._followed.append((node, node.follow_rules(module, rules)))
        else:
            self._hand_back(predicate, explicit_only=afresh)

    def begin(self, touched: Iterable[str]) -> tuple[str, ...]:
        """Let the components that the new rules make closures be that from now on; their predicates."""
        graph, store = self._engine.graph, self._engine.store
        for predicate in touched:
            module = None if predicate in self._nodes else self._module(graph, predicate)
            if module is None or (module.needs_no_explicit_facts and self._has_explicit_facts(predicate)):
                continue
            node = ClosureNode(store, module, self._rules(graph, predicate))
            node.follow_records(self.former_pairs(predicate))
            self._nodes[predicate] = node
            self._begun.append(predicate)
            self._engine.forget_counts(node.rules)
        return tuple(self._begun)

    def _has_explicit_facts(self, predicate: str) -> bool:
        relation = self._engine.store.find(predicate)
        return relation is not None and relation.explicit_count > 0

    def former_pairs(self, predicate: str) -> ClosurePairs | None:
        """The pairs of a closure that ended in the update in work and that did not become records."""
        return ClosurePairs(self._ended[predicate].closure) if predicate in self._virtual else None

    def has_ended(self, predicates: Iterable[str]) -> bool:
        """Whether one of these predicates was a closure until the update in work."""
        return not self._ended.keys().isdisjoint(predicates)

    def maintain(self, transaction: Transaction, node: ClosureNode) -> ClosureDelta | None:
        """Let a closure follow its base, which has been maintained."""
        self._maintained.append(node)
        return node.maintain(transaction)

    # --- after an update ----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        for node in self._maintained:
            node.commit()
        for node in self._ended.values():
            node.forget_base()
        self._settle()

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
        for predicate in self._begun:
            self._nodes.pop(predicate).give_way()
            self._engine.forget_plans(predicate)
        for node in self._nodes.values():
            node.roll_back()
        for node, state in reversed(self._followed):
            node.go_back(state)
        for predicate, node in self._ended.items():
            node.relation.become_closure(node.closure)
            node.relation.explicit_count = 0
            node.forget_plans()
            self._nodes[predicate] = node
            self._engine.forget_plans(predicate)
        self._settle()

    def _settle(self) -> None:
        self._begun.clear()
        self._followed.clear()
        self._ended.clear()
        self._virtual.clear()
        self._maintained.clear()

    def give_up(self, predicate: str) -> None:
        """A predicate that met facts which its module cannot take is left to the general algorithms."""
        self._unfit.add(predicate)
        if predicate in self._nodes:
            self._hand_back(predicate, explicit_only=False)
            self.commit()

    def _hand_back(self, predicate: str, explicit_only: bool) -> None:
        node = self._nodes[predicate]
        node.hand_back(node.explicit_rows(), explicit_only)
        if explicit_only:
            self._virtual.add(predicate)
        self._ended[predicate] = node
        del self._nodes[predicate]
        self._engine.forget_counts(node.rules)
        self._engine.forget_plans(predicate)

    def restore(self, predicates: Iterable[str]) -> None:
        """A saved engine is open again: build the closures from their bases, which are there."""
        for predicate in predicates:
            module = self._module(self._engine.graph, predicate)
            assert module is not None, f"`{predicate}` was saved as a closure and is none"
            node = ClosureNode(self._engine.store, module, self._rules(self._engine.graph, predicate))
            self._nodes[predicate] = node
            node.take_over()
            self._engine.forget_plans(predicate)


def _aggregates(rule: Rule) -> bool:
    return any(isinstance(term, Aggregate) for term in rule.head.arguments)
