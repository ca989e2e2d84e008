"""A real server in a process of its own, on a free port of loopback, and a reader of its streams."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

PROGRAM = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
lonely(X) :- node(X), not path(X, _).
edge(a, b).  edge(b, c).  node(a).  node(z).
"""


class ServerProcess:
    """`tidelog serve` as somebody starts it."""

    def __init__(
        self, store: Path, *options: str, program: str = PROGRAM, before: Callable[[], None] | None = None
    ) -> None:
        self.store = store
        text = store.with_name(store.name + ".dlog")
        text.write_text(program)
        command = [sys.executable, "-m", "tidelog", "serve", str(store), "--program", str(text), "--json-logs"]
        if "--listen" not in options:
            command += ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before
        )
        self.log: list[dict[str, Any]] = []
        self.url = self._url()
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def _url(self) -> str:
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if line.startswith("{"):
                self.log.append(json.loads(line))
                if "url" in self.log[-1]:
                    return str(self.log[-1]["url"])
        raise AssertionError(f"the server did not start: {''.join(said)}")

    def kill(self) -> None:
        """As a power cut does, as far as a process can tell."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.log.append(json.loads(line))
        self.process.stderr.close()
        return self.process.wait(60)


@contextmanager
def served(store: Path, *options: str, **more: Any) -> Iterator[ServerProcess]:
    """A server for a while."""
    server = ServerProcess(store, *options, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


Event = tuple[str, str, Any]
"""Its kind, its id and its data."""


def events(lines: Iterator[str]) -> Iterator[Event]:
    """The events of a stream, as its lines come."""
    kind = identity = data = ""
    for line in lines:
        if line.startswith(":"):
            continue
        if not line:
            if kind:
                yield kind, identity, json.loads(data)
            kind = identity = data = ""
            continue
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            identity = value
        elif name == "data":
            data = value


@contextmanager
def subscribed(url: str, path: str = "/subscribe", last: int | None = None, **asked: str) -> Iterator[Iterator[Event]]:
    """The events of a stream."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with (
        httpx.Client(base_url=url, timeout=60) as client,
        client.stream("GET", path, params=asked, headers=headers) as response,
    ):
        assert response.status_code == 200, response.read()
        yield events(response.iter_lines())


def next_of(stream: Iterator[Event], kind: str) -> Event:
    """The next event of a kind; marks of progress in between are skipped."""
    for event in stream:
        if event[0] == kind:
            return event
        assert event[0] == "progress", event
    raise AssertionError(f"the stream ended before {kind}")


class Picture:
    """What a subscriber knows."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self.update = -1
        self._coming: set[str] = set()

    def take(self, event: Event) -> None:
        kind, identity, data = event
        if kind == "snapshot":
            self._coming |= set(map(json.dumps, data["rows"]))
            if not data["more"]:
                self.rows, self._coming = self._coming, set()
        elif kind == "change":
            removed, added = (set(map(json.dumps, data[half])) for half in ("removed", "added"))
            assert removed <= self.rows, "a row goes that was not there"
            assert not added & self.rows, "a row comes that was there"
            self.rows = (self.rows - removed) | added
        if identity:
            assert int(identity) >= self.update, "numbers only grow"
            self.update = int(identity)
