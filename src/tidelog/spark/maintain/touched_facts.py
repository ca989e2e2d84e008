"""The facts that an update touches in recursive components, in a file, with the counts that tell what is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import observed
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.maintain.update_work import Work

# Held, but neither explicit nor derived without recursion any more; the other way round; changed in that; explicit.
LOST, FRESH, MOVED, EXPLICIT = "h0 AND NOT b", "b AND NOT h0", "b != b0", "e"


@dataclass(frozen=True)
class Touched:
    """Touched facts as `Counting.touched` lays them out, and how many of each predicate fit each test."""

    frame: DataFrame
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, test: str, names: Iterable[str]) -> int:
        return sum(self.counts.get((test, name), 0) for name in names)

    def rows(self, test: str, names: Sequence[str], work: Work) -> DataFrame:
        """The rows of some predicates that fit a test."""
        numbers = [work.number(name) for name in names]
        return self.frame.where(test).where(F.col("p").isin(numbers))


def stage(work: Work, frame: DataFrame | None, names: Sequence[str]) -> Touched:
    """Write touched facts, and count them on the way."""
    if frame is None:
        columns = ", ".join(f"{name} bigint" for name in keys(work.old_width(names)))
        state = "e0 boolean, h0 boolean, b0 boolean, e boolean, n bigint, b boolean, h boolean"
        return Touched(work.spark.createDataFrame([], f"p int, {columns}, {state}"))
    counting = Observation()
    wanted = {
        f"n{position}": (test, name)
        for position, (test, name) in enumerate((t, n) for t in (LOST, FRESH, MOVED, EXPLICIT) for n in names)
    }
    counts = [
        F.count_if(F.expr(f"p = {work.number(name)} AND ({test})")).alias(alias)
        for alias, (test, name) in wanted.items()
    ]
    stored = work.cut(frame.observe(counting, *counts))
    return Touched(stored, {key: observed(counting, alias) for alias, key in wanted.items()})
