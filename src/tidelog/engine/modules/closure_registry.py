"""Which components are closures, and how they become and cease to be (Modular, section 4: nothing outside knows which
they are).

A component is maintained as a closure while all of its recursion is one module that `program.modules` recognises; it
has several predicates where these are twins. Rules come and go, and each way from one state to another costs about as
much as it changes: a closure becomes another closure over the same base; records become a closure, whose base is filled
from their explicit facts and its rules, so that the pairs are never derived one by one; and before an update that
leaves no module, the pairs are put into records. What was there before is kept until the update commits, and put back
if it fails.

Closures that are only a part of their component's recursion are the subject of `engine.modules.cores`; both are kept in
a `Registry`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from tidelog.closures.closure import ReadableClosure
from tidelog.engine.algorithms.maintenance import ComponentMaintenance
from tidelog.engine.modules.closure_base import ClosureBase
from tidelog.engine.modules.closure_node import ClosureNode, ModuleUnfit
from tidelog.engine.transaction.task import apply_explicit
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Request
from tidelog.engine.update.pair_sets import CheckLimits, ClosurePairs
from tidelog.errors import StorageError
from tidelog.language.syntax import Rule
from tidelog.program.graph import RuleGraph
from tidelog.program.lattices import aggregates
from tidelog.program.modules import Module, recognise_whole
from tidelog.runtime import signals as interrupts
from tidelog.store.store import Store

N = TypeVar("N", bound=ClosureNode)


class Host(Protocol):
    """What closures need of the engine they belong to."""

    store: Store
    graph: RuleGraph
    maintenance: ComponentMaintenance

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate have moved: plan again what reads or derives it."""


class Registry(Generic[N]):
    """Closures by predicate, of which twins share one, and what the update in work does to them."""

    def __init__(self, engine: Host, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, N] = {}
        # What the update in work did.
        self._begun: list[N] = []
        self._followed: list[N] = []
        self._ended: list[N] = []
        self._maintained: list[N] = []
        self._of_others: list[N] = []  # maintained by updates that are paused
        self.ended: dict[str, None] = {}  # the predicates that had a closure here until the update in work

    def each(self) -> Iterable[N]:
        return dict.fromkeys(self._nodes.values())

    def of(self, predicates: Iterable[str]) -> list[N]:
        """The closures of some predicates."""
        return list(dict.fromkeys(self._nodes[name] for name in predicates if name in self._nodes))

    @property
    def bases(self) -> Iterator[str]:
        """The relations that hold what closures start from."""
        return (base.relations[0].name for node in self.each() for base in node.base.nodes)

    def forget_plans(self) -> None:
        """The code has moved."""
        for node in self.each():
            node.base.forget_plans()

    def _add(self, node: N) -> None:
        self._nodes.update(dict.fromkeys(node.module.predicates, node))

    def _remove(self, node: N) -> None:
        for predicate in node.module.predicates:
            del self._nodes[predicate]

    def _begin(self, node: N) -> None:
        self._add(node)
        self._begun.append(node)

    def _end(self, node: N) -> None:
        self._remove(node)
        self._ended.append(node)
        self.ended.update(dict.fromkeys(node.module.predicates))

    # --- an update ----------------------------------------------------------------------------------------------------

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For an update of facts that overtakes the one in work: what it maintains is kept apart."""
        outer = self._begun, self._followed, self._ended, self._maintained, self._of_others, self.ended
        self._of_others = [*self._of_others, *self._maintained, *self._followed]
        self._begun, self._followed, self._ended, self._maintained, self.ended = [], [], [], [], {}
        try:
            yield
        finally:
            self._begun, self._followed, self._ended, self._maintained, self._of_others, self.ended = outer

    def maintain(self, transaction: Transaction, node: N, request: Request) -> None:
        """Bring the base of a closure up to date, as any component; then the closure itself."""
        self._maintained.append(node)
        self._maintain_base(transaction, node, request)
        deltas = node.maintain(transaction)
        transaction.deltas.update((predicate, delta) for predicate, delta in deltas.items() if delta)

    def _maintain_base(self, transaction: Transaction, node: N, request: Request) -> None:
        for base in node.base.nodes:
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
            node.end_update()
        for node in self._ended:
            node.retire()
        self._end_update()

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
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


class Closures(Registry[ClosureNode]):
    """The components of an engine that are closures."""

    def __init__(self, engine: Host, enabled: bool) -> None:
        super().__init__(engine, enabled)
        self._unfit: set[str] = set()
        self._given_up: list[str] = []  # those that became unfit in the update in work
        # Closures that ended in the update in work, and whose pairs did not become records.
        self._virtual: dict[str, ClosureNode] = {}

    def get(self, predicate: str) -> ClosureNode | None:
        return self._nodes.get(predicate)

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    # --- recognition --------------------------------------------------------------------------------------------------

    def _module(self, predicate: str) -> Module | None:
        """The module that the whole recursion of a predicate's component is, if any."""
        graph = self._engine.graph
        component = graph.component(predicate)
        if not self._enabled or not self._unfit.isdisjoint(component.predicates):
            return None
        module = recognise_whole(component, graph.rules)
        if module is None:
            return None
        rest = set(component.rules).difference(module.rules)
        return None if any(aggregates(graph.rule(number)) for number in rest) else module

    def _rules(self, predicate: str) -> dict[int, Rule]:
        graph = self._engine.graph
        return {number: graph.rule(number) for number in graph.component(predicate).rules}

    # --- rules that change --------------------------------------------------------------------------------------------

    def leave(self, touched: Iterable[str], afresh: Container[str], check_limits: CheckLimits) -> None:
        """The rules have changed: let closures follow where they can, and put the pairs of the others into records,
        except for predicates that are derived afresh.
        """
        for predicate in touched:
            node = self._nodes.get(predicate)
            if node is None:
                continue
            rules, module = self._rules(predicate), self._module(predicate)
            if (rules, module) == (node.rules, node.module):
                continue
            if module is not None and node.can_follow(module):
                self._followed.append(node)
                node.follow_rules(module, rules)
            else:
                self._hand_back(node, all(name in afresh for name in node.module.predicates), check_limits)

    def begin(self, touched: Iterable[str]) -> tuple[str, ...]:
        """Let the components that the new rules make closures be that from now on; their predicates."""
        graph = self._engine.graph
        # One predicate of each component will do.
        for predicate in dict.fromkeys(graph.component(name).predicates[0] for name in (*touched, *self.ended)):
            module = None if predicate in self._nodes else self._module(predicate)
            if module is None or (module.needs_no_explicit_facts and self._have_explicit_facts(module.predicates)):
                continue
            node = ClosureNode(self._engine.store, module, self._rules(predicate))
            former = self.former_pairs()
            node.follow_records({name: former[name] for name in module.predicates if name in former})
            self._begin(node)
            self._engine.maintenance.counted.forget(node.rules)
        return tuple(node.module.predicate for node in self._begun)

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
        """The base of a predicate's closure before the updates in work; None if it had none."""
        node = self._nodes.get(predicate)
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

    # --- updates ------------------------------------------------------------------------------------------------------

    def maintain(self, transaction: Transaction, node: ClosureNode, request: Request) -> None:
        if not node.base.is_own and any(len(request.add.get(name, ())) for name in node.module.predicates):
            raise ModuleUnfit(node.module.predicate)
        super().maintain(transaction, node, request)

    def roll_back(self) -> None:
        self._unfit.difference_update(self._given_up)
        super().roll_back()

    def _end_update(self) -> None:
        super()._end_update()
        self._virtual.clear()
        self._given_up.clear()

    def restore(self, predicates: Collection[str]) -> None:
        """A saved engine is open again: build the closures from their bases, which are there.

        The base of one may be another closure, so those that are read come first, whatever the order of the rules.
        """
        for predicate in sorted(predicates, key=self._engine.graph.position):
            if predicate in self._nodes:
                continue
            module = self._module(predicate)
            if module is None or not set(module.predicates).issubset(predicates):
                raise StorageError(f"`{predicate}` was saved as a closure, and by its rules it is none")
            node = ClosureNode(self._engine.store, module, self._rules(predicate))
            node.restore()
            self._add(node)
            self._forget_plans(node)
