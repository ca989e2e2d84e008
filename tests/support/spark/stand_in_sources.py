"""Data sources in Python that stand in for those whose packages cannot be installed: Kafka, and tables by a format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

# ── Kafka: a topic with partitions, each of which is a file of values, one in a line ─────────────────────────────────


def produce(folder: Path, partition: int, *values: str) -> None:
    """Append values to a partition of the topic in a folder."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{partition}.log").open("a") as log:
        log.writelines(value + "\n" for value in values)


class StandInKafka(DataSource):
    """The columns and the offsets of Spark's `kafka`, whose name Spark reserves."""

    @classmethod
    def name(cls) -> str:
        return "partitioned-log"

    def schema(self) -> str:
        return "key binary, value binary, topic string, partition int, offset bigint"

    def streamReader(self, schema: object) -> KafkaReader:
        return KafkaReader(self.options)


class KafkaReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = Path(options["log"])

    def _ends(self) -> dict[str, int]:
        return {path.stem: len(path.read_text().splitlines()) for path in sorted(self._folder.glob("*.log"))}

    def initialOffset(self) -> dict[str, int]:
        return dict.fromkeys(self._ends(), 0)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        return self._ends()

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((name, start.get(name, 0), end[name])) for name in end if start.get(name, 0) < end[name]]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        name, start, end = partition.value
        values = (self._folder / f"{name}.log").read_text().splitlines()
        for offset in range(start, end):
            yield None, values[offset].encode(), "topic", int(name), offset


# ── a format of tables, as Delta and Iceberg are: rows in JSON, which a commit makes visible ─────────────────────────


def fill_pond(path: Path, schema: str, rows: Sequence[Sequence[Any]]) -> None:
    """Put rows under a path, as one commit more."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "schema").write_text(schema)
    (path / f"{len(list(path.glob('*.json')))}.json").write_text(json.dumps(rows))


def rows_of_pond(path: Path) -> list[list[Any]]:
    return [row for part in sorted(path.glob("*.json")) for row in json.loads(part.read_text())]


class StandInTables(DataSource):
    """Reads and writes the rows under a path by a format that only this session knows."""

    @classmethod
    def name(cls) -> str:
        return "pond"

    def schema(self) -> str:
        return (Path(self.options["path"]) / "schema").read_text()

    def reader(self, schema: object) -> PondReader:
        return PondReader(self.options["path"])

    def writer(self, schema: Any, overwrite: bool) -> PondWriter:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
        return PondWriter(self.options["path"], columns, overwrite)


class PondReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def read(self, partition: object) -> Iterator[tuple[Any, ...]]:
        yield from map(tuple, rows_of_pond(self._path))


class PondWriter(DataSourceWriter):
    def __init__(self, path: str, schema: str, overwrite: bool) -> None:
        self._path = Path(path)
        self._schema = schema
        self._overwrite = overwrite

    def write(self, rows: Iterator[Any]) -> WriterCommitMessage:
        message: Any = WriterCommitMessage()
        message.rows = [list(row) for row in rows]
        return message

    def commit(self, messages: Sequence[Any]) -> None:
        for old in self._path.glob("*.json") if self._overwrite else ():
            old.unlink()
        fill_pond(self._path, self._schema, [row for message in messages if message for row in message.rows])
