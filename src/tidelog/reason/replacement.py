"""A closure in the place of records or of another closure: what its predicate gains and loses by that.

Rules that come and go make a component a closure, or another closure than it was. Its pairs before and after are then
two sets, each stored or virtual. How many pairs they have in common is counted with as little enumeration as possible
(a closure that only gains rules only gains pairs), and the differences are listed when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.store.closures import ReadableClosure
from tidelog.store.records import Cells

Mask = npt.NDArray[np.bool_]

_PIECE = 1 << 20
_KINDS = (Kind.TRANSITIVE, Kind.SYMMETRIC_TRANSITIVE)
_DIAGONALS = (Diagonal.NONE, Diagonal.GIVEN, Diagonal.CLOSURE)


class Pairs(Protocol):
    """A set of pairs that can be asked and listed."""

    def __len__(self) -> int: ...

    def contains(self, rows: Cells) -> Mask: ...

    def pieces(self) -> Iterator[Cells]: ...


class StoredPairs:
    """Pairs that lie in rows, each once."""

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


class ClosurePairs:
    """The pairs of a closure."""

    def __init__(self, closure: ReadableClosure) -> None:
        self._closure = closure

    def __len__(self) -> int:
        return len(self._closure)

    def contains(self, rows: Cells) -> Mask:
        return self._closure.contains(rows[:, 0], rows[:, 1])

    def pieces(self) -> Iterator[Cells]:
        return (np.stack(pair, axis=1) for pair in self._closure.pairs(_PIECE))


class MissingPairs:
    """The pairs of one set that another lacks: `count` of them, listed when somebody looks."""

    def __init__(self, pairs: Pairs, other: Pairs, count: int) -> None:
        self._sets: tuple[Pairs, Pairs] | None = (pairs, other)
        self._rows: Cells | None = None
        self.count = count

    def read(self) -> Cells:
        if self._rows is None:
            assert self._sets is not None
            pairs, other = self._sets
            pieces = pairs.pieces() if self.count else iter(())
            if self.count < len(pairs):
                pieces = (piece[~other.contains(piece)] for piece in pieces)
            self._rows = np.concatenate([np.empty((0, 2), np.int32), *pieces])
            self._sets = None
        return self._rows


def differences(former: Pairs, present: Pairs, common: int) -> tuple[MissingPairs, MissingPairs]:
    """The pairs that are gone, and those that have come."""
    gone = MissingPairs(former, present, len(former) - common)
    return gone, MissingPairs(present, former, len(present) - common)


def count_common(one: Pairs, other: Pairs) -> int:
    """How many pairs two sets share, by a walk through the smaller one."""
    smaller, larger = sorted((one, other), key=len)
    return sum(int(np.count_nonzero(larger.contains(piece))) for piece in smaller.pieces())


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
