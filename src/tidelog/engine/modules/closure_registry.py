"""Which closures there are, and how they begin and end (Modular, section 4: nothing outside knows which they are).

A component has a closure for each module that `program.modules` recognises in its recursion: one that is all of it, or
any number beside other rules, which then exchange what they derive with them (`exchange`). A closure has several
predicates where these are twins. Rules come and go, and each way from one state to another costs about as much as it
changes: a closure becomes another closure over the same base; records become a closure, whose base is filled from their
explicit facts and its rules, so that the pairs are never derived one by one; and before an update that leaves no
module, the pairs are put into records. What was there before is kept until the update commits, and put back if it
fails.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tidelog.closures.closure import ReadableClosure
from tidelog.engine.algorithms.maintenance import ComponentMaintenance
from tidelog.engine.modules.closure_base import ClosureBase
from tidelog.engine.modules.closure_node import ClosureNode, ModuleUnfit
from tidelog.engine.modules.plugin_registry import Plugins
from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.task import apply_explicit
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Request
from tidelog.engine.update.pair_sets import CheckLimits, ClosurePairs
from tidelog.errors import StorageError
from tidelog.language.syntax import Rule
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.lattices import aggregates
from tidelog.program.modules import Module, recognise_modules
from tidelog.runtime import signals as interrupts
from tidelog.store.store import Store


class Host(Protocol):
    """What closures need of the engine they belong to."""

    store: Store
    graph: RuleGraph
    maintenance: ComponentMaintenance
    plugins: Plugins

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate have moved: plan again what reads or derives it."""


class Closures:
    """The closures of an engine by predicate, of which twins share one, and what the update in work does to them."""

    def __init__(self, engine: Host, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, ClosureNode] = {}
        # What the update in work did.
        self._begun: list[ClosureNode] = []
        self._followed: list[ClosureNode] = []
        self._ended: list[ClosureNode] = []
        self._maintained: list[ClosureNode] = []
        self._of_others: list[ClosureNode] = []  # maintained by updates that are paused
        self.ended: dict[str, None] = {}  # the predicates that had a closure here until the update in work
        # Closures that ended in the update in work, and whose pairs did not become records.
        self._virtual: dict[str, ClosureNode] = {}
        # Predicates that met facts which their modules cannot take, and those that did so in the update in work.
        self._unfit: set[str] = set()
        self._given_up: list[str] = []

    def each(self) -> Iterable[ClosureNode]:
        return dict.fromkeys(self._nodes.values())

    def of(self, predicates: Iterable[str]) -> list[ClosureNode]:
        """The closures of some predicates."""
        return list(dict.fromkeys(self._nodes[name] for name in predicates if name in self._nodes))

    @property
    def bases(self) -> Iterator[str]:
        """The relations that hold what closures start from."""
        for node in self.each():
            yield from (base.relations[0].name for base in node.base.nodes)
            yield from (relation.name for relation, _ in node.fed_members())

    def forget_plans(self) -> None:
        """The code has moved."""
        for node in self.each():
            node.base.forget_plans()

    def _add(self, node: ClosureNode) -> None:
        self._nodes.update(dict.fromkeys(node.module.predicates, node))

    def _remove(self, node: ClosureNode) -> None:
        for predicate in node.module.predicates:
            del self._nodes[predicate]

    def _begin(self, node: ClosureNode) -> None:
        self._add(node)
        self._begun.append(node)

    def _end(self, node: ClosureNode) -> None:
        self._remove(node)
        self._ended.append(node)
        self.ended.update(dict.fromkeys(node.module.predicates))

    # --- an update ----------------------------------------------------------------------------------------------------

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For an update of facts that overtakes the one in work: what it maintains is kept apart."""
        outer = self._begun, self._followed, self._ended, self._maintained, self.ended, self._given_up
        of_others, virtual = self._of_others, self._virtual
        self._of_others = [*of_others, *self._ended, *self._maintained, *self._followed]
        self._virtual = dict(virtual)  # Readers are shown what these were.
        self._begun, self._followed, self._ended, self._maintained, self.ended, self._given_up = [], [], [], [], {}, []
        try:
            yield
        finally:
            self._begun, self._followed, self._ended, self._maintained, self.ended, self._given_up = outer
            self._of_others, self._virtual = of_others, virtual

    def maintain(self, transaction: Transaction, node: ClosureNode, request: Request) -> None:
        """Bring the base of a closure up to date, as any component; then the closure itself."""
        self.maintain_base(transaction, node, request)
        deltas = node.maintain(transaction)
        transaction.deltas.update((predicate, delta) for predicate, delta in deltas.items() if delta)

    def maintain_base(self, transaction: Transaction, node: ClosureNode, request: Request) -> None:
        """Bring the base of a closure up to date, as any component."""
        if node.module.needs_no_explicit_facts and any(
            len(request.add.get(name, ())) for name in node.module.predicates
        ):
            raise ModuleUnfit(node.module.predicate)
        self._maintained.append(node)
        for base in node.base.nodes:
            if not _is_touched(base, transaction, request):
                continue
            asked = request
            if node.begins:
                # It gets its pairs from all of its rules.
                predicate = base.predicates[0]
                changed = request.delete.get(predicate), request.add.get(predicate)
                asked = Request(add={predicate: node.first_explicit(predicate, *changed)})
            explicit = apply_explicit(transaction, base, asked)
            if node.begins:
                # Only its base is new: most of these facts were explicit before.
                transaction.explicit[base.relations[0]] = node.explicit_change(predicate, *changed)
            self._engine.maintenance.maintain(transaction, base, explicit, node.base_change(base))
            transaction.collect(base.relations)

    def commit(self) -> None:
        for node in dict.fromkeys((*self._maintained, *self._followed)):
            node.commit()
        for node in self._ended:
            node.retire()
        self._end_update()

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
        self._unfit.difference_update(self._given_up)
        for node in self._begun:
            self._remove(node)
        for node in dict.fromkeys((*self._maintained, *self._followed)):
            if node not in self._begun:
                node.roll_back()
        for node in self._ended:
            node.come_back()
            self._add(node)
        self._end_update()

    def _end_update(self) -> None:
        for nodes in (self._begun, self._followed, self._ended, self._maintained):
            nodes.clear()
        self.ended.clear()
        self._virtual.clear()
        self._given_up.clear()

    def get(self, predicate: str) -> ClosureNode | None:
        return self._nodes.get(predicate)

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    # --- recognition --------------------------------------------------------------------------------------------------

    def modules(self, component: Component) -> list[Module]:
        """The closures that a component should have by its rules."""
        rules = self._engine.graph.rules
        if not self._enabled:
            return []
        return [module for module in recognise_modules(component, rules) if self._is_fit(module, component)]

    def _is_fit(self, module: Module, component: Component) -> bool:
        """Whether no predicate of a module has met facts that it cannot take or belongs to a plug-in, and no rule feeds
        it with aggregates.
        """
        graph, own = self._engine.graph, set(module.predicates)
        feeding = (graph.rule(number) for number in component.rules if number not in module.rules)
        aggregated = any(rule.head.predicate in own and aggregates(rule) for rule in feeding)
        given_away = self._engine.plugins.mentioned(component, graph)
        return self._unfit.isdisjoint(own) and not aggregated and own.isdisjoint(given_away)

    def _rules(self, module: Module) -> dict[int, Rule]:
        """The rules that a module stands for, and those that give it edges from outside of its recursion."""
        graph, predicates, own = self._engine.graph, set(module.predicates), set(module.rules)
        return {
            number: graph.rule(number)
            for number in graph.component(module.predicate).rules
            if number in own or (not graph.recursive(number) and graph.rule(number).head.predicate in predicates)
        }

    def _fed(self, module: Module) -> frozenset[str]:
        """The predicates of a module for which other rules of its recursion derive edges."""
        graph, own = self._engine.graph, set(module.rules)
        recursive = graph.component(module.predicate).recursive_rules
        heads = {graph.rule(number).head.predicate for number in recursive if number not in own}
        return frozenset(heads.intersection(module.predicates))

    def _node(self, module: Module) -> ClosureNode:
        return ClosureNode(self._engine.store, module, self._rules(module), self._fed(module))

    def feeds(self, number: int, rule: Rule) -> ClosureNode | None:
        """The closure to which a rule of its recursion gives edges, if there is one."""
        node = self._nodes.get(rule.head.predicate)
        if node is None or number in node.rules or rule.head.predicate not in node.fed:
            return None
        return node

    # --- rules that change --------------------------------------------------------------------------------------------

    def leave(self, touched: Iterable[str], afresh: Container[str], check_limits: CheckLimits) -> None:
        """The rules have changed: let closures follow where they can, and put the pairs of the others into records,
        except for predicates that are derived afresh.
        """
        graph = self._engine.graph
        modules: dict[str, dict[str, Module]] = {}  # by the first predicate of a component, by their leaders
        # A closure may become a part of another component, though no rule of its own comes or goes.
        for first in dict.fromkeys(graph.component(predicate).predicates[0] for predicate in touched):
            for node in self.of(graph.component(first).predicates):
                module = self._led_in(first, modules).get(node.module.predicate)
                if module is None or not node.can_follow(module) or self._meets_explicit(module, node):
                    others = {graph.component(name).predicates[0] for name in node.module.predicates}
                    # A closure of the same recursion needs its pairs, if rules that read them gave edges to its base.
                    needed = any(self._led_in(other, modules) for other in others)
                    explicit_only = all(name in afresh for name in node.module.predicates) and not needed
                    self._hand_back(node, explicit_only, check_limits)
                else:
                    self._follow(node, module)

    def _led_in(self, first: str, known: dict[str, dict[str, Module]]) -> dict[str, Module]:
        """The modules of a component by their leaders, found once."""
        if first not in known:
            modules = self.modules(self._engine.graph.component(first))
            known[first] = {module.predicate: module for module in modules}
        return known[first]

    def _follow(self, node: ClosureNode, module: Module) -> None:
        rules, fed = self._rules(module), self._fed(module)
        if (rules, module, fed) != (node.rules, node.module, node.fed):
            self._followed.append(node)
            node.follow_rules(module, rules, fed)

    def begin(self, touched: Iterable[str]) -> tuple[str, ...]:
        """Let the modules that the new rules make be closures from now on; the predicates of those that may change."""
        graph = self._engine.graph
        # One predicate of each component will do.
        for predicate in dict.fromkeys(graph.component(name).predicates[0] for name in (*touched, *self.ended)):
            for module in self.modules(graph.component(predicate)):
                if not any(name in self._nodes for name in module.predicates) and not self._meets_explicit(module):
                    self._begin_with(module)
        return tuple(node.module.predicate for node in (*self._begun, *self._followed))

    def _begin_with(self, module: Module) -> None:
        node = self._node(module)
        former = self.former_pairs()
        node.follow_records({name: former[name] for name in module.predicates if name in former})
        self._begin(node)
        self._engine.maintenance.counted.forget(node.rules)
        self._forget_plans(node)

    def _meets_explicit(self, module: Module, node: ClosureNode | None = None) -> bool:
        """Whether a module that holds only without explicit facts would have some."""
        if not module.needs_no_explicit_facts:
            return False
        if node is not None:
            return any(len(node.base.explicit_rows(name)) for name in module.predicates)
        return self._have_explicit_facts(module.predicates)

    def _have_explicit_facts(self, predicates: Iterable[str]) -> bool:
        relations = map(self._engine.store.find, predicates)
        return any(relation is not None and relation.explicit_count > 0 for relation in relations)

    def former_pairs(self) -> dict[str, ClosurePairs]:
        """The pairs of closures that ended in the update in work and that did not become records."""
        return {name: node.pairs(name) for name, node in self._virtual.items()}

    def before(self) -> dict[str, ReadableClosure]:
        """What predicates showed before the updates in work, where that is no longer what their closures show."""
        found = {name: node.view(name) for name, node in self._virtual.items()}
        for node in (*self._maintained, *self._followed, *self._of_others):
            found |= node.views_before()
        return found

    def base_before(self, predicate: str) -> ClosureBase | None:
        """The base of a predicate's closure before the updates in work; None if it had none. A closure that has ended
        may have been followed by another one.
        """
        ended = (node for node in (*self._ended, *self._of_others) if predicate in node.module.predicates)
        node = next(ended, self._nodes.get(predicate))
        return None if node is None else node.base_before

    def _hand_back(self, node: ClosureNode, explicit_only: bool, check_limits: CheckLimits) -> None:
        node.hand_back(explicit_only, check_limits)
        if explicit_only:
            self._virtual.update(dict.fromkeys(node.module.predicates, node))
        self._end(node)
        self._engine.maintenance.counted.forget(node.rules)
        self._forget_plans(node)

    def _forget_plans(self, node: ClosureNode) -> None:
        for predicate in node.module.predicates:
            self._engine.forget_plans(predicate)

    def give_up(self, predicate: str) -> None:
        """A predicate that meets facts which its module cannot take is left to the general algorithms, unless the
        update fails.
        """
        if predicate in self._nodes:
            self._hand_back(self._nodes[predicate], False, interrupts.check)
        self._unfit.add(predicate)
        self._given_up.append(predicate)

    # --- opening ------------------------------------------------------------------------------------------------------

    def restore(self, predicates: Collection[str]) -> None:
        """A saved engine is open again: build the closures from their bases, which are there.

        The base of one may be another closure, so those that are read come first, whatever the order of the rules.
        """
        for predicate in sorted(predicates, key=self._engine.graph.position):
            if predicate in self._nodes:
                continue
            modules = self.modules(self._engine.graph.component(predicate))
            module = next((module for module in modules if predicate in module.predicates), None)
            if module is None or not set(module.predicates).issubset(predicates):
                raise StorageError(f"`{predicate}` was saved as a closure, and by its rules it is none")
            node = self._node(module)
            node.restore()
            self._add(node)
            self._forget_plans(node)


def _is_touched(base: Node, transaction: Transaction, request: Request) -> bool:
    """Whether an update has anything for a component of a base: rules, explicit facts, or what has changed below it."""
    if request.changes_rules:
        return True
    changed = (request.delete, request.add, transaction.deltas)
    return any(name in some for name in (*base.predicates, *base.readers) for some in changed)
