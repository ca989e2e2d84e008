"""The options of the source `mqtt`, read strictly: what is misspelt or makes no sense is refused, never guessed.

`host`, `port`, `topics` (filters, separated by commas), `client` (the name of the session), `qos`, `username`,
`password`, `tls`, `caFile`, `certFile`, `keyFile`, `keyPassword`, `spool`, `mostPerBatch`. Spark passes all of them as
text, and ignores the case of their names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import DataError, warn
from tidelog.spark.pipeline.config_tables import boolean
from tidelog.spark.pipeline.stream_config import FILE_OPTIONS

# Any of these asks for TLS.
_FILES = FILE_OPTIONS["mqtt"]

_PLAIN_PORT, _TLS_PORT = 1883, 8883
_NEEDED = ("host", "topics", "client", "spool")
_KNOWN = {
    *_NEEDED,
    *_FILES,
    *("port", "qos", "username", "password", "tls", "keypassword", "mostperbatch", "path"),
}


@dataclass(frozen=True)
class Tls:
    """How the connection is secured: authorities to trust (None: those of the system), and the client's identity."""

    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    key_password: str | None


@dataclass(frozen=True)
class MqttOptions:
    """The options, with their types and defaults."""

    host: str
    port: int
    topics: tuple[str, ...]
    client: str
    qos: int
    username: str | None
    password: str | None
    tls: Tls | None
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
    """Read the options of a source; the case of their names does not matter."""
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


def _tls(options: Mapping[str, str]) -> Tls | None:
    secured = [name for name in (*_FILES, "keypassword") if name in options]
    if not boolean("the source mqtt", "tls", options.get("tls", bool(secured))):
        if secured:
            raise DataError(f"the source mqtt: `{secured[0]}` is of no use without TLS; write tls = true, or drop it")
        return None
    if "keyfile" in options and "certfile" not in options:
        raise DataError("the source mqtt: a `keyFile` belongs to a `certFile`; give both")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise DataError(f"the source mqtt: `{name}` is {options[name]}, which is no file; check the path")
    return Tls(*(options.get(name) for name in (*_FILES, "keypassword")))


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
