"""Facts from files and to files, and as texts, through a knowledge base."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tidelog import IRI, DataError, KnowledgeBase, Literal, ParseError, StorageError, TidelogError
from tidelog.formats import WRITE_FORMATS, read_facts

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
VALUES = ("a", "two words", "007", "", 7, -1.5, True, IRI("http://e.org/a b"), Literal("chat", language="fr"))


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


# ---- load


def test_a_file_is_loaded(tmp_path: Path) -> None:
    kb = KnowledgeBase(PATHS)
    change = kb.load(write(tmp_path, "edge.csv", "a,b\nb,c\n"))
    assert set(change.added["path"]) == {("a", "b"), ("b", "c"), ("a", "c")}
    assert not kb.load(str(tmp_path / "edge.csv"))


def test_a_file_is_loaded_as_told(tmp_path: Path) -> None:
    path = write(tmp_path, "table 7.csv", "from,to\n01,1\n1,02\n")
    kb = KnowledgeBase(PATHS)
    kb.load(path, predicate="edge", header=True, types=["string", "string"])
    assert set(kb.facts("edge")) == {("01", "1"), ("1", "02")}
    assert "path('01', '02')" in kb
    ints = KnowledgeBase()
    ints.load(path, predicate="edge", header=True, types=[int, int])
    assert set(ints.facts("edge")) == {(1, 1), (1, 2)}


def test_a_header_is_not_silently_a_fact(tmp_path: Path) -> None:
    path = write(tmp_path, "edge.csv", "from,to\na,b\n")
    with pytest.warns(UserWarning, match="header=True"):
        KnowledgeBase().load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KnowledgeBase().load(path, header=False)


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, "edge.csv", "1,2\n")
    write(tmp_path, "more.dlog", "edge(x, y). node(z).")
    write(tmp_path, "triples.nt", "<http://e.org/s> <http://e.org/p> <http://e.org/o> .\n")
    kb = KnowledgeBase("@prefix ex: <http://e.org/> .")
    kb.load(tmp_path, types={"edge": ["string", "int"]})
    assert set(kb.facts("edge")) == {("1", 2), ("x", "y")}
    assert set(kb.facts("ex:p")) == {(IRI("http://e.org/s"), IRI("http://e.org/o"))}


def test_batches_are_loaded_as_ever(tmp_path: Path) -> None:
    write(tmp_path, "edge.csv", "a,b\n")
    kb = KnowledgeBase(PATHS)
    assert kb.load(read_facts(tmp_path))
    with pytest.raises(TidelogError, match="say how a file is read"):
        kb.load(read_facts(tmp_path), header=True)


def test_what_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    kb = KnowledgeBase(PATHS)
    kb.save(tmp_path / "store")
    edges = write(tmp_path / "facts", "edge.csv", "a,b\n")
    triples = write(tmp_path, "x.nt", "")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (tmp_path / "store", {}, "open it with KnowledgeBase.open"),
        (tmp_path / "missing", {}, "no such file or folder"),
        (write(tmp_path, "edge.txt", "a,b"), {}, "the format is not known"),
        (tmp_path / "facts", {"predicate": "edge"}, "give no `predicate`"),
        (tmp_path / "facts", {"types": ["string", "int"]}, "given by predicate"),
        (edges, {"types": {"edge": ["string", "int"]}}, "the types of one file are a list"),
        (edges, {"predicate": "not a name"}, "not the name of a predicate"),
        (edges, {"predicate": "path/2"}, "not the name of a predicate"),
        (triples, {"predicate": "p"}, "name their predicates"),
        (3, {}, "takes the path of a file or folder"),
        ("a\0b", {}, "is no path"),
        ("", {}, "is no path"),
    ]
    for source, options, message in cases:
        with pytest.raises(TidelogError) as caught:
            kb.load(source, **options)
        assert message in str(caught.value)
    assert len(kb) == 0


# ---- export


def test_an_empty_path_is_not_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kb = KnowledgeBase("p(1).")
    for write_to in (kb.save, kb.export, KnowledgeBase.open):
        with pytest.raises(StorageError, match=r"`\.` is the present folder"):
            write_to("")
    assert not list(tmp_path.iterdir())
    kb.save(".")
    assert len(KnowledgeBase.open(".")) == 1


@pytest.mark.parametrize("format", [format for format in WRITE_FORMATS if not format.startswith("nt")])
def test_what_is_exported_comes_back(tmp_path: Path, format: str) -> None:
    names = ["edge", "Edge", "größe", "ex:undeclared", "<http://e.org/p/../q?x=1#y>", "<http://e.org/%41>", "_hidden"]
    kb = KnowledgeBase("@prefix known: <http://known.org/> . flag(). known:it(a).")
    kb.update(add={name: [(value, number) for number, value in enumerate(VALUES)] for name in names})
    files = kb.export(tmp_path / "out", format)
    assert len(files) == len(names) + 2
    assert all(path.name.endswith(f".{format}") for path in files)
    back = KnowledgeBase()
    back.load(tmp_path / "out", header=False)
    assert set(back.predicates) == {*names, "flag", "<http://known.org/it>"}
    for name in (*names, "flag", "<http://known.org/it>"):
        assert set(map(repr, back.facts(name))) == set(map(repr, kb.facts(name))), name


def test_triples_come_back(tmp_path: Path) -> None:
    kb = KnowledgeBase("@prefix ex: <http://e.org/> . ex:knows(ex:a, ex:b). ex:Person(ex:a). ex:age(ex:a, 7).")
    for format in ("nt", "nt.gz"):
        kb.export(tmp_path / format, format)
        back = KnowledgeBase("@prefix ex: <http://e.org/> .")
        back.load(tmp_path / format)
        assert back.predicates == kb.predicates
        assert all(set(back.facts(name)) == set(kb.facts(name)) for name in kb.predicates)
    kb.update(add="plain(a).")
    with pytest.raises(DataError, match="plain cannot be N-Triples"):
        kb.export(tmp_path / "none", "nt")
    assert list((tmp_path / "none").iterdir()) == []


def test_some_predicates_and_explicit_facts_are_exported(tmp_path: Path) -> None:
    kb = KnowledgeBase(PATHS + "edge(a, b). edge(b, c). path(x, y). node(a).")
    [path] = kb.export(tmp_path / "some", predicates=["path"], explicit=True)
    assert path.read_text() == "x,y\n"
    assert {path.name for path in kb.export(tmp_path / "given", explicit=True)} == {"edge.csv", "node.csv", "path.csv"}
    back = KnowledgeBase(PATHS)
    back.load(tmp_path / "given")
    assert set(back.facts("path")) == set(kb.facts("path"))
    with pytest.raises(TidelogError, match="a list of names"):
        kb.export(tmp_path / "some", predicates="path")


def test_predicates_without_facts_have_empty_files(tmp_path: Path) -> None:
    kb = KnowledgeBase(PATHS)
    assert [path.read_text() for path in kb.export(tmp_path)] == ["", ""]


# ---- facts as texts


def test_facts_are_given_as_text() -> None:
    kb = KnowledgeBase(PATHS)
    change = kb.update(add="edge(a, b). edge(b, c).  % and so on")
    assert set(change.added["path"]) == {("a", "b"), ("b", "c"), ("a", "c")}
    change = kb.update(delete="edge(a, b).", add='edge("New York", 7).')
    assert set(change.removed["edge"]) == {("a", "b")}
    assert set(change.added["edge"]) == {("New York", 7)}
    assert set(kb.what_if(delete="edge(b, c).").removed["path"]) == {("b", "c")}
    assert [set(change.added["path"]) for change in kb.stream([{"add": "edge(x, y)."}])] == [{("x", "y")}]
    live = kb.live()
    live.submit(add="edge(y, z).")
    live.submit(add={"edge": [("z", "w")]}, delete="edge(x, y).")
    assert set(live.settle().added["path"]) == {("y", "z"), ("z", "w"), ("y", "w")}


def test_a_text_of_facts_may_declare_prefixes() -> None:
    kb = KnowledgeBase()
    kb.update(add="@prefix ex: <http://e.org/> . ex:p(ex:a).")
    assert kb.prefixes == {"ex": "http://e.org/"}
    assert set(kb.facts("<http://e.org/p>")) == {(IRI("http://e.org/a"),)}
    kb.update(delete="ex:p(ex:a).")
    assert len(kb) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("edge(a, b). p(X) :- q(X).", "<add>:1:13: a rule stands among facts"),
        ("?- edge(a, X).", "a query stands among facts"),
        ("edge(a, b", "expected"),
        ("@prefix u: <http://e.org/> .", "declared after its use"),
    ],
)
def test_a_text_that_holds_no_facts_changes_nothing(text: str, message: str) -> None:
    kb = KnowledgeBase("u:p(a).")
    with pytest.raises(ParseError) as caught:
        kb.update(add=text)
    assert message in str(caught.value)
    assert (len(kb), kb.prefixes) == (1, {})
