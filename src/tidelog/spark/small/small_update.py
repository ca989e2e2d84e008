"""A small update by lookups alone: ids for its constants, then each component that it reaches, in order.

The driver does all of it: a Spark job takes longer than everything that is to be done here. A component goes through
counted derivations, deletion by Backward/Forward and semi-naive insertion. As in `maintain/recursion.py`, a fact that
is explicit or has a derivation by a counted rule is *protected*. Rules that are added or removed are evaluated as a
whole, over what holds after the update or held before it (`plan.rule_changes`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tidelog.language.syntax import Constant
from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start
from tidelog.spark.data.dictionary import Dictionary, Term
from tidelog.spark.data.term_lookup import Encoded, Fact, Ids
from tidelog.spark.plan.role_sets import Sets
from tidelog.spark.plan.rule_changes import Roles, RuleChanges
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.small.backward_forward import Proofs
from tidelog.spark.small.marks import Marked, Marks, copies
from tidelog.spark.small.matching import Facts, Matches
from tidelog.spark.small.pending_facts import Choose, Groups, PendingFacts, Row, Touched, by_predicate
from tidelog.spark.small.term_values import Values
from tidelog.spark.stored.keyed_files import ColumnCache, Files, TooManyFacts
from tidelog.spark.stored.layers import Stored


@dataclass
class Outcome:
    """What an update asked for, and the facts that it touched.

    The first `settled` components are done: fewer than all if too many facts would have been needed. `terms` are the
    constants that are new with the update."""

    asked: Encoded
    terms: list[Term] = field(default_factory=list)
    settled: int = 0
    rows: dict[str, list[Row]] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)
    marked: Marked = field(default_factory=Marked)


def carry_out(
    root: Path,
    columns: ColumnCache,
    stored: Mapping[str, Stored],
    dictionary: Dictionary,
    ids: Mapping[Constant, int],
    rules: RuleChanges,
    components: Sequence[Component],
    asked: Encoded,
    most: int,
    functions: Functions | None = None,
    marks: Marks | None = None,
) -> Outcome:
    """Take what an update asks for through components, each after those it reads; the dictionary stays as it is.

    `root`, `columns` and `stored` are the files of the version before the update, from which at most `most` facts are
    looked up. `marks` are given for an update of a stream."""
    outcome = Outcome(asked)
    files = Files(root, columns, stored, most)
    values = Values(dictionary, outcome.asked.terms, functions or {})
    facts = PendingFacts(files, stored, ids, values)
    given, taken = by_predicate(outcome.asked.give), by_predicate(outcome.asked.take)
    try:
        for component in components:
            give, take = _of(component, given), _of(component, taken)
            if give or take or rules.reach(component, facts.has_changed):
                outcome.rows |= ComponentUpdate(facts, component, rules, marks).run(give, take)
            outcome.settled += 1
    except TooManyFacts:
        pass
    outcome.work = facts.work
    computed = values.kept(id_ for rows in outcome.rows.values() for row in rows for id_ in row.ids)
    outcome.terms = [*outcome.asked.terms, *computed]
    if marks is not None and outcome.settled == len(components):
        outcome.marked = marks.left()
        facts.work["marked_explicit"] = len(outcome.marked.deleted)
        facts.work["marked_implicit"] = len(outcome.marked.heads)
    return outcome


def _of(component: Component, facts: Mapping[str, set[Ids]]) -> frozenset[Fact]:
    return frozenset((name, ids) for name in component.predicates for ids in facts.get(name, ()))


class ComponentUpdate:
    """One component, which an update takes from one state to the next."""

    def __init__(
        self, facts: PendingFacts, component: Component, rules: RuleChanges, marks: Marks | None = None
    ) -> None:
        self._facts = facts
        self._marks = marks
        self._listed: set[Fact] = set()
        self._names = component.predicates
        self._is_counted = all(facts.stored[name].counted for name in component.predicates)
        self._roles = Roles(rules, component, self._is_counted)
        self._groups: dict[NormalRule, Groups] = {}
        self._deleted: dict[str, set[Ids]] = defaultdict(set)
        self._inserted: dict[str, set[Ids]] = defaultdict(set)

    def run(self, give: frozenset[Fact], take: frozenset[Fact]) -> dict[str, list[Row]]:
        """Settle the component, given what the update says of its explicit facts; its touched facts by predicate."""
        touched = Touched(self._facts, give, take, self._count(), self._is_counted)
        self._facts.look_up(touched.facts)
        self._delete(touched)
        self._insert(touched)
        self._copy_marks()
        return self._settled(touched)

    def _rest(self, name: str) -> Facts:
        """What held before and has not been deleted."""
        return Facts((), self._facts.files, name, self._deleted[name])

    def _current(self, name: str, among: Mapping[str, set[Ids]] | None = None) -> Facts:
        """What is left, and what has been inserted so far, or `among` these."""
        inserted = self._inserted if among is None else among
        return Facts(inserted.get(name, ()), self._facts.files, name, self._deleted[name])

    def _holds(self, fact: Fact) -> bool:
        name, ids = fact
        left = self._facts.before(fact) is not None and ids not in self._deleted[name]
        return left or ids in self._inserted[name]

    def _whole(self, rule: NormalRule, before: bool, own: Choose | None = None) -> list[Fact]:
        """Heads of all instances of a rule, from what held before or holds after the update."""
        if rule.aggregates:
            found = Groups(self._facts, rule).heads(None, before)
        else:
            sets = self._facts.phases.held() if before else self._facts.phases.holding(own)
            found = self._facts.instances(rule, ALL, self._names, sets).facts(rule.head)
        self._facts.work["deletion" if before else "insertion"] += len(found)
        return found

    def _from_below(self, rule: NormalRule, created: bool, own: Choose | None = None) -> list[Fact]:
        """Heads of the instances that changes below create or destroy; of aggregates, of all touched groups."""
        if rule.aggregates:
            groups = self._groups.setdefault(rule, Groups(self._facts, rule))
            found = groups.heads(groups.touched, before=not created)
        else:
            matches = list(self._facts.from_below(rule, self._names, created, own))
            found = [fact for instances in matches for fact in instances.facts(rule.head)]
            if own is not None:
                self._pass_on(rule, matches)
        self._note("insertion" if created else "deletion", found)
        return found

    def _pass_on(self, rule: NormalRule, matches: Iterable[Matches]) -> None:
        """Let instances that insertion finds mark their heads, in a stream."""
        if self._marks is not None:
            for instances in matches:
                self._marks.pass_on(rule, instances)

    def _note(self, kind: str, heads: Sequence[Fact]) -> None:
        """Count instances as work. In a stream, a deletion counts if it leads to a fact that is not listed yet."""
        if kind == "deletion" and self._marks is not None:
            new = set(heads) - self._listed
            self._listed |= new
            self._facts.work[kind] += len(new)
        else:
            self._facts.work[kind] += len(heads)

    def _forward(self, latest: set[Fact], sets: Sets[Facts], kind: str) -> set[Fact]:
        """Heads of instances of checked rules that use one of the latest facts."""
        taken = by_predicate(latest)
        sets = replace(sets, take=lambda name: Facts(taken[name]))
        found: list[Fact] = []
        for rule in self._roles.checked:
            for position, atom in enumerate(rule.positives):
                if atom.predicate in taken:
                    instances = self._facts.instances(rule, Pivot(Start.POSITIVE, position), self._names, sets)
                    found += instances.facts(rule.head)
                    if kind == "insertion":
                        self._pass_on(rule, [instances])
        self._note(kind, found)
        return set(found)

    def _count(self) -> Counter[Fact]:
        """How many derivations each fact gains, less those that it loses."""
        gained: Counter[Fact] = Counter()
        for rule in self._roles.counted:
            gained.subtract(self._from_below(rule, created=False))
            gained.update(self._from_below(rule, created=True))
        for rule, gains, before in self._roles.recounted:
            (gained.update if gains else gained.subtract)(self._whole(rule, before))
        return gained

    def _delete(self, touched: Touched) -> None:
        """Backward/Forward (Algorithm 1), with sets of facts in place of single ones."""
        proofs = Proofs(self._facts, self._names, self._roles.checked, touched, self._rest)
        expected = self._marks.expected(self._names) if self._marks else set()
        self._listed |= expected
        kept = [rule for rule in self._roles.kept if not self._is_spared(rule)]
        candidates = expected | {fact for rule in kept for fact in self._from_below(rule, created=False)}
        candidates |= {fact for rule in self._roles.gone for fact in self._whole(rule, before=True)}
        candidates |= touched.facts
        while lost := proofs.lost(candidates):  # Lines 3–6.
            for name, ids in lost:
                self._deleted[name].add(ids)  # Lines 10 and 11.
            candidates = self._forward(lost, self._facts.phases.held(), "deletion")  # Lines 7–9.

    def _is_spared(self, rule: NormalRule) -> bool:
        """Whether marks have found the heads of a rule already that lose an instance by changes below."""
        if self._marks is None or not copies(rule, self._names):
            return False
        return self._marks.spares(rule, self._facts.gone[rule.positives[0].predicate])

    def _copy_marks(self) -> None:
        """Mark what rules that copy facts derive from marked ones."""
        if self._marks is None:
            return
        for rule in self._roles.checked:
            if copies(rule, self._names):
                sets = self._facts.phases.holding(take=self._marked_facts)
                pivot = Pivot(Start.POSITIVE, 0)
                self._marks.copy(rule, self._facts.instances(rule, pivot, self._names, sets).facts(rule.head))

    def _marked_facts(self, name: str) -> Facts:
        """The facts of a predicate that the next update deletes."""
        return Facts(self._marks.deleted(name) if self._marks else ())

    def _insert(self, touched: Touched) -> None:
        """DR5: what comes from below, and then round by round."""
        heads = {fact for rule in self._roles.kept for fact in self._from_below(rule, True, self._current)}
        heads |= {fact for rule in self._roles.new for fact in self._whole(rule, False, self._current)}
        latest = self._fresh(heads | {fact for fact in touched.facts if touched.protected(fact)})
        while latest:
            earlier = {name: set(facts) for name, facts in self._inserted.items()}
            for name, ids in latest:
                self._inserted[name].add(ids)
            sets = replace(self._facts.phases.holding(self._current), own_before=partial(self._current, among=earlier))
            latest = self._fresh(self._forward(latest, sets, "insertion"))

    def _fresh(self, facts: set[Fact]) -> set[Fact]:
        self._facts.look_up(facts)
        return {fact for fact in facts if not self._holds(fact)}

    def _settled(self, touched: Touched) -> dict[str, list[Row]]:
        """The rows of all facts that changed; what came and went is known to the components above from now on."""
        rows: dict[str, list[Row]] = defaultdict(list)
        for fact in _facts(self._deleted) | _facts(self._inserted) | touched.facts:
            name, ids = fact
            held, holds = self._facts.before(fact) is not None, self._holds(fact)
            row = touched.row(fact, holds)
            if row is not None:
                rows[name].append(row)
            if held and not holds:
                self._facts.gone[name].add(ids)
            elif holds and not held:
                self._facts.come[name].add(ids)
        return rows


def _facts(sets: Mapping[str, Iterable[Ids]]) -> set[Fact]:
    return {(name, ids) for name, found in sets.items() for ids in found}
