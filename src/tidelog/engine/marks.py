"""What an update has marked for the next one: deletions, and facts that rules with one body atom copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.marking.copied_marks import share_marks
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.machine import registers as M
from tidelog.machine import work_lists as L
from tidelog.machine.jit import address
from tidelog.machine.status import NEED_COPIES
from tidelog.program.plan import Pivot, Start
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine

FIRST = Pivot(Start.POSITIVE, 0)


class Marks:
    """The marks between two updates of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.deletions: EncodedFacts = {}  # those of the next update, as far as they are marked
        self._can_spread: bool | None = None
        # For each relation the rules whose one body atom it is, as `share_marks` reads them; found when first needed.
        self._places: Cells = np.full((8, 2), -1, np.int32)
        self._plans: Cells = np.zeros((8, 2), np.int32)
        self._used = 0
        self._copying: dict[int, set[int]] = {}

    def forget(self) -> None:
        """Marks do not outlive a change of rules or plans: other rules copy facts then, and facts may have moved."""
        self._engine.store.lists.clear(L.EXPECTED)
        self.deletions = {}
        self._can_spread = None
        if self._copying:
            self._places.fill(-1)
            self._copying.clear()
            self._used = 0

    def went(self, transaction: Transaction, node: Node, rows: EncodedFacts) -> None:
        """The explicit facts in `rows` went. If the same facts were marked before, and nothing else can have gone, the
        heads of rules that copy them are expected already, and need not be derived.
        """
        if not self.deletions or node.rules:
            return
        predicate = node.predicates[0]  # the only one, since there is no rule
        gone = rows.get(predicate)
        if gone is not None and gone is self.deletions.get(predicate):
            transaction.marking.announced |= self._copying.get(node.relations[0].number, set())

    def renumber(self, relation: int, alive: Cells) -> None:
        """A relation was compacted to the facts in `alive`, which kept their order."""
        entries = self._engine.store.lists.entries(L.EXPECTED)
        own = entries >> 32 == relation
        entries[own] = (relation << 32) | np.searchsorted(alive, entries[own] & 0xFFFFFFFF)

    def can_spread(self) -> bool:
        """Whether a mark can ever reach a derived fact: where all components are counted or closures, none can."""
        if self._can_spread is None:
            maintenance, graph, closures = self._engine.maintenance, self._engine.graph, self._engine.closures
            recursive = any(
                graph.component(predicate).recursive_rules and closures.get(predicate) is None
                for predicate in graph.predicates
            )
            marks = maintenance.algorithm(False).marks or (recursive and maintenance.algorithm(True).marks)
            self._can_spread = bool(marks)
        return self._can_spread

    def share(self, machine: npt.NDArray[np.int64], *_: Any) -> int:
        """Run `share_marks` until it is done or asks for room."""
        while True:
            status = share_marks(machine, address(self._places), len(self._places), address(self._plans))
            if status != NEED_COPIES:
                return int(status)
            self._learn(int(machine[M.FULL]))

    def _learn(self, relation: int) -> None:
        """Find the rules that only copy facts of a relation, and which facts pass their marks on through each."""
        predicate = self._engine.store.relations[relation].name
        copies = [
            (rule, marks)
            for rule in map(self._engine.nodes.rule, self._engine.graph.readers(predicate))
            if (marks := self._marks_through(rule, predicate))
        ]
        self._copying[relation] = {rule.number for rule, _ in copies}
        while relation >= len(self._places):
            self._places = np.concatenate((self._places, np.full_like(self._places, -1)))
        while self._used + len(copies) > len(self._plans):
            self._plans = np.concatenate((self._plans, np.zeros_like(self._plans)))
        self._places[relation] = (self._used, self._used + len(copies))
        for rule, marks in copies:
            self._plans[self._used] = (rule.offset(FIRST), marks)
            self._used += 1

    def _marks_through(self, rule: CompiledRule, predicate: str) -> int:
        """The marks that heads share with facts of a predicate if the rule's body is one atom of it; otherwise 0."""
        body, head = rule.normal, rule.head.name
        if len(body.positives) != 1 or body.negatives or body.positives[0].predicate != predicate:
            return 0
        if self._engine.closures.get(head) is not None:
            return 0
        return self._engine.maintenance.algorithm(self._engine.nodes.node(head).recursive).marks
