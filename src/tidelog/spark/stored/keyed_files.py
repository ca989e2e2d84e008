"""Facts by key, straight from the Parquet files of a version, with the columns that were read kept in memory.

The last bits of the ids of a lookup are flags in an array, and scanning a column costs one access per row. Only rows
that fit leave the scan, hardly any of them by accident, and columns outside the key are read only if there are such
rows. A whole base is scanned for a few rows, yet this is far cheaper than a job: a million rows take some ten
milliseconds, and less once they have been read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from tidelog.spark.data.term_lookup import Ids
from tidelog.spark.stored.layers import Layer, Stored

KEPT_BYTES = 256 << 20
_FLAGS = 1 << 22

Cells = np.ndarray[Any, Any]

_STATE = ("e", "n", "h")


class Piece(NamedTuple):
    """The rows of a file that are read together: a row group."""

    path: Path
    group: int


class ColumnCache:
    """The columns of pieces by name: read on demand, and kept while there is room.

    The cost of a lookup is mostly reading, and both an update and the next one look into the same files many times.
    The files of a version never change, so a column stays valid as long as some version has its file. The least
    recently used columns go first."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._held = 0
        self._pieces: dict[Path, list[Piece]] = {}
        self._cells: OrderedDict[tuple[Piece, str], Cells] = OrderedDict()

    def pieces(self, folder: Path) -> list[Piece]:
        """The pieces of all files of a folder."""
        if folder not in self._pieces:
            groups = {path: pq.read_metadata(path).num_row_groups for path in sorted(folder.glob("*.parquet"))}
            self._pieces[folder] = [Piece(path, group) for path, count in groups.items() for group in range(count)]
        return self._pieces[folder]

    def read(self, piece: Piece, names: Sequence[str]) -> list[Cells]:
        """Some columns of a piece."""
        missing = [name for name in names if (piece, name) not in self._cells]
        if missing:
            with pq.ParquetFile(piece.path) as file:
                table = file.read_row_group(piece.group, missing)
            for name in missing:
                cells = self._cells[piece, name] = table.column(name).to_numpy()
                self._held += cells.nbytes
        for name in names:
            self._cells.move_to_end((piece, name))
        found = [self._cells[piece, name] for name in names]
        while self._held > self._most:
            _, cells = self._cells.popitem(last=False)
            self._held -= cells.nbytes
        return found

    def keep(self, folders: Collection[Path]) -> None:
        """Forget all files outside these folders."""
        self._pieces = {folder: pieces for folder, pieces in self._pieces.items() if folder in folders}
        for piece, name in [place for place in self._cells if place[0].path.parent not in folders]:
            self._held -= self._cells.pop((piece, name)).nbytes


class TooManyFacts(Exception):
    """More facts are needed than the driver should look up."""


class State(NamedTuple):
    """The state of a fact that holds: whether it is explicit, and its number of derivations by non-recursive rules."""

    explicit: bool
    derivations: int


class Files:
    """The facts of all predicates of a version; at most `most` of them are read."""

    def __init__(self, root: Path, columns: ColumnCache, stored: Mapping[str, Stored], most: int) -> None:
        self._root = root
        self._columns = columns
        self._stored = stored
        self._flags = np.zeros(_FLAGS, bool)
        self._left = most

    def matching(self, name: str, columns: Sequence[int], wanted: Collection[Ids]) -> dict[Ids, State]:
        """The facts of a predicate that have, in some columns, one of the wanted keys."""
        stored = self._stored[name]
        keys = set(wanted) if stored.facts else set()
        found: dict[Ids, State] = {}
        for layer in stored.folders if keys else ():
            for fact, state, holds in self._rows(stored, layer, columns, keys):
                # The newest layer that has a fact decides.
                if holds:
                    found[fact] = state
                else:
                    found.pop(fact, None)
        return found

    def some(self, name: str, columns: Sequence[int], wanted: Collection[Ids], without: Collection[Ids]) -> list[Ids]:
        """At least one fact for each wanted key that has any, apart from those in `without`."""
        stored = self._stored[name]
        if not columns or stored.base is None:
            return [fact for fact in self.matching(name, columns, wanted) if fact not in without]
        keys = set(wanted)
        layered = [fact for layer in stored.layers for fact, *_ in self._rows(stored, layer, columns, keys)]
        passed_over = {*layered, *without}
        found: dict[Ids, Ids] = {}
        # The base alone does not decide about facts that layers have too: their keys are looked up in full.
        unclear = {_part(fact, columns) for fact in layered}
        for fact, _, holds in self._rows(stored, stored.base, columns, keys, first=True):
            if holds and fact not in passed_over:
                found[_part(fact, columns)] = fact
            else:
                unclear.add(_part(fact, columns))
        rest = unclear - found.keys()
        others = self.matching(name, columns, rest) if rest else ()
        return [*found.values(), *(fact for fact in others if fact not in without)]

    def spend(self, facts: int) -> None:
        """Count facts that are read, or rule instances, of which there can be as many again."""
        self._left -= facts
        if self._left < 0:
            raise TooManyFacts

    def _rows(
        self, stored: Stored, layer: Layer, columns: Sequence[int], keys: set[Ids], first: bool = False
    ) -> Iterator[tuple[Ids, State, bool]]:
        """The rows of a layer that have a key; with `first`, only the first row of each key in each piece."""
        whole = list(columns) == list(range(stored.arity))
        key_names = [stored.columns[column] for column in columns]
        for piece in self._columns.pieces(self._root / layer.path):
            rows = self._candidates(piece, key_names, keys, first) if columns else None
            if rows is not None and not len(rows):
                continue
            chosen = self._columns.read(piece, [*stored.columns, *_STATE])
            if rows is not None:
                chosen = [cells[rows] for cells in chosen]
            self.spend(len(chosen[0]))
            for *fact, explicit, derivations, holds in zip(*(cells.tolist() for cells in chosen), strict=True):
                ids = tuple(fact[: stored.arity])
                if (ids if whole else _part(ids, columns)) in keys:
                    yield ids, State(explicit, derivations if stored.counted else 0), holds

    def _candidates(self, piece: Piece, names: Sequence[str], keys: set[Ids], first: bool) -> Cells:
        """The rows in which each column may have an id that some key has there."""
        key_cells = self._columns.read(piece, names)
        fitting = np.ones(len(key_cells[0]), bool)
        for place, cells in enumerate(key_cells):
            ids = np.fromiter({key[place] for key in keys}, np.int64) & (_FLAGS - 1)
            self._flags[ids] = True
            fitting &= self._flags[cells & (_FLAGS - 1)]
            self._flags[ids] = False
        rows = np.flatnonzero(fitting)
        return rows[_first_of_each([cells[rows] for cells in key_cells])] if first else rows


def _first_of_each(columns: Sequence[Cells]) -> Cells:
    """For each combination of values in some columns, the place of its first row."""
    order = np.lexsort(columns)
    differs = np.ones(len(order), bool)
    differs[1:] = np.logical_or.reduce([cells[order[1:]] != cells[order[:-1]] for cells in columns])
    return order[differs]


def _part(fact: Ids, columns: Sequence[int]) -> Ids:
    return tuple([fact[column] for column in columns])
