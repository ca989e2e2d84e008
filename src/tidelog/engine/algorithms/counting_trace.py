"""Recursive counting: derivations counted by the rounds of semi-naive evaluation (Fully dynamic, section 2.1.2; Motik,
Nenov, Piro and Horrocks, Maintenance of Datalog Materialisations Revisited).

The *trace* of semi-naive evaluation is a sequence of multisets N₀, N₁, …: the heads that each round derives, once for
each instance. The *level* of a fact is the round that derives it first: 0 if it is explicit or a non-recursive rule
derives it. The level of an instance is the round that finds it, which is one more than the highest level of its facts.
So a fact takes part only in multisets above its own level, and cannot keep itself alive: it is in I while one of them
holds it.

Of each fact two numbers are kept: its level, in the place of a rank, and how many instances it has at that level, in
the place of the non-recursive counter, which is the same at level 0. Higher multisets are not stored, since they only
matter once this count is zero: then the fact *looks* for the lowest of its instances, backwards through its rules.

An update first counts down what went and up what came from below, from rules and in E. Facts that are thereby to have
another level are *moves*: each has an aim, the lowest level at which it has instances now, and their number. Levels are
then settled in ascending order, from a heap. A fact whose aim is another one leaves its level when that is due, which
takes its instances away from their heads, and arrives at its aim, which gives them to their heads at their new levels.
One whose aim has lost its last instance looks for another; it is gone if there is none. Whatever is at a lower level
than the one that is due is final, so a fact leaves and arrives at most once, and nothing is overdeleted.

The cost is in the levels. If a short way to a fact goes and a longer one is left, all levels that rest on it rise, and
each fact above moves, although I stays as it is. Where the levels of a component are not known, because its rules make
up another component now or were counted otherwise, it is materialised again, which finds all levels in one pass.
"""

from __future__ import annotations

from tidelog.engine.algorithms.backward_forward import begin_spreading, end_spreading, next_consequence, own_fact
from tidelog.engine.algorithms.delete_rederive import BY_ANY_RULE, BY_OWN_RULES, end_look, look_for_instance
from tidelog.engine.algorithms.insertion import insert, recompute
from tidelog.engine.propagation import match_sets as S
from tidelog.engine.propagation.derived_heads import COUNT_DOWN, COUNT_UP, count_work, has_room
from tidelog.engine.propagation.propagate import JOB_FIELDS, forget_seen, note_seen
from tidelog.engine.transaction.task import Job, Task
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, is_full, known_count
from tidelog.machine.fact_kernels import (
    clear_counters,
    field,
    find,
    find_or_append,
    flags_at,
    record_of,
    relation_row,
    touch,
)
from tidelog.machine.jit import Registers, address, device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL, FULL_LIST, FULL_LOG, MATCH
from tidelog.store.relation import Relation

# The level of a fact that has no instance.
NOWHERE = (1 << 31) - 1

# What is due at a level: first facts leave it, then others arrive.
LEAVE, ARRIVE = 0, 1

# What the kernel does next.
MODE_NEXT, MODE_LEAVING, MODE_ARRIVING, MODE_LOOKING = 0, 1, 2, 3


# --- what is due: a heap of level, LEAVE or ARRIVE, and the number of a move ------------------------------------------


@device
def push_due(m, level, what, move):
    entry = (level << 32) | (what << 31) | move
    place = L.count(m, L.DUE)
    L.push(m, L.DUE, entry)
    while place > 0:
        above = (place - 1) >> 1
        other = L.entry(m, L.DUE, above)
        if other <= entry:
            break
        L.put(m, L.DUE, place, other)
        place = above
    L.put(m, L.DUE, place, entry)


@device
def pop_due(m):
    first = L.entry(m, L.DUE, 0)
    count = L.count(m, L.DUE) - 1
    last = L.entry(m, L.DUE, count)
    L.cut(m, L.DUE, count)
    place = 0
    below = 1
    while below < count:
        if below + 1 < count and L.entry(m, L.DUE, below + 1) < L.entry(m, L.DUE, below):
            below += 1
        if L.entry(m, L.DUE, below) >= last:
            break
        L.put(m, L.DUE, place, L.entry(m, L.DUE, below))
        place = below
        below = 2 * place + 1
    L.put(m, L.DUE, place, last)
    return first


# --- aims: F.CHECKED is on a fact that moves, and its first counter is then the number of its move --------------------


@device
def aim_of(m, row, fact):
    """The level that a fact is to have, and how many instances it has there."""
    flags = load_i32(flags_at(row, fact))
    cells = counters_of(row, fact)
    if flags & F.CHECKED:
        aim = L.entry(m, L.AIMS, load_i32(cells))
        return aim >> 32, aim & 0xFFFFFFFF
    if flags & F.IN:
        return load_i32(cells + 4), load_i32(cells)
    return NOWHERE, 0


@device
def aim(m, relation, row, fact, level, count):
    """Let a fact have so many instances at a level that may not be its own: it moves. The number of the move."""
    touch(m, relation, row, fact)
    place = flags_at(row, fact)
    cells = counters_of(row, fact)
    flags = load_i32(place)
    if not flags & F.CHECKED:
        store_i32(place, flags | F.CHECKED)
        store_i32(cells, L.count(m, L.MOVES))
        L.push(m, L.MOVES, L.entry_of(relation, fact))
        L.push(m, L.AIMS, 0)
    move = load_i32(cells)
    L.put(m, L.AIMS, move, (level << 32) | count)
    return move


@device
def recount_at(m, relation, row, fact, level, count):
    """Let a fact have so many instances at the level that it has or is to have."""
    if load_i32(flags_at(row, fact)) & F.CHECKED:
        aim(m, relation, row, fact, level, count)
    else:
        touch(m, relation, row, fact)
        store_i32(counters_of(row, fact), count)


@device
def set_doubt(row, fact, doubted):
    """Whether a fact's count was full when it lost an instance; see `machine.counters`."""
    place = flags_at(row, fact)
    flags = load_i32(place) & ~F.DOUBTED
    store_i32(place, flags | F.DOUBTED if doubted else flags)


@device
def take_away(m, relation, row, fact, level):
    """A fact loses an instance of this level. If it may be the last one, this is seen to when the level is due."""
    at, count = aim_of(m, row, fact)
    if level != at or count == 0:
        return
    if is_full(count):
        move = aim(m, relation, row, fact, level, count)
        set_doubt(row, fact, True)
        push_due(m, level, LEAVE, move)
        return
    flags = load_i32(flags_at(row, fact))
    if count > 1 or flags & F.CHECKED or (level == 0 and flags & F.EXPLICIT):
        recount_at(m, relation, row, fact, level, count - 1)
    else:
        push_due(m, level, LEAVE, aim(m, relation, row, fact, level, 0))


@device
def give(m, relation, row, fact, level):
    """A fact gets an instance of this level."""
    at, count = aim_of(m, row, fact)
    if level == at:
        recount_at(m, relation, row, fact, level, known_count(count + 1))
    elif level < at:
        move = aim(m, relation, row, fact, level, 1)
        set_doubt(row, fact, False)
        push_due(m, level, ARRIVE, move)


# --- instances --------------------------------------------------------------------------------------------------------


@device
def level_of_match(m, frame, least):
    """The level of the instance that a match is: one more than the highest of the facts of the component that its steps
    took, and at least what the caller knows.
    """
    for step in range(plan_word(m, load_i64(frame), P.STEPS)):
        entry = own_fact(m, frame, step)
        if entry >= 0:
            cells = counters_of(relation_row(m, L.relation_of(entry)), L.fact_of(entry))
            least = max(least, load_i32(cells + 4) + 1)
    return least


@device
def room_for_step(m):
    """Whether there is room for all that one match, or one fact that is due, can add."""
    if L.room(m, L.MOVES, 1) != DONE or L.room(m, L.AIMS, 1) != DONE or L.room(m, L.DUE, 2) != DONE:
        return FULL_LIST
    if m[M.LOG_COUNT] + 2 > m[M.LOG_CAPACITY]:
        m[M.STAGED] = 2
        return FULL_LOG
    return DONE


@device
def act(m, action, level):
    """Give the match in the first frame to its head as an instance of this level, or take it away: DONE, or FULL."""
    plan = load_i64(m[M.FRAMES])
    relation = plan_word(m, plan, P.HEAD_RELATION)
    row = relation_row(m, relation)
    write_head(m, m[M.FRAMES], m[M.HEADS])
    if action == COUNT_DOWN:
        fact = find(m, relation, m[M.HEADS])
        if fact >= 0:
            take_away(m, relation, row, fact, level)
        return DONE
    if not has_room(m, row, 1):
        m[M.FULL] = relation
        m[M.STAGED] = 1
        return FULL
    known = field(row, R.COUNT)
    give(m, relation, row, find_or_append(m, relation, m[M.HEADS], 0), level)
    rule_facts = m[M.RULE_FACTS] + 8 * plan_word(m, plan, P.RULE)
    store_i64(rule_facts, load_i64(rule_facts) + field(row, R.COUNT) - known)
    return DONE


# --- what changed below, in rules and in E ----------------------------------------------------------------------------


@device
def next_match_of_job(m, plan, pivots, count, seen, pivot_row):
    """The next match of a plan over its pivots: MATCH, DONE, or a reason to pause."""
    frame = m[M.FRAMES]
    while m[M.AT_PIVOT] < count:
        pivot = load_i32(pivots + 4 * m[M.AT_PIVOT]) if pivots != 0 else -1
        if m[M.AT_JOINING] == 0:
            start(frame, plan, pivot)
            m[M.AT_JOINING] = 1
        status = next_match(m, frame)
        if status != DONE:
            return status
        if seen:
            note_seen(pivot_row, pivot)
        m[M.AT_JOINING] = 0
        m[M.AT_PIVOT] += 1
    return DONE


@entry_point
def count_jobs(m: Registers, action: int, jobs: int, job_count: int) -> int:
    """Take the instances that jobs find away from their heads, or give them; before any level has changed."""
    while m[M.AT_JOB] < job_count:
        status = room_for_step(m)
        if status != DONE:
            return status
        job = jobs + 8 * JOB_FIELDS * m[M.AT_JOB]
        pivots = load_i64(job + 8)
        count = load_i64(job + 16)
        seen = load_i64(job + 24)
        pivot_row = relation_row(m, load_i64(job + 40))
        if m[M.TRACE_MATCHED] == 0:
            status = next_match_of_job(m, load_i64(job), pivots, count, seen, pivot_row)
            if status == DONE:
                if seen:
                    forget_seen(pivot_row, pivots, count)
                m[M.AT_PIVOT] = 0
                m[M.AT_JOB] += 1
                continue
            if status != MATCH:
                return status
            count_work(m, W.DELETION if action == COUNT_DOWN else W.INSERTION, load_i64(m[M.FRAMES]), 1)
            m[M.TRACE_MATCHED] = 1
        status = act(m, action, level_of_match(m, m[M.FRAMES], 0))
        if status != DONE:
            return status
        m[M.TRACE_MATCHED] = 0
    return DONE


@entry_point
def follow_explicit(m: Registers, relation: int, facts: int, count: int) -> None:
    """Facts have come into E or left it: at level 0, E counts as well. There is room."""
    row = relation_row(m, relation)
    for position in range(count):
        fact = load_i32(facts + 4 * position)
        at, instances = aim_of(m, row, fact)
        if load_i32(flags_at(row, fact)) & F.EXPLICIT:
            if at > 0:
                move = aim(m, relation, row, fact, 0, 0)
                set_doubt(row, fact, False)
                push_due(m, 0, ARRIVE, move)
        elif at == 0 and instances == 0:
            push_due(m, 0, LEAVE, aim(m, relation, row, fact, 0, 0))


# --- levels, in ascending order ---------------------------------------------------------------------------------------


@device
def settle(row, fact, level, count):
    """A fact has its level."""
    place = flags_at(row, fact)
    store_i32(place, (load_i32(place) | F.IN) & ~F.CHECKED)
    cells = counters_of(row, fact)
    store_i32(cells, count)
    store_i32(cells + 4, level)


@device
def begin_due(m, due, starts, ends):
    """Begin with what is due: a fact leaves, arrives, looks, or stays after all. What is out of date is passed over."""
    level, what, move = due >> 32, (due >> 31) & 1, due & 0x7FFFFFFF
    entry = L.entry(m, L.MOVES, move)
    row = relation_row(m, L.relation_of(entry))
    fact = L.fact_of(entry)
    flags = load_i32(flags_at(row, fact))
    cells = counters_of(row, fact)
    if not flags & F.CHECKED:
        return
    at, count = aim_of(m, row, fact)
    is_here = flags & F.IN != 0 and load_i32(cells + 4) == level
    if is_here != (what == LEAVE) or (what == ARRIVE and at != level):
        return
    m[M.TRACE_MOVE] = move
    m[M.TRACE_LEVEL] = level
    has_doubt = at == level and flags & F.DOUBTED != 0
    has_instance = at == level and (count > 0 or (level == 0 and flags & F.EXPLICIT != 0))
    if has_doubt or (what == ARRIVE and not has_instance):
        m[M.WORK + W.CHECKED] += 1
        m[M.TRACE_MODE] = MODE_LOOKING
    elif what == LEAVE and has_instance:
        settle(row, fact, level, count)
    elif what == LEAVE:
        begin_spreading(m, entry, starts, ends)
        m[M.TRACE_MODE] = MODE_LEAVING
    else:
        m[M.TRACE_FROM] = load_i32(cells + 4) if flags & F.IN else NOWHERE
        settle(row, fact, level, count)
        begin_spreading(m, entry, starts, ends)
        m[M.TRACE_MODE] = MODE_ARRIVING


@device
def leave(m, plans):
    """One step: take the next instance with the leaving fact away from its head; after the last one, the fact is out.
    If it has no other aim, it looks for one when all others have left.
    """
    level = m[M.TRACE_LEVEL]
    entry = m[M.PROOF_FACT]
    status = next_consequence(m, S.IN_INSERTION, plans)
    if status == MATCH:
        count_work(m, W.DELETION, load_i64(m[M.FRAMES]), 1)
        return act(m, COUNT_DOWN, level_of_match(m, m[M.FRAMES], level + 1))
    if status == DONE:
        end_spreading(m)
        row = relation_row(m, L.relation_of(entry))
        place = flags_at(row, L.fact_of(entry))
        store_i32(place, load_i32(place) & ~F.IN)
        if aim_of(m, row, L.fact_of(entry))[0] == level:
            push_due(m, level, ARRIVE, m[M.TRACE_MOVE])
        m[M.TRACE_MODE] = MODE_NEXT
    return status


@device
def arrive(m, plans):
    """One step: give the next instance with the arriving fact to its head, unless it has been at the same level since
    before, because of another fact.
    """
    if m[M.TRACE_MATCHED] == 0:
        status = next_consequence(m, S.IN_INSERTION, plans)
        if status == DONE:
            end_spreading(m)
            m[M.TRACE_MODE] = MODE_NEXT
        if status != MATCH:
            return status
        count_work(m, W.INSERTION, load_i64(m[M.FRAMES]), 1)
        m[M.TRACE_MATCHED] = 1
    status = DONE
    others = level_of_match(m, m[M.FRAMES], 0)
    if others <= m[M.TRACE_FROM]:
        status = act(m, COUNT_UP, max(others, m[M.TRACE_LEVEL] + 1))
    if status == DONE:
        m[M.TRACE_MATCHED] = 0
    return status


@device
def look(m, head_starts, head_ends, head_plans):
    """Find the lowest level at which a fact has instances, and how many, one after the other. Above level 0 there is
    none by a non-recursive rule.
    """
    entry = L.entry(m, L.MOVES, m[M.TRACE_MOVE])
    relation = L.relation_of(entry)
    fact = L.fact_of(entry)
    rules = BY_ANY_RULE if m[M.TRACE_LEVEL] == 0 else BY_OWN_RULES
    S.match_in(m, S.IN_ALL)
    status = look_for_instance(m, relation, fact, head_starts, head_ends, head_plans, rules)
    if status == MATCH:
        count_work(m, W.BACKWARD, load_i64(m[M.FRAMES]), 1)
        level = level_of_match(m, m[M.FRAMES], 0)
        if m[M.TRACE_FOUND] == 0 or level < m[M.TRACE_LOWEST]:
            m[M.TRACE_LOWEST] = level
            m[M.TRACE_FOUND] = 0
        if level == m[M.TRACE_LOWEST]:
            m[M.TRACE_FOUND] += 1
        return DONE
    if status == DONE:
        end_look(m)
        end_of_look(m, relation, relation_row(m, relation), fact)
    return status


@device
def end_of_look(m, relation, row, fact):
    """A fact aims at what it has found. If it is still at a level, it leaves that in time, unless this is its aim."""
    flags = load_i32(flags_at(row, fact))
    level = m[M.TRACE_LOWEST]
    count = m[M.TRACE_FOUND]
    if flags & F.EXPLICIT and (count == 0 or level > 0):
        level = count = 0
    elif count == 0:
        level = NOWHERE
    move = aim(m, relation, row, fact, level, known_count(count))
    set_doubt(row, fact, False)
    if level != NOWHERE:
        push_due(m, level, ARRIVE, move)
    if flags & F.IN:
        push_due(m, load_i32(counters_of(row, fact) + 4), LEAVE, move)
    m[M.TRACE_LOWEST] = m[M.TRACE_FOUND] = 0
    m[M.TRACE_MODE] = MODE_NEXT


@entry_point
def settle_levels(
    m: Registers, starts: int, ends: int, plans: int, head_starts: int, head_ends: int, head_plans: int
) -> int:
    """Settle one level after the other, until nothing is due."""
    while True:
        status = room_for_step(m)
        if status != DONE:
            return status
        mode = m[M.TRACE_MODE]
        if mode == MODE_NEXT:
            if L.count(m, L.DUE) == 0:
                return DONE
            begin_due(m, pop_due(m), starts, ends)
        elif mode == MODE_LEAVING:
            status = leave(m, plans)
        elif mode == MODE_ARRIVING:
            status = arrive(m, plans)
        else:
            status = look(m, head_starts, head_ends, head_plans)
        if status != DONE:
            return status


@entry_point
def forget_gone(m: Registers) -> None:
    """Facts that have arrived nowhere have neither level nor count."""
    for move in range(L.count(m, L.MOVES)):
        entry = L.entry(m, L.MOVES, move)
        row = relation_row(m, L.relation_of(entry))
        place = flags_at(row, L.fact_of(entry))
        if load_i32(place) & F.CHECKED:
            store_i32(place, load_i32(place) & ~(F.CHECKED | F.DOUBTED))
            clear_counters(record_of(row, L.fact_of(entry)), field(row, R.COUNTERS))


# --- one component ----------------------------------------------------------------------------------------------------


def count_by_trace(task: Task) -> None:
    """Maintain a component with recursion, whose facts have their levels; or find all levels."""
    if not task.node.ranked:
        recompute(task, most_stays=True)
    elif all(relation.is_new() for relation in task.relations):
        insert(task)
    else:
        _move(task)


def _move(task: Task) -> None:
    """Let the levels of a component follow what changed."""
    task.node.complete_tables()
    task.transaction.growth.begin(COUNT_UP)
    for which in (L.MOVES, L.AIMS, L.DUE):
        task.lists.clear(which)
    gone = task.from_below(deleted=True)
    removed = task.of_rules(task.rules.removed, deleted=True)
    if gone or removed or any(map(len, task.explicit.deleted.values())):
        for relation in task.relations:
            relation.mark_unclean()
    _count(task, COUNT_DOWN, S.DESTROYED_FROM_BELOW, gone)
    _count(task, COUNT_DOWN, S.HELD, removed)
    _count(task, COUNT_UP, S.CREATED_FROM_BELOW, task.from_below(deleted=False))
    _count(task, COUNT_UP, S.HOLDING, task.of_rules(task.rules.added, deleted=False))
    for relation in task.relations:
        _follow_explicit(task, relation)
    plans = (*task.round_table(deleting=False).arguments(), *task.node.heads().arguments())
    task.runner.run(settle_levels, *plans)
    forget_gone(task.machine)


def _count(task: Task, action: int, sets: S.Sets, jobs: list[Job]) -> None:
    if jobs:
        sets.install(task.machine)
        task.run_jobs(count_jobs, action, jobs)


def _follow_explicit(task: Task, relation: Relation) -> None:
    for facts in (task.explicit.deleted[relation.number], task.explicit.added[relation.number]):
        if len(facts):
            task.undo.reserve(len(facts))
            for which in (L.MOVES, L.AIMS, L.DUE):
                task.lists.reserve(which, task.lists.count(which) + len(facts))
            follow_explicit(task.machine, relation.number, address(facts), len(facts))
