"""What somebody sees who may read some predicates alone: no form of a query, proof or update tells him of others."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from server_util import served

STAFF = """
@prefix ex: <http://example.org/> .
@predicate may(who: string, what: string).
@predicate wage(person: string, monthly: int).
emp(ada).  emp(bob).  secret(ada, 42).  banned(bob).
@equality same on person.  same(anne, annabella).  person(anne).
may(X, enter) :- emp(X), not banned(X).
paid(X, count(V)) :- emp(X), secret(X, V).
listed(X, N) :- emp(X), N = count { V : secret(X, V) }.
either(X) :- ( emp(X) ; banned(X) ).
known(X) :- emp(X), X != "".
:- may(X, enter), secret(X, 43).
"""
NAMES = ("few", "few-writer", "blind-writer", "admin", "ruler")
FEW, FEW_WRITER, BLIND_WRITER, ADMIN, RULER = (f"{name}-0123456789abcdef" for name in NAMES)
SOME = ", ".join(f"read:{name}" for name in ("emp", "may", "paid", "listed", "either", "known", "person"))


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("staff")
    (folder / "tokens").write_text(
        f"{FEW} {SOME}\n{FEW_WRITER}\twrite, read:emp, read:secert\n{BLIND_WRITER} write\n{ADMIN} admin\n"
        f"{RULER} rules, read:emp, read:p\n"
    )
    with served(folder / "store", "--tokens", str(folder / "tokens"), program=STAFF) as found:
        yield found.url


def client(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("emp(X), N = count { V : secret(X, V) }", "secret"),
        ("count { V : secret(ada, V) } > 0", "secret"),
        ("emp(X), ( known(X) ; banned(X) )", "banned"),
        ("emp(X), ( known(X) ; known(X), not banned(X) )", "banned"),
        ("emp(X), secret[X, Y]", "secret"),
        ("emp(X), secret(X, _) in last 10 s", "secret"),
        ("same(X, Y)", "same"),
        ("<secret>(X, Y)", "<secret>"),
    ],
)
def test_no_form_of_a_query_reads_what_is_hidden(staff: str, query: str, named: str) -> None:
    with client(staff, FEW) as http:
        asked = (
            http.post("/query", json={"query": query}),
            http.post("/query", json={"query": query, "whole": True}),
            http.get("/subscribe", params={"query": query}),
        )
        for refused in asked:
            assert (refused.status_code, refused.json()["detail"]) == (403, f"this token may not read `{named}`")


def test_forms_of_queries_that_read_what_is_not_hidden(staff: str) -> None:
    with client(staff, FEW) as http:
        for query in ("( emp(X) ; known(X) )", "emp(X), N = count { Y : may(X, Y) }", 'emp(X), starts_with(X, "a")'):
            found = http.post("/query", json={"query": query})
            assert found.status_code == 200, found.text
        assert http.post("/query", json={"query": "person(X)"}).json()["rows"] == [["anne"], ["annabella"]]


def test_a_refused_subscription_does_not_name_what_is_hidden(staff: str) -> None:
    for token, named in ((FEW, False), (ADMIN, True)):
        with client(staff, token) as http:
            refused = http.get("/subscribe", params={"query": "person(X)"})
            assert refused.status_code == 422
            assert ("same" in refused.text) is named
            own = http.get("/subscribe", params={"query": "( emp(X) ; known(X) )"})
            assert "( emp(X) ; known(X) )" in own.json()["detail"], "what he has written himself is no secret"


@pytest.mark.parametrize(
    "fact", ["secret(ada, 42)", "secret(ada, 43)", ["secret", "ada", 43], "secret(ada)", "nope(a)"]
)
def test_nobody_learns_whether_a_hidden_fact_holds(staff: str, fact: object) -> None:
    with client(staff, FEW) as http:
        assert http.post("/explain", json={"fact": fact}).status_code == 403


@pytest.mark.parametrize(
    ("fact", "named"),
    [
        ("may(ada, enter)", "banned"),
        ("paid(ada, 1)", "secret"),
        ("listed(bob, 0)", "secret"),
        ("either(ada)", "banned"),
        ("person(annabella)", "same"),
        ("known(ada)", None),
        ("person(anne)", None),
        ("emp(cleo)", None),
    ],
)
def test_proofs_do_not_name_what_is_hidden(staff: str, fact: str, named: str | None) -> None:
    with client(staff, FEW) as http:
        found = http.post("/explain", json={"fact": fact})
        assert found.status_code == (200 if named is None else 403), found.text
        if named is not None:
            assert found.json()["detail"] == "its proofs name what this token may not read"
            assert named not in found.text


def test_an_update_tells_its_sender_what_he_may_read(staff: str) -> None:
    update = {"add": {"emp": [["cleo"]], "secret": [["cleo", 7]]}}
    back = {"delete": update["add"]}
    blank = {"added": {}, "removed": {}, "work": {}, "errors": 0, "failures": []}
    with (
        client(staff, FEW_WRITER) as few,
        client(staff, BLIND_WRITER) as blind,
        client(staff, ADMIN) as all,
    ):
        assert few.post("/update", json=update).json()["change"] == blank | {
            "added": {"emp": {"count": 1, "rows": [["cleo"]]}}
        }
        assert blind.post("/update", json=back).json()["change"] == blank
        assert set(all.post("/update", json=update).json()["change"]["added"]) >= {"emp", "secret", "may"}
        assert few.post("/update", json=back).json()["change"]["removed"].keys() == {"emp"}
        wrong = {"add": {"secret": [["ada", 43]]}}
        for http, tells in ((few, False), (blind, False), (all, True)):
            refused = http.post("/update", json=wrong)
            assert (refused.status_code, refused.json()["type"]) == (422, "/problems/constraint")
            assert ("may(ada, enter)" in refused.text) is tells


def test_a_mistake_in_an_update_tells_its_sender_of_what_he_may_read_alone(staff: str) -> None:
    """How many columns a predicate has, what they are called and what they hold, is hidden with it."""
    with client(staff, FEW_WRITER) as few, client(staff, ADMIN) as all:
        for update in (
            {"add": {"secret": [["ada"]]}},
            {"delete": {"secret": [["ada"]]}},
            {"add": "secret(ada)."},
            {"add": {"wage": [["ada", "much"]]}},
            {"add": "wage(ada, much)."},
            {"add": {"emp": [["cleo", 1]], "secret": [["cleo"]]}},
        ):
            told, hidden = all.post("/update", json=update), few.post("/update", json=update)
            assert told.status_code == hidden.status_code == 422
            assert ("argument" in told.text) or ("monthly" in told.text)
            assert hidden.json().keys() == {"type", "title", "status", "detail"}
            assert hidden.json()["detail"].endswith("; why, this token may not read")
        assert "1 argument" in few.post("/update", json={"add": {"emp": [["cleo", 1]]}}).json()["detail"]
        assert "1:8" in few.post("/update", json={"add": "secret(."}).json()["detail"]


def test_a_mistake_in_rules_tells_of_what_their_sender_may_read_alone(staff: str) -> None:
    with client(staff, RULER) as http:
        for rule, told in (
            ("p(X) :- emp(X), emp(X, Y).", True),
            ("p(X, Y) :- emp(X).", True),
            ("p(X) :- emp(X), .", True),
            ("p(X) :- emp(X), secret(X).", False),
            ("p(X) :- emp(X), wage(X, much).", False),
            ("p(X) :- wage(X, Y), not p(X).", False),
        ):
            refused = http.post("/update", json={"add_rules": rule})
            assert refused.status_code == 422, refused.text
            assert refused.json()["detail"].endswith("; why, this token may not read") is not told


def test_no_warning_tells_the_name_of_what_is_hidden(staff: str) -> None:
    query = {"query": "secert(X)"}
    with client(staff, FEW_WRITER) as few, client(staff, ADMIN) as all:
        assert "`secret`" in all.post("/query", json=query).json()["warnings"][0]
        for whole in (False, True):
            assert few.post("/query", json=query | {"whole": whole}).json()["warnings"] == []


def test_a_text_of_facts_changes_no_prefix_for_others(staff: str) -> None:
    with client(staff, BLIND_WRITER) as blind, client(staff, ADMIN) as all:
        for text in ("@prefix ex: <http://elsewhere.org/> . ex:a(b).", "PREFIX ex: <http://elsewhere.org/>"):
            refused = blind.post("/update", json={"add": text})
            assert (refused.status_code, "`ex`" in refused.json()["detail"]) == (403, True)
        assert all.get("/rules").json()["prefixes"]["ex"] == "http://example.org/"
        same = {"add": "@prefix ex: <http://example.org/> . @prefix new: <http://new.org/> . ex:a(new:b)."}
        assert blind.post("/update", json=same).status_code == 200
        assert all.post("/query", json={"query": "ex:a(X)"}).json()["rows"] == [[{"iri": "http://new.org/b"}]]
