"""The kernels of marking: whether a rule instance uses a marked fact, marking its head, and what the next update gets.

Heads are buffered before they are looked up, so marked heads are first noted by their places in the buffer. A relation
knows how many of its facts pass marks on (`R.MARKS`), so a plan over relations without any costs nothing.
"""

from tidelog.joins.executor import matched_fact, plan_word
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import enqueue, field, find, flags_at, relation_row, set_field, touch
from tidelog.machine.jit import Registers, device, entry_point, inlined, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, FULL

# --- in rule instances ------------------------------------------------------------------------------------------------


@inlined
def passes_marks(m, relation):
    """Whether a relation has facts that pass marks on."""
    return field(relation_row(m, relation), R.MARKS) > 0


@device
def first_marked_step(m, plan):
    """The first step of a plan that reads a relation with facts that pass marks on, or -1."""
    code = m[M.CODE]
    for step in range(plan_word(m, plan, P.STEPS)):
        at = code + 4 * plan_word(m, plan, P.FIRST + step)
        if load_i32(at + 4 * P.S_KIND) <= P.STEP_SCAN and passes_marks(m, load_i32(at + 4 * P.S_RELATION)):
            return step
    return -1


@device
def uses_marked(m, frame, care, first):
    """Whether a match has a fact with all flags of `care` in some step from `first` on."""
    plan = load_i64(frame)
    code = m[M.CODE]
    for step in range(first, plan_word(m, plan, P.STEPS)):
        at = code + 4 * plan_word(m, plan, P.FIRST + step)
        if load_i32(at + 4 * P.S_KIND) <= P.STEP_SCAN:
            row = relation_row(m, load_i32(at + 4 * P.S_RELATION))
            if load_i32(flags_at(row, matched_fact(m, frame, step))) & care == care:
                return True
    return False


@device
def note_marked(m, first, end):
    """The heads at these places of the buffer are to be marked."""
    noted = L.count(m, L.MARKED_PLACES)
    if noted > 0 and L.entry(m, L.MARKED_PLACES, noted - 1) == first:
        L.put(m, L.MARKED_PLACES, noted - 1, end)
    elif first < end:
        L.push(m, L.MARKED_PLACES, first)
        L.push(m, L.MARKED_PLACES, end)


@device
def mark_fact(m, relation, fact):
    """Mark a fact once. There is room in the list."""
    row = relation_row(m, relation)
    place = flags_at(row, fact)
    flags = load_i32(place)
    if not flags & F.MARKED:
        store_i32(place, flags | F.MARKED)
        L.push(m, L.MARKED, L.entry_of(relation, fact))
        if (flags | F.MARKED) & m[M.PASSING] == m[M.PASSING]:
            set_field(row, R.MARKS, field(row, R.MARKS) + 1)


@inlined
def noted_places(m, position):
    """From where to where heads were noted, in the order of the buffer; nowhere after the last."""
    if position >= L.count(m, L.MARKED_PLACES):
        return -1, -1
    return L.entry(m, L.MARKED_PLACES, position), L.entry(m, L.MARKED_PLACES, position + 1)


# --- the next update --------------------------------------------------------------------------------------------------


@entry_point
def mark_explicit(m: Registers, relation: int, rows: int, count: int, kept: int, kept_count: int) -> int:
    """Mark the explicit facts among `rows` that are not among `kept`."""
    status = L.room(m, L.MARKED, count)
    if status == DONE:
        # Any head of the buffer may come to be noted; it holds less than half as many as it has cells.
        status = L.room(m, L.MARKED_PLACES, m[M.HEADS_CAPACITY])
    if status != DONE:
        return status
    row = relation_row(m, relation)
    width = 4 * field(row, R.ARITY)
    marked = -L.count(m, L.MARKED)
    for position in range(count):
        fact = find(m, relation, rows + width * position)
        if fact >= 0 and load_i32(flags_at(row, fact)) & F.EXPLICIT:
            mark_fact(m, relation, fact)
    marked += L.count(m, L.MARKED)
    for position in range(kept_count):
        # Its entry stays in the list, but no longer means anything.
        fact = find(m, relation, kept + width * position)
        if fact >= 0:
            place = flags_at(row, fact)
            flags = load_i32(place)
            if flags & (F.MARKED | F.EXPLICIT) == F.MARKED | F.EXPLICIT:
                store_i32(place, flags & ~F.MARKED)
                marked -= 1
    m[M.WORK + W.MARKED_EXPLICIT] += marked
    return DONE


# --- the end of an update ---------------------------------------------------------------------------------------------


@device
def take_marks(m, expect):
    """Take every mark off. With `expect` the derived facts of I that had one are expected; there is room for them.

    The last ones come first: the heads of rules that copy explicit facts, and then what follows from them. In the order
    of marking, the search for proofs would go through long derivations before the short ones are known to be gone.
    """
    kept = 0
    last, row, flags_from, width = -1, 0, 0, 0
    for position in range(L.count(m, L.MARKED) - 1, -1, -1):
        entry = L.entry(m, L.MARKED, position)
        if L.relation_of(entry) != last:
            last = L.relation_of(entry)
            row = relation_row(m, last)
            flags_from, width = flags_at(row, 0), field(row, R.WIDTH)
            set_field(row, R.MARKS, 0)
        place = flags_from + width * L.fact_of(entry)
        flags = load_i32(place)
        store_i32(place, flags & ~F.MARKED)
        if expect and flags & (F.IN | F.EXPLICIT | F.MARKED) == F.IN | F.MARKED:
            L.put(m, L.EXPECTED, kept, entry)
            kept += 1
    L.cut(m, L.EXPECTED, kept)
    L.cut(m, L.MARKED, 0)
    L.cut(m, L.MARKED_PLACES, 0)


@entry_point
def forget_marks(m: Registers) -> None:
    """Take every mark off, and expect nothing."""
    take_marks(m, False)


@entry_point
def seed_expected(m: Registers, relation: int, protect: bool) -> int:
    """Let the expected facts of a relation that are there and derived wait for deletion; nothing more is expected in it
    then. `protect` as for any overdeletion. FULL where the queue or the log may be too short.
    """
    row = relation_row(m, relation)
    count = L.count(m, L.EXPECTED)
    if field(row, R.QUEUE_COUNT) + count > field(row, R.QUEUE_CAPACITY) or m[M.LOG_COUNT] + count > m[M.LOG_CAPACITY]:
        return FULL
    left = 0
    for position in range(count):
        entry = L.entry(m, L.EXPECTED, position)
        if L.relation_of(entry) != relation:
            L.put(m, L.EXPECTED, left, entry)
            left += 1
            continue
        fact = L.fact_of(entry)
        if fact >= field(row, R.COUNT):
            continue
        place = flags_at(row, fact)
        if load_i32(place) & (F.IN | F.OLD | F.EXPLICIT | F.DELETED) != F.IN | F.OLD:
            continue
        if protect and load_i32(counters_of(row, fact)) > 0:
            continue
        touch(m, relation, row, fact)
        store_i32(place, load_i32(place) | F.DELETED | F.EXPECTED)
        enqueue(row, fact)
    L.cut(m, L.EXPECTED, left)
    return DONE
