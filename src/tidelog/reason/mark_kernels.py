"""The part of marking that kernels do: whether a rule instance uses a marked fact, and marking its head.

Heads are buffered before they are looked up, so a marked head is first noted by its place in the buffer.
"""

from __future__ import annotations

from tidelog.store.executor import matched_fact, plan_word
from tidelog.store.jit import device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.store.kernels import enqueue, field, find, flags_at, record_of, relation_row, touch
from tidelog.store.layout import (
    DONE,
    F_DELETED,
    F_EXPECTED,
    F_EXPLICIT,
    F_IN,
    F_MARKED,
    F_OLD,
    FULL_LIST,
    M_CODE,
    M_FULL,
    M_HEADS,
    M_LISTS,
    M_STAGED,
    P_FIRST,
    P_STEPS,
    R_ARITY,
    R_COUNTERS,
    S_KIND,
    S_RELATION,
    STEP_SCAN,
)

# Work lists: places in the buffer of heads, and marked heads as relation << 32 | fact.
LIST_MARKED_PLACES = 6
LIST_MARKED = 7

MARKED_PLACES = M_LISTS + 3 * LIST_MARKED_PLACES
MARKED = M_LISTS + 3 * LIST_MARKED


@device
def uses_marked(m, frame, care):
    """Whether some fact of a match has all flags of `care`."""
    plan = load_i64(frame)
    code = m[M_CODE]
    for step in range(plan_word(m, plan, P_STEPS)):
        at = code + 4 * plan_word(m, plan, P_FIRST + step)
        if load_i32(at + 4 * S_KIND) <= STEP_SCAN:
            row = relation_row(m, load_i32(at + 4 * S_RELATION))
            if load_i32(flags_at(row, matched_fact(m, frame, step))) & care == care:
                return True
    return False


@device
def note_marked(m, place):
    """The head at this place of the buffer is to be marked. The list is as long as the buffer."""
    store_i64(m[MARKED_PLACES] + 8 * m[MARKED_PLACES + 1], place)
    m[MARKED_PLACES + 1] += 1


@device
def mark_fact(m, relation, fact):
    """Mark a fact once. There is room in the list."""
    place = flags_at(relation_row(m, relation), fact)
    flags = load_i32(place)
    if not flags & F_MARKED:
        store_i32(place, flags | F_MARKED)
        store_i64(m[MARKED] + 8 * m[MARKED + 1], (relation << 32) | fact)
        m[MARKED + 1] += 1


@device
def room_for_marks(m, more):
    """DONE, or FULL_LIST where so many more marked facts do not fit."""
    if m[MARKED + 1] + more <= m[MARKED + 2]:
        return DONE
    m[M_FULL] = LIST_MARKED
    m[M_STAGED] = m[MARKED + 1] + more
    return FULL_LIST


@device
def mark_buffered(m, relation, arity):
    """Mark the noted heads, which have been looked up or appended by now. There is room in the list."""
    for position in range(m[MARKED_PLACES + 1]):
        row = m[M_HEADS] + 4 * arity * load_i64(m[MARKED_PLACES] + 8 * position)
        mark_fact(m, relation, find(m, relation, row))
    m[MARKED_PLACES + 1] = 0


@entry_point
def mark_rows(m, relation, rows, count, care):
    """Mark the facts among these rows that have all flags of `care`; how many were not marked. There is room."""
    row = relation_row(m, relation)
    arity = field(row, R_ARITY)
    before = m[MARKED + 1]
    for position in range(count):
        fact = find(m, relation, rows + 4 * arity * position)
        if fact >= 0 and load_i32(flags_at(row, fact)) & care == care:
            mark_fact(m, relation, fact)
    return m[MARKED + 1] - before


@entry_point
def unmark(m):
    """Take every mark off."""
    for position in range(m[MARKED + 1]):
        entry = load_i64(m[MARKED] + 8 * position)
        place = flags_at(relation_row(m, entry >> 32), entry & 0xFFFFFFFF)
        store_i32(place, load_i32(place) & ~F_MARKED)
    m[MARKED + 1] = 0
    m[MARKED_PLACES + 1] = 0


@entry_point
def seed_rows(m, relation, rows, count, protect):
    """Let the derived facts among these rows wait for deletion; `protect` as for any overdeletion. There is room."""
    row = relation_row(m, relation)
    arity = field(row, R_ARITY)
    for position in range(count):
        fact = find(m, relation, rows + 4 * arity * position)
        if fact < 0:
            continue
        place = flags_at(row, fact)
        if load_i32(place) & (F_IN | F_OLD | F_EXPLICIT | F_DELETED) != F_IN | F_OLD:
            continue
        if protect and load_i32(record_of(row, fact) + field(row, R_COUNTERS)) > 0:
            continue
        touch(m, relation, row, fact)
        store_i32(place, load_i32(place) | F_DELETED | F_EXPECTED)
        enqueue(row, fact)
