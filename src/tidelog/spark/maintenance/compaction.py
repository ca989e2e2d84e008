"""Layers put together: into one where they are many, and into the base where they have grown to a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.spark.maintenance.snapshot import Snapshot, Stored, write_rows

# More layers than this are merged into one.
MOST_LAYERS = 4
# Layers of this share of the base, and of so many rows, become part of it.
LARGE_SHARE = 0.25
FEW_ROWS = 50_000


def compacted(
    spark: SparkSession, root: Path, folder: Path, stored: Mapping[str, Stored], everything: bool = False
) -> dict[str, Stored]:
    """The same facts in fewer files, where there are too many; with `everything`, in one base for each predicate."""
    snapshot = Snapshot(spark, root, stored)
    folded = [name for name, found in stored.items() if found.layers and (everything or _has_grown(found))]
    merged = [name for name, found in stored.items() if len(found.layers) > MOST_LAYERS and name not in folded]
    result = dict(stored)
    if folded:
        written = write_rows(snapshot.rows(folded), {name: stored[name] for name in folded}, root, folder / "base")
        result |= {name: replace(stored[name], base=written.get(name), layers=()) for name in folded}
    if merged:
        written = write_rows(snapshot.layers(merged), {name: stored[name] for name in merged}, root, folder / "merged")
        result |= {name: replace(stored[name], layers=(written[name],)) for name in merged}
    return result


def _has_grown(stored: Stored) -> bool:
    rows = sum(layer.rows for layer in stored.layers)
    base = stored.base.rows if stored.base else 0
    return rows > FEW_ROWS and rows > LARGE_SHARE * base
