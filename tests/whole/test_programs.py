"""Every example program × every maintenance algorithm × modules on and off × ways to bring the facts in: one result."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from engine_util import ALGORITHMS
from naive import Database, database, without_empty
from programs_util import Example, examples, row_key
from tidelog import KnowledgeBase
from tidelog.cli.console import answer_lines
from tidelog.language import render
from tidelog.language.syntax import Constant

Fact = tuple[str, tuple[Constant, ...]]

EXAMPLES = examples()


def all_facts(example: Example) -> list[Fact]:
    """The explicit facts in a random order that is the same every time."""
    facts = sorted(
        ((name, row) for name, rows in example.facts.items() for row in rows),
        key=lambda fact: (fact[0], row_key(fact[1])),
    )
    random.Random(example.name).shuffle(facts)
    return facts


def batch(facts: Iterable[Fact]) -> dict[str, list[tuple[object, ...]]]:
    """Facts as an update takes them."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    for name, row in facts:
        rows.setdefault(name, []).append(tuple(cell.value for cell in row))
    return rows


def at_once(kb: KnowledgeBase, facts: list[Fact]) -> None:
    kb.update(add=batch(facts))


def one_by_one(kb: KnowledgeBase, facts: list[Fact]) -> None:
    for fact in facts:
        kb.update(add=batch([fact]))


def to_and_fro(kb: KnowledgeBase, facts: list[Fact]) -> None:
    """Add all facts, delete one half and then the other, and add everything back in pieces."""
    half = len(facts) // 2
    kb.update(add=batch(facts))
    kb.update(delete=batch(facts[:half]))
    kb.update(delete=batch(facts[half:]), add=batch(facts[: half // 2]))
    kb.update(add=batch(facts[half // 2 :]))


def rules_last(kb: KnowledgeBase, facts: list[Fact]) -> None:
    """Remove all rules once the facts are there, and add them again."""
    kb.update(add=batch(facts))
    rules = "\n".join(kb.rules)
    kb.update(remove_rules=rules)
    kb.update(add_rules=rules)


WAYS: tuple[Callable[[KnowledgeBase, list[Fact]], None], ...] = (at_once, one_by_one, to_and_fro, rules_last)


def rules_of(example: Example) -> str:
    """The program without its facts and queries."""
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in example.prefixes.items())
    return prefixes + "\n".join(render(rule, example.prefixes) for rule in example.rules)


def derived(kb: KnowledgeBase, example: Example) -> Database:
    return without_empty(database({name: list(kb.facts(name)) for name in example.derived}))


def answers_of(kb: KnowledgeBase, example: Example) -> str:
    """The answers to the queries of an example, as `tidelog run` prints them."""
    lines = [
        line
        for query in example.program.queries
        for line in answer_lines(query, kb.query(str(query)), example.prefixes)
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.plain
@pytest.mark.parametrize("modules", [True, False], ids=["modules", "general"])
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_way_to_a_program_s_facts_gives_the_expected_ones(
    example: Example, maintenance: str, modules: bool
) -> None:
    facts = all_facts(example)
    for way in WAYS:
        kb = KnowledgeBase(rules_of(example), maintenance=maintenance, modules=modules)
        way(kb, facts)
        assert derived(kb, example) == without_empty(example.expected), way.__name__
        if example.program.queries:
            assert answers_of(kb, example) == example.expected_answers, way.__name__
