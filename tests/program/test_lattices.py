"""`min` and `max` in a recursion: what is accepted, and what is refused, with the part that is not monotone."""

from __future__ import annotations

import pytest

from tidelog.errors import StratificationError
from tidelog.language import parse_program
from tidelog.program.graph import RuleGraph
from tidelog.program.lattices import Lattice, plain_rule

EDGE = "dist(X, D), edge(X, Y, W)"

ACCEPTED = [
    f"dist(Y, min(D + W)) :- {EDGE}.",
    f"dist(Y, min(D)) :- {EDGE}.",
    f"dist(Y, min(W)) :- {EDGE}.",
    f"dist(Y, min(D - W)) :- {EDGE}.",
    f"dist(Y, min(2 * D)) :- {EDGE}.",
    f"dist(Y, min(D * W)) :- {EDGE}, W > 0.",
    f"dist(Y, min(D * W)) :- {EDGE}, 0 <= W.",
    f"dist(Y, min(D / 2)) :- {EDGE}.",
    f"dist(Y, min(D * abs(W))) :- {EDGE}.",
    f"dist(Y, min(-(3 - D))) :- {EDGE}.",
    f"dist(Y, min(max2(D, W))) :- {EDGE}.",
    f"dist(Y, min(floor(D) + ceil(D))) :- {EDGE}.",
    f"dist(Y, min(E)) :- {EDGE}, E = D + W.",
    f"dist(Y, min(E)) :- {EDGE}, D + W = E, E < 10.",
    f"dist(Y, min(D)) :- {EDGE}, D < W.",
    f"dist(Y, min(D)) :- {EDGE}, W >= D.",
    f"dist(Y, max(D)) :- {EDGE}, W <= D.",
    f"dist(Y, max(log(D))) :- {EDGE}.",
    f"dist(Y, min(exp(D))) :- {EDGE}.",
    "dist(Y, min(W)) :- dist(X, _), edge(X, Y, W).",
    "near(X) :- dist(X, D), D < 3. dist(Y, min(D + W)) :- near(X), dist(X, D), edge(X, Y, W).",
    "dist(Y, D) :- dist(X, D), edge(Y, X, _). dist(Y, min(D)) :- dist(X, D), edge(X, Y, _).",
    "low(X, min(-H)) :- high(X, H). high(X, max(-L)) :- low(X, L).",
    "h(Y, min(D), min(D, X)) :- h(X, D, _), edge(X, Y, _).",
    "h(Y, min(D + W), min(D + W, H)) :- h(X, D, H), edge(X, Y, W).",
    "h(Y, min(E), min(E, H)) :- h(X, D, H), edge(X, Y, W), E = W + D.",
    "ok(X, any(B)) :- ok(Y, B), edge(X, Y, _).",
    "ok(X, all(false)) :- ok(Y, false), edge(X, Y, _).",
    "least(min(X + 1)) :- least(X).",
]

REFUSED = [
    (f"dist(Y, min(D)) :- {EDGE}, D > 5.", "`D > 5` may cease to hold", 1, 47),
    (f"dist(Y, max(D)) :- {EDGE}, D < 5.", "`D < 5` may cease to hold", 1, 47),
    (f"dist(Y, min(D)) :- {EDGE}, D = 5.", "`D = 5` may cease to hold", 1, 47),
    (f"dist(Y, min(D)) :- {EDGE}, D != W.", "`D != W` may cease to hold", 1, 47),
    (f"dist(Y, min(W - D)) :- {EDGE}.", "`W - D` gets worse for `min`", 1, 13),
    (f"dist(Y, min(D * W)) :- {EDGE}.", "the sign of `W`", 1, 13),
    (f"dist(Y, min(D % 3)) :- {EDGE}.", "`D % 3` may become anything", 1, 13),
    (f"dist(Y, min(abs(D))) :- {EDGE}.", "`abs(D)` may become anything", 1, 13),
    (f"dist(Y, min(sqrt(D))) :- {EDGE}.", "`sqrt(D)` may become anything", 1, 13),
    (f"dist(Y, min(length(str(D)))) :- {EDGE}.", "may become anything", 1, 20),
    ("dist(Y, min(D)) :- dist(X, D), edge(X, Y, D).", "`edge(X, Y, D)` has to match the value `D`", 1, 43),
    ("dist(Y, min(D)) :- dist(X, D), dist(Y, D).", "has to match the value `D`", 1, 40),
    ("dist(Y, min(D)) :- dist(X, D), edge(X, Y, W), not bad(Y, D).", "has to match the value `D`", 1, 58),
    ("dist(Y, min(W)) :- dist(X, 3), edge(X, Y, W).", "asks for one value of `dist`", 1, 28),
    (f"all(Y, D + W) :- {EDGE}. dist(Y, min(D)) :- all(Y, D).", "becomes part of what `all` is derived for", 1, 8),
    (f"dist(D, min(W)) :- {EDGE}.", "becomes part of what `dist` is derived for", 1, 6),
    ("a(X, min(D)) :- b(X, D). b(X, max(D)) :- a(X, D).", "gets worse for", 1, 10),
    ("h(Y, min(W), min(W, H)) :- h(X, D, H), edge(X, Y, W).", "the witness `H` may change", 1, 21),
    ("h(Y, min(D), min(W, X)) :- h(X, D, _), edge(X, Y, W).", "goes with another value", 1, 14),
    ("h(Y, min(D), min(D, X)) :- h(X, D, a), edge(X, Y, W).", "asks for one witness of `h`", 1, 36),
    ("two(Y, min(A), max(B)) :- two(X, A, B), edge(X, Y, _).", "has 2", 1, 1),
    (f"dist(Y, min(D)) :- {EDGE}. dist(Y, max(W)) :- edge(_, Y, W).", "aggregates otherwise", 1, 55),
    ("ok(X, any(B)) :- ok(Y, B), ok(Y, false), edge(X, Y, _).", "the best that `any` can give", 1, 34),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_monotone_uses_are_accepted(text: str) -> None:
    graph = RuleGraph(parse_program(text).rules)
    assert any(component.lattices for component in graph.components_in_order())


@pytest.mark.parametrize(("text", "what", "line", "column"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_not_monotone_is_refused_by_its_part(text: str, what: str, line: int, column: int) -> None:
    with pytest.raises(StratificationError) as caught:
        RuleGraph(parse_program(text).rules)
    assert what in str(caught.value)
    assert "hint: " in str(caught.value)
    assert caught.value.mistake is not None
    assert caught.value.mistake[:2] == (line, column)


@pytest.mark.parametrize("function", ["count", "sum", "avg", "median"])
def test_other_aggregates_are_refused_with_the_cycle(function: str) -> None:
    with pytest.raises(StratificationError, match="aggregation through recursion") as caught:
        RuleGraph(parse_program(f"p(X, {function}(D)) :- p(Y, D), e(X, Y).").rules)
    assert "`min`, `max`, `any` and `all` can stand" in str(caught.value)


def test_negation_is_refused_beside_a_minimum() -> None:
    with pytest.raises(StratificationError, match="through recursion"):
        RuleGraph(parse_program("p(X, min(D)) :- p(Y, D), e(X, Y), not p(X, 0).").rules)


def test_an_aggregate_below_the_recursion_stays_what_it_is() -> None:
    graph = RuleGraph(parse_program("p(X, min(D)) :- a(X, D). p(Y, D) :- p(X, D), e(X, Y).").rules)
    assert not graph.component("p").lattices


def test_a_rule_that_comes_later_is_checked_with_those_that_are_there() -> None:
    graph = RuleGraph(parse_program(f"dist(Y, min(D + W)) :- {EDGE}.").rules)
    assert graph.component("dist").lattices == {"dist": Lattice("min", 1)}
    for text in ("dist(X, count(Y)) :- edge(X, Y, _).", "dist(Y, 3 - D) :- dist(X, D), edge(X, Y, _)."):
        with pytest.raises(StratificationError):
            graph.update(parse_program(text).rules)
    assert len(graph.rules) == 1


def test_the_columns_of_a_group_are_all_others() -> None:
    assert Lattice("min", 1, 3).group(5) == (0, 2, 4)


def test_a_rule_offers_what_its_aggregates_are_of() -> None:
    (rule,) = parse_program("h(Y, min(D + W), min(D + W, X)) :- h(X, D, _), e(X, Y, W).").rules
    assert str(plain_rule(rule)) == "h(Y, D + W, X) :- h(X, D, _), e(X, Y, W)."
