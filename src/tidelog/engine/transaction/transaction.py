"""A transaction: one update on its way through the components, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

from tidelog.engine.marking.marking import Marking
from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.jobs import Jobs
from tidelog.engine.transaction.observer import Observer
from tidelog.engine.update.deltas import Delta
from tidelog.engine.update.relation_growth import RelationGrowth
from tidelog.engine.update.runner import CLOSED, Functions, Limits, Runner, Window
from tidelog.engine.update.undo import UndoLog
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine.growth import no_pause
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import NO_HOOKS, Store, UpdateHooks


class Transaction:
    """One update in work: what runs it, what it has changed so far, and what takes it back."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        functions: Functions,
        rule_text: Callable[[int], str],
        observer: Observer | None = None,
        began: float | None = None,
    ) -> None:
        self.store = store
        self.machine = store.machine
        self._observer = observer
        self.window: Window = CLOSED if observer is None else observer.window
        self.growth = RelationGrowth(store, observer is not None)
        budget = None if observer is None else observer.budget
        self.runner = Runner(store, limits, functions, rule_text, self.growth, self.window, budget, began)
        self.lists = store.lists
        self.undo = UndoLog(store)
        self.marking = Marking(store, self.runner, self.undo, observer is not None and observer.streams)
        self.deltas: dict[str, Delta] = {}
        self.jobs = Jobs(store, self.runner, self.growth, self.undo, self.marking, self.deltas)
        # Predicates of components in which a deletion was expensive for the little that it took with it.
        self.cyclic: tuple[str, ...] = ()

    def begin(self) -> None:
        """Let the store serve this update from now on."""
        store = self.store
        between_pieces = no_pause
        if self._observer is not None:
            self.runner.on_pause = partial(self._observer.observe, self)
            between_pieces = self._observer.between_pieces
        store.hooks = UpdateHooks(between_pieces, self.window.using_terms, self.runner.check_limits)
        self.machine[M.DOUBTS] = 0
        self.work_registers()[:] = 0
        self.runner.begin()
        self.undo.begin()
        self.marking.reset()

    # --- components ---------------------------------------------------------------------------------------------------

    def forget_derived(self, node: Node, relation: Relation, most_stays: bool, share_left: float) -> Cells:
        """Take all facts of a relation out of I, for its component to be materialised again. The explicit ones; they
        come first.
        """
        # An observer may know facts by their numbers, though not where rules change.
        if self._observer is not None and node.rules:
            return self.undo.take_all(relation)
        # Facts that no table has are not quickly found again.
        if most_stays and relation.table.is_usable:
            return self.undo.take_all(relation)
        return self.undo.renew(relation, share_left if node.rules else 0.0)

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
        return dict(zip(W.KINDS, self.work_registers().tolist(), strict=True))

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        self.growth.end_insertion()
        self.undo.commit()

    def roll_back(self) -> None:
        self.growth.roll_back()
        self.undo.roll_back()
        self.machine[M.REQUEST_COUNT] = 0
        self.marking.forget()
        self.let_go()

    def let_go(self) -> None:
        """It is over: what changed belongs to those who were told of it."""
        self.deltas.clear()
        self.undo.let_go()
        self.store.spare.end_update()
        self.store.hooks = NO_HOOKS
