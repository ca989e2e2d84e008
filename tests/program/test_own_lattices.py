"""Lattices of the user's own in a recursion: what is accepted, and what is refused, with what is not monotone."""

from __future__ import annotations

import pytest

from tidelog import Lattice, Monotone
from tidelog.errors import StratificationError
from tidelog.language import parse_program
from tidelog.language.functions.registered import is_monotone
from tidelog.language.syntax import Rule
from tidelog.language.written.conditions import Names
from tidelog.program.graph import RuleGraph

FUNCTIONS = {
    "hull": Lattice(max),
    "flat": Lattice(max),
    "up": Monotone(abs),
    "both": Monotone(max),
    "wide": Monotone(bool),
    "other": abs,
}
NAMES = Names.of(FUNCTIONS, frozenset(), lattices=frozenset({"hull", "flat"}))

STEP = "b(X, V), e(X, Y, W)"

ACCEPTED = [
    f"b(Y, hull(V)) :- {STEP}.",
    f"b(Y, hull(W)) :- {STEP}.",
    f"b(Y, hull(up(V))) :- {STEP}.",
    f"b(Y, hull(both(up(V), other(W)))) :- {STEP}.",
    f"b(Y, hull(hull(V, A))) :- {STEP}, b(Y, A).",
    f"b(Y, hull(U)) :- {STEP}, U = V.",
    f"b(Y, hull(U)) :- {STEP}, U = up(V).",
    f"b(Y, hull(V)) :- {STEP}, wide(V).",
    f"b(Y, hull(V)) :- {STEP}, up(V) > W.",
    f"b(Y, hull(V)) :- {STEP}, up(V) + 1 >= W.",
    "b(Y, V) :- b(X, V), e(X, Y, _). b(X, hull(V)) :- b(Y, V), e(X, Y, _).",
    "near(X) :- b(X, V), wide(V). b(Y, hull(W)) :- near(X), e(X, Y, W).",
    "b(X, hull(up(V))) :- f(X, V). f(X, flat(up(V))) :- b(X, V).",
    "m(X, max(up(V))) :- b(X, V). b(X, hull(up(M))) :- m(X, M).",
    "a(X, any(wide(V))) :- b(X, V). b(X, hull(W)) :- a(X, true), e(X, _, W).",
]

REFUSED = [
    (f"b(Y, hull(other(V))) :- {STEP}.", "`other(V)` may become anything when `V` of `b` gets greater", 11),
    (f"b(Y, hull(upper(V))) :- {STEP}.", "`upper(V)` may become anything", 11),
    (f"b(Y, hull(V + 1)) :- {STEP}.", "`V + 1` may become anything", 11),
    (f"b(Y, hull([V, W])) :- {STEP}.", "may become anything", 11),
    (f"b(Y, hull(W)) :- {STEP}, V = 3.", "`V = 3` may cease to hold", 39),
    (f"b(Y, hull(W)) :- {STEP}, V != W.", "`V != W` may cease to hold", 39),
    (f"b(Y, hull(W)) :- {STEP}, V > W.", "`V > W` may cease to hold", 39),
    (f"b(Y, hull(W)) :- {STEP}, up(V) < W.", "`up(V) < W` may cease to hold", 39),
    (f"b(Y, hull(W)) :- {STEP}, not wide(V).", "`wide(V) = false` may cease to hold", 43),
    (f"b(Y, hull(V)) :- {STEP}, k(V).", "`k(V)` has to match the value `V` of `b`", 41),
    (f"b(Y, hull(V)) :- {STEP}, b(Y, V).", "has to match the value `V`", 44),
    ("b(Y, hull(W)) :- b(X, 3), e(X, Y, W).", "asks for one value of `b`", 23),
    ("b(X, hull(V)) :- f(X, V). f(X, flat(up(V))) :- b(X, V).", "`V` need not get greater in `hull`", 11),
    ("b(X, hull(flat(V, V))) :- f(X, V). f(X, flat(up(V))) :- b(X, V), b(X, _).", "need not get greater", None),
    ("n(X, V) :- b(X, V). b(X, hull(V)) :- n(X, V).", "becomes part of what `n` is derived for", 6),
    ("m(X, min(up(V))) :- b(X, V). b(X, hull(up(M))) :- m(X, M).", "gets worse for `min`", 10),
    ("m(X, max(V)) :- b(X, V). b(X, hull(up(M))) :- m(X, M).", "gets worse for `max`", 10),
    ("b(X, hull(M)) :- m(X, M). m(X, max(up(V))) :- b(X, V).", "`M` need not get greater in `hull`", 11),
    ("b(X, hull(V)) :- b(X, V). b(X, flat(V)) :- e(X, _, V).", "recursive through `hull` in argument 2", None),
    ("b(X, hull(V), hull(W)) :- b(X, V, W).", "has one", None),
]


def _checked(text: str) -> None:
    rules: tuple[Rule, ...] = parse_program(text, names=NAMES).rules
    graph = RuleGraph()
    graph.monotone = lambda name: is_monotone(FUNCTIONS, name)
    graph.update(rules)


@pytest.mark.parametrize("text", ACCEPTED)
def test_monotone_uses_are_accepted(text: str) -> None:
    _checked(text)


@pytest.mark.parametrize(("text", "what", "column"), REFUSED)
def test_what_is_not_monotone_is_refused_by_its_part(text: str, what: str, column: int | None) -> None:
    with pytest.raises(StratificationError) as caught:
        _checked(text)
    assert what in str(caught.value)
    if column is not None:
        assert f"column {column}:" in str(caught.value)


def test_functions_that_nobody_knows_are_trusted() -> None:
    """Rules that are drawn, or read from a folder, were checked where they were added."""
    RuleGraph(parse_program(REFUSED[0][0], names=NAMES).rules)
