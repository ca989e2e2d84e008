"""`tidelog pipeline stream`: a stream from its configuration to its end.

A batch is handed to the engine by `foreachBatch`. SIGINT and SIGTERM stop between two batches: the one in work is
finished, the query is stopped, what the engine has taken in is worked off. Whatever else ends the process, kill -9
included, the next start goes on where this one was.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import DataError, TidelogError
from tidelog.facts.results import Change
from tidelog.spark.pipeline.pipeline_config import PipelineConfig, read_config
from tidelog.spark.session import open_session
from tidelog.spark.streams.checkpoint import Checkpoint
from tidelog.spark.streams.dealing import numbers_of_shards
from tidelog.spark.streams.intake import entries_of, facts_of_sources, open_intake, parser
from tidelog.spark.streams.keyed_engine import KeyedEngine, KeyedProgram, changes_of_keys, split_by_key
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.metrics import Metrics, Outcome, View, read_view
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_batches import Batch
from tidelog.spark.streams.stream_config import AVAILABLE_NOW, StreamConfig
from tidelog.spark.streams.version_engine import SparkStreamEngine

_LOOK_EVERY = 0.2

OnView = Callable[[View], None]


class Taker(Protocol):
    """An engine as a query sees it: takes batches, and ends."""

    @property
    def frame(self) -> DataFrame: ...
    def take(self, number: int, frame: DataFrame) -> None: ...
    def waiting(self) -> int: ...
    def close(self) -> None: ...


class _Memory:
    def __init__(self, spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> None:
        self.frame = open_intake(spark, stream)

        def begin() -> KnowledgeBase:
            kb = KnowledgeBase(config.program)
            kb.update(add=facts_of_sources(spark, config.sources))
            return kb

        self._engine = MemoryEngine(
            run.checkpoint.engine,
            begin,
            run.sink,
            run.quarantine,
            parser(stream),
            lambda batch, change: run.finished(*_figures(batch, change)),
        )

    def take(self, number: int, frame: DataFrame) -> None:
        self._engine.take(number, entries_of(frame))

    def waiting(self) -> int:
        return self._engine.waiting

    def close(self) -> None:
        self._engine.close()


def _figures(batch: Batch, change: Change) -> tuple[int, Outcome]:
    added, removed = (sum(map(len, facts.values())) for facts in (change.added, change.removed))
    return batch.number, Outcome(batch.size, added, removed, len(batch.refused), batch.work)


class _OnSpark:
    def __init__(self, spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> None:
        self.frame = open_intake(spark, stream)
        self._engine = SparkStreamEngine(
            spark,
            run.checkpoint.engine,
            config.program,
            lambda: facts_of_sources(spark, config.sources),
            config.options,
            run.sink,
            run.quarantine,
            parser(stream),
            run.finished,
        )

    def take(self, number: int, frame: DataFrame) -> None:
        self._engine.take(number, entries_of(frame))

    def waiting(self) -> int:
        return 0

    def close(self) -> None:
        pass


class _Keyed:
    def __init__(self, spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> None:
        if config.sources:
            raise DataError("[[source]]: the engine keyed takes facts from its program and from the stream only")
        program = KeyedProgram(
            run.checkpoint.engine / "programs", stream.key, stream.keys, numbers_of_shards(stream.shards)
        )
        KnowledgeBase(config.program)  # whatever else is wrong with it is told here; and workers find kernels compiled
        program.check(config.program)
        program.programs.begin(config.program)
        is_csv = stream.source.format == "csv"
        records = split_by_key(open_intake(spark, stream), program, parser(stream), rewrite=is_csv)
        self.frame = changes_of_keys(records, program)
        self._engine = KeyedEngine(program, run.sink, run.quarantine, run.finished)

    def take(self, number: int, frame: DataFrame) -> None:
        self._engine.take(number, frame.toArrow())

    def waiting(self) -> int:
        return 0

    def close(self) -> None:
        pass


_ENGINES: dict[str, Callable[[SparkSession, PipelineConfig, StreamConfig, StreamRun], Taker]] = {
    "memory": _Memory,
    "spark": _OnSpark,
    "keyed": _Keyed,
}


class StreamRun:
    """A stream that runs, or is about to."""

    def __init__(self, spark: SparkSession, config: PipelineConfig, on_view: OnView = lambda _: None) -> None:
        stream = config.stream
        if stream is None:
            raise DataError("the configuration has no section [stream]; see docs/spark.md")
        self._config = stream
        self._on_view = on_view
        self.checkpoint = Checkpoint(stream.checkpoint)
        self.sink = Sink(stream.sink, stream.sink_format)
        self.quarantine = Quarantine(stream.quarantine)
        self.metrics = Metrics(self.checkpoint.metrics)
        shards = stream.shards if stream.engine == "keyed" else None
        self.checkpoint.begin(config.program, stream.engine, self.sink, self.quarantine, shards=shards)
        self._engine = _ENGINES[stream.engine](spark, config, stream, self)
        self._in_batch = threading.Lock()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> View:
        """Run until there is no more, where the trigger says so, or until somebody stops it."""
        try:
            query = self._start()
            while not query.awaitTermination(_LOOK_EVERY):
                self._look(query)
                if self._stopping.is_set():
                    self._halt(query)
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from None
            if not self._stopping.is_set():
                raise TidelogError(_reason(error)) from None
        finally:
            self._engine.close()
        self._look(query)
        self.metrics.backlog = {}
        return self.metrics.publish(running=False)

    def stop(self) -> None:
        """End after the batch in work; `run` returns then."""
        self._stopping.set()

    def _start(self) -> StreamingQuery:
        writer = self._engine.frame.writeStream.foreachBatch(self._take).outputMode("update")
        writer = writer.option("checkpointLocation", str(self.checkpoint.spark)).queryName("tidelog")
        trigger = self._config.trigger
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        try:
            return writer.start()
        except PySparkException as error:
            raise TidelogError(f"the stream does not start: {str(error).partition(chr(10))[0]}") from None

    def _take(self, frame: DataFrame, number: int) -> None:
        with self._in_batch:
            if self._stopping.is_set():
                raise _Stopped  # before anything has happened: the batch comes again
            self.metrics.arrived(number)
            try:
                self._engine.take(number, frame)
            except BaseException as problem:
                self._failure = problem
                raise

    def _halt(self, query: StreamingQuery) -> None:
        with self._in_batch:
            query.stop()

    def finished(self, number: int, outcome: Outcome) -> None:
        """A batch is in the sink."""
        self.metrics.finished(number, outcome)
        self._on_view(self.metrics.view(running=True))

    def _look(self, query: StreamingQuery) -> None:
        """What waits, in the inbox and as the source says itself; and how large Spark's state is."""
        waiting = self._engine.waiting()
        backlog = {"batches taken in": waiting} if waiting else {}
        progress: Any = query.lastProgress
        for source in progress["sources"] if progress else ():
            for name, value in (source["metrics"] or {}).items():
                backlog[name] = int(float(value))
        for state in progress["stateOperators"] if progress else ():
            self.metrics.state = {"shards": state["numRowsTotal"], "bytes": state["memoryUsedBytes"]}
        self.metrics.backlog = backlog


class _Stopped(Exception):
    """The stream is to stop."""


def _reason(error: StreamingQueryException) -> str:
    """What went wrong in a batch, without the Java of it."""
    lines = [line for line in str(error).split("\n") if line.startswith("tidelog.")]
    return lines[-1].partition(": ")[2] if lines else f"the stream failed: {error}"


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask for a graceful stop; a second one does what it always does."""
    chosen = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in chosen}

    def ask(number: int, _: object) -> None:
        signal.signal(number, before[number])
        print("stopping after the batch in work …", file=sys.stderr, flush=True)
        stop()

    for number in chosen:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in chosen:
            signal.signal(number, before[number])


def run_stream(config_path: str, master: str | None = None) -> int:
    """`tidelog pipeline stream`"""
    config = read_config(config_path)
    spark = open_session(master or config.master, config.settings)
    run = StreamRun(spark, config, _print_progress if sys.stderr.isatty() else lambda _: None)
    with stopped_by_signals(run.stop):
        view = run.run()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for line in view.lines():
        print(line)
    return 0


def _print_progress(view: View) -> None:
    line = f"batch {view.batch}: {view.updates_per_second:,.0f} updates/s, latency {view.latency:.2f} s"
    print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def show_status(config_path: str) -> int:
    """`tidelog pipeline status`"""
    config = read_config(config_path)
    if config.stream is None:
        raise DataError(f"{config_path} has no section [stream]")
    for line in read_view(Checkpoint(config.stream.checkpoint).metrics).lines():
        print(line)
    return 0
