"""What Python programs may pass in: anything else is refused with an error of tidelog, and nothing is half applied."""

from __future__ import annotations

import copy
import math
import pickle
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidelog import KnowledgeBase, TidelogError


def submit_and_settle(kb: KnowledgeBase, update: dict[str, Any]) -> None:
    live = kb.live()
    live.submit(**update)
    live.settle()


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"add": [("p", (1,))]}, "`add` is a mapping of predicates to rows, .*, not a list"),
        ({"delete": b"p(1)."}, "`delete` is a mapping of predicates to rows"),
        ({"delete": "p(1"}, "<delete>:1:4: expected"),
        ({"add": "p(1). q(X) :- p(X)."}, "<add>:1:7: a rule stands among facts"),
        ({"add": {1: [(1,)]}}, "a predicate is named by a text, .* not by 1"),
        ({"add_rules": 5}, "`add_rules` is a text in the language, not 5 of type int"),
        ({"remove_rules": ["p(X) :- q(X)."]}, "`remove_rules` is a text"),
    ],
)
def test_updates_are_checked(update: dict[str, Any], message: str) -> None:
    kb = KnowledgeBase("p(0).")
    with pytest.raises(TidelogError, match=message):
        kb.update(**update)
    with pytest.raises(TidelogError, match=message):
        list(kb.stream([update]))
    with pytest.raises(TidelogError, match=message):
        submit_and_settle(kb, update)
    assert list(kb.facts("p")) == [(0,)]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"timeout": "x"}, "`timeout` is a number of seconds .*, not 'x'"),
        ({"timeout": math.nan}, "not nan"),
        ({"timeout": -1}, "not -1"),
        ({"timeout": True}, "not True"),
        ({"max_facts": -1}, "`max_facts` is a whole number from 0 on, .*, not -1"),
        ({"max_facts": 1.5}, "not 1.5"),
        ({"rules_text": 5}, "`rules_text` is a text"),
    ],
)
def test_options_are_checked(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(TidelogError, match=message):
        KnowledgeBase(**limits)


def test_limits_from_nought_on_are_limits() -> None:
    kb = KnowledgeBase(max_facts=1, timeout=math.inf)
    kb.update(add={"p": [(1,)]})
    assert len(kb) == 1


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("a b", len, "'a b' cannot name a function"),
        ("not", len, "'not' cannot name a function"),
        (3, len, "3 cannot name a function"),
        ("f", 3, "`f` cannot be registered: 3 cannot be called"),
        ("count", len, "`count` is an aggregate"),
        ("abs", len, "`abs` is a function of the language"),
        ("neg", len, "`neg` is a function of the language"),
    ],
)
def test_functions_are_checked(name: Any, function: Any, message: str) -> None:
    with pytest.raises(TidelogError, match=message):
        KnowledgeBase().register(name, function)


def test_names_and_queries_are_texts() -> None:
    kb = KnowledgeBase()
    for ask in (kb.facts, kb.explicit, kb.query):
        with pytest.raises(TidelogError, match="text"):
            ask(1)  # type: ignore[operator]


class Colour(str):
    def __str__(self) -> str:
        return f"the colour {self!r}"


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize("table", [False, True])
def test_values_of_subclasses_are_what_they_stand_for(table: bool) -> None:
    rows = [(Colour("red"), Level.LOW, np.float64(0.5)), ("blue", 2, 1.5)]
    kb = KnowledgeBase()
    kb.update(add={"p": pd.DataFrame(rows, dtype=object) if table else rows})
    assert set(map(repr, kb.facts("p"))) == {"('red', 1, 0.5)", "('blue', 2, 1.5)"}
    assert rows[0] in kb.facts("p")


def test_a_knowledge_base_is_not_copied() -> None:
    """The copy would share the arrays, but have its own rules and names."""
    for copies in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TidelogError, match="cannot be copied or pickled; `save` it"):
            copies(KnowledgeBase("p(1)."))
