"""A transaction: one update on its way through the components, all or nothing.

It runs kernels to their end, making room, calling Python functions and watching the limits whenever they pause, and
knows which facts changed so far. What was there before, and how it is put back, is the subject of `engine.undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.algorithms.policy import Counters
from tidelog.engine.compiled import AUXILIARY, CompiledRule, Node
from tidelog.engine.deltas import NOTHING, Changed, Explicit, RuleChange
from tidelog.engine.dropping import Dropped
from tidelog.engine.function_calls import answer_requests
from tidelog.engine.marking.marking import Marking
from tidelog.engine.marking.positive_marks import NO_WORDS, Returning, Words
from tidelog.engine.observer import SHUT, Attendant, Opening
from tidelog.engine.propagation.batches import TOP_RANK, queue_facts, queues_to_list, seed
from tidelog.engine.propagation.derived_heads import COUNT_DOWN, COUNT_UP, INSERT, OVERDELETE
from tidelog.engine.propagation.match_sets import Sets
from tidelog.engine.propagation.propagate import JOB_FIELDS, run_jobs, run_rounds
from tidelog.engine.undo import Before
from tidelog.errors import LimitError
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine.growth import no_breath
from tidelog.machine.jit import address, working_time
from tidelog.machine.status import (
    DONE,
    FULL,
    FULL_FRAMES,
    FULL_LIST,
    FULL_LOG,
    FULL_TERMS,
    NEED_CALLS,
    NEED_TABLE,
    PAUSED,
)
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start
from tidelog.runtime import signals as interrupts
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

# Candidates between two looks at the clock: some tens of milliseconds.
BUDGET = 4_000_000

NO_RULE = "no rule had a part in it yet"

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an update may use."""

    max_facts: int | None = None
    timeout: float | None = None

    def check_time(self, began: float, busiest: Callable[[], str] = lambda: NO_RULE) -> None:
        """Raise `LimitError` where an update takes too long, `KeyboardInterrupt` after Ctrl-C."""
        interrupts.check()
        if self.timeout is not None and working_time() - began > self.timeout:
            raise LimitError(f"the update took more than {self.timeout} s; {busiest()}")


# So often in all patience asks whether it is worth to go on.
LOOKS_AHEAD = 8

# How many candidates there will be at least, after so many.
Outlook = Callable[[int], float]


class OutOfPatience(Exception):
    """A deletion has looked at more candidates than it may; nothing is decided by then."""


class Transaction:
    """One update in work."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        functions: Functions,
        rule_text: Callable[[int], str],
        attendant: Attendant | None = None,
        kept: Words = NO_WORDS,
        began: float | None = None,
    ) -> None:
        self.store = store
        self.machine = store.machine
        self._limits = limits
        self._functions = functions
        self._rule_text = rule_text
        self._attendant = attendant
        self.window: Opening = SHUT if attendant is None else attendant.window
        self.computes = True  # whether the kernels that are run have to know what terms are
        self._budget = BUDGET if attendant is None else attendant.budget
        store.breathe = no_breath if attendant is None else attendant.breathe
        store.alone = self.window.alone
        self._began = working_time() if began is None else began
        self.deltas: dict[str, Changed] = {}
        self.candidates = 0  # that kernels have looked at
        self._patience: int | None = None
        self._most = self._slice = 0  # the whole patience, and after how much of it to ask for the outlook
        self._outlook: Outlook | None = None
        self._dense: set[Relation] = set()
        self._postponed: set[Relation] = set()
        self._enlarged: set[Relation] = set()  # those that had no room left once already
        self._inserting = False
        self._deleting = False  # whether the heads of rules are all known
        self.before = Before(store)
        # Predicates of components in which it was dear to delete what took little with it.
        self.cyclic: tuple[str, ...] = ()
        self._rule_work_before = store.arrays.rule_work.copy()
        self.machine[M.ERRORS] = 0
        self.machine[M.REQUEST_COUNT] = 0  # A query that was interrupted may have left some.
        self.machine[M.DOUBTS] = 0
        self.machine[M.WORK : M.WORK + len(W.KINDS)] = 0
        self.marking = Marking(self, attendant is not None and attendant.streams)
        self.returning = Returning(self, kept)

    def look_up(self, node: Node) -> None:
        """From now on single facts of a component are looked for."""
        for relation in node.relations:
            relation.table.complete()

    def forget_derived(self, relation: Relation, most_stays: bool, share_left: float) -> Cells:
        """Take all facts out of I, for the component to be materialised again; the explicit ones, which come first."""
        # Whoever looks in may know facts by their numbers. Facts that no table has are not quickly found again.
        renews = self._attendant is None and not (most_stays and relation.table.is_usable)
        return self.before.forget_derived(relation, share_left if renews else None)

    def drop(self, relation: Relation) -> None:
        """Take all records out of a relation that no rule derives or reads any more, and that has no explicit facts."""
        delta = Dropped(self.before.drop(relation))
        if delta:
            self.deltas[relation.name] = delta

    # --- running kernels ----------------------------------------------------------------------------------------------

    def run(self, kernel: Callable[..., int], *arguments: Any) -> None:
        """Run a kernel to its end."""
        self.machine[M.STATE : M.STATE_END] = 0
        while True:
            budget = self._budget if self._patience is None else max(1, min(self._slice, self._patience))
            self.machine[M.BUDGET] = budget
            if self.computes and self.window is not SHUT:
                with self.window.alone():
                    status = kernel(self.machine, *arguments)
            else:
                status = kernel(self.machine, *arguments)
            used = budget - int(self.machine[M.BUDGET])
            self.candidates += used
            if self._patience is not None:
                self._patience -= used
            if status == DONE:
                return
            if self._patience is not None and self._is_hopeless():
                self.machine[M.REQUEST_COUNT] = 0  # nobody waits for the results of those calls any more
                raise OutOfPatience
            self._attend(status)

    @contextmanager
    def patience(self, most: int | None, outlook: Outlook | None = None) -> Iterator[None]:
        """Within, kernels look at no more than about `most` candidates; then `OutOfPatience`. `outlook` says after how
        many candidates so far how many more there will be at least; that is asked for now and then.
        """
        self._patience, self._outlook = most, outlook
        self._most = most or 0
        self._slice = min(self._budget, self._most if outlook is None else self._most // LOOKS_AHEAD)
        try:
            yield
        finally:
            self._patience = None

    def _is_hopeless(self) -> bool:
        assert self._patience is not None
        if self._patience <= 0 or self._outlook is None:
            return self._patience <= 0
        return self._outlook(self._most - self._patience) > self._patience

    def _attend(self, status: int) -> None:
        """Do what a kernel paused for."""
        if status in (FULL_TERMS, NEED_CALLS):
            with self.window.alone():
                self._serve_terms(status)
        else:
            self._let_grow(status)
        self.look_around()

    def _serve_terms(self, status: int) -> None:
        if status == FULL_TERMS:
            self.store.terms.reserve(1)
        else:
            self._call_functions()

    def _let_grow(self, status: int) -> None:
        machine = self.machine
        if status == FULL:
            self._make_room(self.store.relations[machine[M.FULL]], int(machine[M.STAGED]))
        elif status == FULL_LOG:
            self.store.arrays.grow_log(int(machine[M.LOG_COUNT] + machine[M.STAGED]))
        elif status == FULL_LIST:
            self.store.lists.reserve(int(machine[M.FULL]), int(machine[M.STAGED]))
        elif status == FULL_FRAMES:
            self.store.arrays.grow_frames()
        elif status == PAUSED:
            self._expect_long_work()
        elif status == NEED_TABLE:
            self.store.relations[machine[M.FULL]].table.complete()

    def look_around(self) -> None:
        """Watch the limits, and let the attendant look in; what he waits for does not count as time of the update."""
        self.check_limits()
        if self._attendant is not None:
            before = working_time()
            self._attendant.attend(self)
            self._began += working_time() - before

    def _make_room(self, relation: Relation, rows: int) -> None:
        if self._inserting:
            self.expect_many(relation)
            self._postpone_table(relation)
        if relation.has_room(rows):
            relation.queues.reserve(rows)
            return
        # Ask for more than this batch needs, so that growth stays rare; at first for little more, since most heads may
        # be known, and a table of twice the size would be made smaller again in the end.
        more = relation.count if relation in self._enlarged else relation.count // 4
        self._enlarged.add(relation)
        relation.reserve(max(rows, min(more, 1 << 20, relation.room_left)), known=self._deleting)

    def _postpone_table(self, relation: Relation) -> None:
        """A relation that is known by its bits needs no table, unless someone looks in meanwhile."""
        if relation in self._postponed or self._attendant is not None or self.machine[M.MARKING]:
            return
        if relation.postpone_table(int(self.machine[M.AT_BUFFERED])):
            self._postponed.add(relation)

    def _postpone_covered(self, jobs: list[tuple[int, ...]]) -> None:
        """The first facts of a relation need no table where no two of them can be the same: see `distinct_heads`."""
        if self._attendant is not None or self.machine[M.MARKING]:
            return
        for plan, pivots, *_ in jobs:
            covered = None if pivots else self.store.code.covered(plan)
            if covered is not None:
                target, scanned = (self.store.relations[number] for number in covered)
                if target.count == 0 and not target.table.probed and not target.has_room(scanned.count):
                    self._postponed.add(target)
                    target.expect_different(scanned.count)

    def expect_many(self, relation: Relation) -> None:
        """Many facts are about to come into a relation: let it be known by bits if it is dense. Not where instances
        that lead to what was brought back are counted, since bits leave out what is known.
        """
        if self.returning.brings_back:
            return
        # First: whatever fails on the way, the bits are forgotten.
        self._dense.add(relation)
        relation.bits.keep()

    def _expect_long_work(self) -> None:
        """Insertion that has used up a budget goes on for long: bits pay for the relation that facts come into now."""
        if not self._inserting or self._attendant is not None:
            return
        relation = self.store.relations[self.machine[M.AT_TARGET]]
        if relation not in self._dense:
            self.expect_many(relation)

    def _begin(self, action: int) -> None:
        """Dense relations are known by their bits for as long as facts are only inserted."""
        self._inserting = action == INSERT
        if not self._inserting:
            self._forget_pairs()

    def _forget_pairs(self) -> None:
        self._inserting = False
        for relation in self._dense:
            relation.bits.forget()
        self._dense.clear()

    def _call_functions(self) -> None:
        if self.machine[M.REQUEST_COUNT] == 0:
            self.store.arrays.grow_requests()
        answer_requests(self.store, self._functions)

    def check_limits(self, more: int = 0, rule: int | None = None) -> None:
        """Raise `LimitError` where the update takes too long or derives too much, `KeyboardInterrupt` after Ctrl-C.
        `more` facts at least are there besides those that the store knows of: a closure in work has found them, and
        `rule` is the one it stands for.
        """
        limits = self._limits
        busiest = self._busiest_rule if rule is None else partial(self._named, rule)
        limits.check_time(self._began, busiest)
        if limits.max_facts is not None and self._at_most() + more > limits.max_facts:
            total = self.store.fact_count() + more
            if total > limits.max_facts:
                raise LimitError(f"more than {limits.max_facts} facts ({total} so far); {busiest()}")

    def _at_most(self) -> int:
        """No fewer than there are facts: records, dead ones too, and pairs of closures."""
        return int(self.store.relation_table[:, R.COUNT].sum()) + self.store.pair_count()

    def _busiest_rule(self) -> str:
        before = self._rule_work_before
        grown = self.store.arrays.rule_work.copy()
        grown[: len(before)] -= before
        grown[AUXILIARY] = 0
        if not grown.any():
            return NO_RULE
        return self._named(int(np.argmax(grown)))

    def _named(self, rule: int) -> str:
        return f"busiest rule: {self._rule_text(rule)}"

    # --- propagation --------------------------------------------------------------------------------------------------

    def spread(self, action: int, sets: Sets, jobs: list[tuple[int, ...]], keep: list[Cells]) -> None:
        """Run jobs; `keep` holds the arrays whose addresses stand in them."""
        self._deleting = action in (COUNT_DOWN, OVERDELETE)
        if not jobs:
            return
        if action == COUNT_UP:
            self._postpone_covered(jobs)
        self._begin(action)
        sets.install(self.machine)
        table = np.array(jobs, np.int64).reshape(len(jobs), JOB_FIELDS)
        self.run(run_jobs, action, address(table), len(jobs))
        self._inserting = False
        del keep

    def rounds(self, action: int, sets: Sets, node: Node, counters: Counters, without: frozenset[int]) -> None:
        """Let what waits in a component spread to its end."""
        table = node.rounds(counters, action == OVERDELETE, without)
        self._deleting = action == OVERDELETE
        self._begin(action)
        sets.install(self.machine)
        self.machine[M.RANKING] = action == INSERT and counters is Counters.NON_RECURSIVE
        try:
            self.run(run_rounds, action, *table.arguments())
        finally:
            self._forget_pairs()

    @property
    def has_ranks_left(self) -> bool:
        """Whether every fact so far has got a rank of its own; see `engine.algorithms.ranks`."""
        return bool(self.machine[M.RANK] <= TOP_RANK)

    def seed(self, action: int, relation: Relation, facts: Cells, protect: bool = False) -> None:
        """Let facts wait in their relation's queue."""
        if len(facts):
            self.reserve_log(len(facts))
            relation.queues.reserve(len(facts))
            seed(self.machine, action, relation.number, address(np.ascontiguousarray(facts)), len(facts), protect)

    def queue_for_settling(self, relation: Relation, explicit: Explicit) -> None:
        """Let the facts whose place in E changed be looked at again."""
        for facts in (explicit.deleted[relation.number], explicit.added[relation.number]):
            if len(facts):
                relation.queues.reserve(len(facts))
                queue_facts(self.machine, relation.number, address(np.ascontiguousarray(facts)), len(facts))

    def queues_to_list(self, node: Node, which: int) -> None:
        """Move what waits in a component's relations to a work list."""
        waiting = sum(relation.queues.waiting for relation in node.relations)
        self.store.lists.clear(which)
        self.store.lists.reserve(which, waiting)
        numbers = np.array([relation.number for relation in node.relations], np.int32)
        queues_to_list(self.machine, address(numbers), len(numbers), which)

    def reserve_log(self, entries: int) -> None:
        needed = int(self.machine[M.LOG_COUNT]) + entries
        if needed > len(self.store.arrays.log):
            self.store.arrays.grow_log(needed)

    def jobs_from_below(
        self, node: Node, rules: RuleChange, deleted: bool, counters: Counters
    ) -> tuple[list[tuple[int, ...]], list[Cells]]:
        """Jobs for what changed below: pivots are facts gone for deletion (come, where negated), come for insertion."""
        jobs: list[tuple[int, ...]] = []
        keep: list[Cells] = []
        # Heads that marks announced need not be derived, unless that moves their counters.
        announced = self.marking.announced if deleted and counters is Counters.NONE else ()
        readers = [(self.deltas[name], node.readers[name]) for name in node.readers if name in self.deltas]
        whole = set() if deleted else self._wholly_new(node)
        for rule in whole:
            if rule.number not in rules.added_numbers:
                jobs.append(self._job(rule, ALL, NOTHING, counters.of(False, deleted), keep))
        moved = [
            (delta, rule, pivot, deleted == (pivot.start is Start.POSITIVE))
            for delta, pivots in readers
            for rule, pivot in pivots
            if not (rule in whole or rule.number in rules.added_numbers or self._is_idle(rule))
            if rule.number not in announced
        ]
        # To list changes takes as long as they are many; but a recursion looks at what was there before in any case.
        if node.recursive_rules or any(
            delta.removed_count if gone else delta.added_count for delta, _, _, gone in moved
        ):
            for delta, rule, pivot, gone in moved:
                facts = delta.removed if gone else delta.added
                if len(facts):
                    jobs.append(self._job(rule, pivot, facts, counters.of(rule.recursive, deleted), keep))
        return jobs, keep

    def _is_idle(self, rule: CompiledRule) -> bool:
        """Whether some relation of the rule's own component is still empty: then rounds find all of its instances."""
        return rule.recursive and any(
            self.store.relation(atom.predicate, atom.arity).count == 0
            for atom in rule.normal.positives
            if atom.predicate in rule.own
        )

    def _wholly_new(self, node: Node) -> set[CompiledRule]:
        """Rules that read a relation which was empty before: all instances are new, and one free join finds them."""
        return {
            rule
            for name, pivots in node.readers.items()
            if name in self.deltas and self.before.is_new(self.store.relation(name, 0))
            for rule, pivot in pivots
            if pivot.start is Start.POSITIVE and not rule.recursive
        }

    def _job(self, rule: CompiledRule, pivot: Pivot, pivots: Cells, counter: int, keep: list[Cells]) -> tuple[int, ...]:
        plan = rule.offset(pivot)
        if pivot.start is Start.ALL:
            return (plan, 0, 1, 0, counter, 0)
        keep.append(pivots)
        negative = pivot.start is Start.NEGATIVE
        atom = (rule.normal.negatives if negative else rule.normal.positives)[pivot.position]
        relation = self.store.relation(atom.predicate, atom.arity)
        return (plan, address(pivots), len(pivots), int(negative), counter, relation.number)

    def whole_rules(
        self, rules: Iterable[CompiledRule], deleted: bool, counters: Counters, held: bool = False
    ) -> tuple[list[tuple[int, ...]], list[Cells]]:
        """Jobs for all instances of rules, or all that held before the update, as those that are deleted did. A rule
        that reads an empty relation has none, and needs no plan yet.
        """
        if deleted:
            self.list_changes(rule.normal for rule in rules)
        jobs = [
            self._job(rule, ALL, NOTHING, counters.of(rule.recursive, deleted), [])
            for rule in rules
            if not self._reads_nothing(rule, held or deleted)
        ]
        return jobs, []

    def _reads_nothing(self, rule: CompiledRule, held: bool) -> bool:
        """Whether some relation that a rule reads is empty, or was before the update."""
        relations = (self.store.find(atom.predicate) for atom in rule.normal.positives)
        return any(
            relation is None or (relation.closure is None and (relation.count if held else len(relation)) == 0)
            for relation in relations
        )

    def list_changes(self, rules: Iterable[NormalRule]) -> None:
        """What held before is told from what holds now by the records of what changed: see that they are there."""
        for rule in rules:
            for atom in (*rule.positives, *rule.negatives):
                delta = self.deltas.get(atom.predicate)
                if delta is not None:
                    len(delta.removed)

    # --- what changed -------------------------------------------------------------------------------------------------

    def collect(self, relations: Iterable[Relation]) -> None:
        """Note how the relations of a component changed, now that it is done."""
        for relation in relations:
            delta = self.before.delta(relation)
            if delta:
                self.deltas[relation.name] = delta
        self.before.end_component()

    def work_registers(self) -> npt.NDArray[np.int64]:
        return self.machine[M.WORK : M.WORK + len(W.KINDS)]

    def work(self) -> dict[str, int]:
        """Rule applications by kind."""
        return dict(zip(W.KINDS, self.work_registers().tolist(), strict=True))

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        self._forget_pairs()
        self.before.commit()

    def let_go(self) -> None:
        """It is over: what changed belongs to whoever was told of it."""
        self.deltas.clear()
        self.before.let_go()
        self.store.spare.end_update()
        self.store.breathe = no_breath
        self.store.alone = nullcontext
        self.store.look = no_breath

    def roll_back(self) -> None:
        for relation in self._postponed:
            relation.drop_untabled()
        self._forget_pairs()
        self.before.roll_back()
        self.machine[M.REQUEST_COUNT] = 0
        self.marking.forget()
        self.returning.forget()
        self.let_go()
