"""Updates on their way through `kb.live()`: submitted, taken in (encoded and merged into batches), settled or refused.

To take an update in, its facts are encoded, and terms belong to the thread that works on the knowledge base. Most of
its work never touches them, however long it takes. So a window is open while an update is in work, and whoever submits
an update then also takes in what has come, in the submitting thread: nobody has to wait for a kernel to pause. What
needs the terms is done while nobody else takes anything in.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from tidelog.engine.update.failures import NO_FAILURES
from tidelog.engine.update.rows import Rows
from tidelog.facts.encoding import check_arities_of, encode_rows, row_keys
from tidelog.facts.results import Change, FactSet
from tidelog.live.backlog import FEW_ROWS, Batch, Part, Passed, Submission
from tidelog.live.knowledge import Knowledge
from tidelog.live.update_sources import UpdateMapping
from tidelog.machine.growth import no_pause
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms

# Updates that one thread takes in before it goes on with its own business.
MOST = 32

# Changes that are kept before they are folded into one.
KEPT_CHANGES = 32


class Window:
    """A context that is entered around the work, and `using_terms` within it. `waits` says whether something can be
    taken in, and `take_in` does so. Only one thread at a time calls it, and none while the window is shut.

    Both contexts are for the thread that works. They may be nested.
    """

    def __init__(self, waits: Callable[[], bool], take_in: Callable[[], None]) -> None:
        self._waits = waits
        self._take_in = take_in
        self._entered = 0
        self._alone = False
        self._permit = threading.Lock()
        self._permit.acquire()

    def __enter__(self) -> None:
        self._entered += 1
        if self._entered == 1:
            self._permit.release()
            self.use()

    def __exit__(self, *_: object) -> None:
        if self._entered == 1:
            self._permit.acquire()
        self._entered -= 1

    def use(self) -> None:
        """Take in what waits, unless the window is shut or another thread is doing so: each thread looks again when it
        is done, so that nothing is overlooked. What comes in too fast is left for the next thread that looks.
        """
        for _ in range(MOST):
            if not self._waits() or not self._permit.acquire(blocking=False):
                return
            try:
                self._take_in()
            finally:
                self._permit.release()

    @contextmanager
    def using_terms(self) -> Iterator[None]:
        """Within, nobody else takes anything in."""
        if self._alone or not self._entered:
            yield
            return
        with self._permit:
            self._alone = True
            try:
                yield
            finally:
                self._alone = False


class Intake:
    """What has been submitted, what has been taken in and waits, what is in work, and what has become of the rest. Any
    thread submits; the thread that works takes in, and others do so through the window.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._appending = threading.RLock()  # a finalizer may submit while its thread does
        self.submitted = 0
        self.settled = 0  # All before this number are settled, too.
        self._settled_ahead: set[int] = set()  # numbers of others that are
        self.incoming: deque[Submission] = deque()
        self.waiting: deque[Batch | Submission] = deque()
        self.in_work: Batch | Submission | None = None
        self.news = False  # whether anything was taken in since the work was last compared with it
        self.window = Window(self._can_take_in_beside, self._take_in_beside)
        self._read_early: dict[int, Part] = {}  # incoming updates, read while one before them was
        self._passed_by: set[int] = set()  # incoming updates that have been applied meanwhile
        self._between_blocks: Callable[[], None] = no_pause  # while a large update is read
        # Called under the lock with the numbers of updates that are settled or refused.
        self.on_settled: Callable[[Sequence[int]], None] = lambda _numbers: None
        self._changes: list[Change] = []
        # Updates that were refused, and why. Several threads take from it, so that each line below is a single step.
        self._refused: dict[int, BaseException] = {}
        knowledge.engine.reclaiming.add_holder(self.held_rows)
        Terms.load_kernels()  # No submission is to wait for them.

    @property
    def pending(self) -> int:
        return self.submitted - self.settled - len(self._settled_ahead)

    @property
    def settled_ahead(self) -> frozenset[int]:
        """The numbers of updates that are settled, but for those up to which all are."""
        return frozenset(self._settled_ahead)

    def is_settled(self, number: int) -> bool:
        """Whether an update can be seen, or is refused."""
        return number <= self.settled or number in self._settled_ahead

    def append(self, update: UpdateMapping, priority: int = 0, client: Hashable = None) -> int:
        """Queue an update; its number."""
        with self._appending:
            while True:
                submission = Submission(self.submitted + 1, update, priority, client)
                # A finalizer that ran meanwhile may have submitted something.
                if submission.number == self.submitted + 1:
                    break
            self.submitted += 1
            self.incoming.append(submission)
            return submission.number

    def held_rows(self) -> Iterator[Cells]:
        """Facts that are encoded and wait; see `engine.reclaiming`. The caller has the lock, and nothing is in work."""
        batches = [work for work in (self.in_work, *self.waiting) if isinstance(work, Batch)]
        for part in (*(part for batch in batches for part in batch.parts), *self._read_early.values()):
            yield from (*part.delete.values(), *part.add.values())

    # --- taking in ---

    def take_in(self, between_blocks: Callable[[], None] | None = None) -> None:
        """Merge what came in with what waits. A large update is read in blocks; without `between_blocks`, it waits, and
        so does all that follows. A change of rules is worked on by itself, and what follows waits for it. What comes in
        meanwhile is left for the next time, so that endless submitting does not keep others from work.
        """
        self._between_blocks = between_blocks or no_pause
        try:
            for _ in range(len(self.incoming)):
                if not self.incoming or self._waits_for_rules():
                    break  # There may be very many, and none of them can be taken in.
                if not (between_blocks or self.incoming[0].is_quick):
                    break
                self.take_in_next()
        finally:
            self._between_blocks = no_pause

    def _waits_for_rules(self) -> bool:
        return bool(self.waiting) and isinstance(self.waiting[-1], Submission)

    def take_in_next(self) -> None:
        submission = self.incoming[0]
        if submission.number in self._passed_by:
            self._passed_by.remove(submission.number)
        elif submission.is_apart or self._knowledge.timing.keeper is not None:
            self.waiting.append(submission)
        else:
            if not self.waiting:
                self.waiting.append(Batch())
            batch = self.waiting[-1]
            assert isinstance(batch, Batch)
            part = self._encoded(submission, batch)  # Meanwhile, others may be refused, and the batch gets new parts.
            batch.parts.append(part)
        self.news = True
        # Last: an exception before this leaves the submission where it is.
        self.incoming.popleft()

    def _can_take_in_beside(self) -> bool:
        """Whether the submitting thread may take the next update in: a small one, while a batch of facts is in work."""
        try:
            next_one = self.incoming[0]
            waits_for_rules = self._waits_for_rules()
        except IndexError:  # There is none, or another thread has just taken it, and looks again itself.
            return False
        in_work = isinstance(self.in_work, Batch) and not waits_for_rules
        return in_work and not next_one.is_apart and next_one.is_quick

    def _take_in_beside(self) -> None:
        with self._knowledge.engine.store.readers.entered():  # The thread that works may wait until this is done.
            if self._can_take_in_beside():  # Another thread may have been faster.
                self.take_in_next()

    # --- what goes first ---

    def next_work(self) -> Batch | Submission:
        """Take out what is to be worked on next. Of a batch, that is what has the highest priority."""
        work = self.waiting.popleft()
        if not isinstance(work, Batch) or len(work.parts) == 1:
            return work
        first = self._urgent(work, work.priority) if len({part.priority for part in work.parts}) > 1 else []
        first = first or self._light(work)
        if first and len(first) < len(work.parts):
            self.put_before(first, work)
            return self.waiting.popleft()
        return work

    def take_batches(self) -> list[Batch]:
        """Take out the batches that wait before the next change of rules."""
        found: list[Batch] = []
        while self.waiting and isinstance(batch := self.waiting[0], Batch):
            found.append(batch)
            self.waiting.popleft()
        return found

    def _light(self, batch: Batch) -> list[Part]:
        """The parts that take little time, beside others that they have nothing to do with: nobody is to wait for
        those.
        """
        engine = self._knowledge.engine
        touched = {names: engine.claims(names) for names in {frozenset(part.predicates) for part in batch.parts}}
        long = {names for names, claims in touched.items() if engine.may_take_long(claims)}
        passed, found = Passed(), []
        for part in batch.parts:
            names = frozenset(part.predicates)
            if part.operations <= FEW_ROWS and names not in long and passed.lets(part, touched[names]):
                found.append(part)
            else:
                passed.wait(part, touched[names])
        return found

    def _urgent(self, batch: Batch, priority: int) -> list[Part]:
        """The parts with a priority whose clients have nothing before them in the batch."""
        before: set[Hashable] = set()
        found = []
        for part in batch.parts:
            if part.priority == priority and (part.client is None or part.client not in before):
                found.append(part)
            before.add(part.client)
        return found

    def put_before(self, urgent: list[Part], *batches: Batch) -> None:
        """Let some parts be the first batch that waits, before the batches that they came after or were part of. What
        those do to the same facts is void: it would have been overwritten.
        """
        numbers = {part.number for part in urgent}
        for batch in reversed(batches):
            left = [part for part in batch.parts if part.number not in numbers]
            for later in urgent:
                left = [part.without(later) if part.number < later.number else part for part in left]
            if left:
                self.waiting.appendleft(batch.with_parts(left))
        self.waiting.appendleft(batches[0].with_parts(urgent))

    # --- reading ---

    def _encoded(self, submission: Submission, batch: Batch) -> Part:
        """The facts of a submission. One that cannot be read is refused, and does nothing."""
        in_work = self.in_work.arities if isinstance(self.in_work, Batch) else {}
        arities = {**self._knowledge.catalogue.arities, **in_work, **batch.arities}
        try:
            with self._knowledge.terms_if_it_succeeds():
                part = self._read_early.pop(submission.number, None) or self.read(submission, arities)
                check_arities_of((part.delete, part.add), arities)
                self._knowledge.checks.check_rows(part.add)
        except (Exception, SystemExit) as problem:  # Ctrl-C is meant for the submitting thread: nothing is refused.
            self.refuse(submission.number, problem)
            return Part(submission.number, {}, {}, submission.priority, submission.client)
        batch.arities = arities
        return part

    def read(self, submission: Submission, arities: dict[str, int]) -> Part:
        """Encode the facts of a submission. While that takes long, those that come after it are read as well."""
        encode, update = self._knowledge.incoming.encode, submission.update
        pause = self._between_blocks if submission is self.incoming[0] else no_pause
        with self._knowledge.incoming.reading(submission.predicates, pause):
            delete = encode(update.get("delete") or {}, arities)
            add = encode(update.get("add") or {}, arities)
            return Part(submission.number, delete, add, submission.priority, submission.client)

    def read_next(self) -> Iterator[Submission | Part]:
        """Read the small updates that came after the one that is being read, up to the next change of rules. A bad one
        waits for its turn, and so do large ones: they are given as they came.
        """
        for submission in list(self.incoming)[1:]:
            if submission.is_apart:
                break
            number = submission.number
            if number in self._passed_by:
                continue
            if number not in self._read_early and submission.is_quick:
                with suppress(Exception):
                    self._read_early[number] = self.read(submission, dict(self._knowledge.catalogue.arities))
            yield self._read_early.get(number, submission)

    def pass_by(self, number: int) -> None:
        """An update that was read early is done."""
        del self._read_early[number]
        self._passed_by.add(number)

    # --- what has become of updates ---

    def note(self, numbers: Sequence[int], change: Change | None) -> None:
        """Some updates are done. The caller has the lock."""
        if change is not None:
            self._changes.append(change)
            if len(self._changes) > KEPT_CHANGES:
                self._changes = [self.net(self._changes)]
        self._settled_ahead.update(numbers)
        while self.settled + 1 in self._settled_ahead:
            self._settled_ahead.remove(self.settled + 1)
            self.settled += 1
        self.on_settled(numbers)

    def take_changes(self) -> list[Change]:
        """The changes since the last time."""
        changes, self._changes = self._changes, []
        return changes

    def net(self, changes: list[Change]) -> Change:
        """One change for several. The caller has the lock."""
        return _net(self._knowledge.engine.store.terms, changes)

    def refuse(self, number: int, problem: BaseException) -> None:
        """An update is wrong, and does nothing."""
        problem.add_note(f"in update {number} that was submitted; it is refused as a whole, the others are not")
        self._refused[number] = problem

    def refuse_worked_on(self, number: int, problem: BaseException) -> None:
        """An update that was worked on turns out to be wrong: what it would have overwritten counts again."""
        self.refuse(number, problem)
        with self.window.using_terms():
            for batch in self.waiting:
                if isinstance(batch, Batch):
                    batch.give_back(number)

    def refuse_all(self, problem: BaseException) -> None:
        """No update that has been submitted can be done any more."""
        self.incoming.clear()
        self.waiting.clear()
        last = self.submitted
        numbers = [number for number in range(self.settled + 1, last + 1) if number not in self._settled_ahead]
        for number in numbers:
            self.refuse(number, problem)
        self.settled = last
        self._settled_ahead.clear()
        self.on_settled(numbers)

    def take_refusal(self, number: int) -> BaseException | None:
        """Why an update was refused, if it was. Nobody else is told of it any more."""
        return self._refused.pop(number, None)

    def raise_refused(self) -> None:
        """Raise what was refused since the last time."""
        taken = [(number, self._refused.pop(number, None)) for number in list(self._refused)]
        refused = [(number, problem) for number, problem in taken if problem is not None]
        if refused:
            for number, problem in refused[1:]:
                refused[0][1].add_note(f"update {number} is refused as well: {problem}")
            raise refused[0][1]


def _net(terms: Terms, changes: list[Change]) -> Change:
    """One change for several: what appeared and then vanished is in neither half, work and errors add up."""
    if len(changes) == 1:
        return changes[0]
    telling: dict[str, list[Change]] = {}
    work: Counter[str] = Counter()
    for change in changes:
        for name in {**change.removed, **change.added}:
            telling.setdefault(name, []).append(change)
        work.update(change.work)
    added: dict[str, FactSet] = {}
    removed: dict[str, FactSet] = {}
    for name, found in telling.items():
        # What one change alone tells of nobody has to list: the pairs of a closure may be many.
        halves = (
            (found[0].added.get(name), found[0].removed.get(name)) if len(found) == 1 else _netted(terms, name, found)
        )
        for rows, half in zip(halves, (added, removed), strict=True):
            if rows is not None and len(rows):
                half[name] = rows
    errors = sum((change.errors for change in changes), NO_FAILURES)
    # A change of no updates comes from nowhere.
    origins = [change._origin for change in changes if change._origin is not None]
    origin = origins[-1].after(origins[:-1]) if origins else None
    return Change(added, removed, dict(work), errors, None, origin)


def _netted(terms: Terms, name: str, changes: list[Change]) -> tuple[FactSet, FactSet]:
    """The facts of a predicate that came in several changes, and those that went."""
    encoded: list[tuple[Cells, int]] = []
    for change in changes:
        for sign, half in ((-1, change.removed), (1, change.added)):
            # The numbers may stand for other terms by now.
            cells = encode_rows(terms, name, half[name]) if name in half else None
            if cells is not None:
                encoded.append((cells, sign))
    # In NumPy, which lets other threads run meanwhile.
    cells = np.concatenate([cells for cells, _ in encoded])
    signs = np.concatenate([np.full(len(cells), sign) for cells, sign in encoded])
    _, first, places = np.unique(row_keys(cells), return_index=True, return_inverse=True)
    # A fact appears and vanishes in turn: opposite signs cancel.
    net = np.bincount(places, signs, len(first))
    came, went = (FactSet(terms.table, Rows.of(cells[first[net == sign]])) for sign in (1, -1))
    return came, went
