"""Deletion by ranks: overdeletion that ends at a fact which older facts still derive. Ours, and what `auto` does.

The *rank* of a fact is its place in the order in which facts were inserted, over all updates; also those of one round
come one after the other. When a fact is inserted, the facts that derive it are there already: it has a derivation from
facts of lower ranks, or it is explicit, or its counter knows a non-recursive derivation. Deletion keeps this true of
whatever stays. A fact that lost a derivation from lower ranks looks for another such derivation among facts that have
not been overdeleted: if there is one, it stays and spreads nothing; if not, it is overdeleted. Ranks fall along these
derivations, so that no two facts can hold each other: the smallest rank that were wrong would have a derivation from
right ones. What was overdeleted and has a derivation left comes back as in Delete/Rederive (DR4, DR5), with the rank of
a fact that is new.

Compared with Delete/Rederive, overdeletion stops at once where a fact has many derivations; compared with
Backward/Forward, a look at one derivation is a proof, however deep the facts in it lie. The derivations that a fact
loses from later facts cost nothing. It is the weaker one where a fact of low rank has only
derivations from later ones, and much hangs on it: then all that is overdeleted, to come back.

Ranks lie where the recursive counter of a fact would: this algorithm keeps none.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.algorithms.delete_rederive import find_candidates
from tidelog.engine.algorithms.policy import Counters
from tidelog.engine.algorithms.proof_state import IN_DELETION, IN_SUPPORT, count_work, match_in
from tidelog.engine.algorithms.rederivation import BY_RULES, drop_deleted, rederive
from tidelog.engine.compiled import Node
from tidelog.engine.deltas import Explicit, RuleChange
from tidelog.engine.propagation.batches import waiting
from tidelog.engine.propagation.derived_heads import LOSE
from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.engine.propagation.propagate import run_round
from tidelog.engine.transaction import Transaction
from tidelog.joins.executor import next_match, start
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import field, flags_at, relation_row
from tidelog.machine.jit import device, entry_point, load_i32, store_i32, store_i64
from tidelog.machine.status import DONE, MATCH
from tidelog.store.store import Store

# The facts that wait look for a derivation, one after the other; then those that have none spread, in a round.
LOOKING, SPREADING = 0, 1

# In candidates of materialisation: a fact that looks for a derivation, and one that is overdeleted: it spreads, leaves
# its places, and may come back.
LOOK_COST, LOSS_COST = 25, 110

# From this rank on facts are numbered anew between two updates. One that then needs more ranks than there are leaves
# the facts of its component without any (`batches.TOP_RANK`).
LAST_RANK = 1 << 30


@device
def look(m, relation, row, fact, head_starts, head_ends, head_plans):
    """Look for an instance that derives the fact from lower ranks: MATCH where there is one, DONE where there is none,
    or a reason to pause.

    Of non-recursive instances it has none: its counter says so.
    """
    rank = load_i32(counters_of(row, fact) + 4)
    frame = m[M.FRAMES]
    if m[M.LOOK_PLAN] == 0:
        m[M.LOOK_PLAN] = load_i32(head_starts + 4 * relation) + 1
        m[M.LATE] = 0
        m[M.WORK + W.CHECKED] += 1
        m[M.BUDGET] -= LOOK_COST
    while m[M.LOOK_PLAN] <= load_i32(head_ends + 4 * relation):
        at = head_plans + 8 * (m[M.LOOK_PLAN] - 1)
        if load_i32(at + 4) != 0:
            if m[M.LOOK_JOINING] == 0:
                start(frame, load_i32(at), fact)
                m[M.LOOK_JOINING] = 1
            m[M.BELOW] = rank + 1
            status = next_match(m, frame)
            m[M.BELOW] = 0
            if status == MATCH:
                count_work(m, W.BACKWARD, frame)
            if status != DONE:
                return status
        m[M.LOOK_JOINING] = 0
        m[M.LOOK_PLAN] += 1
    return DONE


@device
def end_look(m, relation, row, fact, status):
    """A fact that has no derivation from lower ranks is overdeleted; it may come back only where its rank was why."""
    place = flags_at(row, fact)
    flags = load_i32(place) & ~F.CHECKED
    if status == DONE:
        flags |= F.DELETED
        store_i32(field(row, R.QUEUE) + 4 * m[M.LOOK_KEPT], fact)
        m[M.LOOK_KEPT] += 1
        if m[M.LATE] != 0:
            L.push(m, L.P, (relation << 32) | fact)
        m[M.BUDGET] -= LOSS_COST
    store_i32(place, flags)
    m[M.LOOK_PLAN] = m[M.LOOK_JOINING] = 0
    m[M.LOOK_PIVOT] += 1


@device
def let_look(m, relations, relation_count, head_starts, head_ends, head_plans):
    """Let all facts that wait look, and those that are overdeleted wait on: DONE, or a reason to pause."""
    while m[M.LOOK_RELATION] < relation_count:
        relation = load_i32(relations + 4 * m[M.LOOK_RELATION])
        row = relation_row(m, relation)
        while m[M.LOOK_PIVOT] < field(row, R.QUEUE_COUNT):
            status = L.room(m, L.P, 1)
            if status != DONE:
                return status
            fact = load_i32(field(row, R.QUEUE) + 4 * m[M.LOOK_PIVOT])
            status = look(m, relation, row, fact, head_starts, head_ends, head_plans)
            if status not in (MATCH, DONE):
                return status
            end_look(m, relation, row, fact, status)
        store_i64(row + 8 * R.QUEUE_COUNT, m[M.LOOK_KEPT])
        m[M.LOOK_PIVOT] = m[M.LOOK_KEPT] = 0
        m[M.LOOK_RELATION] += 1
    m[M.LOOK_RELATION] = 0
    return DONE


@entry_point
def overdelete_by_rank(m, relations, relation_count, starts, plans, head_starts, head_ends, head_plans):
    """After it, D holds what is overdeleted; every other fact has a derivation from lower ranks."""
    while True:
        if m[M.LOOK_STAGE] == LOOKING:
            match_in(m, IN_SUPPORT)
            status = let_look(m, relations, relation_count, head_starts, head_ends, head_plans)
            if status != DONE or waiting(m, relations, relation_count) == 0:
                return status
            m[M.LOOK_STAGE] = SPREADING
        match_in(m, IN_DELETION)
        status = run_round(m, LOSE, relations, relation_count, starts, plans)
        if status != DONE:
            return status
        m[M.LOOK_STAGE] = LOOKING


@entry_point
def let_candidates_look(m, relations, relation_count):
    """The facts that wait have lost a derivation, no more is known: let them look for another."""
    for position in range(relation_count):
        row = relation_row(m, load_i32(relations + 4 * position))
        for waits in range(field(row, R.QUEUE_COUNT)):
            place = flags_at(row, load_i32(field(row, R.QUEUE) + 4 * waits))
            store_i32(place, load_i32(place) & ~F.DELETED | F.CHECKED)


def start_ranks_over(store: Store) -> None:
    """Between two updates: before ranks do not fit a cell any more, number them from the beginning, in their order."""
    if store.machine[M.RANK] > LAST_RANK:
        columns = [relation.counters[:, 1] for relation in store.relations if relation.has_counters]
        known = np.unique(np.concatenate([np.zeros(1, np.int32), *columns]))  # 0 is no rank, and stays that
        for column in columns:
            column[:] = np.searchsorted(known, column)
        store.machine[M.RANK] = len(known)


def delete_by_ranks(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters, most: int
) -> None:
    """Delete from one component whose facts have their ranks; what comes back waits for insertion.

    Gives up by `OutOfPatience`, with nothing decided, where that costs more than `most` candidates of materialisation,
    or will: the facts that wait are taken to cost what those before them did.
    """
    checked = int(transaction.machine[M.WORK + W.CHECKED])
    with transaction.runner.patience(most, lambda spent: _outlook(transaction, node, checked, spent)):
        found = find_candidates(transaction, node, explicit, rules, counters)
        if found:
            _overdelete(transaction, node, rules, counters)
    if found:
        # DR3 and DR4, as in Delete/Rederive.
        drop_deleted(transaction.machine)
        returning = transaction.lists.move(L.P, L.D)
        for relation in node.relations:
            relation.queues.reserve(returning)
        HOLDING.install(transaction.machine)
        transaction.runner.run(rederive, *node.heads(rules.added_numbers).arguments(), BY_RULES)


def _outlook(transaction: Transaction, node: Node, checked: int, spent: int) -> float:
    """What the facts that wait to look will cost at least; `checked` had looked before this component's did."""
    machine = transaction.machine
    done = int(machine[M.WORK + W.CHECKED]) - checked
    if done == 0:
        return 0.0  # Candidates are still being found.
    waiting_in = node.relations
    looked = 0
    if machine[M.LOOK_STAGE] == LOOKING:
        waiting_in = waiting_in[int(machine[M.LOOK_RELATION]) :]
        looked = int(machine[M.LOOK_PIVOT])
    elif machine[M.AT_PHASE] == 0:
        return 0.0  # Those that wait have looked, and are about to spread, which was counted.
    return spent / done * (sum(relation.queues.waiting for relation in waiting_in) - looked)


def _overdelete(transaction: Transaction, node: Node, rules: RuleChange, counters: Counters) -> None:
    transaction.lists.clear(L.P)
    table = node.rounds(counters, deleting=True, without=rules.added_numbers)
    let_candidates_look(transaction.machine, *table.relations())
    transaction.runner.run(overdelete_by_rank, *table.arguments(), *node.heads(rules.added_numbers).arguments())
