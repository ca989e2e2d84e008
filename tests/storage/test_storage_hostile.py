"""Single forgeries in a store with valid checksums: each is refused, with the file and what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit import audit
from tidelog import IRI, KnowledgeBase, Literal, StorageError
from tidelog.storage.durable_files import checksum
from tidelog.storage.journal import MAGIC, encode_record, read_journal

RULES = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not path(X, _).
    same(X, Z) :- same(X, Y), same(Y, Z), X != Z.
    same(X, Y) :- twin(X, Y).
"""
FIRST = "path(X, Y) :- edge(X, Y)."


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "home"
    kb = KnowledgeBase(RULES)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "a")], "node": [("z",), (1.5,), (7,), (True,)]})
    kb.update(add={"twin": [("a", "b")], "node": [(IRI("http://a"),), (Literal("x", language="en"),)], "flag": [()]})
    kb.save(folder)
    with KnowledgeBase.open(folder, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")]}, add_rules="last(X) :- node(X).", commit={"batch": "1"})
    return folder


@pytest.fixture
def home(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "home")


def rewrite(home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, as a program would that keeps the checksums right; also those of tables that changed."""
    path = home / "snapshot-1" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    for name in manifest["files"] if isinstance(manifest.get("files"), dict) else ():
        if (table := path.parent / os.path.basename(name)).is_file():
            manifest["files"][name] = checksum(table.read_bytes())
    path.write_text(json.dumps(manifest))
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "manifest": checksum(path.read_bytes())}))


def put(*places: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Change the value at a place."""

    def change(manifest: dict[str, Any]) -> None:
        inside: Any = manifest
        for place in places[:-1]:
            inside = inside[place]
        if value is None:
            del inside[places[-1]]
        else:
            inside[places[-1]] = value

    return change


LIES: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    # Rules
    (put("rules", 0, "number", value=-1), r"`rules\[0\].number` is -1, not a whole number from 1"),
    (put("rules", 0, "number", value=0), "number"),
    (put("rules", 0, "number", value=2), r"`rules\[1\].number` is 2"),
    (put("rules", 0, "number", value=True), "number"),
    (put("rules", 0, "number", value="1"), "number"),
    (put("rules", 5, "number", value=10**6), "number"),
    (put("next_rule", value=1), "number"),
    (put("next_rule", value=2**31), "next_rule"),
    (put("rules", 0, "text", value="path(X, Y, Z) :- edge(X, Y), edge(Y, Z)."), "path.*arguments"),
    (put("rules", 0, "text", value="path(X, Y) :- edge(X, Y, Z)."), "edge.*arguments"),
    (put("rules", 0, "text", value="path(X, Y) :- edge(X, Z)."), "not bound"),
    (put("rules", 0, "text", value="path(X, Y) :- edge(X, Y), not path(Y, X)."), "negation through recursion"),
    (put("rules", 0, "text", value="path(X, Y) :- "), "is no rule"),
    (put("rules", 0, "text", value="path(a, b)."), "is no rule"),
    (put("rules", 0, "text", value=FIRST * 2), "is 2 rules, not one"),
    (put("rules", 0, "text", value="path(X, Y) :- edge(X, Y), lower(X) = lower(Y, X)."), "takes 1 argument"),
    (put("rules", 0, "text", value=7), "not a text"),
    (put("rules", 0, "counter", value=3), "counter"),
    (put("rules", 0, "applications", value=-1), "applications"),
    (put("rules", 0, value=[]), r"`rules\[0\]` is \[\], not an object"),
    (put("rules", value={}), "not a list"),
    (put("rules", value=None), "lacks the field `rules`"),
    # Predicates and relations
    (put("arities", "edge", value=3), "arguments"),
    (put("arities", "edge", value=-2), "arities"),
    (put("arities", "#base path", value=2), "is not named after a predicate"),
    (put("arities", "p q", value=2), "is not named after a predicate"),
    (put("relations", 0, "arity", value=3), "columns"),
    (put("relations", 0, "arity", value=2**40), "arity"),
    (put("relations", 0, "name", value="node"), "twice|columns|arguments"),
    (put("relations", 0, "name", value="#groups 99"), "nothing is known"),
    (put("relations", 0, "name", value="unknown"), "nothing is known"),
    (put("relations", 0, "name", value="path"), "closure|missing"),
    (put("relations", 0, "file", value="../CURRENT"), "no file of a relation"),
    (put("relations", 0, "file", value="terms.parquet"), "no file of a relation"),
    (put("relations", 0, "extra", value=1), "has an unknown field"),
    (put("files", value={}), "does not name"),
    # Closures
    (put("closures", value=["path", "same", "edge"]), "`edge` is said to be a closure"),
    (put("closures", value=["path", "same", "nothing"]), "no rule mentions it"),
    (put("closures", value=["path", "path"]), "twice"),
    (put("closures", value=["path"]), "no closure starts from them"),
    (put("closures", value=["path", "same", "#core path"]), "core"),
    (put("pairs", "path", value=8), "do not have as many pairs"),
    (put("options", "modules", value=False), "by its rules it is none"),
    # Everything else
    (put("options", "maintenance", value="magic"), "unknown maintenance"),
    (put("options", "rules_text", value="p(a)."), "has an unknown field"),
    (put("options", "max_facts", value=-1), "max_facts"),
    (put("options", "timeout", value="long"), "timeout"),
    (put("options", value=None), "options"),
    (put("prefixes", value={"ex": 7}), "prefixes"),
    (put("prefixes", value={"p q": "http://example.org/"}), "no prefix"),
    (put("commit", value={"batch": 1}), "commit"),
    (put("errors", value=-1), "errors"),
]


@pytest.mark.parametrize(("change", "message"), LIES, ids=range(len(LIES)))
def test_a_lie_in_the_manifest(home: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    rewrite(home, change)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(home)
    assert str(home) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"[]", b"7", b'{"format": "\\ud800"}', b"\xff", b"", b"{" + b'"a":' * 5, b"1" * 10_000]
)
def test_json_that_is_none(home: Path, content: bytes) -> None:
    manifest = home / "snapshot-1" / "manifest.json"
    original = manifest.read_bytes()
    manifest.write_bytes(content)
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "manifest": checksum(content)}))
    with pytest.raises(StorageError, match=r"manifest\.json"):
        KnowledgeBase.open(home)
    manifest.write_bytes(original)
    (home / "CURRENT").write_bytes(content)
    with pytest.raises(StorageError, match="CURRENT"):
        KnowledgeBase.open(home)


# Tables


def change_table(home: Path, file: str, change: Callable[[pa.Table], pa.Table]) -> None:
    path = home / "snapshot-1" / file
    table = change(pq.read_table(path))
    pq.write_table(table, path)
    rewrite(home, lambda _: None)


def file_of(home: Path, name: str) -> str:
    manifest = json.loads((home / "snapshot-1" / "manifest.json").read_text())
    return next(item["file"] for item in manifest["relations"] if item["name"] == name)


def with_values(column: str, *values: Any, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """Give the first rows of a column other values."""

    def change(table: pa.Table) -> pa.Table:
        changed = [*values, *table[column].to_pylist()[len(values) :]]
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(changed, kind or table[column].type))

    return change


def not_utf8(table: pa.Table) -> pa.Table:
    texts = pa.array([text and b"\xff\xfe" for text in table["text"].to_pylist()], pa.large_binary())
    return table.set_column(2, "text", texts.view(pa.large_string()))


def literal_without_parts(table: pa.Table) -> pa.Table:
    columns = (table[column].to_pylist() for column in ("kind", "text"))
    texts = ["no parts" if kind == 5 else text for kind, text in zip(*columns, strict=True)]
    return table.set_column(2, "text", pa.array(texts, pa.large_string()))


def float_bits(bits: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        kinds, numbers = (table[column].to_pylist() for column in ("kind", "number"))
        changed = [bits if kind == 2 else number for kind, number in zip(kinds, numbers, strict=True)]
        return table.set_column(1, "number", pa.array(changed, pa.int64()))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("kind", 6), "unknown kind"),
        (with_values("kind", 255), "unknown kind"),
        (with_values("kind", None), "no kind"),
        (with_values("kind", 1), "row 0"),
        (with_values("number", 5), "row 0"),
        (with_values("text", None), "row 0"),
        (with_values("text", "b"), "a constant twice"),
        (with_values("kind", 0, kind=pa.int64()), "columns"),
        (lambda table: table.drop_columns(["number"]), "columns"),
        (lambda table: table.slice(0, 2), "dictionary does not have"),
        (lambda table: table.append_column("kind", table["kind"]), "columns"),
        (float_bits(-(2**63)), "a zero or NaN other than the canonical one"),
        (float_bits(-1), "a zero or NaN other than the canonical one"),
        (not_utf8, "UTF8"),
        (literal_without_parts, "no datatype"),
    ],
    ids=range(15),
)
def test_a_lie_in_the_dictionary(home: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    change_table(home, "terms.parquet", change)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(home)
    assert str(home) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("c0", 0), "dictionary does not have"),
        (with_values("c0", -1), "dictionary does not have"),
        (with_values("c1", 10**6), "dictionary does not have"),
        (with_values("c0", None), "empty cell"),
        (with_values("explicit", None), "empty cell"),
        (with_values("c0", 1, kind=pa.int64()), "columns"),
        (lambda table: table.drop_columns(["c1"]), "columns"),
        (lambda table: table.append_column("c2", table["c0"]), "columns"),
        (lambda table: table.append_column("recursive", table["c0"]), "columns"),
        (lambda table: pa.concat_tables([table, table]), "a fact twice"),
    ],
    ids=range(10),
)
def test_a_lie_in_a_relation(home: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    change_table(home, file_of(home, "edge"), change)
    with pytest.raises(StorageError, match=message):
        KnowledgeBase.open(home)


def test_columns_whose_names_are_no_text(home: Path) -> None:
    path = home / "snapshot-1" / file_of(home, "edge")
    path.write_bytes(path.read_bytes().replace(b"c0", b"\xc50"))
    rewrite(home, lambda _: None)
    with pytest.raises(StorageError, match=path.name):
        KnowledgeBase.open(home)


def test_a_closure_over_numbers_that_it_cannot_tell_apart(home: Path) -> None:
    """With `!=` in its rule, `same` is no closure of floats: 1 and 1.0 are equal, and two constants."""
    terms = pq.read_table(home / "snapshot-1" / "terms.parquet")["kind"].to_pylist()
    number = terms.index(2) + 1
    change_table(home, file_of(home, "#base same"), with_values("c0", number))
    with pytest.raises(StorageError, match="with floats it is none"):
        KnowledgeBase.open(home)


def test_counters_that_cannot_be_are_counted_anew(home: Path) -> None:
    change_table(home, file_of(home, "#base path"), with_values("nonrecursive", -7))
    kb = KnowledgeBase.open(home)
    kb.update(delete={"edge": [("c", "a")]})
    assert set(kb.facts("path")) == {(x, y) for x, y in zip("aaabbc", "bcdcdd", strict=True)}


# The journal


def change_record(home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = home / "journal-1.log"
    update = json.loads(read_journal(path).payloads[0])
    change(update)
    path.write_bytes(MAGIC + encode_record(1, json.dumps(update).encode()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("terms", 0, value=["str", 7]), "not a text"),
        (put("terms", 0, value=["int", "7"]), "not a whole number"),
        (put("terms", 0, value=["int", 2**63]), "not a whole number"),
        (put("terms", 0, value=["float", "one"]), "no float"),
        (put("terms", 0, value=["bool", 1]), "not true or false"),
        (put("terms", 0, value=["iri", 5]), "not a text"),
        (put("terms", 0, value=["literal", "a", "b"]), "no constant"),
        (put("terms", 0, value=["str", "\ud800"]), "not JSON"),
        (put("terms", 0, value=[]), "no constant"),
        (put("terms", 0, value=7), "not a list"),
        (put("add", "edge", "arity", value=3), "cells"),
        (put("add", "edge", "rows", value=10**12), "cells"),
        (put("add", "edge", value={"arity": 1, "rows": 2, "cells": [0, 1]}), "edge.*argument"),
        (put("add", "edge", value={"arity": 10**9, "rows": 0, "cells": []}), "edge.*argument"),
        (put("add", "edge", "cells", value=[0, -1]), "not there"),
        (put("add", "edge", "cells", value=[0, 2]), "not there"),
        (put("add", "edge", "cells", value=[0, 1.0]), "no whole numbers"),
        (put("add", "edge", "cells", value=[0, 2**70]), "no whole numbers"),
        (put("add", "edge", "cells", value=[0, [1]]), "no whole numbers"),
        (put("add", "edge", "cells", value="01"), "not a list"),
        (put("add", "#base path", value={"arity": 2, "rows": 1, "cells": [0, 1]}), "is not named after a predicate"),
        (put("add_rules", value=["last(X, Y) :- node(X)."]), "not bound"),
        (put("add_rules", value=["last(X) :- node(X, X)."]), "arguments"),
        (put("add_rules", value=["node(X) :- edge(X, _), not lonely(X)."]), "negation through recursion"),
        (put("add_rules", value="last(X) :- node(X)."), "not a list"),
        (put("remove_rules", value=["never(X) :- there(X)."]), "there is no rule"),
        (put("prefixes", value={"p": None}), "not a text"),
        (put("prefixes", value={"7": "http://example.org/"}), "no prefix"),
        (put("commit", value={"p": 1}), "not a text"),
        (put("terms", value=None), "lacks"),
    ],
    ids=range(30),
)
def test_a_lie_in_the_journal(home: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    change_record(home, change)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(home, journal=True)
    assert "update 1 of the journal" in str(caught.value)
    assert str(home) in str(caught.value)


def test_a_fact_without_arguments_that_is_said_to_be_many(home: Path) -> None:
    change_record(home, put("add", "flag", value={"arity": 0, "rows": 10**15, "cells": []}))
    assert list(KnowledgeBase.open(home).facts("flag")) == [()]


def test_numbers_of_rules_that_leave_much_out(tmp_path: Path) -> None:
    """Every number costs memory: once a great many are used up, numbering starts afresh."""
    rules = RULES + "of(X, Y) :- has(Y, X). has(X, Y) :- of(Y, X). of(X, Z) :- of(X, Y), of(Y, Z)."
    kb = KnowledgeBase()
    kb._engine.graph.next_number = 2**21
    kb.update(add={"edge": [("a", "b"), ("b", "c")], "has": [("x", "y")], "of": [("x", "z")]}, add_rules=rules)
    assert min(kb._engine.graph.rules) == 2**21
    kb.save(tmp_path)
    opened = KnowledgeBase.open(tmp_path)
    assert list(opened._engine.graph.rules) == list(range(1, 10))
    assert opened.rules == kb.rules
    update: dict[str, Any] = {"add": {"edge": [("c", "d")], "has": [("z", "w")]}, "delete": {"of": [("x", "z")]}}
    assert opened.update(**update).added == kb.update(**update).added
    assert {name: set(opened.facts(name)) for name in kb.predicates} == {
        name: set(kb.facts(name)) for name in kb.predicates
    }
    audit(opened)


def test_a_made_up_number_of_a_rule_takes_no_memory(home: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["rules"][-1]["number"] = 2**31 - 3
        manifest["next_rule"] = 2**31 - 1

    rewrite(home, change)
    kb = KnowledgeBase.open(home)
    kb.update(add={"edge": [("d", "e")]})
    assert ("a", "e") in kb.facts("path")
    assert len(kb._engine.store.arrays.rule_work) < 1000
