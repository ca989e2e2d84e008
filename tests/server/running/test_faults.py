"""What befalls a server: it is killed, its disk is full, readers do not read. Nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
import resource
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

import tidelog
from server_util import Picture, ServerProcess, events, next_of, served, subscribed
from soaking import soak_seconds, tell
from tidelog import KnowledgeBase
from tidelog.storage.home import read_current
from tidelog.storage.journal import read_journal

KILLS = 100 if soak_seconds() else 2
PAUSE = 0.02  # seconds between two updates of a client: each start does the whole journal again
QUERY = "pair(X, Y)"
PROGRAM = "pair(X, Y) :- item(X), item(Y), X < Y, Y < X + 3.  @predicate item/1."


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Load:
    """Clients that retry until they are answered, and subscribers that come back until they are told to stop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stopping = threading.Event()
        self.done = threading.Event()
        self.items: dict[int, set[int]] = {}
        self.acknowledged: dict[str, int] = {}
        self.pictures = [Picture(), Picture()]
        self.last = 0
        writers = [threading.Thread(target=self._write, args=(client,), daemon=True) for client in range(3)]
        readers = [threading.Thread(target=self._read, args=(picture,), daemon=True) for picture in self.pictures]
        self.writers, self.readers = writers, readers
        for thread in (*writers, *readers):
            thread.start()

    def _write(self, client: int) -> None:
        chance, mine, number = random.Random(client), set[int](), 0
        self.items[client] = mine
        with httpx.Client(base_url=self.url, timeout=5) as http:
            while not self.stopping.is_set():
                number += 1
                value = 3 * chance.randrange(60) + client
                gone = value in mine
                update = {"delete" if gone else "add": {"item": [[value]]}}
                key = f"{client}-{number}"
                self.acknowledged[key] = self._until_answered(http, update, key)
                (mine.discard if gone else mine.add)(value)
                time.sleep(PAUSE)

    def _until_answered(self, http: httpx.Client, update: object, key: str) -> int:
        while True:
            try:
                response = http.post("/update?rows=0", json=update, headers={"Idempotency-Key": key})
                if response.status_code == 200:
                    return int(response.json()["update"])
                assert response.status_code == 503, response.text
            except httpx.HTTPError:
                pass
            time.sleep(0.02)

    def _read(self, picture: Picture) -> None:
        while not self.done.is_set():
            headers = {"Last-Event-ID": str(picture.update)} if picture.update >= 0 else {}
            try:
                with httpx.stream(
                    "GET", f"{self.url}/subscribe", params={"query": QUERY}, headers=headers, timeout=5
                ) as response:
                    for event in events(response.iter_lines()):
                        assert event[0] != "reset"
                        picture.take(event)
                        if self.done.is_set() and picture.update >= self.last:
                            return
            except httpx.HTTPError:
                time.sleep(0.02)


def keys_in_journal(store: Path) -> list[str]:
    """The keys of all updates that the journal holds."""
    found: list[str] = []
    for payload in read_journal(read_current(store).journal(store)).payloads:
        found += [key for key, _ in json.loads(json.loads(payload)["commit"].get("keys", "[]"))]
    return found


def test_killed_again_and_again_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    store, port = tmp_path / "store", free_port()
    options = ("--listen", f"127.0.0.1:{port}", "--compact", str(1 << 30))  # so that the journal has everything
    server = ServerProcess(store, *options, program=PROGRAM)
    load = Load(f"http://127.0.0.1:{port}")
    try:
        for number in range(KILLS):
            time.sleep(0.3 + 0.1 * (number % 3))
            server.kill()
            server = ServerProcess(store, *options, program=PROGRAM)
        time.sleep(0.3)
    except BaseException:
        server.kill()
        raise
    finally:
        load.stopping.set()
    for writer in load.writers:
        writer.join(60)
    with httpx.Client(base_url=load.url, timeout=60) as http:
        # A last update, so that every subscriber hears of the end.
        load.last = http.post("/update", json={"add": {"end": [[1]]}}).json()["update"]
        load.done.set()
        facts = {json.dumps(row) for row in http.post("/query", json={"query": QUERY, "limit": 10_000}).json()["rows"]}
        items = {row[0] for row in http.post("/query", json={"query": "item(X)", "limit": 10_000}).json()["rows"]}
    for reader in load.readers:
        reader.join(60)
    server.kill()
    assert items == set().union(*load.items.values())
    for picture in load.pictures:
        assert picture.update == load.last
        assert picture.rows == facts
    times = Counter(keys_in_journal(store))
    assert set(times.values()) <= {1}, "an update was made twice"
    assert load.acknowledged.keys() <= times.keys(), "an acknowledged update is missing"
    with KnowledgeBase.open(store) as kb:
        assert {json.dumps(list(row)) for row in kb.facts("pair")} == facts
    tell("kills of a server", KILLS)


def test_numbers_keys_and_undo_survive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    store, key = tmp_path / "store", {"Idempotency-Key": "k"}
    update = {"add": {"edge": [["c", "d"]]}}
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        first = http.post("/update", json=update, headers=key).json()["update"]
        http.post("/update", json={"add_rules": "twice(X) :- edge(X, _)."})
        assert server.stop() == 0
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/health").json()["update"] == first + 1
        again = http.post("/update", json=update, headers=key).json()
        assert (again["repeated"], again["update"]) == (True, first)
        with subscribed(server.url, last=first - 1, query="path(c, X)") as stream:
            assert next(stream)[2]["added"] == [["d"]]
        assert http.post("/undo", json={}).json()["undone"] == first + 1
        assert http.post("/save", json={}).json()["update"] == first + 2
        server.kill()
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/health").json()["update"] == first + 2
        assert http.post("/update", json=update, headers=key).json()["repeated"]
        with subscribed(server.url, last=first - 1, query="path(c, X)") as stream:
            assert next(stream)[2]["added"] == [["d"]], "what was before the snapshot is kept"
        with subscribed(server.url, last=first, query="twice(X)") as stream:
            assert next(stream)[0] == "progress"
        server.kill()
    (store / "server-history.json").unlink()
    with served(store) as server, subscribed(server.url, last=first, query="path(c, X)") as stream:
        kind, _, data = next(stream)
        assert (kind, data["update"]) == ("reset", first + 2)
        assert "reaches back" in data["reason"]
        assert next(stream)[2]["rows"] == [["d"]]
        with subscribed(server.url, "/updates", last=first) as commits:
            assert next(commits)[0] == "reset"


def test_a_long_journal_becomes_a_snapshot_and_nobody_notices(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with served(store, "--compact", "2000") as server, httpx.Client(base_url=server.url, timeout=60) as http:
        with subscribed(server.url, query="edge(a, X)") as stream:
            picture = Picture()
            picture.take(next(stream))
            for number in range(30):
                update, key = {"add": {"edge": [["a", f"n{number}"]]}}, {"Idempotency-Key": str(number)}
                last = http.post("/update", json=update, headers=key).json()["update"]
            while picture.update < last:
                picture.take(next(stream))
            assert len(picture.rows) == 31
        assert http.get("/statistics").json()["journal"]["bytes"] <= 2500
        with subscribed(server.url, last=last - 20, query="edge(a, X)") as stream:
            assert len(next(stream)[2]["added"]) == 20, "what was before the snapshot is still known"
        server.kill()
    with served(store) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/health").json()["update"] == last
        again = http.post("/update", json={"add": {"edge": [["a", "n0"]]}}, headers={"Idempotency-Key": "0"}).json()
        assert again["repeated"]


def test_a_query_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", "--timeout", "1") as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        http.post("/update?rows=0", json={"add": {"n": [[number] for number in range(3000)]}})
        refused = http.post("/query", json={"query": "n(A), n(B), n(C), A + B + C = -1"})
        assert (refused.status_code, refused.json()["limit"]["name"]) == (422, "timeout")
        assert http.get("/health").status_code == 200


def test_an_update_that_derives_too_much_is_refused_with_the_limit_that_it_reached(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", "--max-facts", "1000") as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        refused = http.post("/update", json={"add_rules": "up(X + 1) :- up(X).", "add": {"up": [[0]]}})
        assert (refused.status_code, refused.json()["limit"]["name"]) == (422, "max_facts")
        with tidelog.connect(server.url) as kb, pytest.raises(tidelog.LimitError) as error:
            kb.update(add={"up": [(number,) for number in range(2000)]})
        assert error.value.limit == "max_facts"


def test_a_query_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", "--max-matches", "100000") as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        http.post("/update?rows=0", json={"add": {"n": [[number] for number in range(1000)]}})
        every = {"query": "n(A), n(B), n(C)", "whole": True}
        refused = http.post("/query", json=every)
        assert (refused.status_code, refused.json()["limit"]["name"]) == (422, "max_matches")
        assert http.post("/query", json=every | {"whole": False}).json()["more"], "the first ones are found"
        assert http.post("/query", json={"query": "n(A), n(B), A + B < 100", "whole": True}).json()["total"] == 5050
        more = http.post("/update?rows=0", json={"add_rules": "wide(A, count(B)) :- n(A), n(B), A < 200."})
        assert more.json()["change"]["added"]["wide"]["count"] == 200, "updates have limits of their own"


def test_sigterm_ends_streams_and_leaves_no_lock(tmp_path: Path) -> None:
    with served(tmp_path / "store") as server, subscribed(server.url, query="path(a, X)") as stream:
        assert next(stream)[0] == "snapshot"
        assert server.stop() == 0, "although a stream is open"
        assert next_of(stream, "error")[2]["detail"] == "the server is closing; connect again"
    with KnowledgeBase.open(tmp_path / "store", journal=True) as kb:
        assert len(kb.facts("edge")) == 2


def test_a_full_disk_refuses_updates_and_nothing_else(tmp_path: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with (
        served(tmp_path / "store", before=little_room) as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        refused = http.post("/update", json={"add": {"edge": [[f"n{i}", "x" * 50] for i in range(2000)]}})
        assert refused.status_code == 507
        assert refused.json()["type"] == "/problems/storage"
        assert http.post("/query", json={"query": "edge(X, Y)"}).json()["total"] == 2
        assert http.post("/update", json={"add": {"edge": [["c", "d"]]}}).status_code == 200
        assert server.stop() == 0
    with KnowledgeBase.open(tmp_path / "store") as kb:
        assert len(kb.facts("edge")) == 3


def test_a_reader_who_does_not_read_is_bounded_and_then_ended(tmp_path: Path) -> None:
    options = ("--max-backlog", "20000", "--stall", "2")
    with (
        served(tmp_path / "store", *options) as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
        socket.socket() as idle,
    ):
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.connect(("127.0.0.1", server.port))
        idle.sendall(b"GET /subscribe?query=wide(X) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for number in range(30):
            rows = [[f"{number}-{row}-{'x' * 500}"] for row in range(200)]
            http.post("/update?rows=0", json={"add": {"wide": rows}})
        deadline = time.monotonic() + 60
        while http.get("/statistics").json()["subscriptions"]["streams"] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert http.get("/statistics").json()["subscriptions"] == {"streams": 0, "queries": 0}


def test_a_slow_reader_gets_the_net_difference(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", "--max-backlog", "20000") as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
        subscribed(server.url, query="wide(X)") as stream,
    ):
        picture = Picture()
        picture.take(next(stream))
        for number in range(40):
            rows = [[f"{number}-{row}-{'x' * 500}"] for row in range(200)]
            last = http.post("/update?rows=0", json={"add": {"wide": rows}}).json()["update"]
            if number % 2:
                last = http.post("/update?rows=0", json={"delete": {"wide": rows}}).json()["update"]
        while picture.update < last:
            picture.take(next(stream))
        assert len(picture.rows) == 20 * 200


def test_streams_are_bounded_in_number(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", "--max-subscriptions", "2") as server,
        subscribed(server.url, query="edge(a, X)") as one,
        subscribed(server.url, query="edge(b, X)") as two,
    ):
        assert next(one)[0] == next(two)[0] == "snapshot"
        refused = httpx.get(f"{server.url}subscribe", params={"query": "edge(a, X)"}, timeout=60)
        assert refused.status_code == 429
        assert refused.json()["limit"] == {"name": "max_subscriptions", "value": 2}
