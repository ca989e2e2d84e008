"""Aggregates under change: every function against the oracle, for groups that are touched and for all of them."""

from __future__ import annotations

import math
import random
from itertools import permutations

import pytest
import tidelog.engine.aggregates

from engine_util import check_stream
from naive import State, Update, database
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.algorithms.aggregate_functions import _sum
from tidelog.language import parse_rules
from tidelog.values import Value

RULES = """
n(X, count(Y)) :- e(X, Y).
two(count(Y), X, count(Z)) :- e(X, Y), e(X, Z), not f(X, _).
all(count(Y), sum(Y)) :- e(_, Y).
kinds(X, count(distinct Y), sum(Y)) :- e(X, Y).
least(X, min(Y), max(Y)) :- e(X, Y).
mean(X, avg(Y)) :- e(X, Y).
middle(X, median(Y), "m") :- e(X, Y).
far(X, max(Z)) :- e(X, Y), Z = 10 / Y.
"""

VALUES: dict[str, list[Value]] = {
    "integers": [0, 1, -2, 3, 7, 10],
    "large": [2**62, 2**62 - 1, -(2**62), 2**53 + 1, 1],
    "floats": [0.0, -1.5, 2.25, 3.0, 0.1, 10.0],
    "extreme floats": [1.7e308, 1.6e308, -1.7e308, math.inf, math.nan, 5e-324],
    "mixed": [1, 1.0, 2.5, "a", "b", True],
}


def _stream(seed: int, values: list[Value], length: int = 12) -> list[Update]:
    source = random.Random(seed)
    pairs = [(group, value) for group in range(4) for value in values]
    lone = [(group, 0) for group in range(4)]

    def some() -> dict[str, list[tuple[Value, ...]]]:
        return {"e": source.sample(pairs, source.randrange(1, 8)), "f": source.sample(lone, source.randrange(2))}

    return [Update(add=database(some()), delete=database(some())) for _ in range(length)]


@pytest.mark.parametrize("large", [0.0, 10.0], ids=["all groups", "touched groups"])
@pytest.mark.parametrize("values", VALUES)
def test_every_function_follows_the_facts(monkeypatch: pytest.MonkeyPatch, values: str, large: float) -> None:
    monkeypatch.setattr(tidelog.engine.aggregates, "LEAST_CHANGE", 0)
    monkeypatch.setattr(tidelog.engine.aggregates, "LARGE_SHARE", large)
    for seed in range(4):
        check_stream(State(tuple(parse_rules(RULES, {})), {}), _stream(seed, VALUES[values]), "auto")


def test_a_sum_does_not_depend_on_the_order_of_facts() -> None:
    """Not even where a part of it is beyond the range of floats."""
    rows = [(1e308, 1), (1e308, 2), (1e308, 3), (-1e308, 1), (-1e308, 2), (0.5, 0)]
    for order in permutations(rows, len(rows)):
        assert _sum([value for value, _ in order]) == 1e308
    kb = KnowledgeBase("s(sum(X)) :- e(X, _). a(avg(X)) :- e(X, _).")
    kb.update(add={"e": rows})
    assert (set(kb.facts("s")), set(kb.facts("a"))) == ({(1e308,)}, {(1e308 / 6,)})


def test_counts_move_without_a_look_at_their_matches() -> None:
    kb = KnowledgeBase("n(X, count(Y)) :- e(X, Y).")
    kb.update(add={"e": [(group, value) for group in range(3) for value in range(500)]})
    aggregate = kb._engine.nodes._aggregates[1]
    assert kb.update(add={"e": [(0, 500)]}, delete={"e": [(1, 0), (1, 1)]}).added["n"] == {(0, 501), (1, 498)}
    assert ("group", tidelog.engine.aggregates.FROM_GROUP) not in aggregate._offsets


def test_a_large_change_looks_for_no_groups() -> None:
    kb = KnowledgeBase("m(X, median(Y)) :- e(X, Y).")
    kb.update(add={"e": [(group, value) for group in range(3) for value in range(500)]})
    kb.update(add={"e": [(group, value) for group in range(3) for value in range(500, 999)]})
    assert set(kb.facts("m")) == {(group, 499) for group in range(3)}
    assert [key for key, _ in kb._engine.nodes._aggregates[1]._offsets] == ["all"]
