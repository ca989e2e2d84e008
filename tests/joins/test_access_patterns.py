"""A wide predicate that rules read in many ways: each way has an index of its own, of which there may be any number."""

from __future__ import annotations

import random
from itertools import combinations, islice

import pytest

from audit import audit
from engine_util import ALGORITHMS, check_stream
from naive import State, Update, database
from tidelog.language import parse_program

ARITY = 7
VARIABLES = tuple("ABCDEFG")
KEYS = {size: f"key{size}" for size in range(1, ARITY)}
TURNING = f"wide({', '.join((*VARIABLES[1:], VARIABLES[0]))}) :- wide({', '.join(VARIABLES)}), turn(A)."


def _rules(patterns: int) -> str:
    """One rule for each set of columns by which `wide` is looked up; every fifth rule negates it."""
    subsets = (columns for size in range(1, ARITY) for columns in combinations(range(ARITY), size))
    rules = [TURNING]
    for number, columns in enumerate(islice(subsets, patterns)):
        bound = [VARIABLES[column] for column in columns]
        key = f"{KEYS[len(columns)]}({', '.join(bound)})"
        if number % 5:
            rules.append(f"out({number}, {', '.join(VARIABLES[:2])}) :- {key}, wide({', '.join(VARIABLES)}).")
        else:
            cells = ", ".join(name if name in bound else "_" for name in VARIABLES)
            rules.append(f"out({number}, {bound[0]}, {bound[-1]}) :- {key}, not wide({cells}).")
    return "\n".join(rules)


def _rows(dice: random.Random, arity: int, count: int) -> list[tuple[int, ...]]:
    return [tuple(dice.randrange(3) for _ in range(arity)) for _ in range(count)]


def _stream(dice: random.Random) -> list[Update]:
    """Keys come, so that `wide` is looked up by them; then facts of `wide` come and go."""
    keys = {name: _rows(dice, size, 2) for size, name in KEYS.items()}
    return [
        Update(add=database(keys)),
        Update(add=database({"wide": _rows(dice, ARITY, 2), "turn": [(1,)]})),
        Update(delete=database({name: rows[:1] for name, rows in keys.items()}), add=database({"turn": [(0,), (2,)]})),
        Update(delete=database({"turn": [(1,)]})),
    ]


@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("patterns", [40, 60, 100])
def test_a_predicate_may_be_read_in_any_number_of_ways(patterns: int, maintenance: str) -> None:
    dice = random.Random(patterns)
    wide = _rows(dice, ARITY, 3)
    program = parse_program(_rules(patterns))
    state = State(tuple(program.rules), database({"wide": wide}))
    kb = check_stream(state, _stream(dice), maintenance)
    assert len(kb._engine.store.relation("wide", ARITY).indexes) >= patterns
    audit(kb, oracle=False)
    stays = set(kb.facts("out"))
    kb.update(add={"wide": wide, "turn": [(1,)]})
    kb.update(delete={"turn": [(1,)]})
    assert set(kb.facts("out")) == stays
