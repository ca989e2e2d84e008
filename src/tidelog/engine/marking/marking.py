"""Marking: while one update is in work, find out what later ones will have to check (Backward/Forward with Marking).

The explicit facts that the next update deletes are marked as soon as that update is there (line 9). A rule instance
that is found anyway, in insertion or in forward chaining, marks its head if it uses a marked fact (lines 12 and 29):
with Backward/Forward only an explicit one, with Delete/Rederive (section 3.1) any. A rule with one body atom needs no
search at all (`copied_marks`). In the end marks are taken off, and the marked heads are kept: the next update's list of
facts to check begins with them (line 32), and an instance that leads to one of them is then no application of line 23.

The paper looks one update ahead. Here a stream may look further, and a mark is for one of the updates to come: the one
that deletes the fact and does not add it again. An instance goes with the first of its facts that go, so that its head
gets the mark for that update. Marks for updates after the next one are listed, too, and put back on when the next one
begins; what they are for has come nearer then.

In a stream under Backward/Forward, `deletion` counts the applications of line 23, with marks and without: instances
that lead to a fact that is not in D or C yet. Elsewhere it counts every instance that spreads a deletion.

Marks change order and work, never results: a candidate for deletion is proved, or derived again, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tidelog.engine.propagation.mark_kernels import mark_explicit, put_marks, seed_expected
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


class Place(NamedTuple):
    """Which update of which stream one is."""

    stream: object
    number: int

    def following(self) -> Place:
        return Place(self.stream, self.number + 1)


class Marking:
    """The marks of an update in work. What was marked before and for this update is in the list of expected facts."""

    def __init__(self, store: Store, runner: Runner, undo: UndoLog, streams: bool) -> None:
        self._runner = runner
        self._undo = undo
        self._machine = store.machine
        self._lists = store.lists
        self._streams = streams
        self._begun = False
        self._coming: set[str] = set()
        self._facts_move = False
        self._ahead: list[tuple[Rows, Rows]] = []  # what the updates to come delete and add, from the next one on
        self._incoming = 0
        self.marked: dict[str, Cells] = {}  # the deletions of the next update, by predicate, as far as they are marked
        self.announced: set[int] = set()  # rules of which all heads that lose a derivation are expected
        # The machine holds no marks of this update yet.
        self._machine[M.MARKING] = 0
        self._machine[M.SAVED] = 0
        self._machine[M.PASSING] = ALL_MARKS
        self._lists.clear(L.MARKED)
        self._lists.clear(L.MARKED_PLACES)

    def begin(self, coming: set[str], passing: int, rules_change: bool) -> None:
        """Facts may be marked in this update; it adds explicit ones of these predicates. Those with all flags of
        `passing` pass marks on somewhere. Marks that were left for later updates are put back on.
        """
        self._begun, self._coming, self._facts_move = True, coming, rules_change
        self._machine[M.PASSING] = passing
        if self._lists.count(L.LATER):
            self._run(put_marks)

    @property
    def looked(self) -> int:
        """How many of the updates to come have been looked at."""
        return len(self._ahead)

    def look(self, deletions: Rows, additions: Rows, relation_of: Callable[[str], Relation | None]) -> None:
        """One more of the updates to come is there: mark the explicit facts that it deletes and does not add again.

        Those of predicates for which explicit facts are still to come are marked once they are there.
        """
        self._ahead.append((deletions, additions))
        if self._begun:
            for predicate in deletions:
                if predicate not in self._coming:
                    self._mark(predicate, relation_of(predicate), self.looked - 1)

    def came(self, predicate: str, relation: Relation, count: int) -> None:
        """So many explicit facts of a predicate have come. Where rules change, a closure may begin or end, and all of
        them may have come from elsewhere.
        """
        self._incoming += count
        if predicate in self._coming or self._facts_move:
            self._coming.discard(predicate)
            self.moved(predicate, relation)

    def moved(self, predicate: str, relation: Relation) -> None:
        """The explicit facts of a predicate may lie in records that have no marks yet."""
        if self._begun:
            for place, (deletions, _) in enumerate(self._ahead):
                if predicate in deletions:
                    self._mark(predicate, relation, place)

    def _mark(self, predicate: str, relation: Relation | None, place: int) -> None:
        deletions, additions = self._ahead[place]
        rows = deletions[predicate]
        if relation is None or rows.shape[1] != relation.arity:
            return
        if place == 0:
            self.marked[predicate] = rows
        kept = additions.get(predicate)
        if kept is None or kept.shape[1] != relation.arity:
            kept = rows[:0]
        rows, kept = np.ascontiguousarray(rows), np.ascontiguousarray(kept)
        self._run(mark_explicit, relation.number, address(rows), len(rows), address(kept), len(kept), F.NEXT << place)

    def _run(self, kernel: Callable[..., int], *arguments: int) -> None:
        """Run a kernel that needs nothing but room in a work list. It has no state: others may have paused."""
        while kernel(self._machine, *arguments) != DONE:
            self._lists.reserve(int(self._machine[M.FULL]), int(self._machine[M.STAGED]))

    def pass_on(self, care: int) -> None:
        """In the next component, mark the heads whose bodies have a fact with these flags; with 0, none.

        Looking at every instance has its price. Where marked facts are few among many that come in, they cannot repay
        it, and marks are not passed on.
        """
        machine = self._machine
        machine[M.KNOWN] = F.DELETED | F.CHECKED if self._streams and care == EXPLICIT_MARKS else F.EXPECTED
        machine[M.MARKING] = care if self._incoming < WORTH_WHILE * self._lists.count(L.MARKED) else 0

    def seed(self, relation: Relation, protect: bool) -> None:
        """Let the facts that were marked for this update wait for deletion; `protect` as for any overdeletion."""
        expected = self._lists.count(L.EXPECTED)
        while expected and seed_expected(self._machine, relation.number, protect) != DONE:
            self._undo.reserve(expected)
            relation.queues.reserve(expected)

    def finish(self, share: Callable[..., int]) -> None:
        """The update is done: take the marks off, and list what they tell the updates to come."""
        machine = self._machine
        machine[M.WORK + W.DELETION] -= machine[M.SAVED]
        self._lists.clear(L.EXPECTED)
        if self._lists.count(L.MARKED):
            machine[M.COPY_FACT] = machine[M.COPY_PLAN] = 0
            # It seldom has to pause; if it does, it begins again.
            if share(machine) != DONE:
                self._runner.run(share)
        else:
            self._lists.clear(L.LATER)
