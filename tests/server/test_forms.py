"""Forms of the language whose facts or rules are kept apart, on a server: time, declarations, equality, best values."""

from __future__ import annotations

from pathlib import Path

import httpx

from server_util import served, subscribed

PROGRAM = """
@expire reading 60 s.
@type point = [x: int, y: int].
@predicate at(name: string, place: point) "Where something is.".
@predicate edge(from: string, to: string, weight: int).
@key edge(from, to).
@equality same on person, knows.
busy(S) :- reading(S, V) in last 10 s, V > 5.
turned(N, [Y, X]) :- at(N, [X, Y]).
dist(a, min(0)) :- edge(a, _, _).
dist(Y, min(D + W)) :- dist(X, D), edge(X, Y, W).
friend(X) :- knows(mary, X), person(X).
at(house, [1, 2]).  edge(a, b, 1).  edge(a, c, 9).  edge(b, c, 2).
person(anne).  knows(mary, annabella).
"""


def post(http: httpx.Client, path: str, **body: object) -> dict[str, object]:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def test_who_comes_back_is_told_what_has_changed_in_every_form(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with served(store, program=PROGRAM) as server, httpx.Client(base_url=server.url, timeout=20) as http:
        first = post(http, "/update", add={"reading": [["s1", 9], ["s2", 3]]}, at=1000)["update"]
        post(http, "/update", at=1020)
        change = {
            "add": {"at": [["tree", [3, 4]]], "same": [["anne", "annabella"]]},
            "delete": {"edge": [["a", "b", 1]]},
        }
        last = post(http, "/update", **change)["update"]
        server.kill()
    expected = {
        "reading(S, V) in last 10 s": ([], [["s1", 9], ["s2", 3]]),
        "busy(S)": ([], [["s1"]]),
        "at(N, [X, _])": ([["tree", 3]], []),
        "turned(N, P)": ([["tree", [4, 3]]], []),
        "dist(X, D)": ([["c", 9]], [["b", 1], ["c", 3]]),
        "friend(X)": ([["anne"], ["annabella"]], []),
    }
    assert isinstance(first, int)
    with served(store) as server:
        for query, halves in expected.items():
            with subscribed(server.url, last=first, query=query) as stream:
                kind, _, data = next(stream)
            assert (kind, data["update"]) == ("change", last)
            assert (sorted(data["added"]), sorted(data["removed"])) == tuple(map(sorted, halves)), query


def test_the_text_of_the_rules_is_all_of_the_program(tmp_path: Path) -> None:
    with served(tmp_path / "store", program=PROGRAM) as server, httpx.Client(base_url=server.url, timeout=20) as http:
        text = http.get("/rules").json()["text"]
        for line in PROGRAM.strip().splitlines()[:4]:
            assert line in text
        assert post(http, "/check", text=text, replace=True)["ok"] is True
        nothing = {"added": [], "removed": []}
        assert post(http, "/what-if", replace_rules=text)["rules"] == nothing
        post(http, "/update", replace_rules=text)
        assert http.get("/rules").json()["text"] == text
        shorter = text.replace("reading 60 s", "reading 30 s")
        assert post(http, "/what-if", replace_rules=shorter)["rules"] == nothing
        post(http, "/update", replace_rules=shorter)
        assert http.get("/rules").json()["text"] == shorter
        post(http, "/what-if", remove_rules="@expire reading 30 s.")
        post(http, "/update", remove_rules="@expire reading 30 s.")
        assert "@expire" not in http.get("/rules").json()["text"]
