"""What the kernels of Backward/Forward and of deletion by ranks share: work lists, flags of facts, where the machine
is, and the sets of joins.

Numbers in comments are lines of the paper (Motik, Nenov, Piro and Horrocks, Algorithms 1 to 3).
"""

from __future__ import annotations

import numpy as np

from tidelog.reason.counts import counters_of
from tidelog.reason.mark_kernels import first_marked_step
from tidelog.reason.sets import BACKWARD, BACKWARD_EXPLICIT, BACKWARD_PROVED, DESTROYED_IN_ROUND, PROVED, SUPPORTING
from tidelog.store.executor import head_relation, next_match, plan_word, start, write_head
from tidelog.store.jit import device, load_i32, load_i64, store_i32, store_i64
from tidelog.store.kernels import find, flags_at, relation_row, touch
from tidelog.store.layout import (
    DONE,
    F_AWAITED,
    F_CURRENT,
    F_EXPLICIT,
    F_IN,
    F_PROVED,
    M_FRAMES,
    M_HEADS,
    M_LISTS,
    M_MARKING,
    M_MASKS,
    M_RULE_WORK,
    M_STATE,
    M_WORK,
    P_RULE,
)

# The work lists.
LIST_D = 0
LIST_C = 1
LIST_P = 2

# The sets of each kind of join, as the machine holds them.
SETS = np.array(
    [sets.words for sets in (DESTROYED_IN_ROUND, PROVED, BACKWARD, BACKWARD_EXPLICIT, BACKWARD_PROVED, SUPPORTING)],
    np.int64,
)
IN_DELETION, IN_FORWARD, IN_BACKWARD, IN_BACKWARD_EXPLICIT, IN_BACKWARD_PROVED, IN_SUPPORT = 0, 1, 2, 3, 4, 5

# Where the machine is.
MODE_NEXT, MODE_CHECK, MODE_SATURATE, MODE_VERDICT, MODE_SPREAD = 0, 1, 2, 3, 4
AT_MODE = 0
AT_D = 1  # D.next
AT_P = 2  # P.next of saturate
AT_S = 3  # how far line 5 has come in C
AT_LEVEL = 4  # byte offset of the top level in the frames, 0 where there is none
AT_FACT = 5  # the fact that spreads, in saturate or in deletion; -1 where there is none
AT_PLAN = 6
AT_END = 7
AT_JOINING = 8
AT_MARKED = 9  # the first step of the current plan that may match a marked fact, or -1


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
    if load_i32(entry_flags(m, entry)) & F_EXPLICIT:
        return True
    return counters != 0 and load_i32(counters_of(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)) > 0


@device
def prove(m, entry):
    """P.add(F), of a fact in C; where an instance has waited for it, it spreads at once."""
    set_flags(m, entry, F_PROVED)
    if load_i32(entry_flags(m, entry)) & F_AWAITED:
        push(m, LIST_P, entry)
        m[M_STATE + AT_MODE] = MODE_SATURATE


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
            # Only forward chaining passes marks on.
            marking = sets == IN_FORWARD and m[M_MARKING] != 0
            m[M_STATE + AT_MARKED] = first_marked_step(m, plan) if marking else -1
        match_in(m, sets)
        status = next_match(m, frame)
        if status != DONE:
            return status
        m[M_STATE + AT_JOINING] = 0
        m[M_STATE + AT_PLAN] += 1
    return DONE


@device
def end_spreading(m):
    clear_flags(m, m[M_STATE + AT_FACT], F_CURRENT)
    m[M_STATE + AT_FACT] = -1
