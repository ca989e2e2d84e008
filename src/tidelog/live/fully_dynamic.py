"""The fully dynamic mode: updates come in while earlier ones are in work (Fully Dynamic Materialization Maintenance).

The paper lets additions and deletions of different updates run into each other, and then has to keep facts from holding
themselves up, from being deleted and added without end, and operations from being half propagated. Here operations
meet before they are propagated, and once more while they are: what waits is a set of net operations (`backlog`), and
what is in work is a transaction in slices. Between two slices whatever has come in is taken in; operations on the same
fact cancel; and a transaction of which too little is left is rolled back and begun again with the rest. So each state
that is ever seen is mat(P, E) of a prefix of the updates, whatever the interleaving, with negation, aggregates and
closures as with plain rules, and no fact can be its own reason.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tidelog.engine.outcome import Request
from tidelog.engine.transaction import Transaction
from tidelog.errors import LimitError, TidelogError
from tidelog.facts.arguments import checked_facts
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.netting import net_change
from tidelog.facts.results import Change
from tidelog.live.backlog import Batch, Part, Submission
from tidelog.live.intake import Window
from tidelog.live.settled_view import Snapshot
from tidelog.live.streams import check_update
from tidelog.live.update_sources import UpdateMapping
from tidelog.machine.growth import no_pause
from tidelog.program.catalogue import RuleUpdate
from tidelog.runtime.signals import check, comes_from_signal, deferred
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase

# Candidates in a slice: mostly under 0.2 ms.
SLICE = 5_000

# Changes that are kept apart before they are folded into one.
KEPT_CHANGES = 32


# Seconds in which a thread that waits for the lock gets it.
TURN = 0.0002


class _StartAgain(Exception):
    """What is in work is to be rolled back: little of it is left."""


class Live:
    """Updates in flux. A unit of work is a slice of a transaction.

    `backlog` bounds the updates that wait. Beyond it `submit` waits for room, or works until there is some where nobody
    else does; with `when_full="raise"` it refuses. As a context manager, a thread in the background does the work.
    """

    def __init__(self, kb: KnowledgeBase, backlog: int | None = None, when_full: str = "wait") -> None:
        if when_full not in ("wait", "raise"):
            raise TidelogError(f'`when_full` is "wait" or "raise", not {when_full!r}')
        if backlog is not None and (type(backlog) is not int or backlog < 1):
            raise TidelogError(f"a backlog holds a number of updates, at least one, not {backlog!r}")
        self._kb = kb
        self._backlog = backlog
        self._when_full = when_full
        self._lock = kb._lock
        self._intake = threading.RLock()  # a finalizer may submit while its thread does
        self._incoming: deque[Submission] = deque()
        self._read_early: dict[int, Part] = {}  # of those that come, while one before them was read
        self._waiting: deque[Batch | Submission] = deque()
        self._in_work: Batch | Submission | None = None
        self._submitted = 0
        self._settled = 0
        self._transactions = 0
        self._units = 0  # that somebody asked for and that are still to be done
        self._unlimited = 0  # those who want everything to be done
        self._finishing = 0  # those who wait for the transaction in work
        self._background = 0  # contexts in which a thread works whenever there is work
        self._worker: threading.Thread | None = None
        # For the worker and for how many want something: who says that he wants no more does not wait for an update.
        self._wants = threading.Lock()
        self._process = os.getpid()  # the process that the worker is of
        self._wake = threading.Event()
        self.window = Window(self._can_take_in_beside, self._take_in_beside)
        self._news = False  # something was taken in since the transaction in work was last held against it
        self._problem: BaseException | None = None  # that taking an update in met, to be raised where it can be
        self._changes: list[Change] = []
        self._refused: list[tuple[int, BaseException]] = []
        kb._engine.reclaiming.add_holder(self)
        Terms.load_kernels()  # Who submits does not wait for them.

    # --- for everybody ---

    def submit(
        self,
        add: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        add_rules: str = "",
        remove_rules: str = "",
    ) -> int:
        """Take in an update and return at once: its number, counted from 1.

        An update that turns out to be wrong is refused as a whole, and `step` or `settle` says so.
        """
        added, deleted = _kept(checked_facts(add, "add")), _kept(checked_facts(delete, "delete"))
        parts = {"add": added, "delete": deleted, "add_rules": add_rules, "remove_rules": remove_rules}
        update = check_update({key: part for key, part in parts.items() if part})
        self._make_room()
        with deferred():
            number = self._append(update)
            self._wake.set()
            self.window.use()
        return number

    def _append(self, update: UpdateMapping) -> int:
        with self._intake:
            while True:
                submission = Submission(self._submitted + 1, update)
                # A finalizer that ran meanwhile may have submitted something.
                if submission.number == self._submitted + 1:
                    break
            self._submitted += 1
            self._incoming.append(submission)
            return submission.number

    @property
    def pending(self) -> int:
        """How many submitted updates are not settled yet."""
        return self._submitted - self._settled

    @property
    def settled(self) -> int:
        """The number of the last update that is settled; those before it are as well."""
        return self._settled

    def step(self, n: int = 1) -> int:
        """Do at most `n` units of work; the number of updates that are still pending."""
        if n < 0:
            raise TidelogError(f"`step` takes a number of units of work, not {n}")
        with self._lock.bare():
            self._units += n  # others may have asked as well
            self._call_worker()
            self._lock.wait_for(lambda: self._units <= 0 or self.pending == 0)
            if self.pending == 0:
                self._units = 0
        self._raise_refused()
        return self.pending

    def settle(self) -> Change:
        """Finish all that was submitted before; the net change since the last time."""
        target = self._submitted
        with deferred():
            with self._lock.bare():
                self._want(1)
                here = self._becomes_worker(threading.current_thread())
                self._call_worker()
            try:
                if here:
                    self._work_here(target)
                with self._lock.bare():
                    self._lock.wait_for(lambda: self._settled >= target)
                    self._raise_refused()
                    changes, self._changes = self._changes, []
            finally:
                self._want(-1)
            with self._lock.working():
                return net_change(self._kb._engine.store.terms, changes)

    def _want(self, more: int, background: int = 0) -> None:
        """So many more want everything to be done, or fewer; so many more of them in the background."""
        with self._wants:
            self._unlimited += more
            self._background += background

    def snapshot(self) -> Snapshot:
        """A settled state to read from, while updates go on; the transaction in work, if any, is finished first."""
        with self._lock:
            return Snapshot.of(self._kb, self._settled)

    def __enter__(self) -> Self:
        with self._lock.bare():
            self._want(1, background=1)
            self._call_worker()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.settle_all()
        finally:
            with deferred():
                self._want(-1, background=-1)
                self._wake.set()

    def settle_all(self) -> None:
        """Finish what was submitted, keeping the change for the next `settle`."""
        target = self._submitted
        with self._lock.bare():
            self._want(1)
            try:
                self._call_worker()
                self._lock.wait_for(lambda: self._settled >= target)
            finally:
                self._want(-1)
        self._raise_refused()

    # --- room and errors ---

    def _make_room(self) -> None:
        while self._backlog is not None and self.pending >= self._backlog:
            if self._when_full == "raise":
                raise LimitError(
                    f"{self.pending} updates are pending, and the backlog holds {self._backlog}: settle first"
                )
            if self._background:
                with self._lock.bare():
                    # Whoever works in the background may be told to stop meanwhile.
                    self._lock.wait_for(lambda: self._has_room() or not self._background)
            else:
                self.step()

    def _has_room(self) -> bool:
        return self._backlog is None or self.pending < self._backlog

    def _refuse(self, number: int, problem: BaseException) -> None:
        problem.add_note(f"in update {number} that was submitted; it is refused as a whole, the others are not")
        self._refused.append((number, problem))

    def _raise_refused(self) -> None:
        """Raise what was refused since the last time."""
        if self._refused:
            refused, self._refused = self._refused, []
            for number, problem in refused[1:]:
                refused[0][1].add_note(f"update {number} is refused as well: {problem}")
            raise refused[0][1]

    # --- the worker ---

    def _call_worker(self) -> None:
        """See that somebody works; the caller holds the bare lock."""
        self._lock.condition.notify_all()
        self._wake.set()
        self._start_worker()

    def _start_worker(self) -> None:
        worker = threading.Thread(target=self._work, name="tidelog-live", daemon=True)
        if self._becomes_worker(worker):
            try:
                worker.start()
            except BaseException:  # There can be no more threads.
                self._worker = None
                raise

    def _becomes_worker(self, thread: threading.Thread) -> bool:
        """Let a thread be the one that works, unless another one is. In a forked child none is left of the parent's."""
        with self._wants:
            if self._worker is not None and self._process == os.getpid():
                return False
            self._worker, self._process = thread, os.getpid()
            return True

    def _work(self) -> None:
        """Work in the background. Whoever waits is told where that ends: the knowledge base is of no use any more."""
        try:
            self._work_on()
        except BaseException as problem:
            with self._lock.condition:
                self._worker = None
                self._incoming.clear()
                self._waiting.clear()
                for number in range(self._settled + 1, self._submitted + 1):
                    self._refuse(number, problem)
                self._settled = self._submitted
                self._lock.condition.notify_all()

    def _work_on(self) -> None:
        while True:
            self._wake.clear()
            with self._lock.condition:
                busy = self.pending > 0 and (self._units > 0 or self._unlimited > 0)
                if self.pending == 0 and self._units > 0:
                    # Whoever asked for them may come to look only when more has been submitted.
                    self._units = 0
                    self._lock.condition.notify_all()
                if not busy and not self._background:
                    self._worker = None
                    return
            if busy:
                self._give_way()
                self._work_on_next()
            else:
                self._wake.wait()

    def _work_here(self, target: int) -> None:
        """Work in the thread that wants it done, where nobody else works: that takes less than to wake another."""
        try:
            while self._settled < target:
                check()
                self._give_way()
                self._work_on_next()
        finally:
            self._worker = None
            if self._background or self._units > 0 or self._unlimited > 1:
                self._start_worker()

    def _give_way(self) -> None:
        """Between two transactions, let those have the knowledge base who wait for it."""
        if self._lock.waiting:
            time.sleep(TURN)

    def _work_on_next(self) -> None:
        with self._lock.reserved():
            self._take_in()
            if not self._waiting:
                return
            self._in_work = self._waiting.popleft()
            self._lock.begin(self._finish)
            try:
                self._complete(self._in_work)
            except _StartAgain:
                self._begin_again()
            except BaseException as problem:  # A registered function may even raise SystemExit.
                self._fall_back(self._in_work, problem)
            finally:
                self._in_work = None
                self._transactions += 1
                self._spend()
                self._lock.end()
                self._lock.condition.notify_all()

    def _complete(self, work: Batch | Submission) -> None:
        engine = self._kb._engine
        engine.observer = self
        try:
            change = self._apply(work)
        finally:
            engine.observer = None
        if change is not None:
            self._changes.append(change)
            if len(self._changes) > KEPT_CHANGES:
                self._changes = [net_change(engine.store.terms, self._changes)]
        self._settled = work.number if isinstance(work, Submission) else work.last

    def _apply(self, work: Batch | Submission) -> Change | None:
        if isinstance(work, Submission):
            return self._kb.update(**work.update)
        with self._lock.working():
            return self._apply_batch(work)

    def _apply_batch(self, work: Batch) -> Change | None:
        # Here too, since updates that undo each other get no further.
        self._kb._engine.reclaim_terms()
        # Those that the batch was taken in with may come of updates that have been refused since.
        arities = dict(self._kb._catalogue.arities)
        check_arities_of((facts for part in work.parts for facts in (part.delete, part.add)), arities)
        with self.window:
            request: Request = work.request(self._kb._engine)
        if not request.add and not request.delete:
            return None
        return self._kb._apply(request, RuleUpdate(arities))

    def _begin_again(self) -> None:
        """Put what was in work before what has come in since, as one."""
        later = self._waiting.popleft()
        assert isinstance(self._in_work, Batch)
        assert isinstance(later, Batch)
        self._in_work.merge(later)
        self._waiting.appendleft(self._in_work)

    def _fall_back(self, work: Batch | Submission, problem: BaseException) -> None:
        """Find the update that is to blame: one at a time they fail alone. If the handler of a signal raised, as
        after Ctrl-C, none is.
        """
        if comes_from_signal(problem):
            self._waiting.appendleft(work)
            raise problem
        if isinstance(work, Batch) and len(work.parts) > 1:
            self._waiting.extendleft(reversed(work.split()))
            return
        number = work.number if isinstance(work, Submission) else work.last
        self._refuse(number, problem)
        self._settled = number

    def held_rows(self) -> Iterator[Cells]:
        """Facts that are encoded and wait; see `engine.reclaiming`. For whoever has the lock while none is in work."""
        batches = [work for work in (self._in_work, *self._waiting) if isinstance(work, Batch)]
        for part in (*(part for batch in batches for part in batch.parts), *self._read_early.values()):
            yield from (*part.delete.values(), *part.add.values())

    # --- between two slices ---

    streams = False

    @property
    def budget(self) -> int:
        return SLICE

    def observe(self, transaction: Transaction) -> None:
        """Take in what came, start again where that is better, and rest where nobody asked for more."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        if isinstance(self._in_work, Batch) and (self._incoming or self._news):
            with self.window.using_terms():
                self._take_in()
            self._start_again_if_undone(self._in_work)
        self._spend()
        if not self._may_go_on():
            self._lock.condition.notify_all()
            self._lock.wait_for(self._may_go_on)

    def _start_again_if_undone(self, work: Batch) -> None:
        """Hold what is in work against what was taken in since the last time."""
        if self._news:
            self._news = False
            later = self._waiting[0] if self._waiting else None
            if isinstance(later, Batch) and work.is_undone_by(later):
                raise _StartAgain

    def between_pieces(self) -> None:
        """Take in what came, in the middle of what cannot be left: a problem is raised when that is done."""
        if self._incoming and isinstance(self._in_work, Batch) and self._problem is None:
            try:
                with self.window.using_terms():
                    self._take_in()
            except BaseException as problem:
                self._problem = problem

    def _spend(self) -> None:
        """A unit of work is done."""
        self._units = max(0, self._units - 1)

    def _may_go_on(self) -> bool:
        return self._units > 0 or self._unlimited > 0 or self._finishing > 0

    def _finish(self) -> None:
        """Wait until the transaction in work is done, whoever asked for how much."""
        with self._lock.bare():
            done = self._transactions
            self._finishing += 1
            self._lock.condition.notify_all()
            try:
                self._lock.wait_for(lambda: self._transactions > done or self._in_work is None)
            finally:
                self._finishing -= 1

    def _take_in(self) -> None:
        """Merge what came in with what waits; a change of rules is worked on alone, and what follows waits for it. What
        comes in meanwhile is left for the next time: whoever submits without end must not keep others from their work.
        """
        for _ in range(len(self._incoming)):
            if self._incoming and not self._waits_for_rules():
                self._take_in_next()

    def _waits_for_rules(self) -> bool:
        return bool(self._waiting) and isinstance(self._waiting[-1], Submission)

    def _take_in_next(self) -> None:
        submission = self._incoming[0]
        if submission.changes_rules:
            self._waiting.append(submission)
        else:
            if not self._waiting:
                self._waiting.append(Batch())
            batch = self._waiting[-1]
            assert isinstance(batch, Batch)
            batch.append(self._encoded(submission, batch))
        self._news = True
        # Last: what raises before leaves it where it is.
        self._incoming.popleft()

    def _can_take_in_beside(self) -> bool:
        """Whether the next update may be taken in by whoever submits: it is small, and nothing else is in work than
        facts."""
        try:
            next_one = self._incoming[0]
            waits_for_rules = self._waits_for_rules()
        except IndexError:  # There is none, or somebody has just taken away what is looked at here, and looks himself.
            return False
        in_work = isinstance(self._in_work, Batch) and not waits_for_rules
        return in_work and next_one.is_small and not next_one.changes_rules

    def _take_in_beside(self) -> None:
        with self._kb._engine.store.readers.entered():  # Whoever works may wait until this is done.
            if self._can_take_in_beside():  # Somebody else may have done so.
                self._take_in_next()

    def _encoded(self, submission: Submission, batch: Batch) -> Part:
        """The facts of a submission; one that cannot be read is refused, and does nothing."""
        in_work = self._in_work.arities if isinstance(self._in_work, Batch) else {}
        arities = {**self._kb._catalogue.arities, **in_work, **batch.arities}
        try:
            with self._kb._terms_if_it_succeeds():
                part = self._read_early.pop(submission.number, None) or self._read(submission, arities)
                check_arities_of((part.delete, part.add), arities)
        except (Exception, SystemExit) as problem:  # Ctrl-C is for whoever submits: nothing is refused.
            self._refuse(submission.number, problem)
            return Part(submission.number, {}, {})
        batch.arities = arities
        return part

    def _read(self, submission: Submission, arities: dict[str, int]) -> Part:
        """Encode the facts of a submission; while that takes long, those that come after it are read as well."""
        kb, update = self._kb, submission.update
        terms = kb._engine.store.terms
        before = terms.between_blocks
        terms.between_blocks = self._read_next if before is no_pause else no_pause
        try:
            delete = kb._encode(update.get("delete") or {}, arities)
            return Part(submission.number, delete, kb._encode(update.get("add") or {}, arities))
        finally:
            terms.between_blocks = before

    def _read_next(self) -> None:
        """Read what came after the update that is being read, as far as it is small and rules do not change before it;
        a bad one waits for its turn."""
        for submission in list(self._incoming)[1:]:
            if submission.changes_rules:
                break
            if submission.number not in self._read_early and submission.is_small:
                with suppress(Exception):
                    self._read_early[submission.number] = self._read(submission, dict(self._kb._catalogue.arities))


def _kept(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as they are now, whatever the caller does to his lists afterwards."""
    return {name: _rows_kept(rows) for name, rows in facts.items()}


def _rows_kept(rows: Any) -> Any:
    if isinstance(rows, list | set):
        return [tuple(row) if isinstance(row, list) else row for row in rows]
    return rows.copy() if isinstance(rows, np.ndarray) else rows
