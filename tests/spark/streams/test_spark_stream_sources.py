"""Sources of streams other than files and MQTT: offsets as Kafka has them, a socket, generated rows; and listeners."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from stand_in_sources import StandInKafka, produce
from stream_files import Running, run_stream, wait_for, write_config
from stream_util import changes_in, record, refused_in, replayed
from tidelog import DataError, TidelogError
from tidelog.spark.streams import intake, spark_metrics
from tidelog.spark.streams.metrics import Totals
from tidelog.spark.streams.sink import Sink

COPY = "q(X) :- p(X)."


class Listener(StreamingQueryListener):
    """Keeps what is observed of each batch."""

    def __init__(self) -> None:
        self.observed: list[dict[str, Any]] = []

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        found = event.progress.observedMetrics.get(spark_metrics.NAME)
        if found is not None:
            self.observed.append(found.asDict())

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[Listener]:
    found = Listener()
    spark.streams.addListener(found)
    yield found
    spark.streams.removeListener(found)


def test_offsets_by_partition(spark: SparkSession, tmp_path: Path, listener: Listener) -> None:
    """Records of two partitions in the order of partition and offset; a driver dies in a batch, and another goes on."""
    spark.dataSource.register(StandInKafka)
    log = tmp_path / "log"
    source = {"format": StandInKafka.name(), "options": {"log": str(log)}, "order": list(intake._ORDER["kafka"])}
    config = write_config(tmp_path, COPY, "memory", source)
    produce(log, 1, record("delete", "p", 1), record("add", "p", 3), "poison", record("add_rules", "", "r(X) :- p(X)."))
    produce(log, 0, record("add", "p", 1), record("add", "p", 2))
    run_stream(spark, config)
    assert replayed(changes_in(tmp_path / "sink")) == {(name, f"[{n}]") for name in "pq" for n in (2, 3)}
    produce(log, 1, record("add", "p", 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sink, "write", _die)
        with pytest.raises(TidelogError, match="killed"):
            run_stream(spark, config)
    produce(log, 0, record("delete", "p", 4))
    run_stream(spark, config)
    changes = changes_in(tmp_path / "sink")
    assert changes[1] == [("added", ("p", "[4]")), ("added", ("q", "[4]"))]
    assert changes[2] == [("removed", ("p", "[4]")), ("removed", ("q", "[4]"))]
    assert len(refused_in(tmp_path / "refused")) == 2  # rules need `allow_rules` there
    wait_for(lambda: sum(found["records"] for found in listener.observed) >= 8)
    assert listener.observed[0]["records"] == 6
    assert listener.observed[0]["bytes"] > 100


def _die(*_: object) -> None:
    raise TidelogError("killed")


def test_generated_rows(spark: SparkSession, tmp_path: Path, listener: Listener) -> None:
    """Spark's own source, whose rows an expression turns into records; each run goes on where the last one was."""
    source = {
        "format": "rate-micro-batch",
        "options": {"rowsPerBatch": "3", "numPartitions": "2"},
        "value": "to_json(named_struct('op', 'add', 'predicate', 'p', 'arguments', array(value)))",
        "order": ["value"],
    }
    config = write_config(tmp_path, COPY, "keyed", source)
    for _ in range(2):
        run_stream(spark, config)
    changes = changes_in(tmp_path / "sink")
    assert sorted(changes) == [0, 1]
    assert replayed(changes) == {(name, f"[{number}]") for name in "pq" for number in range(6)}
    wait_for(lambda: len(listener.observed) >= 2)
    assert listener.observed[:2] == [{"added": 6, "removed": 0, "refused": 0}] * 2
    config = write_config(tmp_path / "wrong", COPY, "memory", {**source, "value": "timestamp + 1"})
    with pytest.raises(DataError, match="has no column `timestamp"):
        run_stream(spark, config)


def test_a_socket(spark: SparkSession, tmp_path: Path) -> None:
    class Send(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write("".join(record("add", "p", number) + "\n" for number in range(3)).encode())
            self.server.done.wait()  # type: ignore[attr-defined]

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Send) as server:
        server.done = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = {"host": "127.0.0.1", "port": str(server.server_address[1])}
        config = write_config(tmp_path, COPY, "memory", {"format": "socket", "options": options}, "100 milliseconds")
        running = Running(spark, config)
        expected = {(name, f"[{number}]") for name in "pq" for number in range(3)}
        try:
            wait_for(lambda: replayed(changes_in(tmp_path / "sink")) == expected)
        finally:
            running.stop()
            server.done.set()  # type: ignore[attr-defined]
            server.shutdown()


def test_what_a_batch_came_to_is_a_query_on_the_web_pages(spark: SparkSession) -> None:
    assert not spark_metrics.has_pages(spark)
    before = spark.sparkContext.getLocalProperty("spark.job.description")
    spark_metrics.show_batch(spark, 17, Totals(1, 3, 0, 5, 2, {"insertion": 4}), 0.25)
    store = spark._jsparkSession.sharedState().statusStore()
    told = "tidelog, batch 17: 3 records, 5 facts came, 2 went, 0 refused, 0.25 s"
    wait_for(lambda: _last_description(store) == told)
    assert spark.sparkContext.getLocalProperty("spark.job.description") == before


def _last_description(store: Any) -> str:
    queries = store.executionsList()
    return str(queries.last().description()) if queries.nonEmpty() else ""
