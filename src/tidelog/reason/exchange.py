"""The rules that go with an update and those that come, beside its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.language.syntax import Rule
from tidelog.program.graph import Impact, RuleGraph
from tidelog.reason.aggregates import AggregateRule
from tidelog.reason.changes import RuleChange
from tidelog.reason.compiled import CompiledRule, Node

_NO_CHANGE = RuleChange()


@dataclass(frozen=True, slots=True)
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

    def of_component(self, node: Node) -> RuleChange:
        """The rules that one component loses and gets."""
        if self.impact is None:
            return _NO_CHANGE
        return RuleChange.of(
            (rule for rule in self.removed.values() if rule.head in node.relations),
            (rule for rule in node.rules if rule.number in self.added),
        )

    def forget_plans(self) -> None:
        """What the removed rules read lies elsewhere now."""
        for rule in self.removed.values():
            rule.forget_plans()

    def take_back(self, graph: RuleGraph) -> None:
        if self.impact is not None:
            graph.take_back(self.impact, self.gone)
