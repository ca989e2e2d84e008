"""`--query` and `--param`: questions and their values on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidelog.cli.command_line import main
from tidelog.cli.parameters import _value
from tidelog.values import IRI

Captured = pytest.CaptureFixture[str]

PROGRAM = """\
may(U, A) :- role(U, R), grants(R, A).
role(ada, admin). role("Mallory", reader). role(5, admin). role("5", reader).
grants(admin, write). grants(reader, read).
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "access.dlog"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("ada", "A = write"),
        ("Mallory", "A = read"),
        ("5", "A = write"),
        ('"5"', "A = read"),
        ("U", "no"),
        ("a,b)", "no"),
    ],
)
def test_a_query_takes_values(program: str, capsys: Captured, value: str, answer: str) -> None:
    main(["run", program, "-q", "may($user, A)", "--param", f"user={value}"])
    assert capsys.readouterr().out.splitlines()[1:] == [answer]


def test_queries_of_the_program_take_values(program: str, capsys: Captured) -> None:
    with Path(program).open("a") as file:
        file.write("?- may($user, $action).\n?- role($user, R).\n")
    assert main(["run", program, "--param", "user=ada", "--param", "action=write"]) == 0
    assert capsys.readouterr().out == "?- may(ada, write).\nyes\n?- role(ada, R).\nR = admin\n"
    assert main(["run", program, "--param", "user=ada"]) == 2
    assert f"error: {program}:4:15: `$action` has no value\n" in capsys.readouterr().err


def test_proofs_take_values(program: str, capsys: Captured) -> None:
    assert main(["explain", program, "may($user, read)", "--param", "user=Mallory"]) == 0
    assert capsys.readouterr().out.startswith('may("Mallory", read)  by may(U, A)')
    assert main(["explain", program, "may($user, read)", "--param", "user=ada"]) == 0
    assert "Missing: role(ada, reader)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-q", "may($user, A)"], "--query:1:5: `$user` has no value"),
        (["-q", "may(X, A)", "--param", "user=ada"], "--param user: no rule and no query has `$user`"),
        (["-q", "may(X)"], "--query:1:1: `may` has 1 argument here, but 2 arguments before\n   1 | may(X)"),
        (["-q", "may(X, A), B > 1"], "--query:1:12: variable `B` is not bound in the query\n   1 | may(X, A), B > 1"),
        (["-q", "may(X, "], "--query:1:"),
    ],
)
def test_a_wrong_question_ends_with_a_message(
    program: str, capsys: Captured, arguments: list[str], message: str
) -> None:
    assert main(["run", program, *arguments]) == 2
    assert f"error: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["user", "=ada", "my user=ada", "n=99999999999999999999"])
def test_a_wrong_value_ends_with_a_message(program: str, capsys: Captured, text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", program, "-q", "may($user, A)", "--param", text])
    assert "argument --param: " in capsys.readouterr().err


def test_a_misspelt_predicate_is_warned_of(program: str, capsys: Captured) -> None:
    main(["run", program, "-q", "maiy(X, A)"])
    captured = capsys.readouterr()
    assert captured.err == "warning: line 1, column 1: `maiy` is used but never given or derived; did you mean `may`?\n"
    assert captured.out.endswith("\nno\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ada", "ada"),
        ("Ada", "Ada"),
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("01234", "01234"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ('"true"', "true"),
        ("'it''s", "'it''s"),
        (r'"a \"b\""', 'a "b"'),
        ("<http://e.org/a>", IRI("http://e.org/a")),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_values_are_read_like_cells(text: str, value: object) -> None:
    found = _value(text)
    assert (found, type(found)) == (value, type(value))


def test_failures_are_told_apart(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "failing.dlog"
    path.write_text("n(0). n(abc). share(X, Y) :- n(X), Y = 1 / X.  big(X) :- n(X), X > 3.\n?- big(X).\n")
    assert main(["run", str(path)]) == 0
    note, *first = re.split(r"\n  (?! )", capsys.readouterr().err)
    assert note == (
        "note: 3 rule instances failed: 1 comparison of values that have no order, 2 expressions without a value"
    )
    assert sorted(map(str.rstrip, first)) == [
        "big(X) :- n(X), X > 3.\n    with X = abc: abc > 3 compares values of different types, string and number",
        "share(X, Y) :- n(X), Y = 1 / X.\n    with X = 0: 1 / 0 is a division by zero",
        "share(X, Y) :- n(X), Y = 1 / X.\n    with X = abc: 1 / abc needs numbers, and abc is a string",
    ]
