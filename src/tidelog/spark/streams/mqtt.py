"""MQTT, the protocol of sensors, as a source of Spark: `spark.readStream.format("mqtt")`.

A broker forgets a message once it is acknowledged, while Spark may ask for a batch again. So messages are written to a
folder, the spool, and forced to the disk before they are acknowledged; their numbers there are the offsets that Spark
knows. They leave the spool when Spark is done with them. The client has a session that the broker keeps: what is sent
while nobody listens (with quality of service 1 or 2) is delivered later. A message whose acknowledgement was lost in a
crash comes twice; adding or deleting a fact twice is the same as doing so once.

Options: `host`, `port`, `topics` (filters, separated by commas), `client` (the name of the session), `qos`, `username`,
`password`, `tls`, `caFile`, `certFile`, `keyFile`, `keyPassword`, `spool`, `mostPerBatch`. Spark passes all of them as
text, and ignores the case of their names. Columns: `number`, `topic`, `value`; a payload that is not UTF-8 has no
`value`, and is in `raw` as it came.
"""

from __future__ import annotations

import ipaddress
import json
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tidelog.errors import DataError, StorageError, warn
from tidelog.extras import needing
from tidelog.spark.pipeline.pipeline_config import FILE_OPTIONS, boolean
from tidelog.storage.durable_files import replace_file, storage_errors
from tidelog.values import is_unicode

Payload = str | bytes  # bytes that are no UTF-8 stay bytes

_PART = re.compile(r"([0-9]{1,18})-([0-9]{1,18})\.jsonl")
_PATIENCE = 10.0

# Any of these asks for TLS. The names are ours, and those of paho.
_FILES = FILE_OPTIONS["mqtt"]
_TLS = {"cafile": "ca_certs", "certfile": "certfile", "keyfile": "keyfile", "keypassword": "keyfile_password"}

_PLAIN_PORT, _TLS_PORT = 1883, 8883
_NEEDED = ("host", "topics", "client", "spool")
_OTHERS = ("port", "qos", "username", "password", "tls", "keypassword", "mostperbatch", "path")
_KNOWN = {*_NEEDED, *_FILES, *_OTHERS}


@dataclass(frozen=True)
class MqttOptions:
    """The options, with their types and defaults.

    `tls` says how the connection is secured, as paho takes it: authorities to trust (None: those of the system), and
    the client's identity."""

    host: str
    port: int
    topics: tuple[str, ...]
    client: str
    qos: int
    username: str | None
    password: str | None
    tls: Mapping[str, str | None] | None
    spool: Path
    most_per_batch: int | None

    def warn_of_plain_password(self) -> None:
        """Warn that the password can be read on its way to the broker, unless that is this machine."""
        if self.password is not None and self.tls is None and not _is_local(self.host):
            warn(
                f"the source mqtt sends its password to {self.host} as plain text; write tls = true, and caFile where "
                "the broker has a certificate of its own",
                UserWarning,
            )


def read_options(given: Mapping[str, str]) -> MqttOptions:
    """Read the options of a source, strictly: what is misspelt or makes no sense is refused, never guessed."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - _KNOWN)
    missing = [name for name in _NEEDED if name not in options]
    if unknown or missing:
        wrong = f"no option `{unknown[0]}`" if unknown else f"no `{missing[0]}`, which it needs"
        raise DataError(f"the source mqtt has {wrong}; its options are {', '.join(sorted(_KNOWN))}")
    topics = tuple(topic.strip() for topic in options["topics"].split(","))
    if not all(topics):
        raise DataError("the source mqtt: `topics` has an empty filter; write filters, separated by commas")
    if "password" in options and "username" not in options:
        raise DataError("the source mqtt has a `password` and no `username`; give both, or none")
    tls = _tls(options)
    return MqttOptions(
        options["host"],
        _number(options, "port", _PLAIN_PORT if tls is None else _TLS_PORT, 1, 65535),
        topics,
        options["client"],
        _number(options, "qos", 1, 0, 2),
        options.get("username"),
        options.get("password"),
        tls,
        Path(options["spool"]),
        _number(options, "mostperbatch", 1, 1, 2**31 - 1) if "mostperbatch" in options else None,
    )


def _tls(options: Mapping[str, str]) -> dict[str, str | None] | None:
    secured = [name for name in _TLS if name in options]
    if not boolean("the source mqtt", "tls", options.get("tls", bool(secured))):
        if secured:
            raise DataError(f"the source mqtt: `{secured[0]}` is of no use without TLS; write tls = true, or drop it")
        return None
    if "keyfile" in options and "certfile" not in options:
        raise DataError("the source mqtt: a `keyFile` belongs to a `certFile`; give both")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise DataError(f"the source mqtt: `{name}` is {options[name]}, which is no file; check the path")
    return {theirs: options.get(name) for name, theirs in _TLS.items()}


def _number(options: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise DataError(f"the source mqtt: `{name}` is a number from {least} to {most}, not {text!r:.60}")
    return int(text)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in ("localhost", "localhost.localdomain")


class Spool:
    """A folder of messages, numbered from 1; a part is a file named after its first and last number.

    A message is a line: a JSON array of topic and payload, with the payload as `{"base64": "…"}` if it is not text.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _parts(self) -> list[tuple[int, int, Path]]:
        if not self._folder.is_dir():
            return []
        names = ((_PART.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted((int(found[1]), int(found[2]), path) for found, path in names if found)

    @property
    def last(self) -> int:
        """The number of the last message."""
        return max((last for _, last, _ in self._parts()), default=0)

    def append(self, after: int, messages: Sequence[tuple[str, Payload]]) -> int:
        """Make messages durable, numbered from `after` + 1 on; returns the last number."""
        last = after + len(messages)
        with storage_errors("write", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(_line(*message) for message in messages)
            replace_file(self._folder / f"{after + 1}-{last}.jsonl", lines.encode())
        return last

    def read(self, start: int, end: int) -> Iterator[tuple[int, str, Payload]]:
        """The messages after `start`, up to `end`."""
        expected = start + 1
        for first, last, path in self._parts():
            if last > start and first <= end:
                for number, line in enumerate(_lines(path, last - first + 1), first):
                    if start < number <= end:
                        if number != expected:
                            raise StorageError(f"{self._folder} lacks message {expected}; restore the folder")
                        expected += 1
                        yield (number, *_message(line, path))
        if expected != end + 1:
            raise StorageError(f"{self._folder} lacks message {expected}; restore the folder")

    def forget(self, end: int) -> None:
        """Remove what nobody will ask for. The last part stays: it says which number comes next."""
        for _, last, path in self._parts()[:-1]:
            if last <= end:
                with storage_errors("write", path):
                    path.unlink(missing_ok=True)


def _line(topic: str, payload: Payload) -> str:
    """A message as a line; JSON escapes line feeds, and nothing else ends a line."""
    text = payload if isinstance(payload, str) else {"base64": b64encode(payload).decode()}
    return json.dumps((topic, text), ensure_ascii=False) + "\n"


def _lines(path: Path, count: int) -> list[bytes]:
    """The lines of a part; it must have as many as its name says."""
    with storage_errors("read", path):
        lines = path.read_bytes().split(b"\n")
    if lines.pop() or len(lines) != count:
        raise StorageError(f"{path} does not hold the {count} messages that its name says; restore the folder")
    return lines


def _message(line: bytes, path: Path) -> tuple[str, Payload]:
    """Topic and payload of a line."""
    try:
        topic, payload = json.loads(line)
        if isinstance(payload, dict):
            payload = b64decode(payload["base64"], validate=True)
        texts = [text for text in (topic, payload) if not isinstance(text, bytes)]
        if isinstance(topic, str) and all(isinstance(text, str) and is_unicode(text) for text in texts):
            return topic, payload
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise StorageError(f"{path} holds a line that is no message: {line[:60]!r}; restore the folder")


def payload_of(data: bytes) -> Payload:
    """The payload of a message: its text, or the bytes themselves if they are not text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def topic_of(message: Any) -> str:
    """The topic of a message. Brokers refuse a topic that is not UTF-8, but a hostile one may not."""
    try:
        return str(message.topic)
    except UnicodeDecodeError:
        return "<a topic that is not UTF-8>"


class MqttSource(DataSource):  # type: ignore[misc]
    """The source `mqtt`."""

    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def schema(self) -> str:
        return "number bigint, topic string, value string, raw binary"

    def streamReader(self, schema: object) -> MqttReader:
        return MqttReader(self.options)


class MqttReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads from the spool, and listens to the broker once Spark asks for offsets."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = read_options(options)
        self._spool = Spool(self._options.spool)
        self._listener: Listener | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: they read from the spool, and do not listen."""
        return {"_options": self._options, "_spool": self._spool, "_listener": None}

    def initialOffset(self) -> dict[str, int]:
        return {"number": 0}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._options.most_per_batch
        return ReadMaxRows(most) if most is not None else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """The last number received; Spark before 4.2 gives no start and no limit."""
        if self._listener is None:
            listener = Listener(self._options, self._spool)
            listener.start()
            self._listener = listener
        last = self._listener.last()
        most = getattr(limit, "max_rows", None)
        return {"number": last if start is None or most is None else min(last, start["number"] + most)}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        """The messages after `start`, up to `end`."""
        both = start["number"], end["number"]
        return [InputPartition(both)] if both[0] < both[1] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, str | None, bytes | None]]:
        for number, topic, payload in self._spool.read(*partition.value):
            yield (number, topic, payload, None) if isinstance(payload, str) else (number, topic, None, payload)

    def commit(self, end: Mapping[str, int]) -> None:
        self._spool.forget(end["number"])

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()


class Listener:
    """A client of the broker: messages go to the spool, many at once, and are acknowledged then."""

    def __init__(self, options: MqttOptions, spool: Spool) -> None:
        with needing("a stream of MQTT messages"):
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion

        self._options = options
        self._spool = spool
        self._last = spool.last
        self._waiting: list[Any] = []
        self._arrived = threading.Condition()
        self._stopped = False
        self._failure: BaseException | None = None
        self._connected = threading.Event()
        self._writer = threading.Thread(target=self._write, name="mqtt spool", daemon=True)
        client = self._client = Client(CallbackAPIVersion.VERSION2, options.client, clean_session=False)
        client.manual_ack_set(True)
        client.on_message = self._receive
        client.on_connect = self._subscribe
        if options.username is not None:
            client.username_pw_set(options.username, options.password)
        if options.tls is not None:
            try:
                client.tls_set(**options.tls)
            except (OSError, ValueError) as problem:  # `ssl.SSLError` is an OSError
                raise DataError(f"the source mqtt: the certificates cannot be used: {problem}") from None

    def start(self) -> None:
        """Connect to the broker and listen."""
        self._writer.start()
        try:
            self._connect()
        except BaseException:
            # The next attempt has a client of its own, and this one would go on trying too.
            self.stop()
            raise

    def _connect(self) -> None:
        host, port = self._options.host, self._options.port
        try:
            self._client.connect(host, port)
        except (OSError, ValueError) as problem:
            raise DataError(f"the broker at {host}:{port} cannot be reached: {problem}") from None
        self._client.loop_start()
        if not self._connected.wait(_PATIENCE):
            raise self._failure or DataError(f"the broker at {host}:{port} does not answer")

    def _subscribe(self, client: Any, _: Any, flags: Any, reason: Any, *more: Any) -> None:
        if reason.is_failure:
            self._failure = DataError(f"the broker refuses the client: {reason}")
        else:
            client.subscribe([(topic, self._options.qos) for topic in self._options.topics])
        self._connected.set()

    def _receive(self, _: Any, __: Any, message: Any) -> None:
        with self._arrived:
            self._waiting.append(message)
            self._arrived.notify()

    def _write(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._waiting or self._stopped)
                taken, self._waiting = self._waiting, []
            if not taken:
                return
            try:
                messages = [(topic_of(message), payload_of(message.payload)) for message in taken]
                self._last = self._spool.append(self._last, messages)
            except BaseException as problem:
                self._failure = problem
                return
            for message in taken:
                self._client.ack(message.mid, message.qos)

    def last(self) -> int:
        """The number of the last message that is durable."""
        if self._failure is not None:
            raise self._failure
        return self._last

    def stop(self) -> None:
        """Write what has arrived, and disconnect; the broker keeps what comes from now on."""
        with self._arrived:
            self._stopped = True
            self._arrived.notify()
        self._writer.join()
        self._client.disconnect()
        self._client.loop_stop()
