"""Modular Materialisation (Hu, Motik, Horrocks): Examples 1 and 2 of section 3.2."""

from __future__ import annotations

from math import comb

import pytest

from tidelog import KnowledgeBase
from tidelog.engine.algorithms.names import MAINTENANCE

TRANSITIVE = "r(X, Z) :- r(X, Y), r(Y, Z)."
SYMMETRIC = "r(Y, X) :- r(X, Y)."
LINEAR = "r(X, Z) :- x(X, Y), r(Y, Z). r(X, Y) :- x(X, Y)."
N = 12
CHAIN = [(i, i + 1) for i in range(N)]
CYCLE = [(i, (i + 1) % N) for i in range(N)]


@pytest.mark.parametrize("maintenance", MAINTENANCE)
def test_example_1_semi_naive_evaluation_considers_every_instance(maintenance: str) -> None:
    """Each R(cᵢ, cⱼ) ∧ R(cⱼ, cₖ) → R(cᵢ, cₖ) with i < j < k, once: a cubic number."""
    kb = KnowledgeBase(TRANSITIVE, maintenance=maintenance, modules=False)
    change = kb.update(add={"r": CHAIN})
    assert set(kb.facts("r")) == {(i, k) for k in range(N + 1) for i in range(k)}
    derived = comb(N + 1, 2) - len(CHAIN)
    by_the_paper_of_marking = maintenance.startswith("backward-forward")
    assert change.work["insertion"] == (derived if by_the_paper_of_marking else comb(N + 1, 3))


def test_example_1_one_external_fact_in_each_instance() -> None:
    """Rule (4), X(x, y) ∧ R(y, z) → R(x, z): a quadratic number, as the module simulates it."""
    change = KnowledgeBase(LINEAR, modules=False).update(add={"x": CHAIN})
    assert change.work["insertion"] == len(CHAIN) + comb(N, 2)


def test_example_2_semi_naive_evaluation_considers_every_instance() -> None:
    """All 1 ≤ i, j, k ≤ n of rule (1), and every pair of rule (5)."""
    kb = KnowledgeBase(TRANSITIVE + SYMMETRIC, maintenance="dred", modules=False)
    change = kb.update(add={"r": CYCLE})
    assert set(kb.facts("r")) == {(i, k) for i in range(N) for k in range(N)}
    assert change.work["insertion"] == N**3 + N**2


@pytest.mark.parametrize(("rules", "edges", "pairs"), [(TRANSITIVE, CHAIN, comb(N + 1, 2)), (SYMMETRIC, CYCLE, N * N)])
def test_examples_1_and_2_as_modules(rules: str, edges: list[tuple[int, int]], pairs: int) -> None:
    """The same pairs without a rule application."""
    kb = KnowledgeBase(TRANSITIVE + (rules if rules != TRANSITIVE else ""))
    change = kb.update(add={"r": edges})
    assert len(kb.facts("r")) == len(change.added["r"]) == pairs
    assert not any(change.work.values())
