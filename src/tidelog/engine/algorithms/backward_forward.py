"""Backward/Forward: prove before you delete (Motik, Nenov, Piro and Horrocks, Algorithms 1 to 3), on one component.

The kernel below is Algorithm 1, a state machine that can pause anywhere; `provability` holds the other two. Numbers in
comments are lines of the paper. A fact that is explicit, or has a non-recursive derivation by its counter, need not go
to D at all (Backward/Forward with counters, named as future work in Modular, section 8).
"""

from __future__ import annotations

from tidelog.engine.algorithms.delete_rederive import drop_deleted, find_candidates
from tidelog.engine.algorithms.insertion import insert
from tidelog.engine.algorithms.provability import (
    L_FRAME,
    MODE_CHECK,
    MODE_NEXT,
    MODE_SATURATE,
    MODE_SPREAD,
    MODE_VERDICT,
    begin_spreading,
    check,
    derived_head,
    end_spreading,
    enter,
    flags_place,
    has_flag,
    next_consequence,
    protected,
    saturate,
    set_flags,
)
from tidelog.engine.propagation.derived_heads import count_work
from tidelog.engine.propagation.match_sets import IN_DELETION
from tidelog.engine.rules.compiled import Node
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.jit import device, entry_point, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, FULL_FRAMES, FULL_LIST, FULL_LOG, MATCH


@device
def room_needed(m):
    """Whether every step has room for one more of everything it may add."""
    if L.room(m, L.D, 1) != DONE or L.room(m, L.C, 1) != DONE:
        return FULL_LIST
    if L.room(m, L.P, 1) != DONE or L.room(m, L.MARKED, 1) != DONE:
        return FULL_LIST
    if m[M.LOG_COUNT] + 2 > m[M.LOG_CAPACITY]:
        m[M.STAGED] = 2
        return FULL_LOG
    if m[M.PROOF_LEVEL] + 3 * (m[M.FRAME_BASE] + 8 * L_FRAME) > m[M.FRAMES_SIZE]:
        return FULL_FRAMES
    return DONE


@device
def verdict(m, starts, ends):
    """5: what was checked and not proved is disproved; 6: a fact of D that is not proved spreads its deletion."""
    while m[M.PROOF_S] < L.count(m, L.C):
        checked = L.entry(m, L.C, m[M.PROOF_S])
        place = flags_place(m, checked)
        if not load_i32(place) & F.PROVED:
            store_i32(place, load_i32(place) | F.DISPROVED)
        m[M.PROOF_S] += 1
    fact = L.entry(m, L.D, m[M.PROOF_D])
    if has_flag(m, fact, F.PROVED):
        m[M.PROOF_D] += 1
        m[M.PROOF_MODE] = MODE_NEXT
    else:
        begin_spreading(m, fact, starts, ends)
        m[M.PROOF_MODE] = MODE_SPREAD


@device
def spread_deletion(m, plans, counters):
    """7–10: D.add(h(r)τ) for each instance with the fact; then O.add(F). One step."""
    status = next_consequence(m, IN_DELETION, plans)
    if status == MATCH:
        count_work(m, W.DELETION, load_i64(m[M.FRAMES]), 1)
        head = derived_head(m, m[M.FRAMES])
        if head >= 0:
            flags = load_i32(flags_place(m, head))
            if flags & m[M.KNOWN]:
                m[M.SAVED] += 1
            if not flags & F.DELETED and not protected(m, head, counters):
                set_flags(m, head, F.DELETED)
                L.push(m, L.D, head)
        return DONE
    if status == DONE:
        set_flags(m, m[M.PROOF_FACT], F.PROCESSED)
        end_spreading(m)
        m[M.PROOF_D] += 1
        m[M.PROOF_MODE] = MODE_NEXT
    return status


@entry_point
def backward_forward_delete(m, starts, ends, plans, head_starts, head_ends, head_plans, counters):
    """Algorithm 1, B/F–delete: after it, the facts of D that are not in P are those to delete."""
    while True:
        status = room_needed(m)
        if status != DONE:
            return status
        mode = m[M.PROOF_MODE]
        if mode == MODE_NEXT:
            # 3: while (F := D.next) ≠ ε do checkProvability(F)
            if m[M.PROOF_D] == L.count(m, L.D):
                return DONE
            m[M.PROOF_FACT] = -1
            enter(m, L.entry(m, L.D, m[M.PROOF_D]))
        elif mode == MODE_CHECK:
            status = check(m, head_starts, head_ends, head_plans, counters)
        elif mode == MODE_SATURATE:
            status = saturate(m, starts, ends, plans)
        elif mode == MODE_VERDICT:
            verdict(m, starts, ends)
        else:
            status = spread_deletion(m, plans, counters)
        if status != DONE:
            return status


def backward_forward(
    transaction: Transaction,
    node: Node,
    explicit: Explicit,
    rules: RuleChange,
    counters: Counters,
    patience: int | None = None,
) -> None:
    """Maintain one component: B/F for what went, insertion for what came.

    With `patience` the deletion gives up after about so many candidates, and raises `OutOfPatience`.
    """
    with transaction.runner.patience(patience):
        delete_by_proofs(transaction, node, explicit, rules, counters)
    insert(transaction, node, explicit, rules, counters)


def delete_by_proofs(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> None:
    """B/F on one component."""
    if not find_candidates(transaction, node, explicit, rules, counters):
        return
    transaction.jobs.queues_to_list(node, L.D)
    transaction.lists.clear(L.C)
    transaction.lists.clear(L.P)
    for relation in node.relations:
        # What stays has a proof, but perhaps none along which ranks rise; see `engine.algorithms.ranks`.
        transaction.undo.note_ranked(relation, False)
    without = rules.added_numbers
    spreading = node.rounds(counters, deleting=True, without=without)
    keeps_counters = int(counters is not Counters.NONE)
    arguments = (*spreading.arguments(), *node.heads(without).arguments(), keeps_counters)
    transaction.machine[M.EXPLICIT_FIRST] = any(relation.explicit_count for relation in node.relations)
    transaction.runner.run(backward_forward_delete, *arguments)
    # 11: for each F ∈ D ∖ P do I.delete(F)
    drop_deleted(transaction.machine)
