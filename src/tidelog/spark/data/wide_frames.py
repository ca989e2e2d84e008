"""Wide frames: the rows of several predicates in one, each under the number of its predicate.

A frame for each predicate would cost a scan and at least one task for each, and every task unpacks the plans of all. So
files hold the number of their predicate beside the ids, and the files of many predicates are read at once. The number
is in the column `p`, and there are as many columns `c0`, `c1`, … as the widest predicate has; narrower rows are padded
with `NOT_A_TERM`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import NOT_A_TERM


def keys(width: int) -> list[str]:
    return [f"c{number}" for number in range(width)]


def read_wide(spark: SparkSession, paths: Iterable[str], width: int, more: str = "") -> DataFrame:
    """The rows of files that hold the number of their predicate as `q`; `more` is the schema of further columns."""
    columns = ", ".join(f"{name} bigint" for name in keys(width))
    frame = spark.read.schema(f"q int, {columns}{more}").parquet(*paths)
    return widened(frame.withColumnRenamed("q", "p"), width)


def widened(rows: DataFrame, width: int) -> DataFrame:
    """Rows with columns for so many arguments, none of them null; other columns stay."""
    cells = {
        name: F.coalesce(name, F.lit(NOT_A_TERM)) if name in rows.columns else F.lit(NOT_A_TERM).cast("bigint")
        for name in keys(width)
    }
    others = [name for name in rows.columns if name != "p" and not _is_key(name)]
    return rows.select("p", *(cell.alias(name) for name, cell in cells.items()), *others)


def _is_key(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


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
