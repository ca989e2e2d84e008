"""Proofs: each step is a real rule instance, leaves are explicit, nothing is circular, and no proof is lower."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate import Case, programs, streams
from naive import Fact, State, Update, database, materialise, proof_heights
from proof_util import Checker, Depths, Pairs, check_as_large, facts_below, few, knowledge_base, some, text_of
from tidelog import KnowledgeBase, StratificationError
from tidelog.explain import backwards
from tidelog.language import parse_program
from tidelog.proofs.failure import LEGEND

CYCLE = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
edge(a, b). edge(b, c). edge(c, a). edge(a, c).
"""

# --- against the oracle ---------------------------------------------------------------------------------------------


@given(programs())
@few
def test_a_proof_of_every_fact_is_sound_and_no_higher_than_needed(case: Case) -> None:
    kb, checker = knowledge_base(case), Checker(case)
    heights = proof_heights(case.state.rules, case.state.explicit)
    for fact in some(heights, 16):
        proof = kb.explain(text_of(fact))
        assert proof is not None
        checker.check(proof, fact)
        assert proof.height == heights[fact]


@given(programs())
@few
def test_all_proofs_are_sound_different_and_in_order(case: Case) -> None:
    kb, checker = knowledge_base(case), Checker(case)
    heights = proof_heights(case.state.rules, case.state.explicit)
    for fact in some(heights, 4):
        found = list(kb.proofs(text_of(fact), limit=6))
        assert found[0].height == heights[fact]
        assert all(left.height <= right.height for left, right in pairwise(found))
        assert len({json.dumps(proof.to_dict()) for proof in found}) == len(found)
        for proof in found:
            checker.check(proof, fact)


@given(streams(length=4))
@settings(few, max_examples=25)
def test_proofs_follow_streams_of_facts_and_rules(case_and_stream: tuple[Case, list[Update]]) -> None:
    case, stream = case_and_stream
    kb, state = knowledge_base(case), case.state
    for update in stream:
        kb.update(**update.mapping())
        state = state.apply(update)
        checker = Checker(replace(case, state=state))
        heights = proof_heights(state.rules, state.explicit)
        for fact in some(heights, 5):
            proof = kb.explain(text_of(fact))
            checker.check(proof, fact)
            assert proof.height == heights[fact]


@given(programs())
@few
def test_what_does_not_hold_has_no_proof_but_a_reason(case: Case) -> None:
    kb, facts = knowledge_base(case), materialise(case.state.rules, case.state.explicit)
    for predicate, row in case.facts:
        if row not in facts.get(predicate, ()):
            assert kb.explain(text_of((predicate, row))) is None
            assert "does not hold" in kb.why_not(text_of((predicate, row)))


CLOSURES = [
    "near(X, Z) :- near(X, Y), near(Y, Z).",
    "near(X, Z) :- near(Y, Z), near(X, Y).",
    "near(X, Z) :- near(X, Y), near(Y, Z), X != Z.",
    "near(X, Z) :- near(X, Y), near(Y, Z). near(X, Y) :- near(Y, X).",
    "near(X, Z) :- near(Y, Z), near(X, Y), X != Z. near(X, Y) :- near(Y, X), X != Y.",
    "near(X, Z) :- near(Y, X), near(Y, Z). near(X, Y) :- near(Y, X).",
    "near(X, Z) :- near(Y, X), near(Y, Z), X != Z. near(X, Y) :- near(Y, X).",
    "near(X, Z) :- near(X, Y), near(Z, Y). near(X, Y) :- near(Y, X).",
]
FEEDS = [
    "near(X, Y) :- edge(X, Y).",
    # Derived pairs of several heights, and pairs of another closure.
    "near(X, Y) :- far(X, Y, 0). far(X, Y, N - 1) :- far(X, Y, N), N > 0.",
    "near(X, Y) :- way(X, Y). way(X, Z) :- way(X, Y), way(Y, Z). way(X, Y) :- edge(X, Y), not far(X, Y, 0).",
]
MIXED = [
    "near(X, Z) :- near(Y, X), near(Z, Y). near(X, Y) :- near(Y, X).",
    "near(X, Z) :- near(X, Y), near(Y, Z), X != Z. near(X, Z) :- near(Y, X), near(Y, Z). near(X, Y) :- near(Y, X).",
]
pairs = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)
depths = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4)), max_size=6)


def check_closure(rules: str, edges: Pairs, far: Depths, given_pairs: Pairs) -> None:
    program = rules + "joined(X, Y) :- near(X, Y), near(Y, X)."
    check_as_large(program, {"edge": edges, "far": far, "near": given_pairs})


@given(st.sampled_from(CLOSURES), st.sampled_from(FEEDS), pairs, depths, pairs)
@settings(few, max_examples=50)
def test_proofs_of_large_closures_are_sound_and_lowest(
    closure: str, feed: str, edges: Pairs, far: Depths, given_pairs: Pairs
) -> None:
    check_closure(closure + feed, edges, far, given_pairs)


@given(st.sampled_from(MIXED), st.sampled_from(FEEDS), pairs, depths, pairs)
@settings(few, max_examples=15)
def test_proofs_of_closures_of_mixed_orientation_are_lowest(
    closure: str, feed: str, edges: Pairs, far: Depths, given_pairs: Pairs
) -> None:
    check_closure(closure + feed, edges, far, given_pairs)


@pytest.mark.parametrize("symmetric", [False, True])
def test_long_paths_of_large_closures_are_halved(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 100)
    rules = "near(X, Y) :- edge(X, Y). near(X, Z) :- near(X, Y), near(Y, Z)."
    kb = KnowledgeBase(rules + ("near(X, Y) :- near(Y, X)." if symmetric else ""))
    kb.update(add={"edge": [(number, number + 1) for number in range(20)] + [(0, 14)]})
    assert len(kb.facts("near")) > 100
    proof = kb.explain("near(0, 17)")
    assert proof.height == 3
    assert {step.fact for step in proof.steps() if step.rule is None} == {
        "edge(0, 14)",
        "edge(14, 15)",
        "edge(15, 16)",
        "edge(16, 17)",
    }
    if symmetric:
        back = kb.explain("near(17, 0)")
        assert back.height == 4
        assert sum(step.rule is None for step in back.steps()) == 4
        assert "near(X, Y) :- near(Y, X)." in {step.rule for step in back.steps()}


@pytest.mark.parametrize("symmetric", [False, True])
def test_no_proof_of_a_large_closure_is_circular(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "SEARCHED_PAIRS", 100)
    rules = "near(X, Y) :- edge(X, Y). near(X, Z) :- near(X, Y), near(Y, Z)."
    kb = KnowledgeBase(rules + ("near(X, Y) :- near(Y, X)." if symmetric else ""))
    source = random.Random(1)
    kb.update(add={"edge": [(source.randrange(30), source.randrange(30)) for _ in range(60)]})
    rows = sorted(kb.facts("near"))
    assert len(rows) > 100
    for start, end in source.sample(rows, 60):
        for proof in kb.proofs(f"near({start}, {end})", limit=5):
            facts_below(proof, {})


def count_proofs(goal: Fact, checker: Checker) -> int:
    """By definition: the ways to choose, for the goal and all that is used, how it is derived, without cycles."""
    count = 0
    waiting: list[dict[Fact, frozenset[Fact]]] = [{}]
    while waiting:
        chosen = waiting.pop()
        used = {goal, *(premise for premises in chosen.values() for premise in premises)}
        missing = min(used - chosen.keys(), default=None, key=text_of)
        if missing is None:
            count += is_well_founded(chosen)
            continue
        if missing in checker.explicit:
            waiting.append({**chosen, missing: frozenset()})
        waiting += [{**chosen, missing: premises} for _, head, premises in checker.instances if head == missing]
    return count


def is_well_founded(chosen: dict[Fact, frozenset[Fact]]) -> bool:
    proved: set[Fact] = set()
    while new := {fact for fact, premises in chosen.items() if premises <= proved} - proved:
        proved |= new
    return len(proved) == len(chosen)


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=4), st.booleans())
@settings(few, max_examples=15)
def test_there_are_exactly_as_many_proofs_as_by_definition(edges: Pairs, modules: bool) -> None:
    program = parse_program("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z).")
    case = Case(State(program.rules, database({"edge": edges, "path": [(0, 1)]})), (), ())
    kb, checker = knowledge_base(case, modules), Checker(case)
    for row in checker.facts["path"]:
        expected = count_proofs(("path", row), checker)
        assert len(list(kb.proofs(text_of(("path", row)), limit=expected + 1))) == expected


def test_all_proofs_are_counted() -> None:
    # Two ways from a to b, three from b to c: six proofs, and none that goes round the loop at b.
    kb = KnowledgeBase(
        """
        one(X, Y) :- p(X, Y). one(X, Y) :- q(X, Y).
        two(X, Y) :- one(X, Y). two(X, Y) :- r(X, Y).
        both(X, Z) :- one(X, Y), two(Y, Z), loop(Y).
        loop(X) :- loop(X), at(X). loop(X) :- at(X).
        p(a, b). q(a, b). p(b, c). q(b, c). r(b, c). at(b).
        """
    )
    found = list(kb.proofs("both(a, c)", limit=100))
    assert len(found) == 6
    assert [proof.height for proof in found] == [2, 2, 3, 3, 3, 3]


def test_a_fact_both_explicit_and_derived_has_both_proofs() -> None:
    kb = KnowledgeBase("p(X) :- q(X). q(a). p(a).")
    assert [proof.rule for proof in kb.proofs("p(a)")] == [None, "p(X) :- q(X)."]
    assert kb.explain("p(a)").rule is None
    assert list(kb.proofs("p(a)", limit=0)) == []


# --- what proofs say ------------------------------------------------------------------------------------------------


def explained(program: str, fact: str) -> str:
    return str(KnowledgeBase(program).explain(fact))


def test_a_proof_is_drawn_as_a_tree() -> None:
    assert explained(CYCLE, "path(b, a)") == (
        "path(b, a)  by path(X, Z) :- edge(X, Y), path(Y, Z).\n"
        "├── edge(b, c)  explicit\n"
        "└── path(c, a)  by path(X, Y) :- edge(X, Y).\n"
        "    └── edge(c, a)  explicit"
    )


def test_a_proof_goes_through_negation() -> None:
    drawn = explained("alone(X) :- node(X), not edge(X, _), not edge(_, X). node(a). edge(b, b).", "alone(a)")
    assert drawn.splitlines()[1:] == [
        "├── node(a)  explicit",
        "├── no fact matches edge(a, _)",
        "└── no fact matches edge(_, a)",
    ]


def test_a_proof_shows_arithmetic_with_its_values() -> None:
    program = "hot(X, D) :- temp(X, T), median(X, M), D = abs(T - M), D * 2 > 5. temp(t, 9). median(t, 3)."
    assert explained(program, "hot(t, 6)").splitlines()[3:] == ["├── D = abs(9 - 3) = 6", "└── 6 * 2 > 5"]
    assert explained("next(X + 1) :- n(X). n(2).", "next(3)").splitlines()[-1] == "└── 2 + 1 = 3"
    assert explained("p(X) :- n(X), m(X + 1). n(2). m(3).", "p(2)").splitlines()[-1] == "└── 2 + 1 = 3"


def test_a_proof_shows_what_went_into_an_aggregate() -> None:
    program = "total(X, sum(N), count(N)) :- pays(X, Y, N). pays(a, b, 3). pays(a, c, 3). pays(z, c, 9)."
    proof = KnowledgeBase(program).explain("total(a, 6, 2)")
    assert {premise.fact for premise in proof.premises} == {"pays(a, b, 3)", "pays(a, c, 3)"}
    assert proof.conditions == ["sum(N) = 6 from 2 matches: N = 3, 3", "count(N) = 2 from 2 matches: N = 3, 3"]


def test_an_aggregate_does_not_prove_an_explicit_fact_with_another_value() -> None:
    kb = KnowledgeBase("degree(X, count(Y)) :- edge(X, Y). edge(a, b). degree(a, 7).")
    assert [proof.rule for proof in kb.proofs("degree(a, 7)")] == [None]


def test_what_is_used_twice_is_proved_once() -> None:
    program = "q(X) :- e(X). r(X) :- q(X). s(X) :- q(X), r(X). e(a)."
    assert explained(program, "s(a)").splitlines()[-1] == "    └── q(a)  see above"
    proof = KnowledgeBase(program).explain("s(a)")
    assert proof.premises[0] is proof.premises[1].premises[0]


def test_many_facts_are_not_all_drawn() -> None:
    kb = KnowledgeBase("n(count(X)) :- p(X).")
    kb.update(add={"p": [(number,) for number in range(1000)]})
    proof = kb.explain("n(1000)")
    assert len(proof.premises) == 1000
    assert len(str(proof).splitlines()) < 40
    assert "976 more facts" in str(proof)


def test_prefixes_are_used() -> None:
    kb = KnowledgeBase("@prefix ex: <http://e.org/> . ex:B(X) :- ex:A(X). ex:A(ex:it).")
    proof = kb.explain("<http://e.org/B>(ex:it)")
    assert (proof.fact, proof.rule) == ("ex:B(ex:it)", "ex:B(X) :- ex:A(X).")


def test_functions_of_python_are_part_of_proofs() -> None:
    kb = KnowledgeBase()
    kb.register("double", lambda number: 2 * number)
    kb.update(add={"n": [(4,)]}, add_rules="twice(X, Y) :- n(X), Y = double(X).")
    assert kb.explain("twice(4, 8)").conditions == ["Y = double(4) = 8"]


def test_proofs_follow_updates() -> None:
    kb = KnowledgeBase(CYCLE, modules=False)
    assert kb.explain("path(a, c)").height == 1
    kb.update(delete={"edge": [("a", "c")]})
    assert kb.explain("path(a, c)").height == 2
    kb.remove_rules("path(X, Z) :- edge(X, Y), path(Y, Z).")
    assert kb.explain("path(a, c)") is None
    kb.add_rules("path(X, X) :- edge(X, _).")
    assert kb.explain("path(a, a)").rule == "path(X, X) :- edge(X, _)."
    assert len(kb) == len(list(kb.facts("edge"))) + len(list(kb.facts("path")))


def test_proofs_survive_failed_updates_and_the_disk(tmp_path: Path) -> None:
    kb = KnowledgeBase("p(X) :- q(X), not r(X). q(a). q(b).")
    assert kb.explain("p(a)").height == 1
    with pytest.raises(StratificationError):
        kb.update(add={"new": [(1,)]}, add_rules="s(X) :- q(X). r(X) :- p(X).")
    kb.update(add={"t": [("b",)]}, add_rules="s(X) :- p(X), t(X).")
    assert str(kb.explain("s(b)")).splitlines()[1].startswith("├── p(b)  by p(X) :- q(X)")
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    assert str(again.explain("s(b)")) == str(kb.explain("s(b)"))
    assert len(again) == len(kb)


# --- size -----------------------------------------------------------------------------------------------------------


def chain(length: int) -> KnowledgeBase:
    kb = KnowledgeBase("reached(Y) :- reached(X), edge(X, Y). reached(0).")
    kb.update(add={"edge": [(number, number + 1) for number in range(length)]})
    return kb


def test_a_long_chain_is_proved_drawn_and_written() -> None:
    length = 3000
    proof = chain(length).explain(f"reached({length})")
    assert proof.height == length
    drawn = str(proof).splitlines()
    assert sum(line.rstrip().endswith("explicit") for line in drawn) == length + 1
    assert max(map(len, drawn)) < 200
    assert len(json.loads(json.dumps(proof.to_dict()))["steps"]) == 2 * length + 1
    assert proof._repr_html_().count("\n") < 500


def test_references_to_parts_further_down_lead_somewhere() -> None:
    drawn = str(chain(100).explain("reached(100)"))
    for number in range(1, 5):
        assert f"see [{number}] below" in drawn
        assert f"\n[{number}] reached(" in drawn


# --- in notebooks and terminals -------------------------------------------------------------------------------------


def test_html_is_escaped() -> None:
    kb = KnowledgeBase('p(X) :- q(X). q("<script>&").')
    html = kb.explain('p("<script>&")')._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;&amp;" in html


def test_rich_prints_the_same_text() -> None:
    from rich.console import Console

    proof = KnowledgeBase(CYCLE).explain("path(b, a)")
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(proof)
    assert captured.get().rstrip("\n") == str(proof)
    assert repr(proof) == "<Proof of path(b, a): height 2>"


# --- why not --------------------------------------------------------------------------------------------------------


REASONS = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
degree(X, count(Y)) :- edge(X, Y).
big(X) :- degree(X, N), N > 5.
lone(X) :- node(X), not edge(X, _).
one(X, 1) :- node(X).
next(X, N + 1) :- degree(X, N).
half(X, Y) :- degree(X, N), Y = 1 / (N - 2).
edge(a, b). edge(a, c). node(a).
"""


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ("edge(c, a)", "edge(c, a) does not hold: it is not explicit, and there is no rule for `edge`."),
        ("pth(a, b)", "did you mean `path`?"),
        ("wholly_unheard_of", "`wholly_unheard_of` is used but never given or derived"),
        ("one(a, 2)", "no rule for `one` has a head that fits."),
        ("path(a, a)", "    ✗ edge(a, a)  no fact matches"),
        ("big(a)", "    ✓ degree(a, 2)\n    ✗ 2 > 5  is not so"),
        ("lone(a)", "    ✗ not edge(a, _)  but edge(a, b) holds"),
        ("degree(a, 5)", "    ✗ its group gives degree(a, 2)"),
        ("next(a, 9)", "    ✗ 2 + 1 = 9  is not so"),
        ("half(a, 1)", "    ✗ Y = 1 / (2 - 2) = 1  is not so"),
        ("path(a, b)", "path(a, b) holds; `explain` proves it."),
    ],
)
def test_a_fact_that_does_not_hold_gets_a_reason(fact: str, reason: str) -> None:
    assert reason in KnowledgeBase(REASONS).why_not(fact)


def test_questions_leave_no_plans_behind() -> None:
    kb = KnowledgeBase(REASONS)
    code = kb._engine.store.code
    used = []
    for _ in range(3):
        kb.why_not("path(a, a)")
        kb.explain("path(a, b)")
        kb.query("path(X, Y), not edge(Y, X)")
        used.append(code.size)
    assert used[1] == used[2]


def test_the_closest_rule_is_shown_with_what_it_found() -> None:
    kb = KnowledgeBase("p(X) :- a(X), b(X), c(X). p(X) :- z(X). a(1). b(1).")
    assert kb.why_not("p(1)") == (
        "p(1) does not hold. The rule that came closest:\n"
        "  p(X) :- a(X), b(X), c(X).\n"
        "    ✓ a(1)\n"
        "    ✓ b(1)\n"
        "    ✗ c(1)  no fact matches\n"
        "Missing: c(1)\n"
        "Other ways, the nearest first:\n"
        "  p(X) :- z(X).\n"
        "    ✗ z(1)  no fact matches\n" + LEGEND
    )


@pytest.mark.plain
def test_parts_that_are_checked_once_are_no_steps_of_a_proof() -> None:
    kb = KnowledgeBase("""
        path(X, Y) :- edge(X, Y).
        path(X, Z) :- path(X, Y), path(Y, Z).
        path(X, c) :- start(X), open(_).
        edge(a, b). edge(b, c). start(a). open(gate).
        far(X, N) :- path(X, c), X != N, N in range(1, 3), known(K), listed(K).
        known(k). listed(K) :- known(K).
        far(X, 1) :- deep(X). deep(X) :- deeper(X). deeper(X) :- start(X).
    """)
    assert [proof.height for proof in kb.proofs("path(a, c)")] == [1, 2]
    assert [proof.height for proof in kb.proofs("far(a, 1)")] == [2, 3, 3]
    assert kb.explain("far(a, 2)").height == 2
