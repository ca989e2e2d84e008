"""Working off what `kb.live()` has taken in: one transaction after the other, each in slices.

Between two slices, what has come in is taken in, a transaction that is largely undone by it starts again, and the work
rests where nobody asks for more.
"""

from __future__ import annotations

import os
import threading
import time

from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.results import Change
from tidelog.live.backlog import Batch, Part, Submission
from tidelog.live.intake import Intake, Window
from tidelog.live.knowledge import Knowledge
from tidelog.live.passing import Passing
from tidelog.machine.jit import working_time
from tidelog.program.catalogue import RuleUpdate
from tidelog.runtime.signals import check, comes_from_signal

# Candidates in a slice: mostly less than 0.2 ms.
SLICE = 5_000

# Seconds within which a thread that waits for the lock gets it.
TURN = 0.0002


class _StartAgain(Exception):
    """What is in work is to be rolled back: little of it is left."""


class _GiveWay(Exception):
    """What is in work is to be rolled back: other updates go first."""

    def __init__(self, first: list[Part]) -> None:
        self.first = first


class Demand:
    """How much work is asked for. It has a lock of its own: nobody who asks for less has to wait for an update."""

    def __init__(self) -> None:
        self.units = 0  # that were asked for and are still to be done
        self.everything = 0  # callers that want everything to be done
        self.background = 0  # contexts in which a thread works whenever there is work
        self.finishing = 0  # callers that wait for the transaction in work
        self._lock = threading.Lock()

    def change(self, everything: int, background: int = 0) -> None:
        """So many more, or fewer, want everything to be done; so many of them in the background."""
        with self._lock:
            self.everything += everything
            self.background += background

    def spend(self) -> None:
        """A unit of work is done."""
        self.units = max(0, self.units - 1)

    def allows_more(self) -> bool:
        return self.units > 0 or self.everything > 0 or self.finishing > 0


class Worker:
    """The thread that works: one in the background, or the one that wants the work done. While an update is in work,
    it observes the engine.
    """

    streams = False
    place = None
    passing_policy = Passing

    def __init__(self, knowledge: Knowledge, intake: Intake) -> None:
        self._knowledge = knowledge
        self._lock = knowledge.lock
        self._intake = intake
        self.window: Window = intake.window
        self.demand = Demand()
        self.thread: threading.Thread | None = None
        self._process = os.getpid()  # the process that the thread belongs to
        self._role = threading.Lock()  # for who works
        self._awake = threading.Event()
        self._transactions = 0
        self._passing = self.passing_policy(knowledge, intake)
        self._problem: BaseException | None = None  # met while an update was taken in; raised where it can be

    # --- who works ---

    def call(self) -> None:
        """See that somebody works. The caller has the bare lock."""
        self._lock.condition.notify_all()
        self.wake()
        self._start()

    def wake(self) -> None:
        """There is something new to look at."""
        self._awake.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="tidelog-live", daemon=True)
        if self.becomes(thread):
            try:
                thread.start()
            except BaseException:  # There can be no more threads.
                self.thread = None
                raise

    def becomes(self, thread: threading.Thread) -> bool:
        """Let a thread be the one that works, unless another is. A forked child has none of its parent's threads."""
        with self._role:
            if self.thread is not None and self._process == os.getpid():
                return False
            self.thread, self._process = thread, os.getpid()
            return True

    def _run(self) -> None:
        """Work in the background. If that fails, nothing can be done with the knowledge base any more, and those who
        wait are told.
        """
        try:
            self._work()
        except BaseException as problem:
            with self._lock.condition:
                self.thread = None
                self._intake.refuse_all(problem)
                self._lock.condition.notify_all()

    def _work(self) -> None:
        demand = self.demand
        while True:
            self._awake.clear()
            with self._lock.condition:
                pending = self._intake.pending
                busy = pending > 0 and (demand.units > 0 or demand.everything > 0)
                if pending == 0 and demand.units > 0:
                    # Those who asked for them may look only when more has been submitted.
                    demand.units = 0
                    self._lock.condition.notify_all()
                if not busy and not demand.background:
                    self.thread = None
                    return
            if busy:
                self.give_way()
                self._work_on_next()
                self._knowledge.deliver(elsewhere=True)
            else:
                self._awake.wait()

    def work_here(self, target: int) -> None:
        """Work in the calling thread until an update is settled. That takes less time than to wake another thread."""
        demand = self.demand
        try:
            while self._intake.settled < target:
                check()
                self.give_way()
                self._work_on_next()
        finally:
            self.thread = None
            if demand.background or demand.units > 0 or demand.everything > 1:
                self._start()

    def give_way(self) -> None:
        """Between two transactions, let those use the knowledge base who wait for it."""
        if self._lock.waiting:
            time.sleep(TURN)

    # --- one transaction ---

    def _work_on_next(self) -> None:
        intake = self._intake
        with self._lock.reserved():
            with self._lock.working():
                intake.take_in(self._passing.between_blocks)
            if not intake.waiting or not self.is_ready():
                return
            work = intake.in_work = self._passing.next_work()
            self._passing.begin()
            self._lock.begin(self._finish)
            try:
                change = self._apply(work)
                intake.note(work.numbers, change)
            except _GiveWay as way:
                assert isinstance(work, Batch)
                work.gave_way += 1
                intake.put_before(way.first, work, *(batch for batch in intake.take_batches() if batch.parts))
            except _StartAgain:
                # Put what was in work back before what has come in since, as one batch.
                later = intake.waiting.popleft()
                assert isinstance(work, Batch)
                assert isinstance(later, Batch)
                work.merge(later)
                intake.waiting.appendleft(work)
            except BaseException as problem:  # A registered function may even raise SystemExit.
                self._fall_back(work, problem)
            finally:
                intake.in_work = None
                self._transactions += 1
                self.demand.spend()
                self._lock.end()
                self._lock.condition.notify_all()

    def is_ready(self) -> bool:
        """Whether the engine can be given the first piece of work that waits."""
        return True

    def _apply(self, work: Batch | Submission) -> Change | None:
        with self._knowledge.observed(self):
            if isinstance(work, Submission):
                return self._knowledge.update(**work.update)
            with self._lock.working():
                return self._apply_batch(work)

    def _apply_batch(self, work: Batch) -> Change | None:
        engine = self._knowledge.engine
        engine.reclaim_terms()  # Here, too: updates that undo each other get no further.
        # The arities that the batch was taken in with may come from updates that have been refused since.
        update = RuleUpdate(dict(self._knowledge.catalogue.arities))
        check_arities_of((facts for part in work.parts for facts in (part.delete, part.add)), update.arities)
        with self.window:
            request = work.request(engine)
        if not request.add and not request.delete:
            return None
        self._passing.begin_batch(update)
        return self._knowledge.apply(request, update)

    def _fall_back(self, work: Batch | Submission, problem: BaseException) -> None:
        """Find the update that is to blame: applied one at a time, only that one fails. If a signal handler raised, as
        after Ctrl-C, none is to blame.
        """
        if comes_from_signal(problem):
            self._intake.waiting.appendleft(work)
            raise problem
        if isinstance(work, Batch) and len(work.parts) > 1:
            self._intake.waiting.extendleft(reversed(work.split()))
            return
        self._intake.refuse_worked_on(work.numbers[-1], problem)
        self._intake.note(work.numbers, None)

    def _finish(self) -> None:
        """Wait until the transaction in work is done, however much work is asked for."""
        with self._lock.bare():
            done = self._transactions
            self.demand.finishing += 1
            self._lock.condition.notify_all()
            try:
                self._lock.wait_for(lambda: self._transactions > done or self._intake.in_work is None)
            finally:
                self.demand.finishing -= 1

    # --- between two slices: the observer of the engine ---

    @property
    def budget(self) -> int:
        return SLICE

    def ahead(self) -> EncodedFacts:
        return {}

    def observe(self, transaction: Transaction) -> None:
        """Take in what came, start again where that is better, and rest where nobody asked for more."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        intake = self._intake
        if isinstance(intake.in_work, Batch):
            if intake.incoming or intake.news:
                self._look_at_news(intake.in_work)
            held_up = self._passing.held_up(intake.in_work)
            if held_up:
                raise _GiveWay(held_up)
        self.demand.spend()
        if not self.demand.allows_more():
            self._lock.condition.notify_all()
            rested = working_time()
            self._lock.rest(self.demand.allows_more)
            self._passing.rested(working_time() - rested)

    def _look_at_news(self, work: Batch) -> None:
        intake = self._intake
        with self.window.using_terms():
            intake.take_in(self._passing.between_blocks)
        if not intake.news:
            return
        intake.news = False
        urgent = self._passing.first_urgent(work)
        later = intake.waiting[0] if intake.waiting else None
        if isinstance(later, Batch) and work.is_undone_by(later):
            raise _StartAgain
        if urgent is not None:
            raise _GiveWay([urgent])

    def between_pieces(self, passable: bool = False) -> None:
        """Take in what came, in the middle of what cannot be left half done. A problem is raised afterwards."""
        intake = self._intake
        if isinstance(intake.in_work, Batch) and (intake.incoming or (passable and intake.news)):
            if self._problem is not None:
                return
            try:
                with self.window.using_terms():
                    intake.take_in()
                if passable and intake.news:
                    self._passing.sort_out_between_pieces(intake.in_work)
            except BaseException as problem:
                self._problem = problem
