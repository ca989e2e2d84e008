"""Saved knowledge bases: round trips, options, functions, and what a second save leaves."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from audit import audit, explicit_facts, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, soak
from naive import without_empty
from tidelog import IRI, KnowledgeBase, Literal, StorageError, StorageWarning, TidelogError
from tidelog.api.persistence import image_of
from tidelog.closures.closure import Closure
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.update.runner import Runner
from tidelog.errors import BrokenError
from tidelog.storage.home import Home

VALUES: list[Any] = [
    *("", "a", "été\n\t\"'", "🙂" * 40, 0, -1, 2**63 - 1, -(2**63), 1, 1.0, True, False, "1", "true", 0.1, 1e300),
    *(float("inf"), float("-inf"), float("nan"), IRI("http://example.org/a"), IRI(""), IRI("a")),
    *(Literal("a", language="en"), Literal("a", "http://www.w3.org/2001/XMLSchema#date"), Literal("", "x", "")),
]


# Round trips


@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("modules", [True, False])
def test_what_is_opened_is_what_was_saved(maintenance: str, modules: bool, tmp_path: Path) -> None:
    for seed in range(2):
        case, stream = soak(seed, EVERYTHING, length=4)
        kb, state = knowledge_base(case.state, maintenance, modules=modules), case.state
        for number, update in enumerate(stream):
            kb.save(tmp_path / f"{seed}-{number}")
            opened = open_without_reasoning(tmp_path / f"{seed}-{number}")
            assert fingerprint(opened) == fingerprint(kb)
            audit(opened)
            expected = kb.update(**update.mapping())  # type: ignore[arg-type]
            change = opened.update(**update.mapping())  # type: ignore[arg-type]
            assert (change.added, change.removed) == (expected.added, expected.removed)
            assert fingerprint(opened) == fingerprint(kb)
            audit(opened)
            state = state.apply(update)
            assert explicit_facts(opened) == without_empty(state.explicit)
            kb = opened


def open_without_reasoning(folder: Path) -> KnowledgeBase:
    """Open a folder while nothing can be derived."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Runner, "run")
        return KnowledgeBase.open(folder)


def test_every_value_comes_back_as_it_was(tmp_path: Path) -> None:
    kb = KnowledgeBase("@prefix p: <http://p/> . p:q(X) :- value(X). # a comment")
    kb.update(add={"value": [(value,) for value in VALUES], "<http://é/1>": [("x", 1)]})
    kb.save(tmp_path / "kb")
    opened = KnowledgeBase.open(tmp_path / "kb", journal=True)
    assert fingerprint(opened) == fingerprint(kb)
    opened.update(delete={"value": [(value,) for value in VALUES]})
    opened.update(add={"value": [(value,) for value in VALUES]})
    opened.close()
    assert fingerprint(KnowledgeBase.open(tmp_path / "kb")) == fingerprint(kb)


def test_options_and_numbers_of_rules(home: Path) -> None:
    kb = KnowledgeBase.open(home)
    options = image_of(kb._knowledge).options
    assert options == {
        "maintenance": "backward-forward-counting",
        "modules": True,
        "max_facts": 10_000,
        "timeout": 60.5,
        "on_error": "count",
    }
    kb.update(remove_rules="lonely(X) :- node(X), not path(X, _).", add_rules="last(X) :- node(X).")
    kb.save(home)
    again = KnowledgeBase.open(home)
    assert list(again._engine.graph.rules) == [1, 2, 3, 5, 6]
    assert again._engine.graph.next_number == 7
    assert again.rules == kb.rules
    assert again.prefixes == {"ex": "http://example.org/"}


def test_an_empty_knowledge_base(tmp_path: Path) -> None:
    KnowledgeBase().save(tmp_path / "a" / "b")
    kb = KnowledgeBase.open(tmp_path / "a" / "b")
    assert len(kb) == 0
    kb.update(add={"p": [(1,)]}, add_rules="q(X) :- p(X).")
    assert set(kb.facts("q")) == {(1,)}


def test_saving_replaces_and_leaves_no_litter(home: Path) -> None:
    kb = KnowledgeBase.open(home)
    for number in range(3):
        kb.update(add={"edge": [("new", number)]})
        kb.save(home)
        generation = number + 2
        assert sorted(os.listdir(home)) == ["CURRENT", "LOCK", f"journal-{generation}.log", f"snapshot-{generation}"]
        assert fingerprint(KnowledgeBase.open(home)) == fingerprint(kb)


# Functions


def test_functions_are_named_when_they_are_missing(tmp_path: Path) -> None:
    kb = KnowledgeBase()
    kb.register("twice", lambda number: 2 * number)
    kb.update(add={"n": [(1,), (2,)]}, add_rules="double(X, Y) :- n(X), Y = twice(X) + abs(X).")
    kb.save(tmp_path)
    with pytest.warns(StorageWarning, match="`twice`"):
        opened = KnowledgeBase.open(tmp_path)
    assert opened.missing_functions == ["twice"]
    assert set(opened.facts("double")) == {(1, 3), (2, 6)}
    opened.update(add={"other": [(1,)]})
    before = fingerprint(opened)
    with pytest.raises(TidelogError, match="`twice` is not registered"):
        opened.update(add={"n": [(3,)]})
    assert fingerprint(opened) == before
    opened.register("twice", lambda number: 2 * number)
    opened.update(add={"n": [(3,)]}, delete={"n": [(1,)]})
    assert set(opened.facts("double")) == {(2, 6), (3, 9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KnowledgeBase.open(tmp_path, functions={"twice": lambda number: 2 * number})


def test_a_journal_that_needs_a_function_says_so(tmp_path: Path) -> None:
    KnowledgeBase().save(tmp_path)
    functions = {"twice": lambda number: 2 * number}
    with KnowledgeBase.open(tmp_path, journal=True, functions=functions) as kb:
        kb.update(add={"n": [(1,)]}, add_rules="double(Y) :- n(X), Y = twice(X).")
    with pytest.raises(StorageError, match=r"update 1 of the journal.*`twice` is not registered"):
        KnowledgeBase.open(tmp_path, journal=True)
    with KnowledgeBase.open(tmp_path, journal=True, functions=functions) as kb:
        assert set(kb.facts("double")) == {(2,)}


def test_what_cannot_be_taken_back_refuses_to_be_used_and_opens_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    kb = KnowledgeBase.open(home, journal=True)
    before = set(kb.facts("path"))
    monkeypatch.setattr(Home, "record", no_memory)
    monkeypatch.setattr(Closure, "undo", no_memory)
    monkeypatch.setattr(ClosureNode, "take_over", no_memory)
    with pytest.raises(BrokenError, match="open its folder again"):
        kb.update(add={"edge": [("new", "newer")]})
    monkeypatch.undo()
    uses = (
        lambda: kb.update(add={"edge": [(1, 2)]}),
        lambda: len(kb.facts("path")),
        lambda: kb.query("path(X, Y)"),
        lambda: "path(a, b)" in kb,
        lambda: kb.save(home),
    )
    for use in uses:
        with pytest.raises(BrokenError, match="can no longer be used"):
            use()
    kb.close()
    again = KnowledgeBase.open(home)
    assert set(again.facts("path")) == before


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_counters_of_a_recursion_that_was_a_closure_are_saved(tmp_path: Path, maintenance: str) -> None:
    kb = KnowledgeBase("p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z).", maintenance=maintenance)
    kb.update(add={"e": [(1, 2), (2, 4), (1, 3), (3, 4)]})
    kb.add_rules("e(X, Y) :- p(X, Y), g(X).")
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    audit(again)
    again.update(delete={"e": [(1, 2)]})
    assert set(again.facts("p")) == {(1, 3), (2, 4), (3, 4), (1, 4)}
