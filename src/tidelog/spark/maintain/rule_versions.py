"""The rules before and after an update: which are new, which are gone, and which are in a recursion that were not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tidelog.language.syntax import Rule
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.normal_form import NormalRule, normalise


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

    def removed_from(self, predicate: str) -> list[tuple[int, NormalRule]]:
        """The removed rules that derived a predicate."""
        return [(number, rule) for number, rule in self.removed.items() if rule.head.predicate == predicate]

    def counted_before(self, predicate: str) -> list[NormalRule]:
        """The rules that derived a predicate before the update and were not recursive."""
        kept = [
            rule
            for number, rule in self.normal.items()
            if number in self.now_recursive
            or not (number in self.added or number in self.no_longer_recursive or self.graph.recursive(number))
        ]
        gone = [rule for number, rule in self.removed.items() if number not in self.was_recursive]
        return [rule for rule in (*kept, *gone) if rule.head.predicate == predicate]

    @cached_property
    def changed(self) -> list[NormalRule]:
        """All rules that came, went, or changed their part in a recursion."""
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


def changed_rules(graph: RuleGraph, add: Iterable[Rule], remove: Iterable[int]) -> RuleChanges:
    """Update a graph of rules (ZodiacEdge, Algorithms 2 and 3), which raises where the result is not stratified."""
    gone = {number: graph.rule(number) for number in remove}
    was_recursive = frozenset(number for number in gone if graph.recursive(number))
    impact = graph.update(add, gone)
    return RuleChanges(
        graph,
        {number: normalise(rule) for number, rule in graph.rules.items()},
        frozenset(impact.added),
        {number: normalise(rule) for number, rule in gone.items()},
        was_recursive,
        impact.now_recursive,
        impact.no_longer_recursive,
    )


def reads(rules: RuleChanges, component: Component) -> set[str]:
    """The predicates that a component reads, and its own."""
    read = {name for number in component.rules for names in rules.graph.reads(number) for name in names}
    return read | set(component.predicates)
