"""All proofs of a fact, in the order of their height.

This is the partition of Lawler ("A procedure for computing the k best solutions to discrete optimization problems",
1972). A proof chooses for each of its facts how it comes about. Take the lowest proof, and its facts in the order of
the drawing: every other proof agrees with it on the facts before some i, and differs on fact i. For each i, the lowest
of those proofs is found by measuring the same cone again, with the choices before i fixed and the one at i forbidden.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from tidelog.explain.cone_registers import AS_EXPLICIT
from tidelog.explain.search import Cone

Choices = dict[int, int]
"""For each node of a proof, in the order of the drawing: the instance that derives it, AS_EXPLICIT or AS_GIVEN."""


def choices_of(cone: Cone, goal: int = 0) -> Choices:
    """What the last measurement chose for a fact and for all that its proof uses."""
    chosen: Choices = {}
    waiting = [goal]
    while waiting:
        node = waiting.pop()
        if node not in chosen:
            chosen[node] = cone.choice(node)
            if chosen[node] >= 0:
                waiting += reversed(cone.instance(chosen[node]).premises)
    return chosen


@dataclass(order=True, slots=True)
class _Part:
    """The proofs that make the first `fixed` choices of the lowest among them, and then none of `forbidden`."""

    height: int
    number: int
    choices: Choices = field(compare=False)
    fixed: int = field(compare=False)
    forbidden: frozenset[int] = field(compare=False)


def lowest_first(cone: Cone) -> Iterator[Choices]:
    """The choices of every proof of node 0."""
    numbers = count()
    height = cone.measure()
    heap = [_Part(height, next(numbers), choices_of(cone), 0, frozenset())]
    while heap:
        part = heapq.heappop(heap)
        yield part.choices
        nodes = list(part.choices)
        for place in range(part.fixed, len(nodes)):
            choice = part.choices[nodes[place]]
            forbidden = frozenset((choice,)) | (part.forbidden if place == part.fixed else frozenset())
            alternatives = _alternatives(cone, nodes[place])
            if forbidden >= set(alternatives):
                continue
            fixed = {node: part.choices[node] for node in nodes[:place]}
            found = _lowest_within(cone, fixed, nodes[place], forbidden)
            if found is not None:
                heapq.heappush(heap, _Part(found[0], next(numbers), found[1], place, forbidden))


def _alternatives(cone: Cone, node: int) -> list[int]:
    explicit = [AS_EXPLICIT] if cone.is_explicit(node) else []
    return [*explicit, *cone.instances(node)]


def _lowest_within(cone: Cone, fixed: Choices, node: int, forbidden: frozenset[int]) -> tuple[int, Choices] | None:
    """The height and the choices of the lowest proof with some choices fixed and some forbidden at one node."""
    disabled = [(other, choice) for other in fixed for choice in _alternatives(cone, other) if choice != fixed[other]]
    disabled += [(node, choice) for choice in forbidden]
    _enable(cone, disabled, False)
    height = cone.measure()
    found = (height, choices_of(cone)) if height >= 0 else None
    _enable(cone, disabled, True)
    return found


def _enable(cone: Cone, choices: list[tuple[int, int]], enabled: bool) -> None:
    for node, choice in choices:
        if choice == AS_EXPLICIT:
            cone.enable_leaf(node, enabled)
        else:
            cone.enable(choice, enabled)
