"""The components that an update has yet to visit (the plan of ZodiacEdge, Algorithm 4, made while it runs)."""

from __future__ import annotations

import heapq

from tidelog.program.graph import RuleGraph


class Agenda:
    """Components that wait for their turn, in topological order."""

    def __init__(self, graph: RuleGraph) -> None:
        self._graph = graph
        self._heap: list[tuple[int, str]] = []
        self._waiting: set[str] = set()

    def push(self, predicate: str) -> None:
        component = self._graph.component(predicate)
        name = component.predicates[0]
        if name not in self._waiting:
            self._waiting.add(name)
            # A predicate that no rule mentions depends on nothing, and nothing depends on it.
            known = bool(component.rules) or bool(self._graph.readers(name))
            heapq.heappush(self._heap, (self._graph.position(name) if known else -(1 << 62), name))

    def pop(self) -> str:
        name = heapq.heappop(self._heap)[1]
        self._waiting.discard(name)
        return name

    def __bool__(self) -> bool:
        return bool(self._heap)
