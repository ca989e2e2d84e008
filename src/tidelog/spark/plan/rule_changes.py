"""The rules before and after an update, and what each of them means for the component that it derives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from tidelog.errors import StratificationError
from tidelog.language.syntax import Atom, Rule, Variable, variables
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.spark.plan.refusals import check_fit
from tidelog.spark.plan.schedule import reads

GROUPS = "#groups"
"""The predicate that guards a rule with aggregates: its facts are the groups to compute."""


@dataclass(frozen=True)
class RuleChanges:
    """The rule graph after an update, and how it differs from the one before."""

    graph: RuleGraph
    normal: Mapping[int, NormalRule]
    added: frozenset[int]
    removed: Mapping[int, NormalRule]
    was_recursive: frozenset[int]
    now_recursive: frozenset[int]
    no_longer_recursive: frozenset[int]

    @cached_property
    def changed(self) -> list[NormalRule]:
        """All rules that were added or removed, or that became recursive or ceased to be."""
        moved = (*self.added, *self.now_recursive, *self.no_longer_recursive)
        return [*(self.normal[number] for number in moved), *self.removed.values()]

    @cached_property
    def heads(self) -> set[str]:
        """The predicates of their heads."""
        return {rule.head.predicate for rule in self.changed}

    @property
    def read_by_removed(self) -> set[str]:
        """The predicates that removed rules read."""
        return {atom.predicate for rule in self.removed.values() for atom in (*rule.positives, *rule.negatives)}

    def reads(self, component: Component) -> set[str]:
        """The predicates that a component reads, and its own."""
        return reads(self.graph, component)

    def reach(self, component: Component, has_changed: Callable[[str], bool]) -> bool:
        """Whether a component is affected: its rules changed, or something that it reads."""
        return not self.heads.isdisjoint(component.predicates) or any(map(has_changed, self.reads(component)))


def changed_rules(graph: RuleGraph, add: Iterable[Rule], remove: Iterable[int]) -> RuleChanges:
    """Update a rule graph (ZodiacEdge, Algorithms 2 and 3); raises if the result is not stratified."""
    gone = {number: graph.rule(number) for number in remove}
    was_recursive = frozenset(number for number in gone if graph.recursive(number))
    impact = graph.update(add, gone)
    try:
        check_fit(graph)
    except StratificationError:
        graph.take_back(impact, gone)
        raise
    return RuleChanges(
        graph,
        {number: normalise(rule) for number, rule in graph.rules.items()},
        frozenset(impact.added),
        {number: normalise(rule) for number, rule in gone.items()},
        was_recursive,
        impact.now_recursive,
        impact.no_longer_recursive,
    )


def predicates_of(components: Iterable[Component]) -> list[str]:
    return [name for component in components for name in component.predicates]


class Recounted(NamedTuple):
    """A rule all of whose instances are counted: as gained or lost, and over what held before or holds now."""

    rule: NormalRule
    gains: bool
    before: bool


class Roles:
    """The rules of one component by what an update does with them.

    Instances of *counted* rules are counted; instances of *checked* rules are searched for when a fact needs a proof.
    Recursive rules are checked. Where derivations are not counted (`is_counted`), all rules are."""

    def __init__(self, changes: RuleChanges, component: Component, is_counted: bool = True) -> None:
        checked = set(component.recursive_rules if is_counted else component.rules)
        removed = [
            (number, rule) for number, rule in changes.removed.items() if rule.head.predicate in component.predicates
        ]
        was_checked = changes.was_recursive if is_counted else changes.removed.keys()

        def chosen(numbers: Iterable[int]) -> list[NormalRule]:
            wanted = set(numbers)
            return [changes.normal[number] for number in component.rules if number in wanted]

        self.checked = chosen(checked)
        self.kept = chosen(checked - changes.added)
        """Checked rules that were there before."""
        self.new = chosen(checked & changes.added)
        self.gone = [rule for number, rule in removed if number in was_checked]
        """Removed rules that were checked."""

        counted = set(component.rules) - checked
        counted_no_more = [rule for number, rule in removed if number not in was_checked]
        if is_counted:
            counted_no_more += chosen(checked & changes.now_recursive)
        self.counted = chosen(counted - changes.added)
        """Counted rules that were there before."""
        self.counted_before = [*chosen(counted - changes.added - changes.no_longer_recursive), *counted_no_more]
        self.recounted = [
            *(Recounted(rule, gains=True, before=False) for rule in chosen(counted & changes.added)),
            *(Recounted(rule, gains=True, before=True) for rule in chosen(counted & changes.no_longer_recursive)),
            *(Recounted(rule, gains=False, before=True) for rule in counted_no_more),
        ]


# ── rules with aggregates, by groups ─────────────────────────────────────────────────────────────────────────────


def bound_group(rule: NormalRule) -> tuple[Variable, ...]:
    """The variables of a rule's group that positive atoms bind."""
    bound = {variable for atom in rule.positives for variable in variables(atom)}
    return tuple(dict.fromkeys(term for term in rule.group if isinstance(term, Variable) and term in bound))


def grouping(rule: NormalRule) -> NormalRule:
    """The rule that derives the groups of a rule with aggregates."""
    return replace(rule, head=Atom(rule.head.predicate, bound_group(rule)), aggregates=())


def guarded(rule: NormalRule) -> NormalRule:
    """A rule with aggregates for the groups in `GROUPS` alone, from which its plans start."""
    return replace(rule, positives=(Atom(GROUPS, bound_group(rule)), *rule.positives))
