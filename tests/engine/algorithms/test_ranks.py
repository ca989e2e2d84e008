"""Deletion by ranks: what it overdeletes, when ranks are lost, and what `auto` learns from its costs."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tidelog.engine.algorithms.auto
import tidelog.engine.algorithms.ranks
from audit import audit
from engine_util import check_stream
from generate import EVERYTHING, soak
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.algorithms.ranks import LAST_RANK, _outlook
from tidelog.engine.rules.policy import Costs
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W

REACH = "reach(X) :- start(X). reach(Y) :- reach(X), edge(X, Y)."
CLOSURE = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z)."
MUTUAL = "odd(X, Y) :- edge(X, Y). odd(X, Z) :- even(X, Y), edge(Y, Z). even(X, Z) :- odd(X, Y), edge(Y, Z)."


@pytest.fixture
def _never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No component is ever materialised again: all deletions go by ranks."""
    monkeypatch.setattr(tidelog.engine.algorithms.auto, "LEAST_PATIENCE", 1 << 40)
    monkeypatch.setattr(tidelog.engine.algorithms.auto, "LEAST_LOSS", 1 << 40)


def _is_ranked(kb: KnowledgeBase, predicate: str) -> bool:
    return kb._engine.nodes.node(predicate).ranked


@pytest.mark.usefixtures("_never_again")
def test_random_programs_keep_their_ranks() -> None:
    for seed in range(2000, 2016):
        case, stream = soak(seed, EVERYTHING)
        check_stream(case.state, stream, "auto", also=audit, modules=False)


@pytest.mark.usefixtures("_never_again")
@pytest.mark.parametrize(("predicate", "rules"), [("reach", REACH), ("path", CLOSURE), ("odd", MUTUAL)])
def test_graphs_that_lose_and_gain_edges(predicate: str, rules: str) -> None:
    source = random.Random(7)
    kb = KnowledgeBase(rules, modules=False)
    pairs = [(x, y) for x in range(9) for y in range(9)]
    kb.update(add={"edge": source.sample(pairs, 16), "start": [(0,)]})
    for _ in range(40):
        kb.update(delete={"edge": source.sample(pairs, 12)}, add={"edge": source.sample(pairs, 2)})
        audit(kb)
    assert _is_ranked(kb, predicate)


@pytest.mark.usefixtures("_never_again")
def test_facts_that_only_hold_each_other_go() -> None:
    kb = KnowledgeBase(REACH)
    ring = [(node, (node + 1) % 10) for node in range(10)]
    kb.update(add={"start": [("way in",)], "edge": [*ring, ("way in", 3)]})
    change = kb.update(delete={"edge": [("way in", 3)]})
    assert change.removed["reach"] == {(node,) for node in range(10)}


@pytest.mark.usefixtures("_never_again")
def test_a_clique_that_loses_an_edge_overdeletes_nothing() -> None:
    overdeleted = {}
    for maintenance in ("auto", "dred"):
        kb = KnowledgeBase(CLOSURE, maintenance=maintenance, modules=False)
        kb.update(add={"edge": [(x, y) for x in range(20) for y in range(20)]})
        overdeleted[maintenance] = kb.update(delete={"edge": [(3, 4)]}).work["overdeleted"]
        assert len(kb.facts("path")) == 400
    assert overdeleted == {"auto": 0, "dred": 400}


@pytest.mark.usefixtures("_never_again")
def test_ranks_are_saved(tmp_path: Path) -> None:
    kb = KnowledgeBase(REACH)
    kb.update(add={"start": [(0,)], "edge": [(node, node + 1) for node in range(10)]})
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    assert _is_ranked(again, "reach")
    again.update(add={"edge": [(0, 5)]}, delete={"edge": [(4, 5)]})
    audit(again)
    assert again.update(delete={"edge": [(0, 5)]}).work["overdeleted"] == 6
    audit(again)


def test_ranks_that_say_nothing_are_saved_as_none(tmp_path: Path) -> None:
    kb = KnowledgeBase(REACH, maintenance="backward-forward-counting")
    kb.update(add={"start": [(0,)], "edge": [(0, 1), (1, 2), (0, 2)]})
    kb.update(delete={"edge": [(0, 1)]})
    assert not _is_ranked(kb, "reach")
    kb.save(tmp_path / "kb")
    assert not _is_ranked(KnowledgeBase.open(tmp_path / "kb"), "reach")


@pytest.mark.usefixtures("_never_again")
def test_facts_that_were_saved_without_ranks_have_none(tmp_path: Path) -> None:
    KnowledgeBase(f"edge(1, 2). edge(2, 1). {MUTUAL}", maintenance="counting").save(tmp_path / "saved")
    kb = KnowledgeBase.open(tmp_path / "saved")
    assert _is_ranked(kb, "edge")
    assert not _is_ranked(kb, "odd")


def test_components_that_merge_keep_their_ranks() -> None:
    """Even if a fact above is older than what derives it now."""
    kb = KnowledgeBase("p(X) :- q(X). q(X) :- e(X). p(X) :- f(X).")
    kb.update(add={"e": [(1,)], "f": [(2,)], "next": [(1, 3), (3, 4), (4, 3)]})
    kb.update(add={"e": [(2,)]}, delete={"f": [(2,)]})
    kb.update(add_rules="q(Y) :- p(X), next(X, Y).")
    assert _is_ranked(kb, "p")
    audit(kb)
    kb.update(delete={"next": [(1, 3)], "e": [(2,)]})
    assert set(kb.facts("p")) == {(1,)}
    audit(kb)


@pytest.mark.usefixtures("_never_again")
def test_components_that_split_keep_their_ranks() -> None:
    more = "even(X, Z) :- even(X, Y), even(Y, Z). odd(X, Y) :- even(X, Y), special(X)."
    kb = KnowledgeBase(MUTUAL + more, modules=False)
    kb.update(add={"edge": [(x, (x + 1) % 6) for x in range(6)] + [(0, 3)], "special": [(2,)]})
    kb.update(remove_rules="odd(X, Z) :- even(X, Y), edge(Y, Z). odd(X, Y) :- even(X, Y), special(X).")
    assert _is_ranked(kb, "even")
    audit(kb)
    kb.update(delete={"edge": [(2, 3), (0, 1)]})
    audit(kb)


@pytest.mark.usefixtures("_never_again")
def test_ranks_are_numbered_from_the_beginning_before_they_are_too_large() -> None:
    kb = KnowledgeBase(REACH)
    kb.update(add={"start": [(0,)], "edge": [(node, node + 1) for node in range(5)]})
    machine = kb._engine.store.machine
    machine[M.RANK] = LAST_RANK
    kb.update(add={"edge": [(5, 6), (6, 2)]})
    assert machine[M.RANK] > LAST_RANK
    kb.update(add={"edge": [(6, 7), (7, 1)]})
    assert machine[M.RANK] < 20
    assert _is_ranked(kb, "reach")
    audit(kb)
    kb.update(delete={"edge": [(1, 2)]})
    assert set(kb.facts("reach")) == {(0,), (1,)}
    audit(kb)


def test_a_failed_update_leaves_ranks_as_they_were() -> None:
    kb = KnowledgeBase(REACH, max_facts=40)
    kb.update(add={"start": [(0,)], "edge": [(node, node + 1) for node in range(10)]})
    with pytest.raises(tidelog.TidelogError, match="more than 40 facts"):
        kb.update(delete={"edge": [(0, 1)]}, add={"edge": [(0, node) for node in range(50, 90)]})
    assert _is_ranked(kb, "reach")
    audit(kb)


def test_costs_of_deletion_are_foreseen_from_earlier_ones() -> None:
    costs = Costs()
    assert costs.of_deleting(1_000_000) == 0, "nothing is known"
    costs.learn_deletion(lost=1, spent=500)
    costs.learn_deletion(lost=10, spent=400)
    assert 40 * 100 < costs.of_deleting(100) < 100 * 100, "the larger deletion says more"
    before = costs.of_deleting(100)
    costs.learn_failure(lost=10, spent=400, patience=500)
    assert costs.of_deleting(100) > before, "what was given up would have needed more"


def test_what_was_given_up_early_is_taken_to_need_more_than_it_may() -> None:
    costs = Costs()
    costs.learn_failure(lost=1_000, spent=10, patience=5_000)
    assert costs.of_deleting(1_000) > 1.2 * 5_000
    assert costs.of_deleting(10) < 5_000, "which says little of small ones"


def test_how_many_facts_go_is_foreseen_from_earlier_deletions() -> None:
    costs = Costs()
    assert costs.of_going(100) == 0, "nothing is known"
    costs.learn_going(lost=10, went=1_000)
    assert 80 * 20 < costs.of_going(20) <= 100 * 20
    for _ in range(20):
        costs.learn_going(lost=10, went=0)
    assert costs.of_going(20) < 20, "what was long ago says little"


def test_what_was_too_expensive_is_tried_again_in_time() -> None:
    costs = Costs()
    costs.learn_failure(lost=100, spent=1_000, patience=1_000)
    foreseen = [costs.of_deleting(100)]
    for _ in range(20):
        costs.forget()
        foreseen.append(costs.of_deleting(100))
    assert foreseen == sorted(foreseen, reverse=True)
    assert foreseen[-1] < foreseen[0] / 2


def test_a_deletion_that_will_be_too_expensive_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: dict[float, int] = {}
    for outlook in (0.0, 1e30):
        monkeypatch.setattr(tidelog.engine.algorithms.ranks, "_outlook", lambda *_, outlook=outlook: outlook)
        kb = KnowledgeBase(CLOSURE, modules=False)
        kb.update(add={"edge": [(node, (node + step) % 24) for node in range(24) for step in (1, 2)]})
        change = kb.update(delete={"edge": [(node, node + 1) for node in range(9, 15)]})
        audit(kb)
        checked[outlook] = change.work["checked"]
    assert checked[1e30] < checked[0.0] / 4


def test_facts_that_are_about_to_spread_are_no_reason_to_give_up() -> None:
    """Their cost was counted when they looked."""
    kb = KnowledgeBase("reach(X) :- start(X). reach(Y) :- reach(X), edge(X, Y).")
    kb.update(add={"start": [(0,)], "edge": [(0, node) for node in range(1, 5_000)]})
    change = kb.update(delete={"edge": [(0, node) for node in range(1, 1_000)]})
    assert change.work["overdeleted"] == 999
    assert change.work["insertion"] == 0
    audit(kb)


def test_candidates_are_no_reason_to_give_up_before_any_of_them_has_looked() -> None:
    """If kernels pause while candidates are still being found, nothing is known about the cost of each."""
    relations = [SimpleNamespace(queues=SimpleNamespace(waiting=1_000))]
    task: Any = SimpleNamespace(machine=np.zeros(M.SIZE, np.int64), relations=relations)
    assert _outlook(task, checked=0, spent=500) == 0
    task.machine[M.WORK + W.CHECKED] = 10
    assert _outlook(task, checked=0, spent=500) == 50_000


def test_a_deletion_that_is_expected_to_be_too_expensive_is_not_tried() -> None:
    kb = KnowledgeBase(CLOSURE, modules=False)
    edges = [(node, node + step) for node in range(60) for step in (1, 2)]
    kb.update(add={"edge": edges})
    costs = kb._engine.nodes.node("path").costs
    costs.learn_deletion(lost=1, spent=1 << 40)
    change = kb.update(delete={"edge": [(30, 31)]})
    assert change.work["overdeleted"] == 0, "materialised again at once"
    assert costs.of_deleting(1) < 1 << 40, "and forgotten a little"
    audit(kb)


def test_calls_that_a_deletion_asked_for_do_not_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matter where it is given up. Otherwise a later update would call the function in vain."""
    monkeypatch.setattr(tidelog.engine.algorithms.auto, "PATIENCE", 0.0)
    monkeypatch.setattr(Costs, "of_deleting", lambda costs, lost: 0.0)
    for patience in range(1, 30):
        monkeypatch.setattr(tidelog.engine.algorithms.auto, "LEAST_PATIENCE", patience)
        kb = KnowledgeBase()
        kb.register("same", lambda value: value)
        kb.add_rules("p(X) :- s(X). p(1) :- g(W), p(W), h(same(W), W).")
        kb.update(add={"s": [(1,), (3,)], "g": [(2,), (3,)], "h": [(2, 2), (3, 3)]})
        kb.update(delete={"s": [(1,)]})
        assert kb._engine.store.machine[M.REQUEST_COUNT] == 0
        assert set(kb.facts("p")) == {(1,), (3,)}


def test_a_deletion_that_is_given_up_leaves_nothing_in_what_it_read() -> None:
    """The new facts of a negated atom that have been looked at are noted until all have been. Here patience ends before
    that; the predicate is a closure no longer, since it meets equal numbers of different types.
    """
    kb = KnowledgeBase(
        """
        p(Z, Y) :- p(Z, X), p(X, Y), Z != Y.
        p(V, X) :- d(Z, Y), f(Y, X, W), V = W * 2, not e(Z, W).
        last(Y, Y) :- f(Z, Y, Y), p(Y, Z).
        last(3, true) :- not e(N, _).
        """
    )
    kb.update(
        add={
            "d": [(1.0, 0), (True, 0)],
            "e": [(True, 1.0), (True, 0), (True, True), (1, 0)],
            "f": [(0, 3, 1.0), (0, 3, 1)],
        }
    )
    assert set(kb.facts("p")) == {(2, 3), (2.0, 3)}
    assert not kb.facts("last")
    audit(kb)
