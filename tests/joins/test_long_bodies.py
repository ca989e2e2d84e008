"""Rules with long bodies: their plans are cheap to make and the same as if every atom were weighed at every
step, and an update that makes many plans can be stopped between two of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import tidelog
from tidelog import LimitError
from tidelog.engine.update.runner import Limits
from tidelog.language import parse_program
from tidelog.language.syntax import Atom
from tidelog.program import plan as planning
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, HEAD, Pivot, Start, make_plan

LENGTH = 60


def random_rule(choose: random.Random) -> NormalRule:
    """A rule whose body has everything that a body can hold, in any order."""
    names = [f"V{number}" for number in range(choose.randrange(1, 7))]

    def atom() -> str:
        arity = choose.randrange(4)
        terms = [choose.choice(names) if choose.random() < 0.85 else "1" for _ in range(arity)]
        return f"p{choose.randrange(3)}_{arity}({', '.join(terms)})"

    body = [f"p0_1({choose.choice(names)})", *(atom() for _ in range(choose.randrange(1, 7)))]
    bound = [name for name in names if any(name in item for item in body)]
    body += [f"{choose.choice(bound)} < {choose.choice(bound)}" for _ in range(choose.randrange(3))]
    for number in range(choose.randrange(3)):
        body.append(f"D{number} = {choose.choice([*bound, *(f'D{lower}' for lower in range(number))])} + 1")
    body += [f"not q({choose.choice(bound)}, {choose.choice([*bound, '_', 'E'])})" for _ in range(choose.randrange(3))]
    choose.shuffle(body)
    return normalise(parse_program(f"h({choose.choice(bound)}) :- {', '.join(body)}.").rules[0])


def pivots(rule: NormalRule) -> Iterator[Pivot]:
    yield ALL
    yield HEAD
    for start, atoms in ((Start.POSITIVE, rule.positives), (Start.NEGATIVE, rule.negatives)):
        yield from (Pivot(start, position) for position in range(len(atoms)))


def test_a_heap_finds_the_order_that_weighing_all_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(300):
        choose = random.Random(seed)
        rule = random_rule(choose)
        sizes: dict[Any, float] = {}

        def estimate(atom: Atom, bound: tuple[int, ...], sizes: Any = sizes, choose: Any = choose) -> float:
            return float(sizes.setdefault((atom.predicate, bound), choose.randrange(4)))

        for pivot in pivots(rule):
            plans = []
            for few in (0, 100):
                monkeypatch.setattr(planning, "FEW_ATOMS", few)
                plans.append(str(make_plan(rule, pivot, ("p0_2",), estimate)))
            assert plans[0] == plans[1]


def chain_rule(length: int) -> str:
    return f"h(X0, X{length}) :- {', '.join(f'e(X{place}, X{place + 1})' for place in range(length))}."


def test_a_long_body_is_weighed_a_few_times_an_atom(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = 0
    columns = planning.bound_columns

    def counting(*arguments: Any) -> tuple[int, ...]:
        nonlocal weighed
        weighed += 1
        return columns(*arguments)

    monkeypatch.setattr(planning, "bound_columns", counting)
    rule = normalise(parse_program(chain_rule(LENGTH)).rules[0])
    for pivot in pivots(rule):
        weighed = 0
        make_plan(rule, pivot, (), lambda _atom, bound: 10.0 - len(bound))
        assert weighed < 5 * LENGTH


def test_an_update_can_be_stopped_between_two_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = tidelog.KnowledgeBase(chain_rule(LENGTH))
    kb.update(add={"e": [(node, node + 1) for node in range(LENGTH)]})
    assert set(kb.facts("h")) == {(0, LENGTH)}
    planned = 0

    def check_time(_limits: Limits, _began: float, _busiest: Any = None) -> None:
        if planned == LENGTH // 2:
            raise LimitError("time is over")

    def counting(*arguments: Any) -> Any:
        nonlocal planned
        planned += 1
        return make_plan(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Limits, "check_time", check_time)
        patch.setattr("tidelog.engine.rules.compiled.make_plan", counting)
        with pytest.raises(LimitError, match="over"):
            kb.update(delete={"e": [(3, 4)]})
        assert planned == LENGTH // 2
    assert set(kb.facts("h")) == {(0, LENGTH)}
    kb.update(delete={"e": [(3, 4)]})
    assert not set(kb.facts("h"))
