"""An update in progress: its files, the facts of all predicates before and after it, its dictionary, and its work.

Components are settled in the order of their dependencies. All that others need to know of a settled component is which
of its facts have come and which have gone; these are in the one file that becomes its next layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, make_plan
from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.wide_frames import keys, observed, read_together, union_all, widened, write_part
from tidelog.spark.options import Options
from tidelog.spark.plan.role_sets import Phases, Sets
from tidelog.spark.plan.rule_frames import Context, Head, evaluate
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.stored.layers import CAME, WENT, Layer, Snapshot, Stored, write_rows
from tidelog.spark.stored.version_history import Changed

# Up to this many facts are read as a whole by each job that needs some of them. If there are more, the rows that look
# for them are written first, and sent to them.
FEW = 100_000

# Matches that start from so few facts are sent to all tasks at every join.
SMALL = 20_000

KINDS = ("insertion", "deletion", "backward", "forward", "rederivation", "checked", "overdeleted")
MARKS = ("marked_explicit", "marked_implicit")

_GIVEN, _TAKEN = "e AND NOT e0", "e0 AND NOT e"
_TESTS = ("true", CAME, WENT, _GIVEN, _TAKEN)
_FLAGS = ("e0", "h0", "e", "h")

Difference = tuple[DataFrame | None, DataFrame | None]
"""What goes and what comes, under the numbers of the predicates; None for nothing."""


class Staging:
    """The files that an update writes: numbered folders below the data folder of the next version.

    Some become parts of the version; scratch files go once it is committed."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._jobs = 0

    def next_path(self, what: str = "scratch") -> Path:
        self._jobs += 1
        return self._folder / f"{what}-{self._jobs:05d}"

    def write(self, frame: DataFrame) -> str:
        """Write a frame for the time of the update; returns its path."""
        path = str(self.next_path())
        frame.write.parquet(path)
        return path

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, written and read back: they are computed once, and their lineage ends."""
        return self.spark.read.schema(frame.schema).parquet(self.write(frame))


class Transition:
    """The stored facts of each predicate, which an update moves on predicate by predicate."""

    def __init__(self, staging: Staging, root: Path, stored: Mapping[str, Stored]) -> None:
        self._staging = staging
        self.root = root
        self.stored, self._before = dict(stored), dict(stored)
        self.old = Snapshot(staging.spark, root, self._before)
        self.new = Snapshot(staging.spark, root, self.stored)
        """Complete for predicates that are settled or that nothing reaches."""
        self.changed: dict[str, Changed] = {}
        self.phases = Phases(
            before=self.old.facts,
            after=lambda name: (self.new if name in self.changed else self.old).facts(name),
            unchanged=cache(self._unchanged),
            either=cache(self._either),
            come=cache(partial(self._touched, CAME)),
            gone=cache(partial(self._touched, WENT)),
            count_come=lambda name: self.changed[name].come if name in self.changed else 0,
            count_gone=lambda name: self.changed[name].gone if name in self.changed else 0,
        )

    def columns(self, names: Iterable[str]) -> list[str]:
        """The columns of a frame that has rows of all these predicates."""
        return ["p", *keys(self.old.width(names))]

    def were_few(self, names: Iterable[str]) -> bool:
        return sum(map(self.old.count, names)) <= FEW

    def could_hold(self, rule: NormalRule, before: bool) -> bool:
        """Whether every positive atom of a rule has facts at all."""
        snapshot = self.old if before else self.new
        return all(snapshot.count(atom.predicate) for atom in rule.positives)

    def _unchanged(self, name: str) -> DataFrame:
        before = self.old.facts(name)
        if not self.phases.count_gone(name):
            return before
        return before.join(self.phases.gone(name), self.stored[name].columns, "left_anti")

    def _either(self, name: str) -> DataFrame:
        before = self.old.facts(name)
        return before.unionByName(self.phases.come(name)) if self.phases.count_come(name) else before

    def _touched(self, which: str, name: str) -> DataFrame:
        return self.old.changed(name, self.changed[name].path, which)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, touched: DataFrame, names: Sequence[str], counted: bool = True) -> None:
        """Write the touched facts of predicates: they become the next layer of each, and tell what changed.

        `touched` has the number `p`, columns for the widest, the state, and `e0` and `h0` of before."""
        path = self._staging.next_path("facts")
        columns = self.columns(names)[1:]
        rows = touched.where("h OR h0").select(
            "p", F.col("p").alias("q"), *columns, "e0", "h0", "e", F.col("n").cast("bigint").alias("n"), "h"
        )
        rows.write.partitionBy("p").parquet(str(path))
        for name in names:
            own = path / f"p={self.stored[name].number}"
            files = sorted(own.glob("*.parquet"))
            found = _told_by(read_together(files, _FLAGS)) if files else dict.fromkeys(_TESTS, 0)
            self._append(name, own, found, counted)

    def settle_differences(
        self, touched: DataFrame | None, differences: Sequence[Difference], names: Sequence[str], counted: bool
    ) -> None:
        """Settle predicates of which some facts were touched, some go and some come."""
        columns = self.columns(names)
        width = len(columns) - 1
        # Facts that go or come have the state of a fact that only recursion derives.
        went = [*columns, "false AS e0", "true AS h0", "false AS e", "0L AS n", "true AS went", "false AS came"]
        came = [*columns, "false AS e0", "false AS h0", "false AS e", "0L AS n", "false AS went", "true AS came"]
        parts = [widened(gone, width).selectExpr(*went) for gone, _ in differences if gone is not None]
        parts += [widened(come, width).selectExpr(*came) for _, come in differences if come is not None]
        if touched is not None:
            state = [*columns, "e0", "h0", "e", "n", "false AS went", "false AS came"]
            parts.append(widened(touched, width).selectExpr(*state))
        if not parts:
            return
        largest = [F.max(name).alias(name) for name in ("e0", "h0", "e", "n", "went", "came")]
        merged = union_all(parts).groupBy(*columns).agg(*largest)
        self.settle(merged.withColumn("h", F.expr("came OR (h0 AND NOT went)")), names, counted)

    def settle_tables(self, tables: Mapping[str, pa.Table], uncounted: Collection[str]) -> None:
        """The same for the few touched facts of predicates that the driver has, a table each."""
        folder = self._staging.next_path("facts")
        for name, table in tables.items():
            path = folder / f"p={self.stored[name].number}"
            write_part(path, table)
            self._append(name, path, _told_by(table), name not in uncounted)
        for name in set(uncounted) - set(tables):
            self.stored[name] = replace(self.stored[name], counted=False)

    def settle_first(self, name: str, path: Path, facts: int, explicit: int, counted: bool) -> None:
        """The same for a predicate that had no facts, of which a folder has all, so many of them explicit."""
        found = {"true": facts, CAME: facts, WENT: 0, _GIVEN: explicit, _TAKEN: 0}
        self._append(name, path, found, counted)

    def rebase(self, rows: DataFrame, names: Sequence[str]) -> None:
        """Write all facts of predicates again, as they were before the update, now with their derivations counted."""
        stored = {name: self.stored[name] for name in names}
        layers = write_rows(rows, stored, self.root, self._staging.next_path("facts"))
        for name in names:
            counted = replace(self.stored[name], base=layers.get(name), layers=(), counted=True)
            self.stored[name] = self._before[name] = counted
        self.old.forget()

    def _append(self, name: str, path: Path, found: Mapping[str, int], counted: bool) -> None:
        """Note the next layer of a predicate, given how many of its rows fit each test."""
        stored = self.stored[name]
        facts = stored.facts + found[CAME] - found[WENT]
        explicit = stored.explicit + found[_GIVEN] - found[_TAKEN]
        stored = replace(stored, facts=facts, explicit=explicit, counted=counted)
        if found["true"]:
            layer = Layer(str(path.relative_to(self.root)), found["true"])
            above = {"layers": (*stored.layers, layer)} if stored.base else {"base": layer}
            stored = replace(stored, **above)
            self.changed[name] = Changed(layer.path, found[CAME], found[WENT])
        self.stored[name] = stored


def _told_by(touched: pa.Table) -> dict[str, int]:
    """How many rows of touched facts fit each test."""
    e0, h0, e, h = (touched.column(flag).to_numpy() for flag in _FLAGS)
    masks = (h | h0, h & ~h0, h0 & ~h, e & ~e0, e0 & ~e)
    return {test: int(mask.sum()) for test, mask in zip(_TESTS, masks, strict=True)}


@dataclass
class Work:
    """What all parts of one update share."""

    spark: SparkSession
    staging: Staging
    facts: Transition
    dictionary: Dictionary
    ids: Mapping[Constant, int]
    functions: Functions
    options: Options
    counts: Counter[str] = field(default_factory=Counter, init=False)
    _observed: list[tuple[str, Observation]] = field(default_factory=list, init=False)

    def heads(
        self,
        rule: NormalRule,
        pivot: Pivot,
        sets: Sets[DataFrame],
        component: Collection[str] = (),
        start: int | None = None,
        wanted: Atom | None = None,
    ) -> Head:
        """The heads of the instances of a rule, or what they have for the `wanted` atom.

        `start` tells how many facts there are at the pivot; without it, they may be many."""
        plan = make_plan(rule, pivot, component, self._estimate)
        if wanted:
            plan = replace(plan, rule=replace(rule, head=wanted))
        context = Context(self.spark, self.dictionary, self.ids, self.functions)
        return evaluate(plan, sets.lookup, context, start is not None and start <= SMALL)

    def _estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self.facts.new.count(atom.predicate) * 0.1 ** len(bound))

    def noted(self, rows: DataFrame, kind: str, which: str = "true") -> DataFrame:
        """The same rows; when they are written, those that fit a test are counted as work of a kind."""
        observation = Observation()
        self._observed.append((kind, observation))
        return rows.observe(observation, F.count_if(F.expr(which)).alias("count"))

    def by_kind(self) -> dict[str, int]:
        """The work by kind, as `KnowledgeBase.update` tells it."""
        for kind, observation in self._observed:
            self.counts[kind] += observed(observation, "count")
        self._observed.clear()
        marks = {kind: self.counts[kind] for kind in MARKS if self.counts[kind]}
        return {kind: self.counts[kind] for kind in KINDS} | marks
