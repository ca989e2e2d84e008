"""Queues and batches: the facts of each relation that wait for the next round, and those of this round.

The facts of a batch are N of DR2 and DR5: they carry F.CURRENT while their consequences are looked for.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import INSERT, LOSE, OVERDELETE, insert_head
from tidelog.engine.rules.policy import NO_COUNTER
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, is_full
from tidelog.machine.fact_kernels import enqueue, field, flags_at, record_of, relation_row, set_field, touch
from tidelog.machine.jit import device, entry_point, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL

# Batches from this size on are sorted before they run.
SORT_FROM = 4096

# Facts that are inserted after one of this rank get the same rank; see `ranks`.
TOP_RANK = (1 << 31) - 1


@inlined
def keeps_batches(action):
    """Whether facts that have spread are kept in the list D."""
    return action in (OVERDELETE, LOSE)


@device
def swap_queue_and_batch(row):
    queue, capacity = field(row, R.QUEUE), field(row, R.QUEUE_CAPACITY)
    set_field(row, R.QUEUE, field(row, R.BATCH))
    set_field(row, R.QUEUE_CAPACITY, field(row, R.BATCH_CAPACITY))
    set_field(row, R.BATCH, queue)
    set_field(row, R.BATCH_CAPACITY, capacity)


@device
def begin_batch(m, action, row):
    """The queue of a relation becomes its batch; its facts enter the set that the round is about."""
    count = field(row, R.QUEUE_COUNT)
    swap_queue_and_batch(row)
    batch = field(row, R.BATCH)
    set_field(row, R.QUEUE_COUNT, 0)
    set_field(row, R.BATCH_COUNT, count)
    rank = m[M.RANK] if action == INSERT and m[M.RANKING] != 0 else 0
    recursive = field(row, R.COUNTERS) + 4 - field(row, R.FLAGS)
    for position in range(count):
        place = flags_at(row, load_i32(batch + 4 * position))
        flags = load_i32(place)
        if action == INSERT:
            store_i32(place, (flags | F.IN | F.CURRENT) & ~F.PENDING)
            if rank != 0:
                store_i32(place + recursive, min(rank + position, TOP_RANK))
        else:
            store_i32(place, flags | F.CURRENT)
    if rank != 0:
        m[M.RANK] = rank + count


@device
def sort_batch(m, relation):
    """Sort a large batch by its first column, so that its heads share cache lines. FULL where the queue, whose array is
    free now, is too small.
    """
    row = relation_row(m, relation)
    count = field(row, R.BATCH_COUNT)
    if count < SORT_FROM or field(row, R.ARITY) == 0:
        return DONE
    if field(row, R.QUEUE_CAPACITY) < count:
        m[M.FULL] = relation
        m[M.STAGED] = count
        return FULL
    batch = field(row, R.BATCH)
    largest = 0
    for position in range(count):
        largest = max(largest, load_i32(record_of(row, load_i32(batch + 4 * position))))
    shift = 0
    while largest >> shift >= M.SORT_BUCKETS:
        shift += 1
    buckets = m[M.BUCKETS]
    for bucket in range(M.SORT_BUCKETS + 1):
        store_i64(buckets + 8 * bucket, 0)
    for position in range(count):
        place = buckets + 8 * ((load_i32(record_of(row, load_i32(batch + 4 * position))) >> shift) + 1)
        store_i64(place, load_i64(place) + 1)
    for bucket in range(M.SORT_BUCKETS):
        place = buckets + 8 * bucket
        store_i64(place + 8, load_i64(place + 8) + load_i64(place))
    spare = field(row, R.QUEUE)
    for position in range(count):
        fact = load_i32(batch + 4 * position)
        place = buckets + 8 * (load_i32(record_of(row, fact)) >> shift)
        store_i32(spare + 4 * load_i64(place), fact)
        store_i64(place, load_i64(place) + 1)
    swap_queue_and_batch(row)
    return DONE


@device
def end_batch(m, action, relation, row):
    """The facts of the batch have spread; overdeleted ones are kept in the list D."""
    batch = field(row, R.BATCH)
    count = field(row, R.BATCH_COUNT)
    for position in range(count):
        fact = load_i32(batch + 4 * position)
        place = flags_at(row, fact)
        flags = load_i32(place) & ~F.CURRENT
        if keeps_batches(action):
            flags |= F.PROCESSED
            L.push(m, L.D, L.entry_of(relation, fact))
        store_i32(place, flags)
    if keeps_batches(action):
        m[M.WORK + W.OVERDELETED] += count
    set_field(row, R.BATCH_COUNT, 0)


@device
def waiting(m, relations, relation_count):
    """How many facts wait in the queues of a component."""
    total = 0
    for position in range(relation_count):
        total += field(relation_row(m, load_i32(relations + 4 * position)), R.QUEUE_COUNT)
    return total


@entry_point
def seed(m, action, relation, facts, count, protect):
    """Let facts wait as if a rule had derived them; for counting, as if a counter had moved. Where `protect` is
    set, counters protect them from overdeletion. There is room.
    """
    row = relation_row(m, relation)
    for position in range(count):
        fact = load_i32(facts + 4 * position)
        if action == INSERT:
            insert_head(m, relation, row, fact, NO_COUNTER)
            continue
        place = flags_at(row, fact)
        waits = F.DELETED if action == OVERDELETE else F.PENDING
        if load_i32(place) & waits or (protect and load_i32(counters_of(row, fact)) > 0):
            continue
        touch(m, relation, row, fact)
        store_i32(place, load_i32(place) | waits)
        enqueue(row, fact)


@entry_point
def queues_to_list(m, relations, relation_count, which):
    """Move what waits in a component's queues to a work list. There is room."""
    for position in range(relation_count):
        relation = load_i32(relations + 4 * position)
        row = relation_row(m, relation)
        queue = field(row, R.QUEUE)
        for place in range(field(row, R.QUEUE_COUNT)):
            L.push(m, which, L.entry_of(relation, load_i32(queue + 4 * place)))
        set_field(row, R.QUEUE_COUNT, 0)


@entry_point
def settle_counts(m, relation):
    """A fact is in I exactly if it is explicit or has a derivation; decide for every fact whose counters moved.

    No rule is recursive here: a recursive counter that is full stems from rules that are gone.
    """
    row = relation_row(m, relation)
    queue = field(row, R.QUEUE)
    for position in range(field(row, R.QUEUE_COUNT)):
        record = record_of(row, load_i32(queue + 4 * position))
        place = record + field(row, R.FLAGS)
        flags = load_i32(place) & ~F.PENDING
        counters = record + field(row, R.COUNTERS)
        if is_full(load_i32(counters + 4)):
            store_i32(counters + 4, 0)
        derived = load_i32(counters) > 0 or load_i32(counters + 4) > 0
        store_i32(place, flags | F.IN if derived or flags & F.EXPLICIT else flags & ~F.IN)
    set_field(row, R.QUEUE_COUNT, 0)
