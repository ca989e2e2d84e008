"""Published results: versions in folders of their own, and a manifest that says which one is current.

The manifest is replaced by one rename, so a reader finds the old version or the new one, and a run that dies leaves the
old one as it was. Versions never change. All of them share the dictionary, which only grows: the manifest names those
of its files that count.

A version has a data set of decoded terms for each predicate. A job for each would join it with the whole dictionary,
once for each column. So predicates whose columns have the same types are decoded by one job, which writes a folder for
each of them; a rename gives the folder its name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidelog.errors import StorageError
from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.part_files import of_kinds
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.storage.durable_files import replace_file

MANIFEST = "manifest.json"
_FORMAT = 1

Kinds = tuple[frozenset[int], ...]
"""The kinds of constants in each column of a predicate."""


@dataclass
class Manifest:
    """The parts of the current version; paths are relative to the folder of the manifest."""

    version: int = 0
    folder: str = ""
    predicates: dict[str, dict[str, Any]] = field(default_factory=dict)
    terms: list[str] = field(default_factory=list)
    terms_count: int = 0
    floats: bool = False


class Versions:
    """The versions under one folder, which all executors can reach.

    Examples:
        >>> from tidelog.spark import Versions
        >>> Versions(f"{folder}/published").vacuum(keep=2)
        []
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def current(self) -> Manifest | None:
        """The manifest of the current version; None if nothing is published yet."""
        path = self.folder / MANIFEST
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StorageError(f"{path}: not a readable manifest ({error}); restore it, or publish elsewhere") from None
        if stored.pop("format", None) != _FORMAT:
            raise StorageError(f"{path}: written by another version of tidelog; publish into another folder")
        return Manifest(**stored)

    def begin(self) -> tuple[int, Path]:
        """The number and the empty folder of the next version; whatever a dead run left there is removed."""
        number = (self.current() or Manifest()).version + 1
        folder = self.folder / "versions" / f"{number:06d}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return number, folder

    def dictionary(self, spark: SparkSession) -> Dictionary:
        """The dictionary of the current version, to be extended."""
        current = self.current() or Manifest()
        parts = [str(self.folder / path) for path in current.terms]
        return Dictionary(spark, str(self.folder / "terms"), parts, current.terms_count, current.floats)

    def publish(self, number: int, folder: Path, predicates: dict[str, dict[str, Any]], terms: Dictionary) -> None:
        """Make a version the current one, in one step."""
        parts = [str(Path(part).relative_to(self.folder)) for part in terms.parts]
        place = str(folder.relative_to(self.folder))
        manifest = Manifest(number, place, predicates, parts, terms.size, terms.floats)
        text = json.dumps({"format": _FORMAT} | vars(manifest), indent=1, ensure_ascii=False)
        replace_file(self.folder / MANIFEST, text.encode())

    def path(self, predicate: str) -> str:
        """The data set of a predicate in the current version."""
        current = self.current()
        if current is None or predicate not in current.predicates:
            known = ", ".join(sorted(current.predicates)) if current else "nothing is published yet"
            raise StorageError(f"{self.folder}: no data set of `{predicate}`; there is: {known}")
        return str(self.folder / current.folder / current.predicates[predicate]["path"])

    def vacuum(self, keep: int = 2) -> list[int]:
        """Remove all versions but the newest ones; returns the numbers of those that are gone."""
        current = self.current()
        if current is None:
            return []
        numbers = sorted(int(path.name) for path in (self.folder / "versions").iterdir() if path.name.isdigit())
        gone = [number for number in numbers if number <= current.version - max(1, keep)]
        for number in gone:
            shutil.rmtree(self.folder / "versions" / f"{number:06d}")
        return gone


def write_decoded(engine: SparkEngine, paths: Mapping[str, Path]) -> None:
    """Write the facts of predicates as data sets of decoded terms to these paths, which lie in one folder."""
    relations = engine.relations
    kinds = _kinds_of_columns(relations, engine.dictionary)
    groups: dict[Kinds, dict[str, Path]] = {}
    for name, path in paths.items():
        if relations.count(name):
            groups.setdefault(kinds[name], {})[name] = path
        else:
            of_kinds(engine.values(name), kinds[name]).write.parquet(str(path))
    for columns, together in groups.items():
        wide = relations.wide(together)
        values = engine.dictionary.with_values(wide, {name: f"a{name[1:]}" for name in keys(len(columns))})
        unnamed = next(iter(together.values())).with_name(".unnamed")
        of_kinds(values, columns, "p").write.partitionBy("p").parquet(str(unnamed))
        for name, path in together.items():
            (unnamed / f"p={relations[name].number}").rename(path)
        shutil.rmtree(unnamed)


def _kinds_of_columns(relations: Relations, dictionary: Dictionary) -> dict[str, Kinds]:
    """The kinds of all columns, by one job; by the dictionary alone if all its constants are of one kind."""
    present = dictionary.kinds()
    filled = [name for name in relations if relations.count(name) and relations[name].arity]
    if len(present) <= 1 or not filled:
        return {name: (present if name in filled else frozenset(),) * relations[name].arity for name in relations}
    cells = F.posexplode(F.array(*keys(relations.width(filled)))).alias("place", "id")
    kinds = dictionary.frame().select("id", F.col("value.kind").alias("kind"))
    found = relations.wide(filled).select("p", cells).join(kinds, "id").groupBy("p", "place")
    rows = found.agg(F.collect_set("kind").alias("kinds")).collect()
    by_place = {(row["p"], row["place"]): frozenset(row["kinds"]) for row in rows}

    def of_predicate(number: int, arity: int) -> Kinds:
        return tuple(by_place.get((number, place), frozenset()) for place in range(arity))

    return {name: of_predicate(relations[name].number, relations[name].arity) for name in relations}
