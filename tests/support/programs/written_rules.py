"""Random rules as people write them, and what must hold of random rules of any form, beside the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import naive
from engine_util import materialisation
from tidelog import KnowledgeBase
from tidelog.errors import ArityError, StratificationError, UnsafeRuleError
from tidelog.language import parse_program, parse_rules
from tidelog.language.printer import plain_text

Fact = tuple[str, tuple[Any, ...]]
ARITIES = {"a": 1, "b": 1, "e": 2, "f": 2}


class Maker(Protocol):
    """Makes facts, and rules of some form. What is unsafe or not stratified is left out by whoever asks."""

    def fact(self) -> Fact: ...

    def rule(self, name: str) -> str: ...


class WrittenRules:
    """Makes rules of all forms over small numbers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fact(self) -> Fact:
        name = self._random.choice(list(ARITIES))
        return name, tuple(self._random.randrange(4) for _ in range(ARITIES[name]))

    def rule(self, name: str) -> str:
        chance = self._random.random()
        body = self._body("XY", 2)
        if chance < 0.2:
            return f"{name}(X), q{name}(X, Y) :- {body}."
        if chance < 0.4:
            return f"{name}({self._random.choice(('count', 'sum', 'max'))}(X)) :- {body}."
        return f"{name}(X, Y) :- {body}."

    def _body(self, names: str, depth: int) -> str:
        atoms = [self._atom(names) for _ in range(self._random.randint(1, 2))]
        return ", ".join([*atoms, *(self._item(names, depth) for _ in range(self._random.randint(0, 2)))])

    def _atom(self, names: str) -> str:
        name = self._random.choice([*ARITIES, "p0"] if self._random.random() < 0.1 else list(ARITIES))
        arity = ARITIES.get(name, 2)
        terms = (self._random.choice((*names, *names, str(self._random.randrange(4)), "_")) for _ in range(arity))
        return f"{name}({', '.join(terms)})"

    def _item(self, names: str, depth: int) -> str:
        choice, variable = self._random.randrange(6 if depth else 3), self._random.choice(names)
        if choice == 0:
            return f"not {self._atom(names)}"
        if choice == 1:
            return f"{variable} {self._random.choice(('<', '!=', '='))} {self._random.choice((*names, '2'))}"
        if choice == 2:
            return f"{variable} in range({self._random.choice(('0', *names))}, {self._random.randint(1, 4)})"
        if choice == 3:
            return f"( {self._body(names, depth - 1)} ; {self._body(names, depth - 1)} )"
        function = self._random.choice(("count", "sum", "min", "max"))
        aggregate = f"{function} {{ Z : {self._body(names + 'Z', depth - 1)} }}"
        return f"{variable} {self._random.choice(('=', '<', '>='))} {aggregate}"


def is_special(text: str) -> bool:
    """Whether a rule has a form that plain rules stand for."""
    return any(rule.origin is not None for rule in parse_rules(text, {}))


def accepted(maker: Maker, most: int = 3, wanted: Callable[[str], bool] = is_special) -> list[str]:
    """Rules that can be evaluated beside each other, by the oracle too, which keeps no best values for bodies."""
    kept: list[str] = []
    for _ in range(60):
        text = maker.rule(f"p{len(kept)}")
        try:
            if not wanted(text):
                continue
            KnowledgeBase("\n".join([*kept, text]))
            naive.materialise(parse_rules("\n".join([*kept, text]), {}), {})
        except (UnsafeRuleError, StratificationError, ArityError):
            continue
        kept.append(text)
        if len(kept) == most:
            break
    return kept


def rows_of(facts: Iterable[Fact]) -> dict[str, list[tuple[Any, ...]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for name, row in sorted(facts, key=repr):
        rows.setdefault(name, []).append(row)
    return rows


def check_rules(maker: Maker, texts: list[str], maintenance: str, size: int) -> None:
    """Updates of facts, so many at a time, and of all rules must lead where the oracle says."""
    rules = [rule for text in texts for rule in parse_rules(text, {})]
    kb = KnowledgeBase("\n".join(texts), maintenance=maintenance)
    facts: set[Fact] = set()
    for step in range(3):
        come = {maker.fact() for _ in range(size)}
        gone = {fact for number, fact in enumerate(sorted(facts, key=repr)) if (number + step) % 3 == 0}
        facts = (facts - gone) | come
        kb.update(add=rows_of(come), delete=rows_of(gone))
        assert materialisation(kb) == naive.materialise(rules, rows_of(facts)), (texts, sorted(facts, key=repr))
    for text in texts:
        kb.remove_rules(text)
    assert materialisation(kb) == naive.materialise([], rows_of(facts)), texts
    kb.add_rules("\n".join(texts))
    assert materialisation(kb) == naive.materialise(rules, rows_of(facts)), texts


def check_printing(maker: Maker) -> None:
    """What is printed of rules must read as the same rules."""
    for text in (maker.rule("p1") for _ in range(5)):
        try:
            program = parse_program(text)
        except UnsafeRuleError:
            continue
        assert parse_program(str(program)).rules == program.rules
        for rule in program.rules:
            (plain,) = parse_rules(plain_text(rule), {})
            assert (plain.head, plain.body) == (rule.head, rule.body)
