"""Counters and ranks of a component whose rules have come into a recursion or out of one.

When hyper-nodes merge or split (ZodiacEdge, Algorithms 2 and 3), a rule that was counted as non-recursive is recursive
from now on, or the other way round. The derivations that held before the update are then counted anew.

Ranks (`ranks`) stay where components split: whatever derived a fact from lower ranks still does, or is counted
now. Where components merge, their ranks are stacked in the order in which they were derived. A fact that only a counter
held has the facts that derive it in components below, and so with lower ranks; the others keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.engine.algorithms.policy import NO_COUNTER, Counters
from tidelog.engine.algorithms.ranks import LAST_RANK
from tidelog.engine.compiled import CompiledRule, Node
from tidelog.engine.propagation.derived_heads import RECOUNT
from tidelog.engine.propagation.match_sets import HELD
from tidelog.engine.transaction import Transaction
from tidelog.machine import registers as M
from tidelog.program.condensation import components


def recount(transaction: Transaction, node: Node, rules: list[CompiledRule], counters: Counters) -> None:
    """Count the derivations by these rules, those of before the update, anew."""
    work = transaction.work_registers().copy()
    node.complete_tables()
    for relation in node.relations:
        transaction.undo.keep_columns(relation)
    keeps_ranks = counters is Counters.NON_RECURSIVE
    # Without recursion all that is not explicit is counted, and needs no ranks.
    ranked = _stack_ranks(transaction, node, rules) if keeps_ranks else not node.recursive
    for relation in node.relations:
        transaction.undo.note_ranked(relation, ranked)
        relation.counters[:, : 1 if keeps_ranks else 2] = 0
    counted = [rule for rule in rules if counters.of(rule.recursive, deleting=False) != NO_COUNTER]
    transaction.jobs.list_changes(rule.normal for rule in counted)
    transaction.jobs.spread(RECOUNT, HELD, transaction.jobs.of_rules(counted, False, counters, held=True))
    transaction.work_registers()[:] = work


def _stack_ranks(transaction: Transaction, node: Node, rules: Iterable[CompiledRule]) -> bool:
    """Let facts of a component that these rules made above another one have higher ranks; whether ranks are kept."""
    if not node.ranked:
        return False
    relations = {relation.name: relation for relation in node.relations}
    read: dict[str, set[str]] = {name: set() for name in relations}
    for rule in rules:
        read[rule.head.name].update(atom.predicate for atom in rule.normal.positives if atom.predicate in relations)
    top = 0  # ranks lie where the recursive counter would
    for part in components(relations, read):
        ranks = [relations[name].counters[:, 1] for name in part]
        height = max(int(column.max(initial=0)) for column in ranks)
        if top + height > LAST_RANK:
            return False
        for column in ranks:
            column += top
        top += height + 1
    transaction.machine[M.RANK] = max(transaction.machine[M.RANK], top)
    return True
