"""Counting: each fact of a non-recursive component carries the number of its derivations (Fully dynamic, section
2.1.2).

Destroyed instances count down, created ones up, each exactly once; a fact is in I while it is explicit or its count
is not zero.
"""

from __future__ import annotations

from tidelog.engine.algorithms.doubted_facts import settle_doubts
from tidelog.engine.algorithms.policy import Counters
from tidelog.engine.compiled import Node
from tidelog.engine.deltas import Explicit, RuleChange
from tidelog.engine.propagation.batches import settle_counts
from tidelog.engine.propagation.derived_heads import COUNT_DOWN, COUNT_UP
from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW, HELD, HOLDING
from tidelog.engine.transaction import Transaction


def count(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
    """Maintain a component without recursion."""
    node.complete_tables()
    gone = transaction.jobs.from_below(node, rules, deleted=True, counters=Counters.ALL)
    removed = transaction.jobs.of_rules(rules.removed, deleted=True, counters=Counters.ALL)
    for relation in node.relations:
        # Where nothing is counted down, all that is known stays in I.
        if gone or removed or len(explicit.deleted[relation.number]):
            relation.mark_unclean()
    transaction.jobs.spread(COUNT_DOWN, DESTROYED_FROM_BELOW, gone)
    transaction.jobs.spread(COUNT_DOWN, HELD, removed)
    come = transaction.jobs.from_below(node, rules, deleted=False, counters=Counters.ALL)
    transaction.jobs.spread(COUNT_UP, CREATED_FROM_BELOW, come)
    transaction.jobs.spread(
        COUNT_UP, HOLDING, transaction.jobs.of_rules(rules.added, deleted=False, counters=Counters.ALL)
    )
    settle_doubts(transaction, node)
    for relation in node.relations:
        transaction.jobs.queue_for_settling(relation, explicit)
        settle_counts(transaction.machine, relation.number)
