"""How many jobs and tasks a part of a run took, and how many bytes they shuffled, as the status store of Spark tells.

Jobs are told apart by a tag, so that what other threads do in the same session does not count. Spark Connect has no
status store: there, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tidelog.spark.session import is_connect

_PATIENCE = 2_000  # milliseconds until what has happened is in the status store


@dataclass
class JobCounts:
    """Jobs, their tasks, and the bytes that these wrote for others to read; None if nobody knows."""

    jobs: int | None = None
    tasks: int | None = None
    shuffled: int | None = None

    def __str__(self) -> str:
        if self.jobs is None or self.tasks is None or self.shuffled is None:
            return "jobs not counted"
        return f"{self.jobs:,} jobs, {self.tasks:,} tasks, {self.shuffled / 1e6:,.1f} MB shuffled"


@contextmanager
def counted_jobs(spark: SparkSession, counts: JobCounts) -> Iterator[None]:
    """Count what this thread does inside of the block."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    tag = f"tidelog-{uuid4().hex}"
    # The store belongs to Spark's inside. Where it is another one, nothing is known.
    before = -1
    with suppress(Py4JError):
        before = _latest(context._jsc.sc())
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)
    with suppress(Py4JError):
        _fill(context._jsc.sc(), tag, before, counts)


def _latest(context: Any) -> int:
    jobs = context.statusStore().jobsList(None)
    return int(jobs.head().jobId()) if jobs.size() else -1


def _fill(context: Any, tag: str, before: int, counts: JobCounts) -> None:
    context.listenerBus().waitUntilEmpty(_PATIENCE)
    store = context.statusStore()
    jobs = store.jobsList(None)
    # The latest job comes first.
    later = takewhile(lambda job: job.jobId() > before, map(jobs.apply, range(jobs.size())))
    tagged = [job for job in later if job.jobTags().contains(tag)]
    numbers = {job.stageIds().apply(place) for job in tagged for place in range(job.stageIds().size())}
    stages = [store.lastStageAttempt(number) for number in sorted(numbers)]
    counts.jobs = len(tagged)
    counts.tasks = sum(stage.numCompleteTasks() for stage in stages)
    counts.shuffled = sum(stage.shuffleWriteBytes() for stage in stages)
