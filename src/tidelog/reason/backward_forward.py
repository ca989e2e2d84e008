"""Backward/Forward: prove before you delete (Motik, Nenov, Piro and Horrocks, Algorithms 1 to 3), on one component.

The kernel below is the paper's three algorithms as one machine with explicit state, so that it can pause anywhere and
recursion costs no stack: `checkProvability` keeps its half-finished joins as levels in memory. Numbers in comments
are lines of the paper.

Three things are ours. Facts of lower components are settled already, so that they are never checked: a rule without
facts of the component in its body proves its head at once, and those rules are tried first. A fact that is explicit,
or that its non-recursive counter knows a derivation of, need not go to D at all (Backward/Forward with counters,
named as future work in Modular, section 8). And where the component has explicit facts, instances whose facts are all
explicit are looked for before others.
"""

from __future__ import annotations

import numpy as np

from tidelog.reason.compiled import Node
from tidelog.reason.deletion import find_candidates
from tidelog.reason.insertion import insert
from tidelog.reason.mark_kernels import first_marked_step, mark_fact, room_for_marks, uses_marked
from tidelog.reason.policy import Counters
from tidelog.reason.rederivation import drop_deleted
from tidelog.reason.sets import BACKWARD, BACKWARD_EXPLICIT, DESTROYED_IN_ROUND, PROVED
from tidelog.reason.transaction import Explicit, RuleChange, Transaction
from tidelog.store.executor import head_relation, matched_fact, next_match, plan_word, start, write_head
from tidelog.store.jit import device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.store.kernels import field, find, flags_at, record_of, relation_row, touch
from tidelog.store.layout import (
    DONE,
    F_CHECKED,
    F_CURRENT,
    F_DELAYED,
    F_DELETED,
    F_DISPROVED,
    F_EXPLICIT,
    F_IN,
    F_MARKED,
    F_PROCESSED,
    F_PROVED,
    F_SPREAD,
    FULL_FRAMES,
    FULL_LIST,
    FULL_LOG,
    M_CODE,
    M_EXPLICIT_FIRST,
    M_FRAME_BASE,
    M_FRAMES,
    M_FRAMES_SIZE,
    M_FULL,
    M_HEADS,
    M_KNOWN,
    M_LISTS,
    M_LOG_CAPACITY,
    M_LOG_COUNT,
    M_MARKING,
    M_MASKS,
    M_RULE_WORK,
    M_SAVED,
    M_STAGED,
    M_STATE,
    M_WORK,
    MATCH,
    P_FIRST,
    P_RULE,
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
    W_FORWARD,
)

# The work lists.
LIST_D = 0
LIST_C = 1
LIST_P = 2

# The sets of each kind of join, as the machine holds them.
SETS = np.array([DESTROYED_IN_ROUND.words, BACKWARD.words, BACKWARD_EXPLICIT.words, PROVED.words], np.int64)
IN_DELETION, IN_BACKWARD, IN_BACKWARD_EXPLICIT, IN_FORWARD = 0, 1, 2, 3

# Where the machine is.
MODE_NEXT, MODE_CHECK, MODE_SATURATE, MODE_VERDICT, MODE_SPREAD = 0, 1, 2, 3, 4
AT_MODE = 0
AT_D = 1  # D.next
AT_C = 2  # C.next of saturate
AT_P = 3  # P.next of saturate
AT_S = 4  # how far line 5 has come in C
AT_LEVEL = 5  # byte offset of the top level in the frames, 0 where there is none
AT_FACT = 6  # the fact that spreads, in saturate or in deletion
AT_PLAN = 7
AT_END = 8
AT_JOINING = 9
AT_MARKED = 10  # the first step of the current plan that may match a marked fact, or -1

# A level of checkProvability: fields of 8 bytes, then the frame of its join.
L_FACT = 0
L_STAGE = 1
L_PLAN = 2
L_BODY = 3
L_BELOW = 4
L_EXPLICIT = 5
L_FRAME = 6

STAGE_BEGIN, STAGE_RULES, STAGE_RULE, STAGE_INSTANCES, STAGE_BODY = 0, 1, 2, 3, 4


@device
def match_in(m, kind):
    """Choose the sets for the next join."""
    for place in range(11):
        m[M_MASKS + place] = SETS[kind, place]


@device
def push(m, number, entry):
    """Append to a work list; the main loop keeps room for one entry."""
    registers = M_LISTS + 3 * number
    store_i64(m[registers] + 8 * m[registers + 1], entry)
    m[registers + 1] += 1


@device
def entry_flags(m, entry):
    return flags_at(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)


@device
def set_flags(m, entry, flags):
    relation = entry >> 32
    row = relation_row(m, relation)
    touch(m, relation, row, entry & 0xFFFFFFFF)
    place = entry_flags(m, entry)
    store_i32(place, load_i32(place) | flags)


@device
def clear_flags(m, entry, flags):
    place = entry_flags(m, entry)
    store_i32(place, load_i32(place) & ~flags)


@device
def protected(m, entry, counters):
    """Whether a fact is explicit or its counter knows a non-recursive derivation."""
    row = relation_row(m, entry >> 32)
    record = record_of(row, entry & 0xFFFFFFFF)
    if load_i32(entry_flags(m, entry)) & F_EXPLICIT:
        return True
    return counters != 0 and load_i32(record + field(row, R_COUNTERS)) > 0


@device
def prove(m, entry):
    """P.add(F)"""
    if not load_i32(entry_flags(m, entry)) & F_PROVED:
        set_flags(m, entry, F_PROVED)
        push(m, LIST_P, entry)


@device
def derived_head(m, frame):
    """The fact that a match derives, as an entry, or -1 where it is not in I: something new, and insertion's
    business.
    """
    relation = head_relation(m, load_i64(frame))
    write_head(m, frame, m[M_HEADS])
    fact = find(m, relation, m[M_HEADS])
    if fact < 0 or not load_i32(flags_at(relation_row(m, relation), fact)) & F_IN:
        return -1
    return (relation << 32) | fact


@device
def count_work(m, kind, frame):
    m[M_WORK + kind] += 1
    place = m[M_RULE_WORK] + 8 * plan_word(m, load_i64(frame), P_RULE)
    store_i64(place, load_i64(place) + 1)


@device
def room_needed(m):
    """Whether every step has room for one more of everything it may add."""
    for number in range(3):
        if m[M_LISTS + 3 * number + 1] >= m[M_LISTS + 3 * number + 2]:
            m[M_FULL] = number
            m[M_STAGED] = 0
            return FULL_LIST
    if m[M_LOG_COUNT] + 2 > m[M_LOG_CAPACITY]:
        m[M_STAGED] = 2
        return FULL_LOG
    if m[M_STATE + AT_LEVEL] + 3 * (m[M_FRAME_BASE] + 8 * L_FRAME) > m[M_FRAMES_SIZE]:
        return FULL_FRAMES
    return room_for_marks(m, 1)


@device
def enter(m, entry):
    """Call checkProvability(F): a new level on the stack."""
    below = m[M_STATE + AT_LEVEL]
    # Every level takes the room of the largest frame: offsets then need no look at the level below.
    level = m[M_FRAME_BASE] if below == 0 else below + 8 * L_FRAME + m[M_FRAME_BASE]
    at = m[M_FRAMES] + level
    store_i64(at + 8 * L_FACT, entry)
    store_i64(at + 8 * L_STAGE, STAGE_BEGIN)
    store_i64(at + 8 * L_BELOW, below)
    m[M_STATE + AT_LEVEL] = level
    m[M_STATE + AT_MODE] = MODE_CHECK


@device
def leave(m):
    """Return from checkProvability."""
    below = load_i64(m[M_FRAMES] + m[M_STATE + AT_LEVEL] + 8 * L_BELOW)
    m[M_STATE + AT_LEVEL] = below
    m[M_STATE + AT_MODE] = MODE_CHECK if below != 0 else MODE_VERDICT


@device
def begin_rule(m, level, fact, plans):
    """Start on the instances of the level's current rule: those of explicit facts first, where there are any."""
    entry = plans + 8 * load_i64(level + 8 * L_PLAN)
    explicit = m[M_EXPLICIT_FIRST] if load_i32(entry + 4) else 0
    store_i64(level + 8 * L_EXPLICIT, explicit)
    start(level + 8 * L_FRAME, load_i32(entry), fact & 0xFFFFFFFF)
    store_i64(level + 8 * L_STAGE, STAGE_INSTANCES)


@device
def next_instance(m, level, fact, plans):
    """16: the next instance that could derive the fact. One without facts of the component proves it at once."""
    frame = level + 8 * L_FRAME
    explicit = load_i64(level + 8 * L_EXPLICIT)
    match_in(m, IN_BACKWARD_EXPLICIT if explicit else IN_BACKWARD)
    status = next_match(m, frame)
    if status == MATCH:
        count_work(m, W_BACKWARD, frame)
        recursive = load_i32(plans + 8 * load_i64(level + 8 * L_PLAN) + 4)
        if explicit or not recursive:
            prove(m, fact)
            store_i64(level + 8 * L_STAGE, STAGE_RULES)
            m[M_STATE + AT_MODE] = MODE_SATURATE
        else:
            store_i64(level + 8 * L_BODY, 0)
            store_i64(level + 8 * L_STAGE, STAGE_BODY)
        return DONE
    if status != DONE:
        return status
    if explicit:
        store_i64(level + 8 * L_EXPLICIT, 0)
        start(frame, load_i64(frame), fact & 0xFFFFFFFF)
    else:
        store_i64(level + 8 * L_PLAN, load_i64(level + 8 * L_PLAN) + 1)
        store_i64(level + 8 * L_STAGE, STAGE_RULE)
    return DONE


@device
def next_body_fact(m, level):
    """17, 18: check the next fact of the instance's body that belongs to the component."""
    frame = level + 8 * L_FRAME
    plan = load_i64(frame)
    code = m[M_CODE]
    step = load_i64(level + 8 * L_BODY)
    while step < plan_word(m, plan, P_STEPS):
        at = code + 4 * plan_word(m, plan, P_FIRST + step)
        kind = load_i32(at + 4 * S_KIND)
        step += 1
        if STEP_PROBE <= kind <= STEP_SCAN and load_i32(at + 4 * S_ROLE) >= ROLE_OWN_BEFORE:
            entry = (load_i32(at + 4 * S_RELATION) << 32) | matched_fact(m, frame, step - 1)
            if not load_i32(entry_flags(m, entry)) & F_CHECKED:
                store_i64(level + 8 * L_BODY, step)
                enter(m, entry)
                return
    store_i64(level + 8 * L_STAGE, STAGE_INSTANCES)


@device
def check(m, head_starts, head_ends, head_plans):
    """Algorithm 2, checkProvability: one step of the level on top."""
    level = m[M_FRAMES] + m[M_STATE + AT_LEVEL]
    fact = load_i64(level + 8 * L_FACT)
    stage = load_i64(level + 8 * L_STAGE)
    flags = load_i32(entry_flags(m, fact))
    if stage == STAGE_BEGIN:
        # 12: if C.add(F) = false then return; 13: saturate()
        if flags & F_CHECKED:
            leave(m)
            return DONE
        set_flags(m, fact, F_CHECKED)
        push(m, LIST_C, fact)
        m[M_WORK + W_CHECKED] += 1
        store_i64(level + 8 * L_STAGE, STAGE_RULES)
        store_i64(level + 8 * L_PLAN, load_i32(head_starts + 4 * (fact >> 32)))
        m[M_STATE + AT_MODE] = MODE_SATURATE
        return DONE
    if flags & F_PROVED:
        # 14, 19: if F ∈ P then return
        leave(m)
        return DONE
    if stage == STAGE_RULES:
        store_i64(level + 8 * L_STAGE, STAGE_RULE)
    elif stage == STAGE_RULE:
        # 15: for each ⟨r, Q, σ⟩ ∈ Π.matchHead(F)
        if load_i64(level + 8 * L_PLAN) == load_i32(head_ends + 4 * (fact >> 32)):
            leave(m)
        else:
            begin_rule(m, level, fact, head_plans)
    elif stage == STAGE_INSTANCES:
        return next_instance(m, level, fact, head_plans)
    else:
        next_body_fact(m, level)
    return DONE


@device
def begin_spreading(m, entry, places, starts):
    """Let a fact be the pivot of the plans of its relation, one after the other."""
    set_flags(m, entry, F_CURRENT)
    place = load_i32(places + 4 * (entry >> 32))
    m[M_STATE + AT_FACT] = entry
    m[M_STATE + AT_PLAN] = load_i32(starts + 4 * place)
    m[M_STATE + AT_END] = load_i32(starts + 4 * (place + 1))
    m[M_STATE + AT_JOINING] = 0


@device
def next_consequence(m, sets, plans):
    """The next match with the spreading fact as its pivot: MATCH, DONE, or a reason to pause."""
    frame = m[M_FRAMES]
    while m[M_STATE + AT_PLAN] < m[M_STATE + AT_END]:
        if m[M_STATE + AT_JOINING] == 0:
            plan = load_i32(plans + 8 * m[M_STATE + AT_PLAN])
            start(frame, plan, m[M_STATE + AT_FACT] & 0xFFFFFFFF)
            m[M_STATE + AT_JOINING] = 1
            m[M_STATE + AT_MARKED] = first_marked_step(m, plan) if m[M_MARKING] != 0 else -1
        match_in(m, sets)
        status = next_match(m, frame)
        if status != DONE:
            return status
        m[M_STATE + AT_JOINING] = 0
        m[M_STATE + AT_PLAN] += 1
    return DONE


@device
def saturate(m, places, starts, plans, counters):
    """Algorithm 3: one step."""
    if m[M_STATE + AT_FACT] >= 0:
        status = next_consequence(m, IN_FORWARD, plans)
        if status == MATCH:
            # 27–29: H ∈ C is proved, any other H is delayed
            count_work(m, W_FORWARD, m[M_FRAMES])
            head = derived_head(m, m[M_FRAMES])
            if head >= 0:
                flags = load_i32(entry_flags(m, head))
                first = m[M_STATE + AT_MARKED]
                if first >= 0 and not flags & F_MARKED and uses_marked(m, m[M_FRAMES], m[M_MARKING], first):
                    mark_fact(m, head >> 32, head & 0xFFFFFFFF)
                if flags & F_CHECKED:
                    prove(m, head)
                else:
                    set_flags(m, head, F_DELAYED)
            return DONE
        if status == DONE:
            clear_flags(m, m[M_STATE + AT_FACT], F_CURRENT)
            m[M_STATE + AT_FACT] = -1
        return status
    if m[M_STATE + AT_C] < m[M_LISTS + 3 * LIST_C + 1]:
        # 20–22: what is explicit or delayed is proved
        fact = load_i64(m[M_LISTS + 3 * LIST_C] + 8 * m[M_STATE + AT_C])
        m[M_STATE + AT_C] += 1
        if load_i32(entry_flags(m, fact)) & F_DELAYED or protected(m, fact, counters):
            prove(m, fact)
    elif m[M_STATE + AT_P] < m[M_LISTS + 3 * LIST_P + 1]:
        # 23–26: let a proved fact spread
        fact = load_i64(m[M_LISTS + 3 * LIST_P] + 8 * m[M_STATE + AT_P])
        m[M_STATE + AT_P] += 1
        if not load_i32(entry_flags(m, fact)) & F_SPREAD:
            set_flags(m, fact, F_SPREAD)
            begin_spreading(m, fact, places, starts)
    else:
        m[M_STATE + AT_MODE] = MODE_CHECK if m[M_STATE + AT_LEVEL] != 0 else MODE_VERDICT
    return DONE


@device
def verdict(m, places, starts):
    """5: what was checked and not proved is disproved; 6: a fact of D that is not proved spreads its deletion."""
    while m[M_STATE + AT_S] < m[M_LISTS + 3 * LIST_C + 1]:
        checked = load_i64(m[M_LISTS + 3 * LIST_C] + 8 * m[M_STATE + AT_S])
        if not load_i32(entry_flags(m, checked)) & F_PROVED:
            place = entry_flags(m, checked)
            store_i32(place, load_i32(place) | F_DISPROVED)
        m[M_STATE + AT_S] += 1
    fact = load_i64(m[M_LISTS + 3 * LIST_D] + 8 * m[M_STATE + AT_D])
    if load_i32(entry_flags(m, fact)) & F_PROVED:
        m[M_STATE + AT_D] += 1
        m[M_STATE + AT_MODE] = MODE_NEXT
    else:
        begin_spreading(m, fact, places, starts)
        m[M_STATE + AT_MODE] = MODE_SPREAD


@device
def spread_deletion(m, plans, counters):
    """7–10: D.add(h(r)τ) for each instance with the fact; then O.add(F). One step."""
    status = next_consequence(m, IN_DELETION, plans)
    if status == MATCH:
        count_work(m, W_DELETION, m[M_FRAMES])
        head = derived_head(m, m[M_FRAMES])
        if head >= 0:
            flags = load_i32(entry_flags(m, head))
            if flags & m[M_KNOWN]:
                m[M_SAVED] += 1
            if not flags & F_DELETED and not protected(m, head, counters):
                set_flags(m, head, F_DELETED)
                push(m, LIST_D, head)
        return DONE
    if status == DONE:
        fact = m[M_STATE + AT_FACT]
        clear_flags(m, fact, F_CURRENT)
        set_flags(m, fact, F_PROCESSED)
        m[M_STATE + AT_FACT] = -1
        m[M_STATE + AT_D] += 1
        m[M_STATE + AT_MODE] = MODE_NEXT
    return status


@entry_point
def backward_forward_delete(m, places, starts, plans, head_starts, head_ends, head_plans, counters):
    """Algorithm 1, B/F–delete: after it, the facts of D that are not in P are those to delete."""
    while True:
        status = room_needed(m)
        if status != DONE:
            return status
        mode = m[M_STATE + AT_MODE]
        if mode == MODE_NEXT:
            # 3: while (F := D.next) ≠ ε do checkProvability(F)
            if m[M_STATE + AT_D] == m[M_LISTS + 3 * LIST_D + 1]:
                return DONE
            m[M_STATE + AT_FACT] = -1
            enter(m, load_i64(m[M_LISTS + 3 * LIST_D] + 8 * m[M_STATE + AT_D]))
        elif mode == MODE_CHECK:
            status = check(m, head_starts, head_ends, head_plans)
        elif mode == MODE_SATURATE:
            status = saturate(m, places, starts, plans, counters)
        elif mode == MODE_VERDICT:
            verdict(m, places, starts)
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

    With `patience` the deletion gives up after about so many candidates, by `OutOfPatience`.
    """
    with transaction.patience(patience):
        delete_by_proofs(transaction, node, explicit, rules, counters)
    insert(transaction, node, explicit, rules, counters)


def delete_by_proofs(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> None:
    """B/F on one component."""
    if not find_candidates(transaction, node, explicit, rules, counters):
        return
    for number in (LIST_C, LIST_P):
        transaction.clear_list(number)
    without = rules.added_numbers
    spreading = node.rounds(counters, deleting=True, without=without)
    keeps_counters = int(counters is not Counters.NONE)
    arguments = (*spreading.places(), *node.heads(without).arguments(), keeps_counters)
    transaction.machine[M_EXPLICIT_FIRST] = any(relation.explicit_count for relation in node.relations)
    transaction.run(backward_forward_delete, *arguments)
    # 11: for each F ∈ D ∖ P do I.delete(F)
    drop_deleted(transaction.machine)
