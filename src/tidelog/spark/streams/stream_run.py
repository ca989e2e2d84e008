"""`tidelog pipeline stream`: a stream from its configuration to its end.

`foreachBatch` hands each batch to the engine. SIGINT and SIGTERM stop between two batches: the current batch is
finished, the query is stopped, and what the engine has taken in is applied. However else the process ends, even by
kill -9, the next start continues where it was.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import DataError, TidelogError
from tidelog.spark.pipeline.pipeline_config import PipelineConfig, read_config
from tidelog.spark.pipeline.stream_config import AVAILABLE_NOW, StreamConfig
from tidelog.spark.session import open_session
from tidelog.spark.streams.checkpoint import Checkpoint
from tidelog.spark.streams.dealing import numbers_of_shards
from tidelog.spark.streams.intake import entries_of, facts_of_sources, open_intake, parser
from tidelog.spark.streams.keyed_engine import KeyedEngine, KeyedProgram, changes_of_keys, split_by_key
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.metrics import Metrics, Outcome, View, read_view
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.stream_engine import StreamEngine
from tidelog.spark.streams.version_engine import VersionEngine

_POLL_SECONDS = 0.2

OnView = Callable[[View], None]


@dataclass(frozen=True)
class _Feed:
    """An engine, the streaming frame that it is fed from, and how the rows of a batch are read."""

    engine: StreamEngine
    frame: DataFrame
    read: Callable[[DataFrame], Any]


def _memory_feed(spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> _Feed:
    def begin() -> KnowledgeBase:
        kb = KnowledgeBase(config.program)
        kb.update(add=facts_of_sources(spark, config.sources))
        return kb

    frame = open_intake(spark, stream)
    folder = run.checkpoint.engine
    engine = MemoryEngine(folder, begin, run.sink, run.quarantine, parser(stream), run.finished)
    return _Feed(engine, frame, entries_of)


def _version_feed(spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> _Feed:
    frame = open_intake(spark, stream)
    engine = VersionEngine(
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
    return _Feed(engine, frame, entries_of)


def _keyed_feed(spark: SparkSession, config: PipelineConfig, stream: StreamConfig, run: StreamRun) -> _Feed:
    if config.sources:
        raise DataError("[[source]]: the engine keyed takes facts from its program and from the stream only")
    folder = run.checkpoint.engine / "programs"
    program = KeyedProgram(folder, stream.key, stream.keys, numbers_of_shards(stream.shards))
    KnowledgeBase(config.program)  # reports whatever else is wrong with it, and leaves compiled kernels to the workers
    program.check(config.program)
    program.programs.begin(config.program)
    is_csv = stream.source.format == "csv"
    records = split_by_key(open_intake(spark, stream), program, parser(stream), rewrite=is_csv)
    engine = KeyedEngine(program, run.sink, run.quarantine, run.finished)
    return _Feed(engine, changes_of_keys(records, program), lambda frame: frame.toArrow())


_FEEDS = {"memory": _memory_feed, "spark": _version_feed, "keyed": _keyed_feed}


class StreamRun:
    """One run of a stream."""

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
        self._feed = _FEEDS[stream.engine](spark, config, stream, self)
        self._feed.engine.start()
        self._in_batch = threading.Lock()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> View:
        """Run until `stop` is called or, with the trigger `available-now`, until nothing is left."""
        try:
            query = self._start()
            while not query.awaitTermination(_POLL_SECONDS):
                self._note_backlog(query)
                if self._stopping.is_set():
                    self._halt(query)
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from None
            if not self._stopping.is_set():
                raise TidelogError(_reason(error)) from None
        finally:
            self._feed.engine.close()
        self._note_backlog(query)
        self.metrics.backlog = {}
        return self.metrics.publish(running=False)

    def stop(self) -> None:
        """End after the current batch; then `run` returns."""
        self._stopping.set()

    def _start(self) -> StreamingQuery:
        writer = self._feed.frame.writeStream.foreachBatch(self._take).outputMode("update")
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
                self._feed.engine.take(number, self._feed.read(frame))
            except BaseException as problem:
                self._failure = problem
                raise

    def _halt(self, query: StreamingQuery) -> None:
        with self._in_batch:
            query.stop()

    def finished(self, number: int, outcome: Outcome) -> None:
        """Note that a batch is in the sink."""
        self.metrics.finished(number, outcome)
        self._on_view(self.metrics.view(running=True))

    def _note_backlog(self, query: StreamingQuery) -> None:
        """Note what waits, in the inbox and in the source, and how large Spark's state is."""
        waiting = self._feed.engine.waiting
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
    """What went wrong in a batch, without the Java traceback."""
    lines = [line for line in str(error).split("\n") if line.startswith("tidelog.")]
    return lines[-1].partition(": ")[2] if lines else f"the stream failed: {error}"


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask for a graceful stop; a second signal has its usual effect."""
    chosen = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in chosen}

    def ask(number: int, _: object) -> None:
        signal.signal(number, before[number])
        print("stopping after the current batch …", file=sys.stderr, flush=True)
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
