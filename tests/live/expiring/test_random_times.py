"""Random programs with windows and facts that expire, at random times, against an evaluator that filters facts by
age.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naive_time import TimedState
from tidelog import KnowledgeBase
from tidelog.engine.algorithms.names import Maintenance
from tidelog.moments import moment_at

Update = dict[str, Any]

# Explicit facts: seen(X, Y) by when they came in, sent(X, T) by their own time, node(X) for ever.
RULES = (
    "young(X, Y) :- seen(X, Y) in last 3 s.",
    "young(X, X) :- sent(X, _) , seen(X, _) in last 7 s.",
    "path(X, Y) :- seen(X, Y) in last 7 s.",
    "path(X, Z) :- path(X, Y), path(Y, Z).",
    "reach(X, Y) :- seen(X, Y).",
    "reach(X, Z) :- reach(X, Y), seen(Y, Z) in last 12 s.",
    "quiet(X) :- node(X), not seen(X, _) in last 3 s.",
    "degree(X, count(Y)) :- seen(X, Y) in last 7 s.",
    "total(sum(Y)) :- seen(_, Y) in last 12 s.",
    "recent(X) :- sent(X, T) in last 4 s by T.",
    "last(X, max(T)) :- sent(X, T) in last 9 s by T.",
    "lost(X) :- sent(X, _), not recent(X).",
    "both(X) :- sent(X, T) in last 4 s by T, seen(X, _) in last 3 s.",
    "many(N) :- N = count { X : seen(X, _) in last 3 s }.",
    "either(X) :- ( sent(X, _) in last 2 s ; seen(X, _) in last 1.5 s ).",
)
EXPIRIES = ("@expire seen 5 s.", "@expire seen 20 s.", "@expire sent(_, T) 6 s by T.", "@expire node 10 s.")
NODES = range(4)


def make_update(dice: random.Random, now: float, state: TimedState) -> Update:
    """An update at some time: mostly a bit later, sometimes late, sometimes without a time of its own."""
    update: Update = {}
    if dice.random() < 0.8:
        update["at"] = max(0.0, now + dice.choice((-3, -0.5, 0, 0.5, 1, 2, 3, 6)))
    for key, chance in (("add", 0.8), ("delete", 0.3)):
        if dice.random() < chance:
            update[key] = {
                "seen": [(dice.choice(NODES), dice.choice(NODES)) for _ in range(dice.randrange(4))],
                "sent": [(dice.choice(NODES), int(now) + dice.randrange(-6, 2)) for _ in range(dice.randrange(2))],
                "node": [(dice.choice(NODES),) for _ in range(dice.randrange(2))],
            }
    if dice.random() < 0.3:
        update |= _rule_change(dice, state)
    return update


def _rule_change(dice: random.Random, state: TimedState) -> Update:
    known = [str(rule.written) for rule in state.rules] + [str(expiry) for expiry in state.expiries.values()]
    gone = dice.sample(known, min(len(known), dice.randrange(2)))
    left = {expiry.predicate for expiry in state.expiries.values() if str(expiry) not in gone}
    come = [dice.choice(RULES)]
    expiry = dice.choice(EXPIRIES)
    if expiry.split()[1].partition("(")[0] not in left:
        come.append(expiry)
    return {"add_rules": " ".join(come), "remove_rules": " ".join(gone)}


def beginning(dice: random.Random) -> str:
    expiries = {each.split()[1].partition("(")[0]: each for each in dice.sample(EXPIRIES, dice.randrange(4))}
    return " ".join([*dice.sample(RULES, dice.randrange(2, 8)), *expiries.values()])


def facts_of(kb: KnowledgeBase) -> dict[str, set[Any]]:
    return {name: set(kb.facts(name)) for name in kb.predicates if len(kb.facts(name))}


def check_run(
    seed: int, maintenance: str, steps: int, each: Callable[[KnowledgeBase, random.Random], KnowledgeBase]
) -> None:
    dice = random.Random(seed)
    state, now = TimedState(), 10.0
    text = beginning(dice)
    kb = KnowledgeBase(text, maintenance=maintenance)
    state.update(add_rules=text)
    for step in range(steps):
        before = facts_of(kb)
        update = make_update(dice, now, state)
        expected = state.copy()
        expected.update(**update)
        wanted = expected.materialise()
        place = (seed, step, update)
        assert _changed(kb.what_if(**update), before) == wanted, place
        assert facts_of(kb) == before, place
        change = kb.update(**update)
        assert facts_of(kb) == wanted, place
        assert _changed(change, before) == wanted, place
        state = expected
        if state.time is not None:
            assert kb.time == moment_at(state.time)
            now = state.time / 1e6
        kb = each(kb, dice)


def _changed(change: Any, before: dict[str, set[Any]]) -> dict[str, set[Any]]:
    """The facts after a change: all that it removes was there, and nothing that it adds."""
    after = {name: set(rows) for name, rows in before.items()}
    for name, rows in change.removed.items():
        assert set(rows) <= after[name]
        after[name] -= set(rows)
    for name, rows in change.added.items():
        assert not set(rows) & after.get(name, set())
        after.setdefault(name, set()).update(rows)
    return {name: rows for name, rows in after.items() if rows}


@pytest.mark.parametrize("maintenance", [each.value for each in Maintenance])
def test_agrees_with_the_oracle(maintenance: str) -> None:
    for seed in range(6):
        check_run(seed, maintenance, 12, lambda kb, _: kb)


def test_saved_opened_and_replayed(tmp_path: Path) -> None:
    """Whatever happens to a folder in between, deadlines are the same."""
    folders: list[Path] = []

    def each(kb: KnowledgeBase, dice: random.Random) -> KnowledgeBase:
        how = dice.randrange(4)
        if how == 0:
            folders.append(tmp_path / str(len(folders)))
            kb.save(folders[-1])
        if how == 0 or (how == 1 and kb is journalled[0]):
            kb.close()
            journalled[0] = KnowledgeBase.open(folders[-1], journal=True)
            return journalled[0]
        return kb

    for seed in range(100, 106):
        journalled: list[KnowledgeBase | None] = [None]
        check_run(seed, "auto", 14, each)
    assert len(folders) > 8
