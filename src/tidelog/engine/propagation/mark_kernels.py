"""The kernels of marking: whether a rule instance uses a marked fact, marking its head, and what later updates get.

A mark is for one of the updates to come, and a fact may have several: one of its derivations goes with the next update,
another one with the update after that. An instance goes with the first of its facts that go, and passes that mark on.

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
from tidelog.machine.fact_kernels import enqueue, field, find, flags_at, flags_of, relation_row, set_field, touch
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


@inlined
def passed_marks(flags, care):
    """The marks that a fact with these flags passes on, if it has all flags of `care`; otherwise 0."""
    return flags & F.AHEAD if flags & care == care else 0


@inlined
def first_mark(marks):
    """Of several marks, the one for the first of their updates; 0 of none."""
    return marks & -marks


@device
def mark_of_match(m, frame, care, first):
    """The mark that a match passes on, from facts with all flags of `care` in the steps from `first` on; 0: none."""
    plan = load_i64(frame)
    code = m[M.CODE]
    marks = 0
    for step in range(first, plan_word(m, plan, P.STEPS)):
        at = code + 4 * plan_word(m, plan, P.FIRST + step)
        if load_i32(at + 4 * P.S_KIND) <= P.STEP_SCAN:
            row = relation_row(m, load_i32(at + 4 * P.S_RELATION))
            marks |= passed_marks(load_i32(flags_at(row, matched_fact(m, frame, step))), care)
    return first_mark(marks)


@device
def note_marked(m, first, end, mark):
    """The heads at these places of the buffer are to get a mark."""
    noted = L.count(m, L.MARKED_PLACES)
    if noted > 0 and L.entry(m, L.MARKED_PLACES, noted - 1) == L.entry_of(mark, first):
        L.put(m, L.MARKED_PLACES, noted - 1, L.entry_of(mark, end))
    elif first < end:
        L.push(m, L.MARKED_PLACES, first)
        L.push(m, L.MARKED_PLACES, L.entry_of(mark, end))


@device
def mark_fact(m, relation, fact, marks):
    """Give a fact marks, unless it has them. There is room in the list."""
    row = relation_row(m, relation)
    place = flags_at(row, fact)
    flags = load_i32(place)
    if flags & marks != marks:
        store_i32(place, flags | F.MARKED | marks)
        L.push(m, L.MARKED, L.entry_of(relation, fact))
        if not flags & F.MARKED and (flags | F.MARKED) & m[M.PASSING] == m[M.PASSING]:
            set_field(row, R.MARKS, field(row, R.MARKS) + 1)


@inlined
def noted_places(m, position):
    """From where to where heads were noted, in the order of the buffer, and their mark; nowhere after the last."""
    if position >= L.count(m, L.MARKED_PLACES):
        return -1, -1, 0
    end = L.entry(m, L.MARKED_PLACES, position + 1)
    return L.entry(m, L.MARKED_PLACES, position), end & 0xFFFFFFFF, end >> 32


# --- updates to come --------------------------------------------------------------------------------------------------


@entry_point
def mark_explicit(m: Registers, relation: int, rows: int, count: int, kept: int, kept_count: int, mark: int) -> int:
    """Give a mark to the explicit facts among `rows` that are not among `kept`."""
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
            mark_fact(m, relation, fact, mark)
    marked += L.count(m, L.MARKED)
    for position in range(kept_count):
        # Its entry stays in the list, but no longer means anything.
        fact = find(m, relation, kept + width * position)
        if fact >= 0:
            place = flags_at(row, fact)
            flags = load_i32(place)
            if flags & (mark | F.EXPLICIT) == mark | F.EXPLICIT:
                flags &= ~mark
                store_i32(place, flags if flags & F.AHEAD else flags & ~F.MARKED)
                marked -= 1
    m[M.WORK + W.MARKED_EXPLICIT] += marked
    return DONE


@inlined
def is_there(m, entry):
    """Whether a fact that was listed is in I. Its relation may have got other records since, or be a closure now."""
    row = relation_row(m, L.relation_of(entry))
    fact = L.fact_of(entry)
    return fact < field(row, R.COUNT) and load_i32(flags_at(row, fact)) & F.IN != 0


@entry_point
def put_marks(m: Registers) -> int:
    """Let facts have the marks again that earlier updates left for those after the next one."""
    count = L.count(m, L.LATER)
    status = L.room(m, L.MARKED, count // 2)
    if status != DONE:
        return status
    for position in range(0, count, 2):
        entry = L.entry(m, L.LATER, position)
        if is_there(m, entry):
            mark_fact(m, L.relation_of(entry), L.fact_of(entry), L.entry(m, L.LATER, position + 1))
    return DONE


# --- the end of an update ---------------------------------------------------------------------------------------------


@device
def count_marks(flags):
    """How many marks a derived fact with these flags has. An explicit one is counted where it is marked."""
    marks = 0 if flags & F.EXPLICIT else flags & F.AHEAD
    count = 0
    while marks != 0:
        marks &= marks - 1
        count += 1
    return count


@device
def count_left_before(m):
    """How many marks of derived facts are those that earlier updates left."""
    count = 0
    for position in range(0, L.count(m, L.LATER), 2):
        entry = L.entry(m, L.LATER, position)
        if is_there(m, entry):
            flags = flags_of(m, L.relation_of(entry), L.fact_of(entry))
            count += count_marks(flags & (F.EXPLICIT | L.entry(m, L.LATER, position + 1)))
    return count


@device
def take_marks(m, leave):
    """Take every mark off; how many there were on derived facts. With `leave`, what they tell the updates to come is
    listed, for which there is room: the derived facts that the next one has to expect, and the marks for later ones.

    The last ones come first: the heads of rules that copy explicit facts, and then what follows from them. In the order
    of marking, the search for proofs would go through long derivations before the short ones are known to be gone.
    """
    count, expected, later = 0, 0, 0
    last, row, flags_from, width = -1, 0, 0, 0
    for position in range(L.count(m, L.MARKED) - 1, -1, -1):
        entry = L.entry(m, L.MARKED, position)
        if L.relation_of(entry) != last:
            last = L.relation_of(entry)
            row = relation_row(m, last)
            flags_from, width = flags_at(row, 0), field(row, R.WIDTH)
            set_field(row, R.MARKS, 0)
        if L.fact_of(entry) >= field(row, R.COUNT):
            continue  # The relation has got other records since.
        place = flags_from + width * L.fact_of(entry)
        flags = load_i32(place)
        store_i32(place, flags & ~(F.MARKED | F.AHEAD))
        if leave and flags & F.IN:
            count += count_marks(flags)
            if flags & (F.EXPLICIT | F.NEXT) == F.NEXT:
                L.put(m, L.EXPECTED, expected, entry)
                expected += 1
            if flags >> 1 & F.AHEAD:
                L.put(m, L.LATER, later, entry)
                L.put(m, L.LATER, later + 1, flags >> 1 & F.AHEAD)
                later += 2
    L.cut(m, L.EXPECTED, expected)
    L.cut(m, L.LATER, later)
    L.cut(m, L.MARKED, 0)
    L.cut(m, L.MARKED_PLACES, 0)
    return count


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
