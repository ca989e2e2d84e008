"""Keys that a recursion carries along."""

from __future__ import annotations

import pytest

from tidelog.language.parser import parse_rules
from tidelog.program.carried_keys import carried_columns


def carried(text: str, columns: dict[str, range]) -> dict[str, int] | None:
    rules = parse_rules(text, {})
    steps = [(rule.head, [atom for atom in rule.body if getattr(atom, "predicate", "") in columns]) for rule in rules]
    return carried_columns(steps, columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(X, Z) :- p(X, Y), e(Y, Z).", {"p": 0}),
        ("p(X, Z) :- e(X, Y), p(Y, Z).", {"p": 1}),
        ("p(X, Z) :- p(X, Y), p(Y, Z).", None),
        ("p(X, Z) :- p(X, Y), e(Y, Z). p(X, Z) :- e(X, Y), p(Y, Z).", None),
        ("p(X, Y) :- q(Y, X), e(X). q(Y, X) :- p(X, Y), f(Y).", {"p": 0, "q": 1}),
        ("p(X, Y) :- q(X, X), e(Y). q(X, Y) :- p(Z, X), e(Y), e(Z).", None),
        ("p(a, Y) :- p(a, X), e(X, Y).", None),
    ],
)
def test_a_key_is_the_same_in_all_atoms_of_a_recursion(text: str, expected: dict[str, int] | None) -> None:
    columns = {name: range(2) for name in ("p", "q") if f"{name}(" in text}
    assert carried(text, columns) == expected


def test_a_key_is_in_one_of_the_columns_that_are_given() -> None:
    assert carried("p(Y, D) :- p(X, D), e(X, Y).", {"p": range(2)}) == {"p": 1}
    assert carried("p(Y, D) :- p(X, D), e(X, Y).", {"p": range(1)}) is None


def test_without_recursive_rules_there_is_no_key() -> None:
    assert carried_columns([], {}) is None
