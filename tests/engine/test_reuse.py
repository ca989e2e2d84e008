"""Rules that come and go forever leave nothing behind: their plans, relations and indexes are reused."""

from __future__ import annotations

from contextlib import suppress

import pytest

import tidelog.joins.code
from audit import audit
from engine_util import check_stream
from faults import faulty_memory
from generate import EVERYTHING, soak
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.components import Nodes
from tidelog.language.syntax import Atom, Constant

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
DEGREE = "degree(X, count(Y)) :- path(X, Y), not edge(Y, X)."
LONGEST = "longest(X, max(Y)) :- path(X, Y)."
EDGES = [(node, node + 1) for node in range(20)]


def _loaded() -> KnowledgeBase:
    kb = KnowledgeBase(PATHS, modules=False)
    kb.update(add={"edge": EDGES})
    return kb


def test_relations_and_indexes_of_aggregates_are_used_again() -> None:
    kb = _loaded()
    sizes = []
    for last in range(21, 33):
        kb.update(add_rules=DEGREE + LONGEST)
        kb.update(add={"edge": [(20, last)]})
        assert set(kb.facts("longest")) >= {(0, last)}
        audit(kb)
        kb.update(delete={"edge": [(20, last)]}, remove_rules=DEGREE)
        kb.update(remove_rules=LONGEST)
        audit(kb)
        store = kb._engine.store
        sizes.append((len(store.relations), len(store._indexes), len(store.named())))
    assert len(set(sizes[1:])) == 1


@pytest.mark.parametrize("around", ["", "q(X, Y) :- p(X, Y), g(X). p(X, Y) :- q(X, Y), h(Y)."])
def test_relations_of_closures_are_used_again(around: str) -> None:
    """Of twins that are joined and separated, in a larger recursion too."""
    copy = "p(X, Y) :- s(Y, X)."
    kb = KnowledgeBase(f"p(X, Z) :- p(X, Y), p(Y, Z). s(X, Y) :- p(Y, X). p(X, Y) :- e(X, Y). {around}")
    kb.update(add={"e": [(1, 2), (2, 3)], "s": [(5, 4), (4, 3)]})
    counts = []
    for _ in range(4):
        kb.add_rules(copy)
        kb.update(delete={"e": [(1, 2)]})
        assert [bool(closure.fed) for closure in kb._engine.closures.each()] == [bool(around)]
        audit(kb)
        kb.update(add={"e": [(1, 2)]}, remove_rules=copy)
        audit(kb)
        counts.append((len(kb._engine.store.relations), len(kb._engine.store._indexes)))
    assert counts[-1] == counts[0]


def test_an_update_that_fails_gives_the_relations_of_its_aggregates_back() -> None:
    kb = KnowledgeBase(PATHS, modules=False, max_facts=300)
    kb.update(add={"edge": EDGES})
    kb.add_rules(LONGEST)
    kb.remove_rules(LONGEST)
    sizes = []
    for _ in range(3):
        with pytest.raises(tidelog.TidelogError, match="more than 300 facts"):
            kb.update(add_rules=LONGEST + DEGREE + "twice(X, Y, count(Z)) :- path(X, Y), path(Y, Z).")
        audit(kb)
        sizes.append(len(kb._engine.store.relations))
    assert len(set(sizes)) == 1
    kb.add_rules(LONGEST)
    assert len(kb.facts("longest")) == len(EDGES)
    audit(kb)


def test_memory_that_runs_out_where_relations_are_given_back_changes_nothing() -> None:
    for number in range(1, 100):
        kb = _loaded()
        kb.add_rules(LONGEST)
        with faulty_memory(number) as trigger, suppress(MemoryError):
            kb.remove_rules(LONGEST)
        audit(kb)
        kb.add_rules(LONGEST)
        audit(kb)
        if trigger.count < number:
            return
    pytest.fail("there is no end of allocations")


@pytest.mark.parametrize("asked", ["foo", "foo(X)", "foo(X, Y)", "foo(X, Y, Z)", "q(X), not foo(X)"])
def test_a_query_does_not_decide_how_many_arguments_a_predicate_has(asked: str) -> None:
    kb = KnowledgeBase("r(X) :- q(X).")
    kb.update(add={"q": [("a",), ("b",)]})
    kb.query(asked)
    kb.why_not("foo(a)")
    assert kb.explain("foo(a)") is None
    kb.update(add={"foo": [("a", "b")]}, add_rules="foo(X, X) :- q(X).")
    assert set(kb.facts("foo")) == {("a", "b"), ("a", "a"), ("b", "b")}
    audit(kb)


def test_a_failed_update_that_used_relations_again_does_not_decide_either() -> None:
    kb = KnowledgeBase(PATHS + LONGEST, modules=False, max_facts=300)
    kb.update(add={"edge": EDGES})
    kb.remove_rules(LONGEST)
    with pytest.raises(tidelog.TidelogError, match="more than 300 facts"):
        kb.update(add={"foo": [(1,)]}, add_rules="all(X, Y, Z) :- path(X, Y), path(Y, Z). foo(X) :- edge(X, _).")
    kb.update(add={"foo": [("a", "b")]})
    assert set(kb.facts("foo")) == {("a", "b")}
    audit(kb)


def test_plans_of_rules_that_went_are_forgotten() -> None:
    kb = _loaded()
    rule = "back(Y, X) :- path(X, Y), not edge(X, Y), X + 1 < Y."
    for _ in range(1500):
        kb.add_rules(rule)
        kb.remove_rules(rule)
    assert kb._engine.store.code.generation == 1
    assert kb._engine.store.code.size < tidelog.joins.code.CROWDED_FROM
    kb.update(delete={"edge": [(3, 4)]}, add_rules=rule)
    audit(kb)


def test_plans_that_are_needed_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.joins.code, "CROWDED_FROM", 100)
    kb = KnowledgeBase("".join(f"p{n}(X, Y) :- edge(X, Y), X > {n}." for n in range(50)))
    for edge in EDGES:
        kb.update(add={"edge": [edge]})
    assert kb._engine.store.code.generation == 0


def test_forgotten_plans_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In programs of every kind, with proofs in between, whose plans are stored there too."""
    monkeypatch.setattr(tidelog.joins.code, "CROWDED_FROM", 1)
    monkeypatch.setattr(Nodes, "words", lambda self: 0)
    forgotten = 0
    for seed in range(7000, 7030):
        case, stream = soak(seed, EVERYTHING, length=5)
        kb = check_stream(case.state, stream, "auto", also=_audit_and_explain, modules=seed % 2 == 0)
        forgotten += kb._engine.store.code.generation
    assert forgotten > 100


def _audit_and_explain(kb: KnowledgeBase) -> None:
    audit(kb)
    for predicate in kb.predicates:
        for row in list(kb.facts(predicate))[:2]:
            assert kb.explain(str(Atom(predicate, tuple(map(Constant, row)))))
