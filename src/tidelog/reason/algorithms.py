"""Which algorithm maintains which component: the values of `maintenance` (see docs/algorithms.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.errors import TidelogError
from tidelog.reason.backward_forward import backward_forward
from tidelog.reason.compiled import Node
from tidelog.reason.counting import count
from tidelog.reason.deletion import delete_and_rederive
from tidelog.reason.marking import ALL_MARKS, EXPLICIT_MARKS
from tidelog.reason.policy import Counters
from tidelog.reason.recomputation import recompute
from tidelog.reason.transaction import Explicit, RuleChange, Transaction

Maintain = Callable[[Transaction, Node, Explicit, RuleChange, Counters], None]


def _count(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, _: Counters) -> None:
    count(transaction, node, explicit, rules)


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

    def choice(self, node: Node) -> Choice:
        return self.recursive if node.recursive else self.plain

    def counters(self, node: Node) -> Counters:
        return self.choice(node).counters

    def maintain(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
        choice = self.choice(node)
        transaction.marking.pass_on(choice.marks)
        choice.run(transaction, node, explicit, rules, choice.counters)


_DRED = Choice(delete_and_rederive, Counters.NONE, ALL_MARKS)
_COUNTING = Choice(_count, Counters.ALL)
_DRED_COUNTING = Choice(delete_and_rederive, Counters.ALL, ALL_MARKS)
_BF = Choice(backward_forward, Counters.NONE, EXPLICIT_MARKS)
_BF_COUNTING = Choice(backward_forward, Counters.NON_RECURSIVE, EXPLICIT_MARKS)
_RECOMPUTE = Choice(recompute, Counters.NONE)

_ALGORITHMS = {
    "auto": Algorithm(_COUNTING, _BF_COUNTING),
    "recompute": Algorithm(_RECOMPUTE, _RECOMPUTE),
    "dred": Algorithm(_DRED, _DRED),
    "counting": Algorithm(_COUNTING, _DRED),
    "dred-counting": Algorithm(_COUNTING, _DRED_COUNTING),
    "backward-forward": Algorithm(_BF, _BF),
    "backward-forward-counting": Algorithm(_COUNTING, _BF_COUNTING),
}

MAINTENANCE = tuple(_ALGORITHMS)


def algorithm_for(maintenance: str) -> Algorithm:
    try:
        return _ALGORITHMS[maintenance]
    except KeyError:
        known = ", ".join(MAINTENANCE)
        raise TidelogError(f"unknown maintenance {maintenance!r}; it is one of {known}") from None
