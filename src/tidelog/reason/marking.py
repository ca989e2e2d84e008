"""Marking: while one update is in work, find out what the next one will have to check (Backward/Forward with Marking).

The explicit facts that the next update deletes are marked as soon as that update is there (line 9). A rule instance
that is found anyway, in insertion or in forward chaining, marks its head where it uses a marked fact (lines 12 and
29): with Backward/Forward only an explicit one, with Delete/Rederive (section 3.1) any. A rule with one body atom needs
no search at all: its head is the fact itself under another name and shares its mark. In the end marks are taken off,
and the marked heads are kept as rows: they open the next update's list of facts to check (line 32), and an instance
that leads to one of them is no application of line 23 any more.

In a stream under Backward/Forward, `deletion` counts the applications of line 23, with marks and without: instances
that lead to a fact that nobody has asked about yet. Elsewhere it counts every instance that spreads a deletion.

Marks change order and work, never results: a candidate for deletion is proved, or derived again, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidelog.program.plan import Pivot, Start
from tidelog.reason.mark_kernels import (
    LIST_MARKED,
    LIST_MARKED_PLACES,
    MARKED,
    MARKED_PLACES,
    mark_rows,
    seed_rows,
    unmark,
)
from tidelog.reason.rows import matches
from tidelog.reason.sets import HOLDING
from tidelog.store.jit import address
from tidelog.store.layout import (
    F_CHECKED,
    F_DELETED,
    F_EXPECTED,
    F_EXPLICIT,
    F_IN,
    F_MARKED,
    M_HEADS_CAPACITY,
    M_KNOWN,
    M_MARKING,
    M_SAVED,
    M_WORK,
    W_DELETION,
    W_MARKED_EXPLICIT,
    W_MARKED_IMPLICIT,
)
from tidelog.store.relation import Cells, Relation

if TYPE_CHECKING:
    from tidelog.reason.compiled import CompiledRule
    from tidelog.reason.transaction import Transaction

Rows = dict[str, Cells]
Copies = Callable[[str], "Iterator[tuple[CompiledRule, int]]"]

# What a fact of a rule body must be for the head to be marked.
EXPLICIT_MARKS = F_EXPLICIT | F_MARKED
ALL_MARKS = F_MARKED

# One marked fact among so many that come in is worth looking for.
WORTH_WHILE = 64

FIRST = Pivot(Start.POSITIVE, 0)


class Marking:
    """The marks of an update in work; `expected` are the heads that were marked while its predecessor was."""

    def __init__(self, transaction: Transaction, expected: Rows, streams: bool) -> None:
        self._transaction = transaction
        self._machine = transaction.machine
        self._expected = expected
        self._deletions: Rows = {}
        self._incoming = 0
        self._streams = streams
        self._machine[M_MARKING] = 0
        self._machine[M_SAVED] = 0
        for number in (LIST_MARKED, LIST_MARKED_PLACES):
            transaction.clear_list(number)

    # --- the next update ---

    def look(self, deletions: Rows) -> None:
        """The next update is there: mark the explicit facts that it deletes."""
        self._deletions = deletions
        store = self._transaction.store
        if self._machine[MARKED_PLACES + 2] < self._machine[M_HEADS_CAPACITY]:
            store.grow_list(LIST_MARKED_PLACES, int(self._machine[M_HEADS_CAPACITY]))
        for predicate in deletions:
            relation = store.find(predicate)
            if relation is not None:
                self.mark_explicit(relation)

    def mark_explicit(self, relation: Relation, come: int = 0) -> None:
        """Mark what the next update deletes of a relation; again when so many explicit facts have come."""
        self._incoming += come
        rows = self._deletions.get(relation.name)
        if rows is not None and rows.shape[1] == relation.arity:
            self._machine[M_WORK + W_MARKED_EXPLICIT] += self._mark(relation, rows, F_EXPLICIT)

    def _mark(self, relation: Relation, rows: Cells, care: int) -> int:
        machine = self._machine
        if machine[MARKED + 1] + len(rows) > machine[MARKED + 2]:
            self._transaction.store.grow_list(LIST_MARKED, int(machine[MARKED + 1]) + len(rows))
        rows = np.ascontiguousarray(rows, np.int32)
        return int(mark_rows(machine, relation.number, address(rows), len(rows), care))

    def pass_on(self, care: int) -> None:
        """For the next component heads are marked whose bodies have a fact with these flags; with 0, none are.

        Looking at every instance has its price, and where marked facts are few among many that come in, they cannot
        repay it: then marks stay where they are.
        """
        self._machine[M_KNOWN] = F_DELETED | F_CHECKED if self._streams and care == EXPLICIT_MARKS else F_EXPECTED
        marked = int(self._machine[MARKED + 1])
        self._machine[M_MARKING] = care if self._incoming < WORTH_WHILE * marked else 0

    # --- the current update ---

    def seed(self, relation: Relation, protect: bool) -> None:
        """Let the facts that were marked before this update wait for deletion; `protect` as for any overdeletion."""
        rows = self._expected.pop(relation.name, None)
        if rows is None:
            return
        self._transaction.reserve_log(len(rows))
        relation.reserve(len(rows))
        seed_rows(self._machine, relation.number, address(rows), len(rows), protect)

    def finish(self, copies_of: Copies) -> Rows:
        """The update is done: take the marks off. The marked derived facts, by predicate."""
        machine = self._machine
        machine[M_WORK + W_DELETION] -= machine[M_SAVED]
        if machine[MARKED + 1] == 0:
            return {}
        self._share_with_copies(copies_of)
        result: Rows = {}
        for relation, facts in self._marked(0):
            derived = facts[_flags(relation, facts) & (F_IN | F_EXPLICIT) == F_IN]
            if len(derived):
                result[relation.name] = np.ascontiguousarray(relation.rows(derived))
                machine[M_WORK + W_MARKED_IMPLICIT] += len(derived)
        self.forget()
        return result

    def _share_with_copies(self, copies_of: Copies) -> None:
        """Rules with one body atom: their heads have the marks of their bodies."""
        done = 0
        while done < self._machine[MARKED + 1]:
            fresh = self._marked(done)
            done = int(self._machine[MARKED + 1])
            for relation, facts in fresh:
                for rule, care in copies_of(relation.name):
                    wanted = care | F_IN
                    passing = facts[_flags(relation, facts) & wanted == wanted]
                    if len(passing):
                        rows = matches(self._transaction, HOLDING, rule.offset(FIRST), rule.head.arity, passing)
                        self._mark(rule.head, rows, F_IN)

    def _marked(self, since: int) -> list[tuple[Relation, Cells]]:
        """The facts that have been marked, by relation, from a place in the list on."""
        store = self._transaction.store
        entries = store.list_entries(LIST_MARKED)[since:]
        numbers = entries >> 32
        facts = (entries & 0xFFFFFFFF).astype(np.int32)
        return [(store.relations[number], facts[numbers == number]) for number in sorted(set(numbers.tolist()))]

    def release(self, relation: Relation) -> None:
        """Take the marks off the facts of one relation: its records are about to leave it."""
        entries = self._transaction.store.list_entries(LIST_MARKED)
        own = entries >> 32 == relation.number
        if own.any():
            facts = (entries[own] & 0xFFFFFFFF).astype(np.int32)
            relation.cells[facts, relation.flags_column] &= ~F_MARKED
            others = entries[~own]
            entries[: len(others)] = others
            self._machine[MARKED + 1] = len(others)

    def forget(self) -> None:
        """Take every mark off, also after a failure, when a fact's record may have come back as it was when marked."""
        unmark(self._machine)


def is_copy_of(rule: CompiledRule, predicate: str) -> bool:
    """Whether a rule's body is one positive atom of this predicate: its head then shares the marks of the fact."""
    positives = rule.normal.positives
    return len(positives) == 1 and not rule.normal.negatives and positives[0].predicate == predicate


def _flags(relation: Relation, facts: Cells) -> Cells:
    return relation.cells[facts, relation.flags_column]
