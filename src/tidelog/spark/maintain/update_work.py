"""An update in work: the facts before it and, as far as they are settled, after it.

Components are settled in the order of their dependencies. Once one is, all that others need to know of it is which of
its facts have come and which have gone; these lie in the one file that becomes its next layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, Plan, Start, make_plan
from tidelog.spark.data.dictionary import Dictionary, observed
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.maintain.layers import CAME, WENT, Layer, Snapshot, Stored, write_rows
from tidelog.spark.maintain.role_sets import Phases, Sets
from tidelog.spark.maintain.version_history import Changed
from tidelog.spark.options import Options
from tidelog.spark.plan.rule_frames import Context, Head, evaluate
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.small.parquet_columns import Columns

# What starts from so few facts is sent to all tasks at every join.
SMALL = 20_000

# Facts so few are read as a whole by each job that needs some of them; otherwise, what needs them is written first, and
# sent to them.
FEW = 100_000

KINDS = ("insertion", "deletion", "backward", "forward", "rederivation", "checked", "overdeleted")

Facts = Callable[[str], DataFrame]
"""The facts of a predicate in some set."""


Difference = tuple[DataFrame | None, DataFrame | None]
"""What goes and what comes, under the numbers of the predicates; None for nothing."""


class Work:
    """One update: the version before it, what has been settled, and where it writes."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        folder: Path,
        columns: Columns,
        stored: Mapping[str, Stored],
        dictionary: Dictionary,
        ids: Mapping[Constant, int],
        functions: Functions,
        options: Options,
    ) -> None:
        self.spark = spark
        self.root = root
        self.columns = columns
        self.dictionary = dictionary
        self.ids = dict(ids)
        self.functions = functions
        self.options = options
        self.stored, self._before = dict(stored), dict(stored)
        self.old = Snapshot(spark, root, self._before)
        self.changed: dict[str, Changed] = {}
        self.counts: Counter[str] = Counter()
        self._observed: list[tuple[str, Observation]] = []
        self._new = Snapshot(spark, root, self.stored)
        self._folder = folder
        self._jobs = 0
        self._frames: dict[tuple[str, str], DataFrame] = {}
        self.sets = Phases(self.before, self.after, self.unchanged, self.either, self.come, self.gone)

    def told(self) -> dict[str, int]:
        """The work by kind, as `KnowledgeBase.update` tells it."""
        for kind, observation in self._observed:
            self.counts[kind] += observed(observation, "count")
        self._observed.clear()
        return {kind: self.counts[kind] for kind in KINDS}

    def noted(self, rows: DataFrame, kind: str, which: str = "true") -> DataFrame:
        """The same rows, to be written, of which those that fit a test are counted as work of a kind."""
        observation = Observation()
        self._observed.append((kind, observation))
        return rows.observe(observation, F.count_if(F.expr(which)).alias("count"))

    def few_before(self, names: Iterable[str]) -> bool:
        """Whether predicates had few facts."""
        return sum(map(self.old.count, names)) <= FEW

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────

    def stage_path(self, frame: DataFrame) -> str:
        """Write a frame for the time of the update; its path."""
        path = self._next("scratch")
        frame.write.parquet(path)
        return path

    def stage(self, frame: DataFrame, schema: str) -> DataFrame:
        """The same rows, written and read back, so that they are computed once and lineage ends."""
        return self.spark.read.schema(schema).parquet(self.stage_path(frame))

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same, where the types of the frame are its schema."""
        return self.stage(frame, ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes))

    def _next(self, what: str) -> str:
        self._jobs += 1
        return str(self._folder / f"{what}-{self._jobs:05d}")

    # ── facts before and after ───────────────────────────────────────────────────────────────────────────────────

    def arity(self, name: str) -> int:
        return self.stored[name].arity

    def number(self, name: str) -> int:
        return self.stored[name].number

    def count_after(self, name: str) -> int:
        return self._new.count(name)

    def has_come(self, name: str) -> int:
        return self.changed[name].come if name in self.changed else 0

    def has_gone(self, name: str) -> int:
        return self.changed[name].gone if name in self.changed else 0

    def before(self, name: str) -> DataFrame:
        return self.old.facts(name)

    def after(self, name: str) -> DataFrame:
        return self._new.facts(name) if name in self.changed else self.old.facts(name)

    def rows_after(self, names: Iterable[str]) -> DataFrame:
        """The rows of predicates that are settled or that nothing reaches, in one frame."""
        return self._new.rows(names)

    def come(self, name: str) -> DataFrame:
        return self._touched(name, CAME)

    def gone(self, name: str) -> DataFrame:
        return self._touched(name, WENT)

    def unchanged(self, name: str) -> DataFrame:
        if not self.has_gone(name):
            return self.before(name)
        return self._kept(name, "unchanged", lambda: self._without(name, self.gone(name)))

    def either(self, name: str) -> DataFrame:
        """What held before or holds after the update."""
        if not self.has_come(name):
            return self.before(name)
        return self._kept(name, "either", lambda: self.before(name).unionByName(self.come(name)))

    def _without(self, name: str, gone: DataFrame) -> DataFrame:
        return self.before(name).join(gone, self.stored[name].columns, "left_anti")

    def _touched(self, name: str, which: str) -> DataFrame:
        return self._kept(name, which, lambda: self.old.changed(name, self.changed[name].path, which))

    def _kept(self, name: str, what: str, make: Callable[[], DataFrame]) -> DataFrame:
        if (name, what) not in self._frames:
            self._frames[name, what] = make()
        return self._frames[name, what]

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, rule: NormalRule, pivot: Pivot, own: Iterable[str] = ()) -> Plan:
        return make_plan(rule, pivot, own, self._estimate)

    def _estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self._new.count(atom.predicate) * 0.1 ** len(bound)) if atom.predicate in self.stored else 0.0

    def heads(self, plan: Plan, sets: Sets[DataFrame], small: bool) -> Head:
        """The heads of the instances that a plan finds."""
        context = Context(self.spark, self.dictionary, self.ids, self.functions)
        return evaluate(plan, sets.lookup, context, small)

    def pivots_below(self, rule: NormalRule, own: Sequence[str], come: bool) -> list[tuple[Pivot, bool, int]]:
        """From where a change below reaches a rule: each pivot, whether it is negated, and how many facts it takes.

        What has `come` creates instances through positive atoms and what has gone through negated ones; the other
        way round for instances that are destroyed."""
        for_positive, for_negative = (self.has_come, self.has_gone) if come else (self.has_gone, self.has_come)
        positive = [
            (Pivot(Start.POSITIVE, position), False, for_positive(atom.predicate))
            for position, atom in enumerate(rule.positives)
            if atom.predicate not in own
        ]
        negative = [
            (Pivot(Start.NEGATIVE, position), True, for_negative(atom.predicate))
            for position, atom in enumerate(rule.negatives)
        ]
        return [found for found in (*positive, *negative) if found[2]]

    def could_hold(self, rule: NormalRule, before: bool) -> bool:
        """Whether every positive atom of a rule has facts at all."""
        snapshot = self.old if before else self._new
        return all(snapshot.count(atom.predicate) for atom in rule.positives)

    def smallest(self, rule: NormalRule) -> int:
        """How many facts the smallest of the positive atoms of a rule had: about as many instances as it has."""
        return min((self.old.count(atom.predicate) for atom in rule.positives), default=1)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, touched: DataFrame, names: Sequence[str], counted: bool = True) -> None:
        """Write the facts that were touched: they are the next layer of their predicates, and tell what changed.

        `touched` has the number `p`, columns for the widest, the state, and `e0` and `h0` of before."""
        path = self._next("facts")
        width = self.old_width(names)
        counting = Observation()
        told = []
        for name in names:
            number = self.number(name)
            for what, test in _COUNTED.items():
                told.append(F.count_if(F.expr(f"p = {number} AND ({test})")).alias(f"{what}{number}"))
        rows = touched.where("h OR h0").select(
            "p", F.col("p").alias("q"), *keys(width), "e0", "h0", "e", F.col("n").cast("bigint").alias("n"), "h"
        )
        rows.observe(counting, *told).write.partitionBy("p").parquet(path)
        for name in names:
            number = self.number(name)
            found = {what: observed(counting, f"{what}{number}") for what in _COUNTED}
            self._append(name, f"{path}/p={number}", found, counted)

    def settle_tables(self, tables: Mapping[str, pa.Table], uncounted: Collection[str]) -> None:
        """The same for the few touched facts of predicates that the driver has, a table each."""
        folder = Path(self._next("facts"))
        for name, table in tables.items():
            path = folder / f"p={self.number(name)}"
            path.mkdir(parents=True)
            pq.write_table(table, path / "part-00000.parquet")
            e0, h0, e, h = (table.column(flag).to_numpy() for flag in ("e0", "h0", "e", "h"))
            masks = {"rows": h | h0, "come": h & ~h0, "gone": h0 & ~h, "given": e & ~e0, "taken": e0 & ~e}
            found = {what: int(mask.sum()) for what, mask in masks.items()}
            self._append(name, str(path), found, name not in uncounted)
        for name in set(uncounted) - set(tables):
            self.stored[name] = replace(self.stored[name], counted=False)

    def rebase(self, rows: DataFrame, names: Sequence[str]) -> None:
        """Write all facts of predicates again, as they were before the update, with derivations counted."""
        layers = write_rows(rows, {name: self.stored[name] for name in names}, self.root, Path(self._next("facts")))
        for name in names:
            counted = replace(self.stored[name], base=layers.get(name), layers=(), counted=True)
            self.stored[name] = self._before[name] = counted
        self.old.forget()

    def old_width(self, names: Iterable[str]) -> int:
        return max(self.stored[name].width for name in names)

    def _append(self, name: str, path: str, found: Mapping[str, int], counted: bool) -> None:
        stored = self.stored[name]
        facts = stored.facts + found["come"] - found["gone"]
        explicit = stored.explicit + found["given"] - found["taken"]
        self.stored[name] = replace(stored, facts=facts, explicit=explicit, counted=counted)
        if not found["rows"]:
            return
        place = str(Path(path).relative_to(self.root))
        layer = Layer(place, found["rows"])
        if stored.base is None:
            self.stored[name] = replace(self.stored[name], base=layer)
        else:
            self.stored[name] = replace(self.stored[name], layers=(*stored.layers, layer))
        self.changed[name] = Changed(place, found["come"], found["gone"])


_COUNTED = {
    "rows": "true",
    "come": CAME,
    "gone": WENT,
    "given": "e AND NOT e0",
    "taken": "e0 AND NOT e",
}
