"""What an update has marked for the next one: deletions, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.engine.marking.copied_marks import CopyTable, is_copy_of
from tidelog.engine.marking.marking import expect_nothing, renumber_expected
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine


class Marks:
    """The marks between two updates of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.deletions: EncodedFacts = {}  # those of the next update, as far as they are marked
        self.copies = CopyTable(self._copies_of)  # the rules by which marks are shared
        self._any: bool | None = None

    def forget(self) -> None:
        """Marks do not outlive a change of rules or plans: other rules copy facts then, and facts may have moved."""
        expect_nothing(self._engine.store)
        self.deletions = {}
        self.copies.forget()
        self._any = None

    def finish(self, transaction: Transaction) -> None:
        """An update is done: take its marks off."""
        transaction.marking.finish(self.copies)

    def keep(self, transaction: Transaction) -> None:
        """The update commits: what it marked is for the next one."""
        self.deletions = transaction.marking.marked

    def renumber(self, relation: int, alive: Cells) -> None:
        """A relation was compacted to the facts in `alive`."""
        renumber_expected(self._engine.store, relation, alive)

    def can_spread(self) -> bool:
        """Whether a mark can ever reach a derived fact: where all components are counted or closures, none can."""
        if self._any is None:
            algorithm, graph, closures = self._engine.maintenance.algorithm, self._engine.graph, self._engine.closures
            recursive = any(
                graph.component(predicate).recursive_rules and closures.get(predicate) is None
                for predicate in graph.predicates
            )
            self._any = bool(algorithm.plain.marks or (recursive and algorithm.recursive.marks))
        return self._any

    def _copies_of(self, relation: int) -> Iterator[tuple[CompiledRule, int]]:
        """The rules that only copy facts of a relation, and which facts pass their marks on through each."""
        engine = self._engine
        predicate = engine.store.relations[relation].name
        for number in engine.graph.readers(predicate):
            rule = engine.nodes.rule(number)
            if is_copy_of(rule, predicate) and engine.closures.get(rule.head.name) is None:
                marks = engine.maintenance.algorithm.choice(engine.nodes.node(rule.head.name)).marks
                if marks:
                    yield rule, marks
