"""A transaction: one update on its way through the components, all or nothing; and who observes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tidelog.engine.marking.marking import Marking, Place
from tidelog.engine.propagation.mark_kernels import forget_marks
from tidelog.engine.rules.compiled import Node
from tidelog.engine.update.deltas import Delta, EncodedFacts, ExplicitChange
from tidelog.engine.update.failures import FailedGroup
from tidelog.engine.update.relation_growth import RelationGrowth
from tidelog.engine.update.runner import CLOSED, Functions, Limits, Runner, Window, alone, let_nobody_in
from tidelog.engine.update.undo import UndoLog
from tidelog.machine import growth
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.program.normal_form import NormalRule
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import NO_HOOKS, Store, UpdateHooks


class Observer(Protocol):
    """Has its turn while an update is in work, between components and whenever a kernel pauses: a stream that looks
    ahead, or the live mode that takes new updates in.
    """

    @property
    def budget(self) -> int:
        """How many candidates a kernel may look at before it pauses."""

    @property
    def streams(self) -> bool:
        """Whether work is counted as for a stream, see `engine.marking.marking`."""

    @property
    def place(self) -> Place | None:
        """Which update of a stream that looks ahead is in work."""

    @property
    def window(self) -> Window:
        """Open while an update is in work, except around what needs the terms."""

    def ahead(self) -> EncodedFacts:
        """What the next update of a stream deletes, as far as it has been seen."""

    def observe(self, transaction: Transaction) -> None:
        """May mark facts or wait, and raise to have the update rolled back. Must not run a kernel that has state."""

    def between_pieces(self, passable: bool = False) -> None:
        """Called in long work that cannot be left half done: may take new updates in, and must not raise. `passable`:
        it may also apply updates that have nothing to do with the one in work.
        """


class Transaction:
    """One update in work: what runs it, what it has changed so far, and what takes it back."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        functions: Functions,
        rule_text: Callable[[int], str],
        observer: Observer | None,
        began: float,
        let_in: Callable[[bool], None],
    ) -> None:
        """From now on the store serves this update. Whenever it pauses, it lets other threads in, and says whether it
        is at rest.
        """
        self.store = store
        self.machine = store.machine
        self.lists = store.lists
        self.deltas: dict[str, Delta] = {}
        # What changed in E, by the relations that explicit facts lie in.
        self.explicit: dict[Relation, ExplicitChange] = {}
        # Instances that Backward/Forward found in insertion and whose heads were not new; None under other algorithms.
        self.known_heads: int | None = None
        self.failed_groups: list[FailedGroup] = []
        self._observer = observer
        self.claims: Callable[[], frozenset[str]] = frozenset  # the predicates that it may change
        self.let_read_during: Callable[[Callable[[], Any]], Any] = alone  # work that does not touch what others read
        self.window: Window = CLOSED if observer is None else observer.window
        self.growth = RelationGrowth(store, observer is not None)
        budget = None if observer is None else observer.budget
        self.runner = Runner(store, limits, functions, rule_text, self.growth, self.window, budget, began)
        if observer is not None:
            self.runner.on_pause = partial(observer.observe, self)
        self._let_in = self.runner.let_in = let_in
        store.hooks = UpdateHooks(
            self._between_pieces, self._within_closure, self.window.using_terms, self.runner.check_limits
        )
        self.machine[M.DOUBTS] = 0
        self.work_registers()[:] = 0
        self.runner.begin()
        self.undo = UndoLog(store)
        self.undo.begin()
        self.marking = Marking(store, self.runner, self.undo, observer is not None and observer.streams)

    def _between_pieces(self) -> None:
        if self._observer is not None:
            self._observer.between_pieces(self.runner.makes_room or self._makes_for_itself())
        self._let_in(False)

    def _within_closure(self) -> None:
        """Closures have memory of their own, and tell what they were: the update is at rest."""
        if self._observer is not None:
            self._observer.between_pieces(True)
        self._let_in(True)

    def _makes_for_itself(self) -> bool:
        """Whether a table or an index is being made for a predicate that no update can touch which passes this one."""
        making = self.store.making
        return making is not None and making in self.claims()

    def _shut(self) -> None:
        """From now on nobody is let in: what was can no longer be told."""
        self._let_in = self.runner.let_in = let_nobody_in

    def forget_derived(self, node: Node, relation: Relation, most_stays: bool, share_left: float) -> Cells:
        """Take all facts of a relation out of I, to materialise its component again; the explicit ones, now first."""
        # An observer may know facts by their numbers; and facts that no table has are not quickly found again.
        if (self._observer is not None and node.rules) or (most_stays and relation.table.is_usable):
            return self.undo.take_all(relation)
        explicit = self.undo.renew(relation, share_left if node.rules else 0.0)
        self.marking.moved(node.predicates[node.relations.index(relation)], relation)
        return explicit

    def list_changes(self, rules: Iterable[NormalRule]) -> None:
        """Make records for all that changed of what rules read: they tell what held before from what holds now."""
        for rule in rules:
            for atom in (*rule.positives, *rule.negatives):
                delta = self.deltas.get(atom.predicate)
                if delta is not None:
                    delta.listed()

    def pause_at_its_end(self) -> None:
        """Let others in where what has changed is much, and so takes long to commit. Nobody joins this update any more,
        nor does it give way: almost all of its work is done.
        """
        if int(self.machine[M.LOG_COUNT]) > growth.PIECE:
            if self._observer is not None:
                self._observer.between_pieces(True)
            self._let_in(True)

    def collect(self, relations: Iterable[Relation]) -> None:
        """Note how the relations of a component changed, now that it is done."""
        for relation in relations:
            delta = self.undo.delta(relation)
            if delta:
                self.deltas[relation.name] = delta
        self.undo.end_component()

    def work_registers(self) -> npt.NDArray[np.int64]:
        return self.machine[M.WORK : M.WORK + len(W.KINDS)]

    def work(self) -> dict[str, int]:
        """Rule applications by kind."""
        work = dict(zip(W.KINDS, self.work_registers().tolist(), strict=True))
        if self.known_heads is None:
            return work
        instances = work["insertion"]
        return work | {"insertion": instances - self.known_heads, "insertion_instances": instances}

    def commit(self) -> None:
        self._shut()
        self.growth.end_insertion()
        self.undo.commit()

    def roll_back(self) -> None:
        self._shut()
        self.growth.roll_back()
        self.undo.roll_back()
        self.machine[M.REQUEST_COUNT] = 0
        # A fact's record may have come back as it was when marked.
        forget_marks(self.machine)
        self.let_go()

    def let_go(self) -> None:
        """It is over: what changed belongs to those who were told of it. Nothing refers in a circle to what is left, so
        that all of it goes at once, and Python's garbage collector has nothing to find.
        """
        self.claims = frozenset
        self.runner.on_pause = None
        self.deltas.clear()
        self.undo.let_go()
        self.store.spare.end_update()
        self.store.hooks = NO_HOOKS
