"""Proofs of pairs of large closures, whose pairs lie nowhere: found from the base, as `packing` says.

A search among all rule instances, as for other facts, would offer every node on every path between two others as a
stop. Here a proof of least height comes from the heights of the base pairs alone, the *leaves*.

Twins copy each other, and what was copied can be joined and copied again. But where both twins have a transitive rule,
a proof is as high if parts are copied and then joined as if they are joined and then copied. So all copies can be at
the leaves, and all joins can be of the predicate that is asked for. If that one has no transitive rule, they are of one
that has, and the last of them is copied from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.update.pair_sets import StoredPairs
from tidelog.explain import closure_rules
from tidelog.explain.backwards import BackwardRules
from tidelog.explain.closure_rules import Pair, PairFact, PairStep, TransitiveRule
from tidelog.program.modules import Diagonal
from tidelog.program.normal_form import NormalRule
from tidelog.proofs.packing import Packing, Path, Step
from tidelog.store.relation_parts import Cells

Measure = Callable[[BackwardRules, str, Cells], list[int]]
"""The heights of the lowest proofs of some facts of a predicate."""
UNKNOWN = -1


class _Lowest(NamedTuple):
    """A lowest proof: what proves a first fact, and the rules by which that is then copied, the last first."""

    height: int
    source: Paths | Leaves
    first: PairFact
    copies: tuple[NormalRule, ...]


class ClosureProofs:
    """Proofs of the pairs of one closure, during one search."""

    def __init__(self, backwards: BackwardRules, closure: ClosureNode, measure: Measure) -> None:
        self._closure = closure
        self._rules = backwards.rules_of(closure)
        self._transitive = closure_rules.best_by_predicate(self._rules)
        self._leaves = cache(lambda predicate: Leaves(backwards, closure, predicate, measure))
        self._paths = cache(lambda predicate: Paths(self._leaves(predicate), self._transitive[predicate]))

    def height(self, fact: PairFact) -> int:
        return self._lowest(fact).height

    def steps(self, fact: PairFact) -> Iterator[PairStep]:
        """A lowest proof, premises before what they prove."""
        lowest = self._lowest(fact)
        yield from lowest.source.steps(lowest.first.pair)
        copied = lowest.first
        for rule in reversed(lowest.copies):
            step = closure_rules.copy_step(rule, copied)
            yield step
            copied = step.fact

    def _lowest(self, fact: PairFact) -> _Lowest:
        return min(self._candidates(fact), key=lambda candidate: candidate.height)

    def _candidates(self, fact: PairFact) -> Iterator[_Lowest]:
        # A pair that no transitive rule yields can only be a leaf.
        joined = fact.pair[0] != fact.pair[1] or self._closure.module.diagonal is not Diagonal.GIVEN
        if joined and fact.predicate in self._transitive:
            yield self._joined(fact, ())
            return
        leaves = self._leaves(fact.predicate)
        height = leaves.height(fact.pair)
        if height is not None:
            yield _Lowest(height, leaves, fact, ())
        if joined:
            copies = closure_rules.shortest_copies(fact.predicate, self._rules)
            for predicate in self._transitive:
                yield self._joined(fact, copies[predicate])

    def _joined(self, fact: PairFact, copies: tuple[NormalRule, ...]) -> _Lowest:
        """The lowest proof among those that join pairs of one predicate, and copy the last of them by these rules."""
        first = closure_rules.origin(fact, copies)
        paths = self._paths(first.predicate)
        return _Lowest(paths.height(first.pair) + len(copies), paths, first, copies)


class Paths:
    """Lowest proofs by the transitive rule of one predicate: a path of leaves, and a tree over it."""

    def __init__(self, leaves: Leaves, transitive: TransitiveRule) -> None:
        self._leaves = leaves
        self._transitive = transitive
        self._packings: dict[int, Packing] = {}

    def height(self, pair: Pair) -> int:
        return self._packing(pair[0]).height(pair[1])

    def steps(self, pair: Pair) -> Iterator[PairStep]:
        """A lowest proof, premises before what they prove."""
        path = self._packing(pair[0]).path(pair[1])
        waiting = [(0, len(path.nodes) - 1, True, False)]
        while waiting:
            first, last, forward, ready = waiting.pop()
            if last == first + 1:
                yield from self._leaves.steps(_ends(path, first, last, forward))
                continue
            split = _split(path, first, last)
            parts = []
            for end, onward in self._transitive.parts:
                left = (end == 0) == forward
                part = (first, split) if left else (split, last)
                parts.append((*part, onward == forward, False))
            if ready:
                premises = [_ends(path, *part[:3]) for part in parts]
                yield self._transitive.step(_ends(path, first, last, forward), path.nodes[split], premises)
            else:
                waiting += [(first, last, forward, True), *reversed(parts)]

    def _packing(self, source: int) -> Packing:
        if source not in self._packings:
            self._leaves.measure_from(source)
            self._packings[source] = Packing(source, self._leaves.steps_from, self._transitive.facing)
        return self._packings[source]


def _ends(path: Path, first: int, last: int, forward: bool) -> Pair:
    ends = path.nodes[first], path.nodes[last]
    return ends if forward else ends[::-1]


def _split(path: Path, first: int, last: int) -> int:
    """Where the tree over a part of a path divides: at the highest bit in which its outermost blocks differ."""
    left, right = path.starts[first], path.starts[last - 1]
    bit = (left ^ right).bit_length() - 1
    return bisect_left(path.starts, right >> bit << bit, first, last)


class Leaves:
    """The pairs that a closure starts from, as pairs of one predicate: a graph, with their heights.

    Twins share these pairs. As a pair of a certain predicate, a leaf has the height of its lowest proof by the rules of
    the bases: it is explicit there, or other rules derive it, or it is copied from a twin. Where that is not plain to
    see, it is measured by a search of its own, among what lies behind the bases.
    """

    def __init__(self, backwards: BackwardRules, closure: ClosureNode, predicate: str, measure: Measure) -> None:
        self._backwards = backwards
        self._closure = closure
        self._predicate = predicate
        self._measure = measure
        self._mirror = closure_rules.mirror_among(backwards.rules_of(closure))
        self._rows = closure_rules.base_rows(closure, predicate)
        explicit = StoredPairs(closure.base.explicit_rows(predicate)).contains(self._rows)
        self._heights = np.where(explicit, 0, UNKNOWN if self._are_deep() else 1)
        self._by_first = np.argsort(self._rows[:, 0], kind="stable")
        self._by_second = np.argsort(self._rows[:, 1], kind="stable")
        self._firsts, self._seconds = self._rows[self._by_first, 0], self._rows[self._by_second, 1]

    def _are_deep(self) -> bool:
        """Whether a pair that is not explicit may come from other facts that are not."""
        own = closure_rules.own_rules(self._closure, self._predicate)
        read = {atom.predicate for rule in own for atom in rule.normal.positives}
        return bool(self._closure.module.twins) or any(map(self._backwards.engine.graph.producers, read))

    # --- proofs of one leaf -------------------------------------------------------------------------------------------

    def height(self, pair: Pair) -> int | None:
        """The height of a pair that is a leaf, in this direction or in the other one of a symmetric closure."""
        self._measure_those(self._rows[:, 0] == pair[0])
        step = self.steps_from(pair[0]).get(pair[1])
        return step and step.forward

    def steps(self, pair: Pair) -> Iterator[PairStep]:
        here, turned = self._height_of(pair), self._height_of(pair[::-1])
        if self._mirror is None or (here is not None and (turned is None or here <= turned + 1)):
            yield PairStep(PairFact(self._predicate, pair), None, (), {})
            return
        leaf = PairFact(self._predicate, pair[::-1])
        yield PairStep(leaf, None, (), {})
        yield closure_rules.copy_step(self._mirror, leaf)

    # --- the graph ----------------------------------------------------------------------------------------------------

    def steps_from(self, node: int) -> dict[int, Step]:
        """Where leaves lead from a node, once their heights have been measured."""
        onward = self._ends_of(node, self._firsts, self._by_first, 1)
        if self._mirror is None:
            return {end: Step(height, height) for end, height in onward.items()}
        back = self._ends_of(node, self._seconds, self._by_second, 0)
        return {end: _both_ways(onward.get(end), back.get(end)) for end in onward.keys() | back.keys()}

    def _ends_of(self, node: int, sorted_by: Cells, order: npt.NDArray[np.int64], column: int) -> dict[int, int]:
        low, high = np.searchsorted(sorted_by, [node, node + 1])
        chosen = order[low:high]
        return dict(zip(self._rows[chosen, column].tolist(), self._heights[chosen].tolist(), strict=True))

    def _height_of(self, pair: Pair) -> int | None:
        return self._ends_of(pair[0], self._firsts, self._by_first, 1).get(pair[1])

    def measure_from(self, source: int) -> None:
        """Find the heights of all leaves that a path from a node can use."""
        firsts = np.ascontiguousarray(self._rows[:, 0])
        reached = self._closure.view(self._predicate).contains(np.full(len(firsts), source, np.int32), firsts)
        self._measure_those(reached | (firsts == source))

    def _measure_those(self, wanted: npt.NDArray[np.bool_]) -> None:
        missing = np.flatnonzero((self._heights == UNKNOWN) & wanted)
        if len(missing):
            with self._backwards.inner() as inner:
                base = closure_rules.base_name(self._closure, self._predicate)
                self._heights[missing] = self._measure(inner, base, self._rows[missing])


def _both_ways(here: int | None, turned: int | None) -> Step:
    """The heights in both directions of a pair that is a leaf in one or in both of them."""
    if turned is None:
        assert here is not None
        return Step(here, here + 1)
    if here is None:
        return Step(turned + 1, turned)
    return Step(min(here, turned + 1), min(turned, here + 1))
