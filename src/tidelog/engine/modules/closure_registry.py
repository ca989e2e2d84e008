"""Which components are closures, and how they become and cease to be (Modular, section 4: nothing outside knows which
they are).

A component is maintained as a closure while all of its recursion is one module that `program.modules` recognises; it
has several predicates where these are twins. Rules come and go, and each way from one state to another costs about as
much as it changes: a closure becomes another closure over the same base; records become a closure, whose base is filled
from their explicit facts and its rules, so that the pairs are never derived one by one; and before an update that
leaves no module, the pairs are put into records. Until the update commits, what was there before is kept, and put back
if it fails.

Closures that are only a part of their component's recursion are the subject of `engine.modules.cores`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.engine.compiled import aggregates
from tidelog.engine.modules.closure_deltas import ClosureDelta
from tidelog.engine.modules.closure_node import ClosureNode, ClosureState
from tidelog.engine.modules.replacement import ClosurePairs, Look
from tidelog.engine.transaction import Transaction
from tidelog.errors import StorageError
from tidelog.language.syntax import Rule
from tidelog.program.graph import RuleGraph
from tidelog.program.modules import Module, recognise_whole
from tidelog.runtime import signals as interrupts

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine


class Closures:
    """The closures of an engine, by predicate; twins have one together."""

    def __init__(self, engine: Engine, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, ClosureNode] = {}
        self._unfit: set[str] = set()
        # What the update in work did: closures that began, in the place of records; that followed other rules; that
        # ended.
        self._begun: list[ClosureNode] = []
        self._followed: list[tuple[ClosureNode, ClosureState]] = []
        self._ended: dict[str, ClosureNode] = {}
        self._virtual: set[str] = set()  # those of the ended ones whose pairs are no records
        self._maintained: list[ClosureNode] = []

    def get(self, predicate: str) -> ClosureNode | None:
        return self._nodes.get(predicate)

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    @property
    def bases(self) -> Iterator[str]:
        """The relations that hold what is given of closures."""
        return (base.relations[0].name for node in self._each() for base in node.bases)

    def _each(self) -> Iterator[ClosureNode]:
        return (node for predicate, node in self._nodes.items() if node.module.predicate == predicate)

    def forget_plans(self) -> None:
        """Plans lie elsewhere now."""
        for closure in self._each():
            closure.forget_plans()

    # --- recognition --------------------------------------------------------------------------------------------------

    def _module(self, graph: RuleGraph, predicate: str) -> Module | None:
        """The module that the whole recursion of a predicate's component is, if any."""
        component = graph.component(predicate)
        if not self._enabled or not self._unfit.isdisjoint(component.predicates):
            return None
        module = recognise_whole(component, graph.rules)
        if module is None:
            return None
        rest = set(component.rules).difference(module.rules)
        return None if any(aggregates(graph.rule(number)) for number in rest) else module

    def _rules(self, graph: RuleGraph, predicate: str) -> dict[int, Rule]:
        return {number: graph.rule(number) for number in graph.component(predicate).rules}

    # --- before an update ---------------------------------------------------------------------------------------------

    def leave(self, graph: RuleGraph, touched: Iterable[str], afresh: Container[str], look: Look) -> None:
        """Before the rules change to those of `graph`: let closures follow where they can, and put the pairs of the
        others into records, but not of predicates that are derived afresh. `look` is called now and then, and may
        raise.
        """
        try:
            for predicate in touched:
                if predicate in self._nodes:
                    self._follow_or_leave(graph, predicate, afresh, look)
        except BaseException:
            self.roll_back()
            raise

    def _follow_or_leave(self, graph: RuleGraph, predicate: str, afresh: Container[str], look: Look) -> None:
        node = self._nodes[predicate]
        rules = self._rules(graph, predicate)
        module = self._module(graph, predicate)
        if rules == node.rules and module == node.module:
            return
        if module is not None and node.can_follow(module):
            self._followed.append((node, node.state()))
            node.follow_rules(module, rules)
        else:
            self._hand_back(node, all(name in afresh for name in node.module.predicates), look)

    def begin(self, touched: Iterable[str]) -> tuple[str, ...]:
        """Let the components that the new rules make closures be that from now on; their predicates."""
        graph, store = self._engine.graph, self._engine.store
        # One predicate of each component will do.
        for predicate in dict.fromkeys(graph.component(name).predicates[0] for name in (*touched, *self._ended)):
            module = None if predicate in self._nodes else self._module(graph, predicate)
            if module is None or (module.needs_no_explicit_facts and self._have_explicit_facts(module.predicates)):
                continue
            node = ClosureNode(store, module, self._rules(graph, predicate))
            former = {name: self.former_pairs(name) for name in module.predicates}
            node.follow_records({name: pairs for name, pairs in former.items() if pairs is not None})
            self._add(node)
            self._begun.append(node)
            self._engine.forget_counts(node.rules)
        return tuple(node.module.predicate for node in self._begun)

    def _add(self, node: ClosureNode) -> None:
        self._nodes.update(dict.fromkeys(node.module.predicates, node))

    def _remove(self, node: ClosureNode) -> None:
        for predicate in node.module.predicates:
            del self._nodes[predicate]

    def _have_explicit_facts(self, predicates: Iterable[str]) -> bool:
        relations = map(self._engine.store.find, predicates)
        return any(relation is not None and relation.explicit_count > 0 for relation in relations)

    def former_pairs(self, predicate: str) -> ClosurePairs | None:
        """The pairs of a closure that ended in the update in work and that did not become records."""
        return self._ended[predicate].pairs(predicate) if predicate in self._virtual else None

    @property
    def ended(self) -> tuple[str, ...]:
        """The predicates that were closures until the update in work."""
        return tuple(self._ended)

    def has_ended(self, predicates: Iterable[str]) -> bool:
        """Whether one of these predicates was a closure until the update in work."""
        return not self._ended.keys().isdisjoint(predicates)

    def maintain(self, transaction: Transaction, node: ClosureNode) -> dict[str, ClosureDelta]:
        """Let a closure follow its base, which has been maintained."""
        self._maintained.append(node)
        return node.maintain(transaction)

    # --- after an update ----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        for node in self._maintained:
            node.commit()
        for node in dict.fromkeys(self._ended.values()):
            node.forget_base()
        self._settle()

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
        for node in self._begun:
            node.give_way()
            self._remove(node)
            self._forget_plans(node)
        for node in self._each():
            node.roll_back()
        for node, state in reversed(self._followed):
            node.go_back(state)
        for node in dict.fromkeys(self._ended.values()):
            node.come_back()
            self._add(node)
            self._forget_plans(node)
        self._settle()

    def _settle(self) -> None:
        self._begun.clear()
        self._followed.clear()
        self._ended.clear()
        self._virtual.clear()
        self._maintained.clear()

    def give_up(self, predicate: str) -> None:
        """A predicate that met facts which its module cannot take is left to the general algorithms."""
        if predicate in self._nodes:
            self._hand_back(self._nodes[predicate], False, interrupts.check)
            self.commit()
        self._unfit.add(predicate)

    def _hand_back(self, node: ClosureNode, explicit_only: bool, look: Look) -> None:
        node.hand_back(explicit_only, look)
        for predicate in node.module.predicates:
            self._ended[predicate] = node
        if explicit_only:
            self._virtual.update(node.module.predicates)
        self._remove(node)
        self._engine.forget_counts(node.rules)
        self._forget_plans(node)

    def _forget_plans(self, node: ClosureNode) -> None:
        for predicate in node.module.predicates:
            self._engine.forget_plans(predicate)

    def restore(self, predicates: Collection[str]) -> None:
        """A saved engine is open again: build the closures from their bases, which are there.

        The base of one may be another closure, so that those that are read come first, whatever the order of the rules.
        """
        graph = self._engine.graph
        for predicate in sorted(predicates, key=graph.position):
            if predicate in self._nodes:
                continue
            module = self._module(graph, predicate)
            if module is None or not set(module.predicates).issubset(predicates):
                raise StorageError(f"`{predicate}` was saved as a closure, and by its rules it is none")
            node = ClosureNode(self._engine.store, module, self._rules(graph, predicate))
            node.restore()
            self._add(node)
            self._forget_plans(node)
