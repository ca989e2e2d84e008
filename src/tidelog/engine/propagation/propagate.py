"""Propagation: how changes spread through rules, forwards, each rule instance once.

The same kernels serve insertion (semi-naive evaluation; Modular, Algorithm 1, and DR5), overdeletion (DR2 with its
"inverse semi-naive" cure) and counting. First *jobs* are run, plans over given pivots: the facts of lower components
that changed, or a whole rule. Then *rounds*: the facts of the component's own relations that arrived in the last round
wait in *queues*, which become the *batches* of pivots of the next. What differs is the action on each derived head
(`derived_heads`), and the sets in which body atoms are matched, which the caller puts into the machine.

All state is in the machine: a kernel returns when something must grow, when a Python function must be called or when
its budget is spent, and goes on at the next call.
"""

from tidelog.engine.propagation import derived_heads as H
from tidelog.engine.propagation.mark_kernels import first_marked_step, mark_of_match, note_marked
from tidelog.engine.propagation.short_plans import run_short_plan
from tidelog.engine.rules.policy import NO_COUNTER
from tidelog.joins.chains import drain_last
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.joins.look_ahead import request_ahead
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, is_full
from tidelog.machine.fact_kernels import field, flags_at, is_known, record_of, relation_row, set_field
from tidelog.machine.jit import Registers, clock, device, entry_point, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL, FULL_LIST, MATCH, NEED_CALLS, PAUSED

# A job: its plan, the address of its pivots or 0, how many there are, whether they get F.SEEN, the counter that it
# moves, and the relation of the pivots.
JOB_FIELDS = 6

# Batches from this size on are sorted before they run.
SORT_FROM = 4096

# The phases of a round after its beginning: its facts enter batches, which are sorted, spread and left.
ENTERING, SORTING, SPREADING, LEAVING = range(1, 5)

# The passes of sorting.
MEASURING, COUNTING, PLACING = range(3)

# Facts that are inserted after one of this rank get the same rank; see `ranks`.
TOP_RANK = (1 << 31) - 1

# --- plans and jobs ---------------------------------------------------------------------------------------------------


@inlined
def note_seen(row, fact):
    """A changed fact of a negated atom has been a pivot."""
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | F.SEEN)


@device
def forget_seen(row, facts, count):
    for position in range(count):
        place = flags_at(row, load_i32(facts + 4 * position))
        store_i32(place, load_i32(place) & ~F.SEEN)


@device
def run_plan(m, action, plan, pivots, count, seen, counter, pivot_row):
    """Run a plan over its pivots (once, from nothing, where `pivots` is 0), buffering and absorbing its heads."""
    short = plan_word(m, plan, P.SHORT)
    marked_step = first_marked_step(m, plan) if action == H.INSERT and m[M.MARKING] != 0 else -1
    marking = m[M.MARKING] if marked_step >= 0 else 0
    if short != 0 and not seen:
        return run_short_plan(m, action, plan, m[M.CODE] + 4 * short, pivots, count, counter, pivot_row, marking)
    target = plan_word(m, plan, P.HEAD_RELATION)
    target_row = relation_row(m, target)
    arity = field(target_row, R.ARITY)
    known = field(target_row, R.COUNT)
    room = H.room_for_heads(m, arity)
    frame = m[M.FRAMES]
    work = 0
    status = DONE
    m[M.AT_TARGET] = target
    buffered = m[M.AT_BUFFERED]
    position = m[M.AT_PIVOT]
    joining = m[M.AT_JOINING]
    known_heads = H.known_pairs(action, counter, target_row)
    while position < count:
        if joining == 0:
            start(frame, plan, load_i32(pivots + 4 * position) if pivots != 0 else -1)
            joining = 1
        if buffered >= room:
            m[M.AT_BUFFERED] = buffered
            status = H.absorb(m, action, target, buffered, counter)
            if status != DONE:
                break
            buffered = 0
        status = next_match(m, frame)
        if status == MATCH:
            first = buffered
            head = m[M.HEADS] + 4 * arity * buffered
            write_head(m, frame, head)
            mark = mark_of_match(m, frame, marking, marked_step) if marking != 0 else 0
            if mark != 0:
                note_marked(m, buffered, buffered + 1, mark)
            work += 1
            if marking != 0 or arity != 2 or not is_known(known_heads, load_i32(head), load_i32(head + 4)):
                buffered += 1
            if marking == 0:
                matches, buffered = drain_last(m, frame, m[M.HEADS], room, buffered, known_heads)
                work += matches
            if action == H.LOSE:
                H.note_pivot(m, room, first, buffered, pivot_row, load_i32(pivots + 4 * position))
        elif status == DONE:
            joining = 0
            if seen:
                note_seen(pivot_row, load_i32(pivots + 4 * position))
            position += 1
        else:
            if status == NEED_CALLS:
                request_ahead(m, frame, plan, pivots, position, count)
            break
    m[M.AT_BUFFERED] = buffered
    m[M.AT_PIVOT] = position
    m[M.AT_JOINING] = joining
    return H.end_plan(m, action, plan, counter, known, work, status)


@device
def run_timed(m, action, plan, pivots, count, seen, counter, pivot_row):
    """Run a plan, and add the time to that of its rule."""
    began = clock()
    status = run_plan(m, action, plan, pivots, count, seen, counter, pivot_row)
    spent = m[M.RULE_TIME] + 8 * plan_word(m, plan, P.RULE)
    store_i64(spent, load_i64(spent) + clock() - began)
    return status


@entry_point
def run_jobs(m: Registers, action: int, jobs: int, job_count: int) -> int:
    """Run plans over given pivots: a row of JOB_FIELDS numbers each."""
    while m[M.AT_JOB] < job_count:
        job = jobs + 8 * JOB_FIELDS * m[M.AT_JOB]
        plan = load_i64(job)
        pivots = load_i64(job + 8)
        count = load_i64(job + 16)
        seen = load_i64(job + 24)
        pivot_row = relation_row(m, load_i64(job + 40))
        status = run_timed(m, action, plan, pivots, count, seen, load_i64(job + 32), pivot_row)
        if status != DONE:
            return status
        if seen:
            forget_seen(pivot_row, pivots, count)
        m[M.AT_PIVOT] = 0
        m[M.AT_JOB] += 1
    m[M.AT_JOB] = 0
    return DONE


# --- batches: N of DR2 and DR5, whose facts carry F.CURRENT while their consequences are looked for -------------------


@inlined
def keeps_batches(action):
    """Whether facts that have spread are kept in the list D."""
    return action in (H.OVERDELETE, H.LOSE)


@device
def swap_queue_and_batch(row):
    queue, capacity = field(row, R.QUEUE), field(row, R.QUEUE_CAPACITY)
    set_field(row, R.QUEUE, field(row, R.BATCH))
    set_field(row, R.QUEUE_CAPACITY, field(row, R.BATCH_CAPACITY))
    set_field(row, R.BATCH, queue)
    set_field(row, R.BATCH_CAPACITY, capacity)


@inlined
def end_of_stride(m, position, count):
    """Up to where facts of a batch are gone through before the next look whether to pause."""
    return min(position + m[M.STRIDE], count)


@inlined
def pauses_after_stride(m):
    """Whether to pause before more facts of a batch: another thread waits, or a budget is as small as that. What is
    done for each fact is no candidate, and does not count as one.
    """
    return m[M.ASKED] != 0 or m[M.BUDGET] < m[M.STRIDE]


@device
def begin_batch(row):
    """The queue of a relation becomes its batch."""
    count = field(row, R.QUEUE_COUNT)
    swap_queue_and_batch(row)
    set_field(row, R.QUEUE_COUNT, 0)
    set_field(row, R.BATCH_COUNT, count)


@device
def enter_batch(m, action, row):
    """The facts of a batch enter the set that the round is about: DONE, or PAUSED."""
    batch, count = field(row, R.BATCH), field(row, R.BATCH_COUNT)
    rank = m[M.RANK] if action == H.INSERT and m[M.RANKING] != 0 else 0
    level = m[M.LEVEL] if action == H.INSERT else 0
    recursive = field(row, R.COUNTERS) + 4 - field(row, R.FLAGS)
    while m[M.AT_PIVOT] < count:
        last = end_of_stride(m, m[M.AT_PIVOT], count)
        for position in range(m[M.AT_PIVOT], last):
            place = flags_at(row, load_i32(batch + 4 * position))
            flags = load_i32(place)
            if action == H.INSERT:
                store_i32(place, (flags | F.IN | F.CURRENT) & ~F.PENDING)
                if rank != 0:
                    store_i32(place + recursive, min(rank + position, TOP_RANK))
                elif level != 0:
                    store_i32(place + recursive, level - 1)
            else:
                store_i32(place, flags | F.CURRENT)
        m[M.AT_PIVOT] = last
        if last < count and pauses_after_stride(m):
            return PAUSED
    m[M.AT_PIVOT] = 0
    if rank != 0:
        m[M.RANK] = rank + count
    if action == H.INSERT:
        m[M.DERIVED] += count
    return DONE


@inlined
def bucket_of(row, fact, shift):
    return load_i32(record_of(row, fact)) >> shift


@device
def begin_sorting(m):
    """The largest first term is known: choose the width of the buckets, and empty them."""
    while m[M.AT_LARGEST] >> m[M.AT_SHIFT] >= M.SORT_BUCKETS:
        m[M.AT_SHIFT] += 1
    for bucket in range(M.SORT_BUCKETS + 1):
        store_i64(m[M.BUCKETS] + 8 * bucket, 0)


@device
def place_buckets(m):
    """The facts of each bucket have been counted: find where each begins."""
    for bucket in range(M.SORT_BUCKETS):
        place = m[M.BUCKETS] + 8 * bucket
        store_i64(place + 8, load_i64(place + 8) + load_i64(place))


@device
def sort_facts(m, row, first, last):
    """One pass of sorting, over some facts of the batch."""
    batch, spare, buckets, shift = field(row, R.BATCH), field(row, R.QUEUE), m[M.BUCKETS], m[M.AT_SHIFT]
    if m[M.AT_PASS] == MEASURING:
        largest = m[M.AT_LARGEST]
        for position in range(first, last):
            largest = max(largest, bucket_of(row, load_i32(batch + 4 * position), 0))
        m[M.AT_LARGEST] = largest
    elif m[M.AT_PASS] == COUNTING:
        for position in range(first, last):
            place = buckets + 8 * (bucket_of(row, load_i32(batch + 4 * position), shift) + 1)
            store_i64(place, load_i64(place) + 1)
    else:
        for position in range(first, last):
            fact = load_i32(batch + 4 * position)
            place = buckets + 8 * bucket_of(row, fact, shift)
            store_i32(spare + 4 * load_i64(place), fact)
            store_i64(place, load_i64(place) + 1)


@device
def sort_batch(m, relation):
    """Sort a large batch by its first column, so that its heads share cache lines: DONE, or PAUSED. FULL where the
    queue, whose array is free now, is too small.
    """
    row = relation_row(m, relation)
    count = field(row, R.BATCH_COUNT)
    if count < SORT_FROM or field(row, R.ARITY) == 0:
        return DONE
    if field(row, R.QUEUE_CAPACITY) < count:
        m[M.FULL] = relation
        m[M.STAGED] = count
        return FULL
    while m[M.AT_PASS] <= PLACING:
        last = end_of_stride(m, m[M.AT_PIVOT], count)
        sort_facts(m, row, m[M.AT_PIVOT], last)
        m[M.AT_PIVOT] = last
        if last == count:
            if m[M.AT_PASS] == MEASURING:
                begin_sorting(m)
            elif m[M.AT_PASS] == COUNTING:
                place_buckets(m)
            m[M.AT_PIVOT] = 0
            m[M.AT_PASS] += 1
        elif pauses_after_stride(m):
            return PAUSED
    m[M.AT_PASS] = m[M.AT_LARGEST] = m[M.AT_SHIFT] = 0
    swap_queue_and_batch(row)
    return DONE


@device
def leave_batch(m, action, relation, row):
    """The facts of the batch have spread; overdeleted ones are kept in the list D. DONE, or PAUSED."""
    batch, count = field(row, R.BATCH), field(row, R.BATCH_COUNT)
    while m[M.AT_PIVOT] < count:
        last = end_of_stride(m, m[M.AT_PIVOT], count)
        for position in range(m[M.AT_PIVOT], last):
            fact = load_i32(batch + 4 * position)
            place = flags_at(row, fact)
            flags = load_i32(place) & ~F.CURRENT
            if keeps_batches(action):
                flags |= F.PROCESSED
                L.push(m, L.D, L.entry_of(relation, fact))
            store_i32(place, flags)
        m[M.AT_PIVOT] = last
        if last < count and pauses_after_stride(m):
            return PAUSED
    m[M.AT_PIVOT] = 0
    if keeps_batches(action):
        m[M.WORK + W.OVERDELETED] += count
    set_field(row, R.BATCH_COUNT, 0)
    return DONE


@device
def waiting(m, relations, relation_count):
    """How many facts wait in the queues of a component."""
    total = 0
    for position in range(relation_count):
        total += field(relation_row(m, load_i32(relations + 4 * position)), R.QUEUE_COUNT)
    return total


# --- rounds -----------------------------------------------------------------------------------------------------------


@device
def run_round(m, action, relations, relation_count, starts, ends, plans):
    """Let what waits in a component's relations spread, but not what follows from it: DONE, or a reason to pause.

    The plans with a pivot in relation number i are those from `starts[i]` to `ends[i]`, each with its counter.
    """
    if m[M.AT_PHASE] == 0:
        total = waiting(m, relations, relation_count)
        if keeps_batches(action) and L.room(m, L.D, total) != DONE:
            return FULL_LIST
        m[M.RANK] += m[M.RANKING]
        for position in range(relation_count):
            begin_batch(relation_row(m, load_i32(relations + 4 * position)))
        m[M.AT_PHASE] = ENTERING
        m[M.AT_RELATION] = 0
        m[M.AT_PLAN] = 0
    if m[M.AT_PHASE] == ENTERING:
        while m[M.AT_RELATION] < relation_count:
            if enter_batch(m, action, relation_row(m, load_i32(relations + 4 * m[M.AT_RELATION]))) != DONE:
                return PAUSED
            m[M.AT_RELATION] += 1
        m[M.LEVEL] += m[M.LEVEL] != 0
        m[M.AT_PHASE] = SORTING
        m[M.AT_RELATION] = 0
    if m[M.AT_PHASE] == SORTING:
        while m[M.AT_RELATION] < relation_count:
            status = sort_batch(m, load_i32(relations + 4 * m[M.AT_RELATION]))
            if status != DONE:
                return status
            m[M.AT_RELATION] += 1
        m[M.AT_PHASE] = SPREADING
        m[M.AT_RELATION] = 0
    while m[M.AT_PHASE] == SPREADING and m[M.AT_RELATION] < relation_count:
        relation = load_i32(relations + 4 * m[M.AT_RELATION])
        row = relation_row(m, relation)
        first = load_i32(starts + 4 * relation)
        while first + m[M.AT_PLAN] < load_i32(ends + 4 * relation) and field(row, R.BATCH_COUNT) > 0:
            entry = plans + 8 * (first + m[M.AT_PLAN])
            batch = field(row, R.BATCH)
            count = field(row, R.BATCH_COUNT)
            status = run_timed(m, action, load_i32(entry), batch, count, 0, load_i32(entry + 4), row)
            if status != DONE:
                return status
            m[M.AT_PIVOT] = 0
            m[M.AT_PLAN] += 1
        m[M.AT_PLAN] = 0
        m[M.AT_RELATION] += 1
    if m[M.AT_PHASE] == SPREADING:
        m[M.AT_PHASE] = LEAVING
        m[M.AT_RELATION] = 0
    while m[M.AT_RELATION] < relation_count:
        relation = load_i32(relations + 4 * m[M.AT_RELATION])
        if leave_batch(m, action, relation, relation_row(m, relation)) != DONE:
            return PAUSED
        m[M.AT_RELATION] += 1
    m[M.AT_PHASE] = 0
    return DONE


@entry_point
def run_rounds(
    m: Registers, action: int, relations: int, relation_count: int, starts: int, ends: int, plans: int
) -> int:
    """Rounds until nothing waits."""
    while m[M.AT_PHASE] != 0 or waiting(m, relations, relation_count) > 0:
        status = run_round(m, action, relations, relation_count, starts, ends, plans)
        if status != DONE:
            return status
    return DONE


# --- queues -----------------------------------------------------------------------------------------------------------


@entry_point
def seed(m: Registers, action: int, relation: int, facts: int, count: int, protect: bool) -> None:
    """Let facts wait as if a rule had derived them; for counting, as if a counter had moved. Where `protect` is
    set, counters protect them from overdeletion. There is room.
    """
    row = relation_row(m, relation)
    waited = field(row, R.QUEUE_COUNT)
    for position in range(count):
        fact = load_i32(facts + 4 * position)
        if action == H.INSERT:
            H.insert_head(m, relation, row, fact, NO_COUNTER)
            continue
        waits = F.DELETED if action == H.OVERDELETE else F.PENDING
        if not (load_i32(flags_at(row, fact)) & waits or (protect and load_i32(counters_of(row, fact)) > 0)):
            H.let_wait(m, relation, row, fact, waits)
    if action == H.INSERT:
        m[M.DERIVED] -= field(row, R.QUEUE_COUNT) - waited  # No rule derived these.


@entry_point
def queues_to_list(m: Registers, relations: int, relation_count: int, which: int) -> None:
    """Move what waits in a component's queues to a work list. There is room."""
    for position in range(relation_count):
        relation = load_i32(relations + 4 * position)
        row = relation_row(m, relation)
        queue = field(row, R.QUEUE)
        for place in range(field(row, R.QUEUE_COUNT)):
            L.push(m, which, L.entry_of(relation, load_i32(queue + 4 * place)))
        set_field(row, R.QUEUE_COUNT, 0)


@entry_point
def settle_counts(m: Registers, relation: int) -> None:
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
