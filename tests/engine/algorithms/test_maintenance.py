"""Every maintenance algorithm against the oracle: random programs under random streams of facts and rules."""

from __future__ import annotations

import pytest

import tidelog.store.pair_bits
import tidelog.store.store
from audit import audit
from engine_util import ALGORITHMS, check_stream
from generate import EVERYTHING, POSITIVE, Features, soak
from naive import Update
from tidelog.api.knowledge_base import KnowledgeBase


@pytest.fixture(autouse=True)
def _tiny_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays so small that each of them has to grow."""
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    monkeypatch.setattr(tidelog.store.store, "HEAD_CELLS", 64)
    monkeypatch.setattr(tidelog.store.pair_bits, "PAIRS_FROM", 2)


def facts_only(update: Update) -> Update:
    return Update(update.add, update.delete)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("features", [POSITIVE, EVERYTHING], ids=["positive", "everything"])
@pytest.mark.parametrize("block", range(2))
def test_streams_of_facts(maintenance: str, features: Features, block: int) -> None:
    for seed in range(20 * block, 20 * block + 12):
        case, stream = soak(seed, features)
        check_stream(case.state, [facts_only(update) for update in stream], maintenance)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("block", range(2))
def test_streams_of_facts_and_rules(maintenance: str, block: int) -> None:
    for seed in range(1000 + 20 * block, 1000 + 20 * block + 12):
        case, stream = soak(seed, EVERYTHING)
        check_stream(case.state, stream, maintenance)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_a_group_that_joins_a_base_with_its_closure(maintenance: str) -> None:
    kb = KnowledgeBase(
        "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). n(X, count(Y)) :- edge(X, Y), path(X, Y).",
        maintenance=maintenance,
    )
    kb.update(add={"edge": [(1, 2), (2, 2), (2, 3)]})
    assert set(kb.facts("n")) == {(1, 1), (2, 2)}
    assert kb.update(delete={"edge": [(1, 2)]}).removed["n"] == {(1, 1)}


@pytest.mark.parametrize("maintenance", ["backward-forward", "backward-forward-counting"])
def test_a_fact_left_without_a_proof_is_proved_when_what_it_waits_for_is(maintenance: str) -> None:
    """The search for a(1) comes to b(1), which only a(1) derives, before it finds c(1)."""
    rules = "a(X) :- b(X). b(X) :- a(X). a(X) :- c(X). c(X) :- a(X)."
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add={"a": [(1,)], "b": [(1,)], "c": [(1,)]})
    change = kb.update(delete={"a": [(1,)], "b": [(1,)]})
    assert not change.removed
    assert (change.work["checked"], change.work["forward"]) == (3, 3)


def test_where_two_atoms_lose_a_third_each_a_join_is_found_again() -> None:
    """More than half of its instances probably go then, and counting them down would take longer."""
    kb = KnowledgeBase("a(X, Y) :- e(X, Y). b(X, Y) :- e(X, Y). j(X, Z) :- a(X, Y), b(Y, Z).")
    edges = [(left, right) for left in range(25) for right in range(25)]
    kb.update(add={"e": edges})
    change = kb.update(delete={"e": [(left, right) for left, right in edges if right % 5 < 2]})
    instances = 25 * 15 * 15
    assert change.work["insertion"] == instances, "and not the others counted down"
    audit(kb)
    change = kb.update(delete={"e": [(left, 2) for left in range(25)]})
    assert change.work["insertion"] == 0
    audit(kb)
