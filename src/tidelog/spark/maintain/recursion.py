"""Recursive components on Spark, a set at a time: Backward/Forward, Delete/Rederive, and semi-naive insertion.

Which facts gained or lost what is not recursive is known from `counting.py`. A fact that is explicit or has a
derivation by a rule that is not recursive holds: it is *protected*. The others that lost something are candidates.

**Backward/Forward** (Motik et al., §4, with whole sets in place of single facts). C is closed under looking backwards:
it has all facts of the component that instances of its recursive rules for facts of C use, but for the protected ones.
P is what rules (7) and (8) prove forwards within C. As C is closed, C ∖ P is exactly what does not hold; it goes, and
what it helped to derive is looked at next. **Delete/Rederive** (§3, DR1–DR5): overdelete forwards to the end, bring
back what still has an instance. `auto` gives Backward/Forward up for it where C becomes a large part of the component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, HEAD, Pivot, Start
from tidelog.spark.data.wide_frames import keys, union_all, widened
from tidelog.spark.maintain.fact_pile import Pile, Step
from tidelog.spark.maintain.role_sets import Sets
from tidelog.spark.maintain.rule_versions import RuleChanges
from tidelog.spark.maintain.touched_facts import FRESH, LOST, Touched
from tidelog.spark.maintain.update_work import SMALL, Facts, Work
from tidelog.spark.materialise.materialiser import RULES_IN_A_JOB, batched
from tidelog.spark.plan.head_frames import encoded
from tidelog.spark.plan.rule_frames import Head

# Backward/Forward looks at so many facts in any case, and then at this share of the component, before it gives up.
FEW_CHECKED = 10_000
MOST_CHECKED = 0.3

Found = Iterator[tuple[str, Head]]


class Recursion:
    """The recursive components of one wave, all together."""

    def __init__(self, work: Work, rules: RuleChanges, components: Sequence[Component], touched: Touched) -> None:
        self._work = work
        self._rules = rules
        self._names = [name for component in components for name in component.predicates]
        self._own = {number: component.predicates for component in components for number in component.recursive_rules}
        self._columns = ["p", *keys(work.old_width(self._names))]
        self._counts = touched
        self._touched = touched.frame
        self._before = [name for name in self._names if work.old.count(name)]
        self._few = work.few_before(self._names)
        self._deleted = self._pile()
        self._inserted = self._pile()

    def run(self) -> tuple[DataFrame | None, DataFrame | None]:
        """What goes of the component's facts, and what comes; a fact that does both stays."""
        rederived = self._delete() if self._before else None
        self._insert(rederived)
        return self._deleted.frame(), self._inserted.frame()

    def _pile(self) -> Pile:
        return Pile(self._work, self._names)

    # ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rest(self, name: str) -> DataFrame:
        """What held before and has not been deleted."""
        facts = self._work.before(name)
        if not self._deleted.count_of(name):
            return facts
        return facts.join(self._deleted.facts(name), self._work.stored[name].columns, "left_anti")

    def _current(self, name: str) -> DataFrame:
        """What is left, and what has been inserted by now."""
        return self._rest(name).unionByName(self._inserted.facts(name))

    def _earlier(self, name: str) -> DataFrame:
        """The same without the last step."""
        return self._rest(name).unionByName(self._inserted.facts(name, self._inserted.steps[:-1]))

    def _protected(self, name: str) -> DataFrame:
        stored = self._work.stored[name]
        before = self._work.old.rows([name]).where("e OR n > 0")
        touched = self._touched.where(F.col("p") == stored.number)
        kept = before.join(touched.select(*stored.columns), stored.columns, "left_anti")
        return kept.select(*stored.columns).unionByName(touched.where("b").select(*stored.columns))

    def _unprotected(self, rows: DataFrame) -> DataFrame:
        """Those rows that held before and need a proof. Touched ones are either protected or candidates already."""
        held = self._wide(self._work.old.rows(self._before).where("NOT e AND n = 0"))
        open_ = held.join(rows, self._columns, "left_semi")
        return open_.join(self._touched.select(*self._columns), self._columns, "left_anti")

    def _wide(self, rows: DataFrame) -> DataFrame:
        return widened(rows, len(self._columns) - 1).select(*self._columns)

    # ── instances ────────────────────────────────────────────────────────────────────────────────────────────────

    def _kept_rules(self) -> Iterator[tuple[int, NormalRule]]:
        return ((number, self._rules.normal[number]) for number in self._own if number not in self._rules.added)

    def _from_below(self, come: bool) -> Found:
        """Heads of instances of recursive rules that what changed below creates or destroys."""
        work = self._work
        for number, rule in self._kept_rules():
            for pivot, negated, count in work.pivots_below(rule, self._own[number], come):
                sets = work.sets.created(negated, self._current) if come else work.sets.destroyed(negated)
                plan = work.plan(rule, pivot, self._own[number])
                yield rule.head.predicate, work.heads(plan, sets, count <= SMALL)

    def _forward(self, pile: Pile, sets: Sets[DataFrame], rules: Iterable[tuple[int, NormalRule]]) -> Found:
        """Heads of instances that use a fact of the last step of a pile."""
        for number, rule in rules:
            for position, atom in enumerate(rule.positives):
                count = pile.steps[-1].counts.get(atom.predicate, 0) if pile.steps else 0
                if count and atom.predicate in self._own[number]:
                    plan = self._work.plan(rule, Pivot(Start.POSITIVE, position), self._own[number])
                    yield rule.head.predicate, self._work.heads(plan, sets, count <= SMALL)

    def _backward(self, pile: Pile, since: int, own: Facts, bodies: bool) -> Found:
        """Instances that derive a fact of the last steps of a pile: their heads or, with `bodies`, their own facts."""
        sets = self._work.sets.holding(own, lambda name: pile.facts(name, pile.steps[since:]))
        for number in self._own:
            rule = self._rules.normal[number]
            count = pile.count_of(rule.head.predicate, since)
            if not count:
                continue
            plan = self._work.plan(rule, HEAD, self._own[number])
            used = [atom for atom in rule.positives if atom.predicate in self._own[number]] if bodies else [rule.head]
            for atom in used:
                wanted = replace(plan, rule=replace(rule, head=atom))
                yield atom.predicate, self._work.heads(wanted, sets, count <= SMALL)

    def _gathered(self, found: Found, kind: str) -> DataFrame | None:
        """Heads as distinct rows, counted as work of a kind; None where no plan found any.

        They are in files, unless what they are to be compared with is small: then one job does it all."""
        entries = [(self._work.number(name), self._work.arity(name), head) for name, head in found]
        if not entries:
            return None
        parts = [
            self._wide(self._work.noted(encoded(batch, self._work.stage, self._work.dictionary), kind)).distinct()
            for batch in batched(entries, RULES_IN_A_JOB)
        ]
        return parts[0] if self._few and len(parts) == 1 else union_all(list(map(self._work.cut, parts)))

    # ── deletion ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self) -> DataFrame | None:
        """Delete what lost its proof, by the way that the options choose; what may be inserted again."""
        candidates = self._pile()
        lost = self._gathered(self._from_below(come=False), "deletion")
        known = self._step(LOST)
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
        self._overdelete(first)
        return self._gathered(self._backward(self._deleted, 0, self._rest, bodies=False), "rederivation")

    def _step(self, test: str) -> Step:
        """The touched facts that fit a test."""
        rows = self._wide(self._counts.rows(test, self._names, self._work))
        return Step(rows, {name: self._counts.count(test, [name]) for name in self._names})

    def _prove_and_delete(self, checked: Pile) -> bool:
        """Backward/Forward from candidates, which become C; False where it looks at too much."""
        proved, start = self._pile(), 0
        while True:
            if not self._close_backwards(checked):
                return False
            self._prove(checked, start, proved)
            if not self._drop(checked, start, proved):
                return True
            spread = self._forward(self._deleted, self._work.sets.held(self._deleted.last), self._kept_rules())
            found = self._gathered(spread, "deletion")
            start = len(checked.steps)
            if found is None or not checked.grow(self._unprotected(found)):
                return True

    def _drop(self, checked: Pile, since: int, proved: Pile) -> bool:
        """D := D ∪ (C ∖ P); whether that was anything."""
        latest = checked.steps[since:]
        rows, done = checked.frame(since), proved.frame()
        assert rows is not None
        self._work.counts["checked"] += sum(step.count for step in latest)
        if done is not None:
            return self._deleted.grow(rows.join(done, self._columns, "left_anti"))
        counts = {name: sum(step.counts[name] for step in latest) for name in self._names}
        self._deleted.adopt(Step(rows, counts))
        return True

    def _close_backwards(self, checked: Pile) -> bool:
        """Take into C whatever facts of C may rest on."""
        while True:
            if self._gives_up(checked):
                return False
            bodies = self._backward(checked, len(checked.steps) - 1, self._rest, bodies=True)
            found = self._gathered(bodies, "backward")
            if found is None or not checked.grow(self._unprotected(found)):
                return True

    def _gives_up(self, checked: Pile) -> bool:
        if self._work.options.maintenance != "auto":
            return False
        whole = sum(self._work.old.count(name) for name in self._names)
        return checked.count > max(FEW_CHECKED, MOST_CHECKED * whole)

    def _prove(self, checked: Pile, since: int, proved: Pile) -> None:
        """P: rule (7) from what is protected, by instances for facts of C; then rule (8) from what has been proved."""

        def holds(name: str) -> DataFrame:
            return self._protected(name).unionByName(proved.facts(name))

        found = self._gathered(self._backward(checked, since, holds, bodies=False), "forward")
        whole = checked.frame(since)
        assert whole is not None
        rules = [(number, self._rules.normal[number]) for number in self._own]
        while found is not None and proved.grow(found.join(whole, self._columns, "left_semi")):
            sets = replace(self._work.sets.holding(holds), take=proved.last)
            found = self._gathered(self._forward(proved, sets, rules), "forward")

    def _overdelete(self, candidates: Step) -> None:
        """DR1 and DR2."""
        self._deleted.adopt(candidates)
        while True:
            spread = self._forward(self._deleted, self._work.sets.held(self._deleted.last), self._kept_rules())
            found = self._gathered(spread, "deletion")
            if found is None or not self._deleted.grow(self._unprotected(found)):
                break
        self._work.counts["overdeleted"] += self._deleted.count

    # ── insertion ────────────────────────────────────────────────────────────────────────────────────────────────

    def _insert(self, rederived: DataFrame | None) -> None:
        """DR5: what came from below, from new rules and back from overdeletion, and then round by round."""
        fresh = self._step(FRESH)
        found = self._gathered(self._from_below_and_new_rules(), "insertion")
        others = [rows for rows in (rederived, found) if rows is not None]
        if others:
            self._inserted.grow(union_all([fresh.frame, self._unknown(union_all(others))]))
        else:
            self._inserted.adopt(fresh)
        rules = [(number, self._rules.normal[number]) for number in self._own]
        while self._inserted.steps:
            sets = replace(self._work.sets.holding(self._current), take=self._inserted.last, own_before=self._earlier)
            found = self._gathered(self._forward(self._inserted, sets, rules), "insertion")
            if found is None or not self._inserted.grow(self._unknown(found)):
                break

    def _from_below_and_new_rules(self) -> Found:
        yield from self._from_below(come=True)
        for number in self._own:
            if number in self._rules.added:
                rule = self._rules.normal[number]
                plan = self._work.plan(rule, ALL, self._own[number])
                yield rule.head.predicate, self._work.heads(plan, self._work.sets.holding(self._current), small=False)

    def _unknown(self, rows: DataFrame) -> DataFrame:
        """Those rows that are not among what is left of before."""
        if not self._before:
            return rows
        held = self._wide(self._work.old.rows(self._before))
        if not self._few:
            held = held.join(rows, self._columns, "left_semi")
        deleted = self._deleted.frame()
        if deleted is not None:
            held = held.join(deleted, self._columns, "left_anti")
        return rows.join(held, self._columns, "left_anti")
