"""Running kernels to their end: budgets, pauses, room, function calls and limits.

A kernel that needs something returns, with all of its state in the machine. Here it gets what it paused for, and is
called again. Limits, Ctrl-C and observers have their turn in these pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from tidelog.engine.rules.compiled import AUXILIARY
from tidelog.engine.update.function_calls import answer_requests
from tidelog.engine.update.relation_growth import RelationGrowth
from tidelog.errors import LimitError
from tidelog.joins.functions.numbering import replaced_by
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import status as S
from tidelog.machine.jit import working_time
from tidelog.runtime import progress
from tidelog.runtime import signals as interrupts
from tidelog.store.store import Store

# Candidates between two looks at the clock: some tens of milliseconds.
BUDGET = 4_000_000

# Candidates that a kernel looks at, at least, before it pauses for another thread: about a tenth of a millisecond.
LEAST = 2_000

# Facts that a kernel goes through, without a join, before it pauses for another thread: about as long.
STRIDE = 1 << 13

# How many times, in all, a patient deletion is asked whether it is worth going on.
LOOKS_AHEAD = 8

NO_RULE = "no rule had a part in it yet"

Found = TypeVar("Found")

Functions = Mapping[str, Callable[..., Any]]

Outlook = Callable[[int], float]
"""From the number of candidates so far, how many more there will be at least."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an update may use, and a query."""

    max_facts: int | None = None
    timeout: float | None = None
    max_matches: int | None = None  # of a query, each of which is kept until all of them are found

    def check_time(self, began: float, busiest: Callable[[], str] = lambda: NO_RULE) -> None:
        """Raise `LimitError` where an update takes too long, `KeyboardInterrupt` after Ctrl-C."""
        interrupts.check()
        if self.timeout is not None and working_time() - began > self.timeout:
            raise LimitError(f"the update took more than {self.timeout} s; {busiest()}", "timeout")


class Window(Protocol):
    """The window of an update: a context around the work, in which other threads may encode facts. It may be entered
    within itself.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *problem: object) -> object: ...

    def using_terms(self) -> AbstractContextManager[None]:
        """Within, no other thread encodes anything. It may be entered within itself."""


class ClosedWindow(nullcontext[None]):
    """The window of an update during which nobody else encodes anything."""

    def using_terms(self) -> AbstractContextManager[None]:
        return self


CLOSED = ClosedWindow()


def let_nobody_in(at_rest: bool) -> None:
    """Other threads wait until the end."""


def alone(work: Callable[[], Found]) -> Found:
    """Do something that nobody else comes in during."""
    return work()


class OutOfPatience(Exception):
    """A deletion has looked at more candidates than it may, and nothing is decided yet."""


class Runner:
    """Runs the kernels of one update or one query."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        functions: Functions,
        rule_text: Callable[[int], str],
        growth: RelationGrowth | None = None,
        window: Window = CLOSED,
        budget: int | None = None,
        began: float | None = None,
    ) -> None:
        self._store = store
        self.machine = store.machine
        self._limits = limits
        self.functions = functions
        self._rule_text = rule_text
        self._growth = growth or RelationGrowth(store)
        self._window = window
        self._budget = BUDGET if budget is None else budget
        self._began = working_time() if began is None else began
        self.on_pause: Callable[[], None] | None = None  # what an observer does whenever a kernel pauses
        self.let_in: Callable[[bool], None] = let_nobody_in  # lets other threads in, where an update is at rest or not
        self.computes = True  # whether the kernels that are run have to know what terms are
        self.makes_room = False  # for a kernel that has paused: what it does not use may change
        self.candidates = 0  # that kernels have looked at
        self._patience: int | None = None
        self._most = self._slice = 0  # the whole patience, and after how much of it to ask for the outlook
        self._outlook: Outlook | None = None
        self.max_rows: int | None = None  # that a kernel may collect
        self._rule_work_before = store.rule_counts.work

    def begin(self) -> None:
        """Let the machine forget errors and requests of whatever ran before, which may have been interrupted."""
        self.machine[M.ERRORS : M.ERRORS_END] = 0
        self.machine[M.REQUEST_COUNT] = self.machine[M.OUTDONE] = 0
        self._rule_work_before = self._store.rule_counts.work.copy()
        self._store.arrays.fit()

    def run(self, kernel: Callable[..., int], *arguments: Any) -> None:
        """Run a kernel to its end."""
        self.machine[M.STATE : M.STATE_END] = 0
        self.machine[M.REPLACED] = replaced_by(self.functions) if self.functions else 0  # Mostly there are none.
        self.machine[M.STRIDE] = STRIDE
        while True:
            budget = self._budget if self._patience is None else max(1, min(self._slice, self._patience))
            self.machine[M.BUDGET], self.machine[M.HEED] = budget, budget - LEAST
            with self._window.using_terms() if self.computes else CLOSED:
                status = kernel(self.machine, *arguments)
            used = budget - int(self.machine[M.BUDGET])
            self.candidates += used
            if self._patience is not None:
                self._patience -= used
            if status == S.DONE:
                return
            asked = status == S.PAUSED and self.machine[M.BUDGET] >= 0  # which must not decide anything
            if self._patience is not None and not asked and self._is_hopeless():
                self.machine[M.REQUEST_COUNT] = 0  # the results of those calls are not needed
                raise OutOfPatience
            self._serve(status)

    @contextmanager
    def patience(self, most: int | None, outlook: Outlook | None = None) -> Iterator[None]:
        """Within, kernels may look at about `most` candidates, and then raise `OutOfPatience`. They do so early where
        `outlook`, which is asked now and then, says that they will need more.
        """
        self._patience, self._outlook = most, outlook
        self._most = most or 0
        self._slice = min(self._budget, self._most if outlook is None else self._most // LOOKS_AHEAD)
        try:
            yield
        finally:
            self._patience = self._outlook = None  # which refers to what refers to this

    def _is_hopeless(self) -> bool:
        assert self._patience is not None
        if self._patience <= 0 or self._outlook is None:
            return self._patience <= 0
        return self._outlook(self._most - self._patience) > self._patience

    # --- pauses -------------------------------------------------------------------------------------------------------

    def _serve(self, status: int) -> None:
        """Do what a kernel paused for."""
        machine, store = self.machine, self._store
        if status in (S.FULL_TERMS, S.NEED_CALLS):
            with self._window.using_terms():
                if status == S.FULL_TERMS:
                    store.terms.reserve(1, int(machine[M.TEXT_WANTED]))
                    machine[M.TEXT_WANTED] = 0
                else:
                    if machine[M.REQUEST_COUNT] == 0:
                        store.arrays.grow_requests()
                    answer_requests(store, self.functions, self.check_limits)
        elif status == S.FULL:
            self.makes_room = True
            try:
                self._growth.make_room(store.relations[machine[M.FULL]], int(machine[M.STAGED]))
            finally:
                self.makes_room = False
        elif status == S.FULL_LOG:
            store.arrays.grow_log(int(machine[M.LOG_COUNT] + machine[M.STAGED]))
        elif status == S.FULL_LIST:
            store.lists.reserve(int(machine[M.FULL]), int(machine[M.STAGED]))
        elif status == S.FULL_FRAMES:
            store.arrays.grow_frames()
        elif status == S.PAUSED and machine[M.BUDGET] < 0:
            self._growth.expect_long_work()
        elif status == S.NEED_TABLE:
            store.relations[machine[M.FULL]].table.complete()
        self.pause()

    def pause(self) -> None:
        """Check the limits, and give the observer its turn, which does not count as time of the update."""
        self.check_limits()
        if self.on_pause is not None:
            before = working_time()
            self.on_pause()
            self._began += working_time() - before
        self.machine[M.ASKED] = 0
        self.let_in(True)

    # --- limits -------------------------------------------------------------------------------------------------------

    def check_limits(self, more: int = 0, rule: int | None = None) -> None:
        """Raise `LimitError` where the update takes too long or derives too much, `KeyboardInterrupt` after Ctrl-C.

        `more` is how many facts there are at least beside those that the store knows of: a closure in work has found
        them, and `rule` is the rule that it stands for.
        """
        limits = self._limits
        busiest = self._busiest_rule if rule is None else partial(self._named, rule)
        limits.check_time(self._began, busiest)
        progress.report(self._records)
        if self.max_rows is not None and self.machine[M.ROWS_WRITTEN] > self.max_rows:
            raise LimitError(f"more than {self.max_rows:,} matches (max_matches); ask for fewer", "max_matches")
        if limits.max_facts is not None:
            # Facts are only counted if all records, dead ones too, and the pairs of closures are too many.
            at_most = self._records()
            if at_most + more > limits.max_facts:
                total = self._store.fact_count(hidden=True) + more
                if total > limits.max_facts:
                    raise LimitError(f"more than {limits.max_facts} facts ({total} so far); {busiest()}", "max_facts")
            outdone = int(self.machine[M.OUTDONE])
            if outdone > limits.max_facts:
                what = "values that get better again and again, as in a cycle that does not end"
                found = f"more than {limits.max_facts} facts: {what} ({outdone:,} replaced); {busiest()}"
                raise LimitError(found, "max_facts")

    def _records(self) -> int:
        return int(self._store.relation_table[:, R.COUNT].sum()) + self._store.pair_count()

    def _busiest_rule(self) -> str:
        before = self._rule_work_before
        grown = self._store.rule_counts.work.copy()
        grown[: len(before)] -= before
        grown[AUXILIARY] = 0
        if not grown.any():
            return NO_RULE
        return self._named(int(np.argmax(grown)))

    def _named(self, rule: int) -> str:
        return f"busiest rule: {self._rule_text(rule)}"
