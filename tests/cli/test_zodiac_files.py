"""Programs in ZodiacEdge's syntax on the command line: told by the ending of their file, and converted."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tidelog import KnowledgeBase
from tidelog.cli.command_line import main
from tidelog.cli.shell import Shell

PATHS = """\
edge(a, b). edge(b, c).
r1: path(X, Y) :- edge(X, Y).
r2: path(X, Z) :- path(X, Y) ∧ edge(Y, Z) ∧ COMP(X, !=, Z).
?- path(a, X) and comp(X, !=, b).
"""
AS_DLOG = """\
edge(a, b).
edge(b, c).
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z), X != Z.
?- path(a, X), X != b.
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "paths.zodiac"
    path.write_text(PATHS)
    return str(path)


def test_every_command_that_takes_a_program_takes_it(program: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", program]) == 0
    assert capsys.readouterr().out == "?- path(a, X) and COMP(X, !=, b).\nX = c\n"
    assert main(["explain", program, "path(a, c)"]) == 0
    assert "by path(X, Z) :- path(X, Y), edge(Y, Z), X != Z." in capsys.readouterr().out
    updates = tmp_path / "updates.jsonl"
    updates.write_text('{"add": {"edge": [["c", "d"]]}}\n')
    assert main(["stream", program, "--updates", str(updates)]) == 0
    assert '"path": [["a", "d"], ["b", "d"], ["c", "d"]]' in capsys.readouterr().out
    more = tmp_path / "more.zodiac"
    more.write_text("far(X) :- path(a, X) and edge(X, Y).")
    assert main(["graph", program, "--if-added", str(more)]) == 0
    assert "far(X) :- path(a, X), edge(X, Y)." in capsys.readouterr().out


def test_the_shell_loads_it(program: str) -> None:
    shell = Shell(KnowledgeBase())
    assert list(shell.execute(f":load {program}"))[-1] == "X = c"
    assert list(shell.execute(":rules")) == AS_DLOG.splitlines()[2:4]


def test_convert_there_and_back(
    program: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["convert", program]) == 0
    assert capsys.readouterr().out == AS_DLOG
    written, back = tmp_path / "paths.dlog", tmp_path / "back.zodiac"
    assert main(["convert", program, "--to", "dlog", "--out", str(written)]) == 0
    assert main(["convert", str(written), "--out", str(back)]) == 0
    assert "path(X, Z) :- path(X, Y) and edge(Y, Z) and COMP(X, !=, Z)." in back.read_text()
    for wanted, given, expected in (("zodiac", written, back), ("dlog", back, written)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.read_bytes())))
        assert main(["convert", "-", "--to", wanted]) == 0
        assert capsys.readouterr().out == expected.read_text()


def test_what_cannot_be_said_is_named_with_its_file_and_line(tmp_path: Path, capsys: Captured) -> None:
    program, out = tmp_path / "alone.dlog", tmp_path / "alone.zodiac"
    program.write_text("node(a).\nalone(X) :- node(X),\n  not edge(X, _).\n")
    assert main(["convert", str(program), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {program}:3:15: ZodiacEdge's syntax cannot say a rule")
    assert not out.exists()
    out.write_text("alone(X) :- node(X) and not edge(X, Y).")
    assert main(["run", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {out}:1:37: the rule is unsafe: the variable `Y`")
