"""Counting: each fact of a non-recursive component carries the number of its derivations (Fully dynamic, section
2.1.2).

Destroyed instances count down, created ones up, each exactly once; a fact is in I while it is explicit or its count
is not zero.
"""

from __future__ import annotations

from tidelog.reason.batches import settle_counts
from tidelog.reason.changes import Explicit, RuleChange
from tidelog.reason.compiled import CompiledRule, Node
from tidelog.reason.heads import COUNT_DOWN, COUNT_UP, RECOUNT
from tidelog.reason.policy import NO_COUNTER, Counters
from tidelog.reason.sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW, HELD, HOLDING
from tidelog.reason.transaction import Transaction
from tidelog.store.update_kernels import zero_counters


def recount(transaction: Transaction, node: Node, rules: list[CompiledRule], counters: Counters) -> None:
    """Count the derivations that held before the update anew: rules have come into a recursion or out of one."""
    work = transaction.work_registers().copy()
    transaction.look_up(node)
    for relation in node.relations:
        transaction.before.keep_whole(relation)
        transaction.before.note_ranked(relation, False)
        zero_counters(transaction.machine, relation.number)
    counted = [rule for rule in rules if counters.of(rule.recursive, deleting=False) != NO_COUNTER]
    transaction.list_changes(rule.normal for rule in counted)
    transaction.spread(RECOUNT, HELD, *transaction.whole_rules(counted, deleted=False, counters=counters))
    transaction.work_registers()[:] = work


def count(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
    """Maintain a component without recursion."""
    transaction.look_up(node)
    for relation in node.relations:
        relation.mark_unclean()
    gone = transaction.jobs_from_below(node, rules, deleted=True, counters=Counters.ALL)
    transaction.spread(COUNT_DOWN, DESTROYED_FROM_BELOW, *gone)
    transaction.spread(COUNT_DOWN, HELD, *transaction.whole_rules(rules.removed, deleted=True, counters=Counters.ALL))
    come = transaction.jobs_from_below(node, rules, deleted=False, counters=Counters.ALL)
    transaction.spread(COUNT_UP, CREATED_FROM_BELOW, *come)
    transaction.spread(COUNT_UP, HOLDING, *transaction.whole_rules(rules.added, deleted=False, counters=Counters.ALL))
    for relation in node.relations:
        transaction.queue_for_settling(relation, explicit)
        settle_counts(transaction.machine, relation.number)
