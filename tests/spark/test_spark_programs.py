"""Both ways of materialising on Spark, by rounds and inside tasks, against the oracle: examples and random programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from merged import Merged, Part
from pyspark.sql import SparkSession

from generate import Dice, make_case
from naive import errors
from programs_util import examples
from tidelog.spark import Options

BY_ROUNDS = Options(local_facts=0)
IN_TASKS = Options()
WAYS = pytest.mark.parametrize("options", [BY_ROUNDS, IN_TASKS], ids=["rounds", "tasks"])
VALUES = ("aggregates", "numbers", "strings", "sensors", "unicode", "mixed_types", "shortest_distance", "org_chart")


def check(spark: SparkSession, folder: Path, parts: Sequence[Part], options: Options) -> None:
    engine, results = Merged(parts).run(spark, folder, options)
    for part, found in zip(parts, results, strict=True):
        expected = part.expected()
        assert found == {name: rows for name, rows in expected.items() if rows}, part.name
    if options is BY_ROUNDS:
        assert all(done.how.startswith("round") for done in engine.statistics.rounds)


def example_parts(values: bool) -> list[Part]:
    chosen = [example for example in examples() if (example.name in VALUES) == values]
    return [Part(example.name, example.rules, example.facts) for example in chosen]


@WAYS
def test_examples_without_many_values(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    check(spark, tmp_path, example_parts(values=False), options)


@WAYS
def test_examples_full_of_values(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    check(spark, tmp_path, example_parts(values=True), options)


@WAYS
def test_random_programs(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    cases = [make_case(Dice(seed)) for seed in range(100, 108)]
    parts = [Part(f"seed {seed}", case.state.rules, case.state.explicit) for seed, case in enumerate(cases, 100)]
    check(spark, tmp_path, parts, options)


def test_failed_instances_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    example = next(example for example in examples() if example.name == "numbers")
    part = Part(example.name, example.rules, example.facts)
    expected = errors(part.rules, part.expected())
    engine, _ = Merged([part]).run(spark, tmp_path, IN_TASKS)
    assert engine.statistics.total_failures == expected > 0
