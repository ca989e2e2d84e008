"""Sets of facts of several predicates, in files: the facts that an update touches, and sets that grow in steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.spark.data.wide_frames import RowCounts, union_all, widened
from tidelog.spark.maintain.update_work import Transition, Work

# Held, but now neither explicit nor derived without recursion; the reverse; changed in that respect; explicit.
LOST, FRESH, MOVED, EXPLICIT = "h0 AND NOT b", "b AND NOT h0", "b != b0", "e"


@dataclass(frozen=True)
class Touched:
    """Touched facts as `Counting.touched` lays them out, and how many of each predicate fit each test."""

    frame: DataFrame
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def staged(cls, work: Work, frame: DataFrame | None, names: Sequence[str]) -> Touched:
        """Touched facts of predicates, written and counted."""
        if frame is None:
            columns = ", ".join(f"{name} bigint" for name in work.facts.columns(names)[1:])
            state = "e0 boolean, h0 boolean, b0 boolean, e boolean, n bigint, b boolean, h boolean"
            return cls(work.spark.createDataFrame([], f"p int, {columns}, {state}"))
        numbers = {name: work.facts.stored[name].number for name in names}
        counting = RowCounts(frame, numbers, (LOST, FRESH, MOVED, EXPLICIT))
        return cls(work.staging.cut(counting.rows), counting.get())

    def count(self, test: str, name: str) -> int:
        return self.counts[name][test] if name in self.counts else 0

    def rows(self, numbers: Iterable[int], test: str = "true") -> DataFrame:
        """The rows of the predicates of these numbers that fit a test."""
        return self.frame.where(test).where(F.col("p").isin(list(numbers)))

    def protected(self, facts: Transition, name: str) -> DataFrame:
        """The facts of a predicate that, after the update, are explicit or have a non-recursive derivation."""
        columns = facts.stored[name].columns
        before = facts.old.rows([name]).where("e OR n > 0").select(*columns)
        touched = self.rows([facts.stored[name].number])
        kept = before.join(touched.select(*columns), columns, "left_anti")
        return kept.unionByName(touched.where("b").select(*columns))


@dataclass(frozen=True)
class Step:
    """The facts of one step: rows under the numbers of their predicates, and how many there are of each."""

    frame: DataFrame
    counts: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.counts.values())


class Pile:
    """A set of facts of given predicates that grows in steps, each of them a file: the D, C and P of the papers."""

    def __init__(self, work: Work, names: Sequence[str]) -> None:
        self._work = work
        self._numbers = {name: work.facts.stored[name].number for name in names}
        self._columns = work.facts.columns(names)
        self.steps: list[Step] = []

    def grow(self, rows: DataFrame) -> bool:
        """Add those rows that are new, as one step; returns whether there were any."""
        new = rows.select(*self._columns).distinct()
        known = self.frame()
        if known is not None:
            new = new.join(known, self._columns, "left_anti")
        counting = RowCounts(new, self._numbers)
        stored = self._work.staging.cut(counting.rows)
        step = Step(stored, {name: found["true"] for name, found in counting.get().items()})
        self.adopt(step)
        return step.count > 0

    def adopt(self, step: Step) -> None:
        """Add rows that are in files and all new, as one step."""
        if step.count:
            self.steps.append(step)

    def step_of(self, touched: Touched, test: str) -> Step:
        """The touched facts that fit a test, as a step."""
        rows = widened(touched.rows(self._numbers.values(), test), len(self._columns) - 1).select(*self._columns)
        return Step(rows, {name: touched.count(test, name) for name in self._numbers})

    @property
    def count(self) -> int:
        return sum(step.count for step in self.steps)

    def count_of(self, name: str, since: int = 0) -> int:
        return sum(step.counts[name] for step in self.steps[since:])

    def frame(self, since: int = 0) -> DataFrame | None:
        """All rows, or those of the steps from `since` on; None if there are none."""
        frames = [step.frame for step in self.steps[since:]]
        return union_all(frames) if frames else None

    def facts(self, name: str, since: int | None = None, until: int | None = None) -> DataFrame:
        """The facts of one predicate, or those of some steps."""
        stored = self._work.facts.stored[name]
        frames = [step.frame for step in self.steps[since:until] if step.counts[name]]
        if not frames:
            return self._work.spark.createDataFrame([], ", ".join(f"{column} bigint" for column in stored.columns))
        return union_all(frames).where(F.col("p") == stored.number).select(*stored.columns)
