"""The rules that go with an update and those that come, beside its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidelog.engine.aggregates import AggregateRule
from tidelog.engine.compiled import CompiledRule, Node
from tidelog.engine.deltas import RuleChange
from tidelog.language.syntax import Rule
from tidelog.program.graph import Impact, RuleGraph
from tidelog.store.relation import Relation

_NO_CHANGE = RuleChange()


@dataclass(frozen=True)
class Exchange:
    """What an update did to the rules; nothing, where it has facts alone."""

    impact: Impact | None = None
    gone: Mapping[int, Rule] = field(default_factory=dict)
    removed: Mapping[int, CompiledRule] = field(default_factory=dict)
    removed_aggregates: tuple[AggregateRule, ...] = ()

    def __bool__(self) -> bool:
        return self.impact is not None

    @property
    def added(self) -> tuple[int, ...]:
        return self.impact.added if self.impact else ()

    @property
    def heads(self) -> tuple[str, ...]:
        """The predicates that may be derived otherwise now."""
        return self.impact.heads if self.impact else ()

    def adds(self, number: int) -> bool:
        """Whether a rule comes with the update."""
        return number in self._new

    @cached_property
    def _new(self) -> frozenset[int]:
        return frozenset(self.added)

    @cached_property
    def _removed_by_head(self) -> dict[Relation, list[CompiledRule]]:
        by_head: dict[Relation, list[CompiledRule]] = {}
        for rule in self.removed.values():
            by_head.setdefault(rule.head, []).append(rule)
        return by_head

    @cached_property
    def _removed_readers(self) -> dict[str, list[CompiledRule]]:
        readers: dict[str, list[CompiledRule]] = {}
        for rule in self.removed.values():
            for name in {atom.predicate for atom in (*rule.normal.positives, *rule.normal.negatives)}:
                readers.setdefault(name, []).append(rule)
        return readers

    def removed_readers(self, predicate: str) -> list[CompiledRule]:
        """The removed rules whose bodies mention a predicate."""
        return self._removed_readers.get(predicate, [])

    def of_component(self, node: Node) -> RuleChange:
        """The rules that one component loses and gets."""
        if self.impact is None:
            return _NO_CHANGE
        return RuleChange.of(
            (rule for relation in node.relations for rule in self._removed_by_head.get(relation, ())),
            (rule for rule in node.rules if rule.number in self._new),
        )

    def forget_plans(self) -> None:
        """What the removed rules read lies elsewhere now."""
        for rule in self.removed.values():
            rule.forget_plans()

    def take_back(self, graph: RuleGraph) -> None:
        if self.impact is not None:
            graph.take_back(self.impact, self.gone)
