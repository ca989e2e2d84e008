"""The order in which components are evaluated: in waves, by depth, with small components together in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tidelog.language.syntax import Constant, Term
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.normal_form import NormalRule

# A job of hundreds of joins takes more memory for its plan than for its data.
RULES_IN_A_JOB = 16

T = TypeVar("T")


def waves_of(graph: RuleGraph) -> list[list[Component]]:
    """The components by depth: each after all those that it reads."""
    depth: dict[str, int] = {}
    waves: list[list[Component]] = []
    for component in graph.components_in_order():
        own = set(component.predicates)
        level = max((depth.get(name, 0) for name in reads(graph, component) - own), default=0)
        depth.update(dict.fromkeys(own, level + 1))
        while len(waves) <= level:
            waves.append([])
        waves[level].append(component)
    return waves


def reads(graph: RuleGraph, component: Component) -> set[str]:
    """The predicates that a component reads, and its own."""
    read = {name for number in component.rules for names in graph.reads(number) for name in names}
    return read | set(component.predicates)


def within_budget(
    graph: RuleGraph,
    components: Iterable[Component],
    count: Callable[[str], int],
    budget: int,
    at_least: Callable[[Component], int] = lambda _: 0,
) -> list[Component]:
    """The components, each after those it reads, that together read few enough facts, and no component left out.

    A component that reads no more than `at_least` allows fits in any case."""
    chosen: list[Component] = []
    left_out: set[str] = set()
    counted: set[str] = set()
    for component in components:
        read = reads(graph, component)
        size = sum(map(count, read - counted))
        if read & left_out or size > max(budget, at_least(component)):
            left_out.update(component.predicates)
        else:
            chosen.append(component)
            budget -= size
            counted |= read
    return chosen


def in_jobs(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Rules, or what stands for them, in pieces for one job each."""
    return (items[start : start + RULES_IN_A_JOB] for start in range(0, len(items), RULES_IN_A_JOB))


def constants_of(rules: Iterable[NormalRule]) -> Iterator[Constant]:
    """The constants that rules compare ids with or put into heads."""
    for rule in rules:
        terms: list[Term] = [term for atom in (rule.head, *rule.positives, *rule.negatives) for term in atom.arguments]
        terms += [side for item in rule.conditions for side in (item.left, item.right)]
        yield from (term for term in terms if isinstance(term, Constant))
