"""Both ways of materialising on Spark, by rounds and inside tasks, against the oracle: examples and random programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from generate import Dice, make_case
from merged import Merged, Part
from naive import database, errors
from programs_util import Example, examples
from tidelog.language import parse_program
from tidelog.spark import Options

BY_ROUNDS = Options(local_facts=0)
IN_TASKS = Options()
WAYS = pytest.mark.parametrize("options", [BY_ROUNDS, IN_TASKS], ids=["rounds", "tasks"])
# Each round has its latency, however small: between them, these few programs use every form of rule.
BY_ROUNDS_TOO = ("arities", "existential_negation", "mutual_recursion", "repeated_variables", "win_move", "unicode")


def check(spark: SparkSession, folder: Path, parts: Sequence[Part], options: Options) -> None:
    engine, results = Merged(parts).run(spark, folder, options)
    for part, found in zip(parts, results, strict=True):
        expected = part.expected()
        assert found == {name: rows for name, rows in expected.items() if rows}, part.name
    if options is BY_ROUNDS:
        assert not any("in one task" in done.how for done in engine.statistics.rounds)


def part_of(example: Example) -> Part:
    return Part(example.name, example.rules, example.facts)


def test_examples_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, list(map(part_of, examples())), IN_TASKS)


def test_examples_by_rounds(spark: SparkSession, tmp_path: Path) -> None:
    chosen = [part_of(example) for example in examples() if example.name in BY_ROUNDS_TOO]
    assert len(chosen) == len(BY_ROUNDS_TOO)
    check(spark, tmp_path, chosen, BY_ROUNDS)


@pytest.mark.parametrize("name", ["aggregates", "numbers"])
def test_values_by_rounds(spark: SparkSession, tmp_path: Path, name: str) -> None:
    check(spark, tmp_path, [part_of(example) for example in examples() if example.name == name], BY_ROUNDS)


@WAYS
def test_random_programs(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    cases = [make_case(Dice(seed)) for seed in range(100, 103)]
    parts = [Part(f"seed {seed}", case.state.rules, case.state.explicit) for seed, case in enumerate(cases, 100)]
    check(spark, tmp_path, parts, options)


@WAYS
def test_failed_instances_are_counted(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    rules = parse_program("inverse(X, 6 / X) :- e(X). total(sum(X)) :- e(X). most(max(X)) :- e(X), X != a.").rules
    part = Part("failures", rules, database({"e": [(0,), (2,), (3,), ("a",)]}))
    engine, [found] = Merged([part]).run(spark, tmp_path, options)
    assert found == part.expected()
    assert engine.statistics.total_failures == errors(rules, found) == 3
