"""Rules whose heads cover what they scan: facts come into an empty relation without a look at its hash table.

Neither facts nor derivations may depend on that.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import tidelog.engine.update.runner
import tidelog.machine.array_memory
import tidelog.store.store
from audit import audit, fingerprint
from faults import faulty_memory
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import LimitError

RULES = {
    "a copy": "p(X, Y) :- q(X, Y).",
    "turned round": "p(Y, X) :- q(X, Y).",
    "one column": "p(X) :- u(X).",
    "three columns": "p(Z, X, Y) :- t(X, Y, Z).",
    "a constant": "p(X, here, Y) :- q(X, Y).",
    "a column twice": "p(X, Y, X) :- q(X, Y).",
    "a join": "p(X, Y) :- q(X, Y), r(Y, Z).",
    "a join with three columns": "p(X, Y) :- q(X, Y), t(Z, X, V).",
    "a join with itself": "p(X, Y) :- q(X, Y), q(Y, Z).",
}
NO_COVER = {
    "a projection": "p(X) :- q(X, Y).",
    "a column of the join": "p(X, Z) :- q(X, Y), r(Y, Z).",
    "a repeated variable": "p(X) :- q(X, X).",
    "a constant in the body": "p(X) :- q(X, 3).",
}
READERS = "above(Y) :- p(X, Y), q(Y, Z). "
MORE_OF_PAIRS = f"p(X, Y) :- r(X, Y). p(X, Y) :- r(X, Y), u(Y). {READERS}"


def facts(seed: int) -> dict[str, list[tuple[int, ...]]]:
    chosen = random.Random(seed)
    sizes = {"u": (1, 30), "q": (2, 60), "r": (2, 40), "t": (3, 40)}
    return {
        name: [tuple(chosen.randrange(12) for _ in range(arity)) for _ in range(size)]
        for name, (arity, size) in sizes.items()
    }


def postponed(kb: KnowledgeBase) -> set[str]:
    return {relation.name for relation in kb._engine.store.postponed}


@pytest.fixture(params=[1, 7, 1 << 20], ids=["a pause at each fact", "some pauses", "no pause"])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> pytest.MonkeyPatch:
    """Relations have no room to begin with, and kernels pause often."""
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    monkeypatch.setattr(tidelog.engine.update.runner, "BUDGET", request.param)
    return monkeypatch


@pytest.mark.plain
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_facts_come_and_are_found_later(small: pytest.MonkeyPatch, rule: str) -> None:
    kb = KnowledgeBase()
    given = facts(1)
    kb.update(add=given)
    change = kb.add_rules(rule)
    assert postponed(kb) == {"p"}
    assert change.work["insertion"] >= len(change.added["p"]) == len(kb.facts("p"))
    assert change.added["p"] == set(kb.facts("p"))
    assert postponed(kb) == {"p"}
    audit(kb)
    kb.remove_rules(rule)
    kb.add_rules(rule)
    for name, rows in given.items():
        kb.update(delete={name: rows[::3]})
        audit(kb)
        kb.update(add={name: rows[::2], "p": [tuple(range(kb._catalogue.arities["p"]))]})
        audit(kb)


@pytest.mark.plain
@pytest.mark.parametrize("rule", NO_COVER.values(), ids=NO_COVER)
def test_heads_that_may_be_the_same_are_looked_for(small: pytest.MonkeyPatch, rule: str) -> None:
    kb = KnowledgeBase()
    kb.update(add=facts(2))
    kb.add_rules(rule)
    assert postponed(kb) == set()
    audit(kb)


@pytest.mark.parametrize("maintenance", ["auto", "counting", "recompute", "dred"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_and_facts_that_come_at_once(small: pytest.MonkeyPatch, rule: str, maintenance: str) -> None:
    others = MORE_OF_PAIRS if rule.startswith(("p(X, Y) ", "p(Y, X) ")) else ""
    kb = KnowledgeBase(rule + others, maintenance=maintenance)
    given = facts(3)
    kb.update(add=given)
    audit(kb)
    kb.update(delete={name: rows[:20] for name, rows in given.items()})
    audit(kb)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_failed_update_leaves_nothing(small: pytest.MonkeyPatch, rule: str) -> None:
    given = facts(4)
    kb = KnowledgeBase(max_facts=sum(len(set(rows)) for rows in given.values()) + 5)
    kb.update(add=given)
    before = fingerprint(kb)
    with pytest.raises(LimitError):
        kb.add_rules(rule)
    assert fingerprint(kb) == before
    audit(kb)


def test_memory_that_runs_out_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    for number in count(1):
        kb = KnowledgeBase(READERS)
        kb.update(add=facts(5))
        before = fingerprint(kb)
        with faulty_memory(number, also=(tidelog.machine.array_memory,)) as trigger, suppress(MemoryError):
            kb.add_rules(RULES["a join"])
        if trigger.count < number:
            break
        assert fingerprint(kb) == before
        audit(kb)
    assert number > 3


def test_what_has_no_table_is_saved(small: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kb = KnowledgeBase(RULES["a join"])
    kb.update(add=facts(6))
    assert postponed(kb) == {"p"}
    kb.save(tmp_path)
    opened = KnowledgeBase.open(tmp_path)
    assert set(opened.facts("p")) == set(kb.facts("p"))
    audit(opened)


def test_a_stream_looks_for_any_fact(small: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(RULES["a copy"])
    given = facts(7)
    for _ in kb.stream([{"add": given}, {"delete": {"q": given["q"][:9]}}]):
        assert postponed(kb) == set()
    audit(kb)
