"""Deletion by ranks: overdeletion that ends at a fact which older facts still derive. Ours, and what `auto` does.

The *rank* of a fact is the round that inserted it, counted over all updates. When a fact is inserted, the facts that
derive it are there already: it has a derivation from facts of lower ranks, or it is explicit, or its counter knows a
non-recursive derivation. Deletion keeps this true of whatever stays. A fact that lost a derivation from lower ranks
looks for another such derivation among facts that have not been overdeleted: if there is one, it stays and spreads
nothing; if not, it is overdeleted. Ranks fall along these derivations, so that no two facts can hold each other: the
smallest rank that were wrong would have a derivation from right ones. What was overdeleted and has a derivation left
comes back as in Delete/Rederive (DR4, DR5), with the rank of the round that inserts it again.

Compared with Delete/Rederive, overdeletion stops at once where a fact has many derivations; compared with
Backward/Forward, a look at one derivation is a proof, however deep the facts in it lie. The derivations that a fact
loses from facts of its own rank or later cost nothing. It is the weaker one where a fact of low rank has only
derivations from later ones, and much hangs on it: then all that is overdeleted, to come back.

Ranks lie where the recursive counter of a fact would: this algorithm keeps none.
"""

from __future__ import annotations

from tidelog.reason.backward_forward import room_needed
from tidelog.reason.changes import Explicit, RuleChange
from tidelog.reason.compiled import Node
from tidelog.reason.deletion import find_candidates
from tidelog.reason.policy import Counters
from tidelog.reason.proof_state import (
    AT_D,
    AT_END,
    AT_FACT,
    AT_JOINING,
    AT_MODE,
    AT_PLAN,
    IN_DELETION,
    IN_SUPPORT,
    LIST_C,
    LIST_D,
    LIST_P,
    begin_spreading,
    clear_flags,
    count_work,
    derived_head,
    end_spreading,
    entry_flags,
    match_in,
    next_consequence,
    protected,
    push,
    set_flags,
)
from tidelog.reason.rederivation import drop_deleted, rederive
from tidelog.reason.sets import HOLDING
from tidelog.reason.transaction import Transaction
from tidelog.store.executor import matched_fact, next_match, plan_word, start
from tidelog.store.jit import device, entry_point, load_i32, load_i64
from tidelog.store.kernels import field, record_of, relation_row
from tidelog.store.layout import (
    DONE,
    F_CHECKED,
    F_DELETED,
    F_PROCESSED,
    M_BUDGET,
    M_CODE,
    M_FRAMES,
    M_KNOWN,
    M_LISTS,
    M_LOG_CAPACITY,
    M_LOG_COUNT,
    M_RANK,
    M_SAVED,
    M_STATE,
    M_WORK,
    MATCH,
    P_FIRST,
    P_STEPS,
    R_COUNTERS,
    ROLE_OWN_BEFORE,
    S_KIND,
    S_RELATION,
    S_ROLE,
    STEP_PROBE,
    STEP_SCAN,
    W_BACKWARD,
    W_CHECKED,
    W_DELETION,
    W_OVERDELETED,
)
from tidelog.store.store import Store

# Between two facts, a fact of D spreads, or a fact of C looks for a derivation.
BETWEEN, SPREADING, LOOKING = 0, 1, 2
AT_C = 2  # how far the looking has come in C

AT_FOUND = 3  # 1: the fact that looks has a derivation, though not from lower ranks

# In candidates of materialisation: an instance that is found, a fact that looks for one, and one that is overdeleted:
# it spreads, leaves its places, and may come back.
STEP_COST, LOOK_COST, LOSS_COST = 7, 15, 80

# A single update takes fewer rounds than are left after this one.
LAST_RANK = 1 << 30


@device
def rank_of(m, entry):
    row = relation_row(m, entry >> 32)
    return load_i32(record_of(row, entry & 0xFFFFFFFF) + field(row, R_COUNTERS) + 4)


@device
def is_from_lower(m, frame, rank):
    """Whether all facts of the component in a match have lower ranks."""
    plan = load_i64(frame)
    for step in range(plan_word(m, plan, P_STEPS)):
        at = m[M_CODE] + 4 * plan_word(m, plan, P_FIRST + step)
        kind = load_i32(at + 4 * S_KIND)
        if STEP_PROBE <= kind <= STEP_SCAN and load_i32(at + 4 * S_ROLE) >= ROLE_OWN_BEFORE:
            entry = (load_i32(at + 4 * S_RELATION) << 32) | matched_fact(m, frame, step)
            if rank_of(m, entry) >= rank:
                return False
    return True


@device
def let_look(m, entry):
    """Let a fact that may have lost its derivation from lower ranks look for another one, in its turn."""
    if not load_i32(entry_flags(m, entry)) & (F_CHECKED | F_DELETED):
        set_flags(m, entry, F_CHECKED)
        push(m, LIST_C, entry)


@device
def spread(m, plans, room):
    """The instances that an overdeleted fact was in, as many as there is room for: their heads have lost them."""
    fact = m[M_STATE + AT_FACT]
    rank = rank_of(m, fact)
    known = m[M_KNOWN]
    frame = m[M_FRAMES]
    for _ in range(room):
        status = next_consequence(m, IN_DELETION, plans)
        if status != MATCH:
            if status == DONE:
                end_spreading(m)
                set_flags(m, fact, F_PROCESSED)
                m[M_STATE + AT_MODE] = BETWEEN
            return status
        count_work(m, W_DELETION, frame)
        m[M_BUDGET] -= STEP_COST
        head = derived_head(m, frame)
        if head >= 0:
            if load_i32(entry_flags(m, head)) & known:
                m[M_SAVED] += 1
            if rank < rank_of(m, head) and not protected(m, head, 1):
                let_look(m, head)
    return DONE


@device
def begin_looking(m, entry, head_starts, head_ends):
    clear_flags(m, entry, F_CHECKED)
    m[M_WORK + W_CHECKED] += 1
    m[M_BUDGET] -= LOOK_COST
    m[M_STATE + AT_FACT] = entry
    m[M_STATE + AT_PLAN] = load_i32(head_starts + 4 * (entry >> 32))
    m[M_STATE + AT_END] = load_i32(head_ends + 4 * (entry >> 32))
    m[M_STATE + AT_JOINING] = 0
    m[M_STATE + AT_FOUND] = 0
    m[M_STATE + AT_MODE] = LOOKING


@device
def look(m, head_plans):
    """Look for an instance that derives the fact from lower ranks; a fact that has none is overdeleted, and may come
    back only if it has others.

    Of non-recursive instances it has none: its counter says so.
    """
    fact = m[M_STATE + AT_FACT]
    rank = rank_of(m, fact)
    frame = m[M_FRAMES]
    match_in(m, IN_SUPPORT)
    while m[M_STATE + AT_PLAN] < m[M_STATE + AT_END]:
        at = head_plans + 8 * m[M_STATE + AT_PLAN]
        if load_i32(at + 4) != 0:
            if m[M_STATE + AT_JOINING] == 0:
                start(frame, load_i32(at), fact & 0xFFFFFFFF)
                m[M_STATE + AT_JOINING] = 1
            status = next_match(m, frame)
            while status == MATCH:
                count_work(m, W_BACKWARD, frame)
                m[M_BUDGET] -= STEP_COST
                if is_from_lower(m, frame, rank):
                    m[M_STATE + AT_MODE] = BETWEEN
                    return DONE
                m[M_STATE + AT_FOUND] = 1
                status = next_match(m, frame)
            if status != DONE:
                return status
        m[M_STATE + AT_JOINING] = 0
        m[M_STATE + AT_PLAN] += 1
    set_flags(m, fact, F_DELETED)
    push(m, LIST_D, fact)
    if m[M_STATE + AT_FOUND] != 0:
        push(m, LIST_P, fact)
    m[M_WORK + W_OVERDELETED] += 1
    m[M_BUDGET] -= LOSS_COST
    m[M_STATE + AT_MODE] = BETWEEN
    return DONE


@device
def next_fact(m, places, starts, head_starts, head_ends):
    """Let the next fact of D spread; once all have, let the next of C look. False where none waits."""
    if m[M_STATE + AT_D] < m[M_LISTS + 3 * LIST_D + 1]:
        begin_spreading(m, load_i64(m[M_LISTS + 3 * LIST_D] + 8 * m[M_STATE + AT_D]), places, starts)
        m[M_STATE + AT_D] += 1
        m[M_STATE + AT_MODE] = SPREADING
        return True
    if m[M_STATE + AT_C] < m[M_LISTS + 3 * LIST_C + 1]:
        begin_looking(m, load_i64(m[M_LISTS + 3 * LIST_C] + 8 * m[M_STATE + AT_C]), head_starts, head_ends)
        m[M_STATE + AT_C] += 1
        return True
    return False


@device
def room_for_steps(m):
    """So many steps may each add an entry to every list and two to the log."""
    room = (m[M_LOG_CAPACITY] - m[M_LOG_COUNT]) // 2
    for number in (LIST_D, LIST_C):
        room = min(room, m[M_LISTS + 3 * number + 2] - m[M_LISTS + 3 * number + 1])
    return room


@entry_point
def overdelete_by_rank(m, places, starts, plans, head_starts, head_ends, head_plans):
    """After it, D holds what is overdeleted; every other fact has a derivation from lower ranks."""
    while True:
        status = room_needed(m)
        if status != DONE:
            return status
        if m[M_STATE + AT_MODE] == SPREADING:
            status = spread(m, plans, room_for_steps(m))
        elif m[M_STATE + AT_MODE] == LOOKING:
            status = look(m, head_plans)
        elif not next_fact(m, places, starts, head_starts, head_ends):
            return DONE
        if status != DONE:
            return status


@entry_point
def let_candidates_look(m):
    """The facts in D have lost a derivation, no more is known: let them look for another. There is room."""
    for position in range(m[M_LISTS + 3 * LIST_D + 1]):
        entry = load_i64(m[M_LISTS + 3 * LIST_D] + 8 * position)
        clear_flags(m, entry, F_DELETED)
        let_look(m, entry)
    m[M_LISTS + 3 * LIST_D + 1] = 0


def start_ranks_over(store: Store) -> None:
    """Between two updates: before the rounds do not fit a cell any more, count them from the beginning. The ranks that
    are there say nothing then.
    """
    if store.machine[M_RANK] > LAST_RANK:
        store.machine[M_RANK] = 0
        for relation in store.relations:
            relation.ranked = False


def delete_by_ranks(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters, most: int
) -> None:
    """Delete from one component whose facts have their ranks; what comes back waits for insertion.

    Gives up by `OutOfPatience`, with nothing decided, where that costs more than `most` candidates of materialisation,
    or will: the facts that wait are taken to cost what those before them did.
    """
    with transaction.patience(most, lambda spent: _outlook(transaction, spent)):
        found = find_candidates(transaction, node, explicit, rules, counters)
        if found:
            _overdelete(transaction, node, rules, counters, found)
    if found:
        # DR3 and DR4, as in Delete/Rederive.
        drop_deleted(transaction.machine)
        returning = transaction.move_list(LIST_P, LIST_D)
        for relation in node.relations:
            relation.reserve_queue(returning)
        HOLDING.install(transaction.machine)
        transaction.run(rederive, *node.heads(rules.added_numbers).arguments(), 0)


def _outlook(transaction: Transaction, spent: int) -> float:
    """What the facts that wait will cost at least."""
    machine = transaction.machine
    known = sum(int(machine[M_LISTS + 3 * number + 1]) for number in (LIST_D, LIST_C))
    done = int(machine[M_STATE + AT_D] + machine[M_STATE + AT_C])
    return spent / max(1, done) * (known - done)


def _overdelete(transaction: Transaction, node: Node, rules: RuleChange, counters: Counters, found: int) -> None:
    for number in (LIST_C, LIST_P):
        transaction.clear_list(number)
    transaction.reserve_list(LIST_C, found)
    let_candidates_look(transaction.machine)
    spreading = node.rounds(counters, deleting=True, without=rules.added_numbers)
    transaction.run(overdelete_by_rank, *spreading.places(), *node.heads(rules.added_numbers).arguments())
