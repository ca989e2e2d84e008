"""Plans in short form: a pivot and at most two atoms, each joined by one column. They do the bulk of all work.

They need no frame: the whole state of the join is the position of a pivot and one fact of each chain.
"""

from tidelog.engine.propagation import bit_rows
from tidelog.engine.propagation import derived_heads as H
from tidelog.engine.propagation.mark_kernels import first_mark, note_marked, passed_marks, passes_marks
from tidelog.joins.chains import drain_pairs
from tidelog.joins.executor import masks_of, must_pause, plan_word
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.counters import known_count
from tidelog.machine.fact_kernels import clear_counters, field, index_row, is_known, link_fact, relation_row, set_field
from tidelog.machine.hash_tables import SEED, mix, probe_number
from tidelog.machine.jit import device, inlined, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, PAUSED

# No bit matrix; see `derived_heads.known_pairs`.
NO_PAIRS = (0, 0, 0)

COVER = 3  # a shape in which heads are built, beside those of `bit_rows`

# --- cells of the head, and chains of facts ---------------------------------------------------------------------------


@inlined
def cell_value(cell, pivot, middle):
    """The value of a cell that does not come from the last atom."""
    value = load_i32(cell + 4)
    origin = load_i32(cell)
    if origin == P.FROM_PIVOT:
        return load_i32(pivot + 4 * value)
    if origin == P.FROM_MIDDLE:
        return load_i32(middle + 4 * value)
    return value


@inlined
def last_column(cell):
    """The column of the last atom that a cell comes from, or -1."""
    return load_i32(cell + 4) if load_i32(cell) == P.FROM_LAST else -1


@device
def short_head(cells, width, pivot, middle, last, target):
    """Write a head from the records of the pivot and of the other atoms."""
    for column in range(width):
        cell = cells + 8 * column
        from_last = last_column(cell)
        value = load_i32(last + 4 * from_last) if from_last >= 0 else cell_value(cell, pivot, middle)
        store_i32(target + 4 * column, value)


@device
def atom_of(m, words):
    """What walking a chain of an atom takes: address and width of the records, offsets of flags and link, the set that
    the atom is matched in, and its index.
    """
    row = relation_row(m, load_i32(words + 4 * P.A_RELATION))
    index = index_row(m, load_i32(words + 4 * P.A_INDEX))
    care, want = masks_of(m, load_i32(words + 4 * P.A_ROLE))
    return field(row, R.CELLS), field(row, R.WIDTH), field(row, R.FLAGS), field(index, X.LINK), care, want, index


@inlined
def has_key(fact, sought):
    cells, width, column, key = sought
    return load_i32(cells + fact * width + column) == key


@device
def first_with_key(index, cells, width, key):
    """The newest fact with this value in the one column of an index, or -1."""
    sought = (cells, width, 4 * load_i32(field(index, X.COLUMNS)), key)
    _, fact = probe_number(field(index, X.SLOTS), field(index, X.SLOT_COUNT), mix(SEED, key), has_key, sought)
    return fact


# --- heads that cover their pivots ------------------------------------------------------------------------------------
#
# `p(X, Y) :- q(X, Y), r(Y, Z).` over a whole relation, and copies above all. A head that has all the variables of a
# scanned fact, and no others, belongs to that fact alone. If its relation was empty, nothing has to be looked up: each
# fact of `q` with a match is a new fact of `p`, and the number of its matches is the number of its derivations. Facts
# are written one after the other. The hash table is built when a fact is first looked up (`Relation.expect_different`),
# which for most relations is not before the next update.


@device
def covers_pivots(action, short, pivots, count, target_row):
    """Whether all facts of an empty relation come from one scan, and there is room for as many as are scanned."""
    return (
        action == H.COUNT_UP
        and pivots == 0
        and load_i32(short + 4 * P.SHORT_COVERS) == 1
        and field(target_row, R.POSTPONED) == 1
        and field(target_row, R.PAIRS) == 0
        and field(target_row, R.COUNT) == 0
        and field(target_row, R.CAPACITY) >= count
    )


@device
def matches_of(atom, key):
    """How many facts with a key are in the set that an atom is matched in, and how many were looked at."""
    cells, width, flags, link, care, want, index = atom
    matches = 0
    seen = 0
    fact = first_with_key(index, cells, width, key)
    while fact >= 0:
        record = cells + fact * width
        if load_i32(record + flags) & care == want:
            matches += 1
        seen += 1
        fact = load_i32(record + link)
    return matches, seen


@device
def cover(m, short, position, count, pivots, target_row, counter):
    """Write a fact for each scanned one from `position` on that has matches, while there is budget. Gives where it
    stopped, and how many matches there were.
    """
    pivot_cells, pivot_width, pivot_flags, care, want = pivots
    atoms = load_i32(short + 4 * P.SHORT_ATOMS)
    atom = atom_of(m, short + 4 * P.SHORT_LAST)
    key = short + 4 * (P.SHORT_LAST + P.A_KEY)
    head = short + 4 * P.SHORT_HEAD
    arity = field(target_row, R.ARITY)
    width = field(target_row, R.WIDTH)
    flags = field(target_row, R.FLAGS)
    counters = field(target_row, R.COUNTERS)
    index_count = field(target_row, R.INDEX_COUNT)
    indexes = field(target_row, R.INDEXES)
    fact = field(target_row, R.COUNT)
    record = field(target_row, R.CELLS) + fact * width
    budget = m[M.BUDGET]
    work = 0
    while position < count and not must_pause(m, budget):
        pivot = pivot_cells + position * pivot_width
        position += 1
        budget -= 1
        if load_i32(pivot + pivot_flags) & care != want:
            continue
        matches, seen = 1, 0
        if atoms == 1:
            matches, seen = matches_of(atom, cell_value(key, pivot, pivot))
        budget -= seen
        if matches == 0:
            continue
        work += matches
        short_head(head, arity, pivot, pivot, pivot, record)
        store_i32(record + flags, F.IN)
        clear_counters(record, counters)
        store_i32(record + counters + 4 * counter, known_count(matches))
        for place in range(index_count):
            link_fact(m, load_i64(indexes + 8 * place), record, fact)
        fact += 1
        record += width
    set_field(target_row, R.COUNT, fact)
    m[M.BUDGET] = budget
    return position, work


# --- running a plan ---------------------------------------------------------------------------------------------------


@inlined
def given_pivots(m, short, pivots, count, pivot_row):
    """The relation of the pivots, how many there are, and the set that they are matched in. Where no pivots are given,
    all facts of the first atom are."""
    if pivots != 0:
        return pivot_row, count, 0, 0
    row = relation_row(m, load_i32(short + 4 * P.SHORT_SCANNED))
    care, want = masks_of(m, load_i32(short + 4 * P.SHORT_SCANNED_ROLE))
    return row, field(row, R.COUNT), care, want


@inlined
def copy_pivot(m, head_cells, arity, pivot, heads, buffered, known_heads, marking, mark):
    """Buffer the head of a rule with one atom. It gets the mark of its pivot at once, for what follows in this update
    to get it from there. How many heads are buffered then."""
    head = heads + 4 * arity * buffered
    short_head(head_cells, arity, pivot, pivot, pivot, head)
    if mark != 0:
        note_marked(m, buffered, buffered + 1, mark)
    # While marks are passed on, every head is looked at, known or not.
    if marking != 0 or arity != 2 or not is_known(known_heads, load_i32(head), load_i32(head + 4)):
        buffered += 1
    return buffered


@inlined
def drain_chain(shape, known_heads, chain, care, want, key, first, second, from_first, heads, room, buffered):
    """Buffer the heads that a chain gives where they are pairs: by whole rows where that pays (`bit_rows`), otherwise
    one by one. `first` and `second` are each a column of the last atom, or -1 and then the value."""
    first_column, first_value = first
    second_column, second_value = second
    fact = chain[0]
    by_rows = shape == bit_rows.GATHER and from_first
    in_matrix = by_rows and first_value < known_heads[1]
    if in_matrix and bit_rows.gathered(known_heads, key, chain, care, want, second_column):
        matches, buffered = bit_rows.add_gathered(known_heads, first_value, key, heads, room, buffered)
        return (-1 if matches > 0 else fact), known_heads[2] >> 9, matches, buffered, from_first
    fact, seen, matches, buffered = drain_pairs(
        chain, care, want, first_column, first_value, second_column, second_value, heads, room, buffered, known_heads
    )
    if by_rows and fact < 0:
        bit_rows.note_walked(known_heads, key, matches)
    return fact, seen, matches, buffered, False


@device
def run_short_plan(m, action, plan, short, pivots, count, counter, pivot_row, marking):
    """`run_plan` for a plan in short form, with its whole state in registers.

    A missing atom counts as one with a single match. Facts with all flags of `marking`, unless that is 0, mark the
    heads that they derive.
    """
    pivot_row, count, pivot_care, pivot_want = given_pivots(m, short, pivots, count, pivot_row)
    target = plan_word(m, plan, P.HEAD_RELATION)
    target_row = relation_row(m, target)
    arity = field(target_row, R.ARITY)
    known = field(target_row, R.COUNT)
    room = H.room_for_heads(m, arity)
    heads = m[M.HEADS]
    head_cells = short + 4 * P.SHORT_HEAD
    pivot_cells = field(pivot_row, R.CELLS)
    pivot_width = field(pivot_row, R.WIDTH)
    pivot_flags = field(pivot_row, R.FLAGS)
    # The head's relation may be that of a body atom: arrays only move after this has returned.
    atoms = load_i32(short + 4 * P.SHORT_ATOMS)
    last_words = short + 4 * P.SHORT_LAST
    middle_words = short + 4 * P.SHORT_MIDDLE
    cells, width, flags, link, care, want, index = atom_of(m, last_words)
    middle_atom = atom_of(m, middle_words)
    middle_cells, middle_width, middle_flags, middle_link, middle_care, middle_want, middle_index = middle_atom
    m[M.AT_TARGET] = target
    buffered = m[M.AT_BUFFERED]
    position = m[M.AT_PIVOT]
    # In work: the fact of the middle atom + 2, and the next one of the last atom + 2; 0 before they are looked for.
    joining = m[M.AT_JOINING]
    inner = m[M.AT_INNER]
    known_heads = H.known_pairs(action, counter, target_row)
    shape = m[M.AT_SHAPE]
    member = m[M.AT_MEMBER]
    if position + joining + inner == 0:
        shape = bit_rows.PAIR_BY_PAIR
        if arity == 2 and marking == 0:
            shape = bit_rows.shape_of(short, pivots, count, known_heads)
        if shape == bit_rows.GATHER:
            bit_rows.forget_gathered(known_heads)
        if covers_pivots(action, short, pivots, count, target_row):
            shape = COVER
        m[M.AT_SHAPE] = shape
    # Where no fact of the last atom passes a mark on, the heads of a whole chain are marked or none is.
    last_marks = marking != 0 and atoms > 0 and passes_marks(m, load_i32(last_words + 4 * P.A_RELATION))
    first_from_last = last_column(head_cells)
    budget = m[M.BUDGET]
    work = 0
    status = DONE
    if shape == COVER:
        scanned = (pivot_cells, pivot_width, pivot_flags, pivot_care, pivot_want)
        position, work = cover(m, short, position, count, scanned, target_row, counter)
        budget = m[M.BUDGET]
        status = DONE if position == count else PAUSED
    while status == DONE and position < count:
        fact = load_i32(pivots + 4 * position) if pivots != 0 else position
        pivot = pivot_cells + fact * pivot_width
        pivot_marks = passed_marks(load_i32(pivot + pivot_flags), marking) if marking != 0 else 0
        end, low, high = position + 1, 0, -1
        if shape == bit_rows.SPREAD:
            key_column = load_i32((middle_words if atoms == 2 else last_words) + 4 * P.A_KEY + 4)
            records = pivot_cells, pivot_width
            end, low, high = bit_rows.group_pivots(
                known_heads, pivots, position, count, records, key_column, load_i32(head_cells + 12)
            )
        if joining != 0:
            outer = joining - 2
        elif load_i32(pivot + pivot_flags) & pivot_care != pivot_want:
            outer = -1
        elif atoms == 2:
            key = cell_value(middle_words + 4 * P.A_KEY, pivot, pivot)
            outer = first_with_key(middle_index, middle_cells, middle_width, key)
        else:
            outer = 0
        while outer >= 0:
            middle = middle_cells + outer * middle_width if atoms == 2 else pivot
            marks = pivot_marks
            if marking != 0 and atoms == 2:
                marks |= passed_marks(load_i32(middle + middle_flags), marking)
            mark = first_mark(marks)
            budget -= 1
            key = cell_value(last_words + 4 * P.A_KEY, pivot, middle)
            from_first = inner == 0
            if inner != 0:
                fact = inner - 2
            elif atoms == 2 and load_i32(middle + middle_flags) & middle_care != middle_want:
                fact = -1
            elif atoms > 0:
                fact = first_with_key(index, cells, width, key)
            else:
                fact = 0
            while fact >= 0:
                if buffered == room:
                    m[M.AT_BUFFERED] = buffered
                    status = H.absorb(m, action, target, buffered, counter)
                    if status != DONE:
                        break
                    buffered = 0
                place = buffered
                chain = (fact, cells, width, flags, link)
                if atoms == 0:
                    buffered = copy_pivot(m, head_cells, arity, pivot, heads, buffered, known_heads, marking, mark)
                    fact, seen, matches = -1, 0, 1
                elif shape == bit_rows.SPREAD:
                    same = cell_value(head_cells, pivot, middle)
                    group = (end - position, low, high)
                    fact, member, seen, matches, buffered = bit_rows.spread(
                        known_heads, chain, care, want, first_from_last, same, group, member, heads, room, buffered
                    )
                    seen *= 1 + ((high - low) >> 3)
                elif arity == 2 and not last_marks:
                    known_here = known_heads if mark == 0 else NO_PAIRS
                    first = first_from_last, cell_value(head_cells, pivot, middle)
                    second = last_column(head_cells + 8), cell_value(head_cells + 8, pivot, middle)
                    fact, seen, matches, buffered, from_first = drain_chain(
                        shape, known_here, chain, care, want, key, first, second, from_first, heads, room, buffered
                    )
                    if mark != 0:
                        note_marked(m, place, buffered, mark)
                else:
                    last = cells + fact * width
                    last_flags = load_i32(last + flags)
                    seen, matches = 1, 0
                    if last_flags & care == want:
                        own = passed_marks(last_flags, marking) if last_marks else 0
                        if marks | own != 0:
                            note_marked(m, buffered, buffered + 1, first_mark(marks | own))
                        short_head(head_cells, arity, pivot, middle, last, heads + 4 * arity * buffered)
                        buffered += 1
                        matches = 1
                    fact = load_i32(last + link)
                if action == H.LOSE:
                    H.note_pivot(m, room, place, buffered, pivot_row, load_i32(pivots + 4 * position))
                work += matches
                budget -= seen
            inner = fact + 2
            if status == DONE and must_pause(m, budget):
                status = PAUSED
            if status != DONE:
                break
            inner = 0
            outer = load_i32(middle + middle_link) if atoms == 2 else -1
        joining = outer + 2
        if status != DONE:
            break
        joining = 0
        budget -= end - position
        position = end
    m[M.BUDGET] = budget
    m[M.AT_BUFFERED] = buffered
    m[M.AT_PIVOT] = position
    m[M.AT_JOINING] = joining
    m[M.AT_INNER] = inner
    m[M.AT_MEMBER] = member
    return H.end_plan(m, action, plan, counter, known, work, status)
