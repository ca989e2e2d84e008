"""Delete/Rederive: DR1 to DR5 of Backward/Forward, section 3, and with counters DRed^c (Modular, section 4.2).

The two cures of section 3 against repeated derivations ("inverse semi-naive") lie in the sets: a fact that has spread
its deletion takes no part in overdeletion again.

The search for a derivation of one fact, which DR4 needs, also serves deletion by ranks, and facts in *doubt*: those
whose counter is full and has lost a derivation (`machine.counters`).
"""

from __future__ import annotations

from tidelog.engine.algorithms.insertion import insert
from tidelog.engine.propagation.derived_heads import OVERDELETE
from tidelog.engine.propagation.match_sets import DESTROYED_FROM_BELOW, DESTROYED_IN_ROUND, HELD, HOLDING
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.task import Task
from tidelog.joins.executor import next_match, start
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of, is_full
from tidelog.machine.fact_kernels import enqueue, flags_at, relation_row
from tidelog.machine.jit import Registers, device, entry_point, load_i32, store_i32
from tidelog.machine.status import DONE, MATCH

# By which rules a derivation is looked for: by all, by those that read no fact of the component, or by the others.
BY_ANY_RULE, BY_LOWER_RULES, BY_OWN_RULES = 0, 1, 2


@device
def look_for_instance(m, relation, fact, head_starts, head_ends, head_plans, rules):
    """Look for an instance that derives a fact: MATCH, DONE where there is none, or a reason to pause. After MATCH and
    DONE the caller ends the look.
    """
    frame = m[M.FRAMES]
    if m[M.LOOK_PLAN] == 0:
        m[M.LOOK_PLAN] = load_i32(head_starts + 4 * relation) + 1
    while m[M.LOOK_PLAN] <= load_i32(head_ends + 4 * relation):
        at = head_plans + 8 * (m[M.LOOK_PLAN] - 1)
        is_own = load_i32(at + 4) != 0
        if rules == BY_ANY_RULE or is_own == (rules == BY_OWN_RULES):
            if m[M.LOOK_JOINING] == 0:
                start(frame, load_i32(at), fact)
                m[M.LOOK_JOINING] = 1
            status = next_match(m, frame)
            if status != DONE:
                return status
        m[M.LOOK_JOINING] = 0
        m[M.LOOK_PLAN] += 1
    return DONE


@device
def end_look(m):
    m[M.LOOK_PLAN] = m[M.LOOK_JOINING] = 0


# --- the phases -------------------------------------------------------------------------------------------------------


@entry_point
def drop_deleted(m: Registers) -> None:
    """DR3: I := I ∖ D, except for what has been proved."""
    for position in range(L.count(m, L.D)):
        entry = L.entry(m, L.D, position)
        place = flags_at(relation_row(m, L.relation_of(entry)), L.fact_of(entry))
        flags = load_i32(place)
        if not flags & F.PROVED:
            store_i32(place, flags & ~F.IN)


@entry_point
def rederive(m: Registers, head_starts: int, head_ends: int, head_plans: int, counted: int) -> int:
    """DR4: A := (D ∩ E) ∪ {facts of D with a rule instance in I}. Where all derivations are counted, the counters know,
    unless they are full.
    """
    while m[M.REDERIVE_FACT] < L.count(m, L.D):
        entry = L.entry(m, L.D, m[M.REDERIVE_FACT])
        relation = L.relation_of(entry)
        fact = L.fact_of(entry)
        row = relation_row(m, relation)
        place = flags_at(row, fact)
        counters = counters_of(row, fact)
        holds = load_i32(place) & F.EXPLICIT != 0
        if not holds and counted and not is_full(load_i32(counters + 4)):
            holds = load_i32(counters) > 0 or load_i32(counters + 4) > 0
        elif not holds:
            status = look_for_instance(m, relation, fact, head_starts, head_ends, head_plans, BY_ANY_RULE)
            if status not in (DONE, MATCH):
                return status
            end_look(m)
            holds = status == MATCH
            if holds:
                m[M.WORK + W.REDERIVATION] += 1
            elif counted:
                store_i32(counters + 4, 0)
        if holds:
            store_i32(place, load_i32(place) | F.PENDING)
            enqueue(row, fact)
        m[M.REDERIVE_FACT] += 1
    return DONE


def find_candidates(task: Task) -> int:
    """DR1: E⁻, what lost a fact below, what a removed rule yielded: these wait in the queues. How many there are.

    With counters, a fact with a non-recursive derivation left is no candidate.
    """
    task.lists.clear(L.D)
    jobs = task.from_below(deleted=True)
    removed = task.of_rules(task.rules.removed, deleted=True)
    marking = task.transaction.marking
    announced = any(rule.number in marking.announced for rule in task.node.rules)
    if not (announced or jobs or removed or any(map(len, task.explicit.deleted.values()))):
        return 0
    protect = task.counters is not Counters.NONE
    task.node.complete_tables()
    for relation in task.relations:
        relation.mark_unclean()
        marking.seed(relation, protect)
    task.spread(OVERDELETE, DESTROYED_FROM_BELOW, jobs)
    task.spread(OVERDELETE, HELD, removed)
    settle_doubts(task, task.rules.added_numbers)
    for relation in task.relations:
        task.seed(OVERDELETE, relation, task.explicit.deleted[relation.number], protect)
    return sum(relation.queues.waiting for relation in task.relations)


def bring_back(task: Task, counted: bool) -> None:
    """DR4: let the facts of D that have a derivation left wait for insertion."""
    for relation in task.relations:
        relation.queues.reserve(task.lists.count(L.D))
    HOLDING.install(task.machine)
    task.runner.run(rederive, *task.node.heads(task.rules.added_numbers).arguments(), int(counted))


def delete_and_rederive(task: Task) -> None:
    """DRed, or DRed^c with counters of all derivations, on one component."""
    if find_candidates(task):
        # DR2: the heads of instances with a fact of D go to D as well.
        task.rounds(OVERDELETE, DESTROYED_IN_ROUND)
        drop_deleted(task.machine)
        bring_back(task, counted=task.counters is Counters.ALL)
    # DR5
    insert(task)


# --- facts in doubt ---------------------------------------------------------------------------------------------------


@entry_point
def end_doubts(m: Registers, head_starts: int, head_ends: int, head_plans: int) -> int:
    """Let the facts of D wait in their queues again. Of those in doubt, one that has an instance without facts of its
    component keeps its full counter, and waits no longer if it was to be overdeleted; the counter of any other is zero.
    """
    while m[M.REDERIVE_FACT] < L.count(m, L.D):
        entry = L.entry(m, L.D, m[M.REDERIVE_FACT])
        relation = L.relation_of(entry)
        fact = L.fact_of(entry)
        row = relation_row(m, relation)
        place = flags_at(row, fact)
        waits = True
        if load_i32(place) & F.DOUBTED:
            status = look_for_instance(m, relation, fact, head_starts, head_ends, head_plans, BY_LOWER_RULES)
            if status not in (DONE, MATCH):
                return status
            end_look(m)
            flags = load_i32(place) & ~F.DOUBTED
            if status == MATCH:
                m[M.WORK + W.REDERIVATION] += 1
            else:
                store_i32(counters_of(row, fact), 0)
            if flags & F.DELETED and (status == MATCH or flags & F.EXPLICIT):
                flags &= ~F.DELETED
                waits = False
            store_i32(place, flags)
        if waits:
            enqueue(row, fact)
        m[M.REDERIVE_FACT] += 1
    return DONE


def settle_doubts(task: Task, without: frozenset[int]) -> None:
    """End the doubts that deletion or counting have left in a component's queues. Rules whose instances are only
    counted afterwards are left out.
    """
    if not task.machine[M.DOUBTS]:
        return
    task.queues_to_list(L.D)
    HOLDING.install(task.machine)
    task.runner.run(end_doubts, *task.node.heads(without).arguments())
    task.lists.clear(L.D)
    task.machine[M.DOUBTS] = 0
