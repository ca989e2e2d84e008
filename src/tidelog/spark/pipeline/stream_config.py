"""The `[stream]` section of a pipeline's configuration:

[stream]
engine = "memory"                # memory, spark or keyed
checkpoint = "stream/state"      # everything that a restart needs, in one folder
quarantine = "stream/refused"    # records that could not be applied, with the reason
trigger = "2 seconds"            # how often; "available-now": take what is there and end; not given: at once
most_per_batch = 100             # files, or messages of a broker, in a batch
key = 1                          # keyed: the argument of every predicate that holds the key, from 1 on …
keys = { limit = 0 }             # … and exceptions; 0: a predicate without a key, the same for all keys
shards = 32                      # keyed: the parts that keys are dealt to, each of which is written as a whole
allow_rules = true               # take rules from records too; not given: from files, but not from a network

[stream.source]
format = "jsonl"                 # jsonl, csv, parquet, mqtt, or any other source of Spark
path = "incoming"
options = { }                    # of Spark, as they are
value = "value"                  # the column with an update as JSON, if the source is not a file
order = ["partition", "offset"]  # the columns that say which record came first, if the source is not a file

[stream.sink]
format = "jsonl"                 # or parquet
path = "changes"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.errors import DataError
from tidelog.spark.pipeline.config_tables import ConfigTable, boolean

ENGINES = ("memory", "spark", "keyed")
FILE_FORMATS = ("jsonl", "csv", "parquet")
SINK_FORMATS = ("jsonl", "parquet")
AVAILABLE_NOW = "available-now"
SHARDS = 32

_STREAM = {
    *("engine", "checkpoint", "quarantine", "trigger", "most_per_batch", "key", "keys", "shards", "allow_rules"),
    *("source", "sink"),
}
_SOURCE = {"format", "path", "options", "schema", "value", "order"}


@dataclass(frozen=True)
class StreamSource:
    """Where records come from."""

    format: str
    path: str | None = None
    options: Mapping[str, str] | None = None
    schema: str | None = None
    value: str = "value"
    order: tuple[str, ...] = ()

    @property
    def is_file(self) -> bool:
        return self.format in FILE_FORMATS


@dataclass(frozen=True)
class StreamConfig:
    """The section, with complete paths."""

    engine: str
    checkpoint: Path
    quarantine: Path
    trigger: str | None
    most_per_batch: int | None
    key: int
    keys: Mapping[str, int]
    shards: int
    source: StreamSource
    allow_rules: bool
    sink: Path
    sink_format: str


def stream_config(path: str, folder: Path, table: Mapping[str, Any]) -> StreamConfig:
    """Read and check the section."""
    read = ConfigTable(f"{path}, [stream]", table, _STREAM)
    sink = ConfigTable(f"{path}, [stream.sink]", read.table("sink"), {"format", "path"})
    keys = read.table("keys")
    if not all(type(place) is int and place >= 0 for place in keys.values()):
        raise DataError(f"{path}, [stream]: keys are numbers of arguments, from 1 on, or 0 for none")
    return StreamConfig(
        engine=read.one_of("engine", ENGINES, "memory"),
        checkpoint=folder / read.text("checkpoint"),
        quarantine=folder / read.text("quarantine"),
        trigger=read.text_or_none("trigger"),
        most_per_batch=read.number("most_per_batch"),
        key=read.number("key") or 1,
        keys=keys,
        shards=read.number("shards") or SHARDS,
        source=(source := _source(f"{path}, [stream.source]", folder, read.table("source"))),
        allow_rules=boolean(f"{path}, [stream]", "allow_rules", table.get("allow_rules", source.is_file)),
        sink=folder / sink.text("path"),
        sink_format=sink.one_of("format", SINK_FORMATS, "jsonl"),
    )


def _source(where: str, folder: Path, table: Mapping[str, Any]) -> StreamSource:
    read = ConfigTable(where, table, _SOURCE)
    format = read.text("format")
    location = read.text_or_none("path")
    if format in FILE_FORMATS and location is None:
        raise DataError(f'{where}: files lie somewhere; write path = "…"')
    order = table.get("order", [])
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise DataError(f'{where}: order is a list of columns, such as ["partition", "offset"]')
    return StreamSource(
        format,
        None if location is None else str(folder / location),
        {key: _option(format, key, value, folder) for key, value in read.table("options").items()},
        read.text_or_none("schema"),
        read.text_or_none("value") or "value",
        tuple(order),
    )


# Options that name files, relative to the folder of the configuration.
FILE_OPTIONS = {"mqtt": ("cafile", "certfile", "keyfile")}


def _option(format: str, name: str, value: Any, folder: Path) -> str:
    if name.lower() in FILE_OPTIONS.get(format, ()):
        return str(folder / str(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
