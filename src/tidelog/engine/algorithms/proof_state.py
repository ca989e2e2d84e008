"""What the kernels of Backward/Forward and of deletion by ranks share: flags of facts, the mode, the sets of joins.

Numbers in comments are lines of the paper (Motik, Nenov, Piro and Horrocks, Algorithms 1 to 3).
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.marking.mark_kernels import first_marked_step
from tidelog.engine.propagation.match_sets import (
    BACKWARD,
    BACKWARD_EXPLICIT,
    BACKWARD_PROVED,
    DESTROYED_IN_ROUND,
    PROVED,
    SUPPORTING,
)
from tidelog.joins.executor import head_relation, next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import find, flags_at, relation_row, touch
from tidelog.machine.jit import device, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE

# The sets of each kind of join, as the machine holds them.
SETS = np.array(
    [sets.words for sets in (DESTROYED_IN_ROUND, PROVED, BACKWARD, BACKWARD_EXPLICIT, BACKWARD_PROVED, SUPPORTING)],
    np.int64,
)
IN_DELETION, IN_FORWARD, IN_BACKWARD, IN_BACKWARD_EXPLICIT, IN_BACKWARD_PROVED, IN_SUPPORT = 0, 1, 2, 3, 4, 5

# Where the machine is.
MODE_NEXT, MODE_CHECK, MODE_SATURATE, MODE_VERDICT, MODE_SPREAD = 0, 1, 2, 3, 4


@device
def match_in(m, kind):
    """Choose the sets for the next join."""
    for place in range(M.MASK_WORDS):
        m[M.MASKS + place] = SETS[kind, place]


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
    if load_i32(entry_flags(m, entry)) & F.EXPLICIT:
        return True
    return counters != 0 and load_i32(counters_of(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)) > 0


@device
def prove(m, entry):
    """P.add(F), of a fact in C; where an instance has waited for it, it spreads at once."""
    set_flags(m, entry, F.PROVED)
    if load_i32(entry_flags(m, entry)) & F.AWAITED:
        L.push(m, L.P, entry)
        m[M.PROOF_MODE] = MODE_SATURATE


@device
def derived_head(m, frame):
    """The fact that a match derives, as an entry, or -1 where it is not in I: something new, and insertion's
    business.
    """
    relation = head_relation(m, load_i64(frame))
    write_head(m, frame, m[M.HEADS])
    fact = find(m, relation, m[M.HEADS])
    if fact < 0 or not load_i32(flags_at(relation_row(m, relation), fact)) & F.IN:
        return -1
    return (relation << 32) | fact


@device
def count_work(m, kind, frame):
    m[M.WORK + kind] += 1
    place = m[M.RULE_WORK] + 8 * plan_word(m, load_i64(frame), P.RULE)
    store_i64(place, load_i64(place) + 1)


@device
def begin_spreading(m, entry, places, starts):
    """Let a fact be the pivot of the plans of its relation, one after the other."""
    set_flags(m, entry, F.CURRENT)
    place = load_i32(places + 4 * (entry >> 32))
    m[M.PROOF_FACT] = entry
    m[M.PROOF_PLAN] = load_i32(starts + 4 * place)
    m[M.PROOF_END] = load_i32(starts + 4 * (place + 1))
    m[M.PROOF_JOINING] = 0


@device
def next_consequence(m, sets, plans):
    """The next match with the spreading fact as its pivot: MATCH, DONE, or a reason to pause."""
    frame = m[M.FRAMES]
    while m[M.PROOF_PLAN] < m[M.PROOF_END]:
        if m[M.PROOF_JOINING] == 0:
            plan = load_i32(plans + 8 * m[M.PROOF_PLAN])
            start(frame, plan, m[M.PROOF_FACT] & 0xFFFFFFFF)
            m[M.PROOF_JOINING] = 1
            # Only forward chaining passes marks on.
            marking = sets == IN_FORWARD and m[M.MARKING] != 0
            m[M.PROOF_MARKED] = first_marked_step(m, plan) if marking else -1
        match_in(m, sets)
        status = next_match(m, frame)
        if status != DONE:
            return status
        m[M.PROOF_JOINING] = 0
        m[M.PROOF_PLAN] += 1
    return DONE


@device
def end_spreading(m):
    clear_flags(m, m[M.PROOF_FACT], F.CURRENT)
    m[M.PROOF_FACT] = -1
