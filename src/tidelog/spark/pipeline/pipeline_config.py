"""The configuration of a pipeline, a TOML file:

program = "rules.dlog"          # paths are relative to this file
output = "published"
max_bad_rows = 1000             # stop above so many rows that do not fit; -1: never

[spark]
master = "local[*]"
"spark.driver.memory" = "4g"    # any setting of Spark

[engine]
local_facts = 1000000           # solve what reads no more facts than this inside one task; 0: never

[[source]]
path = "data/readings-*.csv"
predicate = "reading"
header = true
columns = ["turbine", "time", "power"]
types = ["string", "int", "float"]

[stream]                        # see `tidelog.spark.pipeline.stream_config`
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tidelog.errors import DataError
from tidelog.formats.byte_files import io_errors
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.options import Options
from tidelog.spark.pipeline.config_tables import ConfigTable
from tidelog.spark.pipeline.stream_config import StreamConfig, stream_config

_TOP = {"program", "output", "max_bad_rows", "spark", "engine", "source", "stream"}
_SOURCE = {"path", "predicate", "format", "header", "columns", "types"}


@dataclass(frozen=True)
class PipelineConfig:
    """A configuration file, with the text of the program and with complete paths."""

    program: str
    output: str
    max_bad_rows: int | None
    master: str | None
    settings: dict[str, str]
    options: Options
    sources: tuple[Source, ...]
    stream: StreamConfig | None = None


def read_config(path: str) -> PipelineConfig:
    """Read and check a configuration file."""
    with io_errors(path):
        text = Path(path).read_text(encoding="utf-8")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    read = ConfigTable(path, found, _TOP)
    folder = Path(path).parent
    program = folder / read.text("program")
    with io_errors(str(program)):
        program_text = program.read_text(encoding="utf-8")
    limit = found.get("max_bad_rows", 1000)
    if type(limit) is not int:
        raise DataError(f"{path}: max_bad_rows is a number of rows, or -1 for no limit")
    needs_output = "output" in found or "stream" not in found
    spark, options = read.table("spark"), read.table("engine")
    ConfigTable(f"{path}, [engine]", options, {option.name for option in fields(Options)})
    return PipelineConfig(
        program_text,
        str(folder / (read.text("output") if needs_output else "")),
        None if limit < 0 else limit,
        spark.pop("master", None),
        {str(key): str(value) for key, value in spark.items()},
        Options(**options),
        tuple(_source(path, folder, number, source) for number, source in enumerate(found.get("source", []), 1)),
        stream_config(path, folder, read.table("stream")) if "stream" in found else None,
    )


def _source(path: str, folder: Path, number: int, table: Mapping[str, Any]) -> Source:
    location = ConfigTable(f"{path}, [[source]] number {number}", table, _SOURCE).text("path")
    columns, types = table.get("columns"), table.get("types")
    return Source(
        location if table.get("format") == "table" else str(folder / location),
        table.get("predicate"),
        table.get("format"),
        bool(table.get("header", False)),
        None if columns is None else tuple(columns),
        None if types is None else tuple(types),
    )
