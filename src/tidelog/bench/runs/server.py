"""A server and its clients on one machine: updates, queries beside them, and subscribers.

The server is a process of its own, with a journal that is forced to disk at every commit; this process is all clients,
over loopback, but for those who update beside queries. They speak HTTP by hand: a client library would take more time
than the server does.
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
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from tidelog.bench.options import Options
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


@dataclass
class Latencies:
    """How long each of many requests took."""

    seconds: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Client:
    """A connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def post(self, path: str, content: object) -> bytes:
        """The body of the answer."""
        body = json.dumps(content).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        return await self._exchange(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def get(self, path: str) -> bytes:
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def _exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        if not head.startswith(b"HTTP/1.1 200"):
            raise TidelogError(f"the server refused: {head[:40]!r} {body[:200]!r}")
        return body

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


async def _for_a_while(
    clients: int, seconds: float, port: int, request: Callable[[Client, int], Awaitable[object]]
) -> Latencies:
    """Requests of several clients, each one after the other."""
    found = Latencies()
    connections = [await Client.connect(port) for _ in range(clients)]
    end = time.perf_counter() + seconds

    async def run(client: Client, number: int) -> None:
        count = number
        while time.perf_counter() < end:
            began = time.perf_counter()
            await request(client, count)
            found.seconds.append(time.perf_counter() - began)
            count += clients

    await asyncio.gather(*(run(client, number) for number, client in enumerate(connections)))
    for client in connections:
        client.close()
    return found


async def _update(client: Client, number: int) -> object:
    """One small update: a reading comes, and the one before goes."""
    sensor, value = number % SUBSCRIBERS, number % 97
    body = {"add": {"reading": [[sensor, value]]}, "delete": {"reading": [[sensor, (value - 1) % 97]]}}
    return await client.post("/update?rows=0", body)


async def _ask(client: Client, number: int) -> object:
    return await client.post("/query", {"query": "may($u, A)", "parameters": {"u": f"u{number % USERS}"}})


async def _updates_table(port: int, seconds: float) -> Table:
    table = Table(
        "Small updates, each journalled and forced to disk before its answer",
        ["clients", "updates/s", "median ms", "99 % ms", "updates per commit"],
        note="Wanted: 2,000 updates/s.",
    )
    teller = await Client.connect(port)
    for clients in CLIENTS:
        before = json.loads(await teller.get("/statistics"))["updates"]
        began = time.perf_counter()
        found = await _for_a_while(clients, seconds, port, _update)
        rate = len(found.seconds) / (time.perf_counter() - began)
        after = json.loads(await teller.get("/statistics"))["updates"]
        together = (after["requests"] - before["requests"]) / max(1, after["commits"] - before["commits"])
        table.rows.append([clients, round(rate), 1e3 * found.at(0.5), 1e3 * found.at(0.99), together])
    return table


async def _queries_table(port: int, seconds: float) -> Table:
    table = Table(
        "Point queries, may($u, A), alone and beside updates of 64 clients",
        ["clients", "updates/s beside", "queries/s", "median ms", "99 % ms"],
        note="Wanted: 5 ms at 99 % beside 2,000 updates/s.",
    )
    for clients in (1, 8):
        alone = await _for_a_while(clients, seconds, port, _ask)
        table.rows.append(
            [clients, 0, round(len(alone.seconds) / seconds), *(1e3 * alone.at(at) for at in (0.5, 0.99))]
        )
    loop = asyncio.get_running_loop()
    # Another process: here, queries would wait while the answers of updates are read.
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        await loop.run_in_executor(beside, _paced_updates, port, 0.1)
        for clients in (1, 8):
            updates, queries = await asyncio.gather(
                loop.run_in_executor(beside, _paced_updates, port, seconds),
                _for_a_while(clients, seconds, port, _ask),
            )
            rates = round(updates / seconds), round(len(queries.seconds) / seconds)
            table.rows.append([clients, *rates, *(1e3 * queries.at(at) for at in (0.5, 0.99))])
    return table


def _paced_updates(port: int, seconds: float) -> int:
    """How many updates 64 clients get through who want to make 2,000 a second."""
    return len(asyncio.run(_for_a_while(64, seconds, port, _paced(2000 / 64))).seconds)


def _paced(rate: float) -> Callable[[Client, int], Awaitable[object]]:
    """Updates of a client, so many a second."""

    async def update(client: Client, number: int) -> object:
        began = time.perf_counter()
        answer = await _update(client, number)
        await asyncio.sleep(max(0.0, 1 / rate - (time.perf_counter() - began)))
        return answer

    return update


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


async def _measured(port: int, pid: int, options: Options) -> list[Table]:
    seconds = 1.0 if options.quick else 5.0
    # The first requests of a process compile plans and fill caches.
    await _for_a_while(8, 0.5, port, _update)
    await _for_a_while(8, 0.5, port, _ask)
    subscribers = 200 if options.quick else SUBSCRIBERS
    options.progress("subscribers")
    told = await _subscribers_table(port, pid, subscribers)
    options.progress("updates")
    updates = await _updates_table(port, seconds)
    options.progress("queries")
    return [updates, await _queries_table(port, seconds), told]


def run(options: Options) -> Report:
    """`tidelog bench server`"""
    # Here, where the disk is that of the user: temporary files may be in memory.
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        with serving(folder) as (port, pid):
            tables = asyncio.run(_measured(port, pid, options))
        tables.append(_start_table(folder))
    return Report("A server over loopback, its clients in one other process", tables)
