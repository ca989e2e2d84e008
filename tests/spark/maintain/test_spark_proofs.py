"""Proofs from the files of a version: as high as the oracle's lowest ones, and worded as the embedded engine does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from generate import Case, Dice, make_case
from merged import Merged, Part
from naive import State, database, proof_heights
from proof_util import Checker, text_of
from tidelog import KnowledgeBase
from tidelog.errors import LimitError
from tidelog.language import parse_program
from tidelog.language.syntax import Program
from tidelog.spark import Materialisation
from tidelog.spark.data.dictionary import TermIds
from tidelog.spark.maintain import materialisation
from tidelog.spark.proofs import explaining

FARM = """
path(X, Y) :- edge(X, Y).        path(X, Z) :- edge(X, Y), path(Y, Z).
reach(X, Y) :- edge(X, Y).       reach(X, Z) :- reach(X, Y), reach(Y, Z).
hot(X) :- temp(X, T), T > 30, not off(X).
warm(X, W) :- temp(X, T), W = T / 2, not off(_).
total(G, sum(T)) :- group(G, X), temp(X, T).
alarm(G) :- total(G, T), T >= 100.
half(X, 1 / (T - 90)) :- temp(X, T).
temp(oven, 90).   temp(hall, 20).   temp(tank, 45).   off(tank).   group(house, oven).   group(house, hall).
group(yard, tank).
"""
CHAIN = [(f"n{place}", f"n{place + 1}") for place in range(40)] + [("n0", "n5"), ("n7", "n30")]


NO_SESSION: Any = None
Farm = tuple[Materialisation, KnowledgeBase]


def random_programs() -> Program:
    """Several random programs, with names of their own for their predicates."""
    cases = [make_case(Dice(seed)).state for seed in range(200, 210)]
    return Merged([Part(str(number), case.rules, case.explicit) for number, case in enumerate(cases)]).program()


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """The farm and the random programs in one materialisation, and the farm in a knowledge base.

    Facts first and rules later: such small updates need no job, and so no session."""
    folder = str(tmp_path_factory.mktemp("farm") / "made")
    text, drawn = parse_program(FARM), random_programs()
    facts = Program(facts=(*text.facts, *drawn.facts)).rows
    made = Materialisation.create(NO_SESSION, folder, add=facts | {"edge": CHAIN})
    made.update(add_rules=map(str, (*text.rules, *drawn.rules)))
    kb = KnowledgeBase(FARM)
    kb.update(add={"edge": CHAIN})
    return made, kb


def words(text: object) -> list[str]:
    """The words of a text in order: facts that nothing puts into an order may come in any."""
    return sorted(str(text).split())


FACTS = (
    *("temp(oven, 90)", "hot(oven)", "total(house, 110)", "alarm(house)", "path(n38, n40)", "path(n0, n40)"),
    *("reach(n3, n5)", "half(tank, -0.022222222222222223)"),
)
NO_FACTS = (
    *("hot(hall)", "hot(tank)", "hot(nobody)", "warm(oven, 45.0)", "total(yard, 5)", "alarm(yard)", "edge(n5, n0)"),
    *("path(n40, n0)", "half(oven, 3)", "wholly_unheard_of(a)", "temp(hall, 21)", "total(attic, 1)", "pth(n0, n1)"),
)


@pytest.mark.parametrize("fact", FACTS)
def test_proofs_are_worded_like_those_of_a_knowledge_base(farm: Farm, fact: str) -> None:
    made, kb = farm
    found, expected = made.explain(fact), kb.explain(fact)
    assert (found.fact, found.rule, found.height) == (expected.fact, expected.rule, expected.height)
    assert [line.remark for line in found.lines()] == [line.remark for line in expected.lines()]
    assert words(str(found).replace(",", "")) == words(str(expected).replace(",", ""))


@pytest.mark.parametrize("fact", NO_FACTS)
@pytest.mark.filterwarnings("ignore::tidelog.UnknownPredicateWarning")
def test_what_is_missing_is_worded_alike_too(farm: Farm, fact: str) -> None:
    made, kb = farm
    assert made.explain(fact) is None
    found, expected = made.why_not(fact), kb.why_not(fact)
    if fact.startswith("total"):  # whose body has several matches, any of which may be shown
        assert found.splitlines()[:2] == expected.splitlines()[:2]
        # One of them is that of the group itself, which lacks no fact.
        group = fact.partition(",")[0].replace("total", "group")
        assert [missing.partition(",")[0] for missing in found.missing] == [group] or (
            "✓ temp(tank, 45)\n    ✗ its group gives total(yard, 45)" in found
        )
    else:
        assert found == expected
        assert (found.missing, found.in_the_way) == (expected.missing, expected.in_the_way)


def test_questions_as_tuples_and_with_parameters(farm: Farm) -> None:
    made, _ = farm
    assert made.explain(("path", "n0", "n1")).height == 1
    assert made.explain("path($a, $b)", a="n0", b="n6").height == 2
    assert made.why_not("hot(oven)") == "hot(oven) holds; `explain` proves it."


@pytest.mark.parametrize("pairs", [0, 10**9], ids=["from the base", "searched"])
def test_closures_by_either_way(farm: Farm, monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    made, kb = farm
    monkeypatch.setattr(explaining, "SEARCHED_PAIRS", pairs)
    for fact in ("reach(n0, n40)", "reach(n1, n2)", "reach(n9, n33)", "reach(n6, n31)"):
        proof = made.explain(fact)
        assert proof.height == kb.explain(fact).height
        assert all(step.rule or step.fact.startswith("edge") for step in proof.steps())


def test_too_many_facts_are_said_to_be_too_many(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = farm
    monkeypatch.setattr(materialisation, "_LOOKED_UP", 30)
    with pytest.raises(LimitError, match="too many facts lie behind `reach"):
        made.explain("reach(n0, n40)")


def test_histories_of_constants_that_share_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells constants apart then is kept with the versions. No job is needed, and so no session."""
    monkeypatch.setattr(TermIds.__init__, "__defaults__", ((), 1))
    folder = str(tmp_path / "made")
    kb, made = KnowledgeBase(), Materialisation.create(NO_SESSION, folder)
    facts = {"temp": [("oven", 90), ("hall", 20), ("tank", 45.5)], "group": [("house", "oven"), ("house", "hall")]}
    rules = "total(G, sum(T)) :- group(G, X), temp(X, T). late(G, T + 1) :- total(G, T), not off(G)."
    updates = ({"add": facts}, {"add_rules": rules}, {"delete": {"temp": [("hall", 20)]}, "add": {"off": [("yard",)]}})
    for update in updates:
        kb.update(**update)
        made = Materialisation.open(NO_SESSION, folder)
        made.update(**update)
        assert made._version.exceptions
        held = {(name, *row) for name in kb.predicates for row in kb.facts(name)}
        assert sum(map(made.count, kb.predicates)) == len(held)
        assert all(made.explain(fact) for fact in held)
    assert ("late", "house", 91) in held


def test_random_programs(farm: Farm) -> None:
    """Each fact of random programs has a proof of the least height, whose steps are instances of its rules."""
    made, _ = farm
    drawn = random_programs()
    state = State(drawn.rules, database(drawn.facts))
    checker, heights = Checker(Case(state, (), ())), proof_heights(state.rules, state.explicit)
    assert max(heights.values()) > 2
    for fact, height in sorted(heights.items(), key=repr)[::3]:
        proof = made.explain(text_of(fact))
        assert proof is not None, text_of(fact)
        assert proof.height == height, f"{proof}"
        checker.check(proof, fact)
