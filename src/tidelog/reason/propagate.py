"""Propagation: how changes spread through rules, forwards, each rule instance once.

One kernel serves insertion (semi-naive evaluation; Modular, Algorithm 1, and DR5), overdeletion (DR2 with its
"inverse semi-naive" cure) and counting. It first runs *jobs*, plans over given pivots: the facts of lower components
that changed, or a whole rule. Then it runs *rounds*: the facts of the component's own relations that arrived in the
last round are the pivots of the next. What differs is the action on each derived head, and the sets in which body
atoms are matched, which the caller puts into the machine.

Heads are collected into a buffer and absorbed in batches, so that the cache misses of many probes overlap. All state
is in the machine: the kernel returns when something must grow, when a Python function must be called or when its budget
is spent, and goes on at the next call.
"""

from __future__ import annotations

from tidelog.reason.mark_kernels import MARKED_PLACES, mark_buffered, note_marked, room_for_marks, uses_marked
from tidelog.reason.policy import NO_COUNTER, RECURSIVE
from tidelog.store.executor import (
    drain_last,
    head_relation,
    next_match,
    plan_word,
    start,
    write_head,
)
from tidelog.store.jit import device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.store.kernels import (
    SEED,
    append,
    enqueue,
    field,
    find_slot,
    flags_at,
    index_row,
    link_fact,
    mix,
    prefetch_rows,
    record_of,
    relation_row,
    row_key,
    touch,
)
from tidelog.store.layout import (
    DONE,
    EMPTY,
    F_CURRENT,
    F_DELETED,
    F_EXPLICIT,
    F_IN,
    F_OLD,
    F_PENDING,
    F_PROCESSED,
    F_SEEN,
    FROM_OTHER,
    FROM_PIVOT,
    FULL,
    FULL_LIST,
    FULL_LOG,
    M_BUCKETS,
    M_BUDGET,
    M_CODE,
    M_FRAMES,
    M_FULL,
    M_HEADS,
    M_HEADS_CAPACITY,
    M_KNOWN,
    M_LISTS,
    M_LOG_CAPACITY,
    M_LOG_COUNT,
    M_MARKING,
    M_MASKS,
    M_RULE_FACTS,
    M_RULE_WORK,
    M_SAVED,
    M_STAGED,
    M_STATE,
    M_WORK,
    MATCH,
    P_RULE,
    P_SHORT,
    PAUSED,
    R_ARITY,
    R_BATCH,
    R_BATCH_CAPACITY,
    R_BATCH_COUNT,
    R_CAPACITY,
    R_CELLS,
    R_CLEAN,
    R_COUNT,
    R_COUNTERS,
    R_FACTS,
    R_FLAGS,
    R_GROUPS,
    R_INDEX,
    R_INDEX_COUNT,
    R_KEYS,
    R_LIMIT,
    R_QUEUE,
    R_QUEUE_CAPACITY,
    R_QUEUE_COUNT,
    R_WIDTH,
    SHORT_HEAD,
    SHORT_INDEX,
    SHORT_KEY,
    SHORT_ROLE,
    SORT_BUCKETS,
    W_DELETION,
    W_INSERTION,
    W_OVERDELETED,
    X_COLUMNS,
    X_LINK,
    X_SLOT_COUNT,
    X_SLOTS,
    X_USED,
)

# Actions on a derived head.
INSERT = 0  # a fact that is not in I yet waits for insertion
OVERDELETE = 1  # a fact of I goes to D, and waits to spread; counters may protect it
COUNT_UP = 2  # one derivation more
COUNT_DOWN = 3  # one derivation less
RECOUNT = 4  # one derivation more of a fact that was there before; nothing follows from it

# Batches from this size on are sorted before they run.
SORT_FROM = 4096

# A job: plan, address of the pivots or 0, their number, whether pivots get F_SEEN, the counter it moves, their
# relation.
JOB_FIELDS = 6

# Where the kernel goes on; registers from M_STATE.
AT_PHASE = 0  # of a round: 0 begins, 1 sorts its batches, 2 runs its plans
AT_JOB = 1
AT_PIVOT = 2
AT_JOINING = 3
AT_BUFFERED = 4
AT_RELATION = 5
AT_PLAN = 6
AT_TARGET = 7
AT_COUNTER = 8
STATE_SIZE = 12


@device
def has_room(m, relation, rows):
    """Whether a relation, its indexes, its queue and the log can take that many more facts."""
    row = relation_row(m, relation)
    count = field(row, R_COUNT) + rows
    if count > field(row, R_CAPACITY) or count > field(row, R_LIMIT):
        return False
    if field(row, R_QUEUE_COUNT) + rows > field(row, R_QUEUE_CAPACITY):
        return False
    for position in range(field(row, R_INDEX_COUNT)):
        index = index_row(m, field(row, R_INDEX + position))
        if (field(index, X_USED) + rows) * 4 > 3 * field(index, X_SLOT_COUNT):
            return False
    return True


@device
def move_counter(row, fact, counter, step):
    place = record_of(row, fact) + field(row, R_COUNTERS) + 4 * counter
    value = load_i32(place) + step
    store_i32(place, value)
    return value


@device
def insert_head(m, relation, row, fact, counter):
    place = flags_at(row, fact)
    flags = load_i32(place)
    if counter >= 0:
        touch(m, relation, row, fact)
        flags = load_i32(place)
        move_counter(row, fact, counter, 1)
    if not flags & (F_IN | F_PENDING):
        touch(m, relation, row, fact)
        store_i32(place, load_i32(place) | F_PENDING)
        enqueue(row, fact)


@device
def overdelete_head(m, relation, row, fact, counter):
    """Overdelete, unless a non-recursive derivation or E protects the fact (DRed^c)."""
    touch(m, relation, row, fact)
    place = flags_at(row, fact)
    flags = load_i32(place)
    if 0 <= counter <= RECURSIVE:
        move_counter(row, fact, counter, -1)
    elif flags & m[M_KNOWN]:
        m[M_SAVED] += 1
    if flags & F_DELETED or not flags & F_OLD:
        return
    if counter >= 0 and (flags & F_EXPLICIT or load_i32(record_of(row, fact) + field(row, R_COUNTERS)) > 0):
        return
    store_i32(place, flags | F_DELETED)
    enqueue(row, fact)


@device
def count_head(m, relation, row, fact, counter, step):
    touch(m, relation, row, fact)
    place = flags_at(row, fact)
    move_counter(row, fact, counter, step)
    flags = load_i32(place)
    if not flags & F_PENDING:
        store_i32(place, flags | F_PENDING)
        enqueue(row, fact)


@device
def insert_new_pairs(m, row, rows, count, slots):
    """The hot path of materialisation: insert keys of one or two cells where all that is known is in I or waits.

    Then only the key decides, and a new fact has nothing to remember and no counter to move.
    """
    arity = field(row, R_ARITY)
    keys = field(row, R_KEYS)
    facts = field(row, R_FACTS)
    slot_count = field(row, R_GROUPS) * 8
    width = field(row, R_WIDTH)
    fact = field(row, R_COUNT)
    record = field(row, R_CELLS) + fact * width
    flags = field(row, R_FLAGS)
    counters = field(row, R_COUNTERS)
    index_count = field(row, R_INDEX_COUNT)
    queue = field(row, R_QUEUE) + 4 * field(row, R_QUEUE_COUNT)
    before = fact
    for position in range(count):
        at = rows + 4 * arity * position
        key = load_i32(at)
        if arity == 2:
            key = (key << 32) | load_i32(at + 4)
        slot = load_i64(slots + 8 * position)
        found = load_i64(keys + 8 * slot)
        while found != EMPTY and found != key:
            slot += 1
            if slot == slot_count:
                slot = 0
            found = load_i64(keys + 8 * slot)
        if found == key:
            continue
        store_i64(keys + 8 * slot, key)
        store_i32(facts + 4 * slot, fact)
        for column in range(arity):
            store_i32(record + 4 * column, load_i32(at + 4 * column))
        store_i32(record + flags, F_PENDING)
        if counters != 0:
            store_i32(record + counters, 0)
            store_i32(record + counters + 4, 0)
        for place in range(index_count):
            link_fact(m, field(row, R_INDEX + place), record, fact)
        store_i32(queue, fact)
        queue += 4
        fact += 1
        record += width
    store_i64(row + 8 * R_COUNT, fact)
    store_i64(row + 8 * R_QUEUE_COUNT, field(row, R_QUEUE_COUNT) + fact - before)


@device
def absorb(m, action, target, buffered, counter):
    """Act on the buffered heads; False where room must be made first."""
    row = relation_row(m, target)
    if not has_room(m, target, buffered):
        m[M_FULL] = target
        m[M_STAGED] = buffered
        return FULL
    if m[M_LOG_COUNT] + buffered > m[M_LOG_CAPACITY]:
        m[M_STAGED] = buffered
        return FULL_LOG
    if room_for_marks(m, m[MARKED_PLACES + 1]) != DONE:
        return FULL_LIST
    arity = field(row, R_ARITY)
    rows = m[M_HEADS]
    slots = rows + 4 * ((buffered * arity + 1) // 2 * 2)
    prefetch_rows(m, target, rows, buffered, slots)
    keys = field(row, R_KEYS)
    fact_numbers = field(row, R_FACTS)
    if action == INSERT and counter < 0 and field(row, R_CLEAN) == 1 and 0 < arity <= 2 and m[MARKED_PLACES + 1] == 0:
        insert_new_pairs(m, row, rows, buffered, slots)
        return DONE
    # The hot path of materialisation: most heads are known, and then nothing but the key has to be read.
    known_is_enough = action == INSERT and counter < 0 and field(row, R_CLEAN) == 1
    for position in range(buffered):
        at = rows + 4 * arity * position
        key = row_key(at, arity)
        slot = find_slot(row, at, key, load_i64(slots + 8 * position))
        if load_i64(keys + 8 * slot) != EMPTY:
            if known_is_enough:
                continue
            fact = load_i32(fact_numbers + 4 * slot)
        else:
            fact = append(m, row, slot, key, at, 0)
        if action == INSERT:
            insert_head(m, target, row, fact, counter)
        elif action == OVERDELETE:
            overdelete_head(m, target, row, fact, counter)
        elif action == COUNT_UP:
            count_head(m, target, row, fact, counter, 1)
        elif action == RECOUNT:
            move_counter(row, fact, counter, 1)
        else:
            count_head(m, target, row, fact, counter, -1)
    if m[MARKED_PLACES + 1] > 0:
        mark_buffered(m, target, arity)
    return DONE


@device
def begin_batch(m, action, row):
    """The queue of a relation becomes its batch; its facts enter the set that rounds are about."""
    count = field(row, R_QUEUE_COUNT)
    queue = field(row, R_QUEUE)
    capacity = field(row, R_QUEUE_CAPACITY)
    store_i64(row + 8 * R_QUEUE, field(row, R_BATCH))
    store_i64(row + 8 * R_QUEUE_CAPACITY, field(row, R_BATCH_CAPACITY))
    store_i64(row + 8 * R_BATCH, queue)
    store_i64(row + 8 * R_BATCH_CAPACITY, capacity)
    store_i64(row + 8 * R_QUEUE_COUNT, 0)
    store_i64(row + 8 * R_BATCH_COUNT, count)
    for position in range(count):
        place = flags_at(row, load_i32(queue + 4 * position))
        flags = load_i32(place)
        if action == INSERT:
            store_i32(place, (flags | F_IN | F_CURRENT) & ~F_PENDING)
        else:
            store_i32(place, flags | F_CURRENT)
    return count


@device
def sort_batch(m, relation):
    """Put a large batch in the order of its first column: its heads then share cache lines. FULL where the spare
    array is small.
    """
    row = relation_row(m, relation)
    count = field(row, R_BATCH_COUNT)
    if count < SORT_FROM or field(row, R_ARITY) == 0:
        return DONE
    if field(row, R_QUEUE_CAPACITY) < count:
        m[M_FULL] = relation
        m[M_STAGED] = count
        return FULL
    batch = field(row, R_BATCH)
    largest = 0
    for position in range(count):
        largest = max(largest, load_i32(record_of(row, load_i32(batch + 4 * position))))
    shift = 0
    while largest >> shift >= SORT_BUCKETS:
        shift += 1
    buckets = m[M_BUCKETS]
    for bucket in range(SORT_BUCKETS + 1):
        store_i64(buckets + 8 * bucket, 0)
    for position in range(count):
        place = buckets + 8 * ((load_i32(record_of(row, load_i32(batch + 4 * position))) >> shift) + 1)
        store_i64(place, load_i64(place) + 1)
    for bucket in range(SORT_BUCKETS):
        place = buckets + 8 * bucket
        store_i64(place + 8, load_i64(place + 8) + load_i64(place))
    spare = field(row, R_QUEUE)
    for position in range(count):
        fact = load_i32(batch + 4 * position)
        place = buckets + 8 * (load_i32(record_of(row, fact)) >> shift)
        store_i32(spare + 4 * load_i64(place), fact)
        store_i64(place, load_i64(place) + 1)
    capacity = field(row, R_QUEUE_CAPACITY)
    store_i64(row + 8 * R_QUEUE, batch)
    store_i64(row + 8 * R_QUEUE_CAPACITY, field(row, R_BATCH_CAPACITY))
    store_i64(row + 8 * R_BATCH, spare)
    store_i64(row + 8 * R_BATCH_CAPACITY, capacity)
    return DONE


@device
def end_batch(m, action, relation, row):
    """The facts of the batch have spread; overdeleted ones are kept in the list D."""
    batch = field(row, R_BATCH)
    deleted = m[M_LISTS] + 8 * m[M_LISTS + 1]
    count = field(row, R_BATCH_COUNT)
    for position in range(count):
        fact = load_i32(batch + 4 * position)
        place = flags_at(row, fact)
        flags = load_i32(place) & ~F_CURRENT
        if action == OVERDELETE:
            flags |= F_PROCESSED
            store_i64(deleted + 8 * position, (relation << 32) | fact)
        store_i32(place, flags)
    if action == OVERDELETE:
        m[M_LISTS + 1] += count
        m[M_WORK + W_OVERDELETED] += count
    store_i64(row + 8 * R_BATCH_COUNT, 0)


@device
def waiting(m, relations, relation_count):
    """How many facts wait in the queues of a component."""
    total = 0
    for position in range(relation_count):
        total += field(relation_row(m, load_i32(relations + 4 * position)), R_QUEUE_COUNT)
    return total


@device
def flush(m, action):
    """Absorb what is buffered, if anything."""
    buffered = m[M_STATE + AT_BUFFERED]
    if buffered == 0:
        return DONE
    status = absorb(m, action, m[M_STATE + AT_TARGET], buffered, m[M_STATE + AT_COUNTER])
    if status == DONE:
        m[M_STATE + AT_BUFFERED] = 0
    return status


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
def run_short_plan(m, action, plan, short, pivots, count, counter, pivot_row):
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
                short_head(short, arity, record, record, heads + 4 * arity * buffered)
                buffered += 1
                work += 1
                fact = -1
            else:
                other = cells + fact * width
                if load_i32(other + flags) & care == want:
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


@device
def run_plan(m, action, plan, pivots, count, seen, counter, pivot_row):
    """Run a plan over its pivots (`pivots` 0: once, from nothing), buffering and absorbing its heads."""
    short = plan_word(m, plan, P_SHORT)
    if short != 0 and not seen and pivots != 0 and m[M_MARKING] == 0:
        return run_short_plan(m, action, plan, m[M_CODE] + 4 * short, pivots, count, counter, pivot_row)
    target = head_relation(m, plan)
    target_row = relation_row(m, target)
    arity = field(target_row, R_ARITY)
    known = field(target_row, R_COUNT)
    # A row and its slot for each buffered head.
    room = m[M_HEADS_CAPACITY] // (arity + 3)
    frame = m[M_FRAMES]
    work = m[M_WORK + W_DELETION] if action in (OVERDELETE, COUNT_DOWN) else m[M_WORK + W_INSERTION]
    before = work
    marking = m[M_MARKING] if action == INSERT else 0
    status = DONE
    m[M_STATE + AT_TARGET] = target
    m[M_STATE + AT_COUNTER] = counter
    buffered = m[M_STATE + AT_BUFFERED]
    position = m[M_STATE + AT_PIVOT]
    joining = m[M_STATE + AT_JOINING]
    while position < count:
        if joining == 0:
            start(frame, plan, load_i32(pivots + 4 * position) if pivots != 0 else -1)
            joining = 1
        if buffered >= room:
            m[M_STATE + AT_BUFFERED] = buffered
            status = absorb(m, action, target, buffered, counter)
            if status != DONE:
                break
            buffered = 0
        status = next_match(m, frame)
        if status == MATCH:
            write_head(m, frame, m[M_HEADS] + 4 * arity * buffered)
            if marking != 0 and uses_marked(m, frame, marking):
                note_marked(m, buffered)
            buffered += 1
            work += 1
            if marking == 0:
                filled = drain_last(m, frame, m[M_HEADS], room, buffered)
                work += filled - buffered
                buffered = filled
        elif status == DONE:
            joining = 0
            if seen:
                place = flags_at(pivot_row, load_i32(pivots + 4 * position))
                store_i32(place, load_i32(place) | F_SEEN)
            position += 1
        else:
            break
    m[M_STATE + AT_BUFFERED] = buffered
    m[M_STATE + AT_PIVOT] = position
    m[M_STATE + AT_JOINING] = joining
    rule_work = m[M_RULE_WORK] + 8 * plan_word(m, plan, P_RULE)
    store_i64(rule_work, load_i64(rule_work) + work - before)
    if action in (OVERDELETE, COUNT_DOWN):
        m[M_WORK + W_DELETION] = work
    else:
        m[M_WORK + W_INSERTION] = work
    if status == DONE:
        status = flush(m, action)
    rule_facts = m[M_RULE_FACTS] + 8 * plan_word(m, plan, P_RULE)
    store_i64(rule_facts, load_i64(rule_facts) + field(target_row, R_COUNT) - known)
    return status


@entry_point
def run_jobs(m, action, jobs, job_count):
    """Run plans over given pivots: a row of JOB_FIELDS numbers each."""
    while m[M_STATE + AT_JOB] < job_count:
        job = jobs + 8 * JOB_FIELDS * m[M_STATE + AT_JOB]
        plan = load_i64(job)
        pivots = load_i64(job + 8)
        count = load_i64(job + 16)
        seen = load_i64(job + 24)
        pivot_row = relation_row(m, load_i64(job + 40))
        status = run_plan(m, action, plan, pivots, count, seen, load_i64(job + 32), pivot_row)
        if status != DONE:
            return status
        if seen:
            for position in range(count):
                place = flags_at(pivot_row, load_i32(pivots + 4 * position))
                store_i32(place, load_i32(place) & ~F_SEEN)
        m[M_STATE + AT_PIVOT] = 0
        m[M_STATE + AT_JOB] += 1
    m[M_STATE + AT_JOB] = 0
    return DONE


@entry_point
def run_rounds(m, action, relations, relation_count, starts, plans):
    """Let what waits in a component's relations spread until nothing waits.

    The plans that relation number i is a pivot of stand from `starts[i]` to `starts[i + 1]`, each with its counter.
    """
    while True:
        if m[M_STATE + AT_PHASE] == 0:
            total = waiting(m, relations, relation_count)
            if total == 0:
                return DONE
            if action == OVERDELETE and m[M_LISTS + 1] + total > m[M_LISTS + 2]:
                m[M_FULL] = 0
                m[M_STAGED] = m[M_LISTS + 1] + total
                return FULL_LIST
            for position in range(relation_count):
                begin_batch(m, action, relation_row(m, load_i32(relations + 4 * position)))
            m[M_STATE + AT_PHASE] = 1
            m[M_STATE + AT_RELATION] = 0
            m[M_STATE + AT_PLAN] = 0
        if m[M_STATE + AT_PHASE] == 1:
            while m[M_STATE + AT_RELATION] < relation_count:
                if sort_batch(m, load_i32(relations + 4 * m[M_STATE + AT_RELATION])) != DONE:
                    return FULL
                m[M_STATE + AT_RELATION] += 1
            m[M_STATE + AT_PHASE] = 2
            m[M_STATE + AT_RELATION] = 0
        while m[M_STATE + AT_RELATION] < relation_count:
            position = m[M_STATE + AT_RELATION]
            row = relation_row(m, load_i32(relations + 4 * position))
            last = load_i32(starts + 4 * (position + 1))
            while m[M_STATE + AT_PLAN] < last and field(row, R_BATCH_COUNT) > 0:
                entry = plans + 8 * m[M_STATE + AT_PLAN]
                batch = field(row, R_BATCH)
                count = field(row, R_BATCH_COUNT)
                status = run_plan(m, action, load_i32(entry), batch, count, 0, load_i32(entry + 4), row)
                if status != DONE:
                    return status
                m[M_STATE + AT_PIVOT] = 0
                m[M_STATE + AT_PLAN] += 1
            m[M_STATE + AT_PLAN] = last
            m[M_STATE + AT_RELATION] += 1
        for position in range(relation_count):
            relation = load_i32(relations + 4 * position)
            end_batch(m, action, relation, relation_row(m, relation))
        m[M_STATE + AT_PHASE] = 0


@entry_point
def seed(m, action, relation, facts, count, protect):
    """Let facts wait as if a rule had derived them; `protect` as for overdeletion with counters. There is room."""
    row = relation_row(m, relation)
    for position in range(count):
        fact = load_i32(facts + 4 * position)
        if action == OVERDELETE:
            place = flags_at(row, fact)
            counters = record_of(row, fact) + field(row, R_COUNTERS)
            if load_i32(place) & F_DELETED or (protect and load_i32(counters) > 0):
                continue
            touch(m, relation, row, fact)
            store_i32(place, load_i32(place) | F_DELETED)
            enqueue(row, fact)
        else:
            insert_head(m, relation, row, fact, NO_COUNTER)


@entry_point
def queue_facts(m, relation, facts, count):
    """Let facts that were touched already wait, each once. There is room."""
    row = relation_row(m, relation)
    for position in range(count):
        fact = load_i32(facts + 4 * position)
        place = flags_at(row, fact)
        flags = load_i32(place)
        if not flags & F_PENDING:
            store_i32(place, flags | F_PENDING)
            enqueue(row, fact)


@entry_point
def queues_to_list(m, relations, relation_count, number):
    """Move what waits in a component's queues to a work list. There is room."""
    for position in range(relation_count):
        relation = load_i32(relations + 4 * position)
        row = relation_row(m, relation)
        queue = field(row, R_QUEUE)
        target = m[M_LISTS + 3 * number] + 8 * m[M_LISTS + 3 * number + 1]
        count = field(row, R_QUEUE_COUNT)
        for place in range(count):
            store_i64(target + 8 * place, (relation << 32) | load_i32(queue + 4 * place))
        m[M_LISTS + 3 * number + 1] += count
        store_i64(row + 8 * R_QUEUE_COUNT, 0)


@entry_point
def settle_counts(m, relation):
    """A fact is in I exactly if it is explicit or has a derivation; decide for every fact whose counters moved."""
    row = relation_row(m, relation)
    queue = field(row, R_QUEUE)
    for position in range(field(row, R_QUEUE_COUNT)):
        record = record_of(row, load_i32(queue + 4 * position))
        place = record + field(row, R_FLAGS)
        flags = load_i32(place) & ~F_PENDING
        counters = record + field(row, R_COUNTERS)
        derived = load_i32(counters) > 0 or load_i32(counters + 4) > 0
        store_i32(place, flags | F_IN if derived or flags & F_EXPLICIT else flags & ~F_IN)
    store_i64(row + 8 * R_QUEUE_COUNT, 0)
