"""The limits of 32-bit numbers: more facts, constants or bytes of text are refused, and nothing changes.

The real limits are far beyond what a test can reach. Here they are small, and so are the arrays, so that each limit is
met while arrays grow. The number of arguments of a predicate is limited as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog.store.indexes
import tidelog.store.relation
import tidelog.store.store
import tidelog.store.terms
from audit import audit, fingerprint
from engine_util import ALGORITHMS
from tidelog import ArityError, DataError, KnowledgeBase, LimitError
from tidelog.formats import FactBatch

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
CHAIN = [(number, number + 1) for number in range(6)]
FACTS, TERMS, BYTES = 40, 60, 100


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    monkeypatch.setattr(tidelog.store.store, "HEAD_CELLS", 32)
    monkeypatch.setattr(tidelog.store.relation, "COMPACT_FROM", 4)
    monkeypatch.setattr(tidelog.store.relation, "MOST_FACTS", FACTS)
    monkeypatch.setattr(tidelog.store.indexes, "MOST_SLOTS", 128)
    monkeypatch.setattr(tidelog.store.terms, "MOST_TERMS", TERMS)
    monkeypatch.setattr(tidelog.store.terms, "MOST_SLOTS", 80)
    monkeypatch.setattr(tidelog.store.terms, "MOST_BYTES", BYTES)


def _refuses(kb: KnowledgeBase, error: type[Exception], match: str, update: Mapping[str, Any]) -> None:
    """The update is refused, and everything is as before."""
    before = fingerprint(kb)
    with pytest.raises(error, match=match):
        kb.update(**update)
    assert fingerprint(kb) == before
    audit(kb)


TOO_MUCH: dict[str, Callable[[], Mapping[str, Any]]] = {
    "explicit facts": lambda: {"add": {"edge": [(0, number % 7 + 10 * (number // 7)) for number in range(FACTS + 1)]}},
    "derived facts": lambda: {"add": {"edge": [(number, number + 1) for number in range(6, 12)]}},
    "facts that are derived again": lambda: {
        "delete": {"edge": [(0, 1)]},
        "add": {"edge": [(0, 1), *((number, number + 1) for number in range(6, 12))]},
    },
    "a cross product": lambda: (
        {"add_rules": "pair(X, Y) :- edge(X, _), edge(Y, _). more(X, Y) :- pair(X, Y), edge(Y, Z)."}
        | {"add": {"edge": [(6, 7), (7, 0)]}}
    ),
}


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("too_much", TOO_MUCH)
def test_too_many_facts_of_a_predicate_are_refused(too_much: str, maintenance: str) -> None:
    kb = KnowledgeBase(PATHS, maintenance=maintenance, modules=False)
    kb.update(add={"edge": CHAIN})
    _refuses(kb, LimitError, f"a relation holds at most {FACTS}", TOO_MUCH[too_much]())
    kb.update(delete={"edge": CHAIN[3:]})
    assert len(kb.facts("path")) == 6
    kb.update(add={"edge": CHAIN[3:]})
    assert len(kb.facts("path")) == 21
    audit(kb)


@pytest.mark.plain
def test_as_many_facts_as_there_may_be_are_taken() -> None:
    kb = KnowledgeBase("copy(X) :- given(X). other(X, Y) :- given(X), copy(Y), X = Y.")
    kb.update(add={"given": [(number,) for number in range(FACTS)]})
    assert len(kb.facts("copy")) == len(kb.facts("other")) == FACTS
    audit(kb)
    _refuses(kb, LimitError, "a relation holds at most", {"add": {"given": [(FACTS,)]}})
    kb.update(delete={"given": [(3,)]})
    assert len(kb.facts("copy")) == FACTS - 1


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_too_many_groups_are_refused(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase("degree(X, count(Y)) :- edge(X, Y).", maintenance=maintenance)
    kb.update(add={"edge": CHAIN})
    monkeypatch.setattr(tidelog.store.relation, "MOST_FACTS", 16)
    _refuses(kb, LimitError, "at most 16", {"add": {"edge": [(number, 0) for number in range(10, 22)]}})


@pytest.mark.plain
def test_too_many_constants_are_refused_where_they_are_given() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"edge": CHAIN})
    for values in (range(100, 170), map(str, range(70)), (number / 7 for number in range(70))):
        rows = [(value,) for value in values]
        _refuses(kb, LimitError, f"at most {TERMS}", {"add": {"given": rows}})
        _refuses(kb, LimitError, f"at most {TERMS}", {"add": {"given": pa.table({"value": [row[0] for row in rows]})}})
    kb.update(add={"given": [("a",), (1.5,)]})


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_too_many_constants_are_refused_where_rules_compute_them(maintenance: str) -> None:
    kb = KnowledgeBase("number(X) :- first(X). number(Y) :- number(X), Y = X + 1, Y < 100.", maintenance=maintenance)
    kb.update(add={"first": [(90,)]})
    _refuses(kb, LimitError, "at most", {"add": {"first": [(0,)]}})
    kb.update(delete={"first": [(90,)]})
    assert not kb.facts("number")


@pytest.mark.plain
def test_too_many_constants_are_refused_where_functions_give_them() -> None:
    kb = KnowledgeBase()
    kb.register("twice", lambda value: value + value)
    kb.add_rules("name(X, S) :- given(X), S = twice(X).")
    kb.update(add={"given": [("a",)]})
    rows = [(f"c{number}",) for number in range(TERMS // 2)]
    _refuses(kb, LimitError, "at most", {"add": {"given": rows}})
    assert set(kb.facts("name")) == {("a", "aa")}


@pytest.mark.plain
def test_a_text_that_is_too_long_is_refused() -> None:
    kb = KnowledgeBase("long(X) :- given(X). long(Y) :- given(X), Y = concat(X, X).")
    kb.update(add={"given": [("x" * (BYTES // 2),)]})
    assert {len(text) for (text,) in kb.facts("long")} == {BYTES // 2, BYTES}
    message = f"a text of {BYTES + 1} bytes is longer than a constant can be"
    _refuses(kb, DataError, message, {"add": {"given": [("a",), ("x" * (BYTES + 1),)]}})
    _refuses(kb, DataError, message, {"add": {"given": pa.table({"text": ["a", "x" * (BYTES + 1)]})}})
    assert len(kb.facts("given")) == 1


@pytest.mark.plain
def test_texts_that_are_long_together_are_taken() -> None:
    kb = KnowledgeBase()
    kb.update(add={"given": [(letter * BYTES,) for letter in "abc"]})
    assert len(kb.facts("given")) == 3


@pytest.mark.parametrize(
    "give",
    [
        lambda kb, arity: kb.update(add={"p": [tuple(range(arity))]}),
        lambda kb, arity: kb.update(add={"p": pa.table({f"c{place}": [1] for place in range(arity)})}),
        lambda kb, arity: kb.update(add_rules=f"p({', '.join(['X'] * arity)}) :- q(X)."),
        lambda kb, arity: kb.load([FactBatch("p", [pa.array([1])] * arity, "here", 1)]),
        lambda kb, arity: list(kb.stream([{"add": {"p": [tuple(range(arity))]}}])),
    ],
    ids=["rows", "a table", "a rule", "a file", "a stream"],
)
def test_what_has_too_many_arguments_to_be_opened_again_is_refused(
    give: Callable[[KnowledgeBase, int], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("language.checks", "facts.encoding", "live.update_checks", "storage.snapshot_files"):
        monkeypatch.setattr(f"tidelog.{module}.MOST_ARGUMENTS", 5)
    kb = KnowledgeBase("q(1).")
    with pytest.raises(ArityError, match="`p` has 6 arguments, and no predicate has more than 5"):
        give(kb, 6)
    give(kb, 5)
    kb.save(tmp_path)
    assert fingerprint(KnowledgeBase.open(tmp_path)) == fingerprint(kb)
