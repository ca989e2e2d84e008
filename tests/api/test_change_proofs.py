"""`change.explain`: why a fact came or went, with proofs that the oracle accepts in the state that they are about."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import pytest

from engine_util import ALGORITHMS, facts_of, knowledge_base
from generate import EVERYTHING, Case, Features, soak
from naive import Fact, State
from proof_util import Checker, fact_of, text_of
from tidelog import ArityError, KnowledgeBase, TidelogError
from tidelog.engine.update import deltas
from tidelog.explain.change_proof import ChangeProof
from tidelog.facts.results import Change

CLOSURE = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z)."


def explained(change: Change, fact: str) -> ChangeProof:
    found = change.explain(fact)
    assert found is not None
    return found


# Against the oracle


def changed(change: Change) -> Iterable[tuple[bool, Fact]]:
    for came, half in ((True, change.added), (False, change.removed)):
        yield from (
            (came, (name, row)) for name, rows in sorted(facts_of(half).items()) for row in sorted(rows, key=str)
        )


def check_explained(change: Change, before: State, after: State, most: int = 6) -> None:
    """Explain some of the facts that came and went."""
    for came, fact in list(changed(change))[:: max(1, len(list(changed(change))) // most)]:
        proof = explained(change, text_of(fact))
        assert (proof.came, fact_of(proof.fact)) == (came, fact)
        Checker(Case(after if came else before, (), ())).check(proof.proof, fact)
        here, there = (after, before) if came else (before, after)
        other = there.materialise()
        for step in proof.proof.steps():
            name, row = fact_of(step.fact)
            assert (step.fact in proof.facts) == (row not in other.get(name, set())), step.fact
            if step.rule is not None:
                assert (step.rule in proof.rules) == (step.rule not in map(str, there.rules)), step.rule
        assert set(proof.leaves) <= set(proof.facts)
        assert here is not there
        assert bool(proof.why_not) is not came
        assert str(proof).count("← new" if came else "← gone") >= 1


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_random_updates_are_explained(maintenance: str) -> None:
    for seed in range(5):
        case, stream = soak(seed, EVERYTHING)
        kb, state = knowledge_base(case.state, maintenance, modules=seed % 2 == 0), case.state
        for update in stream:
            after = state.apply(update)
            check_explained(kb.what_if(**update.mapping()), state, after, most=3)  # type: ignore[arg-type]
            check_explained(kb.update(**update.mapping()), state, after)  # type: ignore[arg-type]
            state = after


def test_streams_are_explained() -> None:
    for seed in range(40, 44):
        case, stream = soak(seed, Features(functions=False))
        kb, state = knowledge_base(case.state, "auto"), case.state
        updates = [update.mapping() for update in stream]
        for update, change in zip(stream, kb.stream(updates), strict=True):  # type: ignore[arg-type]
            after = state.apply(update)
            check_explained(change, state, after)
            state = after


# What is said


def test_a_fact_that_came() -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). edge(a, b).")
    proof = explained(kb.update(add={"edge": [("b", "c")]}), "path(a, c)")
    assert (proof.fact, proof.came, proof.leaves, proof.rules, proof.why_not) == (
        *("path(a, c)", True),
        *(("edge(b, c)",), (), ""),
    )
    assert str(proof).splitlines() == [
        "path(a, c)  by path(X, Z) :- edge(X, Y), path(Y, Z).  ← new",
        "├── edge(a, b)  explicit",
        "└── path(b, c)  by path(X, Y) :- edge(X, Y).  ← new",
        "    └── edge(b, c)  explicit  ← new",
    ]
    assert "← new" in proof._repr_html_()
    assert "← new" in proof.__rich__().plain


def test_a_fact_that_went() -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). edge(a, b). edge(b, c).")
    proof = explained(kb.update(delete={"edge": [("b", "c")]}), "path(a, c)")
    assert (proof.came, proof.leaves) == (False, ("edge(b, c)",))
    assert proof.facts == ("path(a, c)", "path(b, c)", "edge(b, c)")
    assert str(proof).endswith("\n\n" + kb.why_not("path(a, c)"))


def test_rules_that_came_and_went() -> None:
    kb = KnowledgeBase("p(X) :- q(X). q(a). r(b).")
    change = kb.update(add_rules="p(X) :- r(X).", remove_rules="p(X) :- q(X).")
    assert str(change.explain("p(b)")).startswith("p(b)  by p(X) :- r(X).  ← new, by a new rule\n")
    went = explained(change, "p(a)")
    assert (went.rules, went.leaves) == (("p(X) :- q(X).",), ())
    assert str(went).startswith("p(a)  by p(X) :- q(X).  ← gone, with its rule\n")


def test_negation_on_both_sides() -> None:
    kb = KnowledgeBase("free(X) :- room(X), not taken(X, _). room(1). room(2). taken(1, ada).")
    change = kb.update(add={"taken": [(2, "bob")]}, delete={"taken": [(1, "ada")]})
    came, went = explained(change, "free(1)"), explained(change, "free(2)")
    assert came.negations == ("no fact matches taken(1, _)",)
    assert went.negations == ("no fact matches taken(2, _)",)
    assert "└── no fact matches taken(1, _)  ← new" in str(came)


def test_a_deleted_fact_that_was_only_derived_is_no_leaf() -> None:
    kb = KnowledgeBase("p(X) :- q(X). q(a).")
    proof = explained(kb.update(delete={"p": [("a",)], "q": [("a",)]}), "p(a)")
    assert (proof.proof.rule, proof.leaves) == ("p(X) :- q(X).", ("q(a)",))


def test_a_closure_that_begins_with_the_update() -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(a, b). path(b, c). edge(x, y).")
    change = kb.update(
        add_rules="path(X, Z) :- path(X, Y), path(Y, Z).",
        add={"path": [("c", "d"), ("a", "b")]},
        delete={"path": [("b", "c"), ("x", "y")]},
    )
    assert kb._engine.store.is_closure("path")
    assert explained(change, "path(b, c)").proof.rule is None
    assert explained(change, "path(c, d)").leaves == ("path(c, d)",)
    assert change.explain("path(a, b)") is None
    change = kb.update(remove_rules="path(X, Z) :- path(X, Y), path(Y, Z).", delete={"path": [("a", "b")]})
    assert explained(change, "path(a, b)").leaves == ("path(a, b)",)


def test_large_closures() -> None:
    kb = KnowledgeBase(CLOSURE)
    kb.update(add={"edge": [(number, number + 1) for number in range(150)]})
    proof = explained(kb.update(delete={"edge": [(75, 76)]}), "path(0, 150)")
    assert proof.leaves == ("edge(75, 76)",)
    assert proof.proof.height == 9
    assert "path(0, 150)" not in kb


def test_names_with_prefixes_that_were_only_asked_about() -> None:
    kb = KnowledgeBase("q(a).")
    change = kb.what_if(add_rules="@prefix ex: <http://example.org/> . ex:p(X) :- q(X).")
    assert explained(change, "ex:p(a)").rules == ("ex:p(X) :- q(X).",)
    assert not kb.prefixes


# When it can be asked


def test_what_neither_came_nor_went() -> None:
    kb = KnowledgeBase("p(X) :- q(X). q(a).")
    change = kb.update(add={"q": [("b",)]})
    assert [change.explain(fact) for fact in ("p(a)", "p(c)", "nothing(1)")] == [None] * 3
    with pytest.raises(ArityError):
        change.explain("p(b, b)")
    with pytest.raises(TidelogError, match="is no fact"):
        change.explain("p(X)")


def test_after_a_later_update() -> None:
    kb = KnowledgeBase("p(X) :- q(X).")
    asked, change = kb.what_if(add={"q": [(2,)]}), kb.update(add={"q": [(1,)]})
    with pytest.raises(TidelogError, match="updated since"):
        asked.explain("p(2)")
    kb.what_if(add={"q": [(2,)]})
    with pytest.raises(TidelogError):
        kb.update(add={"q": [(1, 2)]})
    assert explained(change, "p(1)").came
    kb.update(add={"q": [(2,)]})
    with pytest.raises(TidelogError, match="updated since"):
        change.explain("p(1)")


def test_terms_that_were_given_back() -> None:
    kb = KnowledgeBase("p(X) :- q(X).")
    kb.update(add={"q": [(f"{number}",) for number in range(90_000)]})
    change = kb.update(delete={"q": [(f"{number}",) for number in range(90_000)]})
    before = kb._engine.store.terms.table
    kb.query("q(X)")
    kb.what_if(add={"q": [(f"new {number}",) for number in range(90_000)]})
    assert kb._engine.store.terms.table is not before
    assert explained(change, 'p("77")').leaves == ('q("77")',)


def test_too_many_facts_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.engine.transaction.task.MOST_KEPT", 2)
    kb = KnowledgeBase("p(X) :- q(X). q(1). q(2). q(3).")
    assert explained(kb.what_if(delete={"q": [(1,), (2,), (3,)]}), "p(1)").leaves == ("q(1)",)
    change = kb.update(delete={"q": [(1,), (2,), (3,)]})
    with pytest.raises(TidelogError, match=f"more than {deltas.MOST_KEPT:,} explicit facts of `q`.*`what_if`"):
        change.explain("p(1)")
    assert explained(kb.update(add={"q": [(4,), (5,), (6,)]}), "p(4)").leaves == ("q(4)",)


def test_live_settled_at_once_and_in_several_updates() -> None:
    kb = KnowledgeBase(CLOSURE)
    live = kb.live()
    live.submit(add={"edge": [(1, 2), (2, 3)]})
    assert explained(live.settle(), "path(1, 3)").leaves == ("edge(1, 2)", "edge(2, 3)")
    live.submit(add={"edge": [(3, 4)]})
    live.submit(add_rules="end(X) :- path(_, X), not edge(X, _).")
    live.submit(delete={"edge": [(1, 2)]})
    change = live.settle()
    assert explained(change, "path(2, 4)").leaves == ("edge(3, 4)",)
    assert explained(change, "end(4)").rules == ("end(X) :- path(_, X), not edge(X, _).",)
    with pytest.raises(TidelogError, match="several updates"):
        change.explain("path(1, 3)")


WINDOWS = """
@expire edge 10 s.  @expire seen(_, T) 10 s by T.
young(X) :- edge(X, Y) in last 4 s.
calm(X) :- n(X), not edge(X, _) in last 4 s.
fresh(X) :- seen(X, T) in last 4 s by T.
n("in last 4 s").
"""
EDGE, SEEN = 'edge("in last 4 s", b) in last 4 s', 'seen("in last 4 s", 0.5) in last 4 s by 0.5'
NO_EDGE = 'edge("in last 4 s", _) in last 4 s'


def check_windows(change: Change, came: bool) -> None:
    """Something came into the windows, or left them."""
    young, calm, fresh = (explained(change, f'{name}("in last 4 s")') for name in ("young", "calm", "fresh"))
    assert (young.came, calm.came, fresh.came) == (came, not came, came)
    assert (young.leaves, fresh.leaves) == ((EDGE,), (SEEN,))
    assert (calm.leaves, calm.negations) == ((), (f"no fact matches {NO_EDGE}",))


def test_windows_are_explained() -> None:
    kb = KnowledgeBase(WINDOWS)
    rows = {"edge": [("in last 4 s", "b")], "seen": [("in last 4 s", 0.5)]}
    check_windows(kb.what_if(add=rows, at=1), True)
    check_windows(kb.update(add=rows, at=1), True)
    check_windows(kb.advance(6), False)


def test_a_change_keeps_no_knowledge_base() -> None:
    kb = KnowledgeBase("p(X) :- q(X).")
    change = kb.update(add={"q": [(1,)]})
    knowledge = weakref.ref(kb._knowledge)
    del kb
    gc.collect()
    assert knowledge() is None
    with pytest.raises(TidelogError, match="is gone"):
        change.explain("p(1)")
    with pytest.raises(TidelogError, match="does not know the update"):
        Change().explain("p(1)")
