"""Delete/Rederive: DR1 to DR5 of Backward/Forward, section 3, and with counters DRed^c (Modular, section 4.2).

The two cures against repeated derivations of section 3 there ("inverse semi-naive") lie in the sets: a fact that has
spread its deletion takes no part in overdeletion again.
"""

from __future__ import annotations

from tidelog.engine.algorithms.doubted_facts import settle_doubts
from tidelog.engine.algorithms.insertion import insert
from tidelog.engine.algorithms.policy import Counters
from tidelog.engine.algorithms.rederivation import BY_COUNTERS, BY_RULES, drop_deleted, rederive
from tidelog.engine.compiled import Node
from tidelog.engine.deltas import Explicit, RuleChange
from tidelog.engine.propagation.derived_heads import OVERDELETE
from tidelog.engine.propagation.match_sets import DESTROYED_FROM_BELOW, DESTROYED_IN_ROUND, HELD, HOLDING
from tidelog.engine.transaction import Transaction
from tidelog.machine import work_lists as L


def find_candidates(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> int:
    """DR1: E⁻, what lost a fact below, what a removed rule yielded: these wait in the queues. How many there are.

    With counters, a fact with a non-recursive derivation left is no candidate.
    """
    transaction.lists.clear(L.D)
    jobs = transaction.jobs.from_below(node, rules, deleted=True, counters=counters)
    removed = transaction.jobs.of_rules(rules.removed, deleted=True, counters=counters)
    announced = any(rule.number in transaction.marking.announced for rule in node.rules)
    if not (announced or jobs or removed or any(len(facts) for facts in explicit.deleted.values())):
        return 0
    node.complete_tables()
    for relation in node.relations:
        relation.mark_unclean()
        transaction.marking.seed(relation, protect=counters is not Counters.NONE)
    transaction.jobs.spread(OVERDELETE, DESTROYED_FROM_BELOW, jobs)
    transaction.jobs.spread(OVERDELETE, HELD, removed)
    settle_doubts(transaction, node, rules.added_numbers)
    for relation in node.relations:
        facts = explicit.deleted[relation.number]
        transaction.jobs.seed(OVERDELETE, relation, facts, protect=counters is not Counters.NONE)
    return sum(relation.queues.waiting for relation in node.relations)


def delete_and_rederive(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> None:
    """DRed, or DRed^c with counters of all derivations, on one component."""
    if find_candidates(transaction, node, explicit, rules, counters):
        # DR2: the heads of instances with a fact of D go to D as well.
        transaction.jobs.rounds(OVERDELETE, DESTROYED_IN_ROUND, node, counters, rules.added_numbers)
        # DR3: I := I ∖ D, A := D ∩ E.
        drop_deleted(transaction.machine)
        for relation in node.relations:
            relation.queues.reserve(transaction.lists.count(L.D))
        # DR4: what has a derivation left comes back.
        HOLDING.install(transaction.machine)
        known_by = BY_COUNTERS if counters is Counters.ALL else BY_RULES
        transaction.runner.run(rederive, *node.heads(rules.added_numbers).arguments(), known_by)
    # DR5
    insert(transaction, node, explicit, rules, counters)
