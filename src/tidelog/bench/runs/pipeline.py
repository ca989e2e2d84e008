"""The pipeline on Spark, end to end: LUBM from files to a published version, with rows per second by stage.

The sizes show the cost against the data, and one size on one core and on two that against the cores. Small hyper-nodes
stay inside one task, as they would in use; one run is by rounds only. The last run reads N-Triples of more bytes than
the memory that Spark is given, driver and executors together, which are one process here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.bench.data.lubm import NAMESPACE, generate, rules
from tidelog.bench.measure import Failed, isolated, tree_cpu, tree_peak
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Report, Table

_STAGES = ("read", "encode", "materialise", "write")
_PIECES = 8  # A text file is read by one task.


@dataclass(frozen=True)
class Run:
    """One way to go: how much data, on how many cores, with what memory for Spark."""

    universities: int
    cores: int = 2
    in_tasks: bool = True
    megabytes: int = 3072
    as_text: bool = False

    @property
    def title(self) -> str:
        how = "" if self.in_tasks else ", by rounds only"
        return f"LUBM({self.universities}), {self.cores} cores, {self.megabytes} MB{how}"


_RUNS = (
    Run(5),
    Run(10),
    Run(20),
    Run(50),
    Run(10, cores=1),
    Run(5, in_tasks=False),
    Run(27, megabytes=512, as_text=True),
)
_QUICK = (Run(1),)


@dataclass(frozen=True)
class Outcome:
    """What a run took: bytes on disk before it, rows, seconds and CPU seconds by stage, the peak of a process."""

    megabytes: float
    rows: Mapping[str, int]
    wall: Mapping[str, float]
    cpu: Mapping[str, float]
    peak: float
    facts: int


def run(options: Options) -> Report:
    report = Report("Spark: LUBM through the pipeline, by stage, size, cores and memory")
    wall, cpu = _table("wall seconds", "in all"), _table("CPU seconds", "in all")
    rates = _table("rows per second of wall time", "facts read, in all")
    memory = Table("memory, in MB", ["run", "input", "given to Spark", "peak of a process"])
    report.tables += [wall, cpu, rates, memory]
    if find_spec("pyspark") is None:
        wall.note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    counts: dict[int, list[int]] = {}
    for chosen in _QUICK if options.quick else _RUNS:
        way = replace(chosen, universities=max(1, int(chosen.universities * options.size)))
        options.progress(way.title)
        found = isolated(pipeline, way, options.seed, timeout=options.timeout * 20)
        if isinstance(found, Failed):
            wall.rows.append([way.title, None, None, found, *[None] * len(_STAGES)])
            continue
        begin = [way.title, found.rows["read"], found.rows["materialise"]]
        wall.rows.append([*begin, *found.wall.values(), sum(found.wall.values())])
        cpu.rows.append([*begin, *found.cpu.values(), sum(found.cpu.values())])
        speeds = [int(found.rows[stage] / found.wall[stage]) for stage in _STAGES]
        rates.rows.append([*begin, *speeds, int(found.rows["read"] / sum(found.wall.values()))])
        memory.rows.append([way.title, int(found.megabytes), way.megabytes, int(found.peak)])
        counts.setdefault(way.universities, []).append(found.facts)
    for universities, facts in counts.items():
        report.checks.append(Check(f"facts of LUBM({universities})", facts[:1] * len(facts), facts))
    return report


def _table(what: str, last: str) -> Table:
    return Table(f"{what} by stage", ["run", "facts", "derived", *_STAGES, last])


def pipeline(way: Run, seed: int) -> Outcome:
    """One run, in a session of its own."""
    from tidelog.spark import Options as EngineOptions
    from tidelog.spark import Pipeline, open_session

    marks: list[float] = []

    def told(line: str) -> None:
        if line.startswith(tuple(f"{stage}:" for stage in _STAGES)):
            marks.append(tree_cpu())

    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "in")
        write = _write_text if way.as_text else _write_tables
        sources = write(given, generate(way.universities, seed))
        memory = {"spark.driver.memory": f"{way.megabytes}m", "spark.sql.shuffle.partitions": "4"}
        spark = open_session(f"local[{way.cores}]", memory)
        options = EngineOptions() if way.in_tasks else EngineOptions(local_facts=0)
        made = Pipeline(spark, rules(harder=False), str(Path(folder, "out")), options, on_progress=told)
        for path, predicate in sources.items():
            made.add(path, predicate=predicate)
        marks.append(tree_cpu())
        report = made.run()
        peak = tree_peak()
        spark.stop()
        size = sum(path.stat().st_size for path in given.iterdir()) / 1e6
    return Outcome(
        size,
        {stage.name: stage.rows for stage in report.stages},
        {stage.name: stage.seconds for stage in report.stages},
        {name: end - begin for name, begin, end in zip(_STAGES, marks, marks[1:], strict=False)},
        peak,
        sum(report.facts.values()),
    )


def _write_tables(folder: Path, tables: dict[str, pa.Table]) -> dict[str, str | None]:
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
