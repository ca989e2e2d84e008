"""The files that an update writes: parts of the next version, and scratch files that go once it is committed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


class Staging:
    """Numbered folders below the data folder of the next version."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._jobs = 0

    def next_path(self, what: str = "scratch") -> Path:
        self._jobs += 1
        return self._folder / f"{what}-{self._jobs:05d}"

    def write(self, frame: DataFrame) -> str:
        """Write a frame for the time of the update; returns its path."""
        path = str(self.next_path())
        frame.write.parquet(path)
        return path

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, written and read back: they are computed once, and their lineage ends."""
        return self.spark.read.schema(frame.schema).parquet(self.write(frame))
