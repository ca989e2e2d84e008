"""Saved closures: over closures, with twins, inside a recursion, and read by negation and aggregates, in every order of
the rules. What is opened shows the same facts, and goes on as a knowledge base does that was never saved."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit import audit, fingerprint
from tidelog import KnowledgeBase

# What a level of closures is made of, above the predicate `{below}`.
LEVELS = (
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {below}(X, Y), {p}(Y, Z)."),
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {p}(X, Y), {below}(Y, Z)."),
    ("{p}(Y, X) :- {below}(X, Y).", "{p}(X, Z) :- {below}(Y, X), {p}(Y, Z)."),
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {p}(X, Y), {p}(Y, Z)."),
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {p}(X, Y), {p}(Y, Z), X != Z."),
    ("{p}(X, Y) :- {below}(X, Y), X != Y.", "{p}(X, Z) :- {below}(X, Y), {p}(Y, Z), X != Z."),
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {p}(X, Y), {p}(Y, Z).", "{p}(X, Y) :- {p}(Y, X)."),
    (
        "{p}(X, Y) :- {below}(X, Y).",
        "{p}(X, Z) :- {p}(X, Y), {p}(Y, Z).",
        "{p}_back(X, Y) :- {p}(Y, X).",
        "{p}(X, Y) :- {p}_back(Y, X).",
    ),
    (
        "{p}_same(X, Y) :- {below}(X, Y).",
        "{p}(X, Z) :- {p}(X, Y), {p}_same(Y, Z).",
        "{p}_same(X, Y) :- {p}(X, Y).",
        "{p}(X, Y) :- {p}_same(X, Y).",
    ),
    # A closure that is only part of a recursion.
    ("{p}(X, Y) :- {below}(X, Y).", "{p}(X, Z) :- {p}(X, Y), {p}(Y, Z).", "{p}(Y, X) :- {p}(X, Y), one(X), one(Y)."),
)
READERS = (
    "only(X) :- {p}(X, Y), not {p}(Y, X).",
    "reached(X, count(Y)) :- {p}(X, Y).",
    "both(X) :- {p}(X, X), e(X, Y).",
)
NODES = range(1, 8)


def stacked(dice: random.Random) -> str:
    """Closures over closures over `e`, and what reads the upper ones; the rules in any order."""
    rules: list[str] = []
    below = "e"
    for depth in range(dice.randint(2, 4)):
        # The names sort in a different order than the levels.
        name = f"{dice.choice('abcxyz')}{depth}"
        rules += [rule.format(p=name, below=below) for rule in dice.choice(LEVELS)]
        below = name
    rules += [reader.format(p=below) for reader in READERS if dice.random() < 0.5]
    dice.shuffle(rules)
    return " ".join(rules)


def edges(dice: random.Random, count: int) -> list[tuple[Any, ...]]:
    return [(dice.choice(NODES), dice.choice(NODES)) for _ in range(count)]


def updates(dice: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(3):
        yield {"add": {"e": edges(dice, 2), "one": [(dice.choice(NODES),)]}, "delete": {"e": edges(dice, 8)}}


def test_a_closure_over_a_closure_that_its_rules_name_later(tmp_path: Path) -> None:
    upper = "t(X, Y) :- p(X, Y). t(X, Z) :- p(X, Y), t(Y, Z)."
    lower = "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z)."
    for text in (upper + lower, lower + upper):
        kb = KnowledgeBase(text + "e(1, 2). e(2, 3). e(3, 4).")
        kb.save(tmp_path)
        opened = KnowledgeBase.open(tmp_path)
        assert set(opened.facts("t")) == set(kb.facts("t")) == {(x, y) for x in (1, 2, 3) for y in range(x + 1, 5)}
        opened.update(add={"e": [(4, 5)]})
        assert (1, 5) in opened.facts("t")


@pytest.mark.plain
@pytest.mark.parametrize("seed", range(12))
def test_stacked_closures_in_every_order_of_their_rules(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    rules = stacked(dice)
    kb = KnowledgeBase(rules)
    kb.update(add={"e": edges(dice, 9), "one": [(1,), (2,)]})
    opened = kb
    for update in updates(dice):
        opened.save(tmp_path)
        opened = KnowledgeBase.open(tmp_path)
        assert fingerprint(opened) == fingerprint(kb), rules
        expected, change = kb.update(**update), opened.update(**update)
        assert (change.added, change.removed) == (expected.added, expected.removed), rules
    fresh = KnowledgeBase(rules)
    fresh.update(add={name: list(kb.explicit(name)) for name in kb.explicit_predicates})
    assert {name: set(opened.facts(name)) for name in fresh.predicates} == {
        name: set(fresh.facts(name)) for name in fresh.predicates
    }, rules
    audit(opened)
