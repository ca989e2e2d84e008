"""The facts around a small update: those in files, those that have come and gone since, and those that it touches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, group_head, make_plan
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.plan.role_sets import Phases, Sets
from tidelog.spark.plan.rule_changes import bound_group, grouping, guarded
from tidelog.spark.small.matching import Facts, Matches
from tidelog.spark.small.term_values import Values
from tidelog.spark.stored.keyed_files import Files, State
from tidelog.spark.stored.layers import Stored

Choose = Callable[[str], Facts]
"""The facts of a predicate in some set."""


@dataclass
class PendingFacts:
    """The facts before an update, and those that came and went of the predicates that are settled."""

    files: Files
    stored: Mapping[str, Stored]
    ids: Mapping[Constant, int]
    values: Values
    come: dict[str, set[Ids]] = field(default_factory=lambda: defaultdict(set))
    gone: dict[str, set[Ids]] = field(default_factory=lambda: defaultdict(set))
    work: Counter[str] = field(default_factory=Counter)
    _states: dict[str, dict[Ids, State | None]] = field(default_factory=lambda: defaultdict(dict))

    @cached_property
    def phases(self) -> Phases[Facts]:
        """The facts of each predicate around the update."""
        files, come, gone = self.files, self.come, self.gone
        return Phases(
            before=lambda name: Facts(files=files, name=name),
            after=lambda name: Facts(come[name], files, name, gone[name]),
            unchanged=lambda name: Facts((), files, name, gone[name]),
            either=lambda name: Facts(come[name], files, name),
            come=lambda name: Facts(come[name]),
            gone=lambda name: Facts(gone[name]),
            count_come=lambda name: len(come[name]),
            count_gone=lambda name: len(gone[name]),
        )

    def has_changed(self, name: str) -> bool:
        return bool(self.come[name] or self.gone[name])

    def instances(
        self, rule: NormalRule, pivot: Pivot, component: Iterable[str], sets: Sets[Facts], few: bool = False
    ) -> Matches:
        """The instances of a rule; with `few`, only some of those that differ in nothing but the last atom."""
        plan = make_plan(rule, pivot, component, self.estimate)
        found = Matches(plan, sets.lookup, self.ids, self.values, few)
        self.files.spend(len(found))
        return found

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self.stored[atom.predicate].facts * 0.1 ** len(bound))

    def from_below(
        self, rule: NormalRule, component: Collection[str], created: bool, own: Choose | None = None
    ) -> Iterable[Matches]:
        """The instances that changes below the component create or destroy."""
        for pivot, sets, _ in self.phases.changed_below(rule, component, created, own):
            yield self.instances(rule, pivot, component, sets)

    def look_up(self, facts: Iterable[Fact]) -> None:
        """Look up the states of facts that are not known yet."""
        missing: dict[str, set[Ids]] = defaultdict(set)
        for name, ids in facts:
            if ids not in self._states[name]:
                missing[name].add(ids)
        for name, wanted in missing.items():
            found = self.files.matching(name, range(self.stored[name].arity), wanted)
            self._states[name].update((ids, found.get(ids)) for ids in wanted)

    def before(self, fact: Fact) -> State | None:
        """The state of a fact that was looked up; None if it did not hold."""
        return self._states[fact[0]][fact[1]]


def by_predicate(facts: Iterable[Fact]) -> dict[str, set[Ids]]:
    """Facts by predicate; a predicate without facts has an empty set."""
    found: dict[str, set[Ids]] = defaultdict(set)
    for name, ids in facts:
        found[name].add(ids)
    return found


@dataclass(frozen=True)
class Row:
    """A touched fact with its state before (`e0`, `h0`) and after, as a layer stores it."""

    ids: Ids
    e0: bool
    h0: bool
    e: bool
    n: int
    h: bool


@dataclass(frozen=True)
class Touched:
    """The facts that may have changed, with the state that everything but checked rules gives them.

    The update gives and takes explicit facts; rules let facts gain derivations, which are kept if they are `counted`.
    """

    pending: PendingFacts
    give: frozenset[Fact]
    take: frozenset[Fact]
    gained: Mapping[Fact, int]
    counted: bool

    @cached_property
    def facts(self) -> set[Fact]:
        return set(self.gained) | self.give | self.take

    def explicit(self, fact: Fact) -> bool:
        before = self.pending.before(fact)
        return fact in self.give or (before is not None and before.explicit and fact not in self.take)

    def derivations(self, fact: Fact) -> int:
        before = self.pending.before(fact)
        known = before.derivations if before and self.counted else 0
        return known + self.gained.get(fact, 0)

    def protected(self, fact: Fact) -> bool:
        """Whether a fact needs no proof by checked rules."""
        return self.explicit(fact) or self.derivations(fact) > 0

    def row(self, fact: Fact, holds: bool) -> Row | None:
        """The row of a fact in the next layer; None if it is as it was."""
        before = self.pending.before(fact)
        was_explicit, held = bool(before and before.explicit), before is not None
        explicit = self.explicit(fact)
        is_same = (was_explicit, held) == (explicit, holds) and not self.gained.get(fact, 0)
        if is_same or not (held or holds):
            return None
        return Row(fact[1], was_explicit, held, explicit, self.derivations(fact), holds)


class Groups:
    """The groups of one rule with aggregates, by those of their variables that atoms bind."""

    def __init__(self, facts: PendingFacts, rule: NormalRule) -> None:
        self._facts = facts
        self._rule = rule
        self.bound = bound_group(rule)

    @cached_property
    def touched(self) -> set[Ids]:
        """The groups for which changes below create or destroy an instance."""
        rule = grouping(self._rule)
        found = (matches for created in (False, True) for matches in self._facts.from_below(rule, (), created))
        return {group for matches in found for group in matches.values(self.bound)}

    def deriving(self, facts: Iterable[Ids]) -> set[Ids]:
        """The groups that could derive facts."""
        places = [self._rule.head.arguments.index(variable) for variable in self.bound]
        return {tuple([fact[place] for place in places]) for fact in facts}

    def heads(self, groups: set[Ids] | None, before: bool) -> list[Fact]:
        """What the rule derives for groups, or for all of them, from what held before or holds after the update."""
        if groups is not None and not groups:
            return []
        if groups is None or not self.bound:
            rule, pivot, sets = self._rule, ALL, self._facts.phases.whole(before)
        else:
            start = Facts(groups)
            rule, pivot = guarded(self._rule), Pivot(Start.POSITIVE, 0)
            sets = self._facts.phases.whole(before, lambda _: start)
        found = self._facts.instances(rule, pivot, (), sets).values(group_head(self._rule))
        return [(rule.head.predicate, ids) for ids in self._facts.values.aggregated(self._rule, found)]


def rows_table(stored: Stored, rows: Sequence[Row]) -> pa.Table:
    """Touched facts of one predicate as a layer lays them out."""
    columns: dict[str, pa.Array] = {"q": pa.array([stored.number] * len(rows), pa.int32())}
    for place, column in enumerate(stored.columns):
        columns[column] = pa.array([row.ids[place] if stored.arity else 0 for row in rows], pa.int64())
    for flag in ("e0", "h0", "e"):
        columns[flag] = pa.array([getattr(row, flag) for row in rows], pa.bool_())
    columns["n"] = pa.array([row.n for row in rows], pa.int64())
    columns["h"] = pa.array([row.h for row in rows], pa.bool_())
    return pa.table(columns)
