"""The server over real sockets: questions, updates, formats, pages, problems. One server for all of it."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from server_util import ServerProcess, next_of, served, subscribed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("served")
    with served(folder / "store", "--max-answers", "500", "--max-body", "200000") as found:
        yield found
        assert found.stop() == 0
        assert not [line for line in found.log if line["level"] not in ("info", "warning")]


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


def asked(http: httpx.Client, query: str, **more: Any) -> Any:
    response = http.post("/query", json={"query": query, **more})
    assert response.status_code == 200, response.text
    return response.json()


def updated(http: httpx.Client, **update: Any) -> Any:
    response = http.post("/update", json=update)
    assert response.status_code == 200, response.text
    return response.json()


def refused(response: httpx.Response, status: int, kind: str) -> Any:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == f"/problems/{kind}"
    assert problem["status"] == status
    return problem


def test_a_query_has_parameters_that_are_never_parsed(http: httpx.Client) -> None:
    found = asked(http, "path($from, X)", parameters={"from": "a"})
    assert found["variables"] == ["X"]
    assert sorted(found["rows"]) == [["b"], ["c"]]
    hostile = asked(http, "path($from, X)", parameters={"from": 'a"), edge(X, Y'})
    assert hostile["rows"] == []
    assert asked(http, "path(a, c)")["rows"] == [[]]


def test_an_update_tells_what_it_changed_and_its_number_grows(http: httpx.Client) -> None:
    first = updated(http, add={"edge": [["m", "n"]]})
    assert first["change"]["added"]["path"] == {"count": 1, "rows": [["m", "n"]]}
    second = updated(http, delete={"edge": [["m", "n"]]})
    assert second["update"] == first["update"] + 1
    assert second["change"]["removed"]["path"]["count"] == 1
    assert updated(http, add="edge(m, n).")["change"]["added"]["edge"]["count"] == 1
    assert updated(http, delete={"edge": [["m", "n"]]}, alone=True)["together"] == 1


def test_a_retry_with_the_same_key_is_applied_once(http: httpx.Client) -> None:
    update = {"add": {"counter": [[1]]}}
    first = http.post("/update", json=update, headers={"Idempotency-Key": "one"}).json()
    updated(http, delete={"counter": [[1]]})
    again = http.post("/update", json=update, headers={"Idempotency-Key": "one"}).json()
    assert again["repeated"]
    assert again["update"] == first["update"]
    assert asked(http, "counter(X)")["rows"] == []
    other = http.post("/update", json={"add": {"counter": [[2]]}}, headers={"Idempotency-Key": "one"})
    refused(other, 409, "conflict")


def test_updates_that_are_committed_together_are_all_answered(server: ServerProcess) -> None:
    async def send() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(base_url=server.url, timeout=30, limits=httpx.Limits(max_connections=40)) as http:
            bodies = [{"add": {"together": [[number]]}} for number in range(40)]
            answers = await asyncio.gather(*(http.post("/update?rows=50", json=body) for body in bodies))
            assert {answer.status_code for answer in answers} == {200}
            return [answer.json() for answer in answers]

    answers = asyncio.run(send())
    for number, answer in enumerate(answers):
        assert [number] in answer["change"]["added"]["together"]["rows"]
        assert answer["change"]["added"]["together"]["count"] == answer["together"]
    commits = {answer["update"]: answer["together"] for answer in answers}
    assert sum(commits.values()) == 40


def test_all_formats_hold_the_same_rows(http: httpx.Client) -> None:
    query = {"query": "path(a, X)"}
    lines = http.post("/query", json=query, headers={"Accept": "application/x-ndjson"})
    assert sorted(map(json.loads, lines.text.splitlines())) == [["b"], ["c"]]
    assert lines.headers["tidelog-total"] == "2"
    table = http.post("/query", json=query, headers={"Accept": "text/csv"}).text.splitlines()
    assert table[0] == "X"
    assert sorted(table[1:]) == ["b", "c"]
    arrow = http.post("/query", json=query, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert sorted(pa.ipc.open_stream(arrow.content).read_all()["X"].to_pylist()) == ["b", "c"]
    refused(http.post("/query", json=query, headers={"Accept": "image/png"}), 406, "not-acceptable")


def test_arrow_and_lines_come_in_as_bulk(http: httpx.Client) -> None:
    table = pa.table({"x": [f"n{number}" for number in range(700)], "y": list(range(700))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    response = http.post("/update?predicate=bulk&rows=0", content=sink.getvalue().to_pybytes(), headers=headers)
    assert response.json()["change"]["added"]["bulk"]["count"] == 700
    lines = '{"add": {"line": [[1]]}}\n{"delete": {"line": [[1]]}}\n{"add": {"line": [[2]]}}\n'
    response = http.post("/update", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert response.json()["change"]["added"] == {"line": {"count": 1, "rows": [[2]]}}
    refused(http.post("/update", content=b"x", headers=headers), 400, "bad-request")


def test_a_predicate_is_one_however_it_is_spelt(http: httpx.Client) -> None:
    """Of the lines of one body, the last operation on a fact counts."""
    updated(http, add_rules="@prefix ex: <http://example.org/> .")
    names = ("ex:spelt", "<http://example.org/spelt>")
    lines = [{side: {name: [[names.index(name)]]}} for side in ("add", "delete") for name in names]
    lines += [{"add": {names[0]: [[2]]}}, {"delete": {names[1]: [[2]]}}, {"delete": {names[0]: [[3]]}}]
    lines += [{"add": {names[1]: [[3]]}}]
    content = "\n".join(map(json.dumps, lines))
    response = http.post("/update", content=content, headers={"Content-Type": "application/x-ndjson"})
    assert response.json()["change"]["added"] == {"ex:spelt": {"count": 1, "rows": [[3]]}}


def test_pages_follow_each_other_and_have_every_row_once(http: httpx.Client) -> None:
    updated(http, add={"wide": [[number, number % 7] for number in range(430)]})
    query = {"query": "wide(X, Y)", "limit": 100, "whole": True}
    for first, follow in (
        ("/facts/wide?limit=100", lambda cursor: http.get(f"/facts/wide?limit=100&cursor={cursor}")),
        ("", lambda cursor: http.post("/query", json={**query, "cursor": cursor})),
    ):
        found = http.get(first) if first else http.post("/query", json=query)
        rows, pages = found.json()["rows"], 1
        while (cursor := found.json()["next"]) is not None:
            found = follow(cursor)
            rows += found.json()["rows"]
            pages += 1
        assert pages == 5
        assert sorted(rows) == [[number, number % 7] for number in range(430)]
    closure = http.get("/facts/path?limit=2").json()
    assert closure["total"] >= 3
    assert len(http.get(f"/facts/path?limit=2&cursor={closure['next']}").json()["rows"]) >= 1
    assert http.get("/facts/wide", params={"where": '{"0": 12}'}).json()["rows"] == [[12, 5]]
    assert http.get("/facts/wide", params={"filter": "429"}).json()["rows"] == [[429, 2]]
    refused(http.get("/facts/nothing_like_that"), 404, "not-found")
    refused(http.get("/facts/wide?cursor=xyz"), 400, "bad-request")


def test_a_limit_ends_the_search_for_answers(http: httpx.Client) -> None:
    updated(http, add={"many": [[number, number % 7] for number in range(450)]})
    found = asked(http, "many(X, A), many(Y, B), many(Z, C)", limit=20)  # 91 million answers, which nobody counts
    assert (len(found["rows"]), found["more"], found["total"], found["next"]) == (20, True, None, None)
    assert len({json.dumps(row) for row in found["rows"]}) == 20
    once = asked(http, "many(_, C)", limit=7)
    assert sorted(once["rows"]) == [[rest] for rest in range(7)]
    assert (once["more"], once["total"]) == (False, 7)
    assert asked(http, "many(_, C)", limit=6)["more"]
    lines = http.post("/query", json={"query": "many(X, Y)", "limit": 3}, headers={"Accept": "application/x-ndjson"})
    assert (len(lines.text.splitlines()), lines.headers["tidelog-more"]) == (3, "true")
    assert "tidelog-total" not in lines.headers


def test_a_query_that_was_short_may_become_long(http: httpx.Client) -> None:
    query = "many(X, A), few(B), A < B"
    updated(http, add={"few": [[1]]})
    for _ in range(3):
        assert asked(http, query)["total"] == 65
    updated(http, add={"few": [[number] for number in range(450)]})
    for _ in range(3):
        assert asked(http, query, limit=10)["more"]
        assert len(asked(http, query, whole=True)["rows"]) == 500
    updated(http, delete={"few": [[number] for number in range(450)]})
    assert asked(http, query)["rows"] == []


def test_pages_of_the_whole_are_of_one_state(http: httpx.Client) -> None:
    updated(http, add={"turned": [[number] for number in range(10)]})
    first = asked(http, "turned(X)", limit=6, whole=True)
    assert (first["total"], first["more"]) == (10, True)
    updated(http, delete={"turned": [[number] for number in range(10)]})
    second = asked(http, "turned(X)", limit=6, whole=True, cursor=first["next"])
    assert sorted(first["rows"] + second["rows"]) == [[number] for number in range(10)]
    assert (second["update"], second["next"], second["more"]) == (first["update"], None, False)
    body = {"query": "turned(X)", "cursor": first["next"]}
    assert "whole" in refused(http.post("/query", json=body), 400, "bad-request")["detail"]
    for _ in range(64):
        asked(http, "many(X, _)", limit=1, whole=True)
    body["whole"] = True
    assert "first page" in refused(http.post("/query", json=body), 410, "gone")["detail"]


def test_every_refusal_names_its_limit(http: httpx.Client) -> None:
    problem = refused(http.post("/query", json={"query": "edge(X, Y)", "limit": 501}), 422, "limit")
    assert problem["limit"] == {"name": "max_answers", "value": 500}
    problem = refused(http.post("/update", json={"add": {"text": [["x" * 200_000]]}}), 413, "too-large")
    assert problem["limit"] == {"name": "max_body", "value": 200_000}
    problem = refused(http.get("/subscribe", params={"query": "bulk(X, Y)"}), 422, "limit")
    assert problem["limit"]["name"] == "max_answers"


def test_mistakes_in_texts_have_their_places(http: httpx.Client) -> None:
    problem = refused(http.post("/query", json={"query": "edge(X Y)"}), 422, "parse-error")
    assert problem["mistakes"][0]["line"] == 1
    assert problem["mistakes"][0]["column"] == 8
    refused(http.post("/update", json={"add_rules": "p(X) :- edge(Y, Z)."}), 422, "unsafe-rule")
    refused(http.post("/update", json={"add": {"edge": [["a"]]}}), 422, "arity")
    refused(http.post("/update", json={"add_rules": "q(X) :- node(X), not q(X)."}), 422, "stratification")
    refused(http.post("/update", json={"remove_rules": "q(X) :- node(X)."}), 422, "unknown-rule")
    refused(http.post("/update", json={"add_rules": ":- edge(X, Y)."}), 422, "constraint")
    refused(http.post("/update", json={"add": {"edge": [["a", None]]}}), 422, "data")
    refused(http.post("/update", json={"ad": {}}), 422, "data")
    refused(http.post("/query", content=b"{", headers={"Content-Type": "application/json"}), 400, "bad-request")
    refused(http.post("/query", content=b"<a/>", headers={"Content-Type": "text/xml"}), 415, "unsupported-media-type")
    refused(http.get("/nowhere"), 404, "not-found")
    refused(http.put("/query"), 405, "method-not-allowed")
    checked = http.post("/check", json={"text": "p(X) :- edge(X, Y).\np(X) :- edge(X Y)."}).json()
    assert not checked["ok"]
    assert (checked["mistakes"][0]["line"], checked["mistakes"][0]["severity"]) == (2, "error")
    assert http.post("/check", json={"text": "p(X) :- edge(X, Y)."}).json()["ok"]
    assert http.post("/check", json={"text": "edge($x, Y)", "as": "query"}).json()["ok"]


def test_proofs_of_what_holds_of_what_does_not_and_of_what_went(http: httpx.Client) -> None:
    proof = http.post("/explain", json={"fact": ["path", "a", "c"]}).json()["proofs"][0]
    assert proof["steps"][0]["fact"] == "path(a, c)"
    assert {step["fact"] for step in proof["steps"]} == {"path(a, c)", "path(a, b)", "edge(a, b)", "edge(b, c)"}
    assert http.post("/explain", json={"fact": "path(c, a)"}).json() | {"update": 0} == {
        "update": 0,
        "fact": "path(c, a)",
        "holds": False,
        "proofs": [],
    }
    assert http.post("/why-not", json={"fact": "path(c, a)"}).json()["missing"] == ["edge(c, a)"]
    updated(http, add={"edge": [["c", "q"]]})
    gone = updated(http, delete={"edge": [["c", "q"]]})["update"]
    updated(http, add={"other": [[1]]})
    found = http.post("/explain-change", json={"fact": "path(a, q)"}).json()
    assert (found["update"], found["came"], found["leaves"]) == (gone, False, ["edge(c, q)"])
    came = http.post("/explain-change", json={"fact": "path(a, q)", "update": gone - 1}).json()
    assert (came["came"], came["leaves"]) == (True, ["edge(c, q)"])
    refused(http.post("/explain-change", json={"fact": "path(a, nowhere)"}), 404, "not-found")
    other = refused(http.post("/explain-change", json={"fact": "path(a, nowhere)", "update": gone}), 404, "not-found")
    assert other["detail"] == f"commit {gone} did not change path(a, nowhere), or is out of reach"


def test_rules_are_tried_replaced_and_taken_back(http: httpx.Client) -> None:
    before = http.get("/rules").json()
    rule = "back(Y, X) :- edge(X, Y)."
    tried = http.post("/what-if", json={"add_rules": rule}).json()
    assert tried["change"]["added"]["back"]["count"] == 2
    assert tried["rules"] == {"added": [rule], "removed": []}
    assert http.get("/rules").json()["rules"] == before["rules"]
    made = updated(http, replace_rules=before["text"] + rule)
    assert made["change"]["added"]["back"]["count"] == 2
    assert http.get("/rules").json()["undo"] == {"update": made["update"], "added": [rule], "removed": []}
    undone = http.post("/undo", json={}).json()
    assert undone["undone"] == made["update"]
    assert http.get("/rules").json()["text"] == before["text"]
    refused(http.post("/undo", json={}), 409, "conflict")
    graph = http.get("/graph").json()
    assert {"id", "rules", "numbers", "predicates", "facts", "seconds", "reads"} <= graph["hyper_nodes"][0].keys()
    assert http.get("/graph", headers={"Accept": "image/svg+xml"}).text.startswith("<svg")


def test_what_went_with_a_window_is_explained(http: httpx.Client) -> None:
    rules = "@expire heard(_, T) 10 s by T.  near(X) :- heard(X, T) in last 4 s by T."
    updated(http, add_rules=rules, at=1)
    came = updated(http, add={"heard": [["a", 0.5]]}, at=1)["update"]
    proof = http.post("/explain-change", json={"fact": "near(a)", "update": came}).json()
    assert (proof["came"], proof["leaves"]) == (True, ["heard(a, 0.5) in last 4 s by 0.5"])
    updated(http, remove_rules=rules)


def test_a_stream_tells_a_snapshot_changes_and_progress(server: ServerProcess, http: httpx.Client) -> None:
    with subscribed(server.url, query="path($from, X)", **{"param.from": "b"}) as stream:
        kind, _, data = next(stream)
        assert (kind, data["variables"], data["rows"], data["more"]) == ("snapshot", ["X"], [["c"]], False)
        number = updated(http, add={"edge": [["c", "d"]]})["update"]
        assert next_of(stream, "change")[1:] == (str(number), {"update": number, "added": [["d"]], "removed": []})
        other = updated(http, add={"unrelated": [[number]]})["update"]
        assert next_of(stream, "progress")[2] == {"update": other}
        updated(http, delete={"edge": [["c", "d"]]})
        assert next_of(stream, "change")[2]["removed"] == [["d"]]
    # Whoever comes back gets what he missed, as one difference, or nothing where nothing changed for him.
    updated(http, add={"edge": [["c", "e"], ["c", "f"]]})
    last = updated(http, delete={"edge": [["c", "e"]]})["update"]
    with subscribed(server.url, last=number, query="path(b, X)") as stream:
        data = next(stream)[2]
        assert (data["added"], data["removed"], data["update"]) == ([["f"]], [["d"]], last)
    with subscribed(server.url, last=last, query="path(b, X)") as stream:
        assert next(stream)[0] == "progress"
    with subscribed(server.url, last=10**6, query="path(b, X)") as stream:
        assert [next(stream)[0] for _ in range(2)] == ["reset", "snapshot"]
    updated(http, delete={"edge": [["c", "f"]]})


def test_whoever_comes_back_over_a_change_of_rules_is_told_of_it(server: ServerProcess, http: httpx.Client) -> None:
    before = updated(http, add={"seed": [[1]]})["update"]
    updated(http, add_rules="grown(X) :- seed(X).")
    with subscribed(server.url, last=before, query="grown(X)") as stream:
        assert next(stream)[2]["added"] == [[1]]
    middle = updated(http, add={"seed": [[2]]})["update"]
    http.post("/undo", json={})
    with subscribed(server.url, last=middle, query="grown(X)") as stream:
        assert sorted(next(stream)[2]["removed"]) == [[1], [2]]


def test_commits_are_told_with_their_work(server: ServerProcess, http: httpx.Client) -> None:
    number = updated(http, add={"edge": [["x1", "x2"]]})["update"]
    with subscribed(server.url, "/updates", last=number - 1) as stream:
        kind, identity, data = next(stream)
        assert (kind, identity) == ("commit", str(number))
        assert data["added"] == {"edge": 1, "path": 1}
        assert data["latency"] >= data["seconds"] > 0
        later = updated(http, delete={"edge": [["x1", "x2"]]})["update"]
        assert next(stream)[1] == str(later)


def test_hostile_names_stay_data(http: httpx.Client) -> None:
    name = "<script>alert(1)</script>\u2028\r\nevent: x"
    updated(http, add={"edge": [["evil", name]]})
    response = http.get("/facts/edge", params={"where": '{"0": "evil"}'})
    assert response.json()["rows"] == [["evil", name]]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert not re.search("unsafe|data:|blob:|\\*", policy)
    svg = http.get("/graph?format=svg")
    assert "<script" not in svg.text
    style = svg.text.partition("<style>")[2].partition("</style>")[0]
    assert b64encode(sha256(style.encode()).digest()).decode() in svg.headers["content-security-policy"]
    updated(http, delete={"edge": [["evil", name]]})


@pytest.mark.parametrize("name", ["a\u2028b", "a\u2029b", "a\x85b", "a\r\nevent: reset\r\n\r\n\x0b\x1c"])
def test_no_text_ends_a_line(server: ServerProcess, http: httpx.Client, name: str) -> None:
    """An event and a row are one line also for those who divide lines as Python does."""
    with subscribed(server.url, query="edge(torn, X)") as stream:
        assert next(stream)[2]["rows"] == []
        updated(http, add={"edge": [["torn", name]]})
        assert next_of(stream, "change")[2]["added"] == [[name]]
    with subscribed(server.url, query="edge(torn, X)") as stream:
        assert next(stream)[2]["rows"] == [[name]]
    lines = http.post("/query", json={"query": "edge(torn, X)"}, headers={"Accept": "application/x-ndjson"}).text
    assert list(map(json.loads, lines.splitlines())) == [[name]]
    updated(http, delete={"edge": [["torn", name]]})


def test_pages_of_other_origins_and_other_hosts_are_refused(http: httpx.Client) -> None:
    update = {"add": {"edge": [["o", "p"]]}}
    refused(http.post("/update", json=update, headers={"Origin": "https://evil.example"}), 403, "forbidden")
    refused(http.post("/update", json=update, headers={"Sec-Fetch-Site": "cross-site"}), 403, "forbidden")
    refused(http.get("/predicates", headers={"Host": "evil.example"}), 403, "forbidden")


def test_a_look_at_a_stream_begins_none(server: ServerProcess, http: httpx.Client) -> None:
    for path in ("/subscribe?query=edge(a,X)", "/updates"):
        head = http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
    assert http.head("/subscribe?query=edge(a").status_code == 422
    assert http.get("/statistics").json()["subscriptions"]["streams"] == 0


def test_a_token_that_nobody_asked_for_becomes_no_cookie(http: httpx.Client) -> None:
    entered = http.post("/session", json={"token": "a\n;\u2028\x00"})
    assert (entered.status_code, "set-cookie" in entered.headers) == (204, False)


def test_what_takes_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    with served(tmp_path / "store", before=little_memory) as server, httpx.Client(base_url=server.url) as http:
        grown = 'edge(a, _), Y = replace($a, "a", $a), Z = replace(Y, "a", $a)'
        problem = refused(http.post("/query", json={"query": grown, "parameters": {"a": "a" * 9000}}), 422, "limit")
        assert problem["limit"] == {"name": "memory"}
        assert asked(http, "path(a, c)")["rows"] == [[]]


def test_statistics_metrics_and_health(http: httpx.Client) -> None:
    statistics = http.get("/statistics").json()
    assert statistics["facts"] > statistics["explicit"] > 0
    assert http.get("/health").json() == {"status": "ok", "update": statistics["update"]}
    lines = http.get("/metrics").text.splitlines()
    assert f"tidelog_update_number {statistics['update']}" in lines
    assert all(line.startswith(("#", "tidelog_")) for line in lines)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /update HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"A" * 100_000,
    ],
)
def test_garbage_harms_nobody(server: ServerProcess, http: httpx.Client, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5) as peer:
        peer.sendall(garbage)
        peer.settimeout(5)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass
    assert http.get("/health").status_code == 200


def test_a_body_that_stops_halfway_is_no_update(server: ServerProcess, http: httpx.Client) -> None:
    before = http.get("/health").json()["update"]
    with socket.create_connection(("127.0.0.1", server.port), 5) as peer:
        head = (
            b"POST /update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
        )
        peer.sendall(head + b'{"add": {"edge": [["half", "way"]]}}')
    assert http.get("/health").json()["update"] == before
    assert asked(http, "edge(half, X)")["rows"] == []


def test_two_servers_cannot_have_one_store(server: ServerProcess, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="did not start"):
        ServerProcess(server.store)
