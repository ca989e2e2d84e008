"""Where changes go: a folder with a subfolder for each batch that changed something, such as `batch=17`.

A batch is written beside its place, forced to the disk and moved there by one rename. The subfolder is named after the
batch, so a batch that is applied again after a crash is not written twice. Spark, Arrow, DuckDB and Polars read the
whole as one data set that is partitioned by batch. Refused records go to such a folder of their own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.columns.order import sorted_rows
from tidelog.formats.files.jsonl import value_to_json
from tidelog.formats.files.updates import ChangeLike
from tidelog.spark.streams.update_records import Entry
from tidelog.storage.durable_files import force, force_folder, storage_errors

_BATCH = re.compile(r"batch=(\d+)")
_ROWS_AT_ONCE = 1 << 16
_SCHEMA = pa.schema([("op", pa.string()), ("predicate", pa.string()), ("arguments", pa.string())])


class ChangedFact(NamedTuple):
    """A fact that came or went: `added` or `removed`, and its arguments as a JSON array."""

    op: str
    predicate: str
    arguments: str


def changed_facts(change: ChangeLike) -> Iterator[ChangedFact]:
    """The facts of a change, those that went first, in a fixed order."""
    for op, facts in (("removed", change.removed), ("added", change.added)):
        for predicate in sorted(facts):
            for row in sorted_rows(facts[predicate]):
                arguments = json.dumps([value_to_json(value) for value in row], ensure_ascii=False)
                yield ChangedFact(op, predicate, arguments)


def net_facts(changes: Sequence[Iterable[ChangedFact]]) -> list[ChangedFact]:
    """The net effect of several changes in order: a fact that came and went again is not in it."""
    if len(changes) == 1:
        return list(changes[0])
    found: dict[tuple[str, str], ChangedFact] = {}
    for change in changes:
        for fact in change:
            known = found.pop((fact.predicate, fact.arguments), None)
            if known is None or known.op == fact.op:
                found[fact.predicate, fact.arguments] = fact
    return list(found.values())


class BatchFolder:
    """A data set that takes batches, each once."""

    def __init__(self, path: Path, format: str) -> None:
        self.path = path
        self._format = format

    def __contains__(self, batch: int) -> bool:
        return (self.path / f"batch={batch}").exists()

    @property
    def batches(self) -> list[int]:
        """The batches that are there."""
        if not self.path.is_dir():
            return []
        return sorted(int(found[1]) for entry in self.path.iterdir() if (found := _BATCH.fullmatch(entry.name)))

    def _write(self, batch: int, put: Callable[[BinaryIO], None]) -> None:
        """Take a batch, which `put` writes to a file, unless it is there already."""
        if batch in self:
            return
        with storage_errors("write", self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            beside = self.path / f".batch={batch}"
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            with (beside / f"part-0.{self._format}").open("wb") as file:
                put(file)
                force(file)
            force_folder(beside)
            beside.replace(self.path / f"batch={batch}")
            force_folder(self.path)


class Sink(BatchFolder):
    """Takes the facts that came and went."""

    def write(self, batch: int, facts: Sequence[ChangedFact]) -> None:
        columns = zip(*facts, strict=True) if facts else [()] * len(_SCHEMA)
        self.write_table(batch, pa.table([pa.array(cells, pa.string()) for cells in columns], schema=_SCHEMA))

    def write_table(self, batch: int, facts: pa.Table) -> None:
        """The same for facts in columns."""
        if facts.num_rows:
            put = partial(pq.write_table, facts.cast(_SCHEMA))
            self._write(batch, put if self._format == "parquet" else partial(_put_lines, facts))


def _put_lines(facts: pa.Table, file: BinaryIO) -> None:
    """A JSON object in each line. Arguments are JSON already, and it would take long to parse and write them again."""
    for rows in facts.to_batches(_ROWS_AT_ONCE):
        op, predicate, arguments = rows.columns
        names = predicate.dictionary_encode()
        quoted = pa.array([json.dumps(name, ensure_ascii=False) for name in names.dictionary.to_pylist()])
        pieces = ('{"op": "', op, '", "predicate": ', quoted.take(names.indices), ', "arguments": ', arguments, "}\n")
        file.write("".join(pc.binary_join_element_wise(*pieces, "").to_pylist()).encode())


class Quarantine(BatchFolder):
    """Takes records that were refused."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "jsonl")

    def write(self, batch: int, refused: Iterable[Entry]) -> None:
        rows = [{"place": one.place, "record": one.body, "reason": one.fault} for one in refused]
        lines = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]
        if lines:
            self._write(batch, lambda file: file.writelines(lines))
