"""The input of streams: the spool of MQTT, its options, bytes that are not text, records with rules."""

from __future__ import annotations

import json
import socket
import threading
import warnings
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_util import changes_in, entries, record
from tidelog import DataError, KnowledgeBase, StorageError
from tidelog.language import parse_program
from tidelog.spark.pipeline.pipeline_config import boolean, read_config
from tidelog.spark.streams import keyed_engine as keyed
from tidelog.spark.streams.intake import parser
from tidelog.spark.streams.keys import Keys
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.mqtt import Listener, MqttOptions, MqttReader, Spool, payload_of, read_options, topic_of
from tidelog.spark.streams.queued_engine import Inbox
from tidelog.spark.streams.shard_state import ShardFacts
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.update_records import Entry, entry_of, parse_entry

# All that `str.splitlines` takes for the end of a line.
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
REQUIRED = {"host": "broker.example.org", "topics": "farm/#", "client": "tidelog", "spool": "spool"}
NO_TEXT = b'{"add": {"p": [["\xff"]]}}'
TEXT = st.characters(codec="utf-8")  # no surrogates: bytes that decode have none


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(), st.text(st.sampled_from(LINE_ENDS) | TEXT) | st.binary()), min_size=1))
def test_a_spool_gives_back_every_message(tmp_path: Path, messages: list[tuple[str, str | bytes]]) -> None:
    kept = [(topic, payload_of(body) if isinstance(body, bytes) else body) for topic, body in messages]
    spool = Spool(tmp_path)
    assert spool.append(0, kept) == len(kept)
    assert list(spool.read(0, len(kept))) == [(number, *message) for number, message in enumerate(kept, 1)]
    (tmp_path / f"1-{len(kept)}.jsonl").unlink()


def test_facts_with_any_line_end_stay_whole_in_spark_s_state() -> None:
    facts = ShardFacts()
    rows = [(end,) for end in LINE_ENDS]
    facts.apply({"add": {"p": rows}}, {})
    assert sorted(ShardFacts.of_state(facts.state).facts["p"]) == sorted(rows)
    assert sorted(ShardFacts.of_state(*map(facts.page, facts.changed)).facts["p"]) == sorted(rows)
    assert ShardFacts.of_state(ShardFacts().state).facts == {}
    # As another version may have written it.
    assert ShardFacts.of_state('["p", "a\u2028b"]').facts == {"p": [("a\u2028b",)]}


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b'["t", "1"]',
        b'["t", "1"]\n["t", "2"]\n',
        b'["t"]\n',
        b'["t", 1]\n',
        b'["t", {"base64": "?"}]\n',
        b'["t", {"text": "?"}]\n',
        b'{"t": "1"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_part_is_told(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "1-1.jsonl").write_bytes(damage)
    with pytest.raises(StorageError, match=r"1-1\.jsonl .*restore the folder"):
        list(Spool(tmp_path).read(0, 1))


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'[["a"]]', b'[["a", 1]]', b'[["a", "b", "c", "d"]]', b"7"])
def test_a_damaged_inbox_is_told(tmp_path: Path, damage: bytes) -> None:
    inbox = Inbox(tmp_path)
    (tmp_path / "3.json").write_bytes(damage)
    with pytest.raises(StorageError, match=r"3\.json holds no batch"):
        inbox.get(3)


def test_an_inbox_keeps_what_is_wrong_with_a_record(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    records = [entry_of("t", NO_TEXT), entry_of("t", "\u2028é".encode())]
    inbox.put(1, records)
    assert inbox.get(1) == records
    (tmp_path / "2.json").write_text('[["t", "{}"]]')
    assert inbox.get(2) == [Entry("t", "{}")]


# ── bytes that are no text ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_payload_that_is_no_text_is_kept_as_it_is(tmp_path: Path) -> None:
    reader = MqttReader({**REQUIRED, "spool": str(tmp_path)})
    Spool(tmp_path).append(0, [("t", payload_of(body)) for body in (b"\xff", "é".encode(), b"\xed\xa0\x80")])
    (part,) = reader.partitions({"number": 0}, {"number": 3})
    assert list(reader.read(part)) == [
        (1, "t", None, b"\xff"),
        (2, "t", "é", None),
        (3, "t", None, b"\xed\xa0\x80"),
    ]


def test_a_topic_that_is_no_text_does_not_stop_the_listener() -> None:
    class Message:
        @property
        def topic(self) -> str:
            return b"\xff".decode()

    assert topic_of(Message()) == "<a topic that is not UTF-8>"


def run_memory(folder: Path, records: list[Entry], parse: Any = parse_entry) -> list[dict[str, str]]:
    """Apply a batch in an engine; returns what is in quarantine afterwards."""
    sink, quarantine = Sink(folder / "sink", "jsonl"), Quarantine(folder / "refused")
    engine = MemoryEngine(folder / "state", lambda: KnowledgeBase("q(X) :- p(X)."), sink, quarantine, parse)
    engine.start()
    engine.take(0, records)
    engine.close()
    lines = (path.read_text().split("\n") for path in (folder / "refused").glob("batch=*/part-0.jsonl"))
    return [json.loads(line) for part in lines for line in part if line]


def test_bytes_that_are_no_text_go_to_quarantine_unaltered(tmp_path: Path) -> None:
    good = record("add", "p", "a\u2028b")
    (refused,) = run_memory(tmp_path, [entry_of("farm/1", NO_TEXT), entry_of("farm/1", good.encode())])
    assert refused["place"] == "farm/1"
    assert b64decode(refused["record"]) == NO_TEXT
    assert refused["reason"] == "byte 0xff at place 17 is not UTF-8; the record stands here in base64"
    changes = changes_in(tmp_path / "sink")
    assert len(changes[0]) == 2


def test_bytes_that_are_no_text_belong_to_no_key() -> None:
    keys = Keys.of(parse_program("q(X) :- p(X)."), 1, {})
    (part,) = keyed._parts(entry_of("t", NO_TEXT), keys, lambda _: 0, parse_entry, False)
    assert part[:2] == (keyed._NO_SHARD, b64encode(NO_TEXT).decode())
    assert "not UTF-8" in str(part[2])


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def config_of(folder: Path, source: str, more: str = "") -> Any:
    (folder / "rules.dlog").write_text("q(X) :- p(X).")
    paths = 'checkpoint = "state"\nquarantine = "refused"'
    text = f'program = "rules.dlog"\noutput = "out"\n[stream]\n{paths}\n{more}\n[stream.source]\n{source}\n'
    (folder / "p.toml").write_text(f'{text}[stream.sink]\npath = "sink"\n')
    return read_config(str(folder / "p.toml")).stream


FILES = 'format = "jsonl"\npath = "in"'
NETWORK = ('format = "mqtt"', 'format = "kafka"', 'format = "socket"')
CHANGES_OF_RULES = (
    record("add_rules", "", "r(X) :- p(X)."),
    record("remove_rules", "", "q(X) :- p(X)."),
    '{"add": {"p": [["a"]]}, "add_rules": "r(X) :- p(X)."}',
)


@pytest.mark.parametrize("body", CHANGES_OF_RULES)
def test_rules_come_from_files_and_from_no_network_unless_asked_for(tmp_path: Path, body: str) -> None:
    for source in NETWORK:
        with pytest.raises(DataError, match="changes rules; write allow_rules = true"):
            parser(config_of(tmp_path, source))(body)
        assert parser(config_of(tmp_path, source, "allow_rules = true"))(body)
    assert parser(config_of(tmp_path, FILES))(body)
    with pytest.raises(DataError, match="changes rules"):
        parser(config_of(tmp_path, FILES, 'allow_rules = "off"'))(body)


def test_refused_rules_go_to_quarantine_and_the_rest_of_the_batch_is_applied(tmp_path: Path) -> None:
    parse = parser(config_of(tmp_path, NETWORK[0]))
    refused = run_memory(tmp_path, entries(*CHANGES_OF_RULES, record("add", "p", "b")), parse)
    assert [one["record"] for one in refused] == list(CHANGES_OF_RULES)
    assert {one["reason"].partition(";")[0] for one in refused} == {"a record that changes rules"}
    kb = KnowledgeBase.open(tmp_path / "state" / "kb")
    assert kb.rules == ["q(X) :- p(X)."]
    assert list(kb.facts("q")) == [("b",)]


@pytest.mark.parametrize("body", CHANGES_OF_RULES)
def test_rules_for_keys_are_refused_in_the_same_way(tmp_path: Path, body: str) -> None:
    keys = Keys.of(parse_program("q(X) :- p(X)."), 1, {})
    parse = parser(config_of(tmp_path, NETWORK[0]))
    (part,) = keyed._parts(Entry("t", body), keys, lambda _: 0, parse, False)
    assert part[0] == keyed._NO_SHARD
    assert "changes rules" in str(part[2])


def test_the_programmer_s_own_streams_take_rules() -> None:
    kb = KnowledgeBase("p(a).")
    list(kb.stream([{"add_rules": "q(X) :- p(X)."}]))
    assert list(kb.facts("q")) == [("a",)]


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((text, True) for text in ("true", "True", "TRUE", "1", "yes", "Yes", "on", " ON ", True, 1)),
        *((text, False) for text in ("false", "False", "0", "no", "NO", "off", "Off", False, 0)),
    ],
)
def test_booleans_in_any_spelling(value: object, expected: bool) -> None:
    assert boolean("here", "tls", value) is expected
    options = read_options({**REQUIRED, "TLS": str(value)})
    assert (options.tls is not None) == expected


@pytest.mark.parametrize("value", ["", "t", "y", "2", "enabled", "tru", "none", "требуется", 2, None, 1.5])
def test_no_other_word_is_a_boolean(value: object) -> None:
    with pytest.raises(DataError, match="here: `tls` is true or false"):
        boolean("here", "tls", value)
    with pytest.raises(DataError, match="the source mqtt: `tls` is true or false"):
        read_options({**REQUIRED, "tls": str(value)})


def test_allow_rules_is_a_boolean(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\[stream\]: `allow_rules` is true or false .*, not 'maybe'"):
        config_of(tmp_path, NETWORK[0], 'allow_rules = "maybe"')


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"host": None}, "no `host`, which it needs"),
        ({"tsl": "true"}, "no option `tsl`"),
        ({"port": "1883x"}, "`port` is a number from 1 to 65535, not '1883x'"),
        ({"port": "65536"}, "`port` is a number"),
        ({"qos": "3"}, "`qos` is a number from 0 to 2"),
        ({"mostPerBatch": "0"}, "`mostperbatch` is a number"),
        ({"topics": "a,,b"}, "`topics` has an empty filter"),
        ({"password": "secret"}, "a `password` and no `username`"),
        ({"tls": "false", "caFile": "ca.pem"}, "`cafile` is of no use without TLS"),
        ({"caFile": "nowhere.pem"}, "`cafile` is nowhere.pem, which is no file"),
        ({"tls": "true", "keyFile": "key.pem"}, "a `keyFile` belongs to a `certFile`"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str | None], reason: str) -> None:
    given = {name: value for name, value in {**REQUIRED, **options}.items() if value is not None}
    with pytest.raises(DataError, match=reason):
        read_options(given)


def test_certificates_reach_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up next to the configuration, and imply TLS on its own port."""
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).touch()
    files = 'caFile = "ca.pem", certFile = "client.pem", keyFile = "client.key", keyPassword = "k"'
    required = 'host = "127.0.0.1", topics = "a, b/#", client = "c", spool = "spool", username = "u", password = "p"'
    source = config_of(tmp_path, f'format = "mqtt"\noptions = {{ {required}, {files} }}').source
    options = read_options(source.options)
    expected = [*(str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key")), "k"]
    assert options.tls == dict(zip(("ca_certs", "certfile", "keyfile", "keyfile_password"), expected, strict=True))
    assert options.port == 8883
    assert read_options(REQUIRED).port == 1883
    calls = told_to_paho(options, monkeypatch)
    assert calls["tls_set"] == tuple(expected)
    assert calls["username_pw_set"] == ("u", "p")
    assert calls["connect"] == ("127.0.0.1", 8883)


def told_to_paho(options: MqttOptions, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, ...]]:
    """What a listener asks of its client, which connects to nobody."""
    client = pytest.importorskip("paho.mqtt.client")
    calls: dict[str, tuple[Any, ...]] = {}
    for name in ("tls_set", "username_pw_set", "connect"):
        monkeypatch.setattr(
            client.Client, name, lambda _, *given, name=name, **more: calls.update({name: (*given, *more.values())})
        )
    monkeypatch.setattr(client.Client, "loop_start", lambda self: self.on_connect(self, None, {}, Accepted()))
    monkeypatch.setattr(client.Client, "subscribe", lambda *_: None)
    listener = Listener(options, Spool(options.spool))
    assert "connect" not in calls
    listener.start()
    listener.stop()
    return calls


class Accepted:
    is_failure = False


def test_certificates_that_are_none_are_told(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt")
    (tmp_path / "ca.pem").write_text("no certificate")
    options = read_options({**REQUIRED, "host": "127.0.0.1", "caFile": str(tmp_path / "ca.pem")})
    with pytest.raises(DataError, match="the certificates cannot be used"):
        Listener(options, Spool(tmp_path))


@pytest.mark.parametrize("listens", [True, False])
def test_a_broker_that_does_not_answer_leaves_no_client_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    pytest.importorskip("paho.mqtt")
    monkeypatch.setattr("tidelog.spark.streams.mqtt._PATIENCE", 0.1)
    threads = set(threading.enumerate())
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        if listens:
            broker.listen()
        port = str(broker.getsockname()[1])
        listener = Listener(read_options({**REQUIRED, "host": "127.0.0.1", "port": port}), Spool(tmp_path))
        with pytest.raises(DataError, match="does not answer" if listens else "cannot be reached"):
            listener.start()
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("host", "tls", "warned"),
    [
        ("broker.example.org", "false", True),
        ("192.168.0.7", "false", True),
        ("broker.example.org", "true", False),
        ("localhost", "false", False),
        ("127.0.0.9", "false", False),
        ("::1", "false", False),
    ],
)
def test_a_password_in_plain_text_is_warned_about(host: str, tls: str, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        options = read_options({**REQUIRED, "host": host, "tls": tls, "username": "u", "password": "secret"})
        options.warn_of_plain_password()
    assert [str(one.message).partition(";")[0] for one in told] == [
        f"the source mqtt sends its password to {host} as plain text" for _ in range(warned)
    ]
    assert "secret" not in "".join(str(one.message) for one in told)


def test_nobody_splits_files_where_texts_have_other_line_ends() -> None:
    """`str.splitlines` ends lines at ten characters that may occur in texts."""
    root = Path(keyed.__file__).parents[2]
    files = [path for part in ("formats", "spark", "storage") for path in (root / part).rglob("*.py")]
    assert files
    assert [path.name for path in files if "splitlines" in path.read_text()] == []
