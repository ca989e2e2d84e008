"""The facts around a small update: those in files, and those that have come and gone since, as sets of tuples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, make_plan
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.plan.role_sets import Phases, Sets
from tidelog.spark.small.matching import Facts, Matches, instances
from tidelog.spark.small.term_values import Values
from tidelog.spark.stored.keyed_files import Files, State
from tidelog.spark.stored.layers import Stored

Choose = Callable[[str], Facts]
"""The facts of a predicate in some set."""

_NONE: frozenset[Ids] = frozenset()


@dataclass(frozen=True)
class InMemory:
    """A set of facts that is here as a whole."""

    facts: Collection[Ids]

    def all(self) -> Iterable[Ids]:
        return self.facts

    def matching(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        return (fact for fact in self.facts if tuple([fact[column] for column in columns]) in keys)

    def some(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        return self.matching(columns, keys)


@dataclass(frozen=True)
class View:
    """The facts of a predicate in files, `without` some of them, and `extra` ones that are not in the files."""

    files: Files
    name: str
    without: Collection[Ids] = _NONE
    extra: Collection[Ids] = _NONE

    def all(self) -> Iterable[Ids]:
        return self.matching((), {()})

    def matching(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        found = [fact for fact in self.files.matching(self.name, columns, keys) if fact not in self.without]
        return [*found, *InMemory(self.extra).matching(columns, keys)]

    def some(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        found = self.files.some(self.name, columns, keys, self.without)
        return [*found, *InMemory(self.extra).matching(columns, keys)]


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
            before=lambda name: View(files, name),
            after=lambda name: View(files, name, gone[name], come[name]),
            unchanged=lambda name: View(files, name, gone[name]),
            either=lambda name: View(files, name, extra=come[name]),
            come=lambda name: InMemory(come[name]),
            gone=lambda name: InMemory(gone[name]),
            count_come=lambda name: len(come[name]),
            count_gone=lambda name: len(gone[name]),
        )

    def has_changed(self, name: str) -> bool:
        return bool(self.come[name] or self.gone[name])

    # ── instances ────────────────────────────────────────────────────────────────────────────────────────────────

    def instances(
        self, rule: NormalRule, pivot: Pivot, component: Iterable[str], sets: Sets[Facts], few: bool = False
    ) -> Matches:
        """The instances of a rule; with `few`, only some of those that differ in nothing but the last atom."""
        found = instances(make_plan(rule, pivot, component, self._estimate), sets.lookup, self.ids, self.values, few)
        self.files.spend(len(found))
        return found

    def _estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self.stored[atom.predicate].facts * 0.1 ** len(bound))

    def from_below(
        self, rule: NormalRule, component: Collection[str], created: bool, own: Choose | None = None
    ) -> Iterable[Matches]:
        """The instances that changes below the component create or destroy."""
        for pivot, sets, _ in self.phases.changed_below(rule, component, created, own):
            yield self.instances(rule, pivot, component, sets)

    # ── states before the update ─────────────────────────────────────────────────────────────────────────────────

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
