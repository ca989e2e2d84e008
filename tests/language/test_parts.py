"""Programs in parts: imports, modules and parameters, in files, in texts and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from tidelog import DataError, KnowledgeBase, ParseError, TidelogError, UnsafeRuleError
from tidelog.cli.command_line import main
from tidelog.language.parts import linked

MAIN = """% who may do what
@import "acl/rules.dlog".
@import 'graph.dlog'.
open(X) :- acl:may(X, Y), edge(X, Y), not acl:suspended(X).
"""
RULES = """@module acl.
@import "../graph.dlog".
@predicate granted/2.
may(X, Y) :- granted(X, Y).
may(X, Z) :- may(X, Y), ( edge(Y, Z) ; granted(Y, Z) ), N = count { W : may(W, W), suspended(W) }, N < $most.
suspended(eve). suspended("$most").
"""
GRAPH = "edge(a, b). edge(b, c). edge(eve, b)."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "acl").mkdir()
    (tmp_path / "main.dlog").write_text(MAIN, "utf-8")
    (tmp_path / "acl" / "rules.dlog").write_text(RULES, "utf-8")
    (tmp_path / "graph.dlog").write_text(GRAPH, "utf-8")
    return tmp_path


def read(folder: Path, **parameters: object) -> str:
    return tidelog.read_program(folder / "main.dlog", parameters)


def test_files_make_one_program(folder: Path) -> None:
    text = read(folder, most=5)
    kb = KnowledgeBase(text.replace("N = count { W : acl:may(W, W), acl:suspended(W) }, N < 5", "1 < 5"))
    kb.update(add={"acl:granted": [("a", "b"), ("eve", "b")]})
    assert sorted(kb.facts("acl:may")) == [("a", "b"), ("a", "c"), ("eve", "b"), ("eve", "c")]
    assert sorted(kb.facts("open")) == [("a",)]
    assert len(kb.facts("edge")) == 3
    assert sorted(kb.facts("acl:suspended")) == [("$most",), ("eve",)]
    assert text.count("edge(a, b)") == 1, "imported once"


def test_lines_and_comments_stay(folder: Path) -> None:
    lines = read(folder, most=5).split("\n")
    assert lines[0] == "% who may do what"
    assert lines[1].strip() == lines[2].strip() == ""
    assert lines[3] == MAIN.split("\n")[3]


def test_only_what_a_text_defines_is_its_modules() -> None:
    text = '@module m. p(X) :- q(X), r(X), not p[X, X], ex:p(X). q(a). ?- p(X), r(X), contains(X, "p").'
    found = linked(text, "t", None, {}).text
    assert found.strip() == 'm:p(X) :- m:q(X), r(X), not m:p[X, X], ex:p(X). m:q(a). ?- m:p(X), r(X), contains(X, "p").'


def test_files_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.dlog").write_text('@import "b.dlog". p(1).', "utf-8")
    (tmp_path / "b.dlog").write_text('@import "./a.dlog". q(2).', "utf-8")
    kb = KnowledgeBase(tidelog.read_program(tmp_path / "a.dlog"))
    assert (list(kb.facts("p")), list(kb.facts("q"))) == ([(1,)], [(2,)])


def test_parameters_are_constants() -> None:
    text = "hot(X) :- temp(X, T), T > $limit.  name($name, $limit + 1).  ?- hot($x)."
    kb = KnowledgeBase(text, parameters={"limit": 5, "name": 'Mallory"). p(1'})
    kb.update(add={"temp": [("a", 5), ("b", 6)]})
    assert list(kb.facts("hot")) == [("b",)]
    assert list(kb.facts("name")) == [('Mallory"). p(1', 6)]


@pytest.mark.parametrize(
    ("text", "parameters", "error", "said"),
    [
        ("p(X) :- q(X), X > $limit.", {}, ParseError, r"<program>:1:19: `\$limit` has no value"),
        ("p(X) :- q(X), X > $limit.", {"limit": object()}, DataError, r"1:19: the value of `\$limit` is no constant"),
        ("p($a).", {"a": 1, "b": 2}, TidelogError, r"no parameter `\$b`"),
        ("p($limit).", {"limit": 1, "limt": 2}, TidelogError, "did you mean `limit`"),
        ("p(a).", {"b": 2}, TidelogError, r"no parameter `\$b`"),
        ('p(a).\n@import "other.dlog".', {}, ParseError, "2:1: only a file can import"),
        ("@module a.\n@module b.", {}, ParseError, "2:1: a text is in one module"),
        ("@import other.dlog.", {}, ParseError, "a file is imported by"),
        ("@module a-b.", {}, ParseError, "a text is in a module by"),
    ],
)
def test_mistakes(text: str, parameters: dict[str, object], error: type[TidelogError], said: str) -> None:
    with pytest.raises(error, match=said):
        KnowledgeBase(text, parameters=parameters)


def test_mistakes_of_files_name_them_and_their_lines(folder: Path) -> None:
    with pytest.raises(ParseError, match=r"acl/rules\.dlog:5:104: `\$most` has no value"):
        read(folder)
    (folder / "graph.dlog").write_text("edge(a, b).\np(X) :- edge(Y, Y).", "utf-8")
    with pytest.raises(UnsafeRuleError, match=r"graph\.dlog:2:3"):
        read(folder, most=1)
    (folder / "graph.dlog").unlink()
    with pytest.raises(DataError, match=r"rules\.dlog:2:1: .*graph\.dlog: No such file"):
        read(folder, most=1)


def test_mistakes_of_whole_programs_name_files(tmp_path: Path) -> None:
    part, program = tmp_path / "part.dlog", tmp_path / "main.dlog"
    program.write_text('@import "part.dlog".\n\np(1, 2). q(X) :- r(X, $n), not s(X).', "utf-8")

    def said(text: str, at: str) -> str:
        """The message about the part, which is about the given place in it."""
        part.write_text(text, "utf-8")
        before, _, _ = text.partition(at)
        place = f"{part}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: "
        with pytest.raises(TidelogError) as caught:
            KnowledgeBase(tidelog.read_program(program, {"n": 1000}))
        if isinstance(caught.value, ParseError):
            assert f":{caught.value.line}:{caught.value.column}: " in str(caught.value)
        return str(caught.value).replace(place, "HERE ")

    assert f"HERE `p` has 1 argument here, but 2 arguments in {program}:3:1" in said("\np(1).", "p")
    assert "HERE variable `Y` is not bound" in said("@module m. t(1). s(X) :- t(X), Y > $n.", "Y")
    assert "HERE `p` has 1 argument" in said("@module m. t($n). s(X) :- t($n), t($n), p(X).", "p(X)")
    assert "HERE there is no type `text`" in said("\n@predicate p(a: text, b).", "a:")
    assert f"{program}:3:1: 1 is no string" in said("@predicate p(a: string, b).", "p")
    cycle = said("\ns(X) :- q(X).", "s")
    assert f"({program}:3)" in cycle
    assert f"({part}:2)" in cycle
    program.write_text('@import "part.dlog".\np(ex:a).', "utf-8")
    used = said("t($n).\n@prefix ex: <http://e/> .", "@prefix ex")
    assert f"HERE the prefix `ex:` is declared after its use in {program}:2:1" in used


def test_a_module_has_keys() -> None:
    kb = KnowledgeBase("@module m.  @predicate k(a, b). @key k(a). k($n, 2).", parameters={"n": 3})
    assert kb.rules == [":- m:k(A, B), m:k(A, OtherB), B != OtherB."]
    with pytest.raises(tidelog.ConstraintError):
        kb.update(add={"m:k": [(3, 4)]})


def test_updates_and_questions_import_nothing() -> None:
    kb = KnowledgeBase()
    for text in ('@import "a.dlog".', "@module m. p(X) :- q(X)."):
        with pytest.raises(ParseError, match="cannot stand here"):
            kb.add_rules(text)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.dlog").write_text('@import "t.dlog". hot(X) :- temp(X, T), T > $limit.', "utf-8")
    (tmp_path / "t.dlog").write_text("temp(a, 5). temp(b, 7).", "utf-8")
    program = str(tmp_path / "main.dlog")
    assert main(["run", program, "-q", "hot($x)", "--param", "limit=6", "--param", "x=b"]) == 0
    assert main(["explain", program, "hot($x)", "--param", "limit=6", "--param", "x=b"]) == 0
    assert "temp(b, 7)  explicit" in capsys.readouterr().out
    assert main(["graph", program, "--param", "limit=6"]) == 0
    (tmp_path / "t.dlog").write_text("temp(a, 5).\nodd(x) :- temp(x, y), tmep(x, y).", "utf-8")
    assert main(["run", program, "--param", "limit=6"]) == 0
    warned = capsys.readouterr().err
    assert f"{tmp_path / 't.dlog'}:2:1: the rule has no variable: `x` is a constant" in warned
    assert f"{tmp_path / 't.dlog'}:2:23: `tmep` is used" in warned
    assert main(["graph", program, "--param", "limit=6", "--param", "other=6"]) == 2
    assert main(["run", program]) == 2
    assert "--param limit=" in capsys.readouterr().err
