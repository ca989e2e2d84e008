"""`kb.live(overlap="operations")`: the worker that lets operations of different updates meet, and the engine follow.

The algorithm has a materialisation of its own, beside that of the engine, on which operations are executed while
updates come in; readers see that of the engine, the last settled one. When no operation is left, all updates that have
been entered are one batch for the engine, which is brought up to date with its net change, in one transaction, and
written to the journal. So limits, errors and refusals are the engine's. What goes wrong among operations is found again
there: the batch is then given to the engine as it is, and the algorithm begins anew with what has come of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tidelog.engine.algorithms.names import Maintenance
from tidelog.engine.engine import Engine
from tidelog.engine.transaction.task import explicit_rows
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.errors import LimitError
from tidelog.facts.results import Change
from tidelog.language import parse_program
from tidelog.live.backlog import Batch, Submission
from tidelog.live.intake import Intake
from tidelog.live.knowledge import Knowledge
from tidelog.live.operations.algorithm import FullyDynamic
from tidelog.live.operations.counting import Counting
from tidelog.live.operations.delete_rederive import DeleteRederive
from tidelog.live.operations.facts import Fact, Facts
from tidelog.live.operations.instances import Instances, UnfitRuleError, check_rule
from tidelog.live.operations.strata import Strata
from tidelog.live.passing import InOrder
from tidelog.live.worker import Worker
from tidelog.machine.jit import working_time
from tidelog.program.normal_form import normalise
from tidelog.runtime.signals import comes_from_signal
from tidelog.store.relation_parts import Cells

# Seconds of work on operations after which others may use the knowledge base.
SLICE_SECONDS = 0.001

# Updates that overlap before those that follow have to wait: endless updates must not keep a state from being settled.
MOST_OVERLAPPING = 256

COUNTING = frozenset((Maintenance.COUNTING, Maintenance.COUNTING_TRACE, Maintenance.DRED_COUNTING))
"""The algorithms of a knowledge base that make its operations count; the others delete and rederive."""


def begin(engine: Engine, maintenance: str) -> FullyDynamic:
    """The algorithm on what an engine holds now. The caller has the lock."""
    facts, explicit = Facts(), set[Fact]()
    counts = maintenance in COUNTING
    for predicate, relation in engine.store.named().items():
        given = engine.explicit_relation(predicate)
        if not predicate.startswith("#"):
            if not counts:
                facts.load(predicate, map(tuple, relation.rows().tolist()))
            if given is not None:
                explicit.update((predicate, tuple(row)) for row in explicit_rows(given).tolist())
    variant = Counting if counts else DeleteRederive
    return variant(Instances(engine, facts), facts, explicit, Strata(engine.graph))


class OperationsWorker(Worker):
    """Executes operations as long as there are any, and then lets the engine follow."""

    passing_policy = InOrder  # Operations meet instead.

    def __init__(self, knowledge: Knowledge, intake: Intake) -> None:
        super().__init__(knowledge, intake)
        self.algorithm: FullyDynamic | None = None
        self._version = 0  # of the knowledge base that the algorithm knows
        self._entered = 0  # the number of the last update whose operations it has been given
        self._seconds = 0.0  # since operations were last settled
        with knowledge.lock:
            for rule in knowledge.engine.graph.rules.values():
                check_rule(normalise(rule), knowledge.engine)
        knowledge.engine.reclaiming.add_holder(self.held_rows)

    def held_rows(self) -> Iterator[Cells]:
        """Facts that the engine does not know yet; see `engine.reclaiming`."""
        algorithm = self.algorithm
        if algorithm is None:
            return
        algorithm.instances.computer.forget()
        yield np.fromiter(algorithm.instances.constants, np.int32)
        yield np.fromiter((term for _, row in algorithm.named_facts() for term in row), np.int32)

    # --- operations ---

    def is_ready(self) -> bool:
        """Whether the first batch can be given to the engine; otherwise some of its operations are executed."""
        waiting = self._intake.waiting
        work = waiting[0]
        if isinstance(work, Submission):
            return True
        if not work.parts:
            waiting.popleft()
            return False
        if len(work.parts) >= MOST_OVERLAPPING and len(waiting) == 1:
            waiting.append(Batch())  # What comes from now on is merged into this one.
        with self._lock.working():
            try:
                self._enter(work)
                return self._is_settled()
            except UnfitRuleError as problem:
                self._refuse(work, problem)
                return False
            except BaseException as problem:
                self.algorithm = None
                if comes_from_signal(problem):
                    raise
                return True  # The engine finds the update that is to blame.
            finally:
                self._lock.condition.notify_all()

    def _refuse(self, work: Batch, problem: UnfitRuleError) -> None:
        """A rule that came by another way than `submit` makes the mode impossible."""
        self._intake.waiting.popleft()
        for part in work.parts:
            self._intake.refuse(part.number, problem)
        self._intake.note(work.numbers, None)

    def _enter(self, work: Batch) -> None:
        """Algorithm 1, lines 3 and 4, for what has come in."""
        if self.algorithm is None or self._version != self._knowledge.version:
            self._begin()
        assert self.algorithm is not None
        for part in work.parts:
            if part.number > self._entered:
                self.algorithm.determine_explicitly(facts_of(part.delete), facts_of(part.add))
                self._entered = part.number

    def _begin(self) -> None:
        """Take over what the engine holds, which others may have changed: all updates in work are entered again."""
        self.algorithm = begin(self._knowledge.engine, self._knowledge.maintenance)
        self._version = self._knowledge.version
        self._entered, self._seconds = self._intake.settled, 0.0

    def _is_settled(self) -> bool:
        """Algorithm 1, lines 5 and 6, until nothing is left, something comes in, or others are to have their turn."""
        algorithm, intake, demand = self.algorithm, self._intake, self.demand
        assert algorithm is not None
        began, end = working_time(), time.perf_counter() + SLICE_SECONDS
        while algorithm.is_open:
            algorithm.take(algorithm.choose(algorithm))
            demand.spend()
            if intake.incoming or not demand.allows_more() or time.perf_counter() > end:
                self._seconds += working_time() - began
                self._check_limits(algorithm)
                return False
        return True

    def _check_limits(self, algorithm: FullyDynamic) -> None:
        """What goes beyond the limits among operations may be within them in the end: the engine decides."""
        limits = self._knowledge.engine.limits
        limits.check_time(working_time() - self._seconds)
        if limits.max_facts is not None and len(algorithm.facts) > limits.max_facts:
            raise LimitError(f"more than {limits.max_facts} facts", "max_facts")

    # --- the engine follows ---

    def _apply_batch(self, work: Batch) -> Change | None:
        change = super()._apply_batch(work)
        algorithm = self.algorithm
        if algorithm is None:
            return change
        done = dict(algorithm.work)
        algorithm.settled()
        self._version, self._seconds = self._knowledge.version, 0.0
        if change is None:
            return Change(work=done) if done else None
        return replace(change, work=dict.fromkeys(change.work, 0) | done)

    def _apply(self, work: Batch | Submission) -> Change | None:
        if isinstance(work, Submission) and (text := work.update.get("add_rules")):
            catalogue = self._knowledge.catalogue
            names = catalogue.names(self._knowledge.functions)
            for rule in parse_program(text, "<rules>", catalogue.prefixes, names=names).rules:
                check_rule(normalise(rule), self._knowledge.engine)
        return super()._apply(work)

    def _fall_back(self, work: Batch | Submission, problem: BaseException) -> None:
        """What the engine refused has been entered here."""
        self.algorithm = None
        super()._fall_back(work, problem)


def facts_of(encoded: EncodedFacts) -> Iterator[Fact]:
    """Encoded facts, one by one."""
    for predicate, cells in encoded.items():
        for row in cells.tolist():
            yield predicate, tuple(row)
