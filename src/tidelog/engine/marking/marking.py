"""Marking: while one update is in work, find out what the next one will have to check (Backward/Forward with Marking).

The explicit facts that the next update deletes are marked as soon as that update is there (line 9). A rule instance
that is found anyway, in insertion or in forward chaining, marks its head if it uses a marked fact (lines 12 and 29):
with Backward/Forward only an explicit one, with Delete/Rederive (section 3.1) any. A rule with one body atom needs no
search at all (`copied_marks`). In the end marks are taken off, and the marked heads are kept: the next update's list of
facts to check begins with them (line 32), and an instance that leads to one of them is then no application of line 23.

In a stream under Backward/Forward, `deletion` counts the applications of line 23, with marks and without: instances
that lead to a fact that is not in D or C yet. Elsewhere it counts every instance that spreads a deletion.

Marks change order and work, never results: a candidate for deletion is proved, or derived again, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tidelog.engine.propagation.mark_kernels import mark_explicit, seed_expected
from tidelog.engine.update.runner import Runner
from tidelog.engine.update.undo import UndoLog
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.jit import address
from tidelog.machine.status import DONE
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

Rows = Mapping[str, Cells]

# What a fact of a rule body must be for the head to be marked.
EXPLICIT_MARKS = F.EXPLICIT | F.MARKED
ALL_MARKS = F.MARKED

# Marks are passed on if at least one fact is marked for so many that come in.
WORTH_WHILE = 64


class Marking:
    """The marks of an update in work. What was marked while its predecessor was is in the list of expected facts."""

    def __init__(self, store: Store, runner: Runner, undo: UndoLog, streams: bool) -> None:
        self._runner = runner
        self._undo = undo
        self._machine = store.machine
        self._lists = store.lists
        self._streams = streams
        self._begun = False
        self._coming: set[str] = set()
        self._deletions: Rows = {}
        self._additions: Rows = {}
        self._incoming = 0
        self.marked: dict[str, Cells] = {}  # the deletions of the next update, by predicate, as far as they are marked
        self.announced: set[int] = set()  # rules of which all heads that lose a derivation are expected
        # The machine holds no marks of this update yet.
        self._machine[M.MARKING] = 0
        self._machine[M.SAVED] = 0
        self._machine[M.PASSING] = ALL_MARKS
        self._lists.clear(L.MARKED)
        self._lists.clear(L.MARKED_PLACES)

    def begin(self, coming: set[str]) -> None:
        """Facts may be marked in this update; it adds explicit ones of these predicates."""
        self._begun, self._coming = True, coming

    def look(self, deletions: Rows, additions: Rows, relation_of: Callable[[str], Relation | None]) -> None:
        """The next update is there: mark the explicit facts that it deletes and does not add again.

        Those of predicates for which explicit facts are still to come are marked once they are there.
        """
        if not self._begun:
            return
        self._deletions, self._additions = deletions, additions
        for predicate in deletions:
            if predicate not in self._coming:
                self._mark(predicate, relation_of(predicate))

    def came(self, predicate: str, relation: Relation, count: int) -> None:
        """So many explicit facts of a predicate have come."""
        self._incoming += count
        if predicate in self._coming:
            self._coming.discard(predicate)
            if predicate in self._deletions:
                self._mark(predicate, relation)

    def _mark(self, predicate: str, relation: Relation | None) -> None:
        rows = self._deletions[predicate]
        if relation is None or rows.shape[1] != relation.arity:
            return
        self.marked[predicate] = rows
        kept = self._additions.get(predicate)
        if kept is None or kept.shape[1] != relation.arity:
            kept = rows[:0]
        rows, kept = np.ascontiguousarray(rows), np.ascontiguousarray(kept)
        arguments = (relation.number, address(rows), len(rows), address(kept), len(kept))
        while mark_explicit(self._machine, *arguments) != DONE:
            self._lists.reserve(int(self._machine[M.FULL]), int(self._machine[M.STAGED]))

    def pass_on(self, care: int) -> None:
        """In the next component, mark the heads whose bodies have a fact with these flags; with 0, none.

        Looking at every instance has its price. Where marked facts are few among many that come in, they cannot repay
        it, and marks are not passed on.
        """
        machine = self._machine
        machine[M.KNOWN] = F.DELETED | F.CHECKED if self._streams and care == EXPLICIT_MARKS else F.EXPECTED
        machine[M.MARKING] = care if self._incoming < WORTH_WHILE * self._lists.count(L.MARKED) else 0
        if care:
            machine[M.PASSING] = care

    def seed(self, relation: Relation, protect: bool) -> None:
        """Let the facts that were marked before this update wait for deletion; `protect` as for any overdeletion."""
        expected = self._lists.count(L.EXPECTED)
        while expected and seed_expected(self._machine, relation.number, protect) != DONE:
            self._undo.reserve(expected)
            relation.queues.reserve(expected)

    def finish(self, share: Callable[..., int]) -> None:
        """The update is done: take the marks off, and let the next one expect the marked derived facts."""
        machine = self._machine
        machine[M.WORK + W.DELETION] -= machine[M.SAVED]
        self._lists.clear(L.EXPECTED)
        if self._lists.count(L.MARKED):
            machine[M.COPY_FACT] = machine[M.COPY_PLAN] = 0
            # It seldom has to pause; if it does, it begins again.
            if share(machine) != DONE:
                self._runner.run(share)
