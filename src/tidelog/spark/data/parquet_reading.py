"""Parquet files that belong together, read without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_together(paths: Sequence[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of all files. Spark and the driver write the same columns, but not alike whether they may hold nulls."""
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(tables, promote_options="default")
