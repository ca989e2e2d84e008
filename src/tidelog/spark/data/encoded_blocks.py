"""Blocks of facts, encoded by whoever reads them, a task or the driver: files of ids, of terms and of decoded facts.

Whoever reads facts has their constants at hand. So it computes the ids (`dictionary.TermIds`), notes the constants for
the dictionary, and writes facts in both forms, as ids for the engine and decoded for publishing, in one pass. Facts are
distinct within a block. What different blocks have in common is found later, from two sorted files of each: its terms,
and the *marks* of its facts, hashes that equal facts share (`block_merging.py`).

A block that a task writes counts only if the task tells of it, as JSON: its files have names that nobody else uses, and
whatever a task that died has left is never looked at.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import FLOAT, Part, kinds_in, native_kind, parts
from tidelog.formats.files.parquet import write_parquet
from tidelog.language import display_predicate, resolve_predicate
from tidelog.spark.data.dictionary import ARROW_TERM, FIELDS, Fields, Term, TermIds
from tidelog.spark.data.fact_records import Facts, Found, Rejected, structs_of_part
from tidelog.spark.data.wide_frames import keys

BLOCK_ROWS = 1 << 20
"""A block is written when it has so many rows."""

TERM_GROUP = 1 << 16
"""Terms are sorted by id, in row groups of this size, of which readers take those they need."""

MOST_REASONS = 1000

ARROW_REJECTED = pa.schema(
    [("source", pa.string()), ("row", pa.int64()), ("predicate", pa.string()), ("reason", pa.string())]
)

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What is known before facts are read: predicates with their numbers and arities, prefixes, and how ids are made.

    Files go to `folder`. Decoded facts are written only if they are wanted."""

    folder: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    arities: Mapping[str, int] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    ids: TermIds = field(default_factory=TermIds)
    decoded: bool = False

    def number(self, predicate: str) -> int:
        """The number of a predicate; one that nobody has heard of before has a hash as its number."""
        return self.numbers.get(predicate, 1 << 30 | crc32(predicate.encode()) >> 2)

    def new_file(self, suffix: str = "parquet") -> Path:
        return Path(self.folder) / f"{uuid4().hex}.{suffix}"


@dataclass(frozen=True)
class FactFile:
    """The facts of one predicate in one block: how many rows were read, and how many facts these are.

    `kinds` are those of each column. If the predicate was not known before, the file has the `source` and `row` of each
    fact."""

    predicate: str
    arity: int
    number: int
    read: int
    count: int
    path: str
    decoded: str | None
    kinds: list[list[int]]


@dataclass(frozen=True)
class TermFile:
    """The terms of a block, sorted by id; and those of which others have the id."""

    path: str
    count: int
    floats: bool
    clashes: list[tuple[int, Fields]]


@dataclass(frozen=True)
class MarkFile:
    """The marks of a block's facts, sorted, with the numbers of the predicates."""

    marks: str
    numbers: str
    count: int


@dataclass(frozen=True)
class RejectedFile:
    """The rows of a block that are no facts, by reason, and the first of them."""

    path: str
    count: int
    reasons: dict[str, int]
    first: tuple[str, int | None, str]


Told = FactFile | TermFile | MarkFile | RejectedFile
_TOLD = {kind.__name__: kind for kind in (FactFile, TermFile, MarkFile, RejectedFile)}


def told_as_text(told: Told) -> str:
    return json.dumps([type(told).__name__, vars(told)])


def told_from_text(text: str) -> Told:
    kind, fields = json.loads(text)
    found: Told = _TOLD[kind](**fields)
    return found


def encoded(found: Iterable[Found], layout: Layout) -> Iterator[Told]:
    """Encode what a source yields, and write it block by block."""
    block = _Block(layout)
    for one in found:
        block.add(one)
        if block.rows >= BLOCK_ROWS:
            yield from block.written()
            block = _Block(layout)
    yield from block.written()


class _Block:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._facts: dict[tuple[str, int], list[_Noted]] = defaultdict(list)
        self._rejected: list[pa.Table] = []
        self._terms = Terms(layout.ids)
        self.rows = 0

    def add(self, found: Found) -> None:
        if isinstance(found, Rejected):
            self._reject(found)
            return
        batch = found.batch
        self.rows += batch.rows
        predicate = resolve_predicate(batch.predicate, dict(self._layout.prefixes))
        arity = len(batch.columns)
        expected = self._layout.arities.get(predicate, arity)
        if arity != expected:
            self._reject(wrong_length(predicate, arity, expected, found, self._layout.prefixes))
            return
        self._facts[predicate, arity].append(_Noted(found, [self._terms.coded(column) for column in batch.columns]))

    def _reject(self, rejected: Rejected) -> None:
        count = len(rejected.rows)
        columns = [[rejected.source] * count, rejected.rows, [rejected.predicate] * count, rejected.reasons]
        cells = [pa.array(cells, field.type) for cells, field in zip(columns, ARROW_REJECTED, strict=True)]
        self._rejected.append(pa.Table.from_arrays(cells, schema=ARROW_REJECTED))

    def written(self) -> Iterator[Told]:
        """Write the block to files; what there is to tell."""
        table, clashes = self._terms.merged()
        marks: list[tuple[int, Cells]] = []
        for (predicate, arity), pieces in self._facts.items():
            told, marked = self._write_facts(predicate, arity, pieces)
            marks.append((told.number, marked))
            yield told
        if marks:
            yield self._write_marks(marks)
        if table.num_rows:
            path = self._layout.new_file()
            write_terms(table, path)
            floats = bool(pc.any(pc.equal(table.column("kind"), FLOAT)).as_py())
            yield TermFile(str(path), table.num_rows, floats, clashes)
        if self._rejected:
            yield self._write_rejected()

    def _write_facts(self, predicate: str, arity: int, pieces: list[_Noted]) -> tuple[FactFile, Cells]:
        number, path = self._layout.number(predicate), self._layout.new_file()
        encoded = (piece.ids(self._terms) for piece in pieces)
        columns = [np.concatenate(cells) for cells in zip(*encoded, strict=True)]
        marks = marks_of(columns, number)
        kept = _distinct(columns, marks)
        if kept is not None:
            columns, marks = [cells[kept] for cells in columns], marks[kept]
        table = {"q": np.full(len(marks), number, np.int32)} | dict(zip(keys(len(columns)), columns, strict=True))
        if predicate not in self._layout.arities:
            table |= _places(pieces, kept)
        # Ids are hashes, which nothing makes shorter.
        pq.write_table(pa.table(table), path, use_dictionary=["q", "source"], compression="none")
        decoded, kinds = self._write_decoded(pieces, kept) if self._layout.decoded else (None, [])
        read = sum(piece.found.batch.rows for piece in pieces)
        return FactFile(predicate, arity, number, read, len(marks), str(path), decoded, kinds), marks

    def _write_decoded(self, pieces: list[_Noted], kept: Cells | None) -> tuple[str, list[list[int]]]:
        path = self._layout.new_file()
        batches: list[Sequence[pa.Array]] = []
        first = 0
        for columns in (piece.found.batch.columns for piece in pieces):
            rows = len(columns[0]) if columns else 1
            if kept is not None:
                chosen = pa.array(kept[(kept >= first) & (kept < first + rows)] - first)
                columns = [column.take(chosen) for column in columns]
            if not columns or len(columns[0]):
                batches.append(columns)
            first += rows
        with path.open("xb") as file:
            write_parquet(file, batches)
        return str(path), kinds_of(batches)

    def _write_marks(self, marks: list[tuple[int, Cells]]) -> MarkFile:
        whole = np.concatenate([marked for _, marked in marks])
        numbers = np.repeat([number for number, _ in marks], [len(marked) for _, marked in marks]).astype(np.int32)
        order = np.argsort(whole)
        paths = self._layout.new_file("npy"), self._layout.new_file("npy")
        for path, cells in zip(paths, (whole[order], numbers[order]), strict=True):
            np.save(path, cells)
        return MarkFile(str(paths[0]), str(paths[1]), len(whole))

    def _write_rejected(self) -> RejectedFile:
        return _written_rejected(pa.concat_tables(self._rejected), self._layout.new_file())


@dataclass(frozen=True)
class _Noted:
    """Facts as they were read, and what is noted of the constants of each column."""

    found: Facts
    columns: list[list[_Coded]]

    def ids(self, terms: Terms) -> list[Cells]:
        """The columns of ids; one of zeros for the fact of arity 0."""
        return [terms.ids(column, self.found.batch.rows) for column in self.columns] or [np.zeros(1, np.int64)]


def wrong_length(
    predicate: str, arity: int, expected: int, found: Facts, prefixes: Mapping[str, str] | None = None
) -> Rejected:
    """Facts that have another number of arguments than their predicate."""
    shown = display_predicate(predicate, dict(prefixes or {}))
    reason = f"{arity} values, but `{shown}` has {expected} arguments"
    rows = list(found.numbers)
    return Rejected(found.batch.source, rows, [reason] * len(rows), predicate)


def rejected_facts(file: FactFile, reason: str, path: Path) -> RejectedFile:
    """The facts of a file as rows that are no facts, in another file."""
    places = pq.read_table(file.path, columns=["source", "row"])
    told = [pa.repeat(text, places.num_rows) for text in (file.predicate, reason)]
    table = pa.Table.from_arrays([*places.columns, *told], schema=ARROW_REJECTED)
    return _written_rejected(table, path)


def _written_rejected(table: pa.Table, path: Path) -> RejectedFile:
    pq.write_table(table, path)
    reasons = dict(Counter(table.column("reason").to_pylist()).most_common(MOST_REASONS))
    first = table.sort_by([("source", "ascending"), ("row", "ascending")]).slice(0, 1).to_pylist()[0]
    return RejectedFile(str(path), table.num_rows, reasons, (first["source"], first["row"], first["reason"]))


def _places(pieces: Sequence[_Noted], kept: Cells | None) -> dict[str, pa.Array]:
    """The source and the row of each fact."""
    rows = pa.concat_arrays([pa.array(piece.found.numbers, pa.int64()) for piece in pieces])
    sources = pa.concat_arrays([pa.repeat(piece.found.batch.source, piece.found.batch.rows) for piece in pieces])
    if kept is None:
        return {"source": sources, "row": rows}
    return {"source": sources.take(pa.array(kept)), "row": rows.take(pa.array(kept))}


def kinds_of(batches: Iterable[Sequence[pa.Array]]) -> list[list[int]]:
    """The kinds of the constants in each column."""
    found: list[set[int]] = []
    for columns in batches:
        found = found or [set() for _ in columns]
        for kinds, column in zip(found, columns, strict=True):
            kinds |= kinds_in(column)
    return [sorted(kinds) for kinds in found]


# ── marks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def marks_of(columns: Sequence[Cells], number: int) -> Cells:
    """A hash of each fact of a predicate. Ids are hashes, so that mixing them a little is enough."""
    found = np.full(len(columns[0]), number, np.uint64)
    for cells in columns:
        found = (found ^ cells.view(np.uint64)) * np.uint64(0x9E3779B185EBCA87)
        found ^= found >> np.uint64(29)
    return found.view(np.int64)


def _distinct(columns: Sequence[Cells], marks: Cells) -> Cells | None:
    """The first row of each fact; None if all are distinct."""
    ordered = np.sort(marks)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.lexsort(columns)
    differs = np.ones(len(order), bool)
    differs[1:] = np.logical_or.reduce([cells[order[1:]] != cells[order[:-1]] for cells in columns])
    # The sort is stable, so the first of equal rows comes first.
    return np.sort(order[differs])


# ── terms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Coded:
    """The constants of one kind in a column: where they are among all of the block, and in which rows (None: all)."""

    kind: int
    first: int
    codes: npt.NDArray[np.int32]
    rows: Cells | None


class Terms:
    """The constants of a block. Each is hashed once, when all are known."""

    def __init__(self, ids: TermIds) -> None:
        self._ids = ids
        self._values: dict[int, list[pa.Array]] = defaultdict(list)
        self._counts: Counter[int] = Counter()
        self._hashed: dict[int, Cells] = {}

    def coded(self, column: pa.Array) -> list[_Coded]:
        """Note the constants of a column."""
        found = []
        for part in _encoded_parts(column):
            values = part.values.dictionary
            found.append(_Coded(part.kind, self._counts[part.kind], part.values.indices.to_numpy(), part.rows))
            self._values[part.kind].append(values)
            self._counts[part.kind] += len(values)
        return found

    def merged(self) -> tuple[pa.Table, list[Term]]:
        """All constants, sorted by id, and those that share one; from then on, there are ids."""
        tables = []
        for kind, arrays in self._values.items():
            whole = pa.chunked_array(_alike(arrays)).combine_chunks().dictionary_encode()
            distinct = Part(kind, whole.dictionary, None)
            hashed = self._ids.of_part(distinct)
            self._hashed[kind] = hashed[whole.indices.to_numpy()]
            tables.append(
                pa.Table.from_arrays([pa.array(hashed), *structs_of_part(distinct).flatten()], schema=ARROW_TERM)
            )
        return merged_terms(tables)

    def ids(self, coded: Sequence[_Coded], rows: int) -> Cells:
        """The ids of a column."""
        found = np.empty(rows, np.int64)
        for one in coded:
            ids = self._hashed[one.kind][one.first :][one.codes]
            if one.rows is None:
                return ids
            found[one.rows] = ids
        return found


def _encoded_parts(column: pa.Array) -> Iterator[Part]:
    """The parts of a column, each as codes and a dictionary."""
    if pa.types.is_dictionary(column.type):
        yield Part(native_kind(column.type), column, None)
        return
    for part in parts(column):
        yield part._replace(values=part.values.dictionary_encode())


def _alike(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """Arrays of one type, with offsets of 64 bits if their texts need them."""
    first = arrays[0].type
    if not (pa.types.is_string(first) or pa.types.is_large_string(first)):
        return list(arrays)
    large = sum(array.nbytes for array in arrays) >= 1 << 31
    return [array.cast(pa.large_string() if large else pa.string()) for array in arrays]


def merged_terms(tables: Sequence[pa.Table]) -> tuple[pa.Table, list[Term]]:
    """The rows of all tables, once each and sorted by id; and all rows of which others have the id."""
    if not tables:
        return ARROW_TERM.empty_table(), []
    whole = pa.concat_tables(tables).combine_chunks()
    ids = whole.column("id").to_numpy()
    order = np.argsort(ids, kind="stable")
    ids, whole = ids[order], whole.take(pa.array(order)).combine_chunks()
    again = np.zeros(len(ids), bool)
    again[1:] = ids[1:] == ids[:-1]
    if not again.any():
        return whole, []
    clashes: list[Term] = []
    differ = again[1:] & ~_same_as_before(whole)
    if differ.any():
        shared = whole.filter(pc.is_in(whole.column("id"), pa.array(ids[1:][differ])))
        rows = shared.to_pydict()
        clashes = [(row[0], tuple(row[1:])) for row in zip(*(rows[name] for name in ARROW_TERM.names), strict=True)]
    return whole.filter(pa.array(~again)), clashes


def _same_as_before(terms: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether the constant of each row but the first is that of the row before."""
    same = np.ones(terms.num_rows - 1, bool)
    for name in FIELDS:
        column = terms.column(name)
        if name == "text":
            same &= pc.equal(column.slice(1), column.slice(0, len(same))).to_numpy()
            continue
        cells = column.to_numpy()
        if name == "number":
            cells = np.where(np.isnan(cells), np.nan, cells).view(np.int64)
        same &= cells[1:] == cells[:-1]
    return same


def write_terms(table: pa.Table, path: Path) -> None:
    """Write terms, sorted by id, to a file."""
    pq.write_table(table, path, row_group_size=TERM_GROUP, use_dictionary=["kind", "integer", "number"])
