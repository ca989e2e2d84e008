"""The data pipeline: from sources to encoded facts, a materialisation, and a published version.

Each stage ends in files, so it is computed once and nothing large comes to the driver. Rows that do not fit go to a
data set of their own, with file, row and reason; above a limit they stop the run, and what is published stays.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import DataError
from tidelog.facts.arguments import check_function
from tidelog.formats.files.folder import file_of_predicate
from tidelog.language import display_predicate, parse_program, resolve_predicate
from tidelog.spark.data.decoded_files import Target, write_decoded
from tidelog.spark.data.encoded_blocks import MOST_REASONS
from tidelog.spark.data.fact_records import batches_of_atoms
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.taking_in import TakenIn
from tidelog.spark.job_counts import JobCounts, counted_jobs
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.spark.options import OnProgress, Options
from tidelog.spark.pipeline.pipeline_config import PipelineConfig, read_config
from tidelog.spark.pipeline.publishing import Versions
from tidelog.spark.pipeline.remote_versions import RemoteVersions
from tidelog.spark.pipeline.table_sinks import TableSink
from tidelog.spark.places import absolute_path, is_address
from tidelog.spark.plan.refusals import refuse_lattices
from tidelog.spark.session import open_session

QUARANTINE = "quarantine"
REPORT = "report.json"


@dataclass
class Stage:
    """What one stage took in or gave out, how long it took, and what Spark did for it."""

    name: str
    rows: int = 0
    seconds: float = 0.0
    spark: JobCounts = field(default_factory=JobCounts)

    def __str__(self) -> str:
        return f"{self.name}: {self.rows:,} rows, {self.seconds:.1f} s, {self.spark}"


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
        work: str | None = None,
    ) -> None:
        self._spark = spark
        self._program = parse_program(program)
        self._output = output
        self._work = work
        self._options = options
        self._max_bad_rows = max_bad_rows
        self._on_progress = on_progress
        self._sources: list[Source] = []
        self._sinks: list[TableSink] = []
        self._functions: dict[str, Callable[..., Any]] = {}

    def add(
        self,
        source: str | DataFrame,
        predicate: str | None = None,
        format: str | None = None,
        header: bool | None = None,
        columns: Sequence[str | int] | None = None,
        types: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Take facts from files (a pattern), a table (`format="table"`), a DataFrame, or any format of the session.

        `options` are those of Spark's reader, for tables and formats that are its own."""
        path, frame = (source, None) if isinstance(source, str) else ("", source)
        chosen = tuple(columns) if columns is not None else None
        typed = tuple(types) if types else None
        self._sources.append(Source(path, predicate, format, header, chosen, typed, frame, options or {}))

    def sink(
        self,
        predicate: str,
        table: str | None = None,
        path: str | None = None,
        format: str | None = None,
        mode: str = "overwrite",
        columns: Sequence[str] | None = None,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Also write the facts of a predicate to a table of the catalogue, or to a path, when a run has published them.

        `format` is any that the session has, such as `delta` or `iceberg`."""
        chosen = tuple(columns) if columns is not None else None
        self._sinks.append(TableSink(predicate, table, path, format, mode, chosen, tuple(partition_by), options or {}))

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules call a Python function by name."""
        check_function(name, function)
        refuse_lattices({name: function})
        self._functions[name] = function

    def read(self, predicate: str) -> DataFrame:
        """The facts of a predicate in the current version."""
        versions = RemoteVersions(self._spark, self._output) if is_address(self._output) else self._local
        return self._spark.read.parquet(versions.path(self._display(predicate)))

    @property
    def _local(self) -> Versions:
        return Versions(absolute_path(self._output))

    def _display(self, predicate: str) -> str:
        prefixes = dict(self._program.prefixes)
        return display_predicate(resolve_predicate(predicate, prefixes), prefixes)

    def run(self) -> Report:
        """Read, materialise and publish; if anything fails, the version before stays current."""
        if is_address(self._output):
            with self._working_folder() as folder:
                versions = Versions(folder)
                report = self._make(versions)
                with self._stage(report, "copy") as stage:
                    stage.rows = sum(report.facts.values())
                    RemoteVersions(self._spark, self._output).publish(versions, report)
        else:
            report = self._make(self._local)
        self._write_tables(report)
        return report

    @contextmanager
    def _working_folder(self) -> Iterator[str]:
        """A folder in which a version is made that goes to an address."""
        if self._work is None and not str(self._spark.conf.get("spark.master", "")).startswith("local"):
            raise DataError(
                f"{self._output}: give `work` as well, a folder that the driver and all executors reach; a version is "
                "made there before it is copied"
            )
        parent = None if self._work is None else absolute_path(self._work)
        with tempfile.TemporaryDirectory(prefix="tidelog-", dir=parent) as folder:
            yield folder

    def _write_tables(self, report: Report) -> None:
        if not self._sinks:
            return
        with self._stage(report, "tables") as stage:
            for sink in self._sinks:
                sink.write(self.read(sink.predicate))
                stage.rows += report.facts[self._display(sink.predicate)]

    def _make(self, versions: Versions) -> Report:
        """Make the next version in a folder, and publish it there."""
        number, folder = versions.begin()
        report = Report(number)
        work = folder / ".work"
        engine = SparkEngine(
            self._spark, self._program, str(work), None, self._functions, self._options, self._on_progress
        )
        with self._stage(report, "read") as stage:
            taken = engine.take_in(self._sources, batches_of_atoms(self._program.facts, "the program"), True)
            stage.rows = taken.rows
            self._quarantine(engine, taken, folder / QUARANTINE, report)
            engine.add(taken)
        with self._stage(report, "materialise") as stage:
            before = engine.relations.total
            statistics = engine.materialise()
            stage.rows = engine.relations.total - before
        report.rounds = [asdict(done) for done in statistics.rounds]
        report.failed_rule_instances = statistics.total_failures
        predicates = self._write(engine, folder, report)
        report.terms = engine.dictionary.size
        (folder / REPORT).write_text(json.dumps(asdict(report), indent=1, ensure_ascii=False), encoding="utf-8")
        versions.publish(number, folder, predicates)
        shutil.rmtree(work, ignore_errors=True)
        return report

    @contextmanager
    def _stage(self, report: Report, name: str) -> Iterator[Stage]:
        """Time a stage, whose rows are filled in inside the block."""
        stage = Stage(name)
        started = time.monotonic()
        with counted_jobs(self._spark, stage.spark):
            yield stage
        stage.seconds = time.monotonic() - started
        report.stages.append(stage)
        self._on_progress(str(stage))

    def _quarantine(self, engine: SparkEngine, taken: TakenIn, folder: Path, report: Report) -> None:
        """Put the rows that do not fit into a data set of their own; too many of them stop the run."""
        taken.reject_wrong_lengths(engine.expected_arity, self._display, str(engine.relations.folder))
        if not taken.rejected:
            return
        folder.mkdir()
        for file in taken.rejected:
            shutil.move(file.path, folder)
        counts: Counter[str] = Counter()
        for file in taken.rejected:
            counts.update(file.reasons)
        total = sum(file.count for file in taken.rejected)
        report.quarantined = dict(sorted(counts.most_common(MOST_REASONS)))
        self._on_progress(f"{total:,} rows are in quarantine: {folder}")
        if self._max_bad_rows is not None and total > self._max_bad_rows:
            [(reason, count)] = counts.most_common(1)
            raise DataError(
                f"{total:,} rows do not fit, more than the limit of {self._max_bad_rows:,}; the most frequent reason "
                f"({count:,} rows): {reason}. See them all in {folder}"
            )

    def _write(self, engine: SparkEngine, folder: Path, report: Report) -> dict[str, dict[str, Any]]:
        """Write a Parquet data set for each predicate; returns their entries in the manifest."""
        relations = engine.relations
        named = sorted((self._display(predicate), predicate) for predicate in relations)
        files = {predicate: file_of_predicate(name, "parquet") for name, predicate in named}
        with self._stage(report, "write") as stage:
            targets = {predicate: Target(folder / files[predicate], name) for name, predicate in named}
            write_decoded(relations, engine.dictionary, targets, f"{relations.folder}/decoded")
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
    limit = config.max_bad_rows
    pipeline = Pipeline(spark, config.program, config.output, config.options, limit, on_progress, config.work)
    for source in config.sources:
        how = source.predicate, source.format, source.header, source.columns, source.types, source.options
        pipeline.add(source.path, *how)
    for sink in config.sinks:
        pipeline.sink(**vars(sink))
    return pipeline
