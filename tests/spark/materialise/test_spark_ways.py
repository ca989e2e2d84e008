"""Every way to a state ends in the same state, on Spark too: a sample of the courses that `test_ways.py` takes.

They go by each way to materialise and to maintain, and over what a pipeline publishes. What costs here are jobs and
their plans, so most courses go by lookups, which need none, and a few by tasks and by sets. `make soak` goes on with
fresh courses. What fails says how to see it again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from courses import FUNCTIONS, Course, make_course
from generate import Dice
from merged_stream import MergedStream
from moments import Onlooker
from naive import State, Update, minus
from places import BY_HAND
from quick import QUICK
from soaking import seeds, soak_seconds
from tidelog import KnowledgeBase
from tidelog.formats import read_file
from tidelog.spark import Options, Pipeline, Versions, open_session
from ways import Moment, apply

BY_LOOKUPS = Options()
IN_TASKS = Options(lookup_facts=0)
BY_SETS = Options(local_facts=0)
PROVING = Options(local_facts=0, closure_edges=0, maintenance="backward-forward")
OVERDELETING = Options(local_facts=0, closure_edges=0, maintenance="dred")


def from_nothing(course: Course) -> Course:
    """The same course, its first state reached by two updates: the facts, then the rules."""
    start = course.start
    return Course(State(), (Update(add=start.explicit), Update(add_rules=start.rules), *course.updates))


def check(spark: SparkSession, folder: Path, chosen: Sequence[Course], by: Sequence[Options]) -> None:
    """The empty state and the facts by lookups, then the rules and the updates by each of the options in turn."""
    MergedStream(list(map(from_nothing, chosen))).check(spark, folder, BY_LOOKUPS, BY_LOOKUPS, *by)


def a_length() -> int:
    """Histories by jobs, which are slow."""
    return 4 if soak_seconds() else 1


def by_lookups(spark: SparkSession, folder: Path, seed: int) -> None:
    check(
        spark, folder, [make_course(seed + number) for number in range(12 if soak_seconds() else 5)], [BY_LOOKUPS] * 6
    )


def by_tasks(spark: SparkSession, folder: Path, seed: int) -> None:
    """Tasks do not count derivations; lookups and sets then work without counters, or count first."""
    by = [IN_TASKS, BY_LOOKUPS, IN_TASKS, BY_SETS, BY_LOOKUPS]
    check(spark, folder, [make_course(seed + number, a_length()) for number in range(2)], by)


def by_sets(spark: SparkSession, folder: Path, seed: int) -> None:
    later = Dice(seed).shuffled([PROVING, OVERDELETING, BY_LOOKUPS, BY_SETS])
    check(spark, folder, [make_course(seed, a_length())], [BY_SETS, *later])


def by_publishing(spark: SparkSession, folder: Path, seed: int) -> None:
    """Rules derive nothing new from what is published. Without the derived facts, it is what was explicit."""
    course = make_course(seed)
    state, facts = course.states[course.end], course.facts[course.end]
    kb = published(spark, folder, state)
    assert not apply(kb, Update(add_rules=state.rules))
    assert not apply(kb, Update(delete=minus(facts, state.explicit)))
    onlooker = Onlooker(course, Dice(seed))
    onlooker.look(Moment(kb, course.end))
    onlooker.examine(kb, course.end)


def published(spark: SparkSession, folder: Path, state: State) -> KnowledgeBase:
    """What a pipeline publishes of a state, in an embedded knowledge base: all that holds, as explicit facts."""
    pipeline = Pipeline(spark, repr(state), str(folder))
    kb = KnowledgeBase()
    for name, function in FUNCTIONS.items():
        pipeline.register(name, function)
        kb.register(name, function)
    pipeline.run()
    versions = Versions(str(folder))
    manifest = versions.current()
    assert manifest is not None
    for name in manifest.predicates:
        kb.load(read_file(versions.path(name), predicate=name))
    return kb


# Each with its seed, unless a soak is asked for.
WAYS: dict[str, tuple[Callable[[SparkSession, Path, int], None], int]] = {
    "lookups": (by_lookups, 0),
    "tasks": (by_tasks, 20),
    "sets": (by_sets, 4),
    "publishing": (by_publishing, 4),
}


def go(spark: SparkSession, folder: Path, seed: int, way: str) -> None:
    try:
        WAYS[way][0](spark, folder / f"{way}-{seed}", seed)
    except Exception as problem:
        problem.add_note(f"`{BY_HAND} tests/spark/materialise/test_spark_ways.py {seed} {way}`")
        raise


@pytest.mark.skipif(soak_seconds() > 0, reason="a soak has courses of its own")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_over_spark_ends_in_the_same_state(spark: SparkSession, tmp_path: Path, way: str) -> None:
    go(spark, tmp_path, WAYS[way][1], way)


@pytest.mark.skipif(not soak_seconds(), reason="not in a soak")
def test_more_courses_over_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The ways are taken in turn. A seed is that of the first of up to a hundred courses."""
    for seed in seeds((), "ways on Spark, in hundreds"):
        go(spark, tmp_path, seed * 100, list(WAYS)[seed % len(WAYS)])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        go(open_session("local[2]", QUICK), Path(place), int(sys.argv[1]), sys.argv[2])
