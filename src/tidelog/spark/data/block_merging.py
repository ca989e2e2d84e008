"""What blocks of facts have in common: one dictionary of their terms, and which predicates have facts more than once.

Terms and marks are sorted by hashes, so each of several tasks takes one range of hashes out of all files. It merges the
terms of its range with those that the dictionary has, constant by constant, and so finds out which constants share an
id; and it finds the marks that occur twice. No mark twice, no fact twice: then all blocks are facts as they are. Only
predicates with such a mark need a real comparison of their facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import FLOAT
from tidelog.spark.data.dictionary import ARROW_TERM, Fields
from tidelog.spark.data.encoded_blocks import Layout, MarkFile, merged_terms, write_terms

_HASHES = 1 << 63


@dataclass(frozen=True)
class Merged:
    """The new terms of a range in a file, if there are any; terms that share an id, and which of these ids are those of
    terms in the dictionary; the numbers of predicates that may have a fact twice."""

    path: str | None
    count: int
    floats: bool
    clashes: list[tuple[int, Fields]]
    taken: list[int]
    repeated: list[int]


@dataclass(frozen=True)
class Merging:
    """The files to merge, in so many ranges: terms of blocks, terms in the dictionary, and marks."""

    layout: Layout
    terms: Sequence[str]
    known: Sequence[str]
    marks: Sequence[MarkFile]
    ranges: int

    def merge(self, number: int) -> Merged:
        """Merge one range."""
        low, high = (_HASHES * edge // self.ranges for edge in (number, number + 1))
        found, inner = merged_terms([table for path in self.terms for table in _in_range(path, low, high)])
        old = [table for path in self._known_files() for table in _in_range(path, low, high)]
        known = pa.concat_tables(old) if old else ARROW_TERM.empty_table()
        met = found.filter(pc.is_in(found.column("id"), known.column("id").combine_chunks()))
        again = known.filter(pc.is_in(known.column("id"), met.column("id").combine_chunks()))
        _, outer = merged_terms([met, again])
        new = found.filter(pc.invert(pc.is_in(found.column("id"), met.column("id").combine_chunks())))
        path = None
        if new.num_rows:
            path = self.layout.new_file()
            write_terms(new, path)
        floats = bool(pc.any(pc.equal(new.column("kind"), FLOAT)).as_py())
        taken = {id_ for id_, _ in (*inner, *outer)} & set(met.column("id").to_pylist()) if inner or outer else set()
        repeated = self._repeated(2 * low - _HASHES, 2 * high - _HASHES)
        clashes = [*inner, *outer]
        return Merged(str(path) if path else None, new.num_rows, floats, clashes, sorted(taken), repeated)

    def _known_files(self) -> Iterator[str]:
        for folder in self.known:
            yield from map(str, sorted(Path(folder).glob("*.parquet")))

    def _repeated(self, low: int, high: int) -> list[int]:
        """The numbers of predicates of which a mark in a range occurs twice."""
        marks, numbers = [], []
        for file in self.marks:
            cells = np.load(file.marks, mmap_mode="r")
            begin, end = np.searchsorted(cells, np.array([low, min(high, _HASHES - 1)]))
            end = len(cells) if high == _HASHES else end
            marks.append(cells[begin:end])
            numbers.append(np.load(file.numbers, mmap_mode="r")[begin:end])
        if not marks:
            return []
        whole = np.concatenate(marks)
        ordered = np.sort(whole)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if not twice.size:
            return []
        found: list[int] = np.unique(np.concatenate(numbers)[np.isin(whole, twice)]).tolist()
        return found


def _in_range(path: str, low: int, high: int) -> Iterator[pa.Table]:
    """The terms of a file with ids in a range."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is not None and statistics.has_min_max and (statistics.max < low or statistics.min >= high):
                continue
            table = file.read_row_group(group, ARROW_TERM.names).cast(ARROW_TERM)
            ids = table.column("id")
            yield table.filter(pc.and_(pc.greater_equal(ids, low), pc.less_equal(ids, high - 1)))
