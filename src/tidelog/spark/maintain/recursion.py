"""Recursive components on Spark, a set at a time: Backward/Forward, Delete/Rederive, and semi-naive insertion.

`derivation_counts.py` tells which facts gained or lost explicit support or non-recursive derivations. A fact that has
either holds: it is *protected*. The others that lost something are candidates for deletion.

**Backward/Forward** (Motik et al., §4, with sets in place of single facts). C is closed under backward chaining: for
each instance of a recursive rule that derives a fact of C, it has all facts of the component that the instance uses,
except protected ones. P is what rules (7) and (8) prove forwards within C. As C is closed, exactly the facts of C ∖ P
no longer hold; they go, and what they helped to derive is checked next. **Delete/Rederive** (§3, DR1–DR5) overdeletes
forwards to the end, and brings back what still has an instance. `auto` abandons Backward/Forward for it if C becomes a
large part of the component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, HEAD, Pivot, Start
from tidelog.spark.data.wide_frames import union_all, widened
from tidelog.spark.maintain.touched_facts import FRESH, LOST, Pile, Step, Touched
from tidelog.spark.maintain.update_work import Difference, Work
from tidelog.spark.plan.role_sets import Sets
from tidelog.spark.plan.rule_changes import Roles, RuleChanges, predicates_of
from tidelog.spark.plan.rule_frames import Head, encoded
from tidelog.spark.plan.schedule import in_jobs

# Backward/Forward may check this many facts, or this share of the component, before `auto` abandons it.
FEW_CHECKED = 10_000
MOST_CHECKED = 0.3

Facts = Callable[[str], DataFrame]
"""The facts of a predicate in some set."""

Found = Iterator[tuple[str, Head]]
"""Facts that rule instances have for an atom, by predicate."""

Rules = Sequence[tuple[NormalRule, Sequence[str]]]
"""Recursive rules, each with the predicates of its component."""


class Recursion:
    """The recursive components of one wave, all together."""

    def __init__(self, work: Work, rules: RuleChanges, components: Sequence[Component], touched: Touched) -> None:
        self._work = work
        self._phases = work.facts.phases
        self._names = predicates_of(components)
        self._columns = work.facts.columns(self._names)
        self._touched = touched
        self._before = [name for name in self._names if work.facts.old.count(name)]
        self._were_few = work.facts.were_few(self._names)
        roles = [(Roles(rules, component), component.predicates) for component in components]
        self._rules: Rules = [(rule, own) for found, own in roles for rule in found.checked]
        self._kept_rules: Rules = [(rule, own) for found, own in roles for rule in found.kept]
        self._new_rules: Rules = [(rule, own) for found, own in roles for rule in found.new]
        self._deleted = self._pile()
        self._inserted = self._pile()

    def run(self) -> Difference:
        """What goes of the components' facts, and what comes; a fact that does both stays."""
        rederived = self._delete() if self._before else None
        self._insert(rederived)
        return self._deleted.frame(), self._inserted.frame()

    def _pile(self) -> Pile:
        return Pile(self._work, self._names)

    def _rest(self, name: str) -> DataFrame:
        """What held before and has not been deleted."""
        facts = self._phases.before(name)
        if not self._deleted.count_of(name):
            return facts
        return facts.join(self._deleted.facts(name), self._work.facts.stored[name].columns, "left_anti")

    def _current(self, name: str, until: int | None = None) -> DataFrame:
        """What is left, and what has been inserted so far, or until some step."""
        return self._rest(name).unionByName(self._inserted.facts(name, until=until))

    def _unprotected(self, rows: DataFrame) -> DataFrame:
        """The rows that held before and need a proof. Touched ones are protected, or candidates already."""
        held = self._wide(self._work.facts.old.rows(self._before).where("NOT e AND n = 0"))
        unproved = held.join(rows, self._columns, "left_semi")
        return unproved.join(self._touched.frame.select(*self._columns), self._columns, "left_anti")

    def _unknown(self, rows: DataFrame) -> DataFrame:
        """The rows that are not among what is left of before."""
        if not self._before:
            return rows
        held = self._wide(self._work.facts.old.rows(self._before))
        if not self._were_few:
            held = held.join(rows, self._columns, "left_semi")
        deleted = self._deleted.frame()
        if deleted is not None:
            held = held.join(deleted, self._columns, "left_anti")
        return rows.join(held, self._columns, "left_anti")

    def _wide(self, rows: DataFrame) -> DataFrame:
        return widened(rows, len(self._columns) - 1).select(*self._columns)

    def _from_below(self, created: bool) -> Found:
        """Heads of instances that changes below create or destroy, and of all instances of new rules."""
        for rule, own in self._kept_rules:
            for pivot, sets, count in self._phases.changed_below(
                rule, own, created, self._current if created else None
            ):
                yield rule.head.predicate, self._work.heads(rule, pivot, sets, own, start=count)
        for rule, own in self._new_rules if created else ():
            yield rule.head.predicate, self._work.heads(rule, ALL, self._phases.holding(self._current), own)

    def _forward(self, pile: Pile, sets: Sets[DataFrame], rules: Rules) -> Found:
        """Heads of instances that use a fact of the last step of a pile."""
        sets = replace(sets, take=partial(pile.facts, since=-1))
        for rule, own in rules:
            for position, atom in enumerate(rule.positives):
                count = pile.count_of(atom.predicate, since=-1) if atom.predicate in own else 0
                if count:
                    pivot = Pivot(Start.POSITIVE, position)
                    yield rule.head.predicate, self._work.heads(rule, pivot, sets, own, start=count)

    def _backward(self, pile: Pile, since: int, own_facts: Facts, bodies: bool) -> Found:
        """Instances that derive a fact of the last steps of a pile: their heads or, with `bodies`, their own facts."""
        sets = self._phases.holding(own_facts, lambda name: pile.facts(name, since))
        for rule, own in self._rules:
            count = pile.count_of(rule.head.predicate, since)
            if count:
                for atom in [atom for atom in rule.positives if atom.predicate in own] if bodies else [rule.head]:
                    yield atom.predicate, self._work.heads(rule, HEAD, sets, own, count, wanted=atom)

    def _gathered(self, found: Found, kind: str) -> DataFrame | None:
        """Heads as distinct rows, counted as work of a kind; None if there was no plan to find any.

        They are in files, unless what they are compared with is small: then one job does it all."""
        facts, staging = self._work.facts, self._work.staging
        entries = [(facts.stored[name].number, facts.stored[name].arity, head) for name, head in found]
        if not entries:
            return None
        parts = [
            self._wide(self._work.noted(encoded(batch, staging.cut, self._work.dictionary), kind)).distinct()
            for batch in in_jobs(entries)
        ]
        return parts[0] if self._were_few and len(parts) == 1 else union_all(list(map(staging.cut, parts)))

    def _consequences_of_deleted(self) -> DataFrame | None:
        """What the facts deleted last helped to derive (rule (5)), as far as it needs a proof."""
        found = self._gathered(self._forward(self._deleted, self._phases.held(), self._kept_rules), "deletion")
        return None if found is None else self._unprotected(found)

    # ── deletion ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self) -> DataFrame | None:
        """Delete what lost its proof, by the algorithm that the options choose; returns what may be inserted again."""
        candidates = self._pile()
        lost = self._gathered(self._from_below(created=False), "deletion")
        known = candidates.step_of(self._touched, LOST)
        if lost is None:
            candidates.adopt(known)
        else:
            candidates.grow(known.frame.unionByName(self._unprotected(lost)))
        if not candidates.count:
            return None
        [first] = candidates.steps
        if self._work.options.maintenance != "dred" and self._prove_and_delete(candidates):
            return None
        self._deleted = self._pile()
        self._deleted.adopt(first)  # DR1
        while (found := self._consequences_of_deleted()) is not None and self._deleted.grow(found):  # DR2
            pass
        self._work.counts["overdeleted"] += self._deleted.count
        return self._gathered(self._backward(self._deleted, 0, self._rest, bodies=False), "rederivation")  # DR4

    def _prove_and_delete(self, checked: Pile) -> bool:
        """Backward/Forward (Algorithm 1) from candidates, which become C; False if it has to check too much."""
        proved, start = self._pile(), 0
        while True:
            if not self._close_backwards(checked):
                return False
            self._prove(checked, start, proved)
            if not self._drop(checked, start, proved):
                return True
            start = len(checked.steps)
            found = self._consequences_of_deleted()  # Lines 7–9.
            if found is None or not checked.grow(found):
                return True

    def _close_backwards(self, checked: Pile) -> bool:
        """Lines 15–18: add to C whatever facts of C may rest on."""
        whole = sum(map(self._work.facts.old.count, self._names))
        while True:
            is_too_much = checked.count > max(FEW_CHECKED, MOST_CHECKED * whole)
            if is_too_much and self._work.options.maintenance == "auto":
                return False
            bodies = self._backward(checked, len(checked.steps) - 1, self._rest, bodies=True)
            found = self._gathered(bodies, "backward")
            if found is None or not checked.grow(self._unprotected(found)):
                return True

    def _prove(self, checked: Pile, since: int, proved: Pile) -> None:
        """P: rule (7) from what is protected, by instances for facts of C; then rule (8) from what has been proved."""

        def holds(name: str) -> DataFrame:
            return self._touched.protected(self._work.facts, name).unionByName(proved.facts(name))

        found = self._gathered(self._backward(checked, since, holds, bodies=False), "forward")
        whole = checked.frame(since)
        assert whole is not None
        while found is not None and proved.grow(found.join(whole, self._columns, "left_semi")):
            found = self._gathered(self._forward(proved, self._phases.holding(holds), self._rules), "forward")

    def _drop(self, checked: Pile, since: int, proved: Pile) -> bool:
        """D := D ∪ (C ∖ P), as line 11 deletes it; returns whether there was anything."""
        rows, done = checked.frame(since), proved.frame()
        assert rows is not None
        counts = {name: checked.count_of(name, since) for name in self._names}
        self._work.counts["checked"] += sum(counts.values())
        if done is not None:
            return self._deleted.grow(rows.join(done, self._columns, "left_anti"))
        self._deleted.adopt(Step(rows, counts))
        return True

    # ── insertion ────────────────────────────────────────────────────────────────────────────────────────────────

    def _insert(self, rederived: DataFrame | None) -> None:
        """DR5: what comes from below, from new rules and back from overdeletion, and then round by round."""
        fresh = self._inserted.step_of(self._touched, FRESH)
        found = self._gathered(self._from_below(created=True), "insertion")
        others = [rows for rows in (rederived, found) if rows is not None]
        if others:
            self._inserted.grow(union_all([fresh.frame, self._unknown(union_all(others))]))
        else:
            self._inserted.adopt(fresh)
        while self._inserted.steps:
            sets = replace(self._phases.holding(self._current), own_before=partial(self._current, until=-1))
            found = self._gathered(self._forward(self._inserted, sets, self._rules), "insertion")
            if found is None or not self._inserted.grow(self._unknown(found)):
                break
