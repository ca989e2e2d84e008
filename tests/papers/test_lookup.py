"""Instances that are found on demand are those that are found beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from generate import POSITIVE, soak
from tidelog import KnowledgeBase
from tidelog.language import parse_program
from tidelog.papers.instances import Fact, Instance, Instances
from tidelog.papers.lookup import InstancesOnDemand


def texts(instances: Iterable[Instance]) -> Counter[str]:
    return Counter(f"{each.rule} {each}" for each in instances)


def both(text: str) -> tuple[dict[Fact, None], Instances, InstancesOnDemand]:
    kb = KnowledgeBase(text, maintenance="dred", trace="paper")
    state = kb._knowledge.tracer.begin()  # type: ignore[union-attr]
    facts = state.facts()
    rules = [rule for rule in state.instances if all(hasattr(item, "predicate") for item in rule.body)]
    found = Instances(each for rule in rules for each in state.instances[rule])
    return facts, found, InstancesOnDemand(rules, facts)


@pytest.mark.parametrize("seed", range(30))
def test_each_instance_is_found_from_its_head_and_once_from_each_body_fact(seed: int) -> None:
    case, _ = soak(seed, POSITIVE)
    facts, before, on_demand = both(str(case.state))
    assert texts(on_demand.all) == texts(before.all)
    for fact in facts:
        assert texts(on_demand.deriving(fact)) == texts(before.deriving(fact))
        assert texts(on_demand.using(fact)) == texts(before.using(fact))


def test_constants_and_variables_that_stand_twice() -> None:
    facts, before, on_demand = both(
        "p(X, X) :- q(X). r(X) :- p(X, X), s(X, b). t(X, c) :- s(X, Y), s(X, Z). q(a). s(a, b). s(a, c)."
    )
    for fact in facts:
        assert texts(on_demand.using(fact)) == texts(before.using(fact))
        assert texts(on_demand.deriving(fact)) == texts(before.deriving(fact))
    assert len(list(on_demand.all)) == 6


def test_negation_cannot_be_looked_up() -> None:
    with pytest.raises(ValueError, match="positive atoms"):
        InstancesOnDemand(parse_program("p(X) :- q(X), not r(X).").rules, [])
