"""The command line on saved folders, queries on it, formats of answers, exit codes, and types of columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog import KnowledgeBase
from tidelog.cli.command_line import main

PATHS = """
@prefix ex: <http://e.org/> .
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
ex:far(X) :- path(a, X), not edge(a, X).
edge(a, b). edge(b, c). weight(a, 1.5). weight(b, 2).
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    KnowledgeBase(PATHS).save(tmp_path / "store")
    return str(tmp_path / "store")


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "paths.dlog"
    path.write_text(PATHS + "?- path(c, X).\n")
    return str(path)


def test_run_asks_a_saved_folder(store: str, capsys: Captured) -> None:
    assert main(["run", store, "-q", "path(a, X)", "-q", "?- ex:far(X), X != b."]) == 0
    assert capsys.readouterr().out == "?- path(a, X).\nX = b\nX = c\n?- ex:far(X), X != b.\nX = c\n"


def test_run_asks_beside_a_writer(store: str, capsys: Captured) -> None:
    with KnowledgeBase.open(store, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")]})
        assert main(["run", store, "-q", "path(a, d)"]) == 0
        assert main(["explain", store, "path(c, d)"]) == 0
        assert main(["graph", store]) == 0
    out = capsys.readouterr().out
    assert "?- path(a, d).\nyes\n" in out
    assert "edge(c, d)  explicit" in out
    assert "digraph" in out


@pytest.mark.parametrize(
    ("queries", "code"),
    [
        ([], 0),
        (["path(a, X)"], 0),
        (["path(c, X)"], 1),
        (["path(a, c)"], 0),
        (["path(c, a)"], 1),
        (["path(a, c)", "path(c, a)"], 1),
        (["path(c, a)", "path(a, c)"], 1),
    ],
)
def test_the_exit_code_says_whether_there_are_answers(program: str, queries: list[str], code: int) -> None:
    """A query of the program itself that has no answer, as here, is no failure."""
    assert main(["run", program, *(part for query in queries for part in ("-q", query))]) == code


def test_answers_as_json(store: str, capsys: Captured) -> None:
    arguments = ["run", store, "-q", "weight(X, W)", "-q", "path(c, a)", "-q", "path(a, c)", "-q", "X = ex:it"]
    assert main([*arguments, "--format", "json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        [{"X": "a", "W": 1.5}, {"X": "b", "W": 2}],
        [],
        [{}],
        [{"X": {"iri": "http://e.org/it"}}],
    ]
    assert main(["run", store, "-q", "path(a, X)", "--format", "jsonl"]) == 0
    assert capsys.readouterr().out == '{"X": "b"}\n{"X": "c"}\n'


def test_answers_as_tables(store: str, capsys: Captured) -> None:
    assert main(["run", store, "-q", "weight(?x, W)", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "x,W\na,1.5\nb,2\n"
    assert main(["run", store, "-q", "weight(X, nothing)", "--format", "tsv"]) == 1
    assert capsys.readouterr().out == "X\n"


def test_formats_of_answers_and_of_files_are_told_apart(store: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", store, "-q", "path(a, X)", "--format", "parquet"]) == 2
    assert "parquet is no format of answers; use one of text, json" in capsys.readouterr().err
    assert main(["run", store, "--out", str(tmp_path), "--format", "json"]) == 2
    assert "json is no format of files" in capsys.readouterr().err
    assert main(["run", store, "-q", "path(a, c)", "--out", str(tmp_path / "out"), "--format", "csv.gz"]) == 0
    assert capsys.readouterr().out == "?- path(a, c).\nyes\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ex:far.csv.gz", "path.csv.gz"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("path(a, ", "--query:1:"),
        ("path(X), path(X, Y)", "--query:1:1: "),
        ("X > 3", "--query:1:1: "),
        ("path(a)", "--query:1:1: "),
    ],
)
def test_bad_queries_are_told(program: str, query: str, message: str, capsys: Captured) -> None:
    assert main(["run", program, "-q", query]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    "option", [["--maintenance", "dred"], ["--no-modules"], ["--max-facts", "9"], ["--timeout", "9"]]
)
def test_options_that_are_saved_are_refused(store: str, option: list[str], capsys: Captured) -> None:
    assert main(["run", store, *option]) == 2
    assert f"{option[0]} is saved with a knowledge base" in capsys.readouterr().err


def test_what_is_no_saved_folder(program: str, tmp_path: Path, capsys: Captured) -> None:
    for command in ("stream", "shell"):
        more = ["--updates", "-"] if command == "stream" else []
        assert main([command, program, "--journal", *more]) == 2
        assert "is no saved knowledge base" in capsys.readouterr().err
    assert main(["run", str(tmp_path)]) == 2
    assert main(["run", str(tmp_path), "--engine", "spark"]) == 2


def test_more_facts_for_a_saved_folder(store: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.csv").write_text("c,007\n")
    assert main(["run", store, "--facts", str(tmp_path / "facts"), "-q", "path(a, '007')"]) == 0
    assert len(KnowledgeBase.open(store).facts("edge")) == 2


def test_stream_records_in_the_journal_of_a_folder(store: str, tmp_path: Path, capsys: Captured) -> None:
    updates = tmp_path / "updates.jsonl"
    updates.write_text('{"add": {"edge": [["c", "d"]]}}\n')
    assert main(["stream", store, "--updates", str(updates)]) == 0
    assert '"path": [["a", "d"]' in capsys.readouterr().out
    assert "path(a, d)" not in KnowledgeBase.open(store)
    assert main(["stream", store, "--updates", str(updates), "--journal"]) == 0
    assert "path(a, d)" in KnowledgeBase.open(store)


# ---- CSV files


def test_types_of_columns(program: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.csv").write_text("1,01\n")
    (tmp_path / "facts" / "weight.csv").write_text("1,2\n")
    arguments = ["run", program, "--facts", str(tmp_path / "facts"), "--format", "json"]
    arguments += ["-q", "edge(X, Y), X != a, X != b"]
    assert main(arguments) == 0
    assert main([*arguments, "--types", "edge=int,int", "--types", "weight=string,float"]) == 0
    assert main([*arguments, "--types", "edge=string,string"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines if "Y" in line] == [
        [{"X": 1, "Y": "01"}],
        [{"X": 1, "Y": 1}],
        [{"X": "1", "Y": "01"}],
    ]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("edge", "edge is not PREDICATE=TYPE"),
        ("=int", "is not PREDICATE=TYPE"),
        ("edge=int,number", "'number' is no type"),
        ("egde=int,int", "types are given for `egde`"),
        ("edge=int,int", "edge.csv, line 1: column 1: 'x' is no int"),
    ],
)
def test_bad_types_are_told(program: str, tmp_path: Path, types: str, message: str, capsys: Captured) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.csv").write_text("x,1\n")
    try:
        code = main(["run", program, "--facts", str(tmp_path / "facts"), "--types", types])
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    assert code == 2
    assert message in capsys.readouterr().err


def test_a_likely_header_is_told(program: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.csv").write_text("from,to\nc,d\n")
    arguments = ["run", program, "--facts", str(tmp_path / "facts"), "-q", "edge(from, to)"]
    assert main(arguments) == 0
    assert "edge.csv, line 1: `from,to` looks like the names of the columns" in capsys.readouterr().err
    assert main([*arguments, "--no-header"]) == 0
    assert main([*arguments, "--header"]) == 1
    assert "looks like" not in capsys.readouterr().err
