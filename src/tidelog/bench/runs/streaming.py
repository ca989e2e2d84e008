"""Streams through Structured Streaming: small updates a second in memory; keys, rows a second and state on Spark.

Files of records lie ready, a batch each. The first batches pay for what happens once (Java, plans, Python workers,
kernels) and are not counted. Wall time is what a user waits for; CPU time is that of the driver, Java and all workers.

A stream on one core keeps to one processor: with `local[1]` alone Java works on one and Python on another. What a
second core can give at most is measured as well, in the same sessions, by a job that does nothing but count in Python:
on virtual machines two cores are often the two threads of one, which together do little more than one.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidelog.bench.measure import Failed, isolated, tree_cpu
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Report, Table

_MEMORY_RULES = """
hot(X) :- reading(X, T), T > 30.
near(X, Y) :- link(X, Y).
near(X, Y) :- link(Y, X).
alarm(X) :- hot(X), near(X, Y), hot(Y).
"""
_KEYED_RULES = """
middle(F, median(T)) :- reading(F, X, T).
anomaly(F, X) :- reading(F, X, T), middle(F, M), D = abs(T - M), D > 5.
"""
_WARM_UP = 6  # Java compiles what it runs often, which takes as many batches
_BATCHES = 8
_SENSORS = 2000
_TURBINES = 10
_COUNTED = 5_000_000  # by each task
_PLAIN_JOBS = 3


def run(options: Options) -> Report:
    report = Report("Streams through Structured Streaming")
    columns = ["engine", "cores", "keys", "rows a batch", "rows", "wall s", "rows/s", "CPU s", "rows/CPU s", "state MB"]
    table = Table("files that lie ready, a batch each; after the first batches", columns)
    report.tables.append(table)
    if find_spec("pyspark") is None:
        table.note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    keys = int(10_000 * options.scale(0.02))
    rows = int(5_000 * options.scale(0.2))
    speeds: dict[int, Streamed] = {}
    ways = [("memory", 2, rows), ("keyed", 2, keys), ("keyed", 1, keys)]
    for engine, cores, size in ways[:2] if options.quick else ways:
        options.progress(f"{engine} on {cores} cores")
        found = isolated(stream, engine, cores, size, options.seed, timeout=options.timeout * 10)
        count = size if engine == "keyed" else None
        if isinstance(found, Failed):
            table.rows.append([engine, cores, count, found, *[None] * (len(columns) - 4)])
            continue
        table.rows.append([engine, cores, count, *found.cells])
        if engine == "keyed":
            speeds[cores] = found
    if len(speeds) == 2:
        report.tables.append(_gains(speeds))
    return report


def _gains(speeds: Mapping[int, Streamed]) -> Table:
    """What the second core brings, to the stream and to work that has nothing in common."""
    table = Table("one core against two, per second", ["what", "one core", "two cores", "gain"])
    one, two = speeds[1], speeds[2]
    ways = {"rows of keyed streams": (one.rate, two.rate), "plain jobs in Python": (one.plain, two.plain)}
    for what, (alone, both) in ways.items():
        table.rows.append([what, alone, both, both / alone])
    return table


@dataclass(frozen=True)
class Streamed:
    """What a stream took after its first batches; `plain` is how many jobs of mere counting a second would take."""

    batch: int
    rows: int
    wall: float
    cpu: float
    state: float | None
    plain: float

    @property
    def rate(self) -> float:
        return self.rows / self.wall

    @property
    def cells(self) -> list[Cell]:
        return [self.batch, self.rows, self.wall, self.rate, self.cpu, self.rows / self.cpu, self.state]


def stream(engine: str, cores: int, size: int, seed: int) -> Streamed:
    """One stream, in a session of its own."""
    _keep_to(cores)
    from tidelog.spark.pipeline.pipeline_config import read_config
    from tidelog.spark.session import open_session
    from tidelog.spark.streams.stream_run import StreamRun

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        batches = memory_batches if engine == "memory" else keyed_batches
        sizes = [_write(place / "in", number, batch) for number, batch in enumerate(batches(size, seed))]
        config = read_config(_config(place, engine))
        spark = open_session(f"local[{cores}]", {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"})
        marks: list[tuple[float, float]] = []
        run = StreamRun(spark, config, lambda _: marks.append((time.perf_counter(), tree_cpu())))
        view = run.run()
        plain = _plain_jobs(spark)
        spark.stop()
    (begin, cpu_begin), (end, cpu_end) = marks[_WARM_UP - 1], marks[-1]
    rows, wall, cpu = sum(sizes[_WARM_UP:]), end - begin, cpu_end - cpu_begin
    state = view.state.get("bytes", 0) / 1e6 if view.state else None
    return Streamed(sizes[-1], rows, wall, cpu, state, plain)


def _keep_to(cores: int) -> None:
    """Let this process and those that it starts have so many processors, where the system can see to it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def _plain_jobs(spark: Any) -> float:
    """How many jobs a second there would be that count in Python, four tasks each; the first one is not measured."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            total = 0
            for number in range(_COUNTED):
                total += number
            yield batch

    job = spark.range(0, 4, 1, 4).mapInArrow(count, "id bigint")
    job.count()
    started = time.perf_counter()
    for _ in range(_PLAIN_JOBS):
        job.count()
    return _PLAIN_JOBS / (time.perf_counter() - started)


def memory_batches(size: int, seed: int) -> Iterator[list[str]]:
    """Small updates: a reading that replaces another one, or a link."""
    dice = random.Random(seed)
    shown = dict.fromkeys(range(_SENSORS), 20)
    yield [_record("add", "reading", sensor, value) for sensor, value in shown.items()]
    for _ in range(_WARM_UP - 1 + _BATCHES):
        batch = []
        for _ in range(size):
            sensor, value = dice.randrange(_SENSORS), dice.randrange(15, 35)
            old, shown[sensor] = shown[sensor], value
            facts = {"delete": {"reading": [[sensor, old]]}, "add": {"reading": [[sensor, value]]}}
            link = _record("add", "link", sensor, dice.randrange(_SENSORS))
            batch.append(link if dice.random() < 0.2 else json.dumps(facts))
        yield batch


def keyed_batches(keys: int, seed: int) -> Iterator[list[str]]:
    """Readings of every key, then two of each key that replace others."""
    dice = random.Random(seed)
    shown = {(key, turbine): round(dice.gauss(12, 1), 1) for key in range(keys) for turbine in range(_TURBINES)}
    yield [_record("add", "reading", f"farm {key}", turbine, value) for (key, turbine), value in shown.items()]
    for _ in range(_WARM_UP - 1 + _BATCHES):
        batch = []
        for key in range(keys):
            turbine, value = dice.randrange(_TURBINES), round(dice.gauss(12, 3), 1)
            batch.append(_record("delete", "reading", f"farm {key}", turbine, shown[key, turbine]))
            batch.append(_record("add", "reading", f"farm {key}", turbine, value))
            shown[key, turbine] = value
        yield batch


def _record(op: str, predicate: str, *arguments: Any) -> str:
    return json.dumps({"op": op, "predicate": predicate, "arguments": arguments})


def _write(folder: Path, number: int, batch: list[str]) -> int:
    folder.mkdir(exist_ok=True)
    (folder / f"{number:03}.jsonl").write_text("\n".join(batch) + "\n", encoding="utf-8")
    return len(batch)


def _config(folder: Path, engine: str) -> str:
    (folder / "rules.dlog").write_text(_MEMORY_RULES if engine == "memory" else _KEYED_RULES, encoding="utf-8")
    path = folder / "stream.toml"
    path.write_text(
        f"""program = "rules.dlog"
[stream]
engine = "{engine}"
checkpoint = "state"
quarantine = "refused"
trigger = "available-now"
most_per_batch = 1
[stream.source]
format = "jsonl"
path = "in"
[stream.sink]
path = "changes"
""",
        encoding="utf-8",
    )
    return str(path)
