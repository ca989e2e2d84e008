"""The facts of a version: for each predicate a base of rows, and above it layers of rows that have changed since.

A row is a fact with its state: `e`, whether it is explicit; `n`, its number of derivations by those rules of its
component that are not recursive; `h`, whether it holds. A layer holds the new state of each fact that an update
touched, including facts that no longer hold; the newest layer that has a fact decides. So an update writes only what it
touched, and shares all older files with the versions before. `compaction.py` keeps the layers few: it merges them, and
folds them into the base when they have grown.

Every row also carries the number of its predicate, `q`, so that one scan reads the rows of many predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import observed
from tidelog.spark.data.wide_frames import keys, read_wide

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
            merged = self._merged([self.stored[name].folders for name in names], self.width(names))
            self._rows[names] = self._known_counts(merged.where("h"), names)
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
            return self._spark.createDataFrame([], f"p int, {_columns(width)}, {_STATE_TYPE}")
        return reduce(lambda below, above: _covered(below, above, width), frames)

    def _known_counts(self, rows: DataFrame, names: Iterable[str]) -> DataFrame:
        unknown = [self.stored[name].number for name in names if not self.stored[name].counted]
        return rows.withColumn("n", F.when(F.col("p").isin(unknown), 0).otherwise(F.col("n"))) if unknown else rows

    def read(self, paths: Iterable[str], width: int, more: str = "") -> DataFrame:
        """The rows of some folders as they are."""
        places = (str(self._folder / path) for path in paths)
        return read_wide(self._spark, places, width, f", {more}{_STATE_TYPE}")


def _columns(width: int) -> str:
    return ", ".join(f"{name} bigint" for name in keys(width))


def _covered(below: DataFrame, above: DataFrame, width: int) -> DataFrame:
    """Two levels as one: the upper one decides."""
    columns = ["p", *keys(width)]
    return below.join(above.select(*columns), columns, "left_anti").unionByName(above)


class RowCounts:
    """How many rows of each predicate fit each test, counted when `rows` are written."""

    def __init__(self, rows: DataFrame, numbers: Mapping[str, int], tests: Sequence[str] = ("true",)) -> None:
        self._observation = Observation()
        self._numbers = numbers
        self._tests = tests
        counts = [
            F.count_if(F.expr(f"p = {number} AND ({test})")).alias(f"n{number}_{place}")
            for number in numbers.values()
            for place, test in enumerate(tests)
        ]
        self.rows = rows.observe(self._observation, *counts)

    def get(self) -> dict[str, dict[str, int]]:
        """The counts by predicate and test."""
        return {
            name: {test: observed(self._observation, f"n{number}_{place}") for place, test in enumerate(self._tests)}
            for name, number in self._numbers.items()
        }


def write_rows(rows: DataFrame, stored: Mapping[str, Stored], root: Path, path: Path) -> dict[str, Layer]:
    """Write rows with their state by predicate; returns the layers of those predicates that have any."""
    cells = keys(max(found.width for found in stored.values()))
    laid_out = rows.select("p", F.col("p").alias("q"), *cells, "e", "n", "h")
    counts = RowCounts(laid_out, {name: found.number for name, found in stored.items()})
    counts.rows.write.partitionBy("p").parquet(str(path))
    place = path.relative_to(root)
    layers = {name: Layer(f"{place}/p={stored[name].number}", found["true"]) for name, found in counts.get().items()}
    return {name: layer for name, layer in layers.items() if layer.rows}
