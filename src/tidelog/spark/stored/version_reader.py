"""One version of a materialisation, decoded: its facts, and what the update that made it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import StorageError
from tidelog.formats.files.updates import Facts
from tidelog.language.names import is_hidden
from tidelog.program.catalogue import Catalogue
from tidelog.spark.data.dictionary import Dictionary, TermIds
from tidelog.spark.data.part_files import native_columns
from tidelog.spark.data.term_lookup import Ids, values_of_ids
from tidelog.spark.data.wide_frames import keys, read_together
from tidelog.spark.stored.layers import CAME, WENT, Snapshot
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
    """What an update did: the version it made, the facts that came and went by predicate, and the work it took.

    Examples:
        >>> from tidelog.spark import Materialisation
        >>> change = Materialisation.open(spark, f"{folder}/graph").change
        >>> print(change)
        + edge: 1
        + path: 1
        >>> [tuple(row) for row in change.added["path"].collect()]
        [('a', 'b')]
    """

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


class VersionReader:
    """The facts of one version; the catalogue has the names of predicates as programs write them."""

    def __init__(self, spark: SparkSession, folder: Path, version: Version, catalogue: Catalogue) -> None:
        self._spark = spark
        self._folder = folder
        self._version = version
        self._catalogue = catalogue
        self.snapshot = Snapshot(spark, folder, version.stored)

    def dictionary(self) -> Dictionary:
        """The dictionary of the version, for an update to extend."""
        found = self._version
        ids = TermIds(found.exceptions)
        return Dictionary(self._spark, str(self._folder / "terms"), self._terms, found.terms_count, found.floats, ids)

    @property
    def _terms(self) -> list[str]:
        return [str(self._folder / path) for path in self._version.terms]

    @property
    def predicates(self) -> list[str]:
        return sorted(self._catalogue.display(name) for name in self._version.stored if not is_hidden(name))

    def count(self, predicate: str) -> int:
        return self.snapshot.count(self._catalogue.resolve(predicate))

    def facts(self, predicate: str, test: str = "true") -> DataFrame:
        """The facts of a predicate whose state fits a test, with decoded terms in columns `c0`, `c1`, …"""
        name = self._catalogue.resolve(predicate)
        if name not in self._version.stored:
            raise StorageError(f"there is no predicate `{predicate}`; there are {', '.join(self.predicates)}")
        return self._native(name, self.snapshot.rows([name]).where(test))

    def _native(self, name: str, rows: DataFrame) -> DataFrame:
        """Rows of ids as terms in columns of native types."""
        arity = self._version.stored[name].arity
        if arity:
            columns = {name: f"a{name[1:]}" for name in keys(arity)}
            rows = self.dictionary().with_values(rows, columns).select(*columns.values())
        return native_columns(rows, arity)

    # ── what changed ─────────────────────────────────────────────────────────────────────────────────────────────

    def change(self) -> SparkChange:
        """What the update that made the version did, as frames."""
        display = self._catalogue.display
        shown = {display(name): changed for name, changed in self._version.changed.items() if not is_hidden(name)}
        come = {name: changed.come for name, changed in shown.items() if changed.come}
        gone = {name: changed.gone for name, changed in shown.items() if changed.gone}
        added, removed = Decoded(come, partial(self._changed, CAME)), Decoded(gone, partial(self._changed, WENT))
        return SparkChange(self._version.number, added, removed, come, gone, self._version.work)

    def _changed(self, which: str, predicate: str) -> DataFrame:
        name = self._catalogue.resolve(predicate)
        return self._native(name, self.snapshot.changed(name, self._version.changed[name].path, which))

    def collected(self) -> Collected:
        """The same with the facts on the driver, without a job."""
        came: dict[str, list[Ids]] = {}
        went: dict[str, list[Ids]] = {}
        for name, changed in self._version.changed.items():
            if is_hidden(name):
                continue
            table = read_together(sorted((self._folder / changed.path).glob("*.parquet")))
            before, after = (table.column(flag).to_numpy() for flag in ("h0", "h"))
            for facts, mask in ((came, after & ~before), (went, before & ~after)):
                chosen = table.filter(pa.array(mask))
                columns = [chosen.column(key).to_pylist() for key in keys(self._version.stored[name].arity)]
                facts[name] = list(zip(*columns, strict=True)) if columns else [()] * chosen.num_rows
        wanted = {id_ for side in (came, went) for facts in side.values() for fact in facts for id_ in fact}
        values = values_of_ids(self._terms, wanted)

        def decoded(facts: Mapping[str, list[Ids]]) -> Facts:
            return {
                self._catalogue.display(name): [tuple(values[id_] for id_ in ids) for ids in found]
                for name, found in facts.items()
                if found
            }

        return Collected(decoded(came), decoded(went), self._version.work)
