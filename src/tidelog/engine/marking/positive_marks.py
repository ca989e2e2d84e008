"""Positive marks: what the update in work deletes and the next one brings back (Delete/Rederive with Marking;
Backward/Forward with Marking, section 3.1).

A fact that the next update adds comes back if it goes now. An instance that overdeletion finds anyway, all of whose
facts stay or come back, will hold again: it is kept, and its head comes back too. The next update looks at the flags of
the kept facts, without a search, and lets the heads whose instances hold wait for insertion at once; an instance that
leads to one of them is then no application of DR5. Whatever has become of the facts of an instance meanwhile, a head is
only brought back by one that holds, so marks change work and never results.

An instance is kept as words of a list: how many there are, the head, the facts of its body, each as
relation << 32 | fact. A fact that the next update itself adds is a head without a body. Where the list is full, nothing
is kept: marks only save work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.joins.executor import head_relation, matched_fact, plan_word
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import enqueue, field, find, flags_at, flags_of, relation_row, touch
from tidelog.machine.jit import address, device, entry_point, load_i32, load_i64, store_i32
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.engine.transaction import Transaction

Words = npt.NDArray[np.int64]
NO_WORDS: Words = np.empty(0, np.int64)

# Words of kept instances for each fact that comes back; what does not fit is found by search.
ROOM = 256


@device
def kept_flags(m, entry):
    """The flags of a fact, or 0 where there is no longer a record of its number."""
    if L.fact_of(entry) >= field(relation_row(m, L.relation_of(entry)), R.COUNT):
        return 0
    return flags_of(m, L.relation_of(entry), L.fact_of(entry))


@entry_point
def mark_returning(m, relation, rows, count):
    """The next update adds these rows: those that held before the update in work come back if they go."""
    row = relation_row(m, relation)
    width = 4 * field(row, R.ARITY)
    for position in range(count):
        fact = find(m, relation, rows + width * position)
        if fact < 0 or not L.has_room(m, L.RETURNS, 2):
            continue
        place = flags_at(row, fact)
        if load_i32(place) & F.OLD:
            store_i32(place, load_i32(place) | F.RETURNING)
            L.push(m, L.RETURNS, 1)
            L.push(m, L.RETURNS, L.entry_of(relation, fact))


@device
def comes_back(m, frame):
    """Whether every fact of a match stays, or goes and comes back, and nothing else can keep it from holding again."""
    plan = load_i64(frame)
    returning = False
    for step in range(plan_word(m, plan, P.STEPS)):
        at = m[M.CODE] + 4 * plan_word(m, plan, P.FIRST + step)
        kind = load_i32(at + 4 * P.S_KIND)
        if kind > P.STEP_SCAN:
            if kind not in (P.STEP_COMPARE, P.STEP_ASSIGN, P.STEP_CALL):
                return False
            continue
        flags = flags_of(m, load_i32(at + 4 * P.S_RELATION), matched_fact(m, frame, step))
        if flags & F.DELETED or not flags & F.IN:
            if not flags & F.RETURNING:
                return False
            returning = True
        elif flags & F.MARKED:
            return False
    return returning


@device
def note_return(m, frame, row):
    """An instance with this head is overdeleted: if it will hold again, keep it, and let its head come back."""
    plan = load_i64(frame)
    steps = plan_word(m, plan, P.STEPS)
    if not L.has_room(m, L.RETURNS, steps + 2) or not comes_back(m, frame):
        return
    relation = head_relation(m, plan)
    head = find(m, relation, row)
    if head < 0:
        return
    place = flags_at(relation_row(m, relation), head)
    flags = load_i32(place)
    if flags & F.RETURNING:
        return
    store_i32(place, flags | F.RETURNING)
    start = L.count(m, L.RETURNS)
    L.push(m, L.RETURNS, 1)
    L.push(m, L.RETURNS, L.entry_of(relation, head))
    for step in range(steps):
        at = m[M.CODE] + 4 * plan_word(m, plan, P.FIRST + step)
        if load_i32(at + 4 * P.S_KIND) <= P.STEP_SCAN:
            L.push(m, L.RETURNS, L.entry_of(load_i32(at + 4 * P.S_RELATION), matched_fact(m, frame, step)))
    L.put(m, L.RETURNS, start, L.count(m, L.RETURNS) - start - 1)


@entry_point
def take_returns(m):
    """Take off every positive mark; the instances whose heads are gone stay in the list."""
    kept = 0
    position = 0
    while position < L.count(m, L.RETURNS):
        first = position
        size = L.entry(m, L.RETURNS, first)
        head = L.entry(m, L.RETURNS, first + 1)
        position += size + 1
        place = flags_at(relation_row(m, L.relation_of(head)), L.fact_of(head))
        flags = load_i32(place)
        store_i32(place, flags & ~F.RETURNING)
        if flags & F.IN:
            continue
        m[M.WORK + (W.MARKED_IMPLICIT if size > 1 else W.MARKED_EXPLICIT)] += 1
        if size > 1:
            for word in range(size + 1):
                L.put(m, L.RETURNS, kept + word, L.entry(m, L.RETURNS, first + word))
            kept += size + 1
    L.cut(m, L.RETURNS, kept)


@entry_point
def restore(m, relation, words, count):
    """Let those facts of a relation wait for insertion whose kept instances hold again. There is room."""
    row = relation_row(m, relation)
    position = 0
    while position < count:
        at = words + 8 * position
        size = load_i64(at)
        head = load_i64(at + 8)
        position += size + 1
        holds = L.relation_of(head) == relation and L.fact_of(head) < field(row, R.COUNT)
        holds = holds and not kept_flags(m, head) & (F.IN | F.PENDING)
        for word in range(2, size + 1):
            if not kept_flags(m, load_i64(at + 8 * word)) & (F.IN | F.PENDING):
                holds = False
        if holds:
            fact = L.fact_of(head)
            touch(m, relation, row, fact)
            place = flags_at(row, fact)
            store_i32(place, load_i32(place) | F.PENDING | F.RESTORED)
            enqueue(row, fact)


class Returning:
    """The positive marks of an update in work; `kept` are the instances that its predecessor kept."""

    def __init__(self, transaction: Transaction, kept: Words) -> None:
        self._transaction = transaction
        self._machine = transaction.machine
        self._lists = transaction.store.lists
        self._kept = kept

    def reset(self) -> None:
        """Let the machine hold no positive marks of this update."""
        self._lists.clear(L.RETURNS)
        self._machine[M.RETURNING] = 0
        self._machine[M.RESTORED] = 0

    def look(self, additions: Mapping[str, Cells], relation_of: Callable[[str], Relation | None]) -> None:
        """The next update is there: what it adds comes back if it goes."""
        self._lists.reserve(L.RETURNS, ROOM * sum(map(len, additions.values())))
        for predicate, rows in additions.items():
            relation = relation_of(predicate)
            if relation is not None and relation.arity == rows.shape[1]:
                rows = np.ascontiguousarray(rows)
                mark_returning(self._machine, relation.number, address(rows), len(rows))

    @property
    def brings_back(self) -> bool:
        """Whether this update may bring facts back by what its predecessor kept."""
        return len(self._kept) > 0

    def pass_on(self, overdeletes: bool) -> None:
        """For the next component, instances are kept or not. This must not change while a kernel pauses."""
        self._machine[M.RETURNING] = overdeletes and self._lists.count(L.RETURNS) > 0

    def restore(self, relation: Relation) -> None:
        """Let the facts of a relation that came back wait for insertion."""
        if self.brings_back:
            self._transaction.undo.reserve(len(self._kept))
            relation.queues.reserve(len(self._kept))
            restore(self._machine, relation.number, address(self._kept), len(self._kept))

    def finish(self) -> Words:
        """The update is done: take the marks off, and give the instances that were kept."""
        self._machine[M.WORK + W.INSERTION] -= self._machine[M.RESTORED]
        if self._lists.count(L.RETURNS) == 0:
            return NO_WORDS
        take_returns(self._machine)
        kept = self._lists.entries(L.RETURNS).copy()
        self._lists.clear(L.RETURNS)
        return kept

    def forget(self) -> None:
        """Take off every mark after a failure."""
        if self._lists.count(L.RETURNS):
            take_returns(self._machine)
            self._lists.clear(L.RETURNS)
