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

[stream]                        # see `tidelog.spark.streams.stream_config`
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tidelog.errors import DataError
from tidelog.formats.byte_files import io_errors
from tidelog.spark.options import Options
from tidelog.spark.pipeline.fact_sources import Source
from tidelog.spark.streams.stream_config import StreamConfig, stream_config

_TOP = {"program", "output", "max_bad_rows", "spark", "engine", "source", "stream"}
_SOURCE = {"path", "predicate", "format", "header", "columns", "types"}


@dataclass(frozen=True)
class PipelineConfig:
    """What a configuration file says, with the text of the program and paths that stand for themselves."""

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
    _refuse_unknown(path, "the file", found, _TOP)
    folder = Path(path).parent
    program = folder / _wanted(path, found, "program", str)
    with io_errors(str(program)):
        program_text = program.read_text(encoding="utf-8")
    spark = _table(path, found, "spark")
    limit = found.get("max_bad_rows", 1000)
    needs_output = "output" in found or "stream" not in found
    if type(limit) is not int:
        raise DataError(f"{path}: max_bad_rows is a number of rows, or -1 for no limit")
    return PipelineConfig(
        program_text,
        str(folder / (_wanted(path, found, "output", str) if needs_output else "")),
        None if limit < 0 else limit,
        spark.pop("master", None),
        {str(key): str(value) for key, value in spark.items()},
        _options(path, _table(path, found, "engine")),
        tuple(_source(path, folder, number, source) for number, source in enumerate(found.get("source", []), 1)),
        stream_config(path, folder, _table(path, found, "stream")) if "stream" in found else None,
    )


def _options(path: str, table: Mapping[str, Any]) -> Options:
    _refuse_unknown(path, "[engine]", table, {option.name for option in fields(Options)})
    return Options(**table)


def _source(path: str, folder: Path, number: int, table: Mapping[str, Any]) -> Source:
    where = f"[[source]] number {number}"
    _refuse_unknown(path, where, table, _SOURCE)
    location = _wanted(f"{path}, {where}", table, "path", str)
    is_table = table.get("format") == "table"
    columns, types = table.get("columns"), table.get("types")
    return Source(
        location if is_table else str(folder / location),
        table.get("predicate"),
        table.get("format"),
        bool(table.get("header", False)),
        None if columns is None else tuple(columns),
        None if types is None else tuple(types),
    )


def _table(path: str, found: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name, {})
    if not isinstance(table, dict):
        raise DataError(f"{path}: {name} is a table; begin it with [{name}]")
    return dict(table)


def _wanted(path: str, table: Mapping[str, Any], name: str, type_: type) -> Any:
    value = table.get(name)
    if not isinstance(value, type_):
        raise DataError(f'{path}: `{name}` is missing or no text; write {name} = "…"')
    return value


def _refuse_unknown(path: str, where: str, table: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise DataError(f"{path}, {where}: `{unknown[0]}` is not known; there are {', '.join(sorted(known))}")
