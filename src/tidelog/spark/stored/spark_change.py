"""What an update did: as frames of decoded terms, or as facts on the driver, read without a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from tidelog.formats.updates import Facts
from tidelog.spark.data.parquet_reading import read_together
from tidelog.spark.data.term_lookup import Ids, values_of_ids
from tidelog.spark.stored.version_history import Version


class Decoded(Mapping[str, DataFrame]):
    """Facts by predicate as frames of decoded terms, each made on demand."""

    def __init__(self, names: Iterable[str], decode: Callable[[str], DataFrame]) -> None:
        self._names = sorted(names)
        self._decode = decode

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._decode(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class SparkChange:
    """What an update did: the version it made, the facts that came and went by predicate, and the work it took."""

    version: int
    added: Mapping[str, DataFrame]
    removed: Mapping[str, DataFrame]
    added_counts: Mapping[str, int]
    removed_counts: Mapping[str, int]
    work: Mapping[str, int]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __str__(self) -> str:
        counts = (("+", self.added_counts), ("-", self.removed_counts))
        return "\n".join(f"{sign} {name}: {count:,}" for sign, found in counts for name, count in found.items())


@dataclass(frozen=True)
class Collected:
    """What an update did, with its facts on the driver: for changes that are small or needed there anyway."""

    added: Facts
    removed: Facts
    work: Mapping[str, int]


def changed_facts(root: Path, version: Version) -> tuple[Facts, Facts]:
    """The facts that came with a version and those that went, by predicate."""
    came: dict[str, list[Ids]] = {}
    went: dict[str, list[Ids]] = {}
    for name, changed in version.changed.items():
        table = read_together(sorted((root / changed.path).glob("*.parquet")))
        came[name] = _facts(table, version.stored[name].arity, "h", "h0")
        went[name] = _facts(table, version.stored[name].arity, "h0", "h")
    wanted = {id_ for side in (came, went) for facts in side.values() for fact in facts for id_ in fact}
    values = values_of_ids([str(root / part) for part in version.terms], wanted)

    def decoded(facts: Mapping[str, list[Ids]]) -> Facts:
        return {name: [tuple(values[id_] for id_ in ids) for ids in found] for name, found in facts.items() if found}

    return decoded(came), decoded(went)


def _facts(table: pa.Table, arity: int, has: str, lacks: str) -> list[Ids]:
    """The facts of the rows that have one flag and lack another."""
    flags = table.column(has).to_numpy() & ~table.column(lacks).to_numpy()
    chosen = table.filter(pa.array(flags))
    columns = [chosen.column(f"c{place}").to_pylist() for place in range(arity)]
    return list(zip(*columns, strict=True)) if arity else [()] * chosen.num_rows
