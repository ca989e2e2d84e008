"""Updates on their way into work in `kb.live()`: submitted, then taken in (encoded and merged into batches)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from tidelog.facts.encoding import check_arities_of
from tidelog.live.backlog import Batch, Part, Submission
from tidelog.live.knowledge import Knowledge
from tidelog.live.update_sources import UpdateMapping
from tidelog.live.window import Window
from tidelog.machine.growth import no_pause
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms

Refuse = Callable[[int, BaseException], None]


class Intake:
    """What has been submitted, what has been taken in and waits, and what is in work. Any thread submits; the thread
    that works takes in, and others do so through the window.
    """

    def __init__(self, knowledge: Knowledge, refuse: Refuse) -> None:
        self._knowledge = knowledge
        self._refuse = refuse
        self._appending = threading.RLock()  # a finalizer may submit while its thread does
        self.submitted = 0
        self.incoming: deque[Submission] = deque()
        self.waiting: deque[Batch | Submission] = deque()
        self.in_work: Batch | Submission | None = None
        self.news = False  # whether anything was taken in since the work was last compared with it
        self.window = Window(self._can_take_in_beside, self._take_in_beside)
        self._read_early: dict[int, Part] = {}  # incoming updates, read while one before them was
        knowledge.engine.reclaiming.add_holder(self.held_rows)
        Terms.load_kernels()  # No submission is to wait for them.

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

    def clear(self) -> None:
        """Forget all that waits."""
        self.incoming.clear()
        self.waiting.clear()

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
        if submission.changes_rules:
            self.waiting.append(submission)
        else:
            if not self.waiting:
                self.waiting.append(Batch())
            batch = self.waiting[-1]
            assert isinstance(batch, Batch)
            batch.append(self._encoded(submission, batch))
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
        return in_work and next_one.is_small and not next_one.changes_rules

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
            self._refuse(submission.number, problem)
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
            if submission.changes_rules:
                break
            if submission.number not in self._read_early and submission.is_small:
                with suppress(Exception):
                    self._read_early[submission.number] = self.read(submission, dict(self._knowledge.catalogue.arities))
