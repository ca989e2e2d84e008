"""What whoever starts the server decides: where it listens, who may do what, and the limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.errors import TidelogError
from tidelog.server.tokens import Tokens

DEFAULT_LISTEN = "127.0.0.1:8765"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that every client is held to. A refusal names the one that was reached."""

    max_body: int = 64 << 20  # bytes of a request
    max_answers: int = 100_000  # rows of one answer, and of a subscription
    max_matches: int = 20_000_000  # of a query, while all its answers are found
    max_subscriptions: int = 10_000  # streams that are open at once
    max_waiting: int = 10_000  # updates that wait
    max_backlog: int = 1 << 20  # bytes that wait for a reader of a stream
    stall: float = 60.0  # seconds for which nothing may move on a connection
    history: int = 200_000  # explicit facts of former updates that are kept, for those who come back
    keys: int = 100_000  # Idempotency-Keys that are remembered
    compact: int = 4 << 20  # bytes of the journal from which on a snapshot is written


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a server."""

    store: Path
    program: str | None = None  # the file to begin with, where the store is new
    listen: str = DEFAULT_LISTEN
    tokens: Tokens = field(default_factory=Tokens)
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    json_logs: bool = False
    max_facts: int | None = None
    timeout: float | None = None
    limits: Limits = field(default_factory=Limits)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port to listen at."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise TidelogError(f"{self.listen!r} is no address to listen at; write HOST:PORT, as in {DEFAULT_LISTEN}")
        return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)

    def check(self) -> None:
        """Refuse to be open to the world by accident, and half of a certificate."""
        if (self.certificate is None) != (self.key is None):
            raise TidelogError("TLS needs both a certificate and its key: give --tls-certificate and --tls-key")
        host, _ = self.address
        if not (is_loopback(host) or self.tokens or self.certificate or self.insecure):
            raise TidelogError(
                f"{host} can be reached from elsewhere, and anybody could change everything: give --tokens FILE or "
                "--tls-certificate and --tls-key, or say --insecure"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
