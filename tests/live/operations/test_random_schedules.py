"""Random programs and updates under random schedules, against the oracle: whenever no operation is left, I is
mat(P, E)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine_util import knowledge_base
from generate import EVERYTHING, soak
from naive import State, Update, database, without_empty
from operations_util import VARIANTS, algorithm_of, decoded, holding, propositions
from soaking import seeds
from tidelog import KnowledgeBase
from tidelog.language import parse_rules
from tidelog.live.operations.algorithm import FullyDynamic
from tidelog.live.operations.mode import facts_of

MOST_STEPS = 50_000
FEATURES = replace(EVERYTHING, aggregates=False)


def take_steps(algorithm: FullyDynamic, dice: random.Random, most: int = MOST_STEPS) -> None:
    for _ in range(most):
        if not algorithm.is_open:
            return
        algorithm.take(dice.choice(algorithm.steps()))
    assert most < MOST_STEPS, "goes on without end"


@pytest.mark.parametrize("maintenance", VARIANTS)
def test_rules_of_all_kinds(maintenance: str) -> None:
    """Negation, expressions, functions, recursion, constants of all types."""
    for seed in seeds(range(5000, 5015), f"operations {maintenance}"):
        case, stream = soak(seed, FEATURES, length=8)
        dice = random.Random(seed)
        kb = knowledge_base(case.state, maintenance)
        encode = kb._knowledge.incoming.encode
        with kb._lock.working():
            algorithm, state = algorithm_of(kb, maintenance), case.state
            assert decoded(kb, algorithm) == without_empty(state.materialise())
            for update in (replace(each, add_rules=(), remove_rules=()) for each in stream):
                given = update.mapping()
                delete, add = (facts_of(encode(given.get(key) or {}, {})) for key in ("delete", "add"))
                algorithm.determine_explicitly(delete, add)
                state = state.apply(update)
                take_steps(algorithm, dice, dice.choice([0, 1, 3, 10, 100]))
                if dice.random() < 0.3:
                    take_steps(algorithm, dice)
                    assert decoded(kb, algorithm) == without_empty(state.materialise())
            take_steps(algorithm, dice)
            assert decoded(kb, algorithm) == without_empty(state.materialise())


@pytest.mark.parametrize("maintenance", VARIANTS)
def test_cycles_everywhere(maintenance: str) -> None:
    """Facts without arguments, so that few rules make many cycles, and that every operation concerns another one."""
    for seed in seeds(range(6000, 6080), f"cycles {maintenance}"):
        dice = random.Random(seed)
        names = [f"p{number}" for number in range(dice.choice([4, 5, 6, 8]))]
        rules = "\n".join(_rule(dice, names) for _ in range(dice.randint(3, 3 * len(names))))
        kb = KnowledgeBase(maintenance=maintenance)
        kb.add_rules(rules)
        state = State(parse_rules(rules, {}), {})
        with kb._lock.working():
            algorithm = algorithm_of(kb, maintenance)
            for _ in range(dice.randint(1, 6)):
                delete, add = (" ".join(name for name in names if dice.random() < 0.3) for _ in range(2))
                algorithm.determine_explicitly(propositions(delete), propositions(add))
                state = state.apply(Update(add=_database(add), delete=_database(delete)))
                take_steps(algorithm, dice, dice.choice([0, 1, 2, 5, 8]))
            take_steps(algorithm, dice)
            assert holding(algorithm) == set(without_empty(state.materialise()))


def _rule(dice: random.Random, names: list[str]) -> str:
    """A rule that reads predicates of any number, and negates those of a lower half."""
    half = len(names) // 2
    head = dice.randrange(len(names))
    body = dice.sample(names if head >= half else names[:half], dice.randint(1, 2))
    if head >= half and dice.random() < 0.3:
        body.append(f"not {dice.choice(names[:half])}")
    return f"{names[head]} :- {', '.join(body)}."


def _database(names: str) -> dict[str, set[tuple[()]]]:
    return database({name: [()] for name in names.split()})  # type: ignore[return-value]
