"""The rules that an update removes and adds, beside its facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidelog.engine.algorithms.aggregates import AggregateRule
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.update.deltas import NO_RULE_CHANGE, RuleChange
from tidelog.language.syntax import Rule, body_atoms
from tidelog.program.graph import Impact, RuleGraph
from tidelog.store.relation import Relation


@dataclass(frozen=True)
class RuleChanges:
    """What an update did to the rules; nothing, where it has facts alone."""

    impact: Impact | None = None
    gone: Mapping[int, Rule] = field(default_factory=dict)
    removed: Mapping[int, CompiledRule] = field(default_factory=dict)
    removed_aggregates: tuple[AggregateRule, ...] = ()

    def __bool__(self) -> bool:
        return self.impact is not None

    @cached_property
    def added(self) -> frozenset[int]:
        return frozenset(self.impact.added if self.impact else ())

    @property
    def heads(self) -> tuple[str, ...]:
        """The predicates that may be derived otherwise now."""
        return self.impact.heads if self.impact else ()

    @cached_property
    def _removed_by_head(self) -> dict[Relation, list[CompiledRule]]:
        by_head: dict[Relation, list[CompiledRule]] = {}
        for rule in self.removed.values():
            by_head.setdefault(rule.head, []).append(rule)
        return by_head

    def of_component(self, node: Node) -> RuleChange:
        """The rules that one component loses and gets."""
        if self.impact is None:
            return NO_RULE_CHANGE
        return RuleChange(
            tuple(rule for relation in node.relations for rule in self._removed_by_head.get(relation, ())),
            tuple(rule for rule in node.rules if rule.number in self.added),
        )

    def unread_heads(self) -> set[str]:
        """The predicates that lose a rule, and that no other removed rule reads: its component may come first now."""
        read = {
            atom.predicate
            for rule in self.gone.values()
            for atom in body_atoms(rule)
            if atom.predicate != rule.head.predicate
        }
        return {rule.head.predicate for rule in self.gone.values()} - read

    def touched(self, graph: RuleGraph) -> Iterator[str]:
        """The heads of the rules that went and came."""
        yield from (rule.head.name for rule in self.removed.values())
        yield from (graph.rule(number).head.predicate for number in self.added)

    def forget_plans(self) -> None:
        """What the removed rules read has moved."""
        for rule in self.removed.values():
            rule.forget_plans()

    def take_back(self, graph: RuleGraph) -> None:
        if self.impact is not None:
            graph.take_back(self.impact, self.gone)


NO_RULE_CHANGES = RuleChanges()
