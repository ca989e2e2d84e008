"""The part of positive marks that kernels do: which facts come back with the next update, and by which instances.

An overdeleted instance all of whose facts stay, or go and come back, will hold again. It is kept as words of a list:
how many there are, the head, the facts of its body, each as relation << 32 | fact. A fact that the next update itself
adds is a head without a body. Where the list is full nothing is kept: marks only save work.
"""

from __future__ import annotations

from tidelog.joins.executor import head_relation, matched_fact, plan_word
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import enqueue, field, find, flags_at, flags_of, relation_row, touch
from tidelog.machine.jit import device, entry_point, load_i32, load_i64, store_i32


@device
def kept_flags(m, entry):
    """The flags of a fact, or 0 where its number is that of no record any more."""
    if entry & 0xFFFFFFFF >= field(relation_row(m, entry >> 32), R.COUNT):
        return 0
    return flags_of(m, entry >> 32, entry & 0xFFFFFFFF)


@entry_point
def mark_returning(m, relation, rows, count):
    """The next update adds these rows: those that held before the update in work come back if they go."""
    row = relation_row(m, relation)
    width = 4 * field(row, R.ARITY)
    for position in range(count):
        fact = find(m, relation, rows + width * position)
        if fact < 0 or not L.has_room(m, L.RETURNS, 2):
            continue
        place = flags_at(row, fact)
        if load_i32(place) & F.OLD:
            store_i32(place, load_i32(place) | F.RETURNING)
            L.push(m, L.RETURNS, 1)
            L.push(m, L.RETURNS, (relation << 32) | fact)


@device
def comes_back(m, frame):
    """Whether every fact of a match stays, or goes and comes back, and nothing else can keep it from holding again."""
    plan = load_i64(frame)
    returning = False
    for step in range(plan_word(m, plan, P.STEPS)):
        at = m[M.CODE] + 4 * plan_word(m, plan, P.FIRST + step)
        kind = load_i32(at + 4 * P.S_KIND)
        if kind > P.STEP_SCAN:
            if kind not in (P.STEP_COMPARE, P.STEP_ASSIGN, P.STEP_CALL):
                return False
            continue
        flags = flags_of(m, load_i32(at + 4 * P.S_RELATION), matched_fact(m, frame, step))
        if flags & F.DELETED or not flags & F.IN:
            if not flags & F.RETURNING:
                return False
            returning = True
        elif flags & F.MARKED:
            return False
    return returning


@device
def note_return(m, frame, row):
    """An instance with this head is overdeleted: if it will hold again, keep it, and let its head come back."""
    plan = load_i64(frame)
    steps = plan_word(m, plan, P.STEPS)
    if not L.has_room(m, L.RETURNS, steps + 2) or not comes_back(m, frame):
        return
    relation = head_relation(m, plan)
    head = find(m, relation, row)
    if head < 0:
        return
    place = flags_at(relation_row(m, relation), head)
    flags = load_i32(place)
    if flags & F.RETURNING:
        return
    store_i32(place, flags | F.RETURNING)
    start = L.count(m, L.RETURNS)
    L.push(m, L.RETURNS, 1)
    L.push(m, L.RETURNS, (relation << 32) | head)
    for step in range(steps):
        at = m[M.CODE] + 4 * plan_word(m, plan, P.FIRST + step)
        if load_i32(at + 4 * P.S_KIND) <= P.STEP_SCAN:
            L.push(m, L.RETURNS, (load_i32(at + 4 * P.S_RELATION) << 32) | matched_fact(m, frame, step))
    L.put(m, L.RETURNS, start, L.count(m, L.RETURNS) - start - 1)


@entry_point
def take_returns(m):
    """Take every positive mark off; the instances whose heads are gone are left in the list."""
    kept = 0
    position = 0
    while position < L.count(m, L.RETURNS):
        first = position
        size = L.entry(m, L.RETURNS, first)
        head = L.entry(m, L.RETURNS, first + 1)
        position += size + 1
        place = flags_at(relation_row(m, head >> 32), head & 0xFFFFFFFF)
        flags = load_i32(place)
        store_i32(place, flags & ~F.RETURNING)
        if flags & F.IN:
            continue
        m[M.WORK + (W.MARKED_IMPLICIT if size > 1 else W.MARKED_EXPLICIT)] += 1
        if size > 1:
            for word in range(size + 1):
                L.put(m, L.RETURNS, kept + word, L.entry(m, L.RETURNS, first + word))
            kept += size + 1
    L.cut(m, L.RETURNS, kept)


@entry_point
def restore(m, relation, words, count):
    """Let the facts of a relation wait for insertion whose kept instances hold again. There is room."""
    row = relation_row(m, relation)
    position = 0
    while position < count:
        at = words + 8 * position
        size = load_i64(at)
        head = load_i64(at + 8)
        position += size + 1
        holds = head >> 32 == relation and head & 0xFFFFFFFF < field(row, R.COUNT)
        holds = holds and not kept_flags(m, head) & (F.IN | F.PENDING)
        for word in range(2, size + 1):
            if not kept_flags(m, load_i64(at + 8 * word)) & (F.IN | F.PENDING):
                holds = False
        if holds:
            fact = head & 0xFFFFFFFF
            touch(m, relation, row, fact)
            place = flags_at(row, fact)
            store_i32(place, load_i32(place) | F.PENDING | F.RESTORED)
            enqueue(row, fact)
