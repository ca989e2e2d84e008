"""Connections that are kept waiting: requests that never end, readers who take nothing, what is no request at all."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from server_util import ServerProcess, served

STALL = 1.5
HEAD = b"POST /update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with served(tmp_path_factory.mktemp("connections") / "store", "--stall", str(STALL)) as server:
        yield server
        assert httpx.get(f"{server.url}health", timeout=60).status_code == 200
        assert server.stop() == 0
        assert not [line for line in server.log if line["level"] == "error"]


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 60)


def answer_to(peer: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    found = b""
    while piece := peer.recv(1 << 16):
        found += piece
    return found


def problem_of(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    found: dict[str, object] = json.loads(body)
    return found


@pytest.mark.parametrize("sent", [b"\x00\xff\xfe", HEAD + b"Content-Length: -5\r\n\r\n", b"OPTIONS * HTTP/9.9\r\n\r\n"])
def test_what_is_no_request_is_refused_with_a_problem(server: ServerProcess, sent: bytes) -> None:
    with connected(server) as peer:
        peer.sendall(sent)
        problem = problem_of(answer_to(peer))
    assert problem["status"] == 400
    assert problem["type"] == "/problems/bad-request"


def test_a_head_without_an_end_is_refused(server: ServerProcess) -> None:
    with connected(server) as peer:
        peer.sendall(HEAD)
        time.sleep(STALL / 4)  # What comes with the first piece may be of other requests, and is not counted.
        peer.sendall((b"X-More: " + b"x" * 4000 + b"\r\n") * 17)
        problem = problem_of(answer_to(peer))
    assert problem["status"] == 431
    assert problem["limit"] == {"name": "head", "value": 65_536}


@pytest.mark.parametrize("beyond", [True, False])
def test_a_head_that_comes_in_one_piece_has_the_same_limit(server: ServerProcess, beyond: bool) -> None:
    """A request that is refused for it changes nothing."""
    body = b'{"add": {"headed": [["body"]]}}'
    more = b"X-More: " + b"x" * (70_000 if beyond else 60_000) + b"\r\n"
    with connected(server) as peer:
        peer.sendall(HEAD + more + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = answer_to(peer)
    assert answer.startswith(b"HTTP/1.1 431" if beyond else b"HTTP/1.1 200")
    if beyond:
        assert problem_of(answer)["limit"] == {"name": "head", "value": 65_536}
        assert httpx.get(f"{server.url}facts/headed").status_code == 404


@pytest.mark.parametrize("sent", [HEAD, HEAD + b'Content-Length: 500\r\n\r\n{"add"'], ids=["head", "body"])
def test_half_a_request_is_not_waited_for(server: ServerProcess, sent: bytes) -> None:
    with connected(server) as peer:
        peer.sendall(sent)
        problem = problem_of(answer_to(peer))
    assert problem["status"] == 408
    assert problem["limit"] == {"name": "stall", "value": STALL}


def test_who_says_nothing_is_hung_up_on(server: ServerProcess) -> None:
    with connected(server) as peer:
        assert answer_to(peer) == b""


def test_a_slow_body_has_its_time(server: ServerProcess) -> None:
    body = b'{"add": {"slow": [["body"]]}}'
    with connected(server) as peer:
        peer.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for place in range(0, len(body), 4):  # in eight pieces, far longer than `STALL` in all
            time.sleep(STALL / 5)
            peer.sendall(body[place : place + 4])
        assert answer_to(peer).startswith(b"HTTP/1.1 200")


def test_an_answer_that_nobody_takes_is_given_up(server: ServerProcess) -> None:
    rows = [[f"{number}-{'x' * 1000}"] for number in range(8000)]
    with httpx.Client(base_url=server.url, timeout=60) as http:
        http.post("/update?rows=0", json={"add": {"long": rows}})
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(60)
        peer.connect(("127.0.0.1", server.port))
        peer.sendall(b"GET /facts/long?limit=8000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(3 * STALL)
        taken = 0
        with suppress(ConnectionResetError):
            while piece := peer.recv(1 << 20):
                taken += len(piece)
        assert taken < 8_000_000


def test_answers_say_the_same_however_they_are_written(server: ServerProcess) -> None:
    """Usual ones are written at once; where the connection ends, or somebody else waits for his answer, they are not.
    Two requests that come together get their answers in order.
    """

    def said(answer: bytes) -> tuple[list[bytes], bytes]:
        head, _, body = answer.partition(b"\r\n\r\n")
        return sorted(line for line in head.split(b"\r\n") if not line.startswith((b"date:", b"connection:"))), body

    def asked(*requests: bytes) -> list[bytes]:
        with connected(server) as peer:
            peer.sendall(b"".join(requests))
            return [b"HTTP/1.1" + part for part in answer_to(peer).split(b"HTTP/1.1")[1:]]

    head = b"Host: 127.0.0.1\r\n"
    last = b"GET /health HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n"
    health, query = b"GET /health HTTP/1.1\r\n" + head + b"\r\n", b'{"query": "nothing(X)"}'
    asking = b"POST /query HTTP/1.1\r\n" + head + b"Content-Length: %d\r\n\r\n%b" % (len(query), query)
    first, second, third, end = asked(health, asking, b"HEAD /health HTTP/1.1\r\n" + head + b"\r\n", last)
    with connected(server) as peer:
        peer.sendall(health)
        alone = peer.recv(1 << 16)  # all of it, since it is written at once
    assert said(alone) == said(first) == said(end)
    assert said(third) == (said(end)[0], b"")
    assert json.loads(said(second)[1])["rows"] == []
    assert b"content-security-policy" in alone
