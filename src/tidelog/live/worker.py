"""Working off what `kb.live()` has taken in: one transaction after the other, each in slices.

Between two slices, what has come in is taken in, a transaction that is largely undone by it starts again, and the work
rests where nobody asks for more.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable

from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.errors import ArityError
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.results import Change
from tidelog.live.backlog import FEW_ROWS, Batch, Part, Passed, Submission
from tidelog.live.intake import Intake, Window
from tidelog.live.knowledge import Knowledge
from tidelog.machine.jit import working_time
from tidelog.program.catalogue import RuleUpdate
from tidelog.runtime.signals import check, comes_from_signal

# Candidates in a slice: mostly less than 0.2 ms.
SLICE = 5_000

# Seconds within which a thread that waits for the lock gets it.
TURN = 0.0002

# How often a batch is rolled back for updates that go first, so that it comes to its end.
MOST_GIVEN_WAY = 8

# Seconds for which updates that have nothing to do with each other are worked on together: that saves transactions, but
# nobody is to wait for somebody else's long one. Each time that a batch was divided, what is left may take twice as
# long.
TOGETHER = 0.005


class _StartAgain(Exception):
    """What is in work is to be rolled back: little of it is left."""


class _GiveWay(Exception):
    """What is in work is to be rolled back: other updates go first."""

    def __init__(self, first: list[Part]) -> None:
        self.first = first


def _clients(batch: Batch) -> set[Hashable]:
    return {part.client for part in batch.parts}


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
    overtakes = True  # whether updates may pass each other

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
        self._update: RuleUpdate | None = None  # what the batch in work does to the catalogue
        self._passed = Passed()
        self._left: list[Part] = []  # updates that were looked at between two pieces, and may be urgent
        self._claimed: tuple[int, frozenset[str]] = 0, frozenset()  # parts of the batch in work, and what they claim
        # The component in work, by its place in the plan, and when to look whether parts of the batch wait for it.
        self._place, self._divide_at = 0, 0.0
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
                intake.take_in(self._between_blocks)
            if not intake.waiting or not self.is_ready():
                return
            work = intake.in_work = intake.next_work() if self.overtakes else intake.waiting.popleft()
            self._passed, self._left = Passed(), []
            self._lock.begin(self._finish)
            try:
                change = self._apply(work)
                intake.note(work.numbers, change)
            except _GiveWay as way:
                assert isinstance(work, Batch)
                work.gave_way += 1
                intake.put_before(way.first, work, *(batch for batch in self._take_batches() if batch.parts))
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
        update = self._update = RuleUpdate(dict(self._knowledge.catalogue.arities))
        check_arities_of((facts for part in work.parts for facts in (part.delete, part.add)), update.arities)
        with self.window:
            request = work.request(engine)
        if not request.add and not request.delete:
            return None
        self._place, self._claimed = 0, (0, frozenset())
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
        self._intake.refuse(work.numbers[-1], problem)
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
            held_up = self._held_up(intake.in_work)
            if held_up:
                raise _GiveWay(held_up)
        self.demand.spend()
        if not self.demand.allows_more():
            self._lock.condition.notify_all()
            rested = working_time()
            self._lock.rest(self.demand.allows_more)
            self._divide_at += working_time() - rested

    def _look_at_news(self, work: Batch) -> None:
        intake = self._intake
        with self.window.using_terms():
            intake.take_in(self._between_blocks)
        if not intake.news:
            return
        intake.news = False
        left, self._left = [*self._left, *self._sort_out(work)], []
        later = intake.waiting[0] if intake.waiting else None
        if isinstance(later, Batch) and work.is_undone_by(later):
            raise _StartAgain
        for part in left:
            if self._goes_first(part, work):
                raise _GiveWay([part])

    # --- updates that pass each other ---

    def _sort_out(self, work: Batch, joining: bool = True) -> list[Part]:
        """Look at what has come since the last time. What has nothing to do with the update in work, nor with what
        waits before it, is committed now; what the update has not come to is taken into it, if that is `joining`. The
        rest is returned.
        """
        later = self._intake.waiting[0] if self._intake.waiting else None
        if not isinstance(later, Batch) or not self.overtakes:
            return []
        with self.window.using_terms():
            new = [part for part in later.parts if part.number > self._passed.last]
        gone: set[int] = set()
        try:
            for part in new:
                self._passed.last = part.number
                # A large one would hold up what is in work.
                small = part.operations <= max(FEW_ROWS, work.operations // 8)
                if small and (self._passes(part, self._passed) or (joining and self._joins(work, part))):
                    gone.add(part.number)
                else:
                    self._passed.wait(part, self._knowledge.engine.claims(part.predicates))
        finally:
            if gone:
                self._forget(later, gone)
        return [part for part in new if part.number not in gone]

    def _between_blocks(self) -> None:
        """While a large update is read, let others look, and commit those that have nothing to do with it, nor with
        what waits before them.
        """
        intake, engine = self._intake, self._knowledge.engine
        passed = Passed()
        passed.wait(intake.incoming[0], frozenset())  # What it claims is known to the engine.
        for batch in intake.waiting:
            if isinstance(batch, Submission):
                return  # rules change first
            for part in batch.parts:
                passed.wait(part, engine.claims(part.predicates))
        for found in intake.read_next():
            if self.overtakes and isinstance(found, Part) and self._passes(found, passed):
                intake.pass_by(found.number)
            else:
                passed.wait(found, engine.claims(map(self._knowledge.catalogue.resolve, found.predicates)))
        self._lock.pause(True)

    def _forget(self, batch: Batch, numbers: set[int]) -> None:
        """Some parts of the first batch that waits are done, or are worked on already."""
        with self.window.using_terms():
            batch.drop(numbers)
            if not batch.parts:
                self._intake.waiting.popleft()

    def _passes(self, part: Part, passed: Passed) -> bool:
        """Commit an update beside the one in work, if they have nothing to do with each other."""
        engine = self._knowledge.engine
        if not self._lets(part, passed) or not engine.may_overtake(part.predicates):
            return False
        work = self._intake.in_work
        if isinstance(work, Batch) and not self._parts_let(part, work):
            return False
        try:
            update = RuleUpdate(dict(self._knowledge.catalogue.arities))
            check_arities_of((part.delete, part.add), update.arities)
            change = self._knowledge.apply(Batch([part]).request(engine), update)
        except BaseException as problem:  # A registered function may even raise SystemExit.
            if comes_from_signal(problem):
                raise
            self._intake.refuse(part.number, problem)
            change = None
        self._intake.note((part.number,), change)
        self._knowledge.deliver(elsewhere=True)
        self._lock.condition.notify_all()
        return True

    def _parts_let(self, part: Part, work: Batch) -> bool:
        """Whether an update has nothing to do with any part of the batch in work, and none is of its client. The engine
        knows only what is left of them; but they begin again as they were if that is rolled back.
        """
        engine = self._knowledge.engine
        if len(work.parts) != self._claimed[0]:
            self._claimed = len(work.parts), engine.claims({name for each in work.parts for name in each.predicates})
        if part.client is not None and part.client in _clients(work):
            return False
        return self._claimed[1].isdisjoint(engine.claims(part.predicates))

    def _lets(self, part: Part, passed: Passed) -> bool:
        """Whether an update has nothing to do with those that wait, nor with one that went first and has overwritten
        some of it.
        """
        if part.overwritten_by and not self._intake.is_settled(part.overwritten_by):
            return False
        return passed.lets(part, self._knowledge.engine.claims(part.predicates))

    def _joins(self, work: Batch, part: Part) -> bool:
        """Take an update into the one in work, if that has not come to what it touches."""
        engine = self._knowledge.engine
        if not self._lets(part, self._passed) or not engine.may_join(part.predicates):
            return False
        assert self._update is not None
        try:
            check_arities_of((part.delete, part.add), self._update.arities)
        except ArityError:
            return False  # It is refused in its place.
        work.parts.append(part)
        engine.join(part.delete, part.add)
        return True

    def _goes_first(self, part: Part, work: Batch) -> bool:
        """Whether the update in work is to give way to another one, which is more urgent."""
        if work.gave_way >= MOST_GIVEN_WAY or (part.client is not None and part.client in _clients(work)):
            return False
        return part.priority > work.priority

    def _takes_long(self, place: int, seconds: float) -> bool:
        """Whether the component at this place of the plan has been in work for some seconds since this was asked for
        the first time, or said so.
        """
        now = working_time()
        if self._place != place or now >= self._divide_at:
            found, self._place, self._divide_at = self._place == place > 0, place, now + seconds
            return found
        return False

    def _held_up(self, work: Batch) -> list[Part]:
        """The parts of the batch in work that wait for others, which take long and have nothing to do with them."""
        engine = self._knowledge.engine
        visited = engine.past.works[-1].visited
        if (
            len(work.parts) == 1
            or not self.overtakes
            or not self._takes_long(len(visited), TOGETHER * 2**work.gave_way)
        ):
            return []
        slow = Passed()
        slow.claim(engine.claims(visited[-1:]))
        quick = {part.number: (part, engine.claims(part.predicates)) for part in work.parts}
        while found := [number for number, each in quick.items() if not slow.lets(*each)]:
            for number in found:
                slow.wait(*quick.pop(number))
        return [part for part, _ in quick.values()] if len(quick) < len(work.parts) else []

    def _take_batches(self) -> list[Batch]:
        """Take out the batches that wait before the next change of rules."""
        found: list[Batch] = []
        while self._intake.waiting and isinstance(batch := self._intake.waiting[0], Batch):
            found.append(batch)
            self._intake.waiting.popleft()
        return found

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
                    self._left += self._sort_out(intake.in_work, joining=False)
            except BaseException as problem:
                self._problem = problem
