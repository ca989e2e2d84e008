"""An update in progress: its facts, its dictionary, how it evaluates rules, and the work that it has done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, make_plan
from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.wide_frames import observed
from tidelog.spark.maintain.fact_transition import Transition
from tidelog.spark.maintain.staging import Staging
from tidelog.spark.options import Options
from tidelog.spark.plan.role_sets import Sets
from tidelog.spark.plan.rule_frames import Context, Head, evaluate
from tidelog.spark.plan.sql_expressions import Functions

# Matches that start from so few facts are sent to all tasks at every join.
SMALL = 20_000

KINDS = ("insertion", "deletion", "backward", "forward", "rederivation", "checked", "overdeleted")


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

    # ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────

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

    # ── work by kind ─────────────────────────────────────────────────────────────────────────────────────────────

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
        return {kind: self.counts[kind] for kind in KINDS}
