"""Parts of a body that are checked once: which they are, and that a rule with some is still one rule."""

from __future__ import annotations

import re

import pytest

from tidelog.language import parse_rules, render
from tidelog.language.names import is_checked_once
from tidelog.language.syntax import rule_key
from tidelog.language.written.independent_parts import independent_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("q(X) :- a(_), b(_), c(_), i(X).", ["a(_)", "b(_)", "c(_)"]),
        ("a(X) :- b(X), c(Y), d(Y).", ["c(Y), d(Y)"]),
        ("q(X) :- c(Y), i(X), Y > 1, not d(Y, _).", ["c(Y), Y > 1, not d(Y, _)"]),
        ("q(1) :- a(X), b(Y).", ["a(X)", "b(Y)"]),
        ("q(X) :- i(X), c(Y), Z = Y + 1, d(Z, W).", ["c(Y), Z = Y + 1, d(Z, W)"]),
        ("q(X + Y) :- i(X), j(Y), a(_).", ["a(_)"]),
        # Nothing is joined with anything, or all of it is read:
        ("q :- a(X).", []),
        ("q(X) :- i(X), flag, a(1).", []),
        ("q(X) :- i(X), not a(_).", []),
        ("q(X, Y) :- a(X), b(Y).", []),
        ("q(X) :- a(X), e(X, _).", []),
        ("q(X) :- a(X), b(Y), X < Y.", []),
        ("q(X) :- i(X), Y = 2, Y > 1.", []),
        # Each match counts:
        ("q(count(X)) :- i(X), a(_).", []),
        ("q(min(X)) :- i(X), a(_).", []),
    ],
)
def test_which_parts_are_checked_once(text: str, parts: list[str]) -> None:
    rules = parse_rules(text, {})
    (written,) = {rule.written for rule in rules}
    found = independent_parts(written)
    assert [re.sub(r"_\d", "_", ", ".join(map(render, part))) for part in found] == parts
    assert sum(is_checked_once(rule.head.predicate) for rule in rules) == len(parts)
    assert {str(rule) for rule in rules} == {text}


def test_the_same_part_has_one_predicate() -> None:
    rules = parse_rules("p(X), q(X) :- ( i(X) ; j(X) ), a(_), a(_), c(Y), d(Y).", {})
    assert sum(is_checked_once(rule.head.predicate) for rule in rules) == 2
    assert len(rules) == 6


def test_rules_with_parts_are_the_same_up_to_names() -> None:
    one, other = (parse_rules(f"q({x}) :- i({x}), c({y}), d({y}).", {}) for x, y in ("XY", "BA"))
    assert [rule_key(rule) for rule in one] == [rule_key(rule) for rule in other]
