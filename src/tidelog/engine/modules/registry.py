"""The closures of an engine, and what the update in work does to them: they begin, follow other rules, or end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from tidelog.engine.algorithms.maintenance import ComponentMaintenance
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.transaction.explicit import apply_explicit
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Request
from tidelog.program.graph import RuleGraph
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
    """Closures by predicate; twins have one together."""

    def __init__(self, engine: Host, enabled: bool) -> None:
        self._engine = engine
        self._enabled = enabled
        self._nodes: dict[str, N] = {}
        # What the update in work did.
        self._begun: list[N] = []
        self._followed: list[N] = []
        self._ended: list[N] = []
        self._maintained: list[N] = []
        self._ended_predicates: set[str] = set()

    def each(self) -> Iterable[N]:
        return dict.fromkeys(self._nodes.values())

    def of(self, predicates: Iterable[str]) -> list[N]:
        """The closures of some predicates."""
        return list(dict.fromkeys(self._nodes[name] for name in predicates if name in self._nodes))

    @property
    def bases(self) -> Iterator[str]:
        """The relations that hold what closures start from."""
        return (name for node in self.each() for name in node.base.relation_names())

    def forget_plans(self) -> None:
        """The code has moved."""
        for node in self.each():
            node.base.forget_plans()

    def have_ended(self, predicates: Iterable[str]) -> bool:
        """Whether one of these predicates had a closure here until the update in work."""
        return not self._ended_predicates.isdisjoint(predicates)

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
        self._ended_predicates.update(node.module.predicates)

    # --- an update ----------------------------------------------------------------------------------------------------

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
                rows = node.first_explicit(predicate, request.delete.get(predicate), request.add.get(predicate))
                asked = Request(add={predicate: rows})
            explicit = apply_explicit(transaction, base, asked)
            self._engine.maintenance.maintain(transaction, base, explicit, node.base_change(base))
            transaction.collect(base.relations)

    def commit(self) -> None:
        if not (self._maintained or self._followed or self._ended):
            return
        for node in dict.fromkeys((*self._maintained, *self._followed)):
            node.commit()
        for node in self._ended:
            node.retire()
        self._end_update()

    def roll_back(self) -> None:
        """Closures that the failed update began are none; the others are as before it."""
        for node in self._begun:
            self._remove(node)
        for node in self.each():
            node.roll_back()
        for node in self._ended:
            self._come_back(node)
            self._add(node)
        self._end_update()

    def _come_back(self, node: N) -> None:
        """A closure does not end after all."""
        node.base.forget_plans()

    def _end_update(self) -> None:
        for nodes in (self._begun, self._followed, self._ended, self._maintained):
            nodes.clear()
        self._ended_predicates.clear()
