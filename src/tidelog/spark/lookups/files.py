"""Facts by key, straight from the Parquet files of a version.

Ids are dense, so that the keys of a lookup are flags in an array, and a scan of a column costs an access a row. Only
rows that fit leave the scan; other columns than those of the key are read where there are any. All of a base is scanned
for a handful of rows, and that is still far less than a job: a million rows take some ten milliseconds, and a few once
they have been read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tidelog.spark.lookups.columns import Cells, Columns, Piece
from tidelog.spark.maintenance.snapshot import Layer, Stored

Ids = tuple[int, ...]
"""A fact as the ids of its arguments, or the key of some."""

_STATE = ("e", "n", "h")


class TooMuch(Exception):
    """More facts are needed than the driver should look up."""


class State(NamedTuple):
    """Of a fact that holds: whether it is explicit, and how many derivations it has by rules that are not recursive."""

    explicit: bool
    derivations: int


class Files:
    """The facts of all predicates of a version, whose ids are below `terms`; `most` bounds how many are brought
    in."""

    def __init__(self, root: Path, columns: Columns, stored: Mapping[str, Stored], terms: int, most: int) -> None:
        self._root = root
        self._columns = columns
        self._stored = stored
        self._flags = np.zeros(terms, bool)
        self._left = most

    def matching(self, name: str, columns: Sequence[int], wanted: Collection[Ids]) -> dict[Ids, State]:
        """The facts of a predicate that have, in some columns, one of the wanted keys."""
        stored = self._stored[name]
        known = len(self._flags)
        # What a rule has computed just now is in no file.
        keys = {key for key in wanted if not key or max(key) < known}
        found: dict[Ids, State] = {}
        if not keys or not stored.facts:
            return found
        for layer in stored.folders:
            for fact, state, holds in self._rows(stored, layer, columns, keys):
                # The newest layer that has a fact is right about it.
                if holds:
                    found[fact] = state
                else:
                    found.pop(fact, None)
        return found

    def spend(self, facts: int) -> None:
        """Count facts that are brought in, or rule instances, which can be as many again."""
        self._left -= facts
        if self._left < 0:
            raise TooMuch

    def _rows(
        self, stored: Stored, layer: Layer, columns: Sequence[int], keys: set[Ids]
    ) -> Iterator[tuple[Ids, State, bool]]:
        for piece in self._columns.pieces(self._root / layer.path):
            chosen = self._chosen(piece, stored, columns, keys)
            self.spend(len(chosen[0]))
            yield from _fitting(chosen, stored, columns, keys)

    def _chosen(self, piece: Piece, stored: Stored, columns: Sequence[int], keys: set[Ids]) -> list[Cells]:
        """The rows of a piece that may fit: their arguments and their state."""
        rows = self._candidates(piece, stored, columns, keys)
        names = [*stored.columns, *_STATE]
        if rows is None:
            return self._columns.read(piece, names)
        if not len(rows):
            return [rows] * len(names)
        return [cells[rows] for cells in self._columns.read(piece, names)]

    def _candidates(self, piece: Piece, stored: Stored, columns: Sequence[int], keys: set[Ids]) -> Cells | None:
        """The rows in which each column has an id that some key has there; None for all of them."""
        fitting = None
        for place, cells in enumerate(self._columns.read(piece, [stored.columns[column] for column in columns])):
            ids = np.fromiter({key[place] for key in keys}, np.int64)
            self._flags[ids] = True
            fits = self._flags[cells]
            self._flags[ids] = False
            fitting = fits if fitting is None else fitting & fits
        return None if fitting is None else np.flatnonzero(fitting)


def _fitting(
    chosen: Sequence[Cells], stored: Stored, columns: Sequence[int], keys: set[Ids]
) -> Iterator[tuple[Ids, State, bool]]:
    """Those rows that have a key: a fact, its state, and whether it holds."""
    arity, whole = stored.arity, list(columns) == list(range(stored.arity))
    for *fact, explicit, derivations, holds in zip(*(cells.tolist() for cells in chosen), strict=True):
        ids = tuple(fact[:arity])
        if (ids if whole else tuple(ids[column] for column in columns)) in keys:
            yield ids, State(explicit, derivations if stored.counted else 0), holds
