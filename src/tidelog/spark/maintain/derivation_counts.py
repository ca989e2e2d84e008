"""Counting on Spark: how many derivations by rules that are not recursive each touched fact gains and loses.

The instances that an update destroys count down, those that it creates count up, each exactly once (Fully dynamic,
§2.1.2). In a component without recursion a fact holds while it is explicit or its count is not zero, and that is
all. In a recursive component the count is that of the non-recursive rules alone (Modular, §4.2): a fact that has one
needs no other proof. Aggregates are maintained by touched groups: what changed below names the groups; each is
computed as it was and as it is, and the two heads count down and up.

A rule that has come into a recursion or out of one is taken from the count or counted anew, over what held before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.language.syntax import Atom, Variable, variables
from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start
from tidelog.spark.data.wide_frames import keys, padded, union_all, widened
from tidelog.spark.maintain.rule_versions import RuleChanges
from tidelog.spark.maintain.update_work import SMALL, Work
from tidelog.spark.materialise.materialiser import RULES_IN_A_JOB, batched
from tidelog.spark.plan.head_frames import encoded
from tidelog.spark.plan.rule_frames import Head

UP, DOWN, TOUCH = range(3)
_KINDS = 4
GROUPS = "#groups"


@dataclass(frozen=True)
class Contribution:
    """Heads of one kind: derivations gained or lost, or facts that are only to be looked at."""

    kind: int
    predicate: str
    head: Head


class Counting:
    """What rules contribute to the facts of some components of one wave, and what becomes of these facts."""

    def __init__(self, work: Work, rules: RuleChanges, given: DataFrame | None) -> None:
        self._work = work
        self._rules = rules
        self._given = given

    def touched(self, components: Sequence[Component]) -> DataFrame | None:
        """The touched facts of all predicates: number, columns, state of before (`e0`, `b0`, `h0`) and after.

        `b`, and `b0` before, tells whether a fact is explicit or has a derivation that is not recursive; `h` is that
        as well, as if nothing were recursive."""
        names = [name for component in components for name in component.predicates]
        delta = self._delta(list(self._contributions(components)), names)
        return None if delta is None else self._with_state(delta, names)

    def given_alone(self, components: Sequence[Component]) -> DataFrame | None:
        """The same, as far as explicit facts go."""
        names = [name for component in components for name in component.predicates]
        delta = self._delta([], names)
        return None if delta is None else self._with_state(delta, names)

    # ── contributions ────────────────────────────────────────────────────────────────────────────────────────────

    def _contributions(self, components: Sequence[Component]) -> Iterable[Contribution]:
        for component in components:
            recursive = set(component.recursive_rules)
            for number in component.rules:
                if number not in recursive:
                    yield from self._of_rule(number)
                elif number in self._rules.now_recursive:
                    yield from self._whole(self._rules.normal[number], DOWN, before=True)
            for name in component.predicates:
                for number, rule in self._rules.removed_from(name):
                    yield from self._whole(rule, TOUCH if number in self._rules.was_recursive else DOWN, before=True)
        yield from self._of_groups(components)

    def _of_rule(self, number: int) -> Iterable[Contribution]:
        """A rule that is not recursive: new, or one that what changed below reaches."""
        rule = self._rules.normal[number]
        if number in self._rules.added:
            yield from self._whole(rule, UP, before=False)
            return
        if number in self._rules.no_longer_recursive:
            yield from self._whole(rule, UP, before=True)
        if not rule.aggregates:
            yield from self._delta_heads(rule, DOWN)
            yield from self._delta_heads(rule, UP)

    def recount(self, names: Sequence[str]) -> None:
        """Count the derivations of all facts of some predicates as they were before the update."""
        contributions = [Contribution(TOUCH, name, Head(self._work.before(name), ())) for name in names]
        for name in names:
            for rule in self._rules.counted_before(name):
                contributions += self._whole(rule, UP, before=True)
        sums = _added_up(self._sums(contributions, names), self._work.old_width(names))
        counted = self._with_state(sums, names)
        self._work.rebase(counted.withColumn("h", F.lit(True)), names)

    def _whole(self, rule: NormalRule, kind: int, before: bool) -> Iterable[Contribution]:
        if self._work.could_hold(rule, before):
            sets = self._work.sets.held() if before else self._work.sets.holding()
            plan = self._work.plan(rule, ALL)
            yield Contribution(kind, rule.head.predicate, self._work.heads(plan, sets, small=False))

    def _delta_heads(self, rule: NormalRule, kind: int) -> Iterable[Contribution]:
        """Heads of the instances that what changed below creates (UP) or destroys (DOWN)."""
        come = kind == UP
        if not self._work.could_hold(rule, before=not come):
            return
        for pivot, negated, count in self._work.pivots_below(rule, (), come):
            sets = self._work.sets.created(negated) if come else self._work.sets.destroyed(negated)
            plan = self._work.plan(rule, pivot)
            yield Contribution(kind, rule.head.predicate, self._work.heads(plan, sets, count <= SMALL))

    # ── aggregates by touched groups ─────────────────────────────────────────────────────────────────────────────

    def _of_groups(self, components: Sequence[Component]) -> Iterable[Contribution]:
        rules = [
            self._rules.normal[number]
            for component in components
            for number in component.rules
            if number not in self._rules.added and self._rules.normal[number].aggregates
        ]
        for rule, groups in zip(rules, self._touched_groups(rules), strict=True):
            if groups is None:
                continue
            for kind, before in ((DOWN, True), (UP, False)):
                if self._work.could_hold(rule, before):
                    yield self._group_heads(rule, kind, groups, before)

    def _touched_groups(self, rules: Sequence[NormalRule]) -> list[DataFrame | None]:
        """For each rule the groups that a change below reaches, by the variables that atoms bind; None for none."""
        entries = [
            (position, max(1, len(bound_group(rule))), found.head)
            for position, rule in enumerate(rules)
            for kind in (DOWN, UP)
            for found in self._delta_heads(grouping(rule), kind)
        ]
        if not entries:
            return [None] * len(rules)
        width = max(arity for _, arity, _ in entries)
        frames = [
            padded(head.frame.withColumn("p", F.lit(number)), arity, width).distinct()
            for number, arity, head in entries
        ]
        stored = self._work.cut(union_all(frames).distinct())
        reached = {number: arity for number, arity, _ in entries}
        return [
            stored.where(F.col("p") == number).select(*keys(reached[number])) if number in reached else None
            for number in range(len(rules))
        ]

    def _group_heads(self, rule: NormalRule, kind: int, groups: DataFrame, before: bool) -> Contribution:
        """The aggregates of the touched groups, over what held before or what holds now."""
        sets = self._work.sets.held(lambda _: groups) if before else self._work.sets.holding(take=lambda _: groups)
        variables_bound = bound_group(rule)
        if variables_bound:
            guarded = replace(rule, positives=(Atom(GROUPS, variables_bound), *rule.positives))
            plan = self._work.plan(guarded, Pivot(Start.POSITIVE, 0))
        else:
            plan = self._work.plan(rule, ALL)
        return Contribution(kind, rule.head.predicate, self._work.heads(plan, sets, small=False))

    # ── from contributions to facts ──────────────────────────────────────────────────────────────────────────────

    def _delta(self, contributions: list[Contribution], names: Sequence[str]) -> DataFrame | None:
        """All that is contributed to a fact in one row: `dn` derivations, whether it is given, and whether taken."""
        width = self._work.old_width(names)
        parts = self._sums(contributions, names)
        if self._given is not None:
            numbers = [self._work.number(name) for name in names]
            given = widened(self._given.where(F.col("p").isin(numbers)), width)
            parts.append(given.withColumn("dn", F.lit(0).cast("bigint")))
        return _added_up(parts, width) if parts else None

    def _sums(self, contributions: Sequence[Contribution], names: Sequence[str]) -> list[DataFrame]:
        """The sums of each job's worth of contributions, in files unless one job can do all that follows as well."""
        width = self._work.old_width(names)
        sums = [self._summed(batch, width) for batch in batched(contributions, RULES_IN_A_JOB)]
        at_once = len(sums) <= 1 and self._work.few_before(names)
        return sums if at_once else list(map(self._work.cut, sums))

    def _summed(self, contributions: Sequence[Contribution], width: int) -> DataFrame:
        work = self._work
        entries = [
            (work.number(found.predicate) * _KINDS + found.kind, work.arity(found.predicate), found.head)
            for found in contributions
        ]
        rows = encoded(entries, work.stage, work.dictionary)
        rows = work.noted(rows, "insertion", f"p % {_KINDS} = {UP}")
        rows = work.noted(rows, "deletion", f"p % {_KINDS} = {DOWN}")
        kind = F.col("p") % _KINDS
        change = F.when(kind == UP, 1).when(kind == DOWN, -1).otherwise(0)
        plain = widened(rows.withColumn("dn", change), width).withColumn("p", F.expr(f"int(p div {_KINDS})"))
        summed = plain.groupBy("p", *keys(width)).agg(F.sum("dn").alias("dn"))
        return summed.withColumns({"give": F.lit(False), "take": F.lit(False)})

    def _with_state(self, delta: DataFrame, names: Sequence[str]) -> DataFrame:
        columns = ["p", *keys(self._work.old_width(names))]
        before = [name for name in names if self._work.old.count(name)]
        if before:
            rows = widened(self._work.old.rows(before), len(columns) - 1)
            if not self._work.few_before(names):
                delta = self._work.cut(delta)
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


def _added_up(parts: Sequence[DataFrame], width: int) -> DataFrame:
    sums = (F.sum("dn").alias("dn"), F.max("give").alias("give"), F.max("take").alias("take"))
    return union_all(parts).groupBy("p", *keys(width)).agg(*sums)


def bound_group(rule: NormalRule) -> tuple[Variable, ...]:
    """The variables of a rule's group that positive atoms bind."""
    bound = {variable for atom in rule.positives for variable in variables(atom)}
    return tuple(dict.fromkeys(term for term in rule.group if isinstance(term, Variable) and term in bound))


def grouping(rule: NormalRule) -> NormalRule:
    """The rule that yields the groups of a rule with aggregates."""
    return replace(rule, head=Atom(rule.head.predicate, bound_group(rule)), aggregates=())
