"""Taking facts in: sources are read, encoded and merged, in two jobs however many sources and predicates there are.

The first job reads everything, files of all formats and frames, each task its share (`encoded_blocks.py`). The second
one merges what the blocks have in common (`block_merging.py`). Small input needs no job: the driver reads it itself, by
the same code. Should constants share a hash, all but one of them get another id, and everything is read again.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.formats.batch import FactBatch
from tidelog.spark.data.block_merging import Merged, Merging
from tidelog.spark.data.dictionary import Dictionary, Term, clashing_terms
from tidelog.spark.data.encoded_blocks import (
    FactFile,
    Layout,
    MarkFile,
    RejectedFile,
    TermFile,
    Told,
    encoded,
    rejected_facts,
    told_as_text,
    told_from_text,
)
from tidelog.spark.data.fact_records import Facts, Found
from tidelog.spark.data.wide_frames import union_all
from tidelog.spark.session import parallelism

# Up to so many bytes of files, and so many rows of blocks, the driver does the work itself: a job costs more.
DRIVER_BYTES = 2 << 20
DRIVER_ROWS = 200_000
TASK_BYTES = 64 << 20
TASK_ROWS = 4 << 20

_TOLD = "told string"
_PIECE = "piece"
_TASKS_A_CORE = 4
T = TypeVar("T")

FrameReader: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[Found]]
"""Reads the rows of a frame, as tasks get them."""


@dataclass(frozen=True)
class Piece:
    """A part of a source that one task reads, and its size in bytes."""

    read: Callable[[], Iterator[Found]]
    size: int

    def on_driver(self) -> Iterator[Found]:
        """All that is there, read by the driver."""
        return self.read()


@dataclass(frozen=True)
class FramePiece:
    """A frame, and how its rows are read."""

    frame: DataFrame
    read: FrameReader

    def on_driver(self) -> Iterator[Found]:
        """All that is there, brought to the driver."""
        return self.read(iter(self.frame.toArrow().to_batches()))


class PieceSource(Protocol):
    """Where facts come from."""

    def pieces(self, spark: SparkSession, /) -> Sequence[Piece | FramePiece]: ...


@dataclass
class TakenIn:
    """What was read: files of facts and of rejected rows, and the numbers of predicates that may have a fact twice."""

    facts: list[FactFile] = field(default_factory=list)
    rejected: list[RejectedFile] = field(default_factory=list)
    repeated: set[int] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """How many facts were read, before any were found to be the same."""
        return sum(file.read for file in self.facts)

    @property
    def shapes(self) -> dict[str, dict[int, int]]:
        """For each predicate, how many of its rows have how many arguments."""
        found: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for file in self.facts:
            found[file.predicate][file.arity] += file.read
        return found

    def reject_wrong_lengths(
        self, expected: Callable[[str, Mapping[int, int]], int], shown: Callable[[str], str], folder: str
    ) -> None:
        """Reject the facts that have another number of arguments than is expected, given how many rows have which."""
        shapes = self.shapes
        for file in list(self.facts):
            arity = expected(file.predicate, shapes[file.predicate])
            if file.arity != arity:
                self.facts.remove(file)
                reason = f"{file.arity} values, but `{shown(file.predicate)}` has {arity} arguments"
                self.rejected.append(rejected_facts(file, reason, Path(folder) / Path(file.path).name))


def take_in(
    spark: SparkSession,
    pieces: Sequence[Piece | FramePiece],
    batches: Iterable[FactBatch],
    layout: Layout,
    dictionary: Dictionary,
) -> TakenIn:
    """Read and encode pieces of sources, and batches of the driver; the dictionary learns their constants."""
    given = [Facts(batch) for batch in batches]
    while True:
        layout = replace(layout, ids=dictionary.ids)
        shutil.rmtree(layout.folder, ignore_errors=True)
        Path(layout.folder).mkdir(parents=True)
        told = _read(spark, pieces, given, layout)
        merged = _merged(spark, told, layout, dictionary)
        clashing = _clashing(told, merged)
        if not clashing:
            break
        dictionary.except_for(clashing)
    _add_terms(dictionary, merged)
    return TakenIn(
        [one for one in told if isinstance(one, FactFile)],
        [one for one in told if isinstance(one, RejectedFile)],
        {number for one in merged for number in one.repeated},
    )


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(
    spark: SparkSession, pieces: Sequence[Piece | FramePiece], given: Sequence[Facts], layout: Layout
) -> list[Told]:
    files = [piece for piece in pieces if isinstance(piece, Piece)]
    frames = [piece for piece in pieces if isinstance(piece, FramePiece)]
    size = sum(piece.size for piece in files)
    if not frames and size <= DRIVER_BYTES:
        return list(encoded((*given, *_all(files)), layout))
    told = list(encoded(given, layout))
    jobs = [_read_alike(spark, alike, layout) for alike in _alike(frames)]
    if files:
        tasks = 1 if size <= DRIVER_BYTES else max(parallelism(spark), size // TASK_BYTES)
        shares = in_shares(files, lambda piece: piece.size, tasks)
        jobs.append(in_tasks(spark, partial(_read_share, shares, layout), len(shares)))
    return told + [told_from_text(row["told"]) for row in union_all(jobs).collect()]


def _read_share(shares: Sequence[Sequence[Piece]], layout: Layout, number: int) -> Iterator[str]:
    return map(told_as_text, encoded(_all(shares[number]), layout))


def _alike(frames: Sequence[FramePiece]) -> list[list[FramePiece]]:
    """Frames with the same columns together."""
    found: dict[str, list[FramePiece]] = defaultdict(list)
    for piece in frames:
        found[piece.frame.schema.simpleString()].append(piece)
    return list(found.values())


def _read_alike(spark: SparkSession, pieces: Sequence[FramePiece], layout: Layout) -> DataFrame:
    """Read frames of the same columns. Tasks of their own for each would have blocks of their own, with the same
    constants in many of them."""
    numbered = [piece.frame.withColumn(_PIECE, F.lit(number)) for number, piece in enumerate(pieces)]
    whole = union_all(numbered)
    if len(pieces) > 1:
        whole = whole.coalesce(_TASKS_A_CORE * parallelism(spark))
    return whole.mapInArrow(partial(_read_frames, [piece.read for piece in pieces], layout), _TOLD)


def _read_frames(
    readers: Sequence[FrameReader], layout: Layout, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for told in encoded(_rows_of_frames(readers, batches), layout):
        yield _as_batch(told_as_text(told))


def _rows_of_frames(readers: Sequence[FrameReader], batches: Iterator[pa.RecordBatch]) -> Iterator[Found]:
    for batch in batches:
        numbers, rows = batch.column(_PIECE), batch.drop_columns([_PIECE])
        there = numbers.unique().to_pylist()
        for number in there:
            own = rows if len(there) == 1 else rows.filter(pc.equal(numbers, number))
            yield from readers[number](iter([own]))


def _all(pieces: Iterable[Piece]) -> Iterator[Found]:
    for piece in pieces:
        yield from piece.read()


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _merged(spark: SparkSession, told: Sequence[Told], layout: Layout, dictionary: Dictionary) -> list[Merged]:
    terms = [one for one in told if isinstance(one, TermFile)]
    marks = [one for one in told if isinstance(one, MarkFile)]
    if len(terms) <= 1 and len(marks) <= 1 and not dictionary.parts:
        return [Merged(one.path, one.count, one.floats, [], [], []) for one in terms]
    rows = sum(one.count for one in terms) + sum(one.count for one in marks) + dictionary.size
    ranges = 1 if rows <= DRIVER_ROWS else max(parallelism(spark), rows // TASK_ROWS)
    merging = Merging(layout, [one.path for one in terms], dictionary.parts, marks, ranges)
    if ranges == 1:
        return [merging.merge(0)]
    rows_told = in_tasks(spark, partial(_merge_range, merging), ranges).collect()
    return [Merged(**json.loads(row["told"])) for row in rows_told]


def _merge_range(merging: Merging, number: int) -> Iterator[str]:
    yield json.dumps(vars(merging.merge(number)))


def _clashing(told: Sequence[Told], merged: Sequence[Merged]) -> list[Term]:
    """The constants that need other ids than their hashes."""
    found = [(id_, tuple(fields)) for one in told if isinstance(one, TermFile) for id_, fields in one.clashes]
    found += [(id_, tuple(fields)) for one in merged for id_, fields in one.clashes]
    return clashing_terms(found, {id_ for one in merged for id_ in one.taken})


def _add_terms(dictionary: Dictionary, merged: Sequence[Merged]) -> None:
    files = [one for one in merged if one.path]
    if files:
        folder = Path(dictionary.next_part)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for one in files:
            assert one.path is not None
            Path(one.path).rename(folder / Path(one.path).name)
        dictionary.note(str(folder), sum(one.count for one in files), any(one.floats for one in files))


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_tasks(spark: SparkSession, work: Callable[[int], Iterator[str]], tasks: int) -> DataFrame:
    """What numbered tasks tell, in a column `told`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from map(_as_batch, work(number))

    return spark.range(0, tasks, 1, tasks).mapInArrow(run, _TOLD)


def _as_batch(told: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"told": pa.array([told], pa.string())})


def in_shares(items: Sequence[T], size: Callable[[T], int], most: int) -> list[list[T]]:
    """Items in at most so many shares of about the same size: the largest ones first, each to the smallest share."""
    shares: list[list[T]] = [[] for _ in range(min(most, len(items)))]
    filled = [(0, number) for number in range(len(shares))]
    heapify(filled)
    for item in sorted(items, key=size, reverse=True):
        total, number = heappop(filled)
        shares[number].append(item)
        heappush(filled, (total + size(item), number))
    return shares
