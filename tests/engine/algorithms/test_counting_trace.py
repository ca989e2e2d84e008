"""Recursive counting: levels and counts, what moves and what does not, and what an update costs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import tidelog.store.store
from audit import audit, check_refused
from engine_util import check_stream
from generate import EVERYTHING, POSITIVE, Features, soak
from naive import Update, database
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import LimitError
from tidelog.machine import flags as F

REACH = "reach(X) :- start(X). reach(Y) :- reach(X), edge(X, Y)."
CLOSURE = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z)."
# Two recursions, one below the other; with the link they are one component. No rule becomes or ceases to be recursive.
TWO_PARTS = "a(X) :- s(X). a(Y) :- a(X), e(X, Y). b(X) :- t(X). b(Y) :- b(X), a(X), e(X, Y)."
LINK = "a(Y) :- a(X), b(X), e(X, Y)."

pytestmark = pytest.mark.plain


def _kb(rules: str, **facts: Iterable[tuple[int, ...]]) -> KnowledgeBase:
    kb = KnowledgeBase(rules, maintenance="counting-trace", modules=False)
    kb.update(add={name: list(rows) for name, rows in facts.items()})
    return kb


def _levels(kb: KnowledgeBase, predicate: str) -> dict[object, tuple[int, int]]:
    """The level of each fact of a predicate with one argument, and its number of instances there."""
    relation = kb._engine.store.relation(predicate, 1)
    values = kb._engine.store.terms.table.decode_column(relation.cells[: relation.count, 0])
    rows = zip(values, relation.flags.tolist(), relation.counters.tolist(), strict=True)
    return {value: (level, count) for value, flags, (count, level) in rows if flags & F.IN}


def _chain(length: int, first: int = 0) -> list[tuple[int, int]]:
    return [(node, node + 1) for node in range(first, first + length)]


def _work(kb: KnowledgeBase, **update: dict[str, list[tuple[int, ...]]]) -> dict[str, int]:
    """What an update took, without zeros; everything is as it must be afterwards."""
    change = kb.update(**update)  # type: ignore[arg-type]
    audit(kb)
    return {kind: count for kind, count in change.work.items() if count}


def test_a_level_is_the_round_that_finds_a_fact_first() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 3), (1, 7)]
    kb = _kb(REACH, start=[(0,), (7,)], edge=edges, reach=[(7,), (8,)])
    assert _levels(kb, "reach") == {0: (0, 1), 7: (0, 1), 8: (0, 0), 1: (1, 1), 2: (1, 1), 3: (2, 2), 4: (3, 1)}


def test_a_count_that_stays_above_zero_moves_nothing() -> None:
    kb = _kb(REACH, start=[(0,)], edge=[(0, 1), (0, 2), (1, 3), (2, 3), *_chain(50, 3)])
    assert _work(kb, delete={"edge": [(1, 3)]}) == {"deletion": 1}
    assert _levels(kb, "reach")[3] == (2, 1)
    assert _work(kb, add={"edge": [(1, 3)]}) == {"insertion": 1}
    assert _levels(kb, "reach")[3] == (2, 2)
    # Instances above the level of their head are in higher multisets, which nobody counts.
    assert _work(kb, add={"edge": [(40, 3)]}) == {"insertion": 1}
    assert _work(kb, delete={"edge": [(40, 3)]}) == {"deletion": 1}


def test_the_worst_case_is_a_detour_at_the_beginning_of_a_long_chain() -> None:
    """I stays as it is, and yet every level rises by one."""
    length = 200
    kb = _kb(REACH, start=[(0,)], edge=[*_chain(length), (0, -1), (-1, 1)])
    assert _levels(kb, "reach")[length] == (length, 1)
    work = _work(kb, delete={"edge": [(0, 1)]})
    # Each node leaves, looks and arrives once.
    assert work == {"deletion": length, "insertion": length - 1, "backward": length, "checked": length}
    assert _levels(kb, "reach")[length] == (length + 1, 1)
    work = _work(kb, add={"edge": [(0, 1)]})
    assert work == {"insertion": length}, "levels fall without a search"
    assert _levels(kb, "reach")[length] == (length, 1)


def test_an_edge_that_is_replaced_moves_nothing_but_itself() -> None:
    """Deletions and additions pass through the levels together."""
    kb = _kb(REACH, start=[(0,)], edge=[*_chain(100), (0, -1)])
    work = _work(kb, delete={"edge": [(0, 1)]}, add={"edge": [(-1, 2)]})
    assert sum(work.values()) < 10
    assert _levels(kb, "reach")[100] == (100, 1)


def test_nothing_is_overdeleted() -> None:
    """In a clique nearly all paths use any edge; all but one of them have as short a derivation without it."""
    nodes = range(12)
    kb = _kb(CLOSURE, edge=[(x, y) for x in nodes for y in nodes if x != y])
    change = kb.update(delete={"edge": [(0, 1)]})
    audit(kb)
    assert change.removed.keys() == {"edge"}
    assert change.work["overdeleted"] == change.work["rederivation"] == 0
    assert change.work["checked"] == 1, "path(0, 1), which has ten derivations at the next level"
    assert 0 < change.work["deletion"] < 100


@pytest.mark.parametrize("length", [1, 2, 3, 10])
def test_facts_that_keep_each_other_alive_go(length: int) -> None:
    ring = [*_chain(length - 1, 1), (length, 1)]
    kb = _kb(REACH, start=[(0,)], edge=[(0, 1), *ring])
    assert kb.update(delete={"edge": [(0, 1)]}).removed["reach"] == {(node,) for node in range(1, length + 1)}
    audit(kb)
    assert len(kb.update(add={"edge": [(0, 1)]}).added["reach"]) == length
    audit(kb)


def test_a_fact_may_need_itself_twice() -> None:
    kb = _kb("p(X) :- s(X). p(X) :- p(X), p(Y), e(X, Y).", s=[(1,), (2,)], e=[(1, 1), (1, 2), (2, 2)])
    assert kb.update(delete={"s": [(1,)]}).removed["p"] == {(1,)}
    audit(kb)


def test_explicit_facts_are_at_level_zero_for_as_long_as_they_are_explicit() -> None:
    kb = _kb(REACH, start=[(0,)], edge=_chain(5))
    _work(kb, add={"reach": [(3,)]})
    assert [_levels(kb, "reach")[node] for node in (3, 4, 5)] == [(0, 0), (1, 1), (2, 1)]
    _work(kb, delete={"reach": [(3,)]})
    assert [_levels(kb, "reach")[node] for node in (3, 4, 5)] == [(3, 1), (4, 1), (5, 1)]
    _work(kb, add={"reach": [(3,)]})
    assert kb.update(delete={"edge": [(1, 2)]}).removed["reach"] == {(2,)}
    audit(kb)


def test_a_fall_that_fails_goes_back() -> None:
    """reach(4) is to fall to level 3 by the new edge, until reach(3) has gone."""
    kb = _kb(REACH, start=[(0,)], edge=[(0, 1), (1, 2), *_chain(4, 10), (0, 10), (14, 4), (4, 5)])
    before = _levels(kb, "reach")
    _work(kb, delete={"edge": [(0, 1)]}, add={"edge": [(2, 4)]})
    assert _levels(kb, "reach") == {node: at for node, at in before.items() if node not in (1, 2)}


def test_an_instance_stays_where_its_highest_fact_does() -> None:
    """reach(1) and reach(2) derive both(9); one of them falls, and the other one is still the later."""
    rules = f"{REACH} reach(Z) :- reach(X), reach(Y), both(X, Y, Z)."
    kb = _kb(rules, start=[(0,)], edge=[*_chain(5, 10), (0, 10), (12, 1), (15, 2)], both=[(1, 2, 9), (2, 1, 9)])
    assert _levels(kb, "reach")[9] == (8, 2)
    _work(kb, add={"edge": [(0, 1)]})
    assert [_levels(kb, "reach")[node] for node in (1, 2, 9)] == [(1, 1), (7, 1), (8, 2)]
    _work(kb, delete={"edge": [(0, 1)]})
    assert _levels(kb, "reach")[9] == (8, 2)


def test_rules_come_and_go_without_a_new_trace_if_the_component_stays() -> None:
    kb = _kb(REACH, start=[(0,)], edge=_chain(100), link=[(0, 50)])
    change = kb.add_rules("reach(Y) :- reach(X), link(X, Y).")
    audit(kb)
    assert (change.work["insertion"], change.work["checked"]) == (51, 0)
    assert _levels(kb, "reach")[100] == (51, 1)
    change = kb.remove_rules("reach(Y) :- reach(X), link(X, Y).")
    audit(kb)
    assert (change.work["deletion"], change.work["insertion"]) == (51, 50)
    assert _levels(kb, "reach")[100] == (100, 1)


def test_components_that_merge_or_split_get_new_levels() -> None:
    kb = _kb(f"{TWO_PARTS} {LINK}", s=[(0,)], t=[(2,)], e=_chain(4))
    assert (_levels(kb, "a")[3], _levels(kb, "b")[3]) == ((3, 2), (3, 1))
    kb.remove_rules(LINK)
    kb.update(add={"t": [(9,)]})
    audit(kb)
    assert (_levels(kb, "a")[3], _levels(kb, "b")[3]) == ((3, 1), (1, 1)), "a is below b now"
    kb.add_rules(LINK)
    audit(kb)
    assert (_levels(kb, "a")[3], _levels(kb, "b")[3]) == ((3, 2), (3, 1))


def test_levels_are_saved(tmp_path: Path) -> None:
    kb = _kb(REACH, start=[(0,)], edge=_chain(50))
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    assert _levels(again, "reach") == _levels(kb, "reach")
    assert _work(again, delete={"edge": [(49, 50)]}) == {"deletion": 1, "checked": 1}, "and need not be found again"


def test_levels_of_a_component_that_has_changed_since_are_found_again(tmp_path: Path) -> None:
    kb = _kb(f"{TWO_PARTS} {LINK}", s=[(0,)], t=[(2,)], e=_chain(4))
    kb.remove_rules(LINK)  # It takes no fact away, so that b is not visited.
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    again.update(add={"t": [(9,)]})
    audit(again)
    assert _levels(again, "b")[3] == (1, 1)


@pytest.mark.parametrize("features", [POSITIVE, EVERYTHING], ids=["positive", "everything"])
@pytest.mark.parametrize("modules", [False, True])
def test_random_streams(features: Features, modules: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    for seed in range(7000, 7006):
        case, stream = soak(seed, features)
        check_stream(case.state, stream, "counting-trace", also=audit, modules=modules)


def test_an_update_that_fails_leaves_levels_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = _kb(REACH, start=[(0,)], edge=[*_chain(20), (0, -1), (-1, 1)])
    update = Update(delete=database({"edge": [(0, 1)]}), add=database({"edge": [(3, 9), (30, 31)], "start": [(30,)]}))
    check_refused(kb, update, monkeypatch)


def test_limits_stop_it_in_the_middle() -> None:
    rules = f"{REACH} reach(Y) :- reach(X), go(X), Y = X + 1."
    kb = KnowledgeBase(rules, maintenance="counting-trace", max_facts=5_000)
    kb.update(add={"start": [(0,)]})
    before = _levels(kb, "reach")
    with pytest.raises(LimitError, match="more than 5000 facts"):
        kb.update(add={"go": [(node,) for node in range(2_600)]})
    assert _levels(kb, "reach") == before
    audit(kb)


def test_marks_are_of_no_use_to_it() -> None:
    kb = _kb(REACH, start=[(0,)], edge=_chain(10))
    updates = [{"delete": {"edge": [(8, 9)]}}, {"delete": {"edge": [(4, 5)]}}, {"add": {"edge": [(4, 5)]}}]
    changes = list(kb.stream(updates))
    audit(kb)
    assert [len(change.removed.get("reach", ())) for change in changes] == [2, 4, 0]
    assert all(change.work["marked_implicit"] == 0 for change in changes)
