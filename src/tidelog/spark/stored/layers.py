"""The facts of a version: for each predicate a base of rows, and above it layers of rows that have changed since.

A row is a fact with its state: `e`, whether it is explicit; `n`, its number of derivations by those rules of its
component that are not recursive; `h`, whether it holds. A layer holds the new state of each fact that an update
touched, including facts that no longer hold; the newest layer that has a fact decides. So an update writes only what it
touched, and shares all older files with the versions before. Compaction keeps the layers few: it merges them, and folds
them into the base when they have grown. The driver merges layers of few rows, as small updates leave them: a job would
cost more than the update did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.wide_frames import key_types, keys, read_together, read_wide, write_part, write_wide

# More layers than this are merged into one.
MOST_LAYERS = 4
# Layers with more rows than this share of the base, and than this number, become part of it.
LARGE_SHARE = 0.25
FEW_ROWS = 50_000

CAME, WENT = "h AND NOT h0", "h0 AND NOT h"
_STATE_TYPE = "e boolean, n bigint, h boolean"


@dataclass(frozen=True)
class Layer:
    """Rows of one predicate in a folder, whose path is relative to the folder of the materialisation."""

    path: str
    rows: int


@dataclass(frozen=True)
class Stored:
    """The files of one predicate. `counted` tells whether `n` is kept: not if a task solved the component."""

    number: int
    arity: int
    base: Layer | None = None
    layers: tuple[Layer, ...] = ()
    facts: int = 0
    explicit: int = 0
    counted: bool = True

    @property
    def width(self) -> int:
        return max(1, self.arity)

    @property
    def columns(self) -> list[str]:
        return keys(self.width)

    @property
    def folders(self) -> tuple[Layer, ...]:
        """The base and the layers, the newest last."""
        return (*((self.base,) if self.base else ()), *self.layers)

    @property
    def layered_rows(self) -> int:
        return sum(layer.rows for layer in self.layers)

    @property
    def has_grown(self) -> bool:
        """Whether the layers are to become part of the base."""
        base = self.base.rows if self.base else 0
        return self.layered_rows > FEW_ROWS and self.layered_rows > LARGE_SHARE * base


class Snapshot:
    """The facts of one version as frames."""

    def __init__(self, spark: SparkSession, folder: Path, stored: Mapping[str, Stored]) -> None:
        self._spark = spark
        self._folder = folder
        self.stored = stored
        self._facts: dict[str, DataFrame] = {}
        self._rows: dict[tuple[str, ...], DataFrame] = {}

    def count(self, predicate: str) -> int:
        found = self.stored.get(predicate)
        return found.facts if found else 0

    def width(self, predicates: Iterable[str]) -> int:
        return max((self.stored[name].width for name in predicates), default=1)

    def facts(self, predicate: str) -> DataFrame:
        """The facts of a predicate, in columns `c0`, `c1`, …"""
        if predicate not in self._facts:
            self._facts[predicate] = self.rows([predicate]).select(*self.stored[predicate].columns)
        return self._facts[predicate]

    def changed(self, predicate: str, path: str, which: str) -> DataFrame:
        """The facts of a predicate that came or went (`which`), from the file of what an update touched."""
        stored = self.stored[predicate]
        rows = self.read([path], stored.width, "h0 boolean, ")
        return rows.where(which).select(*stored.columns)

    def rows(self, predicates: Iterable[str]) -> DataFrame:
        """The rows of all facts of some predicates, in one frame: number `p`, columns for the widest, state."""
        names = tuple(predicates)
        if names not in self._rows:
            rows = self._merged([self.stored[name].folders for name in names], self.width(names)).where("h")
            unknown = [self.stored[name].number for name in names if not self.stored[name].counted]
            if unknown:
                rows = rows.withColumn("n", F.when(F.col("p").isin(unknown), 0).otherwise(F.col("n")))
            self._rows[names] = rows
        return self._rows[names]

    def forget(self) -> None:
        """Read the files anew: facts have moved to other files."""
        self._rows.clear()
        self._facts.clear()

    def layers(self, predicates: Iterable[str]) -> DataFrame:
        """The merged layers of some predicates, including facts that do not hold."""
        names = list(predicates)
        return self._merged([self.stored[name].layers for name in names], self.width(names))

    def _merged(self, stacked: list[tuple[Layer, ...]], width: int) -> DataFrame:
        depth = max(map(len, stacked), default=0)
        levels = [[folders[level] for folders in stacked if level < len(folders)] for level in range(depth)]
        frames = [self.read((layer.path for layer in level), width) for level in levels]
        if not frames:
            return self._spark.createDataFrame([], f"p int, {key_types(width)}, {_STATE_TYPE}")
        columns = ["p", *keys(width)]
        # Of two levels, the upper one decides.
        return reduce(lambda low, high: low.join(high.select(*columns), columns, "left_anti").unionByName(high), frames)

    def read(self, paths: Iterable[str], width: int, more: str = "") -> DataFrame:
        """The rows of some folders as they are."""
        places = (str(self._folder / path) for path in paths)
        return read_wide(self._spark, places, width, f", {more}{_STATE_TYPE}")


def write_rows(rows: DataFrame, stored: Mapping[str, Stored], root: Path, path: Path) -> dict[str, Layer]:
    """Write rows with their state by predicate; returns the layers of those predicates that have any."""
    cells = keys(max(found.width for found in stored.values()))
    laid_out = rows.select("p", F.col("p").alias("q"), *cells, "e", "n", "h")
    counts = write_wide(laid_out, {name: found.number for name, found in stored.items()}, str(path))
    place = path.relative_to(root)
    return {name: Layer(f"{place}/p={stored[name].number}", count) for name, count in counts.items() if count}


# ── compaction ───────────────────────────────────────────────────────────────────────────────────────────────────────


def compacted(
    spark: SparkSession, root: Path, folder: Path, stored: Mapping[str, Stored], everything: bool = False
) -> dict[str, Stored]:
    """The same facts in fewer files, if there are too many; with `everything`, in one base for each predicate."""
    snapshot = Snapshot(spark, root, stored)
    folded = [name for name, found in stored.items() if found.layers and (everything or found.has_grown)]
    merged = [name for name, found in stored.items() if len(found.layers) > MOST_LAYERS and name not in folded]
    result = dict(stored)
    if folded:
        written = write_rows(snapshot.rows(folded), {name: stored[name] for name in folded}, root, folder / "base")
        result |= {name: replace(stored[name], base=written.get(name), layers=()) for name in folded}
    small = [name for name in merged if stored[name].layered_rows <= FEW_ROWS]
    for name in small:
        result[name] = replace(stored[name], layers=(_merged(stored[name], root, folder / "small"),))
    large = [name for name in merged if name not in small]
    if large:
        written = write_rows(snapshot.layers(large), {name: stored[name] for name in large}, root, folder / "merged")
        result |= {name: replace(stored[name], layers=(written[name],)) for name in large}
    return result


def _merged(stored: Stored, root: Path, folder: Path) -> Layer:
    """All layers as one: for each fact, the row of the newest layer that has it."""
    columns = ["q", *stored.columns, "e", "n", "h"]
    paths = [path for layer in stored.layers for path in sorted((root / layer.path).glob("*.parquet"))]
    whole = read_together(paths, columns)
    numbered = whole.select(stored.columns).append_column("row", pa.array(range(whole.num_rows), pa.int64()))
    newest = numbered.group_by(stored.columns).aggregate([("row", "max")]).column("row_max")
    path = folder / f"p={stored.number}"
    write_part(path, whole.take(newest))
    return Layer(str(path.relative_to(root)), len(newest))
