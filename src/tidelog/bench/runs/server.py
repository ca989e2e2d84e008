"""A server and its clients on one machine: updates, queries beside them, and subscribers.

The server is a process of its own, with a journal that is forced to disk at every commit; this process is all clients,
over loopback. They speak HTTP by hand: a client library would take more time than the server does.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from tidelog.bench.options import Options
from tidelog.bench.parts.http_load import Asker, askers, let_ask, request
from tidelog.bench.report import Report, Table
from tidelog.errors import TidelogError

PROGRAM = """
may(U, A) :- role(U, R), grants(R, A).
high(S, V) :- reading(S, V), limit(S, L), V > L.
"""
CLIENTS = (1, 8, 64)
SUBSCRIBERS = 1000
USERS = 1000
COMMITS = 20
STARTS = 3


class Client:
    """A connection of somebody who subscribes, or who makes the updates that subscribers are told of."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def post(self, path: str, content: object) -> None:
        self._writer.write(request(path, content))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        if not head.startswith(b"HTTP/1.1 200"):
            raise TidelogError(f"the server refused: {head[:40]!r} {body[:200]!r}")

    async def subscribe(self, query: str) -> None:
        """Begin to read a stream, up to its snapshot."""
        self._writer.write(f"GET /subscribe?query={query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await self.read_until(b"event: snapshot")

    async def read_until(self, mark: bytes) -> None:
        await self._reader.readuntil(mark)
        await self._reader.readuntil(b"\n\n")

    def close(self) -> None:
        self._writer.close()


def _start_table(folder: Path) -> Table:
    """How long a server takes that opens a store."""
    table = Table(
        "A server opens its store: from the command to the first request that it takes",
        ["starts", "median s", "most s"],
        note="Wanted: below a second.",
    )
    times = []
    for _ in range(STARTS):
        began = time.perf_counter()
        with serving(folder):
            times.append(time.perf_counter() - began)
    table.rows.append([STARTS, median(times), max(times)])
    return table


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """A server with its program and some facts; its port and its process."""
    program = folder / "program.dlog"
    facts = [f"role(u{user}, r{user % 10})." for user in range(USERS)]
    facts += [f"grants(r{role}, a{action})." for role in range(10) for action in range(5)]
    facts += [f"limit({sensor}, 50)." for sensor in range(SUBSCRIBERS)]
    program.write_text(PROGRAM + "\n".join(facts))
    command = [sys.executable, "-m", "tidelog", "serve", str(folder / "store"), "--program", str(program)]
    # An installed package has its bytecode: so has this server from its second start on.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder.resolve() / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    server = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield _port(server), server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)


def _port(server: subprocess.Popen[str]) -> int:
    assert server.stderr is not None
    said: list[str] = []
    for line in server.stderr:
        said.append(line)
        found = re.search(r"listening url=http://127\.0\.0\.1:(\d+)/", line)
        if found:
            return int(found[1])
    raise TidelogError(f"the server did not start: {''.join(said)}")


def _update(number: int) -> bytes:
    """One small update: a reading comes, and the one before goes."""
    sensor, value = number % SUBSCRIBERS, number % 97
    body = {"add": {"reading": [[sensor, value]]}, "delete": {"reading": [[sensor, (value - 1) % 97]]}}
    return request("/update?rows=0", body)


def _ask(number: int) -> bytes:
    return request("/query", {"query": "may($u, A)", "parameters": {"u": f"u{number % USERS}"}})


def _at(askers: Iterable[Asker], share: float) -> float:
    """Within how many milliseconds a share of all requests was answered."""
    ordered = sorted(seconds for asker in askers for seconds in asker.seconds)
    return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def _rate(askers: Iterable[Asker], seconds: float) -> int:
    return round(sum(len(asker.seconds) for asker in askers) / seconds)


def _updates_table(port: int, seconds: float) -> Table:
    table = Table(
        "Small updates, each journalled and forced to disk before its answer",
        ["clients", "updates/s", "median ms", "99 % ms", "updates per commit"],
        note="Wanted: 2,000 updates/s.",
    )
    for clients in CLIENTS:
        before, updating = _counts(port), askers(port, clients, _update)
        took = let_ask(updating, seconds)
        after = _counts(port)
        together = (after["requests"] - before["requests"]) / max(1, after["commits"] - before["commits"])
        table.rows.append([clients, _rate(updating, took), _at(updating, 0.5), _at(updating, 0.99), together])
    return table


def _counts(port: int) -> dict[str, int]:
    """What the server says of its updates."""
    with urlopen(f"http://127.0.0.1:{port}/statistics") as answer:
        found: dict[str, int] = json.load(answer)["updates"]
    return found


def _queries_table(port: int, seconds: float) -> Table:
    table = Table(
        "Point queries, may($u, A), alone and beside updates of 64 clients",
        ["clients", "updates/s beside", "queries/s", "median ms", "99 % ms"],
        note="Wanted: 5 ms at 99 % beside 2,000 updates/s. Clients ask again at once, but for one that asks 100 times "
        "a second.",
    )
    for updates, clients, rate in ((None, 1, None), (None, 8, None), (2000, 1, 100), (2000, 1, None), (2000, 8, None)):
        updating = askers(port, 64, _update, updates) if updates else []
        asking = askers(port, clients, _ask, rate)
        took = let_ask([*asking, *updating], seconds)
        rates = _rate(updating, took), _rate(asking, took)
        table.rows.append([clients, *rates, _at(asking, 0.5), _at(asking, 0.99)])
    return table


def _resident(pid: int) -> int:
    """The memory of a process, where the system tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


async def _subscribers_table(port: int, pid: int, count: int) -> Table:
    table = Table(
        f"{count:,} subscribers: from the request of an update to the event at the last one",
        ["subscribed to", "told", "median ms", "most ms", "kB per subscriber"],
        note="Wanted: 100 ms, and 50 kB for one that is idle.",
    )
    cases: dict[str, Callable[[int], str]] = {
        "one query: reading(7,V)": lambda number: "reading(7,V)",
        "different ones: reading($s,V)": lambda number: f"reading({number},V)",
    }
    value = 1000  # that no sensor has read before
    for title, query in cases.items():
        before = _resident(pid)
        streams = [await Client.connect(port) for _ in range(count)]
        await asyncio.gather(*(stream.subscribe(query(number)) for number, stream in enumerate(streams)))
        memory = (_resident(pid) - before) / count / 1000
        times: list[float] = []
        updater = await Client.connect(port)
        for _ in range(COMMITS):
            value += 1
            rows = [[sensor, value] for sensor in range(count)]
            began = time.perf_counter()
            told = asyncio.gather(*(stream.read_until(b"event: change") for stream in streams))
            await updater.post("/update?rows=0", {"add": {"reading": rows}})
            await told
            times.append(time.perf_counter() - began)
        table.rows.append([title, count, 1e3 * median(times), 1e3 * max(times), memory])
        for stream in (*streams, updater):
            stream.close()
        await asyncio.sleep(1.0)
    return table


def _measured(port: int, pid: int, options: Options) -> list[Table]:
    seconds = 1.0 if options.quick else 5.0
    # The first requests of a process compile plans and fill caches.
    let_ask(askers(port, 8, _update), 0.5)
    let_ask(askers(port, 8, _ask), 0.5)
    subscribers = 200 if options.quick else SUBSCRIBERS
    options.progress("subscribers")
    told = asyncio.run(_subscribers_table(port, pid, subscribers))
    options.progress("updates")
    updates = _updates_table(port, seconds)
    options.progress("queries")
    return [updates, _queries_table(port, seconds), told]


def run(options: Options) -> Report:
    """`tidelog bench server`"""
    # Here, where the disk is that of the user: temporary files may be in memory.
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        with serving(folder) as (port, pid):
            tables = _measured(port, pid, options)
        tables.append(_start_table(folder))
    return Report("A server over loopback, its clients in one other process", tables)
