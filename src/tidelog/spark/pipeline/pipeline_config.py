"""The configuration of a pipeline, a TOML file, read strictly: what is misspelt or makes no sense is refused.

`docs/reference/spark.md` shows all of it, and `docs/reference/spark-streams.md` the section of streams.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tidelog.api.programs import read_program
from tidelog.errors import DataError
from tidelog.formats.files.byte_files import decode, io_errors
from tidelog.language import DLOG, convert, parse_program, syntax_of_file
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.options import Options
from tidelog.spark.pipeline.table_sinks import MODES, TableSink
from tidelog.spark.places import local_path, resolved

ENGINES = ("memory", "spark", "keyed")
FILE_FORMATS = ("jsonl", "csv", "parquet")
SINK_FORMATS = ("jsonl", "parquet")
AVAILABLE_NOW = "available-now"
SHARDS = 32

# Options of a source that name files, relative to the folder of the configuration.
FILE_OPTIONS = {"mqtt": ("cafile", "certfile", "keyfile")}

_TOP = {"program", "output", "work", "max_bad_rows", "spark", "engine", "source", "sink", "stream"}
_SOURCE = {"path", "table", "predicate", "format", "header", "columns", "types", "options"}
_SINK = {"predicate", "table", "path", "format", "mode", "columns", "partition_by", "options"}
_STREAM = {
    *("engine", "checkpoint", "quarantine", "trigger", "most_per_batch", "key", "keys", "shards", "allow_rules"),
    *("source", "sink"),
}
_STREAM_SOURCE = {"format", "path", "options", "schema", "value", "order"}
_BOOLEANS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


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
    """The section of a stream, with complete paths."""

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
    sinks: tuple[TableSink, ...] = ()
    work: str | None = None


class _Table:
    """Looks values up in a table, and says where a value is missing or wrong."""

    def __init__(self, where: str, table: Mapping[str, Any], known: set[str]) -> None:
        self._where = where
        self._table = table
        unknown = sorted(set(table) - known)
        if unknown:
            raise DataError(f"{where}: `{unknown[0]}` is not known; there are {', '.join(sorted(known))}")

    def text(self, name: str) -> str:
        value = self._table.get(name)
        if not isinstance(value, str):
            raise DataError(f'{self._where}: `{name}` is missing or no text; write {name} = "…"')
        return value

    def text_or_none(self, name: str) -> str | None:
        return self.text(name) if name in self._table else None

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._table.get(name, default)
        if value not in choices:
            raise DataError(f"{self._where}: `{name}` is one of {', '.join(choices)}, not {value!r}")
        return str(value)

    def number(self, name: str) -> int | None:
        value = self._table.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise DataError(f"{self._where}: `{name}` is a number above 0, not {value!r}")
        return value

    def table(self, name: str) -> dict[str, Any]:
        value = self._table.get(name, {})
        if not isinstance(value, dict):
            raise DataError(f"{self._where}: `{name}` is a table; begin it with [{name}]")
        return dict(value)


def boolean(where: str, name: str, value: object) -> bool:
    """An option that is on or off. Anything else is refused: taken for off, it might switch off a protection."""
    found = value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())
    if found is None:
        raise DataError(f"{where}: `{name}` is true or false (or yes, no, on, off, 1, 0), not {value!r:.60}")
    return found


def read_config(path: str) -> PipelineConfig:
    """Read and check a configuration file.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.spark import read_config
        >>> _ = Path(folder, "empty.dlog").write_text("p(a).")
        >>> _ = Path(folder, "pipeline.toml").write_text('program = "empty.dlog"\\noutput = "out"')
        >>> read_config(f"{folder}/pipeline.toml").max_bad_rows
        1000
    """
    with io_errors(path):
        data = Path(path).read_bytes()
    try:
        found = tomllib.loads(decode(data, path, 1))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    read = _Table(path, found, _TOP)
    folder = Path(path).parent
    program_text = _program_text(str(folder / read.text("program")))
    limit = found.get("max_bad_rows", 1000)
    if type(limit) is not int:
        raise DataError(f"{path}: max_bad_rows is a number of rows, or -1 for no limit")
    needs_output = "output" in found or "stream" not in found
    spark, options = read.table("spark"), read.table("engine")
    _Table(f"{path}, [engine]", options, {option.name for option in fields(Options)})
    return PipelineConfig(
        program_text,
        resolved(folder, read.text("output") if needs_output else ""),
        None if limit < 0 else limit,
        spark.pop("master", None),
        {str(key): str(value) for key, value in spark.items()},
        Options(**options),
        tuple(_source(path, folder, number, source) for number, source in enumerate(found.get("source", []), 1)),
        _stream(path, folder, read.table("stream")) if "stream" in found else None,
        tuple(_sink(path, folder, number, sink) for number, sink in enumerate(found.get("sink", []), 1)),
        None if "work" not in found else resolved(folder, read.text("work")),
    )


def _program_text(path: str) -> str:
    """A program in the language, whatever syntax its file is in."""
    text = read_program(path)
    syntax = syntax_of_file(path)
    return text if syntax == DLOG else convert(parse_program(text, path, syntax=syntax), DLOG)


def _source(path: str, folder: Path, number: int, table: Mapping[str, Any]) -> Source:
    where = f"{path}, [[source]] number {number}"
    read = _Table(where, table, _SOURCE)
    columns, types, header, format = (table.get(name) for name in ("columns", "types", "header", "format"))
    if "table" in table:
        if "path" in table:
            raise DataError(f"{where}: give either a `path` or a `table` of the catalogue")
        location, format = read.text("table"), "table"
    else:
        location = read.text("path") if format == "table" else resolved(folder, read.text("path"))
    return Source(
        location,
        table.get("predicate"),
        format,
        None if header is None else boolean(where, "header", header),
        None if columns is None else tuple(columns),
        None if types is None else tuple(types),
        options={str(name): str(value) for name, value in read.table("options").items()},
    )


def _sink(path: str, folder: Path, number: int, table: Mapping[str, Any]) -> TableSink:
    where = f"{path}, [[sink]] number {number}"
    read = _Table(where, table, _SINK)
    location, columns = read.text_or_none("path"), table.get("columns")
    return TableSink(
        read.text("predicate"),
        read.text_or_none("table"),
        None if location is None else resolved(folder, location),
        read.text_or_none("format"),
        read.one_of("mode", MODES, "overwrite"),
        None if columns is None else tuple(columns),
        tuple(table.get("partition_by", ())),
        {str(name): str(value) for name, value in read.table("options").items()},
    )


def _stream(path: str, folder: Path, table: Mapping[str, Any]) -> StreamConfig:
    where = f"{path}, [stream]"
    read = _Table(where, table, _STREAM)
    sink = _Table(f"{path}, [stream.sink]", read.table("sink"), {"format", "path"})
    keys = read.table("keys")
    if not all(type(place) is int and place >= 0 for place in keys.values()):
        raise DataError(f"{where}: keys are numbers of arguments, from 1 on, or 0 for none")
    return StreamConfig(
        engine=read.one_of("engine", ENGINES, "memory"),
        checkpoint=folder / local_path(read.text("checkpoint")),
        quarantine=folder / local_path(read.text("quarantine")),
        trigger=read.text_or_none("trigger"),
        most_per_batch=read.number("most_per_batch"),
        key=read.number("key") or 1,
        keys=keys,
        shards=read.number("shards") or SHARDS,
        source=(source := _stream_source(f"{path}, [stream.source]", folder, read.table("source"))),
        allow_rules=boolean(where, "allow_rules", table.get("allow_rules", source.is_file)),
        sink=folder / local_path(sink.text("path")),
        sink_format=sink.one_of("format", SINK_FORMATS, "jsonl"),
    )


def _stream_source(where: str, folder: Path, table: Mapping[str, Any]) -> StreamSource:
    read = _Table(where, table, _STREAM_SOURCE)
    format = read.text("format")
    location = read.text_or_none("path")
    if format in FILE_FORMATS and location is None:
        raise DataError(f'{where}: files lie somewhere; write path = "…"')
    order = table.get("order", [])
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise DataError(f'{where}: order is a list of columns, such as ["partition", "offset"]')

    def option(name: str, value: Any) -> str:
        if name.lower() in FILE_OPTIONS.get(format, ()):
            return str(folder / str(value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    return StreamSource(
        format,
        None if location is None else resolved(folder, location),
        {name: option(name, value) for name, value in read.table("options").items()},
        read.text_or_none("schema"),
        read.text_or_none("value") or "value",
        tuple(order),
    )
