"""The data pipeline: from sources to records, encoded facts, a materialisation, and a published version.

Each stage ends in files, so it is computed once and nothing large comes to the driver. Rows that do not fit go to a
data set of their own, with file, row and reason; above a limit they stop the run, and what is published stays.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import DataError
from tidelog.facts.arguments import check_function
from tidelog.formats.folder import file_of_predicate
from tidelog.language import display_predicate, parse_program, resolve_predicate
from tidelog.spark.data.fact_parts import Shapes, shapes_of
from tidelog.spark.data.fact_records import RECORD_TYPE, records_of_atoms
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.wide_frames import union_all
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.spark.options import OnProgress, Options
from tidelog.spark.pipeline.pipeline_config import PipelineConfig, read_config
from tidelog.spark.pipeline.publishing import Versions, write_decoded
from tidelog.spark.session import open_session

QUARANTINE = "quarantine"
REPORT = "report.json"


@dataclass
class Stage:
    """What one stage took in or gave out, and how long it took."""

    name: str
    rows: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {self.rows:,} rows, {self.seconds:.1f} s"


@dataclass
class Report:
    """What a run did.

    Examples:
        >>> report.version, report.facts["path"], report.quarantined
        (1, 2, {})
    """

    version: int
    stages: list[Stage] = field(default_factory=list)
    quarantined: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    terms: int = 0
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failed_rule_instances: int = 0

    def lines(self) -> list[str]:
        """The report for people."""
        found = [f"{stage}, {stage.rows / (stage.seconds or math.inf):,.0f} rows/s" for stage in self.stages]
        found += [f"quarantined: {count:,} rows: {reason}" for reason, count in self.quarantined.items()]
        if self.failed_rule_instances:
            found.append(f"{self.failed_rule_instances:,} rule instances had no value and were left out")
        return [*found, f"version {self.version}: {sum(self.facts.values()):,} facts, {self.terms:,} terms"]


class Pipeline:
    """A program over sources on Spark, published as versions under a folder.

    Examples:
        >>> from tidelog.spark import Pipeline
        >>> pipeline = Pipeline(spark, "path(X, Y) :- edge(X, Y).", f"{folder}/published")
        >>> pipeline.add(spark.createDataFrame([("a", "b"), ("b", "c")], ["from", "to"]), predicate="edge")
        >>> report = pipeline.run()
        >>> pipeline.read("path").count()
        2
    """

    def __init__(
        self,
        spark: SparkSession,
        program: str,
        output: str,
        options: Options | None = None,
        max_bad_rows: int | None = 1000,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self._spark = spark
        self._program = parse_program(program)
        self._versions = Versions(output)
        self._options = options
        self._max_bad_rows = max_bad_rows
        self._on_progress = on_progress
        self._sources: list[Source] = []
        self._functions: dict[str, Callable[..., Any]] = {}

    def add(
        self,
        source: str | DataFrame,
        predicate: str | None = None,
        format: str | None = None,
        header: bool | None = None,
        columns: Sequence[str | int] | None = None,
        types: Sequence[str] | None = None,
    ) -> None:
        """Take facts from files (a pattern), a table (`format="table"`) or a DataFrame."""
        path, frame = (source, None) if isinstance(source, str) else ("", source)
        chosen = tuple(columns) if columns is not None else None
        self._sources.append(Source(path, predicate, format, header, chosen, tuple(types) if types else None, frame))

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules call a Python function by name."""
        check_function(name, function)
        self._functions[name] = function

    def read(self, predicate: str) -> DataFrame:
        """The facts of a predicate in the current version."""
        return self._spark.read.parquet(self._versions.path(self._display(predicate)))

    def _display(self, predicate: str) -> str:
        prefixes = dict(self._program.prefixes)
        return display_predicate(resolve_predicate(predicate, prefixes), prefixes)

    def run(self) -> Report:
        """Read, encode, materialise and publish; if anything fails, the version before stays current."""
        number, folder = self._versions.begin()
        report = Report(number)
        work = folder / ".work"
        dictionary = self._versions.dictionary(self._spark)
        engine = SparkEngine(
            self._spark, self._program, str(work), dictionary, self._functions, self._options, self._on_progress
        )
        records, shapes = self._read(engine, str(work / "records"), report)
        self._quarantine(records, str(folder / QUARANTINE), report)
        with self._stage(report, "encode") as stage:
            stage.rows = engine.load(records, shapes)
        with self._stage(report, "materialise") as stage:
            before = engine.relations.total
            statistics = engine.materialise()
            stage.rows = engine.relations.total - before
        report.rounds = [asdict(done) for done in statistics.rounds]
        report.failed_rule_instances = statistics.total_failures
        predicates = self._write(engine, folder, report)
        report.terms = engine.dictionary.size
        (folder / REPORT).write_text(json.dumps(asdict(report), indent=1, ensure_ascii=False), encoding="utf-8")
        self._versions.publish(number, folder, predicates, engine.dictionary)
        shutil.rmtree(work, ignore_errors=True)
        return report

    @contextmanager
    def _stage(self, report: Report, name: str) -> Iterator[Stage]:
        """Time a stage, whose rows are filled in inside the block."""
        stage = Stage(name, 0, 0.0)
        started = time.monotonic()
        yield stage
        stage.seconds = time.monotonic() - started
        report.stages.append(stage)
        self._on_progress(str(stage))

    def _read(self, engine: SparkEngine, path: str, report: Report) -> tuple[DataFrame, Shapes]:
        """All records, in one set of files, with a reason for each one of a wrong length; the shapes of the others."""
        with self._stage(report, "read") as stage:
            frames = [source.records(self._spark) for source in self._sources]
            frames.append(records_of_atoms(self._spark, self._program.facts, "the program"))
            union_all(frames).write.parquet(path)
            records = self._spark.read.schema(RECORD_TYPE).parquet(path)
            records, shapes = engine.resolved(records, shapes_of(records))
            stage.rows = sum(count for counts in shapes.values() for count in counts.values())
        reason = F.col("reason")
        fitting: Shapes = {}
        for name, counts in shapes.items():
            arity = engine.expected_arity(name, counts)
            if arity in counts:
                fitting[name] = {arity: counts[arity]}
            for length in counts.keys() - {arity}:
                wrong = (F.col("predicate") == name) & (F.size("arguments") == length)
                told = f"{length} values, but `{self._display(name)}` has {arity} arguments"
                reason = F.when(wrong, F.lit(told)).otherwise(reason)
        return records.withColumn("reason", reason), fitting

    def _quarantine(self, records: DataFrame, path: str, report: Report) -> None:
        """Write the records that do not fit to a data set of their own; too many of them stop the run."""
        bad = records.where("reason IS NOT NULL").select("source", "row", "predicate", "reason")
        reasons = bad.groupBy("reason").count().orderBy("reason").limit(1000)
        counts = {row["reason"]: row["count"] for row in reasons.collect()}
        total = bad.count() if len(counts) == 1000 else sum(counts.values())
        report.quarantined = counts
        if not total:
            return
        bad.write.mode("overwrite").parquet(path)
        self._on_progress(f"{total:,} rows are in quarantine: {path}")
        if self._max_bad_rows is not None and total > self._max_bad_rows:
            reason, count = max(counts.items(), key=lambda item: item[1])
            raise DataError(
                f"{total:,} rows do not fit, more than the limit of {self._max_bad_rows:,}; the most frequent reason "
                f"({count:,} rows): {reason}. See them all in {path}"
            )

    def _write(self, engine: SparkEngine, folder: Path, report: Report) -> dict[str, dict[str, Any]]:
        """Write a Parquet data set for each predicate; returns their entries in the manifest."""
        relations = engine.relations
        named = sorted((self._display(predicate), predicate) for predicate in relations)
        files = {predicate: file_of_predicate(name, "parquet") for name, predicate in named}
        with self._stage(report, "write") as stage:
            write_decoded(engine, {predicate: folder / path for predicate, path in files.items()})
            stage.rows = relations.total
        report.facts = {name: relations.count(predicate) for name, predicate in named}
        return {
            name: {"path": files[one], "facts": relations.count(one), "arity": relations[one].arity}
            for name, one in named
        }


def run_pipeline(config_path: str, master: str | None = None) -> int:
    """`tidelog pipeline run`: run the pipeline of a configuration file, and print the report."""
    config = read_config(config_path)
    pipeline = configured_pipeline(config, open_session(master or config.master, config.settings))
    for line in pipeline.run().lines():
        print(line)
    return 0


def configured_pipeline(config: PipelineConfig, spark: SparkSession) -> Pipeline:
    """The pipeline that a configuration describes."""
    on_progress = partial(print, file=sys.stderr, flush=True)
    pipeline = Pipeline(spark, config.program, config.output, config.options, config.max_bad_rows, on_progress)
    for source in config.sources:
        pipeline.add(source.path, source.predicate, source.format, source.header, source.columns, source.types)
    return pipeline
