"""Readers while an update waits for the disk or sorts its facts: they come in, and see what was before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from naive import without_empty
from tidelog import KnowledgeBase
from tidelog.storage.journal import Journal
from tidelog.store import loading_order
from tidelog.store.relation_parts import Cells

PROGRAM = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
lonely(X) :- node(X), not path(X, _).
degree(X, count(Y)) :- edge(X, Y).
edge(a, b).  edge(b, c).  node(a).  node(z).
"""
UPDATES = (
    {"add": {"edge": [("c", "d"), ("z", "a")]}},
    {"delete": {"edge": [("a", "b")]}, "add": {"node": [("q",)]}},
    {"remove_rules": "path(X, Z) :- path(X, Y), edge(Y, Z)."},
    {"add_rules": "path(X, Z) :- edge(X, Y), path(Y, Z).", "delete": {"edge": [("b", "c")]}},
)


def everything(kb: KnowledgeBase) -> dict[str, set[tuple[object, ...]]]:
    return without_empty({name: set(kb.facts(name)) for name in kb.predicates})  # type: ignore[arg-type, return-value]


def test_readers_see_what_was_before_an_update_that_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KnowledgeBase(PROGRAM).save(tmp_path)
    seen: list[object] = []
    append = Journal.append

    def slowly(self: Journal, payload: bytes) -> None:
        reader = threading.Thread(target=look[0])
        reader.start()
        reader.join(10)
        assert not reader.is_alive(), "a reader waits for the disk"
        append(self, payload)

    look: list[Callable[[], None]] = []
    monkeypatch.setattr(Journal, "append", slowly)
    with KnowledgeBase.open(tmp_path, journal=True) as kb:
        look.append(lambda: seen.append((kb.query("path(X, Y)").rows(), "path(a, c)" in kb, len(kb.facts("path")))))
        for update in UPDATES:
            before = kb.query("path(X, Y)").rows(), "path(a, c)" in kb, len(kb.facts("path"))
            kb.update(**update)  # type: ignore[arg-type]
            assert seen.pop() == before
        assert everything(kb) == everything(KnowledgeBase.open(tmp_path, read_only=True))


def test_readers_see_what_was_before_an_update_that_sorts_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    by_first_argument = loading_order._by_first_argument

    def slowly(rows: Cells) -> Cells:
        reader = threading.Thread(target=lambda: seen.append((kb.query("path(a, X)").rows(), len(kb.facts("edge")))))
        reader.start()
        reader.join(10)
        assert not reader.is_alive(), "a reader waits until facts are sorted"
        return by_first_argument(rows)

    monkeypatch.setattr(loading_order, "ORDERED_FROM", 4)
    monkeypatch.setattr(loading_order, "_by_first_argument", slowly)
    kb = KnowledgeBase(PROGRAM)
    kb.update(add={"number": [(n,) for n in range(12)]})  # Now they have an order.
    before = kb.query("path(a, X)").rows(), 2
    kb.update(add={"edge": [((5 * n) % 12, (7 * n) % 12) for n in range(12)]})
    assert seen == [before]
    assert len(kb.facts("edge")) == 14
