"""Proofs of pairs of large closures, whose pairs lie nowhere: found from the base, as `explain.packing` says.

To search among all rule instances, as for other facts, would offer every node on every way between two others as a
stop. Here a proof of least height comes from the heights of the base pairs alone (`explain.leaves`).

Twins copy each other, and what has been copied can be joined and copied again. But where both twins have a transitive
rule, a proof is as high if parts are copied and then joined as if they are joined and then copied. So all copies can be
at the leaves and all joins be of the predicate that is asked for; or, where that has no transitive rule, of one that
has, with the last of them copied from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.explain.backwards import Backwards
from tidelog.explain.copies import PairFact, PairStep, copy_step, origin, shortest_ways
from tidelog.explain.leaves import Leaves, Measure
from tidelog.explain.paths import Paths
from tidelog.explain.transitivity import best_by_predicate
from tidelog.program.modules import Diagonal
from tidelog.program.normal_form import NormalRule


class _Lowest(NamedTuple):
    """A lowest proof: what proves a fact, and the rules by which that is copied then, the last first."""

    height: int
    source: Paths | Leaves
    first: PairFact
    copies: tuple[NormalRule, ...]


class ClosedPairs:
    """The pairs of one closure during one search."""

    def __init__(self, backwards: Backwards, closure: ClosureNode, measure: Measure) -> None:
        self._backwards = backwards
        self._closure = closure
        self._measure = measure
        self._rules = backwards.rules_of(closure)
        self._transitivities = best_by_predicate(self._rules)
        self._leaves: dict[str, Leaves] = {}
        self._paths: dict[str, Paths] = {}

    def height(self, fact: PairFact) -> int:
        return self._lowest(fact).height

    def steps(self, fact: PairFact) -> Iterator[PairStep]:
        """A lowest proof, premises before what they prove."""
        lowest = self._lowest(fact)
        yield from lowest.source.steps(lowest.first.pair)
        copied = lowest.first
        for rule in reversed(lowest.copies):
            step = copy_step(rule, copied)
            yield step
            copied = step.fact

    def _lowest(self, fact: PairFact) -> _Lowest:
        return min(self._candidates(fact), key=lambda candidate: candidate.height)

    def _candidates(self, fact: PairFact) -> Iterator[_Lowest]:
        joined = not self._only_given(fact)
        if joined and fact.predicate in self._transitivities:
            yield self._joined(fact, ())
            return
        leaves = self._leaves_of(fact.predicate)
        height = leaves.height(fact.pair)
        if height is not None:
            yield _Lowest(height, leaves, fact, ())
        if joined:
            ways = shortest_ways(fact.predicate, self._rules)
            for predicate in self._transitivities:
                yield self._joined(fact, ways[predicate])

    def _joined(self, fact: PairFact, copies: tuple[NormalRule, ...]) -> _Lowest:
        """The lowest proof of those that join pairs of one predicate, and copy the last of them so."""
        first = origin(fact, copies)
        paths = self._paths_of(first.predicate)
        return _Lowest(paths.height(first.pair) + len(copies), paths, first, copies)

    def _paths_of(self, predicate: str) -> Paths:
        if predicate not in self._paths:
            rule = self._transitivities[predicate]
            self._paths[predicate] = Paths(predicate, self._leaves_of(predicate), rule)
        return self._paths[predicate]

    def _leaves_of(self, predicate: str) -> Leaves:
        if predicate not in self._leaves:
            self._leaves[predicate] = Leaves(self._backwards, self._closure, predicate, self._measure)
        return self._leaves[predicate]

    def _only_given(self, fact: PairFact) -> bool:
        """Whether the pair can be a leaf only: no transitive rule yields it."""
        return fact.pair[0] == fact.pair[1] and self._closure.module.diagonal is Diagonal.GIVEN
