"""Backward/Forward with Marking (Illich, Glimm): Examples 1 to 3, and random streams."""

from __future__ import annotations

import pytest

from generate import Features, soak
from tidelog import KnowledgeBase
from tidelog.papers.trace import Trace

EXAMPLE_2 = "q(X) :- p1(X), p2(X). q(X) :- p3(X). r(X) :- q(X)."
EXAMPLE_3 = EXAMPLE_2 + "s(X) :- q(X), p4(X)."
C = [("c",)]


def traces(kb: KnowledgeBase, updates: list[dict[str, object]], marking: bool = True) -> list[Trace]:
    found = [change.trace for change in kb.stream(updates, marking=marking)]
    assert all(trace is not None for trace in found)
    return found  # type: ignore[return-value]


def letters(trace: Trace, letter: str) -> set[str]:
    return set(map(str, trace.sets[letter]))


def test_example_1_a_mark_saves_a_rule_application() -> None:
    updates: list[dict[str, object]] = [{"add": {"p2": C}}, {"delete": {"p1": C}}]
    for marking in (True, False):
        kb = KnowledgeBase("q(X) :- p1(X), p2(X). p1(c).", maintenance="backward-forward", trace="paper")
        first, second = traces(kb, updates, marking)
        assert letters(first, "marked") == ({"p1(c)", "q(c)"} if marking else set())
        assert second.work.get("deletion", 0) == (0 if marking else 1)
        assert letters(second, "D") == {"p1(c)", "q(c)"}


def test_example_2_a_second_rule_proves_the_fact() -> None:
    kb = KnowledgeBase(EXAMPLE_2 + "p1(c). p2(c). p3(c).", maintenance="backward-forward", trace="paper")
    (trace,) = traces(kb, [{"delete": {"p1": C}}])
    assert letters(trace, "V") == {"p3(c)", "q(c)"}
    assert letters(trace, "D") == {"p1(c)"}
    assert "q(c)" in kb
    assert "r(c)" in kb


def test_example_3_two_updates() -> None:
    kb = KnowledgeBase(EXAMPLE_3 + "p1(c). p2(c). p3(c).", maintenance="backward-forward", trace="paper")
    updates: list[dict[str, object]] = [{"delete": {"p1": C}, "add": {"p4": C}}, {"delete": {"p4": C}}]
    first, second = traces(kb, updates)
    # c) p1(c), p2(c) → q(c); b) p3(c) → q(c); a) p3(c) → q(c), and q(c) → r(c), which is delayed.
    steps = [(each.kind, str(each.instance)) for each in first.applications]
    assert steps == [
        ("deletion", "q(c) ← p1(c) ∧ p2(c)"),
        ("backward", "q(c) ← p3(c)"),
        ("forward", "q(c) ← p3(c)"),
        ("forward", "r(c) ← q(c)"),
        ("insertion", "s(c) ← q(c) ∧ p4(c)"),
    ]
    assert letters(first, "C") == letters(first, "V") == {"p3(c)", "q(c)"}
    assert letters(first, "Y") == {"r(c)"}
    assert letters(first, "D") == {"p1(c)"}
    assert letters(first, "marked") == {"p4(c)", "s(c)"}
    # The second begins with W = {s(c)} and applies no rule.
    assert not second.applications
    assert letters(second, "C") == {"s(c)"}
    assert letters(second, "D") == {"p4(c)", "s(c)"}
    assert len(kb) == 4


@pytest.mark.parametrize("marking", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_random_streams_end_where_the_engine_ends(seed: int, marking: bool) -> None:
    case, updates = soak(seed, Features(aggregates=False))
    kb = KnowledgeBase(str(case.state), maintenance="backward-forward", trace="paper")
    state = case.state
    found = traces(kb, [update.mapping() for update in updates], marking)
    for update in updates:
        state = state.apply(update)
    assert len(found) == len(updates)
    assert len(kb) == sum(map(len, state.materialise().values()))
