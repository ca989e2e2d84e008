"""Facts by key, straight from the Parquet files of a version.

Ids are dense, so that the keys of a lookup are flags in an array, and a scan of a column costs an access a row. Only
rows that fit leave the scan. All of a base is scanned for a handful of rows, and that is still far less than a job: a
million rows take some ten milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from tidelog.spark.maintenance.snapshot import Layer, Stored

Ids = tuple[int, ...]
"""A fact as the ids of its arguments, or the key of some."""

_BATCH_ROWS = 1 << 20


class TooMuch(Exception):
    """More facts are needed than one task should look up."""


class State(NamedTuple):
    """Of a fact that holds: whether it is explicit, and how many derivations it has by rules that are not recursive."""

    explicit: bool
    derivations: int


class Files:
    """The facts of all predicates of a version, whose ids are below `terms`; `most` bounds how many are brought in."""

    def __init__(self, root: Path, stored: Mapping[str, Stored], terms: int, most: int) -> None:
        self._root = root
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

    def _rows(
        self, stored: Stored, layer: Layer, columns: Sequence[int], keys: set[Ids]
    ) -> Iterator[tuple[Ids, State, bool]]:
        names = [*stored.columns, "e", "n", "h"]
        for path in sorted((self._root / layer.path).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                    cells = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
                    yield from self._chosen(cells, stored, columns, keys)

    def _chosen(
        self, cells: list[np.ndarray[Any, Any]], stored: Stored, columns: Sequence[int], keys: set[Ids]
    ) -> Iterator[tuple[Ids, State, bool]]:
        rows = self._candidates(cells, columns, keys)
        if rows is not None:
            cells = [column[rows] for column in cells]
        self._left -= len(cells[0])
        if self._left < 0:
            raise TooMuch
        arity, whole = stored.arity, list(columns) == list(range(stored.arity))
        for *fact, explicit, derivations, holds in zip(*(column.tolist() for column in cells), strict=True):
            ids = tuple(fact[:arity])
            if (ids if whole else tuple(ids[column] for column in columns)) in keys:
                yield ids, State(explicit, derivations if stored.counted else 0), holds

    def _candidates(
        self, cells: list[np.ndarray[Any, Any]], columns: Sequence[int], keys: set[Ids]
    ) -> np.ndarray[Any, Any] | None:
        """The rows in which each column has an id that some key has there; None for all of them."""
        fitting = None
        for place, column in enumerate(columns):
            ids = np.fromiter({key[place] for key in keys}, np.int64)
            self._flags[ids] = True
            fits = self._flags[cells[column]]
            self._flags[ids] = False
            fitting = fits if fitting is None else fitting & fits
        return None if fitting is None else np.flatnonzero(fitting)
