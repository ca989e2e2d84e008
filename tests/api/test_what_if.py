"""`kb.what_if`: the change that an update would make; afterwards nothing is other than before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import audit, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, POSITIVE, Features, soak
from naive import Update
from tidelog import KnowledgeBase, LimitError, ParseError, StratificationError, TidelogError, UnknownRuleError
from tidelog.api.persistence import image_of
from tidelog.engine.transaction.transaction import Transaction
from tidelog.facts.results import Change
from ways import in_threads

RULES = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    far(X, Y) :- path(X, Y), not edge(X, Y).
    degree(X, count(Y)) :- path(X, Y).
    label(X, L) :- node(X), L = concat(X, "!").
"""
UPDATE: dict[str, Any] = {
    "add": {"edge": [("c", "d"), ("z", 1.5)], "fresh": [("q", 1)], "path": [("p", "q"), ("q", "p")]},
    "delete": {"edge": [("b", "c")], "node": [("a",)]},
    "add_rules": "@prefix ex: <http://example.org/> . ex:loop(X) :- path(X, X). total(sum(N)) :- degree(X, N).",
    "remove_rules": 'label(A, B) :- node(A), B = concat(A, "!").',
}


def example(maintenance: str = "auto", **options: Any) -> KnowledgeBase:
    kb = KnowledgeBase(RULES, maintenance=maintenance, **options)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "a")], "node": [("a",), ("b",)]}, commit={"batch": "1"})
    return kb


def everything(kb: KnowledgeBase) -> list[object]:
    """All that a user can find out, and all that would be saved."""
    state: list[object] = [fingerprint(kb), kb.rule_statistics(), kb.predicates, len(kb), kb.commit_info]
    return [*state, plain(image_of(kb._knowledge))]


def plain(part: object) -> object:
    """A saved part as something that compares by value."""
    if isinstance(part, np.ndarray):
        return part.dtype.str, part.shape, part.tobytes()
    if is_dataclass(part):
        return [plain(getattr(part, each.name)) for each in fields(part)]
    if isinstance(part, Mapping):
        return [(key, plain(value)) for key, value in part.items()]
    return [plain(each) for each in part] if isinstance(part, tuple | list) else repr(part)


def same(one: Change, other: Change) -> bool:
    return (one.added, one.removed, one.errors) == (other.added, other.removed, other.errors)


def check(kb: KnowledgeBase, update: dict[str, Any]) -> Change:
    """Ask what an update would do, see that nothing has changed, and do it."""
    before = everything(kb)
    asked = kb.what_if(**update)
    assert everything(kb) == before
    change = kb.update(**update)
    assert same(asked, change)
    return asked


# Against updates


@pytest.mark.parametrize("features", [EVERYTHING, POSITIVE], ids=["everything", "positive"])
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_random_updates(maintenance: str, features: Features) -> None:
    for seed in range(8):
        case, stream = soak(seed, features)
        kb = knowledge_base(case.state, maintenance, modules=seed % 2 == 0)
        for update in stream:
            check(kb, update.mapping())
        audit(kb)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_audit_after_a_question(maintenance: str) -> None:
    for seed in range(20, 24):
        case, stream = soak(seed)
        kb = knowledge_base(case.state, maintenance)
        for update in stream:
            kb.what_if(**update.mapping())  # type: ignore[arg-type]
            audit(kb)
            kb.update(**update.mapping())  # type: ignore[arg-type]


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_facts_and_rules_at_once(maintenance: str) -> None:
    change = check(example(maintenance), UPDATE)
    assert change.added["ex:loop"] == {("p",), ("q",)}
    assert change.removed["label"] == {("a", "a!"), ("b", "b!")}


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_the_same_bytes_are_saved(maintenance: str, tmp_path: Path) -> None:
    kb = example(maintenance)
    kb.save(tmp_path / "before")
    kb.what_if(**UPDATE)
    kb.save(tmp_path / "after")
    before, after = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "before", tmp_path / "after")
    )
    assert before == after


def test_work_is_that_of_the_update() -> None:
    for maintenance in ALGORITHMS:
        assert example(maintenance).what_if(**UPDATE) == example(maintenance).update(**UPDATE), maintenance


@pytest.mark.parametrize("maintenance", ["dred", "backward-forward"])
def test_a_trace_comes_with_it(maintenance: str) -> None:
    kb = KnowledgeBase("p(X) :- q(X). p(Y) :- p(X), e(X, Y).", maintenance=maintenance, trace="paper")
    kb.update(add={"q": [(1,)], "e": [(1, 2), (2, 3), (3, 1)]})
    update: dict[str, Any] = {"delete": {"q": [(1,)]}}
    asked = kb.what_if(**update)
    assert asked.trace is not None
    assert str(asked.trace) == str(kb.update(**update).trace)


def test_marks_of_a_traced_stream_wait_for_their_update() -> None:
    def traces(asking: bool) -> list[str]:
        kb = KnowledgeBase(
            "p(X) :- q(X). p(Y) :- p(X), e(X, Y).", maintenance="backward-forward", trace="paper", modules=False
        )
        kb.update(add={"q": [(1,)], "e": [(1, 2), (2, 3), (3, 1)]})
        found = []
        for change in kb.stream([{"delete": {"e": [(2, 3)]}}, {"delete": {"q": [(1,)]}}, {"add": {"q": [(3,)]}}]):
            found.append(str(change.trace))
            if asking:
                kb.what_if(add={"e": [(2, 9)]})
        return found

    assert traces(asking=True) == traces(asking=False)


# What might be left behind


def test_nothing_goes_to_the_journal(tmp_path: Path) -> None:
    example().save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as kb:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        kb.what_if(**UPDATE)
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_its_rows_stay_when_the_knowledge_base_changes() -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z).")
    change = kb.what_if(add={"edge": [(number, number + 1) for number in range(200)]})
    kb.update(add={"edge": [(7, 7), ("a", "b")]})
    assert len(change.added["path"]) == 200 * 201 // 2
    assert (0, 200) in change.added["path"]


def test_many_questions_take_no_memory() -> None:
    kb = KnowledgeBase("p(X, Y) :- q(X), Y = concat(X, X).")
    sizes = []
    for question in range(20):
        kb.what_if(add={"q": [(f"{question} {number}",) for number in range(5000)]})
        sizes.append(kb.constants)
    assert max(sizes) < 150_000
    assert len(kb) == 0


def test_errors_of_expressions_are_told_and_not_counted() -> None:
    kb = KnowledgeBase("p(Y) :- q(X), Y = 1 / X.")
    assert kb.what_if(add={"q": [(0,), (1,)]}).errors == 1
    assert kb.errors == 0


def test_a_closure_that_meets_equal_numbers_is_one_afterwards() -> None:
    kb = KnowledgeBase("s(X, Z) :- s(X, Y), s(Y, Z), X != Z. s(X, Y) :- s(Y, X).")
    kb.update(add={"s": [(1, 2), (2, 3)]})
    assert kb._engine.store.is_closure("s")
    check(kb, {"add": {"s": [(3, 1.0)]}})


# Refusals, as of an update


@pytest.mark.parametrize(
    ("update", "error"),
    [
        ({"add_rules": "p(X) :- q(X), not p(X)."}, StratificationError),
        ({"add_rules": "p(X :- q(X)."}, ParseError),
        ({"remove_rules": "p(X) :- q(X)."}, UnknownRuleError),
        ({"add": {"edge": [(number, number + 1) for number in range(100)]}}, LimitError),
        ({"add": {"edge": [(1,)]}}, TidelogError),
        ({"add": [1]}, TidelogError),
    ],
)
def test_errors_are_those_of_the_update(update: dict[str, Any], error: type[TidelogError]) -> None:
    kb = example(max_facts=100)
    before = everything(kb)
    with pytest.raises(error) as asked:
        kb.what_if(**update)
    with pytest.raises(error) as refused:
        kb.update(**update)
    assert str(asked.value) == str(refused.value)
    assert everything(kb) == before
    audit(kb)


@pytest.mark.parametrize("place", [1, 2, 4])
def test_a_fault_on_the_way_changes_nothing(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = example()
    before = everything(kb)
    calls = iter(range(1, 100))
    original = Transaction.collect

    def collect(self: Transaction, *arguments: Any) -> None:
        original(self, *arguments)
        if next(calls) == place:
            raise MemoryError

    monkeypatch.setattr(Transaction, "collect", collect)
    with pytest.raises(MemoryError):
        kb.what_if(**UPDATE)
    monkeypatch.undo()
    assert everything(kb) == before
    audit(kb)


def test_a_function_cannot_ask() -> None:
    kb = KnowledgeBase()
    told: list[str] = []

    def function(value: int) -> int:
        try:
            kb.what_if(add={"q": [(value,)]})
        except TidelogError as error:
            told.append(str(error))
        return value

    kb.register("f", function)
    kb.what_if(add={"q": [(1,)]}, add_rules="r(X, Y) :- q(X), Y = f(X).")
    assert len(told) == 1


# Beside others


def test_threads_ask_while_others_update() -> None:
    kb = KnowledgeBase(RULES)

    def ask() -> None:
        change = kb.what_if(add={"edge": [("x", "y"), ("y", "z")]})
        assert change.added["path"] == {("x", "y"), ("y", "z"), ("x", "z")}

    def update(number: int) -> None:
        kb.update(add={"edge": [(number, number + 1)]})

    asking = [[ask] * 15 for _ in range(2)]
    updating = [[lambda number=number: update(number) for number in range(start, start + 15)] for start in (0, 50)]
    in_threads([*asking, *updating])
    assert len(kb.facts("edge")) == 30
    audit(kb)


def test_a_live_knowledge_base_finishes_what_is_in_work_first() -> None:
    kb = KnowledgeBase(RULES)
    live = kb.live()
    live.submit(add={"edge": [("a", "b")]})
    live.step(1)
    live.submit(add={"edge": [("b", "c")]})
    asked = kb.what_if(add={"edge": [("c", "d")]})
    assert ("c", "d") in asked.added["path"]
    live.settle()
    check(kb, {"add": {"edge": [("c", "d")]}})
    audit(kb)


def test_a_stream_goes_on_after_a_question() -> None:
    for seed in range(3):
        case, stream = soak(seed)
        kb, other = (knowledge_base(case.state, "backward-forward") for _ in range(2))
        updates = [update.mapping() for update in stream]
        question = Update(add=case.state.explicit).mapping()
        for change, expected in zip(kb.stream(updates), other.stream(updates), strict=True):  # type: ignore[arg-type]
            assert same(change, expected)
            kb.what_if(**question)  # type: ignore[arg-type]
        audit(kb)
