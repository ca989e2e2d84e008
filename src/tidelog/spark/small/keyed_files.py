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

from tidelog.spark.maintain.layers import Layer, Stored
from tidelog.spark.small.parquet_columns import Cells, Columns, Piece

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
        keys = self._known(wanted) if stored.facts else set()
        found: dict[Ids, State] = {}
        for layer in stored.folders if keys else ():
            for fact, state, holds in self._rows(stored, layer, columns, keys):
                # The newest layer that has a fact is right about it.
                if holds:
                    found[fact] = state
                else:
                    found.pop(fact, None)
        return found

    def some(self, name: str, columns: Sequence[int], wanted: Collection[Ids], without: Collection[Ids]) -> list[Ids]:
        """For each wanted key one of the facts that have it, if there are any besides those to do without."""
        stored = self._stored[name]
        if not columns or stored.base is None:
            return [fact for fact in self.matching(name, columns, wanted) if fact not in without]
        keys = self._known(wanted)
        layered = [fact for layer in stored.layers for fact, *_ in self._rows(stored, layer, columns, keys)]
        passed_over = {*layered, *without}
        found: dict[Ids, Ids] = {}
        # Facts of which something else is known are in the way: their keys are looked at in full.
        unclear = {_part(fact, columns) for fact in layered}
        for fact, _, holds in self._rows(stored, stored.base, columns, keys, first=True):
            if holds and fact not in passed_over:
                found[_part(fact, columns)] = fact
            else:
                unclear.add(_part(fact, columns))
        rest = unclear - found.keys()
        others = self.matching(name, columns, rest) if rest else ()
        return [*found.values(), *(fact for fact in others if fact not in without)]

    def _known(self, keys: Collection[Ids]) -> set[Ids]:
        """Those keys that can be in a file: what a rule has computed just now is in none."""
        known = len(self._flags)
        return {key for key in keys if not key or max(key) < known}

    def spend(self, facts: int) -> None:
        """Count facts that are brought in, or rule instances, which can be as many again."""
        self._left -= facts
        if self._left < 0:
            raise TooMuch

    def _rows(
        self, stored: Stored, layer: Layer, columns: Sequence[int], keys: set[Ids], first: bool = False
    ) -> Iterator[tuple[Ids, State, bool]]:
        """The rows of a layer that have a key; or, of each piece of it, the first row of each key."""
        for piece in self._columns.pieces(self._root / layer.path):
            chosen = self._chosen(piece, stored, columns, keys, first)
            self.spend(len(chosen[0]))
            yield from _fitting(chosen, stored, columns, keys)

    def _chosen(self, piece: Piece, stored: Stored, columns: Sequence[int], keys: set[Ids], first: bool) -> list[Cells]:
        """The rows of a piece that may fit: their arguments and their state."""
        rows = self._candidates(piece, stored, columns, keys)
        names = [*stored.columns, *_STATE]
        if rows is None:
            return self._columns.read(piece, names)
        if not len(rows):
            return [rows] * len(names)
        if first:
            key_cells = self._columns.read(piece, [stored.columns[column] for column in columns])
            rows = rows[_first_of_each([cells[rows] for cells in key_cells])]
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


def _first_of_each(columns: Sequence[Cells]) -> Cells:
    """Where rows that differ in some columns stand first."""
    order = np.lexsort(columns)
    differs = np.ones(len(order), bool)
    differs[1:] = np.logical_or.reduce([cells[order[1:]] != cells[order[:-1]] for cells in columns])
    return order[differs]


def _part(fact: Ids, columns: Sequence[int]) -> Ids:
    return tuple([fact[column] for column in columns])


def _fitting(
    chosen: Sequence[Cells], stored: Stored, columns: Sequence[int], keys: set[Ids]
) -> Iterator[tuple[Ids, State, bool]]:
    """Those rows that have a key: a fact, its state, and whether it holds."""
    arity, whole = stored.arity, list(columns) == list(range(stored.arity))
    for *fact, explicit, derivations, holds in zip(*(cells.tolist() for cells in chosen), strict=True):
        ids = tuple(fact[:arity])
        if (ids if whole else _part(ids, columns)) in keys:
            yield ids, State(explicit, derivations if stored.counted else 0), holds
