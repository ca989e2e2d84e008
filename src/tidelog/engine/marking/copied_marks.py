"""Marks through rules with one body atom: the head is the fact itself under another name, and shares its mark.

No instance has to be found for that. In the programs of Backward/Forward with Marking such heads share a logic variable
with the fact that they come from; here one kernel goes over the marked facts when the update is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.propagation.mark_kernels import mark_fact, take_marks
from tidelog.engine.propagation.short_plans import short_head
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import field, find, flags_of, record_of, relation_row
from tidelog.machine.jit import address, device, entry_point, load_i32
from tidelog.machine.status import DONE, MATCH, NEED_COPIES
from tidelog.program.plan import Pivot, Start
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.engine.rules.compiled import CompiledRule

FIRST = Pivot(Start.POSITIVE, 0)


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
    """Mark what a rule with one body atom derives from a fact of I with these flags, if that holds; DONE, or a reason
    to pause."""
    relation = L.relation_of(entry)
    fact = L.fact_of(entry)
    if flags_of(m, relation, fact) & (care | F.IN) != care | F.IN:
        return DONE
    status = L.room(m, L.MARKED, 1)
    if status == DONE:
        status = write_copy(m, plan, relation, fact)
    if status != MATCH:
        return status
    target = plan_word(m, plan, P.HEAD_RELATION)
    head = find(m, target, m[M.HEADS])
    if head >= 0 and flags_of(m, target, head) & F.IN:
        mark_fact(m, target, head)
    return DONE


@entry_point
def share_marks(m, copies, known, plans):
    """Rules with one body atom: their heads have the marks of their bodies.

    The plans of those that read relation number i are those from `copies[2 i]` to `copies[2 i + 1]`, each with the
    flags of facts that pass their marks on; -1 where they are not known yet. In the end marks are taken off, and what
    the next update has to expect is listed.
    """
    position = m[M.COPY_FACT]
    place = m[M.COPY_PLAN]
    status = DONE
    while status == DONE and position < L.count(m, L.MARKED):
        entry = L.entry(m, L.MARKED, position)
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
        take_marks(m, True)
        m[M.WORK + W.MARKED_IMPLICIT] += L.count(m, L.EXPECTED)
    return status


class CopyTable:
    """For each relation the rules whose one body atom it is, as `share_marks` reads them; found when first needed.

    The table holds for one set of rules, until `forget`.
    """

    def __init__(self, copies_of: Callable[[int], Iterator[tuple[CompiledRule, int]]]) -> None:
        self._copies_of = copies_of
        self._places: Cells = np.full((8, 2), -1, np.int32)
        self._plans: Cells = np.zeros((8, 2), np.int32)
        self._used = 0
        self._rules: dict[int, set[int]] = {}
        self._arguments = (address(self._places), len(self._places), address(self._plans))

    def forget(self) -> None:
        """The rules change."""
        if self._rules:
            self._places.fill(-1)
            self._rules.clear()
            self._used = 0

    def share(self, machine: npt.NDArray[np.int64], *_: Any) -> int:
        """Run the kernel until it is done or asks for room."""
        status = share_marks(machine, *self._arguments)
        while status == NEED_COPIES:
            self._learn(int(machine[M.FULL]))
            status = share_marks(machine, *self._arguments)
        return int(status)

    def rules(self, relation: Relation) -> set[int]:
        """The numbers of the rules by which facts of a relation have shared their marks."""
        return self._rules.get(relation.number, set())

    def _learn(self, relation: int) -> None:
        copies = list(self._copies_of(relation))
        self._rules[relation] = {rule.number for rule, _ in copies}
        while relation >= len(self._places):
            self._places = np.concatenate((self._places, np.full_like(self._places, -1)))
        while self._used + len(copies) > len(self._plans):
            self._plans = np.concatenate((self._plans, np.zeros_like(self._plans)))
        self._places[relation] = (self._used, self._used + len(copies))
        for rule, care in copies:
            self._plans[self._used] = (rule.offset(FIRST), care)
            self._used += 1
        self._arguments = (address(self._places), len(self._places), address(self._plans))


def is_copy_of(rule: CompiledRule, predicate: str) -> bool:
    """Whether a rule's body is one positive atom of this predicate: its head then shares the marks of the fact."""
    positives = rule.normal.positives
    return len(positives) == 1 and not rule.normal.negatives and positives[0].predicate == predicate
