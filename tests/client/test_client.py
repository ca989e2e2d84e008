"""`tidelog.connect`: the methods of a knowledge base that a server has, and the command line with `--server`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

import tidelog
from server_util import PROGRAM, ServerProcess, served, subscribed
from tidelog.cli.command_line import main
from tidelog.cli.shell import Shell
from tidelog.client.async_connection import AsyncConnection
from tidelog.client.connection import Connection
from tidelog.client.results import RemoteAnswerChange
from tidelog.errors import ArityError, ParseError, StorageError, TidelogError, UnknownRuleError
from tidelog.server.commits.store import LEFT_OUT
from tidelog.values import IRI, Literal

TOKEN = "guest-0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with served(tmp_path_factory.mktemp("client") / "store") as found:
        yield found


@pytest.fixture
def kb(server: ServerProcess) -> Iterator[Connection]:
    with tidelog.connect(server.url) as connection:
        yield connection


def test_it_is_used_like_a_knowledge_base(kb: Connection) -> None:
    change = kb.update(add={"edge": [("c", "d")]})
    assert change.added["path"] == {("c", "d"), ("b", "d"), ("a", "d")}
    assert repr(kb.what_if(delete={"edge": [("c", "d")]})) == "<Change: - edge: 1, - path: 3>"
    assert sorted(answer["X"] for answer in kb.query("path($from, X)", **{"from": "a"})) == ["b", "c", "d"]
    assert ("a", "d") in kb.facts("path")
    assert "path(a, d)" in kb
    assert ("path", "d", "a") not in kb
    assert len(kb.facts("edge")) == len(list(kb.facts("edge"))) == 3
    assert {"edge", "path", "lonely", "node"} <= set(kb.predicates)
    assert kb.add_rules("back(Y, X) :- edge(X, Y).").added["back"].total == 3
    assert "back(Y, X) :- edge(X, Y)." in kb.rules
    assert kb.undo().removed["back"].total == 3
    assert str(kb.explain("path(c, d)")) == str(
        tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y). edge(c, d).").explain("path(c, d)")
    )
    assert str(kb.explain("path(c, $limit)", limit="d")) == str(kb.explain("path(c, d)"))
    assert kb.why_not("path(d, a)").missing == ("edge(d, a)",)
    assert kb.graph("dot").startswith("digraph")
    assert [bool(change) for change in kb.stream([{"delete": {"edge": [("c", "d")]}}])] == [True]
    assert kb.version == change.update + 3


def test_all_kinds_of_constants_go_there_and_back(kb: Connection) -> None:
    values = ["a", 'x"\n', 7, -(2**63), 0.5, float("inf"), True, IRI("http://x/y"), Literal("chat", language="fr")]
    kb.update(add={"kind": [(value,) for value in values]})
    assert {(type(row[0]), row[0]) for row in kb.facts("kind")} == {(type(value), value) for value in values}
    assert len(kb.query("kind($v)", v=IRI("http://x/y"))) == 1
    kb.update(delete={"kind": [(value,) for value in values]})
    assert len(kb.facts("kind")) == 0


def test_errors_are_those_of_a_knowledge_base(kb: Connection) -> None:
    with pytest.raises(ParseError) as found:
        kb.query("edge(X Y)")
    assert (found.value.line, found.value.column) == (1, 8)
    with pytest.raises(ArityError):
        kb.update(add={"edge": [("a",)]})
    with pytest.raises(UnknownRuleError):
        kb.remove_rules("p(X) :- q(X).")


def test_facts_are_exported_as_a_knowledge_base_exports_them(kb: Connection, tmp_path: Path) -> None:
    values: list[object] = ["a", 7, 0.5, True, IRI("http://x/y"), Literal("chat", language="fr")]
    kb.update(
        add={"twice": [(value, value) for value in values]}, add_rules="copied(X) :- twice(X, _). none(X) :- nil(X)."
    )
    written = kb.export(tmp_path / "there", "jsonl", ["twice", "copied", "none"])
    assert [path.name for path in written] == ["twice.jsonl", "copied.jsonl", "none.jsonl"]
    same = tidelog.KnowledgeBase("copied(X) :- twice(X, _). none(X) :- nil(X).")
    same.update(add={"twice": [(value, value) for value in values]})
    for mine in same.export(tmp_path / "here", "jsonl", ["twice", "copied", "none"]):
        assert mine.read_bytes() == (tmp_path / "there" / mine.name).read_bytes()
    names = {path.stem for path in kb.export(tmp_path / "explicit", explicit=True)}
    assert "twice" in names
    assert "copied" not in names
    with pytest.raises(tidelog.TidelogError, match="list of names"):
        kb.export(tmp_path / "no", predicates="twice")
    kb.update(delete={"twice": [(value, value) for value in values]})


def test_what_makes_no_sense_over_http_says_what_does(kb: Connection) -> None:
    for name, instead in (("register", "--functions"), ("live", "connect_async"), ("refresh", "last update")):
        with pytest.raises(tidelog.TidelogError, match=instead):
            getattr(kb, name)
        assert not hasattr(kb, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        kb.nonsense  # noqa: B018
    with pytest.raises(tidelog.TidelogError, match="its own store"):
        kb.save("folder")  # type: ignore[arg-type]
    public = {name for name in dir(tidelog.KnowledgeBase) if not name.startswith("_")}
    for twin in (Connection, AsyncConnection):
        assert public <= {*dir(twin), *twin.instead}, "each method is there, or refused with a reason"
    assert kb.missing_functions == []
    assert kb.constants > 0
    assert kb.errors == 0


def test_many_answers_come_page_by_page(kb: Connection) -> None:
    kb.update(add={"many": [(number,) for number in range(12_000)]})
    assert len(kb.query("many(X)")) == 12_000
    assert sum(1 for _ in kb.facts("many")) == 12_000


def test_a_subscription_outlives_its_server(tmp_path: Path) -> None:
    store = tmp_path / "store"
    told: list[RemoteAnswerChange] = []
    arrived = threading.Condition()

    def on_change(change: RemoteAnswerChange) -> None:
        with arrived:
            told.append(change)
            arrived.notify_all()

    def wait_for(count: int) -> None:
        with arrived:
            assert arrived.wait_for(lambda: len(told) >= count, 60)

    server = ServerProcess(store)
    port = f"127.0.0.1:{server.port}"
    try:
        with tidelog.connect(server.url) as kb, kb.subscribe("path(a, X)", on_change) as subscription:
            wait_for(1)
            assert (told[0].first, sorted(row[0] for row in told[0].added.rows())) == (True, ["b", "c"])
            kb.update(add={"edge": [("c", "d")]})
            wait_for(2)
            server.kill()
            server = ServerProcess(store, "--listen", port)
            kb.update(add={"edge": [("d", "e")]}, delete={"edge": [("a", "b")]})
            wait_for(3)
            assert not told[2].first
            assert (told[2].added.rows(), sorted(row[0] for row in told[2].removed.rows())) == ([], ["b", "c", "d"])
            assert subscription.error is None
    finally:
        server.kill()


def test_the_twin_for_an_event_loop(server: ServerProcess, tmp_path: Path) -> None:
    async def run() -> None:
        async with tidelog.connect_async(server.url) as kb:
            changes = kb.changes("edge(loop, X)")
            assert (await anext(changes)).first
            change = await kb.update(add={"edge": [("loop", "x")]})
            assert change.added["path"] == {("loop", "x")}
            assert (await anext(changes)).added.rows() == [("x",)]
            await changes.aclose()  # type: ignore[attr-defined]
            assert (await kb.query("path(loop, X)")).rows() == [("x",)]
            assert await kb.holds(("path", "loop", "x"))
            assert [row async for row in kb.facts("lonely")] == [("z",)]
            assert (await kb.explain("path(loop, x)")).height == 1  # type: ignore[union-attr]
            assert (await kb.explain("path(loop, $limit)", limit="x")).height == 1  # type: ignore[union-attr]
            assert (await kb.what_if(delete={"edge": [("loop", "x")]})).removed["path"].total == 1
            assert await kb.explicit_predicates()
            assert await kb.rules()
            assert await kb.constants()
            assert await kb.declared() == await kb.prefixes() == {}
            assert await kb.missing_functions() == []
            assert [path.name for path in await kb.export(tmp_path, "tsv", ["lonely"])] == ["lonely.tsv"]
            assert not await kb.load(tmp_path / "lonely.tsv", predicate="lonely", header=False)
            with pytest.raises(tidelog.TidelogError, match="async for"):
                kb.subscribe  # noqa: B018
            updates = [{"delete": {"edge": [("loop", "x")]}}, {"delete": {"lonely": [("z",)]}}]
            assert [bool(change) async for change in kb.stream(updates)] == [True, False]

    asyncio.run(run())


def test_the_command_line_asks_a_server(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--server", server.url]
    assert main(["run", *asked, "-q", "path(b, X)"]) == 0
    assert "X = c" in capsys.readouterr().out
    assert main(["run", *asked, "-q", "path($x, a)", "--param", "x=c", "--format", "json"]) == 1
    assert capsys.readouterr().out == "[]\n"
    assert main(["explain", *asked, "path(a, c)"]) == 0
    assert "edge(b, c)  explicit" in capsys.readouterr().out
    assert main(["graph", *asked, "--format", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart")
    assert main(["run", *asked, "-q", "path(b, X)", "--format", "parquet"]) == 2
    assert "no format of answers" in capsys.readouterr().err
    for usage, said in ((["run", "program.dlog", *asked], "either"), (["run"], "which program")):
        with pytest.raises(SystemExit, match="2"):
            main(usage)
        assert said in capsys.readouterr().err


def test_the_shell_says_the_same_of_a_server_as_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("x,y\n1,2\n")
    load = f":load {tmp_path / 'more.csv'} --predicate more --no-header"
    typed = (
        "edge(c, d). @prefix ex: <http://example.org/> . ex:tag(c, 'a b').",
        "back(Y, X) :- edge(X, Y).",
        "?- path(b, X).",
        "?- ex:tag(X, Y).",
        "?- path(b, nowhere).",
        "?- node(X), not path(X, _).",
        "?- N = count { Y : path(a, Y) }.",
        ":what_if :delete edge(a, b)",
        ":what_if edge(d, e)",
        ":delete edge(a, b)",
        ":explain path(b, d)",
        ":explain path(a, d)",
        ":remove back(Y, X) :- edge(X, Y).",
        load,
        f":export {tmp_path / 'facts'} jsonl",
        ":rules",
        ":facts",
        ":facts edge",
        ":predicates",
    )
    with served(tmp_path / "shared") as own, tidelog.connect(own.url) as kb:
        here, there = Shell(tidelog.KnowledgeBase(PROGRAM)), Shell(kb)  # type: ignore[arg-type]
        for text in typed:
            assert list(there.execute(text)) == list(here.execute(text)), text
        for text in ("?- edge(b, X), Y = 1 / 0.", "half(X, 1 / 0) :- node(X), X = a."):
            assert list(there.execute(text))[-1] == "1 rule instance failed because an expression had no value"
        refused = {":save elsewhere": "its own store", ":refresh": "the last update", "edge(a).": "argument"}
        for text, why in refused.items():
            with pytest.raises(TidelogError, match=why):
                list(there.execute(text))


@pytest.mark.parametrize("token", ["é", "0123456789abcdef\n", " 0123456789abcdef", "", "a\0b"])
def test_a_token_that_cannot_be_sent_is_told(token: str) -> None:
    for connect in (tidelog.connect, tidelog.connect_async):
        with pytest.raises(TidelogError, match="the token is wrong") as caught:
            connect("http://127.0.0.1:9", token)
        assert not token.strip() or token.strip() not in str(caught.value)


def test_the_token_of_the_command_line(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["run", "--server", server.url, "-q", "path(a, b)"]
    monkeypatch.setenv("TIDELOG_TOKEN", "é")
    assert main(ask) == 2
    assert "error: the token is wrong" in capsys.readouterr().err
    monkeypatch.setenv("TIDELOG_TOKEN", "")  # as good as none
    assert main(ask) == 0


def test_bad_updates_of_a_file_are_told_once(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "updates.jsonl"
    path.write_text('no json\n{"add": {"edge": [["one"]]}}\n')
    stream = ["stream", "--server", server.url, "--updates", str(path)]
    assert main(stream) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}, line 1: not JSON")
    assert main([*stream, "--on-error", "continue"]) == 0
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith(f"error: {path}, line 1: not JSON")
    assert second.startswith(f"error: {path}, line 2: `edge` has")


def test_updates_from_a_file_go_to_a_server(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "updates.jsonl").write_text('{"add": {"edge": [["s", "t"]]}}\n{"delete": {"edge": [["s", "t"]]}}\n')
    stream = ["stream", "--server", server.url, "--updates", str(tmp_path / "updates.jsonl")]
    assert main(stream) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert '"added": {"edge": [["s", "t"]]' in lines[0]
    nowhere = str(tmp_path / "missing" / "changes.jsonl")
    assert main([*stream, "--out", nowhere]) == 2
    assert "No such file or directory; check the path" in capsys.readouterr().err


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose `TOKEN` may read `path` alone."""
    folder = tmp_path_factory.mktemp("guest")
    (folder / "tokens").write_text(f"{TOKEN} read:path\n")
    program = f"@prefix ex: <http://e.org/> .\n@predicate path/2.\n{PROGRAM}"
    with served(folder / "store", "--tokens", str(folder / "tokens"), program=program) as found:
        yield found


def test_who_may_read_some_predicates_reads_them_from_the_command_line(
    guest: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_TOKEN", TOKEN)
    assert main(["run", "--server", guest.url, "-q", "path(a, X)"]) == 0
    assert "c" in capsys.readouterr().out
    assert main(["run", "--server", guest.url, "-q", "edge(a, X)"]) == 2
    with tidelog.connect(guest.url, token=TOKEN) as kb:
        assert any("b" in line for line in Shell(kb).execute("?- path(a, X)."))  # type: ignore[arg-type]


def test_who_may_read_some_predicates_has_a_knowledge_base_of_them(guest: ServerProcess, tmp_path: Path) -> None:
    with tidelog.connect(guest.url, token=TOKEN) as kb:
        assert kb.prefixes == {"ex": "http://e.org/"}
        assert ("path", "a", "c") in kb
        assert "path(a, c)" in kb
        assert ("a", "c") in kb.facts("path")
        assert ("path", "c", "a") not in kb
        (written,) = kb.export(tmp_path, predicates=["path"])
        assert len(written.read_text().splitlines()) == 3
        with pytest.raises(tidelog.ServerError, match="may not read"):
            ("edge", "a", "b") in kb  # noqa: B015

    async def twin() -> tuple[bool, dict[str, str]]:
        async with tidelog.connect_async(guest.url, token=TOKEN) as kb:
            return await kb.holds(("path", "a", "c")), await kb.prefixes()

    assert asyncio.run(twin()) == (True, {"ex": "http://e.org/"})


def test_backup_beside_a_server_and_restore(server: ServerProcess, tmp_path: Path, kb: Connection) -> None:
    kb.update(add={"edge": [("kept", "safe")]})
    number, file = kb.version, tmp_path / "monday.tar"
    assert main(["backup", str(server.store), str(file)]) == 0
    kb.update(delete={"edge": [("kept", "safe")]})
    assert main(["restore", str(file), str(tmp_path / "restored")]) == 0
    with served(tmp_path / "restored") as other, tidelog.connect(other.url) as copy:
        assert copy.version == number + LEFT_OUT
        assert "path(kept, safe)" in copy
    assert main(["backup", str(server.store), str(file)]) == 2, "it is there already"
    assert main(["restore", str(file), str(tmp_path / "restored")]) == 2, "so is that"


def test_a_restored_server_repeats_no_update_and_mistakes_nobody(tmp_path: Path) -> None:
    """Keys and commits come along, and no number of a commit that the backup lacks is given twice."""
    key, file, store = {"Idempotency-Key": "before"}, tmp_path / "tuesday.tar", tmp_path / "again"
    update = {"add": {"edge": [["r", "s"]]}}
    with served(tmp_path / "first") as server, httpx.Client(base_url=server.url, timeout=60) as http:
        known = http.post("/update", json=update, headers=key).json()["update"]
        http.post("/update", json={"delete": update["add"]})
        last = http.post("/update", json={"add_rules": "twice(X) :- edge(r, X)."}).json()["update"]
        assert main(["backup", str(server.store), str(file)]) == 0
        lost = http.post("/update", json={"add": {"edge": [["r", "lost"]]}}).json()["update"]
    assert main(["restore", str(file), str(store)]) == 0
    for _ in range(2):  # The second time, it is opened again.
        with served(store) as other, httpx.Client(base_url=other.url, timeout=60) as http:
            again = http.post("/update", json=update, headers=key).json()
            assert (again["repeated"], again["update"]) == (True, known)
            http.post("/update", json={"add": {"edge": [["r", "new"]]}})
            assert http.get("/health").json()["update"] > last + LEFT_OUT
            asked = {"query": "path(r, X)"}
            with subscribed(other.url, last=known, **asked) as stream:
                assert (found := next(stream))[0] == "change"
                assert (found[2]["added"], found[2]["removed"]) == ([["new"]], [["s"]])
            with subscribed(other.url, last=last + LEFT_OUT, **asked) as stream:
                assert next(stream)[2]["added"] == [["new"]]
            with subscribed(other.url, last=lost, **asked) as stream:
                kind, _, data = next(stream)
                assert (kind, f"update {lost} is none of this store" in data["reason"]) == ("reset", True)
                assert next(stream)[2]["rows"] == [["new"]]
            why = http.post("/explain-change", json={"fact": "edge(r, s)"}).json()
            assert (why["update"], why["came"]) == (known + 1, False)
            assert other.stop() == 0
    with served(store) as other, httpx.Client(base_url=other.url, timeout=60) as http:
        assert http.post("/undo", json={}).json()["undone"] == last


def test_a_damaged_backup_leaves_nothing_behind(tmp_path: Path) -> None:
    from tidelog.storage.backups import restore

    (tmp_path / "bad.tar").write_bytes(b"no tar at all")
    with pytest.raises(StorageError, match="no backup"):
        restore(tmp_path / "bad.tar", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_time_passes_on_the_server(kb: Connection) -> None:
    rules = "@expire reading 60 s.  busy(S) :- reading(S, V) in last 10 s."
    kb.add_rules(rules)
    noon = datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert set(kb.update(add={"reading": [("hall", 7)]}, at=noon).added) == {"reading", "busy"}
    assert set(kb.what_if(at=noon + timedelta(seconds=60)).removed) == {"reading", "busy"}
    assert set(kb.advance(noon.timestamp() + 10).removed) == {"busy"}
    assert set(kb.advance("2026-11-18T12:01:00Z").removed) == {"reading"}
    kb.remove_rules(rules)
    assert not kb.advance(noon + timedelta(days=1))
