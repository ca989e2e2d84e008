"""The hyper rule dependency graph for users: hyper-nodes, edges and strata, and what a change of rules would impact.

After ZodiacEdge (Xu and Curé), §2.1 (strata), §4.2 (the graph) and §4.4 (DIHN and the execution plan); `program.graph`
computes all of it. Here are plain objects of it, with rules as texts and predicates by the names that users read. They
stay as they are, whatever becomes of the knowledge base.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from json import dumps
from typing import Any

from tidelog.errors import TidelogError
from tidelog.facts.arguments import checked_text
from tidelog.language import display_predicate, render
from tidelog.language.names import is_hidden
from tidelog.language.parse_messages import told_of
from tidelog.language.parser import parse_changes
from tidelog.language.syntax import Rule
from tidelog.program.catalogue import Catalogue, NamesInUse
from tidelog.program.drawing.picture import Picture, picture_of_graph, picture_of_impact
from tidelog.program.drawing.svg import to_svg
from tidelog.program.drawing.text import to_dot, to_mermaid
from tidelog.program.graph import HyperNode, Impact, RuleGraph

FORMATS = ("dot", "svg", "mermaid", "json")


@dataclass(frozen=True, slots=True)
class DependencyNode:
    """A hyper-node: rules that depend on each other, mostly just one. `id` is the number of its first rule, and
    `predicates` are those that it derives.

    Examples:
        >>> node = tidelog.KnowledgeBase("b(X) :- a(X).").graph.hyper_nodes[0]
        >>> node.predicates, node.recursive, node.stratum
        (('b',), False, 0)
    """

    id: int
    rules: tuple[str, ...]
    predicates: tuple[str, ...]
    recursive: bool
    stratum: int

    def to_dict(self) -> dict[str, Any]:
        """The node as plain data.

        Examples:
            >>> tidelog.KnowledgeBase("b(X) :- a(X).").graph.hyper_nodes[0].to_dict()["rules"]
            ['b(X) :- a(X).']
        """
        return {
            "id": self.id,
            "rules": list(self.rules),
            "predicates": list(self.predicates),
            "recursive": self.recursive,
            "stratum": self.stratum,
        }

    def __str__(self) -> str:
        return f"hn{self.id}: {' '.join(self.rules)}"


@dataclass(frozen=True, slots=True)
class DependencyEdge:
    """The hyper-node `target` reads what `source` derives; `strict` under negation or into an aggregate.

    Examples:
        >>> edge = tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- b(X).").graph.edges[0]
        >>> print(edge)
        hn1 → hn2: b
    """

    source: int
    target: int
    predicates: tuple[str, ...]
    strict: bool

    def to_dict(self) -> dict[str, Any]:
        """The edge as plain data.

        Examples:
            >>> tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- b(X).").graph.edges[0].to_dict()["predicates"]
            ['b']
        """
        names = list(self.predicates)
        return {"source": self.source, "target": self.target, "predicates": names, "strict": self.strict}

    def __str__(self) -> str:
        return f"hn{self.source} {'⇢' if self.strict else '→'} hn{self.target}: {', '.join(self.predicates)}"


class Drawn(ABC):
    """What can be drawn. A notebook shows the picture."""

    @property
    @abstractmethod
    def _picture(self) -> Picture:
        """What a drawing shows."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""

    def draw(self, format: str = "svg") -> str:
        """As a picture ("svg"), for Graphviz ("dot"), for Mermaid ("mermaid"), or as plain data ("json")."""
        match format:
            case "svg":
                return to_svg(self._picture)
            case "dot":
                return to_dot(self._picture)
            case "mermaid":
                return to_mermaid(self._picture)
            case "json":
                return dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        raise TidelogError(f"`format` is one of {', '.join(map(repr, FORMATS))}, not {format!r}")

    def _repr_svg_(self) -> str:
        return self.draw()


@dataclass(frozen=True)
class DependencyGraph(Drawn):
    """The hyper rule dependency graph of a program. `hyper_nodes` are in the order of evaluation.

    Examples:
        >>> graph = tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- n(X), not b(X).").graph
        >>> [len(stratum) for stratum in graph.strata], graph.edges[0].strict
        ([1, 1], True)
        >>> graph.draw("mermaid").splitlines()[0]
        'flowchart LR'
    """

    hyper_nodes: tuple[DependencyNode, ...]
    edges: tuple[DependencyEdge, ...]
    _graph: RuleGraph = field(repr=False, compare=False)
    _catalogue: Catalogue = field(repr=False, compare=False)
    _functions: frozenset[str] = field(repr=False, compare=False)

    @classmethod
    def of(cls, graph: RuleGraph, catalogue: Catalogue, functions: Iterable[str]) -> DependencyGraph:
        """The graph as it is now; nobody changes `graph` and `catalogue` from now on."""
        prefixes = catalogue.prefixes
        edges = tuple(_edges(graph, prefixes))
        strata = _in_order((node.id for node in graph.hyper_nodes), edges)
        nodes = (_shown(graph, graph.hyper_node(id), stratum, prefixes) for id, stratum in strata.items())
        return cls(tuple(nodes), edges, graph, catalogue, frozenset(functions))

    @cached_property
    def strata(self) -> tuple[tuple[DependencyNode, ...], ...]:
        """The hyper-nodes by stratum: what one reads strictly lies in a lower one."""
        count = max((node.stratum for node in self.hyper_nodes), default=-1) + 1
        return tuple(tuple(node for node in self.hyper_nodes if node.stratum == level) for level in range(count))

    def plan(self, add_rules: str = "", remove_rules: str = "") -> RuleImpact:
        """What adding and removing rules would impact. Nothing changes; raises what the update would raise."""
        added, removed = checked_text(add_rules, "add_rules"), checked_text(remove_rules, "remove_rules")
        catalogue, rules = self._catalogue, self._graph.rules
        lattices = catalogue.lattices
        catalogue = Catalogue(catalogue.prefixes, catalogue.arities, rules, catalogue.declared)
        catalogue.lattices |= lattices
        names = NamesInUse(self._graph.predicates, rules.values(), lambda _: ())
        program = catalogue.parse_added(added, lambda: names, functions=self._functions)
        catalogue.declare(program.prefixes)
        gone = parse_changes(removed, catalogue.prefixes, names=catalogue.names(self._functions))
        with told_of(added, "<rules>"):
            expiries = program.expiries, gone.expiries
            update = catalogue.check(program.rules, gone.rules, self._functions, program.predicates, *expiries)
        return self.impact(update.added.values(), update.removed, catalogue)

    def impact(self, add: Iterable[Rule], remove: Iterable[int], catalogue: Catalogue | None = None) -> RuleImpact:
        """The same for rules that have been checked, those to remove by their numbers."""
        after = self._graph.copy()
        impact = after.update(add, remove)
        catalogue = catalogue or self._catalogue
        return RuleImpact._of(self, impact, DependencyGraph.of(after, catalogue, self._functions))

    @property
    def _picture(self) -> Picture:
        return picture_of_graph(self._graph, self._catalogue.prefixes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "hyper_nodes": [node.to_dict() for node in self.hyper_nodes],
            "edges": [edge.to_dict() for edge in self.edges],
        }

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.hyper_nodes, *self.edges))) or "no rules"

    def __repr__(self) -> str:
        return f"<DependencyGraph: {len(self.hyper_nodes)} hyper-nodes, {len(self.edges)} edges>"


@dataclass(frozen=True)
class RuleImpact(Drawn):
    """What a change of rules does to the hyper-nodes. `graph` is the graph that it leads to.

    `direct` is the paper's DIHN: hyper-nodes that gained, lost or exchanged rules, and readers of one that is gone or
    has split. `plan` is its execution plan: these and all that they reach, in the order of evaluation. `vanished`, the
    keys of `split` and the values of `merged` are hyper-nodes of before. A hyper-node that only gained rules has merged
    with none but itself, and one that only lost rules has split into what is left of it.

    Examples:
        >>> graph = tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- b(X).").graph
        >>> impact = graph.plan(remove_rules="b(X) :- a(X).")
        >>> [node.id for node in impact.vanished], [node.id for node in impact.plan]
        ([1], [2])
    """

    graph: DependencyGraph
    added: tuple[str, ...]
    removed: tuple[str, ...]
    direct: tuple[DependencyNode, ...]
    plan: tuple[DependencyNode, ...]
    new: tuple[DependencyNode, ...]
    vanished: tuple[DependencyNode, ...]
    merged: Mapping[DependencyNode, tuple[DependencyNode, ...]]
    split: Mapping[DependencyNode, tuple[DependencyNode, ...]]
    _before: DependencyGraph = field(repr=False, compare=False)
    _impact: Impact = field(repr=False, compare=False)

    @classmethod
    def _of(cls, before: DependencyGraph, impact: Impact, after: DependencyGraph) -> RuleImpact:
        old, new = ({node.id: node for node in graph.hyper_nodes} for graph in (before, after))
        reached = {node.id for node in after._graph.execution_plan(impact.direct)}
        return cls(
            after,
            added=tuple(_texts(after, impact.added)),
            removed=tuple(_texts(before, impact.removed)),
            direct=tuple(node for node in after.hyper_nodes if node.id in impact.direct),
            plan=tuple(node for node in after.hyper_nodes if node.id in reached),
            new=tuple(new[id] for id in impact.new),
            vanished=tuple(old[id] for id in impact.vanished),
            merged={new[id]: tuple(old[origin] for origin in origins) for id, origins in impact.merged.items()},
            split={old[id]: tuple(new[piece] for piece in pieces) for id, pieces in impact.split.items()},
            _before=before,
            _impact=impact,
        )

    @property
    def _picture(self) -> Picture:
        before, after = self._before._graph, self.graph._graph
        return picture_of_impact(before, after, self._impact, self.graph._catalogue.prefixes)

    def to_dict(self) -> dict[str, Any]:
        """Hyper-nodes by their ids: those of before are in `before`, those of after in `after`."""
        return {
            "before": self._before.to_dict(),
            "after": self.graph.to_dict(),
            "added": list(self.added),
            "removed": list(self.removed),
            **{name: [node.id for node in getattr(self, name)] for name in ("direct", "plan", "new", "vanished")},
            "merged": {str(node.id): [origin.id for origin in origins] for node, origins in self.merged.items()},
            "split": {str(node.id): [piece.id for piece in pieces] for node, pieces in self.split.items()},
        }

    def __str__(self) -> str:
        lines = [f"+ {rule}" for rule in self.added] + [f"- {rule}" for rule in self.removed]
        for node in self.plan:
            lines.append(f"{node}  {'directly impacted' if node in self.direct else 'reached from there'}")
        return "\n".join([*lines, *(f"{node}  vanishes" for node in self.vanished)]) or "nothing is impacted"

    def __repr__(self) -> str:
        return f"<RuleImpact: {len(self.direct)} hyper-nodes directly, {len(self.plan)} in all>"


def _shown(graph: RuleGraph, node: HyperNode, stratum: int, prefixes: Mapping[str, str]) -> DependencyNode:
    rules = tuple(dict.fromkeys(render(graph.rule(number), prefixes) for number in node.rules))
    names = tuple(display_predicate(name, prefixes) for name in node.predicates if not is_hidden(name))
    return DependencyNode(node.id, rules, names, node.recursive, stratum)


def _edges(graph: RuleGraph, prefixes: Mapping[str, str]) -> Iterator[DependencyEdge]:
    for strict, edges in enumerate(graph.hyper_edges()):
        for (source, target), names in sorted(edges.items()):
            shown = tuple(sorted(display_predicate(name, prefixes) for name in names))
            yield DependencyEdge(source, target, shown, bool(strict))


def _in_order(hyper_nodes: Iterable[int], edges: Iterable[DependencyEdge]) -> dict[int, int]:
    """The hyper-nodes in an order of evaluation, each with its least stratum (the function f of §2.1), from 0. Of those
    that could be next, the one whose first rule is older comes first.
    """
    strata = dict.fromkeys(hyper_nodes, 0)
    waiting: Counter[int] = Counter()
    readers: dict[int, list[DependencyEdge]] = {}
    for edge in edges:
        waiting[edge.target] += 1
        readers.setdefault(edge.source, []).append(edge)
    ready = sorted(id for id in strata if not waiting[id])
    found: dict[int, int] = {}
    while ready:
        id = heappop(ready)
        found[id] = strata[id]
        for edge in readers.get(id, ()):
            strata[edge.target] = max(strata[edge.target], strata[id] + edge.strict)
            waiting[edge.target] -= 1
            if not waiting[edge.target]:
                heappush(ready, edge.target)
    return found


def _texts(graph: DependencyGraph, numbers: Iterable[int]) -> Iterator[str]:
    texts = (render(graph._graph.rule(number), graph._catalogue.prefixes) for number in numbers)
    return iter(dict.fromkeys(texts))
