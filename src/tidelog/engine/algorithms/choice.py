"""Which algorithm maintains which component: the values of `maintenance` (see docs/algorithms.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.engine.algorithms import auto
from tidelog.engine.algorithms.backward_forward import backward_forward
from tidelog.engine.algorithms.counting import count
from tidelog.engine.algorithms.delete_rederive import delete_and_rederive
from tidelog.engine.algorithms.names import MAINTENANCE, Maintenance
from tidelog.engine.algorithms.recomputation import recompute
from tidelog.engine.marking.marking import ALL_MARKS, EXPLICIT_MARKS
from tidelog.engine.rules.compiled import Node
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange
from tidelog.errors import TidelogError

Maintain = Callable[[Transaction, Node, Explicit, RuleChange, Counters], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm, the counters that it keeps, and which facts pass their marks on under it."""

    run: Maintain
    counters: Counters
    marks: int = 0


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A choice for components without recursion, and one for those with it."""

    plain: Choice
    recursive: Choice
    may_start_afresh: bool = False

    def choice(self, node: Node) -> Choice:
        return self.recursive if node.recursive else self.plain

    def counters(self, node: Node) -> Counters:
        return self.choice(node).counters

    def starts_afresh(self, transaction: Transaction, node: Node, rules: RuleChange) -> bool:
        """Whether rules go that gave more derivations than those that stay: the component is then materialised again.

        Where no rule is left, that needs no reasoning at all (ZodiacEdge: hyper-nodes that go as a whole).
        """
        if not self.may_start_afresh or not rules.removed:
            return False
        if not node.rules:
            return True
        gone = sum(auto.applications(transaction, rule) for rule in rules.removed)
        left = sum(auto.applications(transaction, rule) for rule in node.rules)
        return gone > max(left, auto.LEAST_LOSS)

    def maintain(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
        choice = self.choice(node)
        transaction.marking.pass_on(choice.marks)
        before = transaction.runner.candidates
        all_is_new = all(relation.is_new() for relation in node.relations)
        choice.run(transaction, node, explicit, rules, choice.counters)
        if all_is_new:
            auto.learn_effort(transaction, node, before)


def _recompute(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters) -> None:
    losses = auto.losses_of(transaction, node, explicit)
    recompute(transaction, node, counters, not rules.removed and auto.most_stays(transaction, node, losses))


_DRED = Choice(delete_and_rederive, Counters.NONE, ALL_MARKS)
_COUNTING = Choice(count, Counters.ALL)
_DRED_COUNTING = Choice(delete_and_rederive, Counters.ALL, ALL_MARKS)
_BF = Choice(backward_forward, Counters.NONE, EXPLICIT_MARKS)
_BF_COUNTING = Choice(backward_forward, Counters.NON_RECURSIVE, EXPLICIT_MARKS)
_RECOMPUTE = Choice(_recompute, Counters.NONE)

_ALGORITHMS = {
    Maintenance.AUTO: Algorithm(
        Choice(auto.count_or_recompute, Counters.ALL),
        Choice(auto.delete_or_recompute, Counters.NON_RECURSIVE, EXPLICIT_MARKS),
        may_start_afresh=True,
    ),
    Maintenance.RECOMPUTE: Algorithm(_RECOMPUTE, _RECOMPUTE),
    Maintenance.DRED: Algorithm(_DRED, _DRED),
    Maintenance.COUNTING: Algorithm(_COUNTING, _DRED),
    Maintenance.DRED_COUNTING: Algorithm(_COUNTING, _DRED_COUNTING),
    Maintenance.BACKWARD_FORWARD: Algorithm(_BF, _BF),
    Maintenance.BACKWARD_FORWARD_COUNTING: Algorithm(_COUNTING, _BF_COUNTING),
}


def algorithm_for(maintenance: str) -> Algorithm:
    try:
        return _ALGORITHMS[Maintenance(maintenance)]
    except ValueError:
        known = ", ".join(MAINTENANCE)
        raise TidelogError(f"unknown maintenance {maintenance!r}; it is one of {known}") from None
