"""The pipeline on Spark, end to end: LUBM from Parquet to a published version, with rows per second by stage.

The sizes show the cost against the data, the last rows that against the cores. Small hyper-nodes stay inside one task,
as they would in use; one run is by rounds only.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tidelog.bench.lubm import generate, rules
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Report, Table

_RUNS = ((1, 2, True), (5, 2, True), (10, 2, True), (50, 2, True), (5, 1, True), (5, 2, False))
_STAGES = ("read", "encode", "materialise", "write")


def run(options: Options) -> Report:
    report = Report("Spark: the pipeline over LUBM, wall seconds and rows per second by stage")
    columns = ["universities", "cores", "in tasks", "facts", "derived", *(f"{stage} s" for stage in _STAGES)]
    table = Table("from Parquet to a version", [*columns, "rows/s read", "rows/s in all"])
    report.tables.append(table)
    if find_spec("pyspark") is None:
        table.note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    for universities, cores, local in _RUNS[:1] if options.quick else _RUNS:
        count = max(1, int(universities * options.size))
        options.progress(f"LUBM({count}) on {cores} cores")
        found = isolated(pipeline, count, options.seed, cores, local, timeout=options.timeout * 20)
        table.rows.append([count, cores, "yes" if local else "no", *_cells(found)])
    return report


def _cells(stages: dict[str, tuple[int, float]] | Failed) -> list[Any]:
    if isinstance(stages, Failed):
        return [stages, *[None] * 7]
    seconds = [stages[name][1] for name in _STAGES]
    rows = stages["read"][0]
    return [rows, stages["materialise"][0], *seconds, int(rows / seconds[0]), int(rows / sum(seconds))]


def pipeline(universities: int, seed: int, cores: int, local: bool) -> dict[str, tuple[int, float]]:
    """Rows and seconds of each stage of one run."""
    from tidelog.spark import Options as EngineOptions
    from tidelog.spark import Pipeline, open_session

    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(f"local[{cores}]", {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "4"})
        options = EngineOptions() if local else EngineOptions(local_facts=0)
        made = Pipeline(spark, rules(harder=False), str(Path(folder, "out")), options)
        for number, (name, rows) in enumerate(generate(universities, seed).items()):
            path = Path(folder, f"{number}.parquet")
            pq.write_table(rows, path)
            made.add(str(path), predicate=name)
        report = made.run()
        spark.stop()
        return {stage.name: (stage.rows, stage.seconds) for stage in report.stages}
