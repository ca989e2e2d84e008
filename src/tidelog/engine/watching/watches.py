"""The queries that are watched in an engine, by their shapes, and what each update changes for them.

A shape that reads nothing of what changed costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np

from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.answers import AnswersChanged, Watched
from tidelog.engine.update.rows import NO_ROWS
from tidelog.engine.update.runner import Runner
from tidelog.engine.watching.watch import Join, Pattern, Shape, Watch
from tidelog.language.parameters import shape_of
from tidelog.language.syntax import Atom, Query, Rule, Variable, rule_key
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store


class Watches:
    """Queries under watch. Not for use by several threads at once, nor while an update is in work."""

    def __init__(self, store: Store, new_runner: Callable[[], Runner]) -> None:
        self._store = store
        self._new_runner = new_runner
        self._numbers = count(1)
        self._watches: dict[int, Watch] = {}
        self._by_shape: dict[Hashable, Watch] = {}
        self._by_predicate: dict[str, list[Watch]] = {}
        self._resting = False

    def watch(self, query: Query, answers: tuple[Variable, ...]) -> Watched:
        """Watch a query that has been checked, and has these variables in its answers."""
        shape, places, constants = shape_of(query)
        shape_key = len(places), rule_key(Rule(Atom("#answers", places + answers), shape.body))
        values = [constant.value for constant in constants]
        key = tuple(self._store.terms.encode_values(values).tolist()) if values else ()
        watch = self._by_shape.get(shape_key) or self._new(Shape(next(self._numbers), shape, places, answers))
        if key not in watch.keys:
            watch.ask(key)
        if shape_key not in self._by_shape:
            # Last: a shape that nothing is asked of is not there.
            self._by_shape[shape_key] = self._watches[watch.shape.number] = watch
            for predicate in watch.predicates:
                self._by_predicate.setdefault(predicate, []).append(watch)
        return Watched(watch.shape.number, key)

    def _new(self, shape: Shape) -> Watch:
        return Pattern(shape) if shape.is_pattern else Join(shape, self._store)

    def forget(self, watched: Watched) -> None:
        """Nobody watches a query any more."""
        watch = self._watches[watched.shape]
        watch.forget(watched.key)
        if not watch.keys:
            watch.retire()
            del self._watches[watched.shape]
            self._by_shape = {key: other for key, other in self._by_shape.items() if other is not watch}
            for predicate in watch.predicates:
                self._by_predicate[predicate].remove(watch)
                if not self._by_predicate[predicate]:
                    del self._by_predicate[predicate]

    def held_rows(self) -> Iterator[Cells]:
        """The constants of the queries; see `engine.reclaiming`."""
        for watch in self._watches.values():
            if watch.shape.constants:
                yield np.array(list(watch.keys), np.int32)

    @property
    def predicates(self) -> Collection[str]:
        """What the queries read."""
        return self._by_predicate.keys()

    def joins(self, one: frozenset[str], other: frozenset[str]) -> bool:
        """Whether some query reads predicates of both."""
        return any(
            not watch.predicates.isdisjoint(one) and not watch.predicates.isdisjoint(other)
            for watch in self._watches.values()
        )

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within, updates are only tried, and nobody is told of them."""
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    def changed(self, transaction: Transaction) -> list[AnswersChanged]:
        """What an update that is about to be committed changes."""
        if not self._by_predicate or self._resting:
            return []
        concerned = (self._by_predicate.get(predicate, ()) for predicate in transaction.deltas)
        watches = dict.fromkeys(watch for found in concerned for watch in found)
        return [change for watch in watches for change in self._changed(watch, transaction)]

    def _changed(self, watch: Watch, transaction: Transaction) -> Iterator[AnswersChanged]:
        number, misfit = watch.shape.number, watch.misfit(self._store)
        if misfit is not None:
            yield from (AnswersChanged(Watched(number, key), NO_ROWS, NO_ROWS, misfit=misfit) for key in watch.keys)
            return
        removed, added, errors = watch.changed(transaction, self._new_runner)
        for key in dict.fromkeys((*removed, *added)):
            if key in watch.keys:
                changed = removed.get(key, NO_ROWS), added.get(key, NO_ROWS)
                yield AnswersChanged(Watched(number, key), *changed, errors)
