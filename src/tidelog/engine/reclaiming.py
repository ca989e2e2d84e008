"""Giving back terms that are no longer in use: when it is worth looking for them, and what is in use.

Readings come and go, and each brings constants that nobody has seen before. So do questions, failed updates, deletions
of facts that were not there, and values that rules compute and do not keep. Counting the uses of each term would cost
every fact something. Instead, the number of unused terms is estimated: from what has been taken away, as others note,
or from how many more terms are new than there are new cells to hold them. When they are many, compared with all terms
and with the cells that have to be looked at, the records are gone through once, and all other terms are given back
(`Terms.keep_only`).

A term is in use where a record holds it, even a dead one; where a plan does; and where rows do that are encoded and not
yet applied. The result of a function call is forgotten where its arguments are not in use elsewhere: the function is
called again if they come back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.machine import relation_fields as R
from tidelog.machine.growth import no_pause, pieces
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine

# The search is worth it from this number of unused terms on, and from this number for each term and each cell.
WORTH_FROM = 1 << 16
WORTH_PER_TERM = 0.5
WORTH_PER_CELL = 0.25

Used = npt.NDArray[np.bool_]
HeldRows = Callable[[], Iterable[Cells]]


class Reclaiming:
    """What may be unused in the dictionary of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted = 0  # terms that may have become unused so far
        self._looked = 0  # how many had been noted and created at the last look
        # When terms were last given back: how many had been noted and created, and how many cells there were.
        self._noted_then = self._created_then = self._cells_then = 0
        self._holders: list[weakref.WeakMethod[HeldRows]] = []

    def add_holder(self, held_rows: HeldRows) -> None:
        """A method that gives encoded rows to be applied later. May be called from any thread, at any time."""
        self._holders.append(weakref.WeakMethod(held_rows))

    def _held(self) -> Iterator[Cells]:
        for found in tuple(self._holders):
            held_rows = found()
            if held_rows is None:
                self._holders.remove(found)
            else:
                yield from held_rows()

    def note(self, terms: int) -> None:
        """So many more terms may no longer be in use."""
        self._noted += terms

    @property
    def is_due(self) -> bool:
        """Whether so much has happened since the last look that another one may be worth its time."""
        return self._noted + self._store.terms.created - self._looked >= WORTH_FROM

    def look(self, waiting: Iterable[Cells]) -> None:
        """Give terms back if it is worthwhile; rows that wait to be applied hold theirs."""
        self._looked = self._noted + self._store.terms.created
        held = [*waiting, *self._held()]
        cells = self._cells()
        worth = max(WORTH_FROM, WORTH_PER_TERM * len(self._store.terms), WORTH_PER_CELL * cells)
        if max(self._noted - self._noted_then, self._homeless(cells, held)) >= worth:
            self._reclaim(held)
            self._noted_then, self._created_then, self._cells_then = self._noted, self._store.terms.created, cells

    def _cells(self) -> int:
        """How many cells hold terms that stay. Results of functions stay only as long as their arguments do."""
        table = self._store.relation_table
        cells = table[:, R.COUNT] * table[:, R.ARITY]
        return int(cells.sum() - cells[list(self._store.memo_functions)].sum())

    def _homeless(self, cells: int, held: list[Cells]) -> int:
        """How many new terms cannot be in use, since there are fewer new cells."""
        room = max(0, cells - self._cells_then) + sum(rows.size for rows in held) + len(self._store.code.constants)
        return self._store.terms.created - self._created_then - room

    def _reclaim(self, held: Iterable[Cells]) -> None:
        """Give back all terms that are not in use. Where memory is short, that can wait."""
        with suppress(MemoryError):
            used = np.zeros(len(self._store.terms), np.bool_)
            used[list(self._store.code.constants)] = True
            for rows in held:
                used[rows] = True
            memos = [self._store.relations[number] for number in self._store.memo_functions]
            for relation in self._store.relations:
                if relation not in memos:
                    for first, last in pieces(relation.count, no_pause):
                        used[relation.cells[first:last, : relation.arity]] = True
            _forget_calls(memos, used)
            self._store.terms.keep_only(used)


def _forget_calls(memos: list[Relation], used: Used) -> None:
    """Keep the results for arguments that are in use; these may be results of other functions."""
    while True:
        before = np.count_nonzero(used)
        for memo in memos:
            cells = memo.cells[: memo.count]
            used[cells[_is_called(memo, used), memo.arity - 1]] = True
        if np.count_nonzero(used) == before:
            break
    for memo in memos:
        called = _is_called(memo, used)
        if not called.all():
            memo.cells[: memo.count][~called, memo.flags_column] = 0
            memo.compact()


def _is_called(memo: Relation, used: Used) -> Used:
    """For each call that is remembered, whether all of its arguments are in use."""
    return np.asarray(used[memo.cells[: memo.count, : memo.arity - 1]].all(axis=1))


class PassingTerms:
    """A context that notes the terms that are new within: those of a question, which are then given back if they are
    many, or those of an update that fails. It is not a generator, since every update and every `in` enters it.
    """

    __slots__ = ("_before", "_engine", "_for_a_question")

    def __init__(self, engine: Engine, for_a_question: bool) -> None:
        self._engine = engine
        self._for_a_question = for_a_question
        self._before = engine.store.terms.created

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._for_a_question:
            return
        new = self._engine.store.terms.created - self._before
        if new:
            self._engine.reclaiming.note(new)
            if self._for_a_question:
                self._engine.reclaim_terms()
