"""Derivation counters that are full: facts with more derivations than a counter can hold stay correct."""

from __future__ import annotations

import pytest

import tidelog.engine.propagation.propagate
import tidelog.engine.transaction.task
import tidelog.machine.counters
from audit import audit
from engine_util import ALGORITHMS, check_stream
from generate import EVERYTHING, POSITIVE, Features, soak
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.machine.counters import FULL_COUNT
from tidelog.machine.jit import JIT_DISABLED
from tidelog.store.relation import Relation

plain_only = pytest.mark.skipif(not JIT_DISABLED, reason="kernels have been compiled with the true bounds")

COUNTING = ["auto", "counting", "counting-trace", "dred-counting", "backward-forward-counting"]

CROSS_PRODUCT = "hit(1) :- p(X), r(Y), X < Y + 10."
RECURSIVE = "hit(1) :- p(X), r(Y), X < Y + 10. hit(Z) :- hit(X), e(X, Z)."
CYCLE = [(1, 2), (2, 1), (2, 3)]


def _hit(kb: KnowledgeBase) -> Relation:
    return kb._engine.store.relation("hit", 1)


def _crowded(rules: str, maintenance: str) -> KnowledgeBase:
    """A knowledge base in which the derivations of `hit(1)` fill its counter, all but the last few simulated."""
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add={"p": [(1,)], "r": [(1,), (2,), (3,)], "e": CYCLE})
    relation = _hit(kb)
    if relation.has_counters:
        relation.counters[0, 0] = FULL_COUNT - 1
    kb.update(add={"p": [(2,), (3,)]})
    if relation.has_counters:
        assert relation.counters[0, 0] == FULL_COUNT
    return kb


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_a_fact_with_too_many_derivations_to_count_outlives_some_of_them(maintenance: str) -> None:
    kb = _crowded(RECURSIVE, maintenance)
    assert not kb.update(delete={"p": [(3,)]}).removed.keys() - {"p"}
    assert not kb.update(delete={"e": [(2, 1)]}).removed.keys() - {"e"}
    assert set(kb.facts("hit")) == {(1,), (2,), (3,)}


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("rules", [CROSS_PRODUCT, RECURSIVE], ids=["product", "recursive"])
def test_it_goes_with_the_last_of_them(rules: str, maintenance: str) -> None:
    kb = _crowded(rules, maintenance)
    kb.update(delete={"p": [(1,), (2,)]})
    assert (1,) in kb.facts("hit")
    change = kb.update(delete={"p": [(3,)]})
    assert len(change.removed["hit"]) == (1 if rules == CROSS_PRODUCT else 3)
    assert not kb.facts("hit")
    kb.update(add={"p": [(1,)]})
    assert (1,) in kb.facts("hit")
    audit(kb)


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("rules", [CROSS_PRODUCT, RECURSIVE], ids=["product", "recursive"])
def test_it_may_be_explicit_too(rules: str, maintenance: str) -> None:
    kb = _crowded(rules, maintenance)
    kb.update(add={"hit": [(1,)]})
    kb.update(delete={"p": [(1,), (2,), (3,)]})
    assert (1,) in kb.facts("hit")
    audit(kb)
    kb.update(delete={"hit": [(1,)]})
    assert not kb.facts("hit")


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_its_rule_may_go(maintenance: str) -> None:
    kb = _crowded(RECURSIVE, maintenance)
    kb.update(add_rules="hit(X) :- s(X).", add={"s": [(1,)]}, remove_rules=CROSS_PRODUCT)
    assert set(kb.facts("hit")) == {(1,), (2,), (3,)}
    audit(kb)
    kb.update(delete={"s": [(1,)]})
    assert not kb.facts("hit")


@plain_only
@pytest.mark.plain
@pytest.mark.parametrize("maintenance", COUNTING)
@pytest.mark.parametrize("full", [1, 2])
@pytest.mark.parametrize("features", [POSITIVE, EVERYTHING], ids=["positive", "everything"])
def test_random_streams_where_few_derivations_are_too_many(
    features: Features, full: int, maintenance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidelog.machine.counters, "FULL_COUNT", full)
    for seed in range(4000, 4002):
        case, stream = soak(seed, features)
        check_stream(case.state, stream, maintenance, also=audit, modules=seed % 2 == 0)


@plain_only
@pytest.mark.plain
@pytest.mark.parametrize("top", [4, 12])
def test_random_streams_where_ranks_run_out(top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tidelog.engine.propagation.propagate, tidelog.engine.transaction.task):
        monkeypatch.setattr(module, "TOP_RANK", top)
    monkeypatch.setattr(tidelog.engine.algorithms.ranks, "LAST_RANK", top // 2)
    for seed in range(4100, 4106):
        case, stream = soak(seed, POSITIVE)
        check_stream(case.state, stream, "auto", also=audit, modules=False)


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_a_saved_counter_is_as_full_as_before(maintenance: str, tmp_path: object) -> None:
    kb = _crowded(RECURSIVE, maintenance)
    kb.save(f"{tmp_path}/kb")
    kb.close()
    with KnowledgeBase.open(f"{tmp_path}/kb") as opened:
        opened.update(delete={"p": [(1,), (2,)]})
        assert (1,) in opened.facts("hit")
        opened.update(delete={"p": [(3,)]})
        assert not opened.facts("hit")
