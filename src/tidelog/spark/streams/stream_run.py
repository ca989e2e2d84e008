"""`tidelog pipeline stream`: a stream from its configuration to its end.

`foreachBatch` hands each batch to the engine; on Spark Connect, by way of a file. SIGINT and SIGTERM stop between two
batches: the current batch is finished, the query is stopped, and what the engine has taken in is applied. However else
the process ends, even by kill -9, the next start continues where it was.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import DataError, StorageError, TidelogError
from tidelog.spark.maintain.materialisation import Materialisation
from tidelog.spark.pipeline.pipeline_config import AVAILABLE_NOW, PipelineConfig, read_config
from tidelog.spark.session import is_connect, open_session
from tidelog.spark.stored.version_history import History
from tidelog.spark.streams.handover import Handover
from tidelog.spark.streams.intake import facts_of_sources, open_intake, parser
from tidelog.spark.streams.keyed_engine import KeyedEngine
from tidelog.spark.streams.keys import numbers_of_shards
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.metrics import Metrics, Totals, View, read_view
from tidelog.spark.streams.resident import KeyedProgram
from tidelog.spark.streams.shard_state import WHOLE, kind_for
from tidelog.spark.streams.sink import BatchFolder, Quarantine, Sink
from tidelog.spark.streams.spark_metrics import has_pages, show_batch
from tidelog.spark.streams.stream_batches import StreamEngine
from tidelog.spark.streams.version_engine import VersionEngine
from tidelog.storage.durable_files import checksum, replace_file, storage_errors

_FORMAT = 2
_POLL_SECONDS = 0.2

OnView = Callable[[View], None]

Deliver = Callable[[DataFrame, int], None]
"""Brings a batch to the engine; called by Spark."""


class Checkpoint:
    """The folder with all that a restart of a stream needs: which stream it is, Spark's own checkpoint, the state of
    the engine, and the latest metrics. They belong together: remove all of them, or none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = folder / "spark"
        self.engine = folder / "engine"
        self.handover = folder / "handover"
        self.metrics = folder / "metrics.json"

    def begin(
        self, program: str, engine: str, *outputs: BatchFolder, shards: int | None = None, state: str = WHOLE
    ) -> str:
        """Begin a stream here, or make sure that it is the same one as before; `shards`: of keys, if it has any.

        A new stream keeps its shards as `state` says; returns how this one does."""
        wanted = {"format": _FORMAT, "program": checksum(program.encode()), "engine": engine, "shards": shards}
        path = self.folder / "stream.json"
        if not path.exists():
            used = [output.path for output in outputs if output.batches]
            if used:
                raise StorageError(
                    f"{used[0]} holds batches of another stream; name an empty folder, or its checkpoint"
                )
            with storage_errors("write", self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                replace_file(path, json.dumps(wanted | {"state": state}).encode())
            return state
        with storage_errors("read", path):
            found = json.loads(path.read_bytes())
        for what, advice in (
            ("format", "it is of another version of tidelog"),
            ("engine", f"its engine is {found.get('engine')}"),
            ("shards", f"it has {found.get('shards')} shards"),
            ("program", "its program was another one: put that back and send the change of rules through the stream"),
        ):
            if found.get(what) != wanted[what]:
                raise StorageError(f"{self.folder} is the checkpoint of another stream: {advice}; or name a new folder")
        return str(found.get("state", WHOLE))


class StreamRun:
    """One run of a stream. Nothing is read or written before `run`.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.spark import StreamRun, read_config
        >>> Path(folder, "incoming").mkdir()
        >>> _ = Path(folder, "incoming/1.jsonl").write_text('{"add": {"edge": [["a", "b"]]}}\\n')
        >>> _ = Path(folder, "stream.toml").write_text('''
        ...     program = "rules.dlog"
        ...     [stream]
        ...     checkpoint = "state"
        ...     quarantine = "refused"
        ...     trigger = "available-now"
        ...     source = {format = "jsonl", path = "incoming"}
        ...     sink = {format = "jsonl", path = "changes"}
        ... ''')
        >>> _ = Path(folder, "rules.dlog").write_text("path(X, Y) :- edge(X, Y).")
        >>> StreamRun(spark, read_config(f"{folder}/stream.toml")).run().batch
        0
    """

    def __init__(self, spark: SparkSession, config: PipelineConfig, on_view: OnView = lambda _: None) -> None:
        if config.stream is None:
            raise DataError("the configuration has no section [stream]; see docs/reference/spark.md")
        self._spark = spark
        self._config = config
        self._stream = config.stream
        self._on_view = on_view
        self.checkpoint = Checkpoint(config.stream.checkpoint)
        self.sink = Sink(config.stream.sink, config.stream.sink_format)
        self.quarantine = Quarantine(config.stream.quarantine)
        self.metrics = Metrics(self.checkpoint.metrics)
        self._shows_batches = has_pages(spark)
        self._in_batch = threading.Lock()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> View:
        """Run until `stop` is called or, with the trigger `available-now`, until nothing is left."""
        is_keyed, outputs = self._stream.engine == "keyed", (self.sink, self.quarantine)
        shards, state = (self._stream.shards, kind_for(self._spark)) if is_keyed else (None, WHOLE)
        state = self.checkpoint.begin(self._config.program, self._stream.engine, *outputs, shards=shards, state=state)
        engine = self._engine(state)
        frame = engine.frame(open_intake(self._spark, self._stream))
        engine.start()
        try:
            with self._delivery(engine) as deliver:
                query = self._start(frame, deliver)
                while not query.awaitTermination(_POLL_SECONDS):
                    self._note_backlog(engine, query)
                    if self._stopping.is_set():
                        with self._in_batch:
                            query.stop()
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from None
            if not self._stopping.is_set():
                raise TidelogError(_reason(error)) from None
        finally:
            engine.close()
        self._note_backlog(engine, query)
        self.metrics.backlog = {}
        return self.metrics.publish(running=False)

    def stop(self) -> None:
        """End after the current batch; then `run` returns."""
        self._stopping.set()

    def _engine(self, state: str) -> StreamEngine:
        stream, program, folder = self._stream, self._config.program, self.checkpoint.engine
        outputs, parse = (self.sink, self.quarantine), parser(stream)
        match stream.engine:
            case "memory":
                return MemoryEngine(folder, self._first_kb, *outputs, parse, self._finished)
            case "spark":
                inbox = self.checkpoint.folder / "inbox"
                return VersionEngine(inbox, self._materialisation, *outputs, parse, self._finished)
        if self._config.sources:
            raise DataError("[[source]]: the engine keyed takes facts from its program and from the stream only")
        keyed = KeyedProgram(folder / "programs", stream.key, stream.keys, numbers_of_shards(stream.shards))
        KnowledgeBase(program)  # reports whatever else is wrong with it, and leaves compiled kernels to the workers
        keyed.check(program)
        keyed.begin(program)
        return KeyedEngine(keyed, *outputs, self._finished, parse, stream.source.format == "csv", state)

    def _first_kb(self) -> KnowledgeBase:
        kb = KnowledgeBase(self._config.program)
        kb.update(add=facts_of_sources(self._spark, self._config.sources))
        return kb

    def _materialisation(self) -> Materialisation:
        config, folder = self._config, self.checkpoint.engine
        if History(folder.absolute()).current() is None:
            facts = facts_of_sources(self._spark, config.sources)
            return Materialisation.create(self._spark, str(folder), config.program, facts, config.options)
        return Materialisation.open(self._spark, str(folder), config.options)

    @contextmanager
    def _delivery(self, engine: StreamEngine) -> Iterator[Deliver]:
        """The function for `foreachBatch` that brings each batch to the engine."""

        def take(number: int, rows: pa.Table) -> None:
            with self._in_batch:
                if self._stopping.is_set():
                    raise _Stopped  # before anything has happened: the batch comes again
                self.metrics.arrived(number)
                try:
                    engine.take(number, engine.read(rows))
                except BaseException as problem:
                    self._failure = problem
                    raise

        if not is_connect(self._spark):
            yield lambda frame, number: take(number, frame.toArrow())
            return
        handover = Handover(self.checkpoint.handover, take)
        with handover.running():
            yield handover.function

    def _start(self, frame: DataFrame, deliver: Deliver) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(deliver).outputMode("update")
        writer = writer.option("checkpointLocation", str(self.checkpoint.spark)).queryName("tidelog")
        trigger = self._stream.trigger
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        try:
            return writer.start()
        except PySparkException as error:
            raise TidelogError(f"the stream does not start: {str(error).partition(chr(10))[0]}") from None

    def _finished(self, number: int, outcome: Totals) -> None:
        view = self.metrics.finished(number, outcome)
        if self._shows_batches:
            show_batch(self._spark, number, outcome, view.latency)
        self._on_view(view)

    def _note_backlog(self, engine: StreamEngine, query: StreamingQuery) -> None:
        """Note what waits, in the inbox and in the source, and how large Spark's state is."""
        waiting = engine.waiting
        backlog = {"batches taken in": waiting} if waiting else {}
        progress: Any = query.lastProgress
        for source in progress["sources"] if progress else ():
            for name, value in (source["metrics"] or {}).items():
                backlog[name] = int(float(value))
        for state in progress["stateOperators"] if progress else ():
            entries = "shards" if state["operatorName"].startswith("applyInPandas") else "pages"
            self.metrics.state = {entries: state["numRowsTotal"], "bytes": state["memoryUsedBytes"]}
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
