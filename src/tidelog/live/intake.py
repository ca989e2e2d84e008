"""Updates on their way through `kb.live()`: submitted, taken in (encoded and merged into batches), settled or refused.

To take an update in, its facts are encoded, and terms belong to the thread that works on the knowledge base. Most of
its work never touches them, however long it takes. So a window is open while an update is in work, and whoever submits
an update then also takes in what has come, in the submitting thread: nobody has to wait for a kernel to pause. What
needs the terms is done while nobody else takes anything in.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from tidelog.engine.update.failures import NO_FAILURES
from tidelog.engine.update.rows import Rows
from tidelog.facts.encoding import check_arities_of, encode_rows
from tidelog.facts.results import Change, FactSet
from tidelog.live.backlog import Batch, Part, Submission
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
        self.incoming: deque[Submission] = deque()
        self.waiting: deque[Batch | Submission] = deque()
        self.in_work: Batch | Submission | None = None
        self.news = False  # whether anything was taken in since the work was last compared with it
        self.window = Window(self._can_take_in_beside, self._take_in_beside)
        self._read_early: dict[int, Part] = {}  # incoming updates, read while one before them was
        self._changes: list[Change] = []
        self._refused: list[tuple[int, BaseException]] = []
        knowledge.engine.reclaiming.add_holder(self.held_rows)
        Terms.load_kernels()  # No submission is to wait for them.

    @property
    def pending(self) -> int:
        return self.submitted - self.settled

    def append(self, update: UpdateMapping) -> int:
        """Queue an update; its number."""
        with self._appending:
            while True:
                submission = Submission(self.submitted + 1, update)
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

    def take_in(self) -> None:
        """Merge what came in with what waits. A change of rules is worked on by itself, and what follows waits for it.
        What comes in meanwhile is left for the next time, so that endless submitting does not keep others from work.
        """
        for _ in range(len(self.incoming)):
            if self.incoming and not self._waits_for_rules():
                self.take_in_next()

    def _waits_for_rules(self) -> bool:
        return bool(self.waiting) and isinstance(self.waiting[-1], Submission)

    def take_in_next(self) -> None:
        submission = self.incoming[0]
        if submission.has_text:
            self.waiting.append(submission)
        else:
            if not self.waiting:
                self.waiting.append(Batch())
            batch = self.waiting[-1]
            assert isinstance(batch, Batch)
            batch.parts.append(self._encoded(submission, batch))
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
        return in_work and not next_one.has_text and next_one.is_small

    def _take_in_beside(self) -> None:
        with self._knowledge.engine.store.readers.entered():  # The thread that works may wait until this is done.
            if self._can_take_in_beside():  # Another thread may have been faster.
                self.take_in_next()

    # --- reading ---

    def _encoded(self, submission: Submission, batch: Batch) -> Part:
        """The facts of a submission. One that cannot be read is refused, and does nothing."""
        in_work = self.in_work.arities if isinstance(self.in_work, Batch) else {}
        arities = {**self._knowledge.catalogue.arities, **in_work, **batch.arities}
        try:
            with self._knowledge.terms_if_it_succeeds():
                part = self._read_early.pop(submission.number, None) or self.read(submission, arities)
                check_arities_of((part.delete, part.add), arities)
        except (Exception, SystemExit) as problem:  # Ctrl-C is meant for the submitting thread: nothing is refused.
            self.refuse(submission.number, problem)
            return Part(submission.number, {}, {})
        batch.arities = arities
        return part

    def read(self, submission: Submission, arities: dict[str, int]) -> Part:
        """Encode the facts of a submission. While that takes long, those that come after it are read as well."""
        terms, encode, update = self._knowledge.engine.store.terms, self._knowledge.encode, submission.update
        before = terms.between_blocks
        terms.between_blocks = self._read_next if before is no_pause else no_pause
        try:
            delete = encode(update.get("delete") or {}, arities)
            return Part(submission.number, delete, encode(update.get("add") or {}, arities))
        finally:
            terms.between_blocks = before

    def _read_next(self) -> None:
        """Read the small updates that came after the one that is being read, up to the next change of rules. A bad one
        waits for its turn.
        """
        for submission in list(self.incoming)[1:]:
            if submission.has_text:
                break
            if submission.number not in self._read_early and submission.is_small:
                with suppress(Exception):
                    self._read_early[submission.number] = self.read(submission, dict(self._knowledge.catalogue.arities))

    # --- what has become of updates ---

    def note(self, number: int, change: Change | None) -> None:
        """Updates are done up to a number. The caller has the lock."""
        if change is not None:
            self._changes.append(change)
            if len(self._changes) > KEPT_CHANGES:
                self._changes = [self.net(self._changes)]
        self.settled = number

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
        self._refused.append((number, problem))

    def refuse_all(self, problem: BaseException) -> None:
        """No update that has been submitted can be done any more."""
        self.incoming.clear()
        self.waiting.clear()
        last = self.submitted
        for number in range(self.settled + 1, last + 1):
            self.refuse(number, problem)
        self.settled = last

    def raise_refused(self) -> None:
        """Raise what was refused since the last time."""
        if self._refused:
            refused, self._refused = self._refused, []
            for number, problem in refused[1:]:
                refused[0][1].add_note(f"update {number} is refused as well: {problem}")
            raise refused[0][1]


def _net(terms: Terms, changes: list[Change]) -> Change:
    """One change for several: what appeared and then vanished is in neither half, work and errors add up."""
    if len(changes) == 1:
        return changes[0]
    net: dict[str, dict[tuple[int, ...], bool]] = {}
    arities: dict[str, int] = {}
    work: Counter[str] = Counter()
    for change in changes:
        signed = ((False, change.removed), (True, change.added))
        for appeared, name, rows in ((sign, *item) for sign, half in signed for item in half.items()):
            cells = encode_rows(terms, name, rows)  # The numbers may stand for other terms by now.
            if cells is None:
                continue
            arities[name] = cells.shape[1]
            known = net.setdefault(name, {})
            for row in map(tuple, cells.tolist()):
                # A fact appears and vanishes in turn: an opposite sign cancels.
                if known.pop(row, appeared) is appeared:
                    known[row] = appeared
        work.update(change.work)
    halves: dict[bool, dict[str, FactSet]] = {True: {}, False: {}}
    for name, signs in net.items():
        for appeared, half in halves.items():
            chosen = [row for row, sign in signs.items() if sign is appeared]
            if chosen:
                cells = np.array(chosen, np.int32).reshape(len(chosen), arities[name])
                half[name] = FactSet(terms.table, Rows.of(cells))
    errors = sum((change.errors for change in changes), NO_FAILURES)
    last = changes[-1]._origin if changes else None
    origin = None if last is None else last.after(change._origin for change in changes[:-1])
    return Change(halves[True], halves[False], dict(work), errors, None, origin)
