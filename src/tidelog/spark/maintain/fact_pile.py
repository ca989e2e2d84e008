"""A set of facts of several predicates that grows in steps, each of which is a file: the D, C and P of the papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import observed
from tidelog.spark.data.wide_frames import keys, union_all
from tidelog.spark.maintain.update_work import Work


@dataclass(frozen=True)
class Step:
    """The facts of one step: rows under the numbers of their predicates, and how many there are of each."""

    frame: DataFrame
    counts: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.counts.values())


class Pile:
    """A growing set of facts of given predicates, as rows as wide as the widest."""

    def __init__(self, work: Work, names: Sequence[str]) -> None:
        self._work = work
        self._names = names
        self._columns = ["p", *keys(work.old_width(names))]
        self.steps: list[Step] = []

    def grow(self, rows: DataFrame) -> bool:
        """Take in those rows that are not there yet, as one step; whether there were any."""
        new = rows.select(*self._columns).distinct()
        known = self.frame()
        if known is not None:
            new = new.join(known, self._columns, "left_anti")
        counting = Observation()
        numbers = {name: self._work.number(name) for name in self._names}
        counts = [F.count_if(F.col("p") == number).alias(f"n{number}") for number in numbers.values()]
        schema = ", ".join(["p int", *(f"{name} bigint" for name in self._columns[1:])])
        stored = self._work.stage(new.observe(counting, *counts), schema)
        step = Step(stored, {name: observed(counting, f"n{number}") for name, number in numbers.items()})
        self.adopt(step)
        return step.count > 0

    def adopt(self, step: Step) -> None:
        """Take in rows that lie in files and are not there yet, as one step."""
        if step.count:
            self.steps.append(step)

    @property
    def count(self) -> int:
        return sum(step.count for step in self.steps)

    def count_of(self, name: str, since: int = 0) -> int:
        return sum(step.counts[name] for step in self.steps[since:])

    def frame(self, since: int = 0) -> DataFrame | None:
        """All rows, or those of the last steps; None where there are none."""
        frames = [step.frame for step in self.steps[since:]]
        return union_all(frames) if frames else None

    def facts(self, name: str, steps: Iterable[Step] | None = None) -> DataFrame:
        """The facts of one predicate, or those of some steps."""
        stored = self._work.stored[name]
        frames = [step.frame for step in (self.steps if steps is None else steps) if step.counts[name]]
        if not frames:
            return self._work.spark.createDataFrame([], ", ".join(f"{column} bigint" for column in stored.columns))
        return union_all(frames).where(F.col("p") == stored.number).select(*stored.columns)

    def last(self, name: str) -> DataFrame:
        """The facts of one predicate that the last step brought."""
        return self.facts(name, self.steps[-1:])
