"""DR3 and DR4: overdeleted facts leave I, and those with a derivation from what is left wait to be inserted again."""

from __future__ import annotations

from tidelog.store.executor import next_match, start
from tidelog.store.jit import device, entry_point, load_i32, load_i64, store_i32
from tidelog.store.kernels import enqueue, field, flags_at, record_of, relation_row
from tidelog.store.layout import (
    DONE,
    F_EXPLICIT,
    F_IN,
    F_PENDING,
    F_PROVED,
    M_FRAMES,
    M_LISTS,
    M_STATE,
    M_WORK,
    MATCH,
    R_COUNTERS,
    W_REDERIVATION,
)

AT_FACT = 0
AT_PLAN = 1
AT_JOINING = 2


@entry_point
def drop_deleted(m):
    """I := I ∖ D, but for what has been proved."""
    for position in range(m[M_LISTS + 1]):
        entry = load_i64(m[M_LISTS] + 8 * position)
        place = flags_at(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)
        flags = load_i32(place)
        if not flags & F_PROVED:
            store_i32(place, flags & ~F_IN)


@device
def reinsert(row, fact):
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | F_PENDING)
    enqueue(row, fact)


@entry_point
def rederive(m, starts, ends, plans, counters):
    """A := (D ∩ E) ∪ {facts of D with a rule instance in I}; with counters, the counters know."""
    frame = m[M_FRAMES]
    while m[M_STATE + AT_FACT] < m[M_LISTS + 1]:
        entry = load_i64(m[M_LISTS] + 8 * m[M_STATE + AT_FACT])
        relation = entry >> 32
        fact = entry & 0xFFFFFFFF
        row = relation_row(m, relation)
        found = False
        if load_i32(flags_at(row, fact)) & F_EXPLICIT:
            found = True
        elif counters:
            counts = record_of(row, fact) + field(row, R_COUNTERS)
            found = load_i32(counts) > 0 or load_i32(counts + 4) > 0
        else:
            last = load_i32(ends + 4 * relation)
            if m[M_STATE + AT_JOINING] == 0:
                m[M_STATE + AT_PLAN] = load_i32(starts + 4 * relation)
            while m[M_STATE + AT_PLAN] < last:
                if m[M_STATE + AT_JOINING] == 0:
                    start(frame, load_i32(plans + 8 * m[M_STATE + AT_PLAN]), fact)
                    m[M_STATE + AT_JOINING] = 1
                status = next_match(m, frame)
                if status not in (DONE, MATCH):
                    return status
                m[M_STATE + AT_JOINING] = 0
                if status == MATCH:
                    m[M_WORK + W_REDERIVATION] += 1
                    found = True
                    break
                m[M_STATE + AT_PLAN] += 1
        if found:
            reinsert(row, fact)
        m[M_STATE + AT_FACT] += 1
    return DONE
