"""The pairs that a closure starts from, as the leaves of proofs of one of its predicates.

Twins share these pairs. As one of a certain predicate, a pair has the height of its lowest proof by the rules of the
bases: it is explicit there, or other rules derive it, or it is copied from a twin. Where that is not plain to see, it
is measured, by a search of its own among what lies behind the bases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.modules.pair_sets import StoredPairs
from tidelog.explain.backwards import Backwards
from tidelog.explain.bases import base_name, base_rows, own_rules
from tidelog.explain.copies import Pair, PairFact, PairStep, copy_step, mirror_among
from tidelog.explain.packing import Step
from tidelog.store.relation_parts import Cells

Measure = Callable[[Backwards, str, Cells], list[int]]
"""The heights of the lowest proofs of some facts of a predicate."""
UNKNOWN = -1


class Leaves:
    """The pairs that a closure starts from as pairs of one predicate: a graph, with their heights."""

    def __init__(self, backwards: Backwards, closure: ClosureNode, predicate: str, measure: Measure) -> None:
        self._backwards = backwards
        self._closure = closure
        self._predicate = predicate
        self._measure = measure
        self._mirror = mirror_among(backwards.rules_of(closure))
        self._rows = base_rows(closure, predicate)
        explicit = StoredPairs(closure.base.explicit_rows(predicate)).contains(self._rows)
        self._heights = np.where(explicit, 0, UNKNOWN if self._are_deep() else 1)
        self._by_first = np.argsort(self._rows[:, 0], kind="stable")
        self._by_second = np.argsort(self._rows[:, 1], kind="stable")
        self._firsts, self._seconds = self._rows[self._by_first, 0], self._rows[self._by_second, 1]

    def _are_deep(self) -> bool:
        """Whether a pair that is not explicit may come from other facts that are not."""
        rules = own_rules(self._closure, self._predicate)
        read = {atom.predicate for rule in rules for atom in rule.normal.positives}
        return bool(self._closure.module.twins) or any(map(self._backwards.engine.graph.producers, read))

    # --- proofs of one leaf -------------------------------------------------------------------------------------------

    def height(self, pair: Pair) -> int | None:
        """The height of a pair that is a leaf, in this direction or in the other one of a symmetric closure."""
        self._measure_those(self._rows[:, 0] == pair[0])
        step = self.steps_from(pair[0]).get(pair[1])
        return step and step.forward

    def steps(self, pair: Pair) -> Iterator[PairStep]:
        mirror = self._mirror
        here, turned = self._height_of(pair), self._height_of(pair[::-1])
        if mirror is None or (here is not None and (turned is None or here <= turned + 1)):
            yield PairStep(PairFact(self._predicate, pair), None, (), {})
            return
        leaf = PairFact(self._predicate, pair[::-1])
        yield PairStep(leaf, None, (), {})
        yield copy_step(mirror, leaf)

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
                base = base_name(self._closure, self._predicate)
                self._heights[missing] = self._measure(inner, base, self._rows[missing])


def _both_ways(here: int | None, turned: int | None) -> Step:
    """What a pair costs in both directions when it is a leaf in one or in both of them."""
    if turned is None:
        assert here is not None
        return Step(here, here + 1)
    if here is None:
        return Step(turned + 1, turned)
    return Step(min(here, turned + 1), min(turned, here + 1))
