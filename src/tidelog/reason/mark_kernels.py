"""The part of marking that kernels do: whether a rule instance uses a marked fact, and marking its head.

Heads are buffered before they are looked up, so marked heads are first noted by their places in the buffer. A relation
knows how many of its facts pass marks on (`R_MARKS`): a plan over relations without any costs nothing.
"""

from __future__ import annotations

from tidelog.reason.counts import counters_of
from tidelog.store.executor import matched_fact, plan_word
from tidelog.store.jit import device, entry_point, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.store.kernels import enqueue, field, find, flags_at, relation_row, touch
from tidelog.store.layout import (
    DONE,
    F_DELETED,
    F_EXPECTED,
    F_EXPLICIT,
    F_IN,
    F_MARKED,
    F_OLD,
    FULL,
    FULL_LIST,
    M_CODE,
    M_FULL,
    M_HEADS_CAPACITY,
    M_LISTS,
    M_LOG_CAPACITY,
    M_LOG_COUNT,
    M_PASSING,
    M_STAGED,
    M_WORK,
    P_FIRST,
    P_STEPS,
    R_ARITY,
    R_COUNT,
    R_MARKS,
    R_QUEUE_CAPACITY,
    R_QUEUE_COUNT,
    R_WIDTH,
    S_KIND,
    S_RELATION,
    STEP_SCAN,
    W_MARKED_EXPLICIT,
)

# Work lists: what the last update marked, places in the buffer of heads, each from where to where, and what this update
# marks; facts are relation << 32 | fact.
LIST_EXPECTED = 4
LIST_MARKED_PLACES = 6
LIST_MARKED = 7

EXPECTED = M_LISTS + 3 * LIST_EXPECTED
MARKED_PLACES = M_LISTS + 3 * LIST_MARKED_PLACES
MARKED = M_LISTS + 3 * LIST_MARKED


# --- in rule instances ------------------------------------------------------------------------------------------------


@inlined
def passes_marks(m, relation):
    """Whether a relation has facts that pass marks on."""
    return field(relation_row(m, relation), R_MARKS) > 0


@device
def first_marked_step(m, plan):
    """The first step of a plan that reads a relation with facts that pass marks on, or -1."""
    code = m[M_CODE]
    for step in range(plan_word(m, plan, P_STEPS)):
        at = code + 4 * plan_word(m, plan, P_FIRST + step)
        if load_i32(at + 4 * S_KIND) <= STEP_SCAN and passes_marks(m, load_i32(at + 4 * S_RELATION)):
            return step
    return -1


@device
def uses_marked(m, frame, care, first):
    """Whether a match has a fact with all flags of `care` in some step from `first` on."""
    plan = load_i64(frame)
    code = m[M_CODE]
    for step in range(first, plan_word(m, plan, P_STEPS)):
        at = code + 4 * plan_word(m, plan, P_FIRST + step)
        if load_i32(at + 4 * S_KIND) <= STEP_SCAN:
            row = relation_row(m, load_i32(at + 4 * S_RELATION))
            if load_i32(flags_at(row, matched_fact(m, frame, step))) & care == care:
                return True
    return False


@device
def note_marked(m, first, end):
    """The heads at these places of the buffer are to be marked."""
    noted = m[MARKED_PLACES + 1]
    last = m[MARKED_PLACES] + 8 * (noted - 1)
    if noted > 0 and load_i64(last) == first:
        store_i64(last, end)
    elif first < end:
        store_i64(last + 8, first)
        store_i64(last + 16, end)
        m[MARKED_PLACES + 1] = noted + 2


@device
def mark_fact(m, relation, fact):
    """Mark a fact once. There is room in the list."""
    row = relation_row(m, relation)
    place = flags_at(row, fact)
    flags = load_i32(place)
    if not flags & F_MARKED:
        store_i32(place, flags | F_MARKED)
        store_i64(m[MARKED] + 8 * m[MARKED + 1], (relation << 32) | fact)
        m[MARKED + 1] += 1
        if (flags | F_MARKED) & m[M_PASSING] == m[M_PASSING]:
            store_i64(row + 8 * R_MARKS, field(row, R_MARKS) + 1)


@device
def room_in(m, number, entries):
    """DONE, or FULL_LIST where a work list cannot hold so many entries."""
    if entries <= m[M_LISTS + 3 * number + 2]:
        return DONE
    m[M_FULL] = number
    m[M_STAGED] = entries
    return FULL_LIST


@device
def room_for_marks(m, more):
    """DONE, or FULL_LIST where so many more marked facts do not fit."""
    return room_in(m, LIST_MARKED, m[MARKED + 1] + more)


@inlined
def noted_places(m, position):
    """From where to where heads were noted, in the order of the buffer; nowhere after the last."""
    if position >= m[MARKED_PLACES + 1]:
        return -1, -1
    at = m[MARKED_PLACES] + 8 * position
    return load_i64(at), load_i64(at + 8)


@inlined
def mark_head(m, target, row, fact):
    """Mark a derived fact; most are found several times."""
    if not load_i32(flags_at(row, fact)) & F_MARKED:
        mark_fact(m, target, fact)


# --- the next update --------------------------------------------------------------------------------------------------


@entry_point
def mark_explicit(m, relation, rows, count, kept, kept_count):
    """Mark the explicit facts among `rows` that are not among `kept`."""
    status = room_for_marks(m, count)
    if status == DONE:
        # Any head of the buffer may come to be noted; it holds less than half as many as it has cells.
        status = room_in(m, LIST_MARKED_PLACES, m[M_HEADS_CAPACITY])
    if status != DONE:
        return status
    row = relation_row(m, relation)
    width = 4 * field(row, R_ARITY)
    marked = -m[MARKED + 1]
    for position in range(count):
        fact = find(m, relation, rows + width * position)
        if fact >= 0 and load_i32(flags_at(row, fact)) & F_EXPLICIT:
            mark_fact(m, relation, fact)
    marked += m[MARKED + 1]
    for position in range(kept_count):
        # Its entry stays in the list and says nothing any more.
        fact = find(m, relation, kept + width * position)
        if fact >= 0:
            place = flags_at(row, fact)
            flags = load_i32(place)
            if flags & (F_MARKED | F_EXPLICIT) == F_MARKED | F_EXPLICIT:
                store_i32(place, flags & ~F_MARKED)
                marked -= 1
    m[M_WORK + W_MARKED_EXPLICIT] += marked
    return DONE


# --- the end of an update ---------------------------------------------------------------------------------------------


@device
def take_marks(m, expect):
    """Take every mark off. With `expect` the derived facts of I that had one are expected; there is room for them.

    The last ones come first: those are the heads of rules that copy explicit facts, and then what follows from them.
    In the order of marking, proofs would be looked for in long derivations before the short ones are known to be gone.
    """
    kept = 0
    last, row, flags_from, width = -1, 0, 0, 0
    for position in range(m[MARKED + 1] - 1, -1, -1):
        entry = load_i64(m[MARKED] + 8 * position)
        if entry >> 32 != last:
            last = entry >> 32
            row = relation_row(m, last)
            flags_from, width = flags_at(row, 0), field(row, R_WIDTH)
            store_i64(row + 8 * R_MARKS, 0)
        place = flags_from + width * (entry & 0xFFFFFFFF)
        flags = load_i32(place)
        store_i32(place, flags & ~F_MARKED)
        if expect and flags & (F_IN | F_EXPLICIT | F_MARKED) == F_IN | F_MARKED:
            store_i64(m[EXPECTED] + 8 * kept, entry)
            kept += 1
    m[EXPECTED + 1] = kept
    m[MARKED + 1] = 0
    m[MARKED_PLACES + 1] = 0


@entry_point
def forget_marks(m):
    """Take every mark off, and expect nothing."""
    take_marks(m, False)


@entry_point
def seed_expected(m, relation, protect):
    """Of the expected facts let those of a relation wait for deletion, if they are there and derived; no more is
    expected in it then. `protect` as for any overdeletion. FULL where the queue or the log may be too short.
    """
    row = relation_row(m, relation)
    count = m[EXPECTED + 1]
    if field(row, R_QUEUE_COUNT) + count > field(row, R_QUEUE_CAPACITY) or m[M_LOG_COUNT] + count > m[M_LOG_CAPACITY]:
        return FULL
    left = 0
    for position in range(count):
        entry = load_i64(m[EXPECTED] + 8 * position)
        if entry >> 32 != relation:
            store_i64(m[EXPECTED] + 8 * left, entry)
            left += 1
            continue
        fact = entry & 0xFFFFFFFF
        if fact >= field(row, R_COUNT):
            continue
        place = flags_at(row, fact)
        if load_i32(place) & (F_IN | F_OLD | F_EXPLICIT | F_DELETED) != F_IN | F_OLD:
            continue
        if protect and load_i32(counters_of(row, fact)) > 0:
            continue
        touch(m, relation, row, fact)
        store_i32(place, load_i32(place) | F_DELETED | F_EXPECTED)
        enqueue(row, fact)
    m[EXPECTED + 1] = left
    return DONE
