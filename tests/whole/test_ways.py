"""Every way to a state ends in the same state: random courses, by every way, against the oracle and so each other.

`make soak` continues with fresh courses for as long as you like. A failing course is made smaller and printed, and
`python tests/whole/test_ways.py SEED WAY` runs it again.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tidelog.engine.algorithms.aggregates
import tidelog.engine.reclaiming
import tidelog.engine.update.rows
import tidelog.engine.update.runner
import tidelog.explain.backwards
import tidelog.live.worker
import tidelog.machine.growth
import tidelog.store.pair_bits
import tidelog.store.relation
import tidelog.store.store
from courses import Course, make_course, shrunk
from generate import Dice
from moments import Onlooker
from places import BY_HAND
from soaking import seeds, soak_seconds
from tidelog.closures import directed
from tidelog.engine.algorithms.names import MAINTENANCE
from ways import WAYS, Setting
from ways_elsewhere import Elsewhere

# Seeds per test, and the first seed of each test; a soak has one test, with its own seeds.
A_TEST = 3
FIRST = [0] if soak_seconds() else range(0, 30, A_TEST)

# Sizes from which other code takes over, made so small that a handful of facts is enough.
TIGHT = [
    (tidelog.explain.backwards, "SEARCHED_PAIRS", 0),
    (tidelog.live.worker, "SLICE", 3),
    (tidelog.engine.algorithms.aggregates, "LEAST_CHANGE", 0),
    (tidelog.engine.update.rows, "LAZY_FROM", 2),
    (tidelog.engine.reclaiming, "WORTH_FROM", 1),
    (tidelog.engine.reclaiming, "WORTH_PER_CELL", 0),
    (tidelog.engine.reclaiming, "WORTH_PER_TERM", 0),
    (tidelog.engine.update.runner, "BUDGET", 5),
    (tidelog.engine.update.runner, "STRIDE", 1),
    (tidelog.machine.growth, "PIECE", 4),
    (tidelog.store.pair_bits, "PAIRS_FROM", 2),
    (tidelog.store.relation, "COMPACT_FROM", 4),
    (tidelog.store.store, "HEAD_CELLS", 64),
    (tidelog.store.store, "INITIAL_CAPACITY", 2),
    (directed, "DENSE_BYTES", 0),
    (directed, "MANY_EDGES", 1),
]


@contextmanager
def tight(chosen: Dice) -> Iterator[None]:
    """Make some of the sizes small."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, size in chosen.some(TIGHT, 50):
            patch.setattr(owner, name, size)
        yield


def run(course: Course, way: str, seed: int, elsewhere: Elsewhere) -> None:
    """Take a course by one way, and check every moment of it."""
    source = Dice(seed)
    with tempfile.TemporaryDirectory() as folder, tight(source if source.chance(50) else _ALL_AS_THEY_ARE):
        setting = Setting(source, source.pick(MAINTENANCE), source.chance(70), Path(folder) / "kb", elsewhere)
        onlooker = Onlooker(course, source)
        last = None
        for last in WAYS[way](course, setting):
            onlooker.look(last)
        assert last is not None
        onlooker.examine(last.kb, last.state)
        last.kb.close()


class _AsTheyAre(Dice):
    def chance(self, percent: int) -> bool:
        return False


_ALL_AS_THEY_ARE = _AsTheyAre(0)


def ways_of(seed: int) -> list[str]:
    """Some of the ways, so that there is time for more courses; every way gets its turn."""
    names = list(WAYS)
    return [names[(seed + step) % len(names)] for step in range(0, len(names), 3)]


def check(course: Course, way: str, seed: int, elsewhere: Elsewhere) -> None:
    """Take a course by one way. If that fails, report it with a course that is as small as possible."""
    try:
        run(course, way, seed, elsewhere)
    except Exception as problem:
        kind = type(problem)

        def fails(smaller: Course) -> bool:
            try:
                run(smaller, way, seed, elsewhere)
            except kind:
                return True
            except Exception:
                return False
            return False

        small = shrunk(course, fails)
        found = traceback.format_exc()
        raise AssertionError(f"`{BY_HAND} tests/whole/test_ways.py {seed} {way}`\n{small!r}\n\n{found}") from None


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    other = Elsewhere()
    yield other
    other.close()


@pytest.mark.parametrize("first", FIRST)
def test_every_way_ends_in_the_same_state(first: int, elsewhere: Elsewhere) -> None:
    for seed in seeds(range(first, first + A_TEST), "ways"):
        course = make_course(seed)
        for way in ways_of(seed):
            check(course, way, seed, elsewhere)


if __name__ == "__main__":
    check(make_course(int(sys.argv[1])), sys.argv[2], int(sys.argv[1]), Elsewhere())
