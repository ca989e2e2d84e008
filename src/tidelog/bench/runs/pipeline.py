"""The pipeline on Spark, end to end: LUBM from files to a published version, with rows per second by stage.

The sizes show the cost against the data, and one size on one core and on two that against the cores. Beside them is a
plain job of Spark that reads the same files, removes duplicates and writes the rows by predicate. Both are done in a
new session and mostly once more in the same one, which has compiled its code by then. Small hyper-nodes stay
inside one task, as they would in use; one run is by rounds only. The last run reads N-Triples of more bytes than the
memory that Spark is given, driver and executors together, which are one process here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.bench.data.lubm import NAMESPACE, generate, rules
from tidelog.bench.measure import Failed, isolated, tree_cpu, tree_peak
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Report, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.job_counts import JobCounts

Sources: TypeAlias = Mapping[str, str | None]
"""Files, with the predicates of their rows."""

_STAGES = ("read", "materialise", "write")
_PIECES = 8  # A text file is read by one task.


@dataclass(frozen=True)
class Run:
    """One way to go: how much data, on how many cores, with what memory for Spark; or the plain job."""

    universities: int
    cores: int = 2
    in_tasks: bool = True
    megabytes: int = 3072
    as_text: bool = False
    plain: bool = False
    again: bool = False

    @property
    def title(self) -> str:
        how = ", plain copy" if self.plain else "" if self.in_tasks else ", by rounds only"
        return f"LUBM({self.universities}), {self.cores} cores, {self.megabytes} MB{how}"


_RUNS = (
    Run(1, again=True),
    Run(10, plain=True, again=True),
    Run(10, again=True),
    Run(50, plain=True),
    Run(50, again=True),
    Run(50, cores=1, again=True),
    Run(200),
    Run(5, in_tasks=False),
    Run(27, megabytes=512, as_text=True),
)
_QUICK = (Run(1, plain=True), Run(1))


@dataclass(frozen=True)
class Outcome:
    """What a run took: rows, seconds and CPU seconds by stage, and what Spark did; the facts in the end."""

    rows: Mapping[str, int]
    wall: Mapping[str, float]
    cpu: Mapping[str, float]
    jobs: Mapping[str, JobCounts]
    facts: int


@dataclass(frozen=True)
class Outcomes:
    """What the runs in one session took, with the size of the input and the peak of a process, in MB."""

    runs: list[Outcome]
    megabytes: float
    peak: float


def run(options: Options) -> Report:
    report = Report("Spark: LUBM through the pipeline, by stage, size, cores and memory")
    wall, cpu = _table("wall seconds", "in all"), _table("CPU seconds", "in all")
    rates = _table("rows per second of wall time", "facts read, in all")
    jobs = Table("what Spark did, by stage", ["run", *(f"{what}, {stage}" for stage in _STAGES for what in _COUNTED)])
    memory = Table("memory, in MB", ["run", "input", "given to Spark", "peak of a process"])
    report.tables += [wall, cpu, rates, jobs, memory]
    if find_spec("pyspark") is None:
        wall.note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    counts: dict[int, list[int]] = {}
    for chosen in _QUICK if options.quick else _RUNS:
        way = replace(chosen, universities=max(1, int(chosen.universities * options.size)))
        options.progress(way.title)
        found = isolated(copied if way.plain else pipeline, way, options.seed, timeout=options.timeout * 20)
        if isinstance(found, Failed):
            wall.rows.append([way.title, None, None, found, *[None] * len(_STAGES)])
            continue
        for title, taken in zip((way.title, f"{way.title}, again"), found.runs, strict=False):
            begin = [title, taken.rows["read"], taken.rows.get("materialise")]
            seconds = sum(taken.wall.values())
            wall.rows.append([*begin, *map(taken.wall.get, _STAGES), seconds])
            cpu.rows.append([*begin, *map(taken.cpu.get, _STAGES), sum(taken.cpu.values())])
            speeds = [int(taken.rows[stage] / taken.wall[stage]) if stage in taken.wall else None for stage in _STAGES]
            rates.rows.append([*begin, *speeds, int(taken.rows["read"] / seconds)])
            if not way.plain:
                jobs.rows.append([title, *(cell for stage in _STAGES for cell in _cells(taken.jobs[stage]))])
                counts.setdefault(way.universities, []).append(taken.facts)
        memory.rows.append([way.title, int(found.megabytes), way.megabytes, int(found.peak)])
    for universities, facts in counts.items():
        report.checks.append(Check(f"facts of LUBM({universities})", facts[:1] * len(facts), facts))
    return report


_COUNTED = ("jobs", "tasks", "bytes shuffled")


def _cells(counts: JobCounts) -> tuple[int | None, ...]:
    return counts.jobs, counts.tasks, counts.shuffled


def _table(what: str, last: str) -> Table:
    return Table(f"{what} by stage", ["run", "facts", "derived", *_STAGES, last])


def pipeline(way: Run, seed: int) -> Outcomes:
    """The pipeline, in a session of its own."""
    return _in_session(way, seed, published)


def copied(way: Run, seed: int) -> Outcomes:
    """The plain job, in a session of its own."""
    return _in_session(way, seed, plain_copy)


def _in_session(way: Run, seed: int, work: Callable[[SparkSession, Run, Sources, str], Outcome]) -> Outcomes:
    from tidelog.spark import open_session

    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "in")
        write = _write_text if way.as_text else write_tables
        sources = write(given, generate(way.universities, seed))
        memory = {"spark.driver.memory": f"{way.megabytes}m", "spark.sql.shuffle.partitions": "4"}
        spark = open_session(f"local[{way.cores}]", memory)
        found = [work(spark, way, sources, f"{folder}/out-{number}") for number in range(1 + way.again)]
        peak = tree_peak()
        spark.stop()
        size = sum(path.stat().st_size for path in given.iterdir()) / 1e6
    return Outcomes(found, size, peak)


def published(spark: SparkSession, way: Run, sources: Sources, out: str) -> Outcome:
    """From files to a published version."""
    from tidelog.spark import Options as EngineOptions
    from tidelog.spark import Pipeline

    marks: list[float] = []

    def told(line: str) -> None:
        if line.startswith(tuple(f"{stage}:" for stage in _STAGES)):
            marks.append(tree_cpu())

    options = EngineOptions() if way.in_tasks else EngineOptions(local_facts=0, closure_edges=0)
    made = Pipeline(spark, rules(harder=False), out, options, on_progress=told)
    for path, predicate in sources.items():
        made.add(path, predicate=predicate)
    marks.append(tree_cpu())
    report = made.run()
    return Outcome(
        {stage.name: stage.rows for stage in report.stages},
        {stage.name: stage.seconds for stage in report.stages},
        {name: end - begin for name, begin, end in zip(_STAGES, marks, marks[1:], strict=False)},
        {stage.name: stage.spark for stage in report.stages},
        sum(report.facts.values()),
    )


def plain_copy(spark: SparkSession, way: Run, sources: Sources, out: str) -> Outcome:
    """Read, remove duplicates, and write the rows by predicate: what anybody would do with Spark alone."""
    from pyspark.sql import functions as F

    from tidelog.spark.data.wide_frames import union_all

    started, used = time.perf_counter(), tree_cpu()
    frames = []
    for path, predicate in sources.items():
        frame = spark.read.parquet(path)
        missing = [F.lit(None).cast("string")] * (2 - len(frame.columns))
        cells = [*map(F.col, frame.columns), *missing]
        named = (cell.alias(f"c{number}") for number, cell in enumerate(cells))
        frames.append(frame.select(F.lit(predicate).alias("predicate"), *named))
    union_all(frames).distinct().write.partitionBy("predicate").parquet(out)
    taken = {"in all": time.perf_counter() - started}
    rows = sum(pq.read_metadata(path).num_rows for path in sources)
    return Outcome({"read": rows}, taken, {"in all": tree_cpu() - used}, {}, rows)


def write_tables(folder: Path, tables: dict[str, pa.Table]) -> dict[str, str | None]:
    """A Parquet file for each predicate; the sources with their predicates."""
    folder.mkdir()
    sources: dict[str, str | None] = {}
    for number, (name, rows) in enumerate(tables.items()):
        path = folder / f"{number}.parquet"
        pq.write_table(rows, path)
        sources[str(path)] = name
    return sources


def _write_text(folder: Path, tables: dict[str, pa.Table]) -> dict[str, str | None]:
    """N-Triples, in several files."""
    folder.mkdir()
    paths = [folder / f"{number}.nt" for number in range(_PIECES)]
    for number, path in enumerate(paths):
        with path.open("w", encoding="utf-8") as file:
            for name, rows in tables.items():
                share = range(number, rows.num_rows, _PIECES)
                line = _triple(name.removeprefix("ub:"))
                cells = (column.take(pa.array(share, pa.int64())).to_pylist() for column in rows.columns)
                file.writelines(line(*row) for row in zip(*cells, strict=True))
    return dict.fromkeys(map(str, paths))


def _triple(name: str) -> Callable[..., str]:
    about = f"<{NAMESPACE}{name}>"

    def line(subject: str, target: str | None = None) -> str:
        if target is None:
            return f"<{subject}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> {about} .\n"
        shown = f"<{target}>" if target.startswith("http") else f'"{target}"'
        return f"<{subject}> {about} {shown} .\n"

    return line
