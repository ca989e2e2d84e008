"""The fully dynamic mode: updates come in while earlier ones are in work (Fully Dynamic Materialization Maintenance).

The paper lets additions and deletions of different updates run into each other. It then has to keep facts from
supporting themselves, from being deleted and added without end, and operations from being half propagated. Here
operations meet before they are propagated, and again while they are: what waits is a set of net operations
(`backlog`), and what is in work is a transaction in slices. Between two slices, whatever has come in is taken in;
operations on the same fact cancel; and a transaction of which too little is left is rolled back and begun again with
the rest. So each state that is ever seen is mat(P, E) of a prefix of the updates, whatever the interleaving, with
negation, aggregates and closures as with plain rules, and no fact can be its own reason.

`overlap="operations"` is the paper's own way, in which operations meet while they are propagated (`live.operations`).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Self

import numpy as np

from tidelog.engine.update.rows import NO_ROWS, Rows
from tidelog.errors import LimitError, TidelogError
from tidelog.facts.arguments import Time, checked_facts
from tidelog.facts.questions import warn_of_unknown
from tidelog.facts.results import Answers, Change, FactSet
from tidelog.language.syntax import Atom, Query
from tidelog.live.incoming import GivenFacts
from tidelog.live.intake import Intake
from tidelog.live.knowledge import Knowledge
from tidelog.live.subscriptions import OnChange, Subscription
from tidelog.live.update_sources import UpdateMapping
from tidelog.live.worker import Worker
from tidelog.program.catalogue import Catalogue
from tidelog.runtime.knowledge_lock import unguarded
from tidelog.runtime.signals import deferred
from tidelog.runtime.thread_locks import ThreadLock


class Live:
    """Updates in flux. A unit of work is a slice of a transaction.

    `backlog` bounds the updates that wait. When it is full, `submit` waits for room, or works until there is some if
    nobody else does; with `when_full="raise"` it refuses. As a context manager, a thread in the background does the
    work. With `overlap="operations"`, updates in flux are not batches but operations on single facts, a unit of work is
    a step of the paper's algorithm, and readers see the last settled state meanwhile.

    Examples:
        >>> live = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).").live()
        >>> live.submit(add={"edge": [("a", "b")]}), live.submit(delete={"edge": [("a", "b")]}), live.pending
        (1, 2, 2)
        >>> live.settle(), live.settled
        (<Change: no change>, 2)
    """

    def __init__(
        self,
        knowledge: Knowledge,
        backlog: int | None = None,
        when_full: str = "wait",
        overlap: str = "batches",
    ) -> None:
        if when_full not in ("wait", "raise"):
            raise TidelogError(f'`when_full` is "wait" or "raise", not {when_full!r}')
        if backlog is not None and (type(backlog) is not int or backlog < 1):
            raise TidelogError(f"a backlog holds a number of updates, at least one, not {backlog!r}")
        if overlap not in ("batches", "operations"):
            raise TidelogError(f'`overlap` is "batches" or "operations", not {overlap!r}')
        self._knowledge = knowledge
        self._backlog = backlog
        self._when_full = when_full
        self._lock = knowledge.lock
        self._intake = Intake(knowledge)
        self._worker = _worker(overlap)(knowledge, self._intake)
        self._demand = self._worker.demand

    def submit(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        priority: int = 0,
        client: Hashable = None,
        at: Time | None = None,
    ) -> int:
        """Take in an update and return at once: its number, counted from 1. `at` is when its facts come in; see
        `KnowledgeBase.advance`.

        Of updates that wait, those with the highest `priority` go first, and what is in work gives way to them. Updates
        of one `client` keep their order; those that name none may pass any other. An update that turns out to be wrong
        is refused as a whole, and `step` or `settle` says so.
        """
        check_priority(priority)
        update = given_update(add, delete, add_rules, remove_rules, at)
        self._make_room()
        return self.take(update, priority, client)

    def take(self, update: UpdateMapping, priority: int = 0, client: Hashable = None) -> int:
        """Take in an update, whether or not there is room; its number."""
        with deferred():
            number = self._intake.append(update, priority, client)
            self._worker.wake()
            self._intake.window.use()
        return number

    def _make_room(self) -> None:
        while not self.has_room():
            self.refuse_if_full()
            if self._demand.background:
                with self._lock.bare():
                    # The thread in the background may be told to stop meanwhile; and it may have failed.
                    self._worker.call()
                    self._lock.wait_for(lambda: self.has_room() or not self._demand.background)
            else:
                self.step()

    def has_room(self, coming: int = 0) -> bool:
        """Whether there is room for an update beside those that are pending or coming."""
        return self._backlog is None or self.pending + coming < self._backlog

    def refuse_if_full(self) -> None:
        """There is no room. Raise, unless it is to be waited for."""
        if self._when_full == "raise":
            raise LimitError(f"{self.pending} updates are pending, and the backlog holds {self._backlog}: settle first")

    @property
    def pending(self) -> int:
        """How many submitted updates are not settled yet."""
        return self._intake.pending

    @property
    def settled(self) -> int:
        """The number of the last update that is settled; those before it are settled, too."""
        return self._intake.settled

    def is_settled(self, number: int) -> bool:
        """Whether an update can be seen, or was refused; it may be settled before others that came earlier."""
        return self._intake.is_settled(number)

    def step(self, n: int = 1) -> int:
        """Do at most `n` units of work; the number of updates that are still pending."""
        if n < 0:
            raise TidelogError(f"`step` takes a number of units of work, not {n}")
        demand = self._demand
        with self._lock.bare():
            demand.units += n  # Other threads may have asked as well.
            self._worker.call()
            self._lock.wait_for(lambda: demand.units <= 0 or self.pending == 0)
            if self.pending == 0:
                demand.units = 0
        self._intake.raise_refused()
        return self.pending

    def settle(self) -> Change:
        """Finish all that was submitted before; the net change since the last time."""
        try:
            return self._settle()
        finally:
            self._knowledge.deliver()

    def _settle(self) -> Change:
        target = self._intake.submitted
        with deferred():
            with self._lock.bare():
                self._demand.change(1)
                here = self._worker.becomes(threading.current_thread())
                self._worker.call()
            try:
                if here:
                    self._worker.work_here(target)
                with self._lock.bare():
                    self._lock.wait_for(lambda: self.settled >= target)
            finally:
                self._demand.change(-1)
            return self.take_change()

    def take_change(self) -> Change:
        """The net change of what has been settled since the last time; raises what was refused."""
        with self._lock.bare():
            self._intake.raise_refused()
            changes = self._intake.take_changes()
        with self._lock.working():
            return self._intake.net(changes)

    def settle_all(self) -> None:
        """Finish what was submitted, and keep the change for the next `settle`."""
        target = self._intake.submitted
        with self._lock.bare():
            self._demand.change(1)
            try:
                self._worker.call()
                self._lock.wait_for(lambda: self.settled >= target)
            finally:
                self._demand.change(-1)
        self._intake.raise_refused()

    def subscribe(self, query: str | Query, on_change: OnChange, /, **values: object) -> Subscription:
        """Be told of the answers of a query, and then of what comes and what goes; see `KnowledgeBase.subscribe`. What
        the thread in the background changes is told by another thread, and what `settle` works on, by `settle`.
        """
        return self._knowledge.subscriptions.subscribe(query, on_change, values)

    def snapshot(self) -> Snapshot:
        """The state that was committed last, to read from while updates go on."""
        with self._lock:
            return Snapshot(self._knowledge, self.settled, self._intake.settled_ahead)

    def __enter__(self) -> Self:
        with self._lock.bare():
            self._demand.change(1, background=1)
            self._worker.call()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.settle_all()
        finally:
            self.leave()

    def leave(self) -> None:
        """The thread in the background is no longer wanted. Waits for nobody."""
        with deferred():
            self._demand.change(-1, background=-1)
            self._worker.wake()


def check_priority(priority: object) -> None:
    if type(priority) is not int:
        raise TidelogError(f"a priority is an integer, not {priority!r}")


def given_update(
    add: GivenFacts, delete: GivenFacts, add_rules: str, remove_rules: str, at: Time | None
) -> UpdateMapping:
    """The parts of an update that are not empty, as they are now."""
    added, deleted = (
        facts if isinstance(facts, str) else {name: _kept(rows) for name, rows in checked_facts(facts, key).items()}
        for key, facts in (("add", add), ("delete", delete))
    )
    parts = {"add": added, "delete": deleted, "add_rules": add_rules, "remove_rules": remove_rules}
    return {key: part for key, part in parts.items() if part} | ({} if at is None else {"at": at})


def _worker(overlap: str) -> type[Worker]:
    if overlap == "batches":
        return Worker
    from tidelog.live.operations.mode import OperationsWorker

    return OperationsWorker


def _kept(rows: Any) -> Any:
    """Rows as they are now, whatever the caller does to the list afterwards."""
    if isinstance(rows, list | set):
        return [tuple(row) if isinstance(row, list) else row for row in rows]
    return rows.copy() if isinstance(rows, np.ndarray) else rows


class Snapshot:
    """A settled state to read from while updates go on: all facts as they were after a number of updates.

    Examples:
        >>> kb = tidelog.KnowledgeBase("edge(a, b).")
        >>> snapshot = kb.live().snapshot()
        >>> _ = kb.update(delete={"edge": [("a", "b")]})
        >>> list(snapshot.facts("edge")), len(kb)
        ([('a', 'b')], 0)
    """

    def __init__(self, knowledge: Knowledge, updates: int, passed: frozenset[int]) -> None:
        """Copy what holds now; the caller has the lock. `passed` are updates after those that are included as well."""
        self._passed = passed
        self._terms = knowledge.engine.store.terms.table
        self._facts: dict[str, FactSet] = {}
        for name in map(knowledge.catalogue.resolve, knowledge.reader.predicates()):
            cells, terms = knowledge.reader.rows(name)
            self._facts[name] = FactSet(terms, Rows.of(cells))
        catalogue = knowledge.catalogue
        self._catalogue = Catalogue(catalogue.prefixes, catalogue.arities, declared=catalogue.declared)
        self._on_error = knowledge.failures.on_error
        self._functions = {name: unguarded(function) for name, function in knowledge.functions.items()}
        self._updates = updates
        self._copying = ThreadLock()
        self._copied: Knowledge | None = None

    @property
    def updates(self) -> int:
        """The number up to which it includes all updates that were submitted."""
        return self._updates

    def includes(self, number: int) -> bool:
        """Whether it includes an update; it may include some that have passed others before them.

        Examples:
            >>> live = tidelog.KnowledgeBase().live()
            >>> number = live.submit(add={"edge": [("a", "b")]})
            >>> before, _ = live.snapshot(), live.settle()
            >>> before.includes(number), live.snapshot().includes(number)
            (False, True)
        """
        return number <= self._updates or number in self._passed

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts.

        Examples:
            >>> tidelog.KnowledgeBase("edge(a, b).").live().snapshot().predicates
            ['edge']
        """
        return sorted(self._catalogue.display(name) for name, rows in self._facts.items() if len(rows))

    def facts(self, predicate: str) -> FactSet:
        """The facts of a predicate."""
        name = self._catalogue.resolve(predicate)
        warn_of_unknown(self._catalogue, name)
        found = self._facts.get(name)
        return found if found is not None else FactSet(self._terms, NO_ROWS)

    def query(self, text: str | Query, /, **values: object) -> Answers:
        """The answers of a query, with the values of its parameters. The first one copies the facts into a knowledge
        base of their own.
        """
        return self._copy().questions.query(text, values)

    def __contains__(self, fact: object) -> bool:
        return isinstance(fact, str | tuple | Atom) and self._copy().questions.holds(fact)

    def __len__(self) -> int:
        return sum(map(len, self._facts.values()))

    def _copy(self) -> Knowledge:
        """The facts in a knowledge base of their own, made once; but a signal handler that asks while it is being made
        makes another one.
        """
        with self._copying.mutex:
            if self._copied is None:
                copied = Knowledge(on_error=self._on_error)
                known = self._catalogue
                copied.catalogue.restore(known.prefixes, known.arities, {}, known.declared)
                for name, function in self._functions.items():
                    copied.register(name, function)
                copied.update(add={name: rows.to_arrow() for name, rows in self._facts.items() if len(rows)})
                self._copied = copied
            return self._copied
