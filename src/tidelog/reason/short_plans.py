"""Plans in short form: a pivot and at most one atom joined to it by one column, the bulk of all work.

They need no frame: the whole state of the join is a pivot's position and the next fact of a chain.
"""

from __future__ import annotations

from tidelog.reason.heads import (
    COUNT_DOWN,
    OVERDELETE,
    absorb,
    flush,
)
from tidelog.reason.mark_kernels import note_marked
from tidelog.reason.state import (
    AT_BUFFERED,
    AT_COUNTER,
    AT_JOINING,
    AT_PIVOT,
    AT_TARGET,
)
from tidelog.store.executor import (
    head_relation,
    plan_word,
)
from tidelog.store.jit import (
    device,
    load_i32,
    load_i64,
    store_i32,
    store_i64,
)
from tidelog.store.kernels import (
    SEED,
    field,
    index_row,
    mix,
    relation_row,
)
from tidelog.store.layout import (
    DONE,
    EMPTY,
    FROM_OTHER,
    FROM_PIVOT,
    M_BUDGET,
    M_HEADS,
    M_HEADS_CAPACITY,
    M_MASKS,
    M_RULE_FACTS,
    M_RULE_WORK,
    M_STATE,
    M_WORK,
    P_RULE,
    PAUSED,
    R_ARITY,
    R_CELLS,
    R_COUNT,
    R_FLAGS,
    R_WIDTH,
    SHORT_HEAD,
    SHORT_INDEX,
    SHORT_KEY,
    SHORT_ROLE,
    W_DELETION,
    W_INSERTION,
    X_COLUMNS,
    X_LINK,
    X_SLOT_COUNT,
    X_SLOTS,
)


@device
def short_head(short, width, record, other, target):
    """Write a head from the records of the pivot and of the other atom."""
    at = short + 4 * SHORT_HEAD
    for column in range(width):
        origin = load_i32(at)
        cell = load_i32(at + 4)
        if origin == FROM_PIVOT:
            cell = load_i32(record + 4 * cell)
        elif origin == FROM_OTHER:
            cell = load_i32(other + 4 * cell)
        store_i32(target + 4 * column, cell)
        at += 8


@device
def first_with_key(m, index, cells, width, key):
    """The newest fact with this value in the one column of an index, or -1."""
    column = 4 * load_i32(field(index, X_COLUMNS))
    slot_count = field(index, X_SLOT_COUNT)
    slots = field(index, X_SLOTS)
    slot = (mix(SEED, key) * slot_count) >> 32
    while True:
        fact = load_i32(slots + 4 * slot)
        if fact == EMPTY or load_i32(cells + fact * width + column) == key:
            return fact
        slot += 1
        if slot == slot_count:
            slot = 0


@device
def run_short_plan(m, action, plan, short, pivots, count, counter, pivot_row, marking):
    """`run_plan` for a pivot and at most one atom joined by one column: no frame, and everything in registers."""
    target = head_relation(m, plan)
    target_row = relation_row(m, target)
    arity = field(target_row, R_ARITY)
    known = field(target_row, R_COUNT)
    room = m[M_HEADS_CAPACITY] // (arity + 3)
    heads = m[M_HEADS]
    relation = load_i32(short)
    role = load_i32(short + 4 * SHORT_ROLE)
    key_source = load_i32(short + 4 * SHORT_KEY)
    care = m[M_MASKS + 2 * role]
    want = m[M_MASKS + 2 * role + 1]
    pivot_cells = field(pivot_row, R_CELLS)
    pivot_width = field(pivot_row, R_WIDTH)
    pivot_flags = field(pivot_row, R_FLAGS)
    # The head's relation may be that of the pivot or of the other atom: arrays only move after this has returned.
    row = relation_row(m, relation if relation >= 0 else target)
    cells = field(row, R_CELLS)
    width = field(row, R_WIDTH)
    flags = field(row, R_FLAGS)
    index = index_row(m, load_i32(short + 4 * SHORT_INDEX))
    link = field(index, X_LINK) if relation >= 0 else 0
    m[M_STATE + AT_TARGET] = target
    m[M_STATE + AT_COUNTER] = counter
    buffered = m[M_STATE + AT_BUFFERED]
    position = m[M_STATE + AT_PIVOT]
    # While a chain is walked, AT_JOINING is its next fact + 2; 0 before it begins.
    joining = m[M_STATE + AT_JOINING]
    work = 0
    status = DONE
    while position < count:
        record = pivot_cells + load_i32(pivots + 4 * position) * pivot_width
        marked = marking != 0 and load_i32(record + pivot_flags) & marking == marking
        if joining != 0:
            fact = joining - 2
        elif relation < 0:
            fact = 0
        else:
            key = load_i32(record + 4 * key_source) if key_source >= 0 else -1 - key_source
            fact = first_with_key(m, index, cells, width, key)
        joining = fact + 2
        while fact >= 0:
            if buffered == room:
                m[M_STATE + AT_BUFFERED] = buffered
                status = absorb(m, action, target, buffered, counter)
                if status != DONE:
                    break
                buffered = 0
            if relation < 0:
                if marked:
                    note_marked(m, buffered)
                short_head(short, arity, record, record, heads + 4 * arity * buffered)
                buffered += 1
                work += 1
                fact = -1
            else:
                other = cells + fact * width
                other_flags = load_i32(other + flags)
                if other_flags & care == want:
                    if marking != 0 and (marked or other_flags & marking == marking):
                        note_marked(m, buffered)
                    short_head(short, arity, record, other, heads + 4 * arity * buffered)
                    buffered += 1
                    work += 1
                fact = load_i32(other + link)
            joining = fact + 2
        if status != DONE:
            break
        joining = 0
        position += 1
        if work > m[M_BUDGET]:
            status = PAUSED
            break
    m[M_BUDGET] -= work
    m[M_STATE + AT_BUFFERED] = buffered
    m[M_STATE + AT_PIVOT] = position
    m[M_STATE + AT_JOINING] = joining
    kind = W_DELETION if action in (OVERDELETE, COUNT_DOWN) else W_INSERTION
    m[M_WORK + kind] += work
    rule_work = m[M_RULE_WORK] + 8 * plan_word(m, plan, P_RULE)
    store_i64(rule_work, load_i64(rule_work) + work)
    if status == DONE:
        status = flush(m, action)
    rule_facts = m[M_RULE_FACTS] + 8 * plan_word(m, plan, P_RULE)
    store_i64(rule_facts, load_i64(rule_facts) + field(target_row, R_COUNT) - known)
    return status
