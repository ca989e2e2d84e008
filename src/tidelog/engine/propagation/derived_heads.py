"""Derived heads: how a buffer of them is absorbed, and what an algorithm does with each.

Heads are collected in a buffer and absorbed in batches, so that the cache misses of many probes overlap. The action is
the difference between insertion (DR5 and semi-naive evaluation), overdeletion (DR2, and DRed^c where counters protect a
fact) and counting.
"""

from tidelog.engine.propagation.mark_kernels import mark_fact, noted_places
from tidelog.engine.propagation.offers import take_offers
from tidelog.engine.rules.policy import AT_LEVEL, NON_RECURSIVE, RECURSIVE
from tidelog.joins.executor import plan_word
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, move_counter
from tidelog.machine.fact_kernels import (
    append,
    clear_counters,
    enqueue,
    field,
    find_slot,
    flags_at,
    index_row,
    link_fact,
    prefetch_rows,
    relation_row,
    row_key,
    set_field,
    touch,
)
from tidelog.machine.hash_tables import probe_key
from tidelog.machine.jit import device, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL, FULL_LIST, FULL_LOG, NEED_TABLE

# Actions on a derived head.
INSERT = 0  # a fact that is not in I yet waits for insertion
OVERDELETE = 1  # a fact of I goes to D, and waits to spread; counters may protect it
COUNT_UP = 2  # one more derivation
COUNT_DOWN = 3  # one derivation less
RECOUNT = 4  # one more derivation of a fact that was there before; nothing follows from it
LOSE = 5  # a fact of I that lost a derivation from lower ranks waits to look for another; see `ranks`
OFFER = 6  # a value of a group waits to be settled if it is better than what the group has; see `offers`

# In candidates of materialisation: an instance that is found in deletion by ranks.
STEP_COST = 7


@device
def has_room(m, row, rows):
    """Whether a relation, its indexes and its queue can take that many more facts."""
    count = field(row, R.COUNT) + rows
    if count > field(row, R.CAPACITY) or count > field(row, R.LIMIT):
        return False
    if field(row, R.QUEUE_COUNT) + rows > field(row, R.QUEUE_CAPACITY):
        return False
    indexes = field(row, R.INDEXES)
    for position in range(field(row, R.INDEX_COUNT)):
        index = index_row(m, load_i64(indexes + 8 * position))
        if (field(index, X.USED) + rows) * 4 > 3 * field(index, X.SLOT_COUNT):
            return False
    return True


@device
def let_wait(m, relation, row, fact, flags):
    """Let a fact wait for the next round, with these flags."""
    touch(m, relation, row, fact)
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | flags)
    enqueue(row, fact)


@device
def insert_head(m, relation, row, fact, counter):
    """Let a fact that is not in I wait for insertion."""
    if counter == AT_LEVEL:
        if load_i32(flags_at(row, fact)) & F.IN:
            return  # The level of the instance is above that of the fact.
        counter = NON_RECURSIVE
    if counter >= 0:
        touch(m, relation, row, fact)
        move_counter(row, fact, counter, 1)
    if not load_i32(flags_at(row, fact)) & (F.IN | F.PENDING):
        let_wait(m, relation, row, fact, F.PENDING)


@device
def count_down(m, row, fact, counter):
    """One derivation less. Whether that puts the fact in doubt: its non-recursive counter is full."""
    if not move_counter(row, fact, counter, -1) or counter != NON_RECURSIVE:
        return False
    m[M.DOUBTS] += 1
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | F.DOUBTED)
    return True


@device
def overdelete_head(m, relation, row, fact, counter):
    """Overdelete a fact, unless a non-recursive derivation or E protects it (DRed^c). Where that is in doubt, it waits
    with those that are overdeleted.
    """
    touch(m, relation, row, fact)
    counted = 0 <= counter <= RECURSIVE
    doubted = counted and count_down(m, row, fact, counter)
    flags = load_i32(flags_at(row, fact))
    if not counted and flags & m[M.KNOWN]:
        m[M.SAVED] += 1
    if flags & F.DELETED or not flags & F.OLD:
        return
    if counter >= 0 and not doubted and (flags & F.EXPLICIT or load_i32(counters_of(row, fact)) > 0):
        return
    let_wait(m, relation, row, fact, F.DELETED)


@device
def lose_head(m, relation, row, fact, rank):
    """Let a fact that lost a derivation, with a fact of this rank in it, wait to look for another. Not if that rank is
    no lower than its own, nor if E or a non-recursive derivation keeps it anyway.
    """
    flags = load_i32(flags_at(row, fact))
    if flags & m[M.KNOWN]:
        m[M.SAVED] += 1
    counters = counters_of(row, fact)
    if flags & (F.IN | F.EXPLICIT | F.DELETED | F.CHECKED) != F.IN or load_i32(counters) > 0:
        return
    if rank < load_i32(counters + 4):
        let_wait(m, relation, row, fact, F.CHECKED)


@device
def count_head(m, relation, row, fact, counter, step):
    """Move the counter of a fact, which waits to be settled."""
    touch(m, relation, row, fact)
    if step < 0:
        count_down(m, row, fact, counter)
    else:
        move_counter(row, fact, counter, 1)
    if not load_i32(flags_at(row, fact)) & F.PENDING:
        let_wait(m, relation, row, fact, F.PENDING)


@inlined
def room_for_heads(m, arity):
    """How many heads fit the buffer: each with its cells, its slot in the hash table, and the rank of its pivot."""
    return m[M.HEADS_CAPACITY] // (arity + 3) - 1


@inlined
def ranks_of_heads(m, room):
    """Where the ranks of the buffered heads' pivots are: at the end of the buffer."""
    return m[M.HEADS] + 4 * (m[M.HEADS_CAPACITY] - room)


@device
def note_pivot(m, room, first, end, row, pivot):
    """The heads from one place in the buffer to another come from this pivot."""
    rank = load_i32(counters_of(row, pivot) + 4)
    ranks = ranks_of_heads(m, room)
    for place in range(first, end):
        store_i32(ranks + 4 * place, rank)


@device
def count_work(m, kind, plan, instances):
    """Count rule applications, by kind and for the rule of a plan."""
    m[M.WORK + kind] += instances
    place = m[M.RULE_WORK] + 8 * plan_word(m, plan, P.RULE)
    store_i64(place, load_i64(place) + instances)


@device
def known_pairs(action, counter, row):
    """The bit matrix by which a plan may leave out heads that are known, its rows and columns; all 0 where it may not,
    or where there is none.

    Inserting a fact a second time does nothing, unless derivations are counted.
    """
    if action != INSERT or counter >= 0 or field(row, R.PAIRS) == 0:
        return 0, 0, 0
    return field(row, R.PAIRS), field(row, R.PAIR_ROWS), field(row, R.PAIR_COLUMNS)


@device
def in_matrix(row, rows, count):
    """Whether all of these pairs have a place in the relation's bit matrix."""
    largest_first = 0
    largest_second = 0
    for position in range(count):
        largest_first = max(largest_first, load_i32(rows + 8 * position))
        largest_second = max(largest_second, load_i32(rows + 8 * position + 4))
    return largest_first < field(row, R.PAIR_ROWS) and largest_second < field(row, R.PAIR_COLUMNS)


@device
def insert_new_pairs(m, row, rows, count, slots):
    """The hot path of materialisation: insert heads of one or two cells where all known facts are in I or wait.

    Then only the key decides, and a new fact has nothing to log and no counter to move. Where the table is postponed
    (`slots` is 0), the bit matrix has decided.
    """
    arity = field(row, R.ARITY)
    keys = field(row, R.KEYS)
    facts = field(row, R.FACTS)
    slot_count = field(row, R.GROUPS) * 8
    width = field(row, R.WIDTH)
    fact = field(row, R.COUNT)
    record = field(row, R.CELLS) + fact * width
    flags = field(row, R.FLAGS)
    counters = field(row, R.COUNTERS)
    index_count = field(row, R.INDEX_COUNT)
    indexes = field(row, R.INDEXES)
    queue = field(row, R.QUEUE) + 4 * field(row, R.QUEUE_COUNT)
    before = fact
    for position in range(count):
        at = rows + 4 * arity * position
        if slots != 0:
            key = load_i32(at)
            if arity == 2:
                key = (key << 32) | load_i32(at + 4)
            slot, found = probe_key(keys, slot_count, load_i64(slots + 8 * position), key)
            if found == key:
                continue
            store_i64(keys + 8 * slot, key)
            store_i32(facts + 4 * slot, fact)
        for column in range(arity):
            store_i32(record + 4 * column, load_i32(at + 4 * column))
        store_i32(record + flags, F.PENDING)
        clear_counters(record, counters)
        for place in range(index_count):
            link_fact(m, load_i64(indexes + 8 * place), record, fact)
        store_i32(queue, fact)
        queue += 4
        fact += 1
        record += width
    set_field(row, R.COUNT, fact)
    set_field(row, R.QUEUE_COUNT, field(row, R.QUEUE_COUNT) + fact - before)


@device
def absorb(m, action, target, buffered, counter):
    """Act on the buffered heads: DONE, or what is missing."""
    row = relation_row(m, target)
    if not has_room(m, row, buffered):
        m[M.FULL] = target
        m[M.STAGED] = buffered
        return FULL
    # An offer touches a record, and the one that it is better than.
    logged = 2 * buffered if action == OFFER else buffered
    if m[M.LOG_COUNT] + logged > m[M.LOG_CAPACITY]:
        m[M.STAGED] = logged
        return FULL_LOG
    if L.count(m, L.MARKED_PLACES) > 0 and L.room(m, L.MARKED, buffered) != DONE:
        return FULL_LIST
    arity = field(row, R.ARITY)
    rows = m[M.HEADS]
    if action == OFFER:
        return take_offers(m, target, row, rows, buffered)
    if field(row, R.POSTPONED) == 1:
        if known_pairs(action, counter, row)[0] == 0 or not in_matrix(row, rows, buffered):
            m[M.FULL] = target
            return NEED_TABLE
        insert_new_pairs(m, row, rows, buffered, 0)
        return DONE
    slots = rows + 4 * ((buffered * arity + 1) // 2 * 2)
    prefetch_rows(m, target, rows, buffered, slots)
    keys = field(row, R.KEYS)
    fact_numbers = field(row, R.FACTS)
    # In materialisation most heads are known, and then nothing but the key has to be read.
    known_is_enough = action == INSERT and counter < 0 and field(row, R.CLEAN) == 1
    if known_is_enough and 0 < arity <= 2 and L.count(m, L.MARKED_PLACES) == 0:
        insert_new_pairs(m, row, rows, buffered, slots)
        return DONE
    ranks = ranks_of_heads(m, room_for_heads(m, arity))
    noted = 0
    marked, unmarked, mark = noted_places(m, noted)
    for position in range(buffered):
        at = rows + 4 * arity * position
        key = row_key(at, arity)
        slot = find_slot(row, at, key, load_i64(slots + 8 * position))
        if load_i64(keys + 8 * slot) != R.EMPTY:
            if known_is_enough and not marked <= position < unmarked:
                continue
            fact = load_i32(fact_numbers + 4 * slot)
        elif action in (OVERDELETE, LOSE):
            continue  # A value that was never the best of its group.
        else:
            fact = append(m, row, slot, key, at, 0)
        if action == INSERT:
            insert_head(m, target, row, fact, counter)
        elif action == OVERDELETE:
            overdelete_head(m, target, row, fact, counter)
        elif action == LOSE:
            lose_head(m, target, row, fact, load_i32(ranks + 4 * position))
        elif action == RECOUNT:
            move_counter(row, fact, counter, 1)
        else:
            count_head(m, target, row, fact, counter, 1 if action == COUNT_UP else -1)
        if marked <= position < unmarked:
            mark_fact(m, target, fact, mark)
            if position == unmarked - 1:
                noted += 2
                marked, unmarked, mark = noted_places(m, noted)
    L.cut(m, L.MARKED_PLACES, 0)
    return DONE


@device
def end_plan(m, action, plan, counter, known, work, status):
    """Account for what a plan has done since its target had `known` facts; if it is done, absorb what is buffered."""
    count_work(m, W.DELETION if action in (OVERDELETE, COUNT_DOWN, LOSE) else W.INSERTION, plan, work)
    if action == LOSE:
        # Deletion by ranks does more with the heads of instances than finding them.
        m[M.BUDGET] -= STEP_COST * work
    target = m[M.AT_TARGET]
    if status == DONE and m[M.AT_BUFFERED] > 0:
        status = absorb(m, action, target, m[M.AT_BUFFERED], counter)
        if status == DONE:
            m[M.AT_BUFFERED] = 0
    rule_facts = m[M.RULE_FACTS] + 8 * plan_word(m, plan, P.RULE)
    store_i64(rule_facts, load_i64(rule_facts) + field(relation_row(m, target), R.COUNT) - known)
    return status
