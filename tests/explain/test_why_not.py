"""Why a fact does not hold: down to the missing explicit facts, the nearest way first, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog import KnowledgeBase
from tidelog.explain import attempts
from tidelog.explain.backwards import BackwardRules
from tidelog.proofs.failure import DEEPEST, LEGEND

ACCESS = """
may(U, A) :- has_role(U, R), grants(R, A), not banned(U).
has_role(U, R) :- member(U, G), group_role(G, R).
grants(editor, write). grants(reader, read).
group_role(staff, editor). group_role(guests, reader).
member(eve, guests). member(bob, staff). banned(bob).
"""


def test_a_way_goes_down_to_the_explicit_facts() -> None:
    found = KnowledgeBase(ACCESS).why_not("may(zoe, write)")
    assert found == (
        "may(zoe, write) does not hold. The rule that came closest:\n"
        "  may(U, A) :- has_role(U, R), grants(R, A), not banned(U).\n"
        "    ✓ not banned(zoe)\n"
        "    ✓ grants(editor, write)\n"
        "    ✗ has_role(zoe, editor)  no fact matches; the rule that came closest:\n"
        "        has_role(U, R) :- member(U, G), group_role(G, R).\n"
        "          ✓ group_role(staff, editor)\n"
        "          ✗ member(zoe, staff)  no fact matches\n"
        "Missing: member(zoe, staff)\n" + LEGEND
    )
    assert (found.missing, found.in_the_way) == (("member(zoe, staff)",), ())


def test_what_is_missing_makes_the_fact_hold() -> None:
    kb = KnowledgeBase(ACCESS)
    for fact in ("may(zoe, write)", "may(eve, write)", "has_role(eve, editor)"):
        kb.add_rules("")
        change = kb.what_if(add={"member": [], **rows(kb.why_not(fact).missing)})
        name = fact.partition("(")[0]
        assert tuple(fact.partition("(")[2][:-1].split(", ")) in change.added[name]


def rows(facts: tuple[str, ...]) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for fact in facts:
        name, _, rest = fact.partition("(")
        found.setdefault(name, []).append(tuple(rest[:-1].split(", ")))
    return found


def test_another_way_through_the_same_rule_is_listed() -> None:
    found = KnowledgeBase(ACCESS).why_not("may(eve, write)")
    assert found.missing == ("grants(reader, write)",)
    assert "Other ways, the nearest first:\n  may(U, A) :- " in found
    other = "    ✗ has_role(eve, editor)  no fact matches\n    Missing: "
    assert f"{other}group_role(guests, editor)\n" in found or f"{other}member(eve, staff)\n" in found


def test_what_is_in_the_way_is_named() -> None:
    found = KnowledgeBase(ACCESS).why_not("may(bob, write)")
    assert found.in_the_way == ("banned(bob)",)
    assert "    ✗ not banned(bob)  but banned(bob) holds\nIn the way: banned(bob)\n" in found


def test_fewer_missing_facts_are_nearer() -> None:
    kb = KnowledgeBase("p(X) :- a(X), b(X), c(X).  p(X) :- q(X), d(X).  q(X) :- e(X).  a(1). d(1).")
    found = kb.why_not("p(1)")
    assert found.missing == ("e(1)",)
    assert found.index("p(X) :- q(X), d(X).") < found.index("p(X) :- a(X), b(X), c(X).")


def test_parts_that_need_what_is_missing_stay_open() -> None:
    kb = KnowledgeBase(
        "hot(X) :- temp(X, T), limit(L), T > L, D = T - L, not off(X, D).  limit(5).  @predicate temp/2."
    )
    found = kb.why_not("hot(a)")
    assert "    ✓ limit(5)\n    ✗ temp(a, T)  no fact matches\n" in found
    assert "    ? T > 5\n" in found
    assert "    ? not off(a, D)\n" in found
    assert found.missing == ("temp(a, T)",)


def test_facts_that_hold_by_themselves_are_not_called_missing() -> None:
    kb = KnowledgeBase("p(X) :- a(X, Y), b(Y), c(Y).  a(1, 2). a(1, 3). b(2). c(3).")
    found = kb.why_not("p(1)")
    assert found.missing in (("c(2)",), ("b(3)",))
    for fact in found.missing:
        assert fact not in kb


def test_recursion_is_not_asked_within_itself() -> None:
    kb = KnowledgeBase("p(X) :- q(X).  q(X) :- p(X).")
    found = kb.why_not("p(1)")
    assert "    ✗ q(1)  no fact matches; its rules lead in a circle\n" in found
    assert found.missing == ()
    path = KnowledgeBase("path(X, Y) :- edge(X, Y).  path(X, Z) :- path(X, Y), path(Y, Z).  edge(a, b).")
    assert path.why_not("path(b, a)").missing == ("edge(b, a)",)


def test_a_long_chain_of_rules_is_cut() -> None:
    length = 30
    kb = KnowledgeBase("".join(f"p{n}(X) :- p{n + 1}(X).\n" for n in range(length)) + f"p{length}(2).")
    found = kb.why_not("p0(1)")
    assert found.count(":-") == DEEPEST
    assert found.missing == (f"p{DEEPEST}(1)",)


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "ALLOWANCE", 10_000)
    kb = KnowledgeBase("p(X) :- a(Y, Z), b(Z, W), c(W, X), Y + W < 0.")
    side = 1000  # so that a million ways have to be tried until it is clear that there is none
    kb.update(add={"a": [(n, 0) for n in range(side)], "b": [(0, n) for n in range(side)]})
    kb.update(add={"c": [(n, 1) for n in range(side)]})
    made: list[attempts.EngineGrounds] = []
    begin = attempts.EngineGrounds.__init__

    def note(grounds: attempts.EngineGrounds, backwards: BackwardRules) -> None:
        made.append(grounds)
        begin(grounds, backwards)

    monkeypatch.setattr(attempts.EngineGrounds, "__init__", note)
    assert "p(1) does not hold. The rule that came closest:" in kb.why_not("p(1)")
    (grounds,) = made
    assert -10_000 < grounds._left <= 0, "it ends when the allowance is spent"


@settings(max_examples=25, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_missing_facts_are_missing(edges: set[tuple[int, int]], first: int, last: int) -> None:
    kb = KnowledgeBase(
        "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). @predicate edge/2."
        "two(X, Z) :- path(X, Y), edge(Y, Z), not edge(X, Z), X != Z."
    )
    kb.update(add={"edge": edges})
    for predicate in ("path", "two"):
        found = kb.why_not(f"{predicate}($x, $y)", x=first, y=last)
        if "does not hold" in found:
            ground = [fact for fact in found.missing if not any(letter.isupper() for letter in fact)]
            assert not any(fact in kb for fact in ground)
            if predicate == "path":
                added = {"edge": [tuple(map(int, fact[5:-1].split(", "))) for fact in ground]}
                assert (first, last) in kb.what_if(add=added).added["path"]
