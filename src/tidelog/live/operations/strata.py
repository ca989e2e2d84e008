"""What the algorithm asks about a program: strata, components, and what depends on what."""

from __future__ import annotations

from functools import cache

from tidelog.program.graph import RuleGraph


class Strata:
    """The predicates of a program, from below: what a rule negates is in a lower stratum than its head."""

    def __init__(self, graph: RuleGraph) -> None:
        self._graph = graph
        self._levels: dict[str, int] = {}
        for component in graph.components_in_order():
            level = 0
            for reads in map(graph.reads, component.rules):
                level = max(level, *(self.level(name) for name in reads.positive), 0)
                level = max(level, *(self.level(name) + 1 for name in reads.strict), 0)
            self._levels.update(dict.fromkeys(component.predicates, level))
        self.component = cache(self._component)
        self._reached = cache(self._reached_from)

    def level(self, predicate: str) -> int:
        return self._levels.get(predicate, 0)

    def _component(self, predicate: str) -> str:
        return self._graph.component(predicate).predicates[0]

    def reaches(self, predicate: str, other: str) -> bool:
        """Whether facts of one predicate can help to derive facts of the other."""
        return predicate == other or other in self._reached(predicate)

    def _reached_from(self, predicate: str) -> frozenset[str]:
        components = self._graph.components_in_order([predicate])
        return frozenset(name for component in components for name in component.predicates)
