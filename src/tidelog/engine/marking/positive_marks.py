"""Positive marks: what the update in work deletes and the next one brings back (Delete/Rederive with Marking;
Backward/Forward with Marking, section 3.1).

A fact that the next update adds comes back if it goes now. An instance that overdeletion finds anyway, all of whose
facts stay or come back, lets its head come back: the instance is kept. The next update looks at the flags of the kept
facts, without a search, and lets the heads whose instances hold wait for insertion at once; an instance that leads to
one of them is no application of DR5 any more. Whatever has become of the facts of an instance meanwhile, a head is only
brought back by one that holds, so that marks change work and never results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.engine.marking.positive_mark_kernels import mark_returning, restore, take_returns
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.jit import address
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.engine.transaction import Transaction

Words = npt.NDArray[np.int64]
NO_WORDS: Words = np.empty(0, np.int64)

# Words of kept instances for each fact that comes back; what does not fit is found by search.
ROOM = 256


class Returning:
    """The positive marks of an update in work; `kept` are the instances that its predecessor kept."""

    def __init__(self, transaction: Transaction, kept: Words) -> None:
        self._transaction = transaction
        self._machine = transaction.machine
        self._lists = transaction.store.lists
        self._kept = kept

    def reset(self) -> None:
        """Let the machine hold no positive marks of this update."""
        self._lists.clear(L.RETURNS)
        self._machine[M.RETURNING] = 0
        self._machine[M.RESTORED] = 0

    def look(self, additions: Mapping[str, Cells], relation_of: Callable[[str], Relation | None]) -> None:
        """The next update is there: what it adds comes back if it goes."""
        self._lists.reserve(L.RETURNS, ROOM * sum(map(len, additions.values())))
        for predicate, rows in additions.items():
            relation = relation_of(predicate)
            if relation is not None and relation.arity == rows.shape[1]:
                rows = np.ascontiguousarray(rows)
                mark_returning(self._machine, relation.number, address(rows), len(rows))

    @property
    def brings_back(self) -> bool:
        """Whether this update may bring facts back by what its predecessor kept."""
        return len(self._kept) > 0

    def pass_on(self, overdeletes: bool) -> None:
        """For the next component instances are kept, or none are: not while a kernel pauses, whose way depends on
        it."""
        self._machine[M.RETURNING] = overdeletes and self._lists.count(L.RETURNS) > 0

    def restore(self, relation: Relation) -> None:
        """Let the facts of a relation that came back wait for insertion."""
        if self.brings_back:
            self._transaction.undo.reserve(len(self._kept))
            relation.queues.reserve(len(self._kept))
            restore(self._machine, relation.number, address(self._kept), len(self._kept))

    def finish(self) -> Words:
        """The update is done: take the marks off. The instances that were kept."""
        self._machine[M.WORK + W.INSERTION] -= self._machine[M.RESTORED]
        if self._lists.count(L.RETURNS) == 0:
            return NO_WORDS
        take_returns(self._machine)
        kept = self._lists.entries(L.RETURNS).copy()
        self._lists.clear(L.RETURNS)
        return kept

    def forget(self) -> None:
        """Take every mark off after a failure."""
        if self._lists.count(L.RETURNS):
            take_returns(self._machine)
            self._lists.clear(L.RETURNS)
