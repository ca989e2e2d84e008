"""Compaction: many layers are merged into one, and layers that have grown large are folded into the base.

The driver merges layers of few rows, as small updates leave them: a job would cost more than the update did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelog.spark.data.driver_files import read_together, write_part
from tidelog.spark.stored.layers import Layer, Snapshot, Stored, write_rows

# More layers than this are merged into one.
MOST_LAYERS = 4
# Layers with more rows than this share of the base, and than this number, become part of it.
LARGE_SHARE = 0.25
FEW_ROWS = 50_000


def compacted(
    spark: SparkSession, root: Path, folder: Path, stored: Mapping[str, Stored], everything: bool = False
) -> dict[str, Stored]:
    """The same facts in fewer files, if there are too many; with `everything`, in one base for each predicate."""
    snapshot = Snapshot(spark, root, stored)
    folded = [name for name, found in stored.items() if found.layers and (everything or _has_grown(found))]
    merged = [name for name, found in stored.items() if len(found.layers) > MOST_LAYERS and name not in folded]
    result = dict(stored)
    if folded:
        written = write_rows(snapshot.rows(folded), {name: stored[name] for name in folded}, root, folder / "base")
        result |= {name: replace(stored[name], base=written.get(name), layers=()) for name in folded}
    small = [name for name in merged if _rows(stored[name]) <= FEW_ROWS]
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


def _has_grown(stored: Stored) -> bool:
    rows = _rows(stored)
    base = stored.base.rows if stored.base else 0
    return rows > FEW_ROWS and rows > LARGE_SHARE * base


def _rows(stored: Stored) -> int:
    return sum(layer.rows for layer in stored.layers)
