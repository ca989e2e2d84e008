"""The shell: statements over several lines, commands, and errors that never end it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog import TidelogError
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.cli.shell import HELP, Leave, Shell, interact, is_complete, statements


@pytest.fixture
def shell() -> Shell:
    return Shell(KnowledgeBase("edge(a, b). path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."))


def said(shell: Shell, text: str) -> list[str]:
    return list(shell.execute(text))


def test_facts_show_what_follows(shell: Shell) -> None:
    assert said(shell, "edge(b, c).") == ["+ edge(b, c)", "+ path(a, c)", "+ path(b, c)"]
    assert said(shell, "edge(b, c).") == []
    assert said(shell, ":delete edge(a, b).") == ["- edge(a, b)", "- path(a, b)", "- path(a, c)"]
    assert said(shell, ":delete edge(b, c)") == ["- edge(b, c)", "- path(b, c)"]


def test_rules_come_and_go(shell: Shell) -> None:
    assert said(shell, "back(Y, X) :- edge(X, Y).") == ["+ back(b, a)"]
    assert said(shell, ":rules")[-1] == "back(Y, X) :- edge(X, Y)."
    assert said(shell, ":remove back(B, A) :- edge(A, B).") == ["- back(b, a)"]
    assert len(said(shell, ":rules")) == 2


def test_what_if_changes_nothing(shell: Shell) -> None:
    assert said(shell, ":what_if edge(b, c). far(X) :- path(a, X), not edge(a, X).") == [
        *("+ edge(b, c)", "+ far(c)", "+ path(a, c)", "+ path(b, c)")
    ]
    assert said(shell, ":what_if :delete edge(a, b)") == ["- edge(a, b)", "- path(a, b)"]
    assert said(shell, ":what_if :remove path(A, B) :- edge(A, B)") == ["- path(a, b)"]
    assert said(shell, ":facts") == ["edge(a, b).", "path(a, b)."]
    assert len(said(shell, ":rules")) == 2
    for text in (":what_if ?- path(X, Y).", ":what_if :rules", ":what_if"):
        with pytest.raises(TidelogError, match=":what_if takes"):
            said(shell, text)


def test_queries_are_answered(shell: Shell) -> None:
    assert said(shell, "?- path(X, Y).") == ["X = a, Y = b"]
    assert said(shell, "?- path(?x, b).") == ["?x = a"]
    assert said(shell, "?- path(a, b).") == ["yes"]
    assert said(shell, "?- path(b, a).") == ["no"]


def test_prefixes_stay_declared(shell: Shell) -> None:
    assert said(shell, "@prefix ex: <http://e/> .") == []
    assert said(shell, "ex:p(ex:a, 1.5).") == ["+ ex:p(ex:a, 1.5)"]
    assert said(shell, "?- ex:p(X, Y).") == ["X = ex:a, Y = 1.5"]
    assert said(shell, ":facts ex:p") == ["ex:p(ex:a, 1.5)."]
    assert said(shell, ":facts <http://e/p>") == ["ex:p(ex:a, 1.5)."]
    assert "ex:p  1" in said(shell, ":predicates")


def test_many_facts_are_cut_short(shell: Shell) -> None:
    lines = said(shell, " ".join(f"n({number})." for number in range(30)))
    assert lines[0] == "+ n(0)"
    assert lines[-1] == "+ … 10 more"


def test_listing(shell: Shell) -> None:
    assert said(shell, ":facts") == ["edge(a, b).", "path(a, b)."]
    assert said(shell, ":facts edge") == ["edge(a, b)."]
    assert said(shell, ":predicates") == ["edge  1", "path  1"]
    assert said(shell, ":help") == HELP.splitlines()


def test_explain(shell: Shell) -> None:
    assert "edge(a, b)" in "\n".join(said(shell, ":explain path(a, b)."))
    assert "path(b, a)" in "\n".join(said(shell, ":explain path(b, a)"))


def test_load(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "edge.csv").write_text("b,c\n")
    (tmp_path / "more.dlog").write_text("edge(c, d).\n?- edge(c, X).\n")
    assert said(shell, f":load {tmp_path / 'edge.csv'}") == ["+ edge(b, c)", "+ path(a, c)", "+ path(b, c)"]
    assert said(shell, f":load {tmp_path / 'more.dlog'}")[-1] == "X = d"
    (tmp_path / "more.dlog").unlink()
    assert said(shell, f":load {tmp_path}") == []


def test_save(shell: Shell, tmp_path: Path) -> None:
    assert said(shell, f":save {tmp_path / 'kept'}") == [f"saved in {tmp_path / 'kept'}"]
    assert list(KnowledgeBase.open(tmp_path / "kept").facts("path")) == [("a", "b")]


@pytest.mark.parametrize(
    "text",
    [
        "edge(a, X).",
        "edge(a, b",
        "edge(a).",
        "p(X) :- q(Y).",
        ":remove p(X) :- q(X).",
        ":delete p(X).",
        ":load /no/such/file.csv",
        ":load /no/such/file.dlog",
        ":facts 12",
        ":load",
        ":save",
        ":delete",
        ":delete path(X, Y) :- edge(X, Y).",
        ":delete edge(a, b). path(X, Y) :- edge(X, Y).",
        ":delete ?- edge(a, X).",
        ":explain path(",
        ":fly",
    ],
)
def test_errors_change_nothing(shell: Shell, text: str) -> None:
    before = said(shell, ":facts") + said(shell, ":rules")
    with pytest.raises(TidelogError):
        said(shell, text)
    assert said(shell, ":facts") + said(shell, ":rules") == before


def test_leaving(shell: Shell) -> None:
    for text in (":quit", ":exit"):
        with pytest.raises(Leave):
            said(shell, text)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  % nothing\n", True),
        (":help", True),
        (":facts edge", True),
        ("edge(a, b).", True),
        ("edge(a, b).  % done", True),
        ("edge(a, b", False),
        ("path(X, Y) :-", False),
        ('edge("a.', True),  # strings end on their line: better to say so now than later
        ('edge("a. b.", c)', False),
        (":reach(X, Y) :-", False),
        (":reach(a, b).", True),
        ("p(<http://e.org/.>)", False),
        ("p(a). # no. more", True),
        ("q(Y) :- n(X), Y = X % 2.", True),
        ("q(Y) :- n(X), Y = X % 2", False),
        ("q(Y) :- n(X), % not done.", False),
        ("PREFIX ex: <http://e.org/>", True),
        ("edge(a b", True),  # more input cannot mend it
    ],
)
def test_when_a_statement_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def reader(lines: list[str | type[BaseException]]) -> Callable[[str], str]:
    prompts: Iterator[str | type[BaseException]] = iter(lines)

    def read(_: str) -> str:
        line = next(prompts, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return read


def test_statements_span_lines() -> None:
    lines = ["path(X, Y) :-", "  edge(X, Y).", "", ":help", "edge(a,"]
    assert list(statements(reader([*lines]))) == ["path(X, Y) :-\n  edge(X, Y).", ":help", "edge(a,"]


def test_an_interruption_drops_what_was_typed() -> None:
    assert list(statements(reader(["edge(a,", KeyboardInterrupt, "edge(b, c)."]))) == ["edge(b, c)."]


def test_a_conversation_survives_errors(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.StringIO("edge(a, X).\n:fly\nedge(b,\n c).\n?- path(a, c).\n:quit\nedge(x, y).\n")
    )
    assert interact(shell) == 0
    captured = capsys.readouterr()
    assert captured.out == "+ edge(b, c)\n+ path(a, c)\n+ path(b, c)\nyes\n"
    assert captured.err.count("error: ") == 2
    assert ("x", "y") not in shell.kb.facts("edge")


def test_the_command(tmp_path: Path) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("p(1). q(X) :- p(X).")
    command = [sys.executable, "-m", "tidelog", "shell", str(program)]
    done = subprocess.run(command, input="?- q(X).\np(2)", capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0
    assert done.stdout == "X = 1\n"
    assert done.stderr.startswith("error: <shell>:1:")


# ---- files and saved folders


def test_csv_files_are_loaded_as_told(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "my table.csv"
    path.write_text("from,to\n01,02\n")
    assert said(shell, f":load '{path}' --predicate edge --header --types string,string") == [
        '+ edge("01", "02")',
        '+ path("01", "02")',
    ]
    for argument, message in (
        ("", "needs a path"),
        ("x.csv --what", "unrecognized arguments: --what"),
        ("'x.csv", "close the quote"),
        ("x.csv", "no such file"),
    ):
        with pytest.raises(TidelogError, match=message):
            said(shell, f":load {argument}")


def test_the_user_is_asked_about_a_likely_header(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "edge.csv"
    path.write_text("from,to\nb,c\n")
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return len(asked) == 1

    shell.ask = ask
    assert said(shell, f":load {path}") == ["+ edge(b, c)", "+ path(a, c)", "+ path(b, c)"]
    assert said(shell, f":load {path}") == ["+ edge(from, to)", "+ path(from, to)"]
    assert said(shell, f":load {path} --no-header") == []
    assert len(asked) == 2
    assert "`from,to`" in asked[0]


def test_facts_are_exported(shell: Shell, tmp_path: Path) -> None:
    assert said(shell, f":export {tmp_path}/out") == [f"wrote 2 files to {tmp_path}/out"]
    assert (tmp_path / "out" / "edge.csv").read_text() == "a,b\n"
    said(shell, f":export {tmp_path}/out jsonl")
    assert (tmp_path / "out" / "path.jsonl").read_text() == '["a", "b"]\n'
    with pytest.raises(TidelogError, match="no format for facts"):
        said(shell, f":export {tmp_path}/out word")


def test_a_shell_beside_a_writer(tmp_path: Path) -> None:
    KnowledgeBase("edge(a, b).").save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as kb:
        shell = Shell(KnowledgeBase.open(tmp_path, read_only=True))
        kb.update(add={"edge": [("b", "c")]})
        assert said(shell, ":facts") == ["edge(a, b)."]
        assert said(shell, ":refresh") == ["+ edge(b, c)"]
        with pytest.raises(TidelogError, match="reading only"):
            said(shell, "edge(c, d).")


def test_the_shell_opens_saved_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.cli.command_line import main

    KnowledgeBase("edge(a, b).").save(tmp_path / "store")
    for options, statement, kept in (([], "edge(b, c).", 1), (["--journal"], "edge(b, c).", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO(statement + "\n"))
        assert main(["shell", str(tmp_path / "store"), *options]) == 0
        assert len(KnowledgeBase.open(tmp_path / "store").facts("edge")) == kept
