"""Traces of the papers' procedures: what they refuse, strata, rule changes, and streams after a failure."""

from __future__ import annotations

import pytest

from tidelog import KnowledgeBase, TidelogError


def test_only_the_papers_procedures_can_be_traced() -> None:
    with pytest.raises(TidelogError, match="'paper' or None"):
        KnowledgeBase(trace="steps", maintenance="dred")
    with pytest.raises(TidelogError, match="`dred` and `backward-forward`, and has none for `auto`"):
        KnowledgeBase(trace="paper")


def test_aggregates_are_refused_and_nothing_is_changed() -> None:
    kb = KnowledgeBase("q(X) :- p(X). p(1).", maintenance="dred", trace="paper")
    with pytest.raises(TidelogError, match="no aggregates"):
        kb.add_rules("n(count(X)) :- q(X).")
    assert kb.rules == ["q(X) :- p(X)."]
    assert "q(1)" in kb
    assert "n(1)" not in kb
    assert kb.update(delete={"p": [(1,)]}).removed == {"p": {(1,)}, "q": {(1,)}}


def test_a_change_has_no_trace_unless_one_is_wanted() -> None:
    assert KnowledgeBase("q(X) :- p(X).").update(add={"p": [(1,)]}).trace is None


def test_a_negated_atom_is_a_fact_of_the_stratum_above() -> None:
    kb = KnowledgeBase("s(X) :- a(X), not b(X, _). a(1). a(2).", maintenance="backward-forward", trace="paper")
    trace = kb.update(add={"b": [(1, 5)]}).trace
    assert trace is not None
    assert [str(fact) for fact in trace.sets["D"]] == ["not b(1, _)", "s(1)"]
    trace = kb.update(delete={"b": [(1, 5)]}).trace
    assert trace is not None
    assert [str(each.instance) for each in trace.applications] == ["s(1) ← a(1) ∧ not b(1, _)"]


def test_a_rule_that_goes_is_a_premise_of_its_instances() -> None:
    kb = KnowledgeBase("q(X) :- p(X). q(X) :- r(X). p(1). r(1). p(2).", maintenance="dred", trace="paper")
    trace = kb.remove_rules("q(X) :- p(X).").trace
    assert trace is not None
    assert [str(fact) for fact in trace.sets["D"]] == ["q(X) :- p(X).", "q(1)", "q(2)"]
    assert trace.work["rederivation"] == 1
    assert set(kb.facts("q")) == {(1,)}


def test_constants_of_different_types_are_different_facts() -> None:
    kb = KnowledgeBase("q(X) :- p(X).", maintenance="backward-forward", trace="paper")
    kb.update(add={"p": [(1,), (1.0,), ("1",), (True,)]})
    trace = kb.update(delete={"p": [(1.0,)]}).trace
    assert trace is not None
    assert [str(fact) for fact in trace.sets["D"]] == ["p(1.0)", "q(1.0)"]
