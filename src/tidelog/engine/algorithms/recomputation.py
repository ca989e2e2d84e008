"""Recomputation: forget what a component derived, and materialise it again. The yardstick for everything else."""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import INSERT
from tidelog.engine.propagation.match_sets import CREATED_IN_ROUND, HOLDING
from tidelog.engine.rules.compiled import Node
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.transaction import Transaction


def recompute(
    transaction: Transaction, node: Node, counters: Counters, most_stays: bool, share_left: float = 1.0
) -> None:
    """I := E on the component's relations; then every instance of its rules, and what follows.

    Where most facts stay, they are quicker found again than derived into fresh records, of which there will be about
    `share_left` as many.
    """
    for relation in node.relations:
        transaction.jobs.seed(INSERT, relation, transaction.forget_derived(node, relation, most_stays, share_left))
        transaction.growth.expect_many(relation)
    jobs = transaction.jobs.of_rules([rule for rule in node.rules if not rule.recursive], False, counters)
    transaction.jobs.spread(INSERT, HOLDING, jobs)
    transaction.jobs.rounds(INSERT, CREATED_IN_ROUND, node, counters, frozenset())
    for relation in node.relations:
        ranked = counters is Counters.NON_RECURSIVE and transaction.jobs.has_ranks_left
        transaction.undo.note_ranked(relation, ranked)
