"""DR3 and DR4: overdeleted facts leave I, and those with a derivation from what is left wait to be inserted again.

To look for a derivation is also what ends doubts about a counter.
"""

from __future__ import annotations

from tidelog.joins.executor import next_match, start
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, is_full
from tidelog.machine.fact_kernels import enqueue, flags_at, relation_row
from tidelog.machine.jit import device, entry_point, load_i32, store_i32
from tidelog.machine.status import DONE, MATCH

# How it is known whether a fact has a derivation: by a look at the rules, by its counters, or by a look at those rules
# whose instances its non-recursive counter would count.
BY_RULES, BY_COUNTERS, IN_DOUBT = 0, 1, 2


@entry_point
def drop_deleted(m):
    """I := I ∖ D, but for what has been proved."""
    for position in range(L.count(m, L.D)):
        entry = L.entry(m, L.D, position)
        place = flags_at(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)
        flags = load_i32(place)
        if not flags & F.PROVED:
            store_i32(place, flags & ~F.IN)


@device
def reinsert(row, fact):
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | F.PENDING)
    enqueue(row, fact)


@device
def has_to_look(row, fact, known_by):
    """Whether only a look at the rules tells if a fact has a derivation."""
    flags = load_i32(flags_at(row, fact))
    if known_by == IN_DOUBT:
        return flags & F.DOUBTED != 0
    if flags & F.EXPLICIT:
        return False
    return known_by == BY_RULES or is_full(load_i32(counters_of(row, fact) + 4))


@device
def look_for_instance(m, relation, fact, starts, ends, plans, known_by):
    """Look for an instance that derives a fact, of a fact in doubt for one without facts of its component: MATCH, DONE
    where there is none, or a reason to pause.
    """
    frame = m[M.FRAMES]
    last = load_i32(ends + 4 * relation)
    if m[M.REDERIVE_JOINING] == 0:
        m[M.REDERIVE_PLAN] = load_i32(starts + 4 * relation)
    while m[M.REDERIVE_PLAN] < last:
        at = plans + 8 * m[M.REDERIVE_PLAN]
        if known_by != IN_DOUBT or load_i32(at + 4) == 0:
            if m[M.REDERIVE_JOINING] == 0:
                start(frame, load_i32(at), fact)
                m[M.REDERIVE_JOINING] = 1
            status = next_match(m, frame)
            if status not in (DONE, MATCH):
                return status
            m[M.REDERIVE_JOINING] = 0
            if status == MATCH:
                m[M.WORK + W.REDERIVATION] += 1
                return MATCH
        m[M.REDERIVE_PLAN] += 1
    return DONE


@device
def end_doubt(row, fact, found):
    """Let the counter of a fact that was in doubt be true: it still waits, unless it was to be overdeleted and is
    protected.
    """
    place = flags_at(row, fact)
    flags = load_i32(place) & ~F.DOUBTED
    if not found:
        store_i32(counters_of(row, fact), 0)
    if flags & F.DELETED and (found or flags & F.EXPLICIT):
        store_i32(place, flags & ~F.DELETED)
    else:
        store_i32(place, flags)
        enqueue(row, fact)


@entry_point
def rederive(m, starts, ends, plans, known_by):
    """A := (D ∩ E) ∪ {facts of D with a rule instance in I}; with counters, the counters know, unless they are full.

    The same search ends doubts (`engine.algorithms.doubted_facts`): then D is whatever waits.
    """
    while m[M.REDERIVE_FACT] < L.count(m, L.D):
        entry = L.entry(m, L.D, m[M.REDERIVE_FACT])
        relation = entry >> 32
        fact = entry & 0xFFFFFFFF
        row = relation_row(m, relation)
        looks = has_to_look(row, fact, known_by)
        found = False
        if looks:
            status = look_for_instance(m, relation, fact, starts, ends, plans, known_by)
            if status not in (DONE, MATCH):
                return status
            found = status == MATCH
        counters = counters_of(row, fact)
        if known_by == IN_DOUBT:
            if looks:
                end_doubt(row, fact, found)
            else:
                enqueue(row, fact)
        elif looks:
            if found:
                reinsert(row, fact)
            elif known_by == BY_COUNTERS:
                store_i32(counters + 4, 0)
        elif load_i32(flags_at(row, fact)) & F.EXPLICIT or load_i32(counters) > 0 or load_i32(counters + 4) > 0:
            reinsert(row, fact)
        m[M.REDERIVE_FACT] += 1
    return DONE
