"""Proofs of the pairs of several predicates that are one closure: sound, lowest, and found from what each is given."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof_util import Pairs, check_as_large, facts_below, few
from tidelog import KnowledgeBase
from tidelog.explain import backwards
from tidelog.explain import cone_registers as E
from tidelog.explain.closure_rules import closed_predicate
from tidelog.explain.search import Cone

SKOS = """
broader_t(X, Z) :- broader_t(X, Y), broader_t(Y, Z).
narrower_t(X, Z) :- narrower_t(X, Y), narrower_t(Y, Z).
broader_t(X, Y) :- narrower_t(Y, X).
narrower_t(X, Y) :- broader_t(Y, X).
broader_t(X, Y) :- broader(X, Y).
narrower_t(X, Y) :- narrower(X, Y).
narrower(X, Y) :- broader(Y, X).
"""
# Which predicate copies which: both ways along a line, and around a cycle.
COPIES = [
    [("p", "q"), ("q", "p")],
    [("p", "q"), ("q", "p"), ("q", "r"), ("r", "q")],
    [("p", "q"), ("q", "r"), ("r", "p")],
    [("p", "q"), ("q", "r"), ("r", "s"), ("s", "p"), ("p", "s")],
]
FEEDS = [
    "{0}(X, Y) :- edge(X, Y).",
    "{0}(X, Y) :- edge(Y, X), not few(X).",
    # Derived pairs of several heights, and pairs of another closure.
    "{0}(X, Y) :- far(X, Y, 0). far(X, Y, N - 1) :- far(X, Y, N), N > 0.",
    "{0}(X, Y) :- way(X, Y). way(X, Z) :- way(X, Y), way(Y, Z). way(X, Y) :- edge(X, Y), few(X).",
]
MIXING = [
    "p(X, Z) :- q(X, Y), p(Y, Z).",
    "p(X, Z) :- q(Y, X), p(Y, Z).",
    "p(X, Z) :- p(X, Y), p(Y, Z), X != Z.",
    "p(X, Y) :- q(X, Y), X != Y.",
    "p(X, Y) :- q(Y, X), X != Y.",
    "p(X, Y) :- p(Y, X).",
    "p(X, Y) :- p(X, Y).",
]
pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5)
depths = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), max_size=3)


@st.composite
def twins(draw: st.DrawFn) -> str:
    """Rules of twins, each of which is a relation or the same one turned round, some with a transitive rule."""
    copies = draw(st.sampled_from(COPIES))
    names = sorted({name for copy in copies for name in copy})
    turned = {name: draw(st.booleans()) for name in names}
    compares = draw(st.sampled_from(["", ", X != Z"]))
    rules = [f"{to}(X, Y) :- {name}({'X, Y' if turned[name] == turned[to] else 'Y, X'})." for to, name in copies]
    for name in draw(st.sets(st.sampled_from(names), min_size=1)):
        rules.append(f"{name}(X, Z) :- {name}(X, Y), {name}(Y, Z){compares}.")
    feeds = draw(st.lists(st.tuples(st.sampled_from(FEEDS), st.sampled_from(names)), max_size=3))
    rules += [feed.format(name) for feed, name in feeds]
    return "\n".join((*draw(st.permutations(rules)), "joined(X, Y) :- p(X, Y), q(X, Y)."))


@st.composite
def facts(draw: st.DrawFn) -> dict[str, set[tuple[int, ...]]]:
    given_facts: dict[str, set[tuple[int, ...]]] = {name: set(draw(pairs)) for name in ("edge", "p", "q", "r", "s")}
    return {**given_facts, "far": set(draw(depths)), "few": {(0,), (2,)}}


def is_explained_from_bases(rules: str) -> bool:
    kb = KnowledgeBase(rules)
    kb.update(add={"p": [(0, 1)]})
    return kb._knowledge.proving.explainer()._backwards.large_closure("p") is not None


@given(twins(), facts())
@settings(few, max_examples=25)
def test_proofs_of_large_twins_are_sound_and_lowest(rules: str, given_facts: dict[str, set[tuple[int, ...]]]) -> None:
    check_as_large(rules, given_facts, most=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backwards, "SEARCHED_PAIRS", 0)
        assert is_explained_from_bases(rules)


@given(twins(), st.sampled_from(MIXING), facts())
@settings(few, max_examples=15)
def test_proofs_of_twins_with_rules_of_other_forms_are_lowest(
    rules: str, mixing: str, given_facts: dict[str, set[tuple[int, ...]]]
) -> None:
    check_as_large(f"{rules}\n{mixing}", given_facts)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("p(X, Z) :- p(X, Y), p(Y, Z).", True),
        ("p(X, Z) :- p(X, Y), p(Y, Z). q(X, Z) :- q(Y, Z), q(X, Y).", True),
        ("p(X, Z) :- p(X, Y), p(Y, Z). q(X, Z) :- q(X, Y), q(Y, Z), X != Z.", False),
        ("p(X, Z) :- q(Y, X), p(Y, Z).", False),
        ("p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- q(Y, X), X != Y.", False),
        ("p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- p(Y, X).", False),
    ],
)
def test_twins_are_explained_from_their_bases_where_copies_can_go_first(
    rules: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 0)
    assert is_explained_from_bases(rules + " p(X, Y) :- q(Y, X). q(X, Y) :- p(Y, X).") is expected


@pytest.mark.parametrize(
    ("name", "predicate"),
    [("#base p1", "p1"), ("#base p 4 12", "p"), ("#base <a 3> 4", "<a 3>"), ("#groups 3", "#groups 3"), ("p", "p")],
)
def test_bases_go_by_the_names_of_their_predicates(name: str, predicate: str) -> None:
    assert closed_predicate(name) == predicate


def test_what_follows_from_itself_turns_nothing_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 0)
    # There would be a shorter way from 0 to 9 if pairs could be turned round.
    kb = KnowledgeBase("near(X, Y) :- near(X, Y). near(X, Z) :- near(X, Y), near(Y, Z).")
    kb.update(add={"near": [*pairwise(range(10)), (0, 20), (21, 20), (21, 9)]})
    for proof in kb.proofs("near(0, 9)", limit=3):
        assert {step.fact for step in proof.steps() if step.rule is None} == {
            f"near({start}, {end})" for start, end in pairwise(range(10))
        }


def test_copies_are_made_where_the_proof_stays_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 0)
    kb = KnowledgeBase(SKOS)
    kb.update(add={"broader": pairwise(range(4)), "broader_t": [(3, 4)], "narrower_t": [(9, 4)]})
    assert str(kb.explain("narrower_t(9, 3)")) == (
        "narrower_t(9, 3)  by narrower_t(X, Z) :- narrower_t(X, Y), narrower_t(Y, Z).\n"
        "├── narrower_t(9, 4)  explicit\n"
        "└── narrower_t(4, 3)  by narrower_t(X, Y) :- broader_t(Y, X).\n"
        "    └── broader_t(3, 4)  explicit"
    )
    assert str(kb.explain("broader_t(2, 4)")) == (
        "broader_t(2, 4)  by broader_t(X, Z) :- broader_t(X, Y), broader_t(Y, Z).\n"
        "├── broader_t(2, 3)  by broader_t(X, Y) :- broader(X, Y).\n"
        "│   └── broader(2, 3)  explicit\n"
        "└── broader_t(3, 4)  explicit"
    )


def test_proofs_follow_twins_that_are_joined_and_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 0)
    kb = KnowledgeBase("p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- edge(X, Y).")
    kb.update(add={"edge": [(0, 1)], "p": [(1, 2)], "q": [(3, 2)]})
    copies = "p(X, Y) :- q(Y, X). q(X, Y) :- p(Y, X)."
    for _ in range(2):
        assert kb.explain("p(0, 2)").height == 2
        assert kb.explain("p(0, 3)") is None
        kb.add_rules(copies)
        assert (kb.explain("p(0, 2)").height, kb.explain("p(0, 3)").height, kb.explain("q(3, 0)").height) == (2, 3, 4)
        assert [proof.height for proof in kb.proofs("q(3, 0)")] == [4, 4]
        kb.remove_rules(copies)


@pytest.mark.parametrize("transitive", ["broader_t narrower_t", "broader_t", "narrower_t"])
def test_little_of_a_large_closure_of_twins_is_looked_at(transitive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    length = 200
    edges: Pairs = {*pairwise(range(length + 1)), *((number, number + 9) for number in range(0, length - 9, 20))}
    rules = [rule for rule in SKOS.strip().splitlines() if ", Z)." not in rule]
    rules += [f"{name}(X, Z) :- {name}(X, Y), {name}(Y, Z)." for name in transitive.split()]
    kb = KnowledgeBase("\n".join(rules))
    kb.update(add={"broader": edges})
    assert len(kb.facts("broader_t")) > max(backwards.SEARCHED_PAIRS, 50 * len(edges))
    cones: list[Cone] = []
    begin = Cone.__init__

    def noted(cone: Cone, *arguments: object) -> None:
        cones.append(cone)
        begin(cone, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Cone, "__init__", noted)
    for fact in (f"broader_t(0, {length})", f"narrower_t({length}, 0)"):
        proof = kb.explain(fact)
        facts_below(proof, {})
        assert {step.fact for step in proof.steps() if step.rule is None} <= {f"broader{edge}" for edge in edges}
        assert len(list(kb.proofs(fact, limit=3))) == 3
    # Each predicate has some nodes for each pair that it is given: for each of two facts, once to measure heights, once
    # to write the proof, and twice for the others.
    assert sum(cone._registers[E.NODE_COUNT] for cone in cones) < 40 * len(edges)
