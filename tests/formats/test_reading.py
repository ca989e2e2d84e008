"""What a knowledge base answers about explicit facts of closures, and in which order variables stand."""

from __future__ import annotations

import pytest

from engine_util import ALGORITHMS
from tidelog import KnowledgeBase

STEPS = ["p(X, Y), e(Y, Z)", "e(X, Y), p(Y, Z)", "p(X, Y), p(Y, Z)"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("modules", [True, False])
def test_a_pair_of_a_closure_is_explicit_only_where_it_was_given(step: str, maintenance: str, modules: bool) -> None:
    kb = KnowledgeBase(f"p(X, Y) :- e(X, Y). p(X, Z) :- {step}.", maintenance=maintenance, modules=modules)
    kb.update(add={"e": [(1, 2), (2, 3)]})
    given = kb.explicit("p")
    assert [(1, 2) in given, (1, 3) in given, len(given), list(given)] == [False, False, 0, []]
    assert (1, 3) in kb.facts("p")
    kb.update(add={"p": [(1, 3)]})
    assert [(1, 2) in given, (1, 3) in given, len(given), list(given)] == [False, True, 1, [(1, 3)]]
    kb.update(delete={"p": [(1, 3)]})
    assert (1, 3) not in given
    assert (1, 3) in kb.facts("p")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("not small(Y), e(W, Y)", ("Y", "W")),
        ("not e(Y, N), e(W, Y)", ("Y", "W")),
        ("not e(_, W), X < Y, e(Y, X), e(W, _)", ("W", "X", "Y")),
        ("V = X + 1, not small(Z), e(X, Z)", ("V", "X", "Z")),
    ],
)
def test_the_variables_of_answers_stand_in_the_order_of_the_text(query: str, names: tuple[str, ...]) -> None:
    kb = KnowledgeBase("e(2, 3). e(5, 1). small(1).")
    assert kb.query(query).variables == names
