"""A closure in the place of records or of another closure: what its predicate gains and loses by that.

Rules that come and go make a component a closure, or another closure than it was. Its pairs before and after are then
two sets, each stored or virtual. How many pairs they have in common is counted with as little enumeration as possible
(a closure that only gains rules only gains pairs), and the differences are listed when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidelog.closures.closure import Closure
from tidelog.engine.outcome import LateRows
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.runtime.signals import check
from tidelog.runtime.thread_locks import Readers
from tidelog.store.relation_parts import Cells

Mask = npt.NDArray[np.bool_]
Look = Callable[[], None]

_PIECE = 1 << 20
_KINDS = (Kind.TRANSITIVE, Kind.SYMMETRIC_TRANSITIVE)
_DIAGONALS = (Diagonal.NONE, Diagonal.GIVEN, Diagonal.CLOSURE)


class Pairs(Protocol):
    """A set of pairs that can be asked and listed."""

    def __len__(self) -> int: ...

    def contains(self, rows: Cells) -> Mask: ...

    def pieces(self) -> Iterator[Cells]: ...

    @property
    def order(self) -> int:
        """Two sets are settled in this order, lest two threads that do so wait for each other."""

    def settled(self) -> AbstractContextManager[Pairs]:
        """The same pairs, for whoever looks after the update: it may be any thread, at any time."""


class StoredPairs:
    """Pairs that lie in rows, each once."""

    order = 0

    def __init__(self, rows: Cells) -> None:
        self._rows = rows
        self._ordered: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def contains(self, rows: Cells) -> Mask:
        if self._ordered is None:
            self._ordered = np.sort(packed(self._rows))
        return among(packed(rows), self._ordered)

    def pieces(self) -> Iterator[Cells]:
        if len(self._rows):
            yield self._rows

    def settled(self) -> AbstractContextManager[Pairs]:
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
        return (np.stack(pair, axis=1) for pair in self._view.pairs(_PIECE))

    @contextmanager
    def settled(self) -> Iterator[Pairs]:
        with self._closure.at(self._moment, check) as closure:
            yield ClosurePairs(closure, self._turned)


class MissingPairs(LateRows):
    """The pairs of one set that another lacks: `count` of them, listed when somebody looks."""

    def __init__(self, pairs: Pairs, other: Pairs, count: int, readers: Readers) -> None:
        super().__init__(count, readers)
        self._sets: tuple[Pairs, Pairs] | None = (pairs, other)

    def pieces(self) -> Iterator[Cells]:
        """For the update that they are told of."""
        assert self._sets is not None
        return self._missing(*self._sets)

    def _missing(self, pairs: Pairs, other: Pairs) -> Iterator[Cells]:
        pieces = pairs.pieces() if self.count else iter(())
        if self.count == len(pairs):
            return pieces
        return (piece[~other.contains(piece)] for piece in pieces)

    def _listed(self, most: int) -> Cells:
        assert self._sets is not None
        listed, found = [np.empty((0, 2), np.int32)], 0
        with self._settled(*self._sets) as (pairs, other):
            pieces = self._missing(pairs, other)
            while found < most:
                listed.append(next(pieces)[: most - found])
                found += len(listed[-1])
                check()
        return np.concatenate(listed)

    @contextmanager
    def _settled(self, pairs: Pairs, other: Pairs) -> Iterator[tuple[Pairs, Pairs]]:
        if pairs.order <= other.order:
            with pairs.settled() as first, other.settled() as second:
                yield first, second
        else:
            with other.settled() as second, pairs.settled() as first:
                yield first, second

    def _let_go(self) -> None:
        self._sets = None


def differences(former: Pairs, present: Pairs, common: int, readers: Readers) -> tuple[MissingPairs, MissingPairs]:
    """The pairs that are gone, and those that have come."""
    gone = MissingPairs(former, present, len(former) - common, readers)
    return gone, MissingPairs(present, former, len(present) - common, readers)


def count_common(one: Pairs, other: Pairs, look: Look) -> int:
    """How many pairs two sets share, by a walk through the smaller one. `look` is called now and then, and may
    raise.
    """
    smaller, larger = sorted((one, other), key=len)
    common = 0
    for piece in smaller.pieces():
        common += int(np.count_nonzero(larger.contains(piece)))
        look()
    return common


def is_within(module: Module, larger: Module) -> bool:
    """Whether one module yields no pair that another does not yield, from the same base."""
    if module.kind not in _KINDS or larger.kind not in _KINDS:
        return False
    return _KINDS.index(module.kind) <= _KINDS.index(larger.kind) and _DIAGONALS.index(
        module.diagonal
    ) <= _DIAGONALS.index(larger.diagonal)


def packed(rows: Cells) -> npt.NDArray[np.int64]:
    """Each pair as one number."""
    return rows[:, 0].astype(np.int64) << 32 | rows[:, 1]


def among(keys: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> Mask:
    """For each key, whether it is one of some that stand in order."""
    if len(ordered) == 0:
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: Mask = ordered[places] == keys
    return found
