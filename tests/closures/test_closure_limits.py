"""Limits and interrupts are checked while a closure changes: no update runs on after it was stopped, and none takes
memory for pairs that it may not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
from tidelog import LimitError
from tidelog.closures import closed_graph
from tidelog.engine.update import pair_sets
from tidelog.engine.update.runner import Limits
from tidelog.machine.jit import JIT_DISABLED

PATH = "p(X, Z) :- p(X, Y), p(Y, Z)."
MIRROR = "p(Y, X) :- p(X, Y)."
READER = "q(X) :- p(X, Y), m(Y). n(X) :- m(X), not q(X)."
SYMMETRIC_STEP = "p(X, Z) :- p(X, Y), p(Y, Z), m(Y)."
CORE = "p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- r(X, Y). r(X, Z) :- p(X, Y), f(Y, Z)."

Pairs = list[tuple[int, int]]


def chain(first: int, last: int) -> Pairs:
    return [(node, node + 1) for node in range(first, last)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_graph, "SLICE", 50)
    monkeypatch.setattr(pair_sets, "PIECE", 20)


LENGTH = 100 if JIT_DISABLED else 1000


@pytest.mark.parametrize("before", [[], chain(0, 3), chain(0, LENGTH // 2)])
def test_a_closure_with_too_many_pairs_is_not_built(before: Pairs) -> None:
    most = LENGTH * LENGTH // 4
    kb = tidelog.KnowledgeBase(PATH, max_facts=most)
    kb.update(add={"p": before})
    facts = set(kb.facts("p"))
    with pytest.raises(LimitError, match="so far") as refused:
        kb.update(add={"p": chain(len(before), LENGTH)})
    found = re.search(r"\((\d+) so far", str(refused.value))
    assert found is not None
    # It had just become too much.
    assert int(found[1]) < most + most // 4
    assert set(kb.facts("p")) == facts
    assert len(kb.update(add={"p": [(-1, 0)]}).added["p"]) == len(before) + 1


@pytest.mark.parametrize(
    "step", ["p(X, Z) :- e(X, Y), p(Y, Z).", "p(X, Z) :- p(X, Y), e(Y, Z).", "p(X, Z) :- p(X, Y), p(Y, Z)."]
)
def test_the_step_of_a_closure_is_named(step: str) -> None:
    kb = tidelog.KnowledgeBase(f"p(X, Y) :- e(X, Y). {step}", max_facts=LENGTH * LENGTH // 4)
    with pytest.raises(LimitError, match=re.escape(step)):
        kb.update(add={"e": chain(0, LENGTH)})


def test_a_single_edge_between_two_long_chains_is_too_much() -> None:
    half = LENGTH // 2
    kb = tidelog.KnowledgeBase(PATH, max_facts=half * half + 3 * half)
    kb.update(add={"p": [*chain(0, half), *chain(half + 1, 2 * half)]})
    with pytest.raises(LimitError, match="facts"):
        kb.update(add={"p": [(half, half + 1)]})
    assert (0, half) in kb.facts("p")
    assert (half, half + 1) not in kb.facts("p")


def test_what_a_closure_takes_the_place_of_does_not_count_twice() -> None:
    kb = tidelog.KnowledgeBase("p(X, Z) :- p(X, Y), p(Y, Z), X != Z.", max_facts=100)
    kb.update(add={"p": chain(0, 10)})
    assert len(kb.facts("p")) == 55
    kb.update(add_rules=PATH)
    assert len(kb.facts("p")) == 55
    twins = tidelog.KnowledgeBase(f"{PATH} q(X, Y) :- p(Y, X). p(X, Y) :- q(Y, X).", max_facts=110)
    twins.update(add={"p": chain(0, 10)})
    with pytest.raises(LimitError):
        twins.update(add={"p": [(10, 11)]})


UPDATES: dict[str, Callable[[tidelog.KnowledgeBase], Any]] = {
    "many edges": lambda kb: kb.update(add={"p": chain(20, 60)}),
    "one edge": lambda kb: kb.update(add={"p": [(10, 11)]}),
    "an edge less": lambda kb: kb.update(delete={"p": [(5, 6)]}),
    "other rules": lambda kb: kb.update(add_rules=MIRROR),
    "no closure": lambda kb: kb.update(add_rules=SYMMETRIC_STEP),
    "read by a rule": lambda kb: kb.update(delete={"p": [(2, 3)]}, add={"p": chain(10, 20), "m": [(3,)]}),
}


def state(kb: tidelog.KnowledgeBase) -> Any:
    return {name: set(kb.facts(name)) for name in kb.predicates}, set(map(str, kb.rules))


@pytest.mark.parametrize("program", [PATH + READER, CORE])
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_can_be_stopped_at_every_look(program: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh() -> tidelog.KnowledgeBase:
        kb = tidelog.KnowledgeBase(program)
        kb.update(add={"p": [*chain(0, 10), *chain(11, 20)], "m": [(7,), (15,)], "f": [(3, 4)]})
        return kb

    whole, kb = fresh(), fresh()
    UPDATES[name](whole)
    before, looks, last = state(kb), 0, 0

    def check_time(_limits: Limits, _began: float, _busiest: Any = None) -> None:
        nonlocal looks
        looks += 1
        if looks == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(Limits, "check_time", check_time)
    while looks == last:
        looks, last = 0, last + (5 if JIT_DISABLED else 1)
        try:
            UPDATES[name](kb)
        except KeyboardInterrupt:
            assert state(kb) == before
    assert state(kb) == state(whole)
    assert looks > 1
