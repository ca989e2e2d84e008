"""Rules that come and go: what other systems got wrong, each as a case of its own, under every algorithm."""

from __future__ import annotations

import pytest

from engine_util import ALGORITHMS, check_stream, materialisation
from generate import EVERYTHING, soak
from tidelog import StratificationError, UnknownRuleError
from tidelog.knowledge_base import KnowledgeBase

every_algorithm = pytest.mark.parametrize("maintenance", ALGORITHMS)


@every_algorithm
def test_a_deletion_goes_on_after_a_binding_that_fails(maintenance: str) -> None:
    kb = KnowledgeBase("r(X, Z) :- p(X, Y), q(Y, Z).", maintenance=maintenance)
    kb.update(add={"p": [("a", 1), ("a", 2), ("a", 3)], "q": [(1, "u"), (3, "w")]})
    change = kb.update(delete={"p": [("a", 2), ("a", 3)]})
    assert change.removed["r"] == {("a", "w")}
    assert set(kb.facts("r")) == {("a", "u")}


@every_algorithm
def test_negation_fires_only_when_the_last_match_goes(maintenance: str) -> None:
    kb = KnowledgeBase("alone(X) :- node(X), not p(X, _).", maintenance=maintenance)
    kb.update(add={"node": [("a",)], "p": [("a", 1), ("a", 2)]})
    assert not kb.update(delete={"p": [("a", 1)]}).added
    assert kb.update(delete={"p": [("a", 2)]}).added["alone"] == {("a",)}


@every_algorithm
def test_a_repeated_variable_asks_for_equality(maintenance: str) -> None:
    kb = KnowledgeBase("loop(X) :- p(X, X).", maintenance=maintenance)
    kb.update(add={"p": [("a", "b"), ("c", "c")]})
    assert set(kb.facts("loop")) == {("c",)}
    kb.add_rules("gone(X) :- q(X), not p(X, X).")
    kb.update(add={"q": [("a",), ("c",)]})
    assert set(kb.facts("gone")) == {("a",)}


@every_algorithm
def test_rules_that_share_variables_differently_are_two(maintenance: str) -> None:
    kb = KnowledgeBase("r(X, Y) :- p(X, Y), p(Y, X).", maintenance=maintenance)
    kb.update(add={"p": [("a", "b"), ("b", "c")]})
    kb.add_rules("r(X, Y) :- p(X, Y), p(X, Y).")
    assert len(kb.rules) == 2
    assert set(kb.facts("r")) == {("a", "b"), ("b", "c")}
    with pytest.raises(UnknownRuleError):
        kb.remove_rules("r(X, Y) :- p(X, Y), p(Z, Y).")
    kb.remove_rules("r(U, V) :- p(U, V), p(U, V).")
    assert list(kb.facts("r")) == []


@every_algorithm
def test_a_bound_zero_is_bound(maintenance: str) -> None:
    kb = KnowledgeBase("r(X, Y) :- p(X), q(X, Y).", maintenance=maintenance)
    kb.update(add={"p": [(0,)], "q": [(0, "zero"), (1, "one")]})
    assert set(kb.facts("r")) == {(0, "zero")}
    assert [answer["Y"] for answer in kb.query("q(0, Y)")] == ["zero"]


@every_algorithm
def test_a_recursion_goes_on_after_fifty_rounds(maintenance: str) -> None:
    kb = KnowledgeBase("r(0). r(Y) :- r(X), next(X, Y).", maintenance=maintenance, modules=False)
    kb.update(add={"next": [(number, number + 1) for number in range(300)]})
    assert len(kb.facts("r")) == 301
    kb.update(delete={"next": [(100, 101)]})
    assert len(kb.facts("r")) == 101


@every_algorithm
def test_the_same_rule_twice_is_one(maintenance: str) -> None:
    kb = KnowledgeBase("r(X) :- p(X).", maintenance=maintenance)
    kb.update(add={"p": [("a",)]}, add_rules="r(Y) :- p(Y). r(Z) :- p(Z).")
    assert len(kb.rules) == 1
    kb.remove_rules("r(A) :- p(A).")
    assert "r(a)" not in kb


@every_algorithm
def test_a_predicate_with_explicit_facts_becomes_derived_and_back(maintenance: str) -> None:
    kb = KnowledgeBase(maintenance=maintenance)
    kb.update(add={"r": [("a",), ("b",)], "p": [("b",), ("c",)]})
    kb.add_rules("r(X) :- p(X).")
    assert set(kb.facts("r")) == {("a",), ("b",), ("c",)}
    assert kb.remove_rules("r(X) :- p(X).").removed["r"] == {("c",)}
    assert set(kb.explicit("r")) == {("a",), ("b",)}


@every_algorithm
def test_counters_follow_a_component_into_a_recursion_and_out(maintenance: str) -> None:
    kb = KnowledgeBase("s(X) :- p(X). t(X) :- s(X).", maintenance=maintenance)
    kb.update(add={"p": [("a",), ("b",)]})
    kb.add_rules("s(X) :- t(X), q(X).")
    kb.update(add={"q": [("a",)]})
    kb.update(delete={"p": [("a",)]})
    assert set(kb.facts("s")) == {("b",)}, "a fact must not keep itself alive"
    kb.remove_rules("s(X) :- t(X), q(X).")
    kb.update(delete={"p": [("b",)]})
    assert list(kb.facts("t")) == []


@every_algorithm
@pytest.mark.parametrize("modules", [True, False])
def test_a_closure_appears_and_vanishes(maintenance: str, modules: bool) -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). far(Y) :- path(a, Y).", maintenance=maintenance, modules=modules)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "d")], "path": [("d", "e")]})
    change = kb.add_rules("path(X, Z) :- path(X, Y), path(Y, Z).")
    assert change.added["path"] == {("a", "c"), ("a", "d"), ("b", "d"), ("a", "e"), ("b", "e"), ("c", "e")}
    assert set(kb.facts("far")) == {("b",), ("c",), ("d",), ("e",)}
    assert set(kb.explicit("path")) == {("d", "e")}
    kb.update(delete={"path": [("d", "e")]}, add={"edge": [("d", "a")]})
    assert len(kb.facts("path")) == 16
    change = kb.remove_rules("path(A, C) :- path(A, B), path(B, C).")
    assert set(kb.facts("path")) == {("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")}
    assert set(kb.facts("far")) == {("b",)}


@every_algorithm
def test_a_refused_rule_leaves_everything_as_it_was(maintenance: str) -> None:
    kb = KnowledgeBase("p(X) :- q(X), not r(X).", maintenance=maintenance)
    kb.update(add={"q": [("a",)]})
    before, rules = materialisation(kb), kb.rules
    with pytest.raises(StratificationError, match="r"):
        kb.update(add={"q": [("b",)]}, add_rules="r(X) :- p(X).")
    assert materialisation(kb) == before
    assert kb.rules == rules
    assert kb.update(add={"q": [("b",)]}).added["p"] == {("b",)}


@every_algorithm
def test_random_rule_updates(maintenance: str) -> None:
    for seed in range(500, 515):
        case, stream = soak(seed, EVERYTHING, length=4)
        check_stream(case.state, stream, maintenance)


def test_a_cross_product_is_told() -> None:
    with pytest.warns(UserWarning, match="no variable in common"):
        KnowledgeBase("pair(X, Y) :- p(X), q(Y).")


def test_a_join_through_others_is_no_cross_product(recwarn: pytest.WarningsRecorder) -> None:
    KnowledgeBase("r(X, Z) :- p(X), q(Y, Z), s(X, Y). t(X) :- p(X), q(X + 1, _). u(X) :- flag(), p(X).")
    assert not recwarn.list


def test_only_plain_numerals_are_read_as_numbers() -> None:
    kb = KnowledgeBase("n(T, N) :- text(T), N = int(T). f(T, N) :- text(T), N = float(T).")
    texts = ["12", "-7", "+3", "1_000", " 5", "٣", "1.5", ".5", "1e3", "nan", "inf", ""]
    kb.update(add={"text": [(text,) for text in texts]})
    assert set(kb.facts("n")) == {("12", 12), ("-7", -7), ("+3", 3)}
    read = {("12", 12.0), ("-7", -7.0), ("+3", 3.0), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0)}
    assert set(kb.facts("f")) == read
