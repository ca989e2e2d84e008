"""Facts as files for people and other programs: decoded by tasks, in the formats of `tidelog.formats`.

A task reads the ids of its share of the facts, takes their terms out of the dictionary in one pass over it, and writes
a part file for each predicate. So nothing is shuffled, and a task holds the terms of its own share only. Facts that
were written decoded when they were read are moved.

In Parquet, a column of one native kind has its type, and any other column holds constants as text. The part files of a
predicate agree: where they do not, those of native types are written again.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, column_of_kinds
from tidelog.formats.files.folder import write_columns
from tidelog.formats.files.parquet import read_parquet, write_empty_parquet, write_parquet
from tidelog.spark.data.dictionary import ARROW_TERM, Dictionary
from tidelog.spark.data.encoded_blocks import kinds_of
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.taking_in import in_shares, in_tasks
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.session import parallelism

PARQUET = "parquet"

# Up to so many facts are decoded by the driver: a job costs more.
DRIVER_FACTS = 100_000
TASK_FACTS = 4 << 20

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Target:
    """A folder for the facts of a predicate, and the name that they have there."""

    folder: Path
    name: str


@dataclass(frozen=True)
class IdFile:
    """A file of ids of one predicate, and about how many facts it has."""

    predicate: str
    arity: int
    path: str
    count: int


@dataclass(frozen=True)
class DecodedFile:
    """A file of decoded facts, and the kinds of each column."""

    predicate: str
    path: str
    kinds: list[list[int]]

    def forms(self) -> list[int | None]:
        """The kind of each column that has the type of its kind; None for a column of constants as text."""
        return [kinds[0] if len(kinds) == 1 and kinds[0] < IRI_KIND else None for kinds in self.kinds]


def write_decoded(
    relations: Relations, dictionary: Dictionary, targets: Mapping[str, Target], folder: str, format: str = PARQUET
) -> None:
    """Write the facts of predicates to their folders, by way of another folder; a few jobs do it for all of them."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    found: list[DecodedFile] = []
    encoded: list[IdFile] = []
    for name in targets:
        relation = relations[name]
        for part in relation.parts:
            if part.decoded and format == PARQUET:
                found += [DecodedFile(name, file.decoded, file.kinds) for file in part.decoded if file.decoded]
            else:
                paths = sorted(map(str, Path(part.path).glob("*.parquet")))
                share = -(-part.count // len(paths))
                encoded += [IdFile(name, relation.arity, path, share) for path in paths]
    names = {name: target.name for name, target in targets.items()}
    decoding = Decoding(folder, format, dictionary.parts, names)
    found += _told(relations.spark, decoding.decode, encoded, lambda file: file.count)
    if format == PARQUET:
        found = _agreeing(relations.spark, folder, found)
    _move(found, relations, targets, format)


@dataclass(frozen=True)
class Decoding:
    """How tasks decode: into files in a folder, of a format, with the terms of a dictionary, under these names."""

    folder: str
    format: str
    terms: Sequence[str]
    names: Mapping[str, str]

    def decode(self, files: Sequence[IdFile]) -> Iterator[DecodedFile]:
        """Decode the facts of files; one file for each predicate."""
        ids = {file.path: read_ids(file) for file in files}
        wanted = [np.unique(cells) for columns in ids.values() for cells in columns]
        terms = Decoder(self.terms, np.unique(np.concatenate(wanted)) if wanted else np.empty(0, np.int64))
        by_predicate: dict[str, list[IdFile]] = defaultdict(list)
        for file in files:
            by_predicate[file.predicate].append(file)
        for predicate, own in by_predicate.items():
            batches = [[terms.column(cells) for cells in ids.pop(file.path)] for file in own]
            path = Path(self.folder) / f"{uuid4().hex}.{self.format}"
            with path.open("xb") as stream:
                write_columns(stream, self.names[predicate], batches, self.format)
            yield DecodedFile(predicate, str(path), kinds_of(batches))


def read_ids(file: IdFile) -> list[Cells]:
    """The columns of a file of ids."""
    with pq.ParquetFile(file.path) as stream:
        table = stream.read(keys(file.arity))
    return [table.column(name).to_numpy() for name in keys(file.arity)]


class Decoder:
    """The terms of some ids, which are sorted, from the files of a dictionary."""

    def __init__(self, folders: Iterable[str], wanted: Cells) -> None:
        tables = [table for folder in folders for table in _wanted_terms(folder, wanted)] if wanted.size else []
        whole = pa.concat_tables([*tables, ARROW_TERM.empty_table()])
        ids = whole.column("id").to_numpy()
        order = np.argsort(ids)
        self._ids = ids[order]
        _, kinds, *fields = whole.take(pa.array(order)).combine_chunks().columns
        self._kinds = kinds.to_numpy()
        self._texts, self._integers, self._numbers = (_one_chunk(column) for column in fields)

    def column(self, ids: Cells) -> pa.Array:
        """A column of constants."""
        places = np.searchsorted(self._ids, ids)

        def of_kind(kind: int, mask: np.ndarray[Any, Any] | None) -> pa.Array:
            fields = {INT: self._integers, BOOL: self._integers, FLOAT: self._numbers}.get(kind, self._texts)
            chosen = fields.take(pa.array(places if mask is None else places[mask]))
            return chosen.cast(pa.bool_()) if kind == BOOL else chosen

        return column_of_kinds(self._kinds[places], of_kind)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _wanted_terms(folder: str, wanted: Cells) -> Iterator[pa.Table]:
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, ARROW_TERM.names).cast(ARROW_TERM)
                ids = table.column("id").to_numpy()
                places = np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)
                yield table.filter(pa.array(wanted[places] == ids))


# ── files that agree ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rewriting:
    """A file to be written again, with some of its columns as constants."""

    file: DecodedFile
    constants: tuple[int, ...]


def _agreeing(spark: SparkSession, folder: str, files: Sequence[DecodedFile]) -> list[DecodedFile]:
    """The same facts in files that have the same types."""
    by_predicate: dict[str, list[DecodedFile]] = defaultdict(list)
    for file in files:
        by_predicate[file.predicate].append(file)
    kept: list[DecodedFile] = []
    rewritten: list[Rewriting] = []
    for own in by_predicate.values():
        forms = [set(column) for column in zip(*(file.forms() for file in own), strict=True)]
        mixed = tuple(number for number, found in enumerate(forms) if len(found) > 1)
        for file in own:
            if any(file.forms()[number] is not None for number in mixed):
                rewritten.append(Rewriting(file, mixed))
            else:
                kept.append(file)
    return kept + _told(spark, partial(_rewrite, folder), rewritten, lambda one: Path(one.file.path).stat().st_size)


def _rewrite(folder: str, files: Sequence[Rewriting]) -> Iterator[DecodedFile]:
    for one in files:
        path = Path(folder) / f"{uuid4().hex}.{PARQUET}"
        columns = (batch.columns for batch in read_parquet(Path(one.file.path), one.file.predicate))
        with path.open("xb") as stream:
            write_parquet(stream, columns, one.constants)
        yield DecodedFile(one.file.predicate, str(path), one.file.kinds)


def _move(files: Iterable[DecodedFile], relations: Relations, targets: Mapping[str, Target], format: str) -> None:
    """Put files into the folders of their predicates; one without facts has a file without any."""
    for target in targets.values():
        target.folder.mkdir(parents=True)
    for file in files:
        Path(file.path).rename(targets[file.predicate].folder / f"part-{Path(file.path).name}")
    for name, target in targets.items():
        if relations.count(name):
            continue
        with (target.folder / f"part-0.{format}").open("xb") as stream:
            if format == PARQUET:
                write_empty_parquet(stream, relations[name].arity)
            else:
                write_columns(stream, target.name, [], format)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _told(
    spark: SparkSession,
    work: Callable[[Sequence[Any]], Iterator[DecodedFile]],
    items: Sequence[Any],
    size: Callable[[Any], int],
) -> list[DecodedFile]:
    """Let tasks do some work on all items, or the driver if they are small."""
    total = sum(map(size, items))
    if total <= DRIVER_FACTS:
        return list(work(items)) if items else []
    shares = in_shares(items, size, max(parallelism(spark), total // TASK_FACTS))
    rows = in_tasks(spark, partial(_work_on_share, work, shares), len(shares)).collect()
    return [DecodedFile(**json.loads(row["told"])) for row in rows]


def _work_on_share(
    work: Callable[[Sequence[Any]], Iterator[DecodedFile]], shares: Sequence[Sequence[Any]], number: int
) -> Iterator[str]:
    return (json.dumps(vars(file)) for file in work(shares[number]))
