"""Counting on Spark: how many derivations by non-recursive rules each touched fact gains and loses.

The instances that an update destroys count down, those that it creates count up, each exactly once (Fully dynamic,
§2.1.2). In a component without recursion, a fact holds as long as it is explicit or its count is not zero. In a
recursive component, the count is that of the non-recursive rules alone (Modular, §4.2): a fact with such a derivation
needs no other proof. Aggregates are maintained by touched groups: the changes below name the groups; each is computed
as it was and as it is, and the two heads count down and up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start
from tidelog.spark.data.wide_frames import keys, padded, union_all, widened
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.plan.rule_changes import Roles, RuleChanges, bound_group, grouping, guarded
from tidelog.spark.plan.rule_frames import Head, encoded
from tidelog.spark.plan.schedule import in_jobs

# Derivations gained, derivations lost, and facts that are only to be looked at.
UP, DOWN, TOUCH = range(3)
_KINDS = 4

Contribution = tuple[int, int, Head]
"""Heads under the number of their predicate times `_KINDS`, plus a kind; and their arity."""


class Counting:
    """What rules contribute to the facts of some components of one wave, and what becomes of these facts.

    `given` are the explicit facts that the update gives and takes (`Records.encoded`)."""

    def __init__(self, work: Work, rules: RuleChanges, given: DataFrame | None) -> None:
        self._work = work
        self._facts = work.facts
        self._rules = rules
        self._given = given

    def touched(self, components: Sequence[Component], names: Sequence[str]) -> DataFrame | None:
        """The facts of predicates that are given or taken, or that rules of components touch; None if there are none.

        They have their number, columns, and state of before (`e0`, `b0`, `h0`) and after. `b`, and `b0` before, tells
        whether a fact is explicit or has a non-recursive derivation; so does `h`, as if nothing were recursive."""
        columns = self._facts.columns(names)
        parts = self._sums(list(self._contributions(components)), names)
        if self._given is not None:
            numbers = [self._facts.stored[name].number for name in names]
            given = widened(self._given.where(F.col("p").isin(numbers)), len(columns) - 1)
            parts.append(given.withColumn("dn", F.lit(0).cast("bigint")))
        if not parts:
            return None
        # Each fact is given once.
        only_given = self._given is not None and len(parts) == 1
        return self._with_state(parts[0] if only_given else _added_up(parts, columns), names)

    def recount(self, components: Iterable[Component]) -> None:
        """Count the derivations of all facts of components that are not counted, as they were before the update."""
        uncounted = {
            name: component
            for component in components
            for name in component.predicates
            if not self._facts.stored[name].counted and self._facts.old.count(name)
        }
        if not uncounted:
            return
        names = list(uncounted)
        contributions = [self._entry(TOUCH, name, Head(self._facts.old.facts(name), ())) for name in names]
        for component in dict.fromkeys(uncounted.values()):
            for rule in Roles(self._rules, component).counted_before:
                if rule.head.predicate in uncounted:
                    contributions += self._whole(rule, UP, before=True)
        sums = _added_up(self._sums(contributions, names), self._facts.columns(names))
        self._facts.rebase(self._with_state(sums, names).withColumn("h", F.lit(True)), names)

    def _contributions(self, components: Sequence[Component]) -> Iterator[Contribution]:
        aggregated: list[NormalRule] = []
        for component in components:
            roles = Roles(self._rules, component)
            for rule, gains, before in roles.recounted:
                yield from self._whole(rule, UP if gains else DOWN, before)
            for rule in roles.gone:
                yield from self._whole(rule, TOUCH, before=True)
            for rule in roles.counted:
                if rule.aggregates:
                    aggregated.append(rule)
                else:
                    yield from self._from_below(rule, DOWN)
                    yield from self._from_below(rule, UP)
        for rule, groups in zip(aggregated, self._touched_groups(aggregated), strict=True):
            if groups is not None:
                yield from self._of_groups(rule, groups)

    def _whole(self, rule: NormalRule, kind: int, before: bool) -> Iterator[Contribution]:
        if self._facts.could_hold(rule, before):
            yield self._entry(kind, rule.head.predicate, self._work.heads(rule, ALL, self._facts.phases.whole(before)))

    def _from_below(self, rule: NormalRule, kind: int) -> Iterator[Contribution]:
        """Heads of the instances that changes below create (UP) or destroy (DOWN)."""
        created = kind == UP
        if self._facts.could_hold(rule, before=not created):
            for pivot, sets, count in self._facts.phases.changed_below(rule, (), created):
                yield self._entry(kind, rule.head.predicate, self._work.heads(rule, pivot, sets, start=count))

    def _entry(self, kind: int, name: str, head: Head) -> Contribution:
        return self._facts.stored[name].number * _KINDS + kind, self._facts.stored[name].arity, head

    def _touched_groups(self, rules: Sequence[NormalRule]) -> list[DataFrame | None]:
        """For each rule, the groups that a change below reaches, by the variables that atoms bind; None for none."""
        widths = [max(1, len(bound_group(rule))) for rule in rules]
        heads = [
            (place, head)
            for place, rule in enumerate(rules)
            for kind in (DOWN, UP)
            for _, _, head in self._from_below(grouping(rule), kind)
        ]
        reached = {place for place, _ in heads}
        if not reached:
            return [None] * len(rules)
        width = max(widths[place] for place in reached)
        frames = [
            padded(head.frame.withColumn("p", F.lit(place)), widths[place], width).distinct() for place, head in heads
        ]
        stored = self._work.staging.cut(union_all(frames).distinct())
        return [
            stored.where(F.col("p") == place).select(*keys(widths[place])) if place in reached else None
            for place in range(len(rules))
        ]

    def _of_groups(self, rule: NormalRule, groups: DataFrame) -> Iterator[Contribution]:
        """The aggregates of the touched groups, over what held before and over what holds now."""
        chosen, pivot = (guarded(rule), Pivot(Start.POSITIVE, 0)) if bound_group(rule) else (rule, ALL)
        for kind, before in ((DOWN, True), (UP, False)):
            if self._facts.could_hold(rule, before):
                sets = self._facts.phases.whole(before, lambda _: groups)
                yield self._entry(kind, rule.head.predicate, self._work.heads(chosen, pivot, sets))

    def _sums(self, contributions: Sequence[Contribution], names: Sequence[str]) -> list[DataFrame]:
        """The sums of each job's worth of contributions, in files unless one job can do all that follows as well."""
        columns = self._facts.columns(names)
        sums = [self._summed(batch, columns) for batch in in_jobs(contributions)]
        at_once = len(sums) <= 1 and self._facts.were_few(names)
        return sums if at_once else list(map(self._work.staging.cut, sums))

    def _summed(self, contributions: Sequence[Contribution], columns: Sequence[str]) -> DataFrame:
        rows = encoded(contributions, self._work.staging.cut, self._work.dictionary)
        rows = self._work.noted(rows, "insertion", f"p % {_KINDS} = {UP}")
        rows = self._work.noted(rows, "deletion", f"p % {_KINDS} = {DOWN}")
        kind = F.col("p") % _KINDS
        change = F.when(kind == UP, 1).when(kind == DOWN, -1).otherwise(0)
        wide = widened(rows.withColumn("dn", change), len(columns) - 1)
        plain = wide.withColumn("p", F.expr(f"int(p div {_KINDS})"))
        summed = plain.groupBy(*columns).agg(F.sum("dn").alias("dn"))
        return summed.withColumns({"give": F.lit(False), "take": F.lit(False)})

    def _with_state(self, delta: DataFrame, names: Sequence[str]) -> DataFrame:
        """The facts of a delta with their state before and after."""
        columns = self._facts.columns(names)
        before = [name for name in names if self._facts.old.count(name)]
        if before:
            rows = widened(self._facts.old.rows(before), len(columns) - 1)
            if not self._facts.were_few(names):
                delta = self._work.staging.cut(delta)
                rows = rows.join(delta.select(*columns), columns, "left_semi")
            state = rows.withColumnsRenamed({"e": "e0", "n": "n0", "h": "h0"})
            delta = delta.join(state, columns, "left")
        else:
            delta = delta.withColumns({"e0": F.lit(False), "n0": F.lit(0), "h0": F.lit(False)})
        filled = delta.select(
            *columns,
            F.coalesce("e0", F.lit(False)).alias("e0"),
            F.coalesce("h0", F.lit(False)).alias("h0"),
            F.expr("nvl(e0, false) OR nvl(n0, 0) > 0").alias("b0"),
            F.expr("give OR (nvl(e0, false) AND NOT take)").alias("e"),
            F.expr("nvl(n0, 0) + dn").alias("n"),
        )
        return filled.withColumn("b", F.expr("e OR n > 0")).withColumn("h", F.col("b"))


def _added_up(parts: Sequence[DataFrame], columns: Sequence[str]) -> DataFrame:
    """All contributions to a fact in one row: `dn` derivations, whether it is given, and whether taken."""
    sums = (F.sum("dn").alias("dn"), F.max("give").alias("give"), F.max("take").alias("take"))
    return union_all(parts).groupBy(*columns).agg(*sums)
