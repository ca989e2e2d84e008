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
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.rules.policy import NO_COUNTER, Counters
from tidelog.engine.transaction.task import Task


def count(task: Task) -> None:
    """Maintain a component without recursion; the counters are those of all derivations."""
    explicit = task.explicit
    task.node.complete_tables()
    gone = task.from_below(deleted=True)
    removed = task.of_rules(task.rules.removed, deleted=True)
    for relation in task.relations:
        # Where nothing is counted down, all that is known stays in I.
        if gone or removed or len(explicit.deleted[relation.number]):
            relation.mark_unclean()
    task.spread(COUNT_DOWN, DESTROYED_FROM_BELOW, gone)
    task.spread(COUNT_DOWN, HELD, removed)
    task.spread(COUNT_UP, CREATED_FROM_BELOW, task.from_below(deleted=False))
    task.spread(COUNT_UP, HOLDING, task.of_rules(task.rules.added, deleted=False))
    settle_doubts(task, without=frozenset())
    for relation in task.relations:
        for facts in (explicit.deleted[relation.number], explicit.added[relation.number]):
            task.seed(COUNT_UP, relation, facts)
        settle_counts(task.machine, relation.number)


def recount(task: Task, rules: list[CompiledRule]) -> None:
    """Count again the derivations by these rules, those of before the update."""
    work = task.transaction.work_registers().copy()
    task.node.complete_tables()
    for relation in task.relations:
        task.undo.keep_columns(relation)
    keeps_ranks = task.counters is Counters.NON_RECURSIVE
    # Without recursion all that is not explicit is counted, and needs no ranks.
    task.note_ranked(stack_ranks(task, rules) if keeps_ranks else not task.node.recursive)
    for relation in task.relations:
        relation.counters[:, : 1 if keeps_ranks else 2] = 0
    counted = [rule for rule in rules if task.counters.of(rule.recursive, deleting=False) != NO_COUNTER]
    task.transaction.list_changes(rule.normal for rule in counted)
    task.spread(RECOUNT, HELD, task.of_rules(counted, deleted=False, held=True))
    task.transaction.work_registers()[:] = work
