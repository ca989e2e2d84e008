"""Which updates of `kb.live()` pass others: they have nothing to do with each other, or one of them is more urgent.

An update passes the one in work where none of the components that it touches, nor any that depends on them, is touched
by the other. It joins the one in work where that has not come to what it touches. A batch is divided where one of its
parts takes long and others have nothing to do with it. Updates of one client never pass each other, so that what a
client sees is a prefix of what it has submitted.
"""

from __future__ import annotations

from collections.abc import Hashable

from tidelog.errors import ArityError
from tidelog.facts.encoding import check_arities_of
from tidelog.live.backlog import FEW_ROWS, Batch, Part, Passed, Submission
from tidelog.live.intake import Intake
from tidelog.live.knowledge import Knowledge
from tidelog.machine.jit import working_time
from tidelog.program.catalogue import RuleUpdate
from tidelog.runtime.signals import comes_from_signal

# How often a batch is rolled back for updates that go first, so that it comes to its end.
MOST_GIVEN_WAY = 8

# Seconds for which updates that have nothing to do with each other are worked on together: that saves transactions, but
# nobody is to wait for somebody else's long one. Each time that a batch was divided, what is left may take twice as
# long.
TOGETHER = 0.005


def _clients(batch: Batch) -> set[Hashable]:
    return {part.client for part in batch.parts}


class Passing:
    """Looks at updates that come in while another one is in work, and commits those that may pass it."""

    def __init__(self, knowledge: Knowledge, intake: Intake) -> None:
        self._knowledge = knowledge
        self._intake = intake
        self._window = intake.window
        self._passed = Passed()
        self._left: list[Part] = []  # updates that were looked at between two pieces, and may be urgent
        self._update: RuleUpdate | None = None  # what the batch in work does to the catalogue
        self._claimed: tuple[int, frozenset[str]] = 0, frozenset()  # parts of the batch in work, and what they claim
        # The component in work, by its place in the plan, and when to look whether parts of the batch wait for it.
        self._place, self._divide_at = 0, 0.0

    def next_work(self) -> Batch | Submission:
        """What to work on next of what waits, the most urgent first."""
        return self._intake.next_work()

    def begin(self) -> None:
        """Another piece of work begins, and nothing has been looked at."""
        self._passed, self._left = Passed(), []

    def begin_batch(self, update: RuleUpdate) -> None:
        """The piece of work is a batch, which does this to the catalogue."""
        self._update = update
        self._place, self._claimed = 0, (0, frozenset())

    def rested(self, seconds: float) -> None:
        """The work was at rest for so long: that is not time that it took."""
        self._divide_at += seconds

    def first_urgent(self, work: Batch) -> Part | None:
        """Sort out what has come. Of what stays, an update to which the batch in work is to give way."""
        left, self._left = [*self._left, *self.sort_out(work)], []
        return next((part for part in left if self._goes_first(part, work)), None)

    def sort_out_between_pieces(self, work: Batch) -> None:
        """Sort out what has come, where the work cannot be left: what it is to give way to waits until it can."""
        self._left += self.sort_out(work, joining=False)

    def sort_out(self, work: Batch, joining: bool = True) -> list[Part]:
        """Look at what has come since the last time. What has nothing to do with the update in work, nor with what
        waits before it, is committed now; what the update has not come to is taken into it, if that is `joining`. The
        rest is returned.
        """
        later = self._intake.waiting[0] if self._intake.waiting else None
        if not isinstance(later, Batch):
            return []
        with self._window.using_terms():
            new = [part for part in later.parts if part.number not in self._passed.seen]
        gone: set[int] = set()
        try:
            for part in new:
                self._passed.seen.add(part.number)
                if part.overwritten_by:
                    part = later.part(part.number)  # What made some of it void may just have been refused.
                goes = self._is_no_trouble(part, work) and self._passes(part, self._passed)
                if goes or (joining and self._joins(work, part)):
                    gone.add(part.number)
                else:
                    self._passed.wait(part, self._knowledge.engine.claims(part.predicates))
        finally:
            if gone:
                self._forget(later, gone)
        return [part for part in new if part.number not in gone]

    def _is_no_trouble(self, part: Part, work: Batch) -> bool:
        """Whether an update does not hold up the one in work: it is not large, nor may it take long where that does
        not.
        """
        engine = self._knowledge.engine
        if part.operations > max(FEW_ROWS, work.operations // 8):
            return False
        takes_long = engine.may_take_long
        return not takes_long(engine.claims(part.predicates)) or takes_long(self._claims_of(work))

    def between_blocks(self) -> None:
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
            if isinstance(found, Part) and self._passes(found, passed):
                intake.pass_by(found.number)
            else:
                passed.wait(found, engine.claims(map(self._knowledge.catalogue.resolve, found.predicates)))
        self._knowledge.lock.pause(True)

    def _forget(self, batch: Batch, numbers: set[int]) -> None:
        """Some parts of the first batch that waits are done, or are worked on already."""
        with self._window.using_terms():
            batch.drop(numbers)
            if not batch.parts:
                self._intake.waiting.popleft()

    def _passes(self, part: Part, passed: Passed) -> bool:
        """Commit an update beside the one in work, if they have nothing to do with each other."""
        engine = self._knowledge.engine
        if self._knowledge.timing.keeper is not None:
            return False  # Something may expire with it.
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
            self._intake.refuse_worked_on(part.number, problem)
            change = None
        self._intake.note((part.number,), change)
        self._knowledge.deliver(elsewhere=True)
        self._knowledge.lock.condition.notify_all()
        return True

    def _parts_let(self, part: Part, work: Batch) -> bool:
        """Whether an update has nothing to do with any part of the batch in work, and none is of its client. The engine
        knows only what is left of them; but they begin again as they were if that is rolled back.
        """
        if part.client is not None and part.client in _clients(work):
            return False
        return self._claims_of(work).isdisjoint(self._knowledge.engine.claims(part.predicates))

    def _claims_of(self, work: Batch) -> frozenset[str]:
        """What the parts of the batch in work claim, also where nothing is left of them."""
        if len(work.parts) != self._claimed[0]:
            names = {name for part in work.parts for name in part.predicates}
            self._claimed = len(work.parts), self._knowledge.engine.claims(names)
        return self._claimed[1]

    def _lets(self, part: Part, passed: Passed) -> bool:
        """Whether an update has nothing to do with those that wait, nor with one that went first and has overwritten
        some of it.
        """
        if not all(self._intake.is_settled(later.number) for later in part.overwritten_by):
            return False
        return passed.lets(part, self._knowledge.engine.claims(part.predicates))

    def _joins(self, work: Batch, part: Part) -> bool:
        """Take an update into the one in work, if that has not come to what it touches."""
        engine = self._knowledge.engine
        if self._knowledge.timing.keeper is not None:
            return False  # Something may expire with it.
        if not self._is_no_trouble(part, work) or not self._lets(part, self._passed):
            return False
        if not engine.may_join(part.predicates):
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

    def held_up(self, work: Batch) -> list[Part]:
        """The parts of the batch in work that wait for others, which take long and have nothing to do with them."""
        engine = self._knowledge.engine
        visited = engine.past.works[-1].visited
        if len(work.parts) == 1 or not self._takes_long(len(visited), TOGETHER * 2**work.gave_way):
            return []
        slow = Passed()
        slow.claim(engine.claims(visited[-1:]))
        quick = {part.number: (part, engine.claims(part.predicates)) for part in work.parts}
        while found := [number for number, each in quick.items() if not slow.lets(*each)]:
            for number in found:
                slow.wait(*quick.pop(number))
        return [part for part, _ in quick.values()] if len(quick) < len(work.parts) else []


class InOrder(Passing):
    """Lets nothing pass: updates are worked on as they came."""

    def next_work(self) -> Batch | Submission:
        return self._intake.waiting.popleft()

    def sort_out(self, work: Batch, joining: bool = True) -> list[Part]:
        return []

    def held_up(self, work: Batch) -> list[Part]:
        return []

    def _passes(self, part: Part, passed: Passed) -> bool:
        return False
