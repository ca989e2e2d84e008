"""Dense relations of pairs: joined row by row of a bit matrix, and entered into their hash tables late or never.

Whether bits are used changes neither facts nor the number of rule applications.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import numpy as np
import pytest

import tidelog.engine.update.runner
import tidelog.store.pair_bits
import tidelog.store.store
from audit import audit
from faults import faulty_memory
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import LimitError

BASE = "p(X, Y) :- e(X, Y). "
PROGRAMS = {
    "right-linear": BASE + "p(X, Z) :- e(X, Y), p(Y, Z).",
    "left-linear": BASE + "p(X, Z) :- p(X, Y), e(Y, Z).",
    "non-linear": BASE + "p(X, Z) :- p(X, Y), p(Y, Z).",
    "turned round": BASE + "p(Z, X) :- e(X, Y), p(Y, Z).",
    "same generation": "p(X, Y) :- e(Z, X), e(Z, Y). p(X, Y) :- e(A, X), p(A, B), e(B, Y).",
    "pointers": BASE + "p(X, Z) :- f(X, Y), p(Y, V), p(V, Z). p(V, Z) :- g(Y, X), p(Y, V), p(X, Z).",
    "three columns": BASE + "t(X, Z, Y) :- p(X, Y), f(Y, Z). p(X, Z) :- t(X, Z, Y), g(Z, X). p(X, Y) :- t(X, Y, Z).",
    "constants": BASE + "p(3, Z) :- p(Y, Z), e(X, Y). p(X, 5) :- p(X, Y), f(Y, Z).",
    "two of them": BASE + "q(X, Z) :- p(X, Y), f(Y, Z). p(X, Z) :- q(X, Y), q(Y, Z). q(X, Y) :- p(Y, X), g(X, Y).",
    "probed": BASE + "p(X, Z) :- p(X, Y), p(Y, Z), p(Z, X). p(X, Z) :- e(X, Y), p(Y, Z).",
    "a repeated variable": BASE + "p(X, Z) :- e(X, Y), p(Y, Z). p(Y, Y) :- p(X, Y), f(Y, Y). p(X, X) :- p(X, Y).",
    "pairs beyond the matrix": BASE + "p(X, Z) :- e(X, Y), p(Y, Z). p(X, Z + 100) :- p(X, Z), f(X, Z), Z < 500.",
    "rows beyond the matrix": BASE + "p(X, Z) :- p(X, Y), e(Y, Z). p(X + 100, Z) :- p(X, Z), f(X, Z), X < 500.",
    "negation above": BASE + "p(X, Z) :- e(X, Y), p(Y, Z). n(X, Y) :- f(X, Y), not p(X, Y).",
}


def edges(number: int, seed: int, nodes: int = 50) -> list[tuple[int, int]]:
    pairs = np.random.default_rng(seed).integers(0, nodes, (number, 2))
    return [(int(x), int(y)) for x, y in pairs]


def facts(seed: int) -> dict[str, list[tuple[int, int]]]:
    return {"e": edges(90, seed), "f": edges(60, seed + 1), "g": edges(60, seed + 2)}


def state(kb: KnowledgeBase) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(kb.facts(name)) for name in kb.predicates}


def materialised(program: str, seed: int) -> tuple[KnowledgeBase, dict[str, int]]:
    kb = KnowledgeBase(program, modules=False)
    return kb, kb.update(add=facts(seed)).work


@pytest.fixture(params=[64, 4096], ids=["small buffers", "large buffers"])
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Small arrays and pauses, and bits from the first growth on."""
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 4)
    monkeypatch.setattr(tidelog.store.store, "HEAD_CELLS", request.param)
    monkeypatch.setattr(tidelog.engine.update.runner, "BUDGET", request.param)
    monkeypatch.setattr(tidelog.store.pair_bits, "PAIRS_FROM", 2)
    return monkeypatch


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
@pytest.mark.parametrize("seed", range(3))
def test_bits_change_nothing(bits: pytest.MonkeyPatch, program: str, seed: int) -> None:
    with_bits, work = materialised(program, seed)
    bits.setattr(tidelog.store.pair_bits, "PAIRS_FROM", 1 << 60)
    without, expected = materialised(program, seed)
    assert state(with_bits) == state(without)
    assert work == expected
    audit(with_bits, oracle=False)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
@pytest.mark.parametrize("maintenance", ["auto", "dred-counting", "backward-forward"])
def test_updates_after_bits(bits: pytest.MonkeyPatch, program: str, maintenance: str) -> None:
    kb = KnowledgeBase(program, maintenance=maintenance, modules=False)
    explicit = facts(7)
    for start in range(0, 90, 30):
        kb.update(add={name: rows[start : start + 30] for name, rows in explicit.items()})
    kb.update(delete={"e": explicit["e"][:5]}, add={"f": [(1, 2), (60, 61)]})
    again = KnowledgeBase(program, maintenance="recompute", modules=False)
    again.update(add={name: list(kb.explicit(name)) for name in ("e", "f", "g")})
    assert state(kb) == state(again)
    audit(kb, oracle=False)


def marked_stream(seed: int, maintenance: str) -> tuple[list[dict[str, int]], dict[str, set[tuple[object, ...]]]]:
    """The work of each update of a marked stream in which two rules copy the same facts, and what holds in the end."""
    copies = "p(X, Y) :- e(X, Y). p(X, Y) :- f(X, Y). q(X, Z) :- p(X, Y), p(Y, Z)."
    kb = KnowledgeBase(copies, maintenance=maintenance, modules=False)
    kb.update(add={"e": edges(8, seed, nodes=12)})
    stream = [
        {
            "delete": {name: edges(15, 7 * step + place + seed, nodes=12) for place, name in enumerate("ef")},
            "add": {name: edges(25, 7 * step + place + seed + 2, nodes=12) for place, name in enumerate("ef")},
        }
        for step in range(1, 7)
    ]
    return [change.work for change in kb.stream(stream, marking=True)], state(kb)


@pytest.mark.parametrize("maintenance", ["backward-forward", "dred"])
def test_marks_stay_with_their_facts(bits: pytest.MonkeyPatch, maintenance: str) -> None:
    with_bits = [marked_stream(seed, maintenance) for seed in range(20)]
    bits.setattr(tidelog.store.pair_bits, "PAIRS_FROM", 1 << 60)
    assert with_bits == [marked_stream(seed, maintenance) for seed in range(20)]


def postponed(kb: KnowledgeBase) -> set[str]:
    return {relation.name for relation in kb._engine.store.postponed}


def test_the_table_waits_until_somebody_looks(bits: pytest.MonkeyPatch) -> None:
    kb, _ = materialised(PROGRAMS["right-linear"], 1)
    assert postponed(kb) == {"p"}
    some = next(iter(kb.facts("p")))
    assert postponed(kb) == {"p"}
    assert some in kb.facts("p")
    kb.update(add={"e": [(1, 1)]})
    assert postponed(kb) <= {"p"}
    audit(kb, oracle=False)
    assert postponed(kb) == set()


def test_a_plan_that_looks_for_single_facts_needs_the_table(bits: pytest.MonkeyPatch) -> None:
    kb, _ = materialised(PROGRAMS["probed"], 1)
    assert postponed(kb) == set()


@pytest.mark.parametrize("enough", [200, 800, 1500])
def test_undone_where_facts_are_not_in_the_table(bits: pytest.MonkeyPatch, enough: int) -> None:
    kb = KnowledgeBase(PROGRAMS["non-linear"], modules=False, max_facts=enough)
    kb.update(add={"e": [(1, 2), (2, 3)]})
    before = state(kb)
    with pytest.raises(LimitError):
        kb.update(add={"e": edges(90, 1)})
    assert state(kb) == before
    audit(kb, oracle=False)


@pytest.mark.parametrize("program", ["right-linear", "non-linear", "pointers"])
def test_undone_where_memory_runs_out(bits: pytest.MonkeyPatch, program: str) -> None:
    explicit = facts(2)
    for number in count(1):
        kb = KnowledgeBase(PROGRAMS[program], modules=False)
        kb.update(add={"e": [(1, 2), (2, 3)]})
        before = state(kb)
        with faulty_memory(number) as trigger, suppress(MemoryError):
            kb.update(add=explicit)
        if trigger.count < number:
            break
        assert state(kb) == before
        audit(kb, oracle=False)
    assert number > 5
