"""Results as tables: of the session's catalogue, or under a path in any format that the session can write.

A version is published first, as data sets of Parquet; tables are copies of it that others find where they look for
them. A table is replaced as its format does that: in one step with Delta and Iceberg, file by file with Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidelog.errors import DataError, StorageError

MODES = ("overwrite", "append", "error", "ignore")


@dataclass(frozen=True)
class TableSink:
    """Where the facts of a predicate go besides its version: a table by its name, or a path; and how."""

    predicate: str
    table: str | None = None
    path: str | None = None
    format: str | None = None
    mode: str = "overwrite"
    columns: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.table is None) == (self.path is None):
            raise DataError(f"{self.name}: give either a `table` of the catalogue or a `path`")
        if self.mode not in MODES:
            raise DataError(f"{self.name}: `mode` is one of {', '.join(MODES)}, not {self.mode!r}")

    @property
    def name(self) -> str:
        return f"sink {self.table or self.path or ''} of `{self.predicate}`"

    def write(self, facts: DataFrame) -> None:
        """Write the facts of the predicate."""
        if self.columns is not None:
            if len(self.columns) != len(facts.columns):
                raise DataError(f"{self.name}: {len(facts.columns)} arguments, but {len(self.columns)} columns")
            facts = facts.toDF(*self.columns)
        writer = facts.write.mode(self.mode).options(**self.options)
        if self.format is not None:
            writer = writer.format(self.format)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        try:
            if self.table is not None:
                writer.saveAsTable(self.table)
            else:
                writer.save(self.path)
        except (PySparkException, Py4JJavaError) as error:
            reason = str(error).partition("\n")[0]
            raise StorageError(
                f"{self.name}: Spark cannot write it ({reason}); the version itself is published"
            ) from None
