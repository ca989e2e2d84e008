"""Settling: values that were offered to the groups of predicates enter I one after the other, the best one next.

`algorithms.best_values` says what that is good for. All state is in the machine, as in `propagate`.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import LOSE, OFFER
from tidelog.engine.propagation.drafts import enter_draft, prefetch_entry
from tidelog.engine.propagation.match_sets import IN_REPLACEMENT, match_in
from tidelog.engine.propagation.offers import PASSING, first_of_group, offer, pop_offer, prefetch_next, push_in_turn
from tidelog.engine.propagation.propagate import TOP_RANK, run_round, run_timed
from tidelog.engine.propagation.sums import SLOW, offer_sums, room_for_offer
from tidelog.engine.rules.policy import NO_COUNTER
from tidelog.joins.executor import must_pause, plan_word
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import enqueue, field, flags_at, index_row, record_of, relation_row, touch
from tidelog.machine.jit import Registers, clock, device, entry_point, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL_LOG, PAUSED

# From so many values on that were settled again, and that share of all, offers are settled in rounds.
MOST_AGAIN, SHARE_AGAIN = 1000, 8


@device
def settled_before(m, row, fact):
    """The record in I of a fact's group, other than itself, or -1."""
    link = field(index_row(m, field(row, R.GROUP)), X.LINK)
    other = first_of_group(m, row, record_of(row, fact))
    while other >= 0:
        record = record_of(row, other)
        if other != fact and load_i32(record + field(row, R.FLAGS)) & F.IN:
            return other
        other = load_i32(record + link)
    return -1


@device
def replace(m, relation, row, fact, since):
    """Take the record that the group of a fact had so far out of I."""
    former = settled_before(m, row, fact)
    if former < 0:
        return
    touch(m, relation, row, former)
    place = flags_at(row, former)
    store_i32(place, load_i32(place) & ~(F.IN | F.AWAITED))
    L.push(m, L.REPLACED, L.entry_of(relation, former))
    m[M.SPOILED] += 1
    if load_i32(counters_of(row, former) + 4) > since:
        m[M.BEST_AGAIN] += 1
        m[M.OUTDONE] += 1


@device
def settle_offer(m, relation, row, fact, since):
    """A fact whose turn it is enters I, with a rank."""
    place = flags_at(row, fact)
    if load_i32(place) & F.AWAITED:
        replace(m, relation, row, fact, since)
    touch(m, relation, row, fact)
    store_i32(place, load_i32(place) & ~PASSING | F.IN | F.CURRENT)
    m[M.RANK] += 1
    store_i32(counters_of(row, fact) + 4, min(m[M.RANK], TOP_RANK))
    m[M.DERIVED] += 1
    m[M.BEST_SETTLED] += 1


@device
def settle_in_rounds(m):
    """From now on, offers are settled in the order of their arrival, round by round."""
    for place in range(L.count(m, L.OFFERS) // 2):
        L.put(m, L.OFFERS, 2 * place, 1)
    m[M.BEST_ROUND] = 2


@device
def settle_next(m, since):
    """Settle the offer whose turn it is, if it still stands: DONE, or what is missing."""
    if m[M.LOG_COUNT] + 2 > m[M.LOG_CAPACITY]:
        m[M.STAGED] = 2
        return FULL_LOG
    status = L.room(m, L.REPLACED, 1)
    if status != DONE:
        return status
    key, entry = pop_offer(m)
    prefetch_next(m)
    m[M.BUDGET] -= 1
    if m[M.BEST_ROUND] != 0:
        m[M.BEST_ROUND] = key + 1
    relation, fact = L.relation_of(entry), L.fact_of(entry)
    row = relation_row(m, relation)
    flags = load_i32(flags_at(row, fact))
    if flags & F.PENDING:
        if flags & F.DRAFT:
            prefetch_entry(row, fact)
        settle_offer(m, relation, row, fact, since)
        L.put(m, L.SPREADING, 0, entry)
        m[M.BEST_PLAN] = 1
        again = m[M.BEST_AGAIN]
        if m[M.BEST_ROUND] == 0 and again > MOST_AGAIN and again * SHARE_AGAIN > m[M.BEST_SETTLED]:
            settle_in_rounds(m)
    return DONE


@device
def take_next_key(m):
    """Let the offers of the next key wait for their turns, of those that were put aside: whether there are any."""
    place, end = m[M.BEST_ASIDE], L.count(m, L.ASIDE)
    if place == end:
        return False
    key = L.entry(m, L.ASIDE, place)
    while place < end and L.entry(m, L.ASIDE, place) == key:
        push_in_turn(m, L.entry(m, L.ASIDE, place + 1), L.entry(m, L.ASIDE, place + 2))
        place += 3
    m[M.BEST_ASIDE] = place
    return True


@inlined
def enter_if_draft(row, fact):
    """Let the hash table know of a fact that was a draft: while it spreads, the slot arrives."""
    if load_i32(flags_at(row, fact)) & F.DRAFT:
        enter_draft(row, fact)


@inlined
def note_time(m, plan, began):
    """Add the time since then to that of a plan's rule; the time now."""
    now = clock()
    spent = m[M.RULE_TIME] + 8 * plan_word(m, plan, P.RULE)
    store_i64(spent, load_i64(spent) + now - began)
    return now


@entry_point
def settle_offers(m: Registers, starts: int, ends: int, plans: int, since: int) -> int:
    """Settle what waits, and all that follows. The plans with a pivot in relation number i are those from `starts[i]`
    to `ends[i]`; ranks above `since` are of this run.
    """
    began = clock()
    while True:
        if m[M.BEST_PLAN] == 0:
            if L.count(m, L.OFFERS) == 0 and not take_next_key(m):
                return DONE
            if must_pause(m, m[M.BUDGET]):
                return PAUSED
            status = settle_next(m, since)
            if status != DONE:
                return status
            continue
        entry = L.entry(m, L.SPREADING, 0)
        relation, fact = L.relation_of(entry), L.fact_of(entry)
        row = relation_row(m, relation)
        first = load_i32(starts + 4 * relation) - 1
        while first + m[M.BEST_PLAN] < load_i32(ends + 4 * relation):
            plan = load_i32(plans + 8 * (first + m[M.BEST_PLAN]))
            status = SLOW
            if m[M.BEST_SLOWLY] == 0:
                status = offer_sums(m, plan, record_of(row, fact))
                began = note_time(m, plan, began)
            if status == SLOW:
                m[M.BEST_SLOWLY] = 1
                # Its bodies may ask for the fact itself.
                enter_if_draft(row, fact)
                # The number of the fact is the lower half of its entry.
                status = run_timed(m, OFFER, plan, m[L.SPREADING], 1, 0, NO_COUNTER, row)
                began = clock()
            if status != DONE:
                return status
            m[M.AT_PIVOT] = m[M.BEST_FACT] = m[M.BEST_SLOWLY] = 0
            m[M.BEST_PLAN] += 1
        enter_if_draft(row, fact)
        place = flags_at(row, fact)
        store_i32(place, load_i32(place) & ~F.CURRENT)
        m[M.BEST_PLAN] = 0


@entry_point
def offer_facts(m: Registers, relation: int, facts: int, count: int) -> int:
    """Offer facts of a relation, which are explicit."""
    row = relation_row(m, relation)
    while m[M.AT_PIVOT] < count:
        status = room_for_offer(m, relation, row)
        if status != DONE:
            return status
        fact = load_i32(facts + 4 * m[M.AT_PIVOT])
        offer(m, relation, row, record_of(row, fact), fact)
        m[M.AT_PIVOT] += 1
    return DONE


@entry_point
def offer_explicit(m: Registers, relation: int, facts: int, count: int) -> int:
    """Offer all explicit facts in the groups of some facts."""
    row = relation_row(m, relation)
    link = field(index_row(m, field(row, R.GROUP)), X.LINK)
    while m[M.AT_PIVOT] < count:
        fact = first_of_group(m, row, record_of(row, load_i32(facts + 4 * m[M.AT_PIVOT])))
        while fact >= 0:
            record = record_of(row, fact)
            if load_i32(record + field(row, R.FLAGS)) & F.EXPLICIT:
                status = room_for_offer(m, relation, row)
                if status != DONE:
                    return status  # The whole group is offered again, which does no harm.
                offer(m, relation, row, record, fact)
            fact = load_i32(record + link)
        m[M.AT_PIVOT] += 1
    return DONE


@entry_point
def forget_deletion(m: Registers) -> None:
    """What has been overdeleted may be settled anew."""
    for position in range(L.count(m, L.D)):
        entry = L.entry(m, L.D, position)
        place = flags_at(relation_row(m, L.relation_of(entry)), L.fact_of(entry))
        store_i32(place, load_i32(place) & ~(F.DELETED | F.PROCESSED | F.CHECKED))


@entry_point
def queue_replaced(m: Registers) -> None:
    """Let the replaced facts wait to spread their deletion: for that long they are in I again. There is room."""
    for position in range(L.count(m, L.REPLACED)):
        entry = L.entry(m, L.REPLACED, position)
        row = relation_row(m, L.relation_of(entry))
        fact = L.fact_of(entry)
        place = flags_at(row, fact)
        flags = load_i32(place)
        # One that has come back in the meantime is as good as any other; one may be here twice.
        if not flags & (F.IN | F.DELETED):
            store_i32(place, flags | F.IN | F.DELETED)
            enqueue(row, fact)
    L.cut(m, L.REPLACED, 0)


@entry_point
def lose_replaced(m: Registers, relations: int, relation_count: int, starts: int, ends: int, plans: int) -> int:
    """One round: what was derived from facts that wait, and comes later by rank, waits to look."""
    match_in(m, IN_REPLACEMENT)
    return run_round(m, LOSE, relations, relation_count, starts, ends, plans)
