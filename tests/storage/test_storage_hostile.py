"""Single forgeries in a store with valid checksums: each is refused, with the file and what is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import audit
from storage_util import ALL_KINDS, file_of, rewrite, save_all_kinds
from tidelog import KnowledgeBase, StorageError
from tidelog.storage.array_files import MAGIC as MAGIC_OF_ARRAYS
from tidelog.storage.array_files import read_arrays, write_arrays
from tidelog.storage.durable_files import checksum
from tidelog.storage.journal import MAGIC, encode_record, read_journal

FIRST = "path(X, Y) :- edge(X, Y)."


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "home"
    save_all_kinds(folder)
    return folder


@pytest.fixture
def home(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "home")


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
    (put("relations", 0, "file", value="terms.arrays"), "no file of a relation"),
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


# Arrays


def change_arrays(home: Path, file: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the arrays of a file, which are all that it tells."""
    path = home / "snapshot-1" / file
    arrays = dict(read_arrays(path, checksum(path.read_bytes())))
    change(arrays)
    path.unlink()
    write_arrays(path, arrays)
    rewrite(home, lambda _: None)


def values(column: str, *first: int, dtype: Any = None) -> Callable[[dict[str, Any]], None]:
    """Give the first rows of a column other values."""

    def change(arrays: dict[str, Any]) -> None:
        arrays[column] = arrays[column].astype(dtype or arrays[column].dtype)
        arrays[column][: len(first)] = first

    return change


def of_kind(kind: int, column: str, value: int) -> Callable[[dict[str, Any]], None]:
    """Give all constants of a kind another value."""

    def change(arrays: dict[str, Any]) -> None:
        arrays[column] = np.where(arrays["kind"] == kind, value, arrays[column]).astype(arrays[column].dtype)

    return change


def texts(data: bytes) -> Callable[[dict[str, Any]], None]:
    """Give the first bytes of all texts other values."""

    def change(arrays: dict[str, Any]) -> None:
        arrays["text"] = np.frombuffer(data + arrays["text"].tobytes()[len(data) :], np.uint8)

    return change


def without_separators(arrays: dict[str, Any]) -> None:
    arrays["text"] = np.where(arrays["text"] == 0x1F, ord("x"), arrays["text"]).astype(np.uint8)


def shortened(arrays: dict[str, Any]) -> None:
    """Forget all constants but two."""
    for column in ("kind", "number", "size"):
        arrays[column] = arrays[column][:2]
    arrays["text"] = arrays["text"][: arrays["size"].sum()]


def renamed(arrays: dict[str, Any]) -> None:
    arrays["sort"] = arrays.pop("kind")


def longer(column: str) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update({column: np.concatenate((arrays[column], arrays[column][:1]))})


DICTIONARY = [
    (values("kind", 6), "unknown kind"),
    (values("kind", 255), "unknown kind"),
    (values("kind", 1), "row 0 is a number with characters"),
    (values("number", 5), "row 0 is a text with a number"),
    (values("size", -1), "row 0 is .* a text with less than none"),
    (values("size", 0), "is not what their sizes say"),
    (values("size", 2**31 - 1), "is not what their sizes say"),
    (texts(b"b"), "a constant twice"),
    (texts(b"\xff"), "not UTF-8"),
    (texts("é".encode()), "one begins within a character"),
    (without_separators, "no datatype"),
    (values("kind", 0, dtype=np.int64), "columns"),
    (lambda arrays: arrays.pop("number"), "columns"),
    (renamed, "columns"),
    (longer("kind"), "not of one length"),
    (longer("text"), "is not what their sizes say"),
    (shortened, "dictionary does not have"),
    (of_kind(2, "number", -(2**63)), "a zero or NaN other than the canonical one"),
    (of_kind(2, "number", -1), "a zero or NaN other than the canonical one"),
    (of_kind(3, "number", 2), "neither true nor false"),
]


@pytest.mark.parametrize(("change", "message"), DICTIONARY, ids=range(len(DICTIONARY)))
def test_a_lie_in_the_dictionary(home: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    change_arrays(home, "terms.arrays", change)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(home)
    assert str(home) in str(caught.value)


RELATION = [
    (values("c0", 0), "dictionary does not have"),
    (values("c0", -1), "dictionary does not have"),
    (values("c1", 10**6), "dictionary does not have"),
    (values("c0", 1, dtype=np.int64), "columns"),
    (values("explicit", 1, dtype=np.uint8), "columns"),
    (lambda arrays: arrays.pop("c1"), "columns"),
    (lambda arrays: arrays.update(c2=arrays["c0"]), "columns"),
    (lambda arrays: arrays.update(recursive=arrays["c0"]), "columns"),
    (longer("c0"), "not of one length"),
    (lambda arrays: arrays.update({name: np.tile(array, 2) for name, array in arrays.items()}), "a fact twice"),
]


@pytest.mark.parametrize(("change", "message"), RELATION, ids=range(len(RELATION)))
def test_a_lie_in_a_relation(home: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    change_arrays(home, file_of(home, "edge"), change)
    with pytest.raises(StorageError, match=message):
        KnowledgeBase.open(home)


LINES = [
    (b"", "does not begin as a file of arrays does"),
    (b"tidelog arrays 2\n{}\n", "does not begin as a file of arrays does"),
    (MAGIC_OF_ARRAYS, "not JSON"),
    (MAGIC_OF_ARRAYS + b"[" * 100_000, "not JSON"),
    (MAGIC_OF_ARRAYS + b"[]\n", "not an object"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["bool"]}\n\1', "not a list of two"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["object", 1]}\n\1', "no type of an array"),
    (MAGIC_OF_ARRAYS + b'{"explicit": [7, 1]}\n\1', "not a text"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["bool", -1]}\n\1', "not a whole number"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["bool", 2]}\n\1', "not a whole number"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["int64", 1]}\n\1', "more than the file holds"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["bool", 1]}\n\1\1', "1 bytes follow"),
    (MAGIC_OF_ARRAYS + b'{"explicit": ["bool", 1]}\n\2', "neither 0 nor 1"),
]


@pytest.mark.parametrize(("content", "message"), LINES, ids=range(len(LINES)))
def test_files_of_arrays_that_are_none(home: Path, content: bytes, message: str) -> None:
    path = home / "snapshot-1" / file_of(home, "flag")
    path.write_bytes(content)
    rewrite(home, lambda _: None)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(home)
    assert path.name in str(caught.value)


def test_a_closure_over_numbers_that_it_cannot_tell_apart(home: Path) -> None:
    """With `!=` in its rule, `same` is no closure of floats: 1 and 1.0 are equal, and two constants."""
    path = home / "snapshot-1" / "terms.arrays"
    kinds = read_arrays(path, checksum(path.read_bytes()))["kind"].tolist()
    change_arrays(home, file_of(home, "#base same"), values("c0", kinds.index(2) + 1))
    with pytest.raises(StorageError, match="with floats it is none"):
        KnowledgeBase.open(home)


def test_counters_that_cannot_be_are_counted_anew(home: Path) -> None:
    change_arrays(home, file_of(home, "#base path"), values("nonrecursive", -7))
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
    rules = ALL_KINDS + "of(X, Y) :- has(Y, X). has(X, Y) :- of(Y, X). of(X, Z) :- of(X, Y), of(Y, Z)."
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
    assert len(kb._engine.store.rule_counts.work) < 1000
