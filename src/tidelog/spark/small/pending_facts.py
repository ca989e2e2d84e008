"""The facts of an update in work: what lies in files, and what has come and gone since, in sets of tuples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, Start, make_plan
from tidelog.spark.maintain.layers import Stored
from tidelog.spark.maintain.role_sets import Phases, Sets
from tidelog.spark.small.keyed_files import Files, Ids, State
from tidelog.spark.small.matching import Facts, Matches, instances
from tidelog.spark.small.record_encoding import Fact
from tidelog.spark.small.term_values import Values

Choose = Callable[[str], Facts]
"""The facts of a predicate in some set."""

_NONE: frozenset[Ids] = frozenset()


@dataclass(frozen=True)
class Given:
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
    """What lies in files of a predicate, without some facts and with others; what comes is not in the files."""

    files: Files
    name: str
    without: Collection[Ids] = _NONE
    extra: Collection[Ids] = _NONE

    def all(self) -> Iterable[Ids]:
        return self.matching((), {()})

    def matching(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        found = [fact for fact in self.files.matching(self.name, columns, keys) if fact not in self.without]
        return [*found, *Given(self.extra).matching(columns, keys)]

    def some(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        found = self.files.some(self.name, columns, keys, self.without)
        return [*found, *Given(self.extra).matching(columns, keys)]


@dataclass
class Changes:
    """What is known of an update: its files, and what came and went of the predicates that are settled."""

    files: Files
    stored: Mapping[str, Stored]
    ids: Mapping[Constant, int]
    values: Values
    come: dict[str, set[Ids]] = field(default_factory=lambda: defaultdict(set))
    gone: dict[str, set[Ids]] = field(default_factory=lambda: defaultdict(set))
    work: Counter[str] = field(default_factory=Counter)
    _states: dict[str, dict[Ids, State | None]] = field(default_factory=lambda: defaultdict(dict))

    # ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def old(self, name: str) -> Facts:
        return View(self.files, name)

    def new(self, name: str) -> Facts:
        return View(self.files, name, self.gone[name], self.come[name])

    def unchanged(self, name: str) -> Facts:
        return View(self.files, name, self.gone[name])

    def either(self, name: str) -> Facts:
        return View(self.files, name, extra=self.come[name])

    @property
    def sets(self) -> Phases[Facts]:
        return Phases(self.old, self.new, self.unchanged, self.either, self._came, self._went)

    def _came(self, name: str) -> Facts:
        return Given(self.come[name])

    def _went(self, name: str) -> Facts:
        return Given(self.gone[name])

    # ── instances ────────────────────────────────────────────────────────────────────────────────────────────────

    def instances(
        self, rule: NormalRule, pivot: Pivot, own: Iterable[str], sets: Sets[Facts], few: bool = False
    ) -> Matches:
        """The instances of a rule; where `few` do, not all of those that differ in nothing but the last atom."""
        found = instances(make_plan(rule, pivot, own, self._estimate), sets.lookup, self.ids, self.values, few)
        self.files.spend(len(found))
        return found

    def _estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return float(self.stored[atom.predicate].facts * 0.1 ** len(bound))

    def pivots_below(self, rule: NormalRule, own: Iterable[str], created: bool) -> list[tuple[Pivot, bool]]:
        """From where a change below reaches a rule: each pivot, and whether it is negated."""
        for_positive, for_negative = (self.come, self.gone) if created else (self.gone, self.come)
        positive = [
            (Pivot(Start.POSITIVE, position), False)
            for position, atom in enumerate(rule.positives)
            if atom.predicate not in own and for_positive[atom.predicate]
        ]
        negative = [
            (Pivot(Start.NEGATIVE, position), True)
            for position, atom in enumerate(rule.negatives)
            if for_negative[atom.predicate]
        ]
        return positive + negative

    # ── states before the update ─────────────────────────────────────────────────────────────────────────────────

    def look_up(self, facts: Iterable[Fact]) -> None:
        """See that the states of facts are known."""
        missing: dict[str, set[Ids]] = defaultdict(set)
        for name, ids in facts:
            if ids not in self._states[name]:
                missing[name].add(ids)
        for name, wanted in missing.items():
            found = self.files.matching(name, range(self.stored[name].arity), wanted)
            self._states[name].update((ids, found.get(ids)) for ids in wanted)

    def before(self, fact: Fact) -> State | None:
        """The state of a fact that was looked up; None for one that did not hold."""
        return self._states[fact[0]][fact[1]]
