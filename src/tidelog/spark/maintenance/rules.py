"""The rules before and after an update: which are new, which are gone, and which are in a recursion that were not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.language.syntax import Rule
from tidelog.program.graph import RuleGraph
from tidelog.program.normal import NormalRule, normalise


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

    @property
    def heads(self) -> set[str]:
        """The predicates of the heads of all rules that came, went, or changed their part in a recursion."""
        moved = (*self.added, *self.now_recursive, *self.no_longer_recursive)
        heads = {self.normal[number].head.predicate for number in moved}
        return heads | {rule.head.predicate for rule in self.removed.values()}


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
