"""Bringing one component up to date: by the algorithm that `maintenance` names for it, with the counters it keeps."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.engine.algorithms.choice import Algorithm
from tidelog.engine.algorithms.counting import recount
from tidelog.engine.algorithms.recomputation import recompute
from tidelog.engine.rules.compiled import AUXILIARY, CompiledRule, Node
from tidelog.engine.rules.policy import CountedRules, Counters
from tidelog.engine.transaction.explicit import follow_explicit
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange


class ComponentMaintenance:
    """An algorithm, and in which counter the derivations of each rule are counted."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.counted = CountedRules()

    def maintain(
        self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, afresh: bool = False
    ) -> None:
        """Let a component follow what changed below it, in E and in its rules; or materialise it afresh."""
        transaction.runner.computes = node.computes or any(rule.normal.computes for rule in rules.removed)
        if afresh or self.algorithm.starts_afresh(transaction, node, rules):
            self._start_afresh(transaction, node)
        elif node.rules or rules.removed:
            self._prepare_counters(transaction, node, rules)
            self.algorithm.maintain(transaction, node, explicit, rules)
        else:
            follow_explicit(transaction, node, explicit)

    def forget_counts(self, rules: Iterable[int]) -> None:
        """The derivations of these rules are no longer counted."""
        for number in rules:
            self.counted.forget(number)

    def _start_afresh(self, transaction: Transaction, node: Node) -> None:
        """Materialise a component again, with the counters that its algorithm keeps."""
        counters = self._add_counters(node)
        recompute(transaction, node, counters, most_stays=False)
        self._note_counters(node, counters)

    def _add_counters(self, node: Node) -> Counters:
        counters = self.algorithm.counters(node)
        if counters is not Counters.NONE:
            for relation in node.relations:
                relation.add_counters()
        return counters

    def _prepare_counters(self, transaction: Transaction, node: Node, rules: RuleChange) -> None:
        """Let the counters of a component be those that its algorithm keeps, as of before the update."""
        counters = self._add_counters(node)
        if node.keeps_count_alone or (node.counted == self.counted.version and not rules.removed):
            return  # Nothing has changed since the last time.
        if counters is not Counters.NONE:
            before = [rule for rule in node.rules if rule.number not in rules.added_numbers]
            before.extend(rules.removed)
            if any(self._is_counted_otherwise(rule, counters) for rule in before):
                recount(transaction, node, before, counters)
        self._note_counters(node, counters)

    def _is_counted_otherwise(self, rule: CompiledRule, counters: Counters) -> bool:
        """An auxiliary rule is counted from when there is something to count for it."""
        counter = counters.of(rule.recursive, deleting=False)
        return rule.number != AUXILIARY and self.counted.get(rule.number) != counter

    def _note_counters(self, node: Node, counters: Counters) -> None:
        for rule in node.rules:
            if rule.number != AUXILIARY:
                self.counted.count(rule.number, counters.of(rule.recursive, deleting=False))
        node.counted = self.counted.version
