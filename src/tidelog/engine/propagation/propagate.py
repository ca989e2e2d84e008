"""Propagation: how changes spread through rules, forwards, each rule instance once.

The same kernels serve insertion (semi-naive evaluation; Modular, Algorithm 1, and DR5), overdeletion (DR2 with its
"inverse semi-naive" cure) and counting. First *jobs* are run, plans over given pivots: the facts of lower components
that changed, or a whole rule. Then *rounds*: the facts of the component's own relations that arrived in the last round
are the pivots of the next. What differs is the action on each derived head (`derived_heads`), and the sets in which
body atoms are matched, which the caller puts into the machine.

All state is in the machine: a kernel returns when something must grow, when a Python function must be called or when
its budget is spent, and goes on at the next call.
"""

from __future__ import annotations

from tidelog.engine.propagation.batches import begin_batch, end_batch, keeps_batches, sort_batch, waiting
from tidelog.engine.propagation.derived_heads import (
    INSERT,
    LOSE,
    absorb,
    end_plan,
    known_pairs,
    note_pivot,
    room_for_heads,
)
from tidelog.engine.propagation.mark_kernels import first_marked_step, note_marked, uses_marked
from tidelog.engine.propagation.short_plans import run_short_plan
from tidelog.joins.chains import drain_last
from tidelog.joins.executor import head_relation, next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import field, flags_at, is_known, relation_row
from tidelog.machine.jit import clock, device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL, FULL_LIST, MATCH

# A job: its plan, the address of its pivots or 0, how many there are, whether they get F.SEEN, the counter that it
# moves, and the relation of the pivots.
JOB_FIELDS = 6


@device
def run_plan(m, action, plan, pivots, count, seen, counter, pivot_row):
    """Run a plan over its pivots (once, from nothing, where `pivots` is 0), buffering and absorbing its heads."""
    short = plan_word(m, plan, P.SHORT)
    marked_step = first_marked_step(m, plan) if action == INSERT and m[M.MARKING] != 0 else -1
    marking = m[M.MARKING] if marked_step >= 0 else 0
    if short != 0 and not seen:
        return run_short_plan(m, action, plan, m[M.CODE] + 4 * short, pivots, count, counter, pivot_row, marking)
    target = head_relation(m, plan)
    target_row = relation_row(m, target)
    arity = field(target_row, R.ARITY)
    known = field(target_row, R.COUNT)
    room = room_for_heads(m, arity)
    frame = m[M.FRAMES]
    work = 0
    status = DONE
    m[M.AT_TARGET] = target
    m[M.AT_COUNTER] = counter
    buffered = m[M.AT_BUFFERED]
    position = m[M.AT_PIVOT]
    joining = m[M.AT_JOINING]
    known_heads = known_pairs(action, counter, target_row)
    while position < count:
        if joining == 0:
            start(frame, plan, load_i32(pivots + 4 * position) if pivots != 0 else -1)
            joining = 1
        if buffered >= room:
            m[M.AT_BUFFERED] = buffered
            status = absorb(m, action, target, buffered, counter)
            if status != DONE:
                break
            buffered = 0
        status = next_match(m, frame)
        if status == MATCH:
            first = buffered
            head = m[M.HEADS] + 4 * arity * buffered
            write_head(m, frame, head)
            if marking != 0 and uses_marked(m, frame, marking, marked_step):
                note_marked(m, buffered, buffered + 1)
            work += 1
            if marking != 0 or arity != 2 or not is_known(known_heads, load_i32(head), load_i32(head + 4)):
                buffered += 1
            if marking == 0:
                matches, buffered = drain_last(m, frame, m[M.HEADS], room, buffered, known_heads)
                work += matches
            if action == LOSE:
                note_pivot(m, room, first, buffered, pivot_row, load_i32(pivots + 4 * position))
        elif status == DONE:
            joining = 0
            if seen:
                place = flags_at(pivot_row, load_i32(pivots + 4 * position))
                store_i32(place, load_i32(place) | F.SEEN)
            position += 1
        else:
            break
    m[M.AT_BUFFERED] = buffered
    m[M.AT_PIVOT] = position
    m[M.AT_JOINING] = joining
    return end_plan(m, action, plan, target_row, known, work, status)


@device
def run_timed(m, action, plan, pivots, count, seen, counter, pivot_row):
    """Run a plan, and add the time to that of its rule."""
    began = clock()
    status = run_plan(m, action, plan, pivots, count, seen, counter, pivot_row)
    spent = m[M.RULE_TIME] + 8 * plan_word(m, plan, P.RULE)
    store_i64(spent, load_i64(spent) + clock() - began)
    return status


@entry_point
def run_jobs(m, action, jobs, job_count):
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
            for position in range(count):
                place = flags_at(pivot_row, load_i32(pivots + 4 * position))
                store_i32(place, load_i32(place) & ~F.SEEN)
        m[M.AT_PIVOT] = 0
        m[M.AT_JOB] += 1
    m[M.AT_JOB] = 0
    return DONE


@device
def run_round(m, action, relations, relation_count, starts, plans):
    """Let what waits in a component's relations spread, but not what follows from it: DONE, or a reason to pause.

    The plans with a pivot in the i-th relation are those from `starts[i]` to `starts[i + 1]`, each with its counter.
    """
    if m[M.AT_PHASE] == 0:
        total = waiting(m, relations, relation_count)
        if keeps_batches(action) and L.room(m, L.D, total) != DONE:
            return FULL_LIST
        m[M.RANK] += m[M.RANKING]
        for position in range(relation_count):
            begin_batch(m, action, relation_row(m, load_i32(relations + 4 * position)))
        m[M.AT_PHASE] = 1
        m[M.AT_RELATION] = 0
        m[M.AT_PLAN] = 0
    if m[M.AT_PHASE] == 1:
        while m[M.AT_RELATION] < relation_count:
            if sort_batch(m, load_i32(relations + 4 * m[M.AT_RELATION])) != DONE:
                return FULL
            m[M.AT_RELATION] += 1
        m[M.AT_PHASE] = 2
        m[M.AT_RELATION] = 0
    while m[M.AT_RELATION] < relation_count:
        position = m[M.AT_RELATION]
        row = relation_row(m, load_i32(relations + 4 * position))
        last = load_i32(starts + 4 * (position + 1))
        while m[M.AT_PLAN] < last and field(row, R.BATCH_COUNT) > 0:
            entry = plans + 8 * m[M.AT_PLAN]
            batch = field(row, R.BATCH)
            count = field(row, R.BATCH_COUNT)
            status = run_timed(m, action, load_i32(entry), batch, count, 0, load_i32(entry + 4), row)
            if status != DONE:
                return status
            m[M.AT_PIVOT] = 0
            m[M.AT_PLAN] += 1
        m[M.AT_PLAN] = last
        m[M.AT_RELATION] += 1
    for position in range(relation_count):
        relation = load_i32(relations + 4 * position)
        end_batch(m, action, relation, relation_row(m, relation))
    m[M.AT_PHASE] = 0
    return DONE


@entry_point
def run_rounds(m, action, relations, relation_count, starts, plans):
    """Rounds until nothing waits."""
    while m[M.AT_PHASE] != 0 or waiting(m, relations, relation_count) > 0:
        status = run_round(m, action, relations, relation_count, starts, plans)
        if status != DONE:
            return status
    return DONE
