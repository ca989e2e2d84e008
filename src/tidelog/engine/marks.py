"""What updates have marked for those to come, and what a change of rules leaves of it.

Marks belong to one stream, and to its updates by their numbers: whatever else comes between them forgets them. Where
rules change, facts keep their marks as long as they keep their records; only what was known of the rules is found
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.marking.copied_marks import share_marks
from tidelog.engine.marking.marking import Place
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.machine import registers as M
from tidelog.machine import work_lists as L
from tidelog.machine.jit import address
from tidelog.machine.status import NEED_COPIES
from tidelog.program.plan import Pivot, Start
from tidelog.store.relation_parts import Cells
from tidelog.store.store import UNUSED

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine

FIRST = Pivot(Start.POSITIVE, 0)


class Marks:
    """The marks between two updates of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next: Place | None = None  # the update that facts are expected for
        self.deletions: EncodedFacts = {}  # those of the next update, if all of them are marked
        self._passing: int | None = None
        # For each relation the rules whose one body atom it is, as `share_marks` reads them; found when first needed.
        self._places: Cells = np.full((8, 2), -1, np.int32)
        self._plans: Cells = np.zeros((8, 2), np.int32)
        self._used = 0
        self._copying: dict[int, set[int]] = {}

    def begin(self, transaction: Transaction, place: Place | None, coming: Iterable[str], rules_change: bool) -> None:
        """An update begins; it adds explicit facts of these predicates. One that does not follow the one that has
        marked finds no marks, and one without a place leaves none.
        """
        if place != self._next:
            self._forget_marks()
        self._next = None
        if place is not None and (passing := self._flags_that_pass()):
            transaction.marking.begin(set(coming), passing, rules_change)

    def commit(self, transaction: Transaction, place: Place | None, rules_changed: bool) -> None:
        """The update is done. Where rules have changed, some of what the next update deletes may have moved without its
        marks.
        """
        self.deletions = {} if rules_changed else transaction.marking.marked
        self._next = None if place is None else place.following()

    def forget(self) -> None:
        """An update has failed: facts, rules and plans are as before it, or made again."""
        self._forget_marks()
        self.forget_rules()

    def _forget_marks(self) -> None:
        lists = self._engine.store.lists
        lists.clear(L.EXPECTED)
        lists.clear(L.LATER)
        self.deletions = {}
        self._next = None

    def forget_rules(self) -> None:
        """Rules or plans have changed, and other ones may copy facts now."""
        self._passing = None
        if self._copying:
            self._places.fill(-1)
            self._copying.clear()
            self._used = 0

    def forget_retired(self) -> None:
        """Relations have gone with their rules, and their numbers will mean others."""
        relations, lists = self._engine.store.relations, self._engine.store.lists
        try:
            for which, width in ((L.EXPECTED, 1), (L.LATER, 2)):
                entries = lists.entries(which).reshape(-1, width)
                left = [relations[number].name != UNUSED for number in (entries[:, 0] >> 32).tolist()]
                lists.fill(which, entries[left].ravel())
        except MemoryError:
            self._forget_marks()

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
        lists = self._engine.store.lists
        for entries in (lists.entries(L.EXPECTED), lists.entries(L.LATER)[::2]):
            own = entries >> 32 == relation
            entries[own] = (relation << 32) | np.searchsorted(alive, entries[own] & 0xFFFFFFFF)

    def _flags_that_pass(self) -> int:
        """The flags of facts that pass marks on, in one component or another; 0 if a mark can never reach a derived
        fact, since all components are counted or closures.
        """
        if self._passing is None:
            maintenance, graph, closures = self._engine.maintenance, self._engine.graph, self._engine.closures
            recursive = any(
                graph.component(predicate).recursive_rules and closures.get(predicate) is None
                for predicate in graph.predicates
            )
            found = (maintenance.algorithm(False).marks, maintenance.algorithm(True).marks if recursive else 0)
            self._passing = reduce(and_, filter(None, found), -1) if any(found) else 0
        return self._passing

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
        component = self._engine.graph.component(rule.normal.source.head.predicate)
        engine = self._engine
        if engine.closures.of(component.predicates) or engine.plugins.of(component, engine.graph):
            return 0
        return self._engine.maintenance.algorithm(self._engine.nodes.node(head).recursive).marks
