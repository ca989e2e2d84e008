"""Insertion: everything that follows from new facts (semi-naive evaluation; Modular, Algorithm 1; Backward/Forward,
DR5).

On an empty store this is materialisation.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import INSERT
from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, CREATED_IN_ROUND, HOLDING
from tidelog.engine.rules.compiled import Node
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange


def insert(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters) -> None:
    """Δ := E⁺, what new facts below yield, what new rules yield; then I := I ∪ Δ and Δ := Π[I ⋮ Δ] ∖ I until Δ is
    empty.
    """
    node.complete_tables()
    for relation in node.relations:
        if counters is not Counters.NON_RECURSIVE:
            # Facts get no ranks; see `engine.algorithms.ranks`.
            transaction.undo.note_ranked(relation, False)
        transaction.jobs.seed(INSERT, relation, explicit.added[relation.number])
    jobs = transaction.jobs.from_below(node, rules, deleted=False, counters=counters)
    transaction.jobs.spread(INSERT, CREATED_FROM_BELOW, jobs)
    transaction.jobs.spread(INSERT, HOLDING, transaction.jobs.of_rules(rules.added, False, counters))
    transaction.jobs.rounds(INSERT, CREATED_IN_ROUND, node, counters, frozenset())
    if not transaction.jobs.has_ranks_left:
        for relation in node.relations:
            transaction.undo.note_ranked(relation, False)
