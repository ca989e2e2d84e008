"""Counting: each fact of a non-recursive component carries the number of its derivations (Fully dynamic, section
2.1.2).

Destroyed instances count down, created ones up, each exactly once; a fact is in I while it is explicit or its count
is not zero.

When hyper-nodes merge or split (ZodiacEdge, Algorithms 2 and 3), a rule that was counted as non-recursive is recursive
from now on, or the other way round. The derivations that held before the update are then counted again.
"""

from __future__ import annotations

from tidelog.engine.algorithms.delete_rederive import settle_doubts
from tidelog.engine.algorithms.ranks import stack_ranks
from tidelog.engine.propagation.derived_heads import COUNT_DOWN, COUNT_UP, RECOUNT
from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW, HELD, HOLDING
from tidelog.engine.propagation.propagate import settle_counts
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.rules.policy import NO_COUNTER, Counters
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange


def count(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters) -> None:
    """Maintain a component without recursion; the counters are those of all derivations."""
    jobs = transaction.jobs
    node.complete_tables()
    gone = jobs.from_below(node, rules, deleted=True, counters=counters)
    removed = jobs.of_rules(rules.removed, deleted=True, counters=counters)
    for relation in node.relations:
        # Where nothing is counted down, all that is known stays in I.
        if gone or removed or len(explicit.deleted[relation.number]):
            relation.mark_unclean()
    jobs.spread(COUNT_DOWN, DESTROYED_FROM_BELOW, gone)
    jobs.spread(COUNT_DOWN, HELD, removed)
    jobs.spread(COUNT_UP, CREATED_FROM_BELOW, jobs.from_below(node, rules, deleted=False, counters=counters))
    jobs.spread(COUNT_UP, HOLDING, jobs.of_rules(rules.added, deleted=False, counters=counters))
    settle_doubts(transaction, node)
    for relation in node.relations:
        for facts in (explicit.deleted[relation.number], explicit.added[relation.number]):
            jobs.seed(COUNT_UP, relation, facts)
        settle_counts(transaction.machine, relation.number)


def recount(transaction: Transaction, node: Node, rules: list[CompiledRule], counters: Counters) -> None:
    """Count again the derivations by these rules, those of before the update."""
    work = transaction.work_registers().copy()
    node.complete_tables()
    for relation in node.relations:
        transaction.undo.keep_columns(relation)
    keeps_ranks = counters is Counters.NON_RECURSIVE
    # Without recursion all that is not explicit is counted, and needs no ranks.
    ranked = stack_ranks(transaction, node, rules) if keeps_ranks else not node.recursive
    for relation in node.relations:
        transaction.undo.note_ranked(relation, ranked)
        relation.counters[:, : 1 if keeps_ranks else 2] = 0
    counted = [rule for rule in rules if counters.of(rule.recursive, deleting=False) != NO_COUNTER]
    transaction.jobs.list_changes(rule.normal for rule in counted)
    transaction.jobs.spread(RECOUNT, HELD, transaction.jobs.of_rules(counted, False, counters, held=True))
    transaction.work_registers()[:] = work
