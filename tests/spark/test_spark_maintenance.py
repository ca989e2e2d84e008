"""Maintenance on Spark against the oracle: random programs under random updates of facts and rules, by every way."""

from __future__ import annotations

from pathlib import Path

import pytest
from merged_stream import MergedStream
from pyspark.sql import SparkSession

from generate import soak
from tidelog.spark import Options

BY_SETS = Options(local_facts=0)
PROVING = Options(local_facts=0, closure_edges=0, maintenance="backward-forward")
OVERDELETING = Options(local_facts=0, closure_edges=0, maintenance="dred")
IN_TASKS = Options(lookup_facts=0)
BY_LOOKUPS = Options()


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        (BY_SETS, range(3, 5)),
        (PROVING, range(1)),
        (OVERDELETING, range(1, 2)),
        (IN_TASKS, range(4)),
        (BY_LOOKUPS, range(8)),
    ],
    ids=["sets", "backward-forward", "dred", "tasks", "lookups"],
)
def test_random_programs_and_updates(spark: SparkSession, tmp_path: Path, options: Options, seeds: range) -> None:
    MergedStream([soak(seed, length=1) for seed in seeds]).check(spark, tmp_path, options)
