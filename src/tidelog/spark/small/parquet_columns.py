"""Columns of Parquet files as arrays: read when somebody looks at them, and kept while there is room.

An update looks into the same files many times, and so does the next one; what a lookup costs is mostly the reading.
The files of a version never change, so that a column that was read stays right as long as some version has the file.
Those that nobody asked for longest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

Cells = np.ndarray[Any, Any]

KEPT_BYTES = 256 << 20


class Piece(NamedTuple):
    """The rows of a file that are read together: a row group."""

    path: Path
    group: int


class Columns:
    """The columns of pieces by name."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._held = 0
        self._pieces: dict[Path, list[Piece]] = {}
        self._cells: OrderedDict[tuple[Piece, str], Cells] = OrderedDict()

    def pieces(self, folder: Path) -> list[Piece]:
        """What the files of a folder consist of."""
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
        self._make_room()
        return found

    def keep(self, folders: Collection[Path]) -> None:
        """Forget all files that are in none of some folders."""
        self._pieces = {folder: pieces for folder, pieces in self._pieces.items() if folder in folders}
        for piece, name in [place for place in self._cells if place[0].path.parent not in folders]:
            self._held -= self._cells.pop((piece, name)).nbytes

    def _make_room(self) -> None:
        while self._held > self._most:
            _, cells = self._cells.popitem(last=False)
            self._held -= cells.nbytes
