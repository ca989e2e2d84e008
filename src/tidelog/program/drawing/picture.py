"""What a drawing of the hyper rule dependency graph shows, whatever it is drawn in: boxes of rules, and arrows.

A box is a hyper-node, an arrow says that the rules of one box read what those of another derive (HE_p and HE_n of
ZodiacEdge, §4.2). The picture of an update shows the graph as it would be afterwards: what the update touches directly,
what it can reach from there (the execution plan, Algorithm 4), which rules are added, and which are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidelog.language import display_predicate, render
from tidelog.program.graph import HyperNode, Impact, RuleGraph


class Touch(StrEnum):
    """What an update does to a hyper-node."""

    NONE = "untouched"
    DIRECT = "directly impacted"
    REACHED = "reached from there"
    GONE = "gone"


class Fate(StrEnum):
    """What an update does to a rule."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Line:
    """A rule in a box."""

    number: int
    text: str
    fate: Fate


@dataclass(frozen=True, slots=True)
class Box:
    """A hyper-node; `note` says what an update did to it, and is empty otherwise."""

    name: str
    note: str
    lines: tuple[Line, ...]
    recursive: bool
    touch: Touch


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency between two boxes through these predicates; strict for negation and aggregates."""

    source: str
    target: str
    predicates: tuple[str, ...]
    strict: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes, each after those that lead to it, and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of_graph(graph: RuleGraph, prefixes: Mapping[str, str]) -> Picture:
    """The graph as it is."""
    boxes = [_box(graph, node, prefixes, frozenset(), Touch.NONE, "") for node in graph.hyper_nodes]
    return Picture(tuple(boxes), _arrows(graph, prefixes))


def picture_of_impact(graph: RuleGraph, after: RuleGraph, impact: Impact, prefixes: Mapping[str, str]) -> Picture:
    """The graph after an update, and what the update did to it."""
    reached = {node.id for node in after.execution_plan(impact.direct)}
    boxes = [_removed_box(graph, node, impact, prefixes) for node in graph.hyper_nodes]
    for node in after.hyper_nodes:
        touch = Touch.DIRECT if node.id in impact.direct else Touch.REACHED if node.id in reached else Touch.NONE
        boxes.append(_box(after, node, prefixes, frozenset(impact.added), touch, _note(node.id, impact)))
    return Picture(tuple(box for box in boxes if box), _arrows(after, prefixes))


def _name(hyper_node: int) -> str:
    return f"hn{hyper_node}"


def _box(
    graph: RuleGraph, node: HyperNode, prefixes: Mapping[str, str], added: frozenset[int], touch: Touch, note: str
) -> Box:
    lines = tuple(
        Line(number, render(graph.rule(number), prefixes), Fate.ADDED if number in added else Fate.KEPT)
        for number in node.rules
    )
    return Box(_name(node.id), note, lines, node.recursive, touch)


def _removed_box(graph: RuleGraph, node: HyperNode, impact: Impact, prefixes: Mapping[str, str]) -> Box | None:
    """The rules removed from a hyper-node, in a box of their own: what remains of it may have fallen apart."""
    gone = [number for number in node.rules if number in impact.removed]
    lines = tuple(Line(number, render(graph.rule(number), prefixes), Fate.REMOVED) for number in gone)
    note = "vanishes" if node.id in impact.vanished else f"removed from {_name(node.id)}"
    return Box(f"gone{node.id}", note, lines, node.recursive, Touch.GONE) if lines else None


def _note(hyper_node: int, impact: Impact) -> str:
    """How a hyper-node came to be what it is."""
    if hyper_node in impact.new:
        return "new"
    origins = impact.merged.get(hyper_node, ())
    if len(origins) > 1:
        return "merged from " + ", ".join(map(_name, origins))
    for whole, pieces in impact.split.items():
        if hyper_node in pieces:
            return f"split from {_name(whole)}" if len(pieces) > 1 else "lost rules"
    return "gained rules" if origins else ""


def _arrows(graph: RuleGraph, prefixes: Mapping[str, str]) -> tuple[Arrow, ...]:
    positive, strict = graph.hyper_edges()
    edges = sorted([(*edge, False) for edge in positive] + [(*edge, True) for edge in strict])
    arrows = []
    for source, target, is_strict in edges:
        predicates = (strict if is_strict else positive)[source, target]
        shown = sorted(display_predicate(predicate, prefixes) for predicate in predicates)
        arrows.append(Arrow(_name(source), _name(target), tuple(shown), is_strict))
    return tuple(arrows)
