"""The examples of Fully Dynamic Materialization Maintenance under every schedule of their operations, enumerated.

An update may come in between any two steps, and any step may be next. Each schedule has to end, in mat(P, E).
"""

from __future__ import annotations

import pytest

from operations_util import VARIANTS, Exploration, Toggle
from tidelog import KnowledgeBase

CYCLE = "b :- a. c :- b. a :- c."

EXAMPLES = {
    # rules, facts at the beginning, updates, facts at the end
    "1: invalid addition": (CYCLE, "", [Toggle(add="a"), Toggle(delete="a")], ""),
    "2: invalid deletion": (CYCLE + "a :- d.", "a", [Toggle(add="d", delete="a")], "a b c d"),
    "3: deletion without derivation": (
        "b :- a. c :- a. c :- d.",
        "",
        [Toggle(add="a d"), Toggle(delete="a")],
        "c d",
    ),
    "4: duplicate derivation": ("b :- a. c :- a.", "a", [Toggle(delete="a"), Toggle(add="a")], "a b c"),
    "the alternative of section 3.1.1: c has another derivation": (
        CYCLE + "c :- d.",
        "a d",
        [Toggle(delete="a")],
        "a b c d",
    ),
    "deleted, added and deleted again in a cycle": (
        CYCLE,
        "a",
        [Toggle(delete="a"), Toggle(add="a"), Toggle(delete="a")],
        "",
    ),
    "two facts of one body": (
        "c :- a, b. d :- c. c :- d.",
        "a b",
        [Toggle(delete="a"), Toggle(add="a", delete="b"), Toggle(add="b")],
        "a b c d",
    ),
    "two cycles that meet": (
        "b :- a. a :- b. c :- b. b :- c.",
        "a c",
        [Toggle(delete="a"), Toggle(delete="c")],
        "",
    ),
    "negation": (
        "b :- a. c :- d, not b. e :- c. c :- e, not b.",
        "d",
        [Toggle(add="a"), Toggle(delete="a"), Toggle(add="b")],
        "b d",
    ),
    "negation, twice": (
        "b :- not a. c :- not b, d.",
        "d",
        [Toggle(add="a"), Toggle(delete="d"), Toggle(add="d")],
        "a c d",
    ),
}

# Of the paper's examples, as the documentation gives them.
SCHEDULES = {
    "dred": {"1": 4_259, "2": 424_744, "3": 177_304, "4": 15_057},
    "counting": {"1": 242, "2": 4_985, "3": 34_965, "4": 615},
}


@pytest.mark.parametrize("maintenance", VARIANTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_schedule_ends_in_the_materialisation(name: str, maintenance: str) -> None:
    rules, facts, updates, expected = EXAMPLES[name]
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add={fact: [()] for fact in facts.split()})
    exploration = Exploration(kb, maintenance, updates)
    schedules = exploration.explore()
    assert exploration.ends == {frozenset(expected.split())}
    assert schedules == SCHEDULES[maintenance].get(name[0], schedules)
