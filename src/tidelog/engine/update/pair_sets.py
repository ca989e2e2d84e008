"""Sets of pairs before and after an update, and the change that a closure's predicate sees between them.

Rules that come and go make a component a closure, or another closure than it was. Its pairs before and after are then
two sets, each stored or virtual. How many pairs they share is counted with as little enumeration as possible (a closure
that only gains rules only gains pairs). The pairs themselves are listed when they are read, and get records when a
rule that reads the predicate asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tidelog.closures.closure import Closure
from tidelog.closures.history import ClosureChange
from tidelog.engine.update import rows as lazy_rows
from tidelog.engine.update.deltas import Delta, Facts
from tidelog.engine.update.rows import Rows
from tidelog.machine import flags as F
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.runtime.signals import check
from tidelog.runtime.thread_locks import Readers
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

Mask = npt.NDArray[np.bool_]
CheckLimits = Callable[[], None]
"""Called now and then in long work; raises to end it."""

PIECE = 1 << 20
# From the fewest pairs to the most.
_DIAGONALS = (Diagonal.NONE, Diagonal.GIVEN, Diagonal.CLOSURE)


class StoredPairs:
    """Pairs in rows, each once."""

    order = 0  # in which sets are held

    def __init__(self, rows: Cells) -> None:
        self._rows = rows
        self._ordered: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def contains(self, rows: Cells) -> Mask:
        if len(self._rows) == 0:
            return np.zeros(len(rows), np.bool_)
        if self._ordered is None:
            self._ordered = np.sort(packed(self._rows))
        keys = packed(rows)
        places = np.minimum(np.searchsorted(self._ordered, keys), len(self._ordered) - 1)
        return np.equal(self._ordered[places], keys)

    def pieces(self) -> Iterator[Cells]:
        if len(self._rows):
            yield self._rows

    def held(self) -> AbstractContextManager[Pairs]:
        """The same pairs, for reading after the update, at any time and from any thread."""
        return nullcontext(self)


class ClosurePairs:
    """The pairs that a closure has now, as they are or turned round."""

    def __init__(self, closure: Closure, turned: bool) -> None:
        self._closure = closure
        self._turned = turned
        self._view = closure.turned() if turned else closure
        self._moment = closure.now

    def __len__(self) -> int:
        return len(self._view)

    @property
    def order(self) -> int:
        return id(self._closure)

    def contains(self, rows: Cells) -> Mask:
        return self._view.contains(rows[:, 0], rows[:, 1])

    def pieces(self) -> Iterator[Cells]:
        return (np.stack(pair, axis=1) for pair in self._view.pairs(PIECE))

    @contextmanager
    def held(self) -> Iterator[Pairs]:
        with self._closure.at(self._moment, check) as closure:
            yield ClosurePairs(closure, self._turned)


Pairs = StoredPairs | ClosurePairs
"""A set of pairs that can be asked and listed."""


def packed(rows: Cells) -> npt.NDArray[np.int64]:
    """Each pair as one number."""
    return rows[:, 0].astype(np.int64) << 32 | rows[:, 1]


# --- changes of pairs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangedPairs:
    """Pairs that went or came: as rows for any later reader, and in pieces for the update in work."""

    rows: Rows
    pieces: Callable[[], Iterator[Cells]]

    def turned(self) -> ChangedPairs:
        if self.rows.count == 0:
            return self
        return ChangedPairs(self.rows.turned(), lambda: (piece[:, ::-1] for piece in self.pieces()))


_NO_PAIRS = ChangedPairs(Rows.of(np.empty((0, 2), np.int32)), lambda: iter(()))


def changed(change: ClosureChange, appeared: bool, readers: Readers) -> ChangedPairs:
    """The pairs that a change of a closure brought, or that it took. Few are listed once, for all who read them."""

    def having(column: int, terms: Cells) -> Cells:
        found = change.chunks(appeared, PIECE, terms if column == 0 else None)
        return _having((np.stack(pair, axis=1) for pair in found), column, terms)

    if not change.count(appeared):
        return _NO_PAIRS

    def pieces() -> Iterator[Cells]:
        if rows.count > lazy_rows.LAZY_FROM:
            return (np.stack(pair, axis=1) for pair in change.chunks(appeared, PIECE))
        rows.copy_now()
        return iter((rows.read(),))

    rows = Rows(change.count(appeared), lambda most: change.rows(appeared, most, check), readers, search=having)
    return ChangedPairs(rows, pieces)


def missing(pairs: Pairs, other: Pairs, count: int, readers: Readers) -> ChangedPairs:
    """The pairs of one set that another one lacks: `count` of them."""
    pieces = partial(_missing_pieces, pairs, other, count)
    return ChangedPairs(
        Rows(
            count,
            partial(_first_missing, pairs, other, count),
            readers,
            search=lambda column, terms: _having(pieces(), column, terms),
        ),
        pieces,
    )


def _having(pieces: Iterator[Cells], column: int, terms: Cells) -> Cells:
    """The pairs that have one of some terms in a column."""
    found = [piece[np.isin(piece[:, column], terms)] for piece in pieces]
    return np.concatenate(found) if found else np.empty((0, 2), np.int32)


def _missing_pieces(pairs: Pairs, other: Pairs, count: int) -> Iterator[Cells]:
    pieces = pairs.pieces() if count else iter(())
    if count == len(pairs):
        return pieces
    return (piece[~other.contains(piece)] for piece in pieces)


def _first_missing(pairs: Pairs, other: Pairs, count: int, most: int) -> Cells:
    listed, found = [np.empty((0, 2), np.int32)], 0
    with ExitStack() as stack:
        # In this order, so that two threads never wait for each other.
        held = {each: stack.enter_context(each.held()) for each in sorted((pairs, other), key=lambda each: each.order)}
        pieces = _missing_pieces(held[pairs], held[other], count)
        while found < most:
            listed.append(next(pieces)[: most - found])
            found += len(listed[-1])
            check()
    return np.concatenate(listed)


def closure_delta(relation: Relation, gone: ChangedPairs, come: ChangedPairs, check_limits: CheckLimits) -> Delta:
    """How the pairs that a relation shows have changed. They have no records before a rule that reads them asks."""
    return Delta(gone.rows, come.rows, partial(_record, relation, gone, come, check_limits))


def _record(relation: Relation, gone: ChangedPairs, come: ChangedPairs, check_limits: CheckLimits) -> Facts:
    for pairs, flags in ((gone, F.OLD), (come, F.IN)):
        if pairs.rows.count == 0:
            continue
        if pairs.rows.count > PIECE:
            relation.reserve(pairs.rows.count)
        for piece in pairs.pieces():
            relation.load(piece, flags)
            check_limits()
    facts = np.arange(gone.rows.count + come.rows.count, dtype=np.int32)
    return facts[: gone.rows.count], facts[gone.rows.count :]


# --- one closure in the place of another ------------------------------------------------------------------------------


def count_common(one: Pairs, other: Pairs, check_limits: CheckLimits) -> int:
    """How many pairs two sets share, by a walk through the smaller one."""
    smaller, larger = sorted((one, other), key=len)
    common = 0
    for piece in smaller.pieces():
        common += int(np.count_nonzero(larger.contains(piece)))
        check_limits()
    return common


def is_within(module: Module, larger: Module) -> bool:
    """Whether one module yields no pair that another does not yield, from the same base."""
    kinds = module.kind, larger.kind
    if Kind.LINEAR in kinds or kinds == (Kind.SYMMETRIC_TRANSITIVE, Kind.TRANSITIVE):
        return False
    return _DIAGONALS.index(module.diagonal) <= _DIAGONALS.index(larger.diagonal)
