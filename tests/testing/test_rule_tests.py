"""Files of tests: what they can say, and what is told of mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog import IRI, TidelogError
from tidelog.testing.rule_tests import Expect, Holds, RuleTest, Update, read_tests
from tidelog.testing.running import run

RULES = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
lonely(X) :- node(X), not edge(X, _).
degree(X, count(Y)) :- edge(X, Y).
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.dlog").write_text(RULES + "?- path(a, X).")
    return tmp_path


def read(folder: Path, text: str) -> list[RuleTest]:
    path = folder / "some.test.dlog"
    path.write_text(text)
    return read_tests(path)


def told(folder: Path, text: str) -> list[str]:
    """What fails in the only test of a file."""
    [test] = read(folder, text)
    return [f"{failure.line}: {failure}" for failure in run(test)]


def test_tests_start_afresh(folder: Path) -> None:
    tests = read(
        folder,
        """% about paths
@use "rules.dlog".
edge(a, b).

@test "one".
edge(b, c). node(n).
@expect path(a, X): (b), (c).
@holds path(a, c), lonely(n).
@fails path(c, _).

@test "two".   % without what the first one has
@expect path(X, Y): (a, b).
@expect lonely(X): none.
@add edge(b, a).  flag().
     far(X) :- path(X, X).
@holds flag(), far(a).
@delete far(Y) :- path(Y, Y). edge(a, b).
@expect path(X, Y): (b, a).
@fails far(a).
""",
    )
    assert [(test.name, test.line) for test in tests] == [("one", 5), ("two", 11)]
    assert [type(step) for step in tests[1].steps] == [Expect, Expect, Update, Holds, Update, Expect, Holds]
    assert [step.line for step in tests[1].steps] == [12, 13, 14, 16, 17, 18, 19]
    assert [run(test) for test in tests] == [[], []]


def test_a_file_without_names_is_one_test(folder: Path) -> None:
    [test] = read(folder, '@use "rules.dlog".\nedge(a, b).\n@holds path(a, b).\n')
    assert test.name == "some"
    assert run(test) == []


def test_constants_of_all_kinds_are_expected(folder: Path) -> None:
    text = """@prefix ex: <http://e.org/> .
p(1, "a: (b)", ex:it). p(1.0, 'x', true). p(-3, "", "chat"@fr).
@expect p(X, Y, Z):   % of three kinds: (numbers)
    (1, "a: (b)", ex:it),
    (1.0, x, true),   [-3, "", "chat"@fr].
% done
@expect p(1, ?y, <http://e.org/it>): ("a: (b)").
@expect p(X, _, _), X % 2 = 1.0, X > 0: (1), (1.0).
"""
    [test] = read(folder, text)
    first = test.steps[0]
    assert isinstance(first, Expect)
    assert first.rows[0] == (1, "a: (b)", IRI("http://e.org/it"))
    assert run(test) == []


def test_prefixes_of_used_programs_count(folder: Path) -> None:
    (folder / "named.dlog").write_text("@prefix ex: <http://e.org/> . ex:p(ex:a). ex:q(?x) :- ex:p(?x).")
    assert told(folder, '@use "named.dlog".\n@expect ex:q(?x): (ex:a).\n@holds <http://e.org/q>(ex:a).') == []
    [wrong] = told(folder, '@use "named.dlog".\n@expect ex:q(?x): (ex:b).')
    assert "- (ex:b)  is expected\n    + (ex:a)  is not expected" in wrong


def test_facts_and_programs_of_other_kinds_are_used(folder: Path) -> None:
    (folder / "facts").mkdir()
    (folder / "facts" / "edge.csv").write_text("a,b\n")
    (folder / "node.jsonl").write_text('["n"]\n')
    (folder / "more.zodiac").write_text("far(X) :- path(a, X) and COMP(X, !=, b).\n")
    text = '@use "rules.dlog".\n@use "facts".\n@use "node.jsonl".\n@use "more.zodiac".\n@add edge(b, c).\n'
    assert told(folder, text + "@expect far(X): (c).\n@expect lonely(X): (n).") == []


def test_headers_of_csv_files_are_told(folder: Path) -> None:
    (folder / "edge.csv").write_text("from,to\na,b\n")
    assert told(folder, '@use "edge.csv", header.\n@expect edge(X, Y): (a, b).') == []
    assert told(folder, '@use "edge.csv", no header.\n@expect edge(X, Y): (a, b), (from, to).') == []


def test_queries_have_all_forms(folder: Path) -> None:
    text = """@prefix ex: <http://e.org/> .
p(1). ex:q(2).
@holds ( p(1) ; ex:q(1) ).
@fails ( p(2) ; ex:q(1) ).
@holds X in range(0, 3), p(X).
@holds 1 = count { Z : p(Z) }.
@expect p(X), Y = count { Z : p(Z) }: (1, 1).   % {
@expect p(X), Y = count { Z : p(Z), 0 = count { V : ex:q(V), V < Z } }: (1, 1).
@expect ( p(X) ; ex:q(X) ), X in range(1, 3): (1), (2).
"""
    assert told(folder, text) == []
    [failure] = told(folder, "p(1).\n@expect X in range(0, 3), p(X): (2).")
    assert "- (2)  is expected\n    + (1)  is not expected" in failure


# ---- what fails


def test_answers_that_differ_are_shown(folder: Path) -> None:
    text = '@use "rules.dlog".\nedge(a, b). edge(b, c).\n\n@expect path(a, X): (b), (d).   % wrong\n'
    [failure] = told(folder, text)
    first, *lines = failure.split("\n")
    assert first == "4: @expect path(a, X): (b), (d)."
    assert lines[:2] == ["    - (d)  is expected", "    + (c)  is not expected"]
    assert "path(a, d) does not hold" in failure


def test_types_count(folder: Path) -> None:
    [failure] = told(folder, "p(1).\n@expect p(X): (1.0).\n@expect p(X): (1).")
    assert "- (1.0)  is expected\n    + (1)  is not expected" in failure


def test_answers_of_the_wrong_width_are_told(folder: Path) -> None:
    [failure] = told(folder, "p(1, 2).\n@expect p(X, Y): (1).")
    assert "(1) has 1 value, and the query asks for X, Y" in failure


def test_facts_that_hold_or_fail_are_explained(folder: Path) -> None:
    text = '@use "rules.dlog".\nedge(a, b).\n@holds path(b, a).\n@fails path(a, b).\n'
    text += "@fails path(X, Y).\n@holds path(X, X)."
    missing, there, answers, nothing = told(folder, text)
    assert missing.startswith("3: @holds path(b, a).\n    it does not hold\n")
    assert "path(b, a) does not hold" in missing
    assert "it holds:\n    path(a, b)  by path(X, Y) :- edge(X, Y).\n    └── edge(a, b)  explicit" in there
    assert "it has 1 answer\n    + (a, b)" in answers
    assert nothing == "6: @holds path(X, X).\n    it does not hold"


def test_proofs_rest_on_what_is_said(folder: Path) -> None:
    given = '@use "rules.dlog".\nedge(a, b). edge(b, c). edge(a, c).\n'
    assert told(folder, given + "@proof path(a, c) :- edge(a, c), not edge(a, b).") == []
    [failure] = told(folder, given + "@proof path(a, c) :- edge(a, b), not edge(a, c).")
    assert "- edge(a, b)  is not used\n    + edge(a, c)  is used\n    the proof:\n    path(a, c)  by" in failure
    [failure] = told(folder, given + "@proof path(c, a) :- edge(c, a).")
    assert "it has no proof" in failure


def test_an_update_that_is_refused_ends_its_test(folder: Path) -> None:
    [failure] = told(folder, "p(1).\n@add p(1, 2).\n@fails p(1).")
    assert failure.startswith("2: @add p(1, 2).\n    error: ")
    [failure] = told(folder, "p(1).\n@delete q(X) :- p(X).\n@fails p(1).")
    assert "there is no rule" in failure
    [failure] = told(folder, '@test "bad".\np(X) :- q(X), not p(X).\n@holds p(1).')
    assert failure.startswith("1: what the test starts with\n    error: ")


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p(a).\n@hold p(a).", ":2:2: there is no directive `@hold`\n   2 | @hold p(a)."),
        ("@hold p(a).", "did you mean `@holds`?"),
        ("@use rules.dlog.", 'write `@use "rules.dlog".`'),
        ('@use "rules.dlog" header.', '`@use "edges.csv", header.`'),
        ('@use "missing.csv".', "there is no"),
        ('@use "missing.dlog".', "missing.dlog: No such file"),
        ("@test nameless.", "expected a name in quotes"),
        ("@expect p(a).", "expected answers are missing"),
        ("@expect p(X): (a) (b).", "expected `,` or `.`"),
        ("@expect p(X): (a),.", "expected an answer"),
        ("@expect p(X): (a)", "expected `,` or `.`"),
        ("@expect p(X): (a", "this bracket is never closed"),
        ("@expect p(X): (a, Y).", "an answer holds constants"),
        ("@expect p(X): (a, ).", ":1:19: expected"),
        ("@expect p(X: (a).", ":1:12: expected"),
        ("\n  @holds p(a) q(b).", ":2:15: expected"),
        ("p(a) q(b).", ":1:5: expected"),
        ("@expect p(X): (a).\nq(b).", ":2:1: expected the next directive"),
        ("?- p(a).", "a query in a test"),
        ("@add ?- p(a).", "a query in a test"),
        ("@add % nothing", "an update without facts and rules"),
        ("@proof p(a).", "expected a fact and what its proof rests on"),
        ("@proof p(X) :- q(X).", "without variables"),
        ("@proof p(a) :- q(a), 1 < 2.", "without variables and comparisons"),
        ("p(1).\n@holds p(X), Y > 3.", ":2:14: variable `Y` is not bound in the query\n   2 | @holds p(X), Y > 3."),
        ("@holds p(X), p(X) < 3.", ":1:14: there is no function `p`\n   1 | @holds p(X), p(X) < 3."),
        ("@fails ( p(X) ; q(X) ), Y < 3.", ":1:25: variable `Y` is not bound"),
        ("@holds p(X), 1 = count { Z : q(Z), Y < Z }.", ":1:36: variable `Y` is not bound"),
        ("p(X) :- q(X), X in range(0, Y).\n@holds p(a).", ":1:29: variable `Y` is not bound"),
        ("@expect p(X), 1 = count { Z : q(Z).", "expected answers are missing"),
        ("", "there is no test in it; write what is expected"),
        ("p(1).", "there is no test in it"),
        ('@use "rules.dlog".', "there is no test in it"),
        ('@holds p(a).\n@test "late".', "before the first `@test`"),
        ('@test "x".\n@holds p(a).\n@use "facts".', "what a test starts with comes first"),
    ],
)
def test_mistakes_are_told_with_their_place(folder: Path, text: str, message: str) -> None:
    with pytest.raises(TidelogError) as caught:
        read(folder, text)
    assert "some.test.dlog" in str(caught.value)
    assert message in str(caught.value)


def test_declarations_of_a_test_count(folder: Path) -> None:
    text = """
@predicate weight(what: string, kilos: float).
@type point = [x: int, y: int].
@key weight(what).
@equality same on weight.
@constraint warn :- weight(_, W), W < 0.0.
same(pound, quid). weight(pound, 0.5).
@holds weight(quid, 0.5).
@add weight(stone, "heavy").
"""
    [failure] = told(folder, text)
    assert "`kilos`" in failure
    assert "heavy" in failure


def test_expiries_of_a_test_count(folder: Path) -> None:
    text = """
@expire seen(_, T) 10 s by T.
old(X) :- seen(X, _).
seen(a, 0).

@test "later".
@holds old(a).
@add seen(b, 20).
@expect old(X): (b).
@delete @expire seen(_, T) 10 s by T.
@add seen(c, 100).
@expect old(X): (b), (c).
"""
    assert told(folder, text) == []
