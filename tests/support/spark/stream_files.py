"""Pipelines with a stream in a folder, for tests."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.spark.pipeline.pipeline_config import read_config
from tidelog.spark.streams.metrics import View
from tidelog.spark.streams.stream_run import StreamRun


def write_config(
    folder: Path,
    program: str,
    engine: str,
    source: Mapping[str, object] | None = None,
    trigger: str = "available-now",
    more: str = "",
    sink_format: str = "jsonl",
    sources: Sequence[str] = (),
) -> str:
    """Write the configuration of a stream into a folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.dlog").write_text(program, encoding="utf-8")
    given = source or {"format": "jsonl", "path": "in"}
    lines = [f"{name} = {_toml(value)}" for name, value in given.items()]
    text = f"""
program = "rules.dlog"
output = "published"
[stream]
engine = "{engine}"
checkpoint = "state"
quarantine = "refused"
trigger = "{trigger}"
most_per_batch = 1
{more}
[stream.source]
{chr(10).join(lines)}
[stream.sink]
path = "sink"
format = "{sink_format}"
{chr(10).join(f'[[source]]{chr(10)}path = "{path}"' for path in sources)}
"""
    path = folder / "pipeline.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + " }"
    return json.dumps(value)


def drop(folder: Path, number: int, bodies: Sequence[str], suffix: str = "jsonl") -> None:
    """Write a file of records, which appears at once and is the next one by its time."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{number}"
    beside.write_text("".join(body + "\n" for body in bodies), encoding="utf-8")
    os.utime(beside, (1_700_000_000 + number, 1_700_000_000 + number))
    beside.rename(folder / f"{number}.{suffix}")


def run_stream(spark: SparkSession, config: str) -> View:
    return StreamRun(spark, read_config(config)).run()


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait, on the slowest machine as well; what has not come after ten minutes never does."""
    deadline = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


class Running:
    """A stream in a thread, until it is asked to stop."""

    def __init__(self, spark: SparkSession, config: str) -> None:
        self.run = StreamRun(spark, read_config(config))
        self._problems: list[BaseException] = []
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        try:
            self.run.run()
        except BaseException as problem:
            self._problems.append(problem)

    def stop(self) -> None:
        self.run.stop()
        self._thread.join()
        assert not self._problems, self._problems
