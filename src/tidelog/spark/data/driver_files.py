"""Parquet files that the driver reads and writes by itself, without a job of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_part(folder: Path, table: pa.Table) -> None:
    """Write a table as the only part of a new data set."""
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")


def read_together(paths: Sequence[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of all files. Spark and the driver write the same columns, but not alike whether they may hold nulls."""
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(tables, promote_options="default")
