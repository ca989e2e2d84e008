"""Marks through rules with one body atom: the head is the fact itself under another name, and shares its mark.

No instance has to be found for that. In the programs of Backward/Forward with Marking such heads share a logic variable
with the fact that they come from; here one kernel goes over the marked facts when the update is done.
"""

from __future__ import annotations

from tidelog.engine.propagation.mark_kernels import count_left_before, is_there, mark_fact, take_marks
from tidelog.engine.propagation.short_plans import short_head
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import field, find, flags_of, record_of, relation_row
from tidelog.machine.jit import Registers, device, entry_point, load_i32
from tidelog.machine.status import DONE, MATCH, NEED_COPIES


@device
def write_copy(m, plan, relation, fact):
    """Write what a rule with one body atom derives from a fact to the buffer of heads; MATCH if there is one."""
    short = plan_word(m, plan, P.SHORT)
    if short != 0:
        record = record_of(relation_row(m, relation), fact)
        arity = field(relation_row(m, plan_word(m, plan, P.HEAD_RELATION)), R.ARITY)
        short_head(m[M.CODE] + 4 * (short + P.SHORT_HEAD), arity, record, record, record, m[M.HEADS])
        return MATCH
    frame = m[M.FRAMES]
    start(frame, plan, fact)
    status = next_match(m, frame)
    if status == MATCH:
        write_head(m, frame, m[M.HEADS])
    return status


@device
def share_mark(m, plan, care, entry):
    """Mark what a rule with one body atom derives from a fact with these flags; DONE, or a reason to pause."""
    relation = L.relation_of(entry)
    fact = L.fact_of(entry)
    if flags_of(m, relation, fact) & care != care:
        return DONE
    status = L.room(m, L.MARKED, 1)
    if status == DONE:
        status = write_copy(m, plan, relation, fact)
    if status != MATCH:
        return status
    target = plan_word(m, plan, P.HEAD_RELATION)
    head = find(m, target, m[M.HEADS])
    if head >= 0 and flags_of(m, target, head) & F.IN:
        mark_fact(m, target, head, F.NEXT)
    return DONE


@device
def goes_next(m, entry):
    """Whether a fact of I is marked for the next update."""
    return is_there(m, entry) and flags_of(m, L.relation_of(entry), L.fact_of(entry)) & F.NEXT != 0


@entry_point
def share_marks(m: Registers, copies: int, known: int, plans: int) -> int:
    """Rules with one body atom: their heads have the marks of their bodies, as far as they are for the next update. The
    others are shared when their update is the next one.

    The plans of those that read relation number i are those from `copies[2 i]` to `copies[2 i + 1]`, each with the
    flags of facts that pass their marks on; -1 where they are not known yet. In the end marks are taken off, and what
    the updates to come get from them is listed.
    """
    position = m[M.COPY_FACT]
    place = m[M.COPY_PLAN]
    status = DONE
    while status == DONE and position < L.count(m, L.MARKED):
        entry = L.entry(m, L.MARKED, position)
        if not goes_next(m, entry):
            position += 1
            continue
        relation = L.relation_of(entry)
        if relation >= known or load_i32(copies + 8 * relation) < 0:
            m[M.FULL] = relation
            status = NEED_COPIES
            break
        end = load_i32(copies + 8 * relation + 4)
        place = max(place, load_i32(copies + 8 * relation))
        while status == DONE and place < end:
            status = share_mark(m, load_i32(plans + 8 * place), load_i32(plans + 8 * place + 4), entry)
            if status == DONE:
                place += 1
        if status == DONE:
            position += 1
            place = 0
    m[M.COPY_FACT] = position
    m[M.COPY_PLAN] = place
    if status != DONE:
        return status
    status = L.room(m, L.EXPECTED, L.count(m, L.MARKED))
    if status == DONE:
        status = L.room(m, L.LATER, 2 * L.count(m, L.MARKED))
    if status == DONE:
        before = count_left_before(m)
        m[M.WORK + W.MARKED_IMPLICIT] += take_marks(m, True) - before
    return status
