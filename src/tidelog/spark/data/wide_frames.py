"""Wide frames: the rows of several predicates in one, each under the number of its predicate; and their files.

A frame for each predicate would cost a scan and at least one task for each, and every task unpacks the plans of all. So
files hold the number of their predicate beside the ids, and the files of many predicates are read at once. The number
is in the column `p`, and there are as many columns `c0`, `c1`, … as the widest predicate has; narrower rows are padded
with `NOT_A_TERM`. In files the number is called `q`, because `p` is in the names of their folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

NOT_A_TERM = -1

Cut = Callable[[DataFrame], DataFrame]
"""Writes a frame and reads it back: its rows are computed once, and their lineage ends."""


def keys(width: int) -> list[str]:
    return [f"c{number}" for number in range(width)]


def key_types(width: int) -> str:
    return ", ".join(f"{name} bigint" for name in keys(width))


def read_wide(spark: SparkSession, paths: Iterable[str], width: int, more: str = "") -> DataFrame:
    """The rows of files; `more` is the schema of further columns."""
    frame = spark.read.schema(f"q int, {key_types(width)}{more}").parquet(*paths)
    return widened(frame.withColumnRenamed("q", "p"), width)


def widened(rows: DataFrame, width: int) -> DataFrame:
    """Rows with columns for so many arguments, none of them null; other columns stay."""
    cells = {
        name: F.coalesce(name, F.lit(NOT_A_TERM)) if name in rows.columns else F.lit(NOT_A_TERM).cast("bigint")
        for name in keys(width)
    }
    others = [name for name in rows.columns if name != "p" and not (name[0] == "c" and name[1:].isdigit())]
    return rows.select("p", *(cell.alias(name) for name, cell in cells.items()), *others)


def padded(frame: DataFrame, width: int, wanted: int, kept: Sequence[str] = ()) -> DataFrame:
    """Rows of a predicate without nulls, padded to the width that is wanted."""
    missing = [F.lit(NOT_A_TERM).cast("bigint").alias(name) for name in keys(wanted)[width:]]
    return frame.select("p", *keys(width), *missing, *kept)


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """One frame of all rows, by halves: Spark analyses the plan at each union, so a chain would take quadratic time."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union_all(frames[:middle]).unionByName(union_all(frames[middle:]))


# ── files that jobs write ────────────────────────────────────────────────────────────────────────────────────────────


def observed(observation: Observation, name: str) -> int:
    """A count that a job took along; 0 where Spark dropped that branch of the plan because it is empty."""
    try:
        return int(observation.get[name])
    except (Py4JError, KeyError):
        return 0


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


def write_wide(rows: DataFrame, numbers: Mapping[str, int], path: str) -> dict[str, int]:
    """Write rows, a folder `p=…` for each predicate; returns how many of each of these predicates there were.

    The files say how many rows they have. To count them while they are written, a test for each predicate and row,
    would take longer than to write them."""
    rows.write.mode("overwrite").partitionBy("p").parquet(path)
    return {name: _rows_in(Path(path) / f"p={number}") for name, number in numbers.items()}


def _rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


# ── files that the driver reads and writes by itself, without a job ──────────────────────────────────────────────────


def write_part(folder: Path, table: pa.Table) -> None:
    """Write a table as the only part of a new data set."""
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")


def read_together(paths: Sequence[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of all files. Spark and the driver write the same columns, but not alike whether they may hold nulls."""
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(tables, promote_options="default")
