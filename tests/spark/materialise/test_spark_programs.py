"""The ways of materialising on Spark, by rounds, by keys and inside one task, against the oracle: examples and random
programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from generate import Dice, make_case
from merged import Merged, Part
from naive import database, errors
from programs_util import Example, examples
from soaking import soak_seconds
from tidelog.language import parse_program
from tidelog.spark import Options
from tidelog.spark.materialise import spark_engine

BY_ROUNDS = Options(local_facts=0, closure_edges=0)
BY_KEYS = Options(local_facts=0)
IN_TASKS = Options()
WAYS = pytest.mark.parametrize("options", [BY_ROUNDS, IN_TASKS], ids=["rounds", "tasks"])
# Each round has its latency, however small: between them, these few programs use every form of rule.
BY_ROUNDS_TOO = ("arities", "existential_negation", "mutual_recursion", "repeated_variables", "unicode")
BY_ROUNDS_TOO += ("win_move",) if soak_seconds() else ()  # It has as many strata as all others together.


def check(spark: SparkSession, folder: Path, parts: Sequence[Part], options: Options) -> None:
    engine, results = Merged(parts).run(spark, folder, options)
    for part, found in zip(parts, results, strict=True):
        expected = part.expected()
        assert found == {name: rows for name, rows in expected.items() if rows}, part.name
    if options is BY_ROUNDS:
        assert not any("task" in done.how for done in engine.statistics.rounds)


def part_of(example: Example) -> Part:
    return Part(example.name, example.rules, example.facts)


def test_examples_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, list(map(part_of, examples())), IN_TASKS)


def test_examples_by_rounds(spark: SparkSession, tmp_path: Path) -> None:
    chosen = [part_of(example) for example in examples() if example.name in BY_ROUNDS_TOO]
    assert len(chosen) == len(BY_ROUNDS_TOO)
    check(spark, tmp_path, chosen, BY_ROUNDS)


def test_values_by_rounds(spark: SparkSession, tmp_path: Path) -> None:
    """Apart from the others: where there are floats, rules that compare constants need their values."""
    chosen = [part_of(example) for example in examples() if example.name in ("aggregates", "numbers")]
    assert len(chosen) == 2
    check(spark, tmp_path, chosen, BY_ROUNDS)


KEYED = """
path(X, Y) :- edge(X, Y).             path(X, Z) :- path(X, Y), edge(Y, Z), not closed(Z), Z != d.
back(X, Y) :- edge(X, Y).             back(X, Z) :- edge(X, Y), back(Y, Z), mine(Z).
even(X) :- edge(X, _), mine(X).       even(X) :- odd(X), mine(X), open.      odd(X) :- even(X), not closed(X).
turned(X, Y) :- edge(X, Y).           turned(Y, X) :- turned(X, Y), mine(X).
edge(a, b). edge(b, c). edge(c, d). edge(c, e). edge(e, a). edge(e, f). closed(f). mine(a). mine(e). mine(c). open.
"""


def test_recursions_by_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Those that keep to a key are solved in tasks, with facts that are dealt out or shared; the others by rounds."""
    program = parse_program(KEYED)
    part = Part("keyed", program.rules, database(program.facts))
    engine, [found] = Merged([part]).run(spark, tmp_path, BY_KEYS)
    assert found == part.expected()
    names = Merged([part])
    names.program()
    solved = {name for done in engine.statistics.rounds if "by keys" in done.how for name in done.predicates}
    assert solved == {names.name(0, name) for name in ("path", "back", "even", "odd")}


def test_components_by_keys(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much for one task is solved by keys in several, apart from the recursion that keeps to none."""
    monkeypatch.setattr(spark_engine, "DRIVER_FACTS", 0)
    program = parse_program(KEYED + "both(X) :- path(X, Y), turned(X, Y). reach(X, Z) :- edge(X, Y), reach(Y, Z).")
    part = Part("keyed", program.rules, database(program.facts))
    engine, [found] = Merged([part]).run(spark, tmp_path, Options(local_facts=1))
    assert found == part.expected()
    first, *rounds, last = (done.how for done in engine.statistics.rounds)
    assert first == last == "by keys, in 2 tasks"
    assert rounds == ["round 0", "round 1", "round 2"], "of `turned`, which `both` waits for"


@WAYS
def test_random_programs(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    seeds = range(100, 101 if options is BY_ROUNDS and not soak_seconds() else 103)
    cases = [make_case(Dice(seed)) for seed in seeds]
    parts = [Part(f"seed {seed}", case.state.rules, case.state.explicit) for seed, case in enumerate(cases, 100)]
    check(spark, tmp_path, parts, options)


@WAYS
def test_failed_instances_are_counted(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    rules = parse_program("inverse(X, 6 / X) :- e(X). total(sum(X)) :- e(X). most(max(X)) :- e(X), X != a.").rules
    part = Part("failures", rules, database({"e": [(0,), (2,), (3,), ("a",)]}))
    engine, [found] = Merged([part]).run(spark, tmp_path, options)
    assert found == part.expected()
    assert engine.statistics.total_failures == errors(rules, found) == 3
