"""Proofs of pairs of large closures, whose pairs lie nowhere: found from the base, as `explain.packing` says.

To search among all rule instances, as for other facts, would offer every node on every way between two others as a
stop. Here a proof of least height comes from the heights of the base pairs alone. Where a rule of the base reads
derived facts, those heights are measured, by a search of its own among what lies behind the base.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.explain.backwards import Backwards
from tidelog.explain.packing import Packing, Path, Step
from tidelog.explain.transitivity import transitivities
from tidelog.language.syntax import Variable
from tidelog.program.modules import Diagonal
from tidelog.program.normal import NormalRule
from tidelog.reason.closures import ClosureNode
from tidelog.reason.compiled import normal_form
from tidelog.store.layout import F_EXPLICIT
from tidelog.store.records import Cells

Pair = tuple[int, int]
Measure = Callable[[Backwards, str, Cells], list[int]]
"""The heights of the lowest proofs of some facts of a predicate."""
UNKNOWN = -1


class PairStep(NamedTuple):
    """A pair, the rule of the closure that yields it (None: it is of the base), and the pairs and terms it takes."""

    pair: Pair
    rule: NormalRule | None
    premises: tuple[Pair, ...]
    binding: Mapping[Variable, int]


class ClosedPairs:
    """The pairs of one closure during one search."""

    def __init__(self, backwards: Backwards, closure: ClosureNode, measure: Measure) -> None:
        self._backwards = backwards
        self._closure = closure
        self._measure = measure
        rules = [normal_form(backwards.engine.graph.rule(number), number)[0] for number in closure.module.rules]
        self._transitivity = min(transitivities(rules), key=lambda rule: rule.rank)
        self._mirror = next((rule for rule in rules if len(rule.positives) == 1), None)
        self._rows, self._heights = self._base()
        self._by_first = np.argsort(self._rows[:, 0], kind="stable")
        self._by_second = np.argsort(self._rows[:, 1], kind="stable")
        self._firsts, self._seconds = self._rows[self._by_first, 0], self._rows[self._by_second, 1]
        self._packings: dict[int, Packing] = {}

    def _base(self) -> tuple[Cells, npt.NDArray[np.int64]]:
        """The pairs of the base, and the heights of their lowest proofs as far as they are plain."""
        (node,) = self._closure.bases
        base = node.relations[0]
        facts = base.live()
        explicit = base.cells[facts, base.flags_column] & F_EXPLICIT != 0
        graph = self._backwards.engine.graph
        derived = any(graph.producers(atom.predicate) for rule in node.rules for atom in rule.normal.positives)
        return base.rows(facts), np.where(explicit, 0, UNKNOWN if derived else 1)

    def height(self, pair: Pair) -> int:
        return self._packing(pair[0]).height(pair[1], self._only_given(pair))

    def steps(self, pair: Pair) -> Iterator[PairStep]:
        """A lowest proof, premises before what they prove."""
        path = self._packing(pair[0]).path(pair[1], self._only_given(pair))
        waiting = [(0, len(path.nodes) - 1, True, False)]
        while waiting:
            first, last, forward, ready = waiting.pop()
            if last == first + 1:
                yield from self._single(_ends(path, first, last, forward))
                continue
            split = _split(path, first, last)
            if not ready:
                waiting.append((first, last, forward, True))
            parts = []
            for end, onward in self._transitivity.parts:
                left = (end == 0) == forward
                part = (first, split) if left else (split, last)
                parts.append((*part, onward == forward, False))
            if not ready:
                waiting += reversed(parts)
                continue
            premises = tuple(_ends(path, *part[:3]) for part in parts)
            yield self._joined(_ends(path, first, last, forward), path.nodes[split], premises)

    def _joined(self, pair: Pair, between: int, premises: tuple[Pair, ...]) -> PairStep:
        rule = self._transitivity
        binding = {rule.between: between, **dict(zip(rule.head, pair, strict=True))}
        return PairStep(pair, rule.rule, premises, binding)

    def _single(self, pair: Pair) -> Iterator[PairStep]:
        """A pair of the base, or one the other way round."""
        mirror = self._mirror
        here, turned = self._height_of(pair), self._height_of(pair[::-1])
        if mirror is None or (here is not None and (turned is None or here <= turned + 1)):
            yield PairStep(pair, None, (), {})
            return
        yield PairStep(pair[::-1], None, (), {})
        binding = {
            term: end for term, end in zip(mirror.head.arguments, pair, strict=True) if isinstance(term, Variable)
        }
        yield PairStep(pair, mirror, (pair[::-1],), binding)

    def _only_given(self, pair: Pair) -> bool:
        """Whether the pair can be of the base only: no rule of the closure yields it."""
        return pair[0] == pair[1] and self._closure.module.diagonal is Diagonal.GIVEN

    def _packing(self, source: int) -> Packing:
        if source not in self._packings:
            self._measure_from(source)
            self._packings[source] = Packing(source, self._steps_from, self._transitivity.facing)
        return self._packings[source]

    # --- the base as a graph ------------------------------------------------------------------------------------------

    def _steps_from(self, node: int) -> dict[int, Step]:
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

    def _measure_from(self, source: int) -> None:
        """Find the heights of all base pairs that a path from a node can use."""
        firsts = self._rows[:, 0]
        reached = self._closure.closure.contains(np.full(len(firsts), source, np.int32), np.ascontiguousarray(firsts))
        missing = np.flatnonzero((self._heights == UNKNOWN) & (reached | (firsts == source)))
        if len(missing):
            with self._backwards.inner() as inner:
                self._heights[missing] = self._measure(inner, self._closure.base_predicate, self._rows[missing])


def _both_ways(here: int | None, turned: int | None) -> Step:
    """What a pair costs in both directions when it is in the base in one or in both of them."""
    if turned is None:
        assert here is not None
        return Step(here, here + 1)
    if here is None:
        return Step(turned + 1, turned)
    return Step(min(here, turned + 1), min(turned, here + 1))


def _ends(path: Path, first: int, last: int, forward: bool) -> Pair:
    ends = path.nodes[first], path.nodes[last]
    return ends if forward else ends[::-1]


def _split(path: Path, first: int, last: int) -> int:
    """Where the tree over a part of a path parts: at the highest bit in which its outermost blocks differ."""
    left, right = path.starts[first], path.starts[last - 1]
    bit = (left ^ right).bit_length() - 1
    return bisect_left(path.starts, right >> bit << bit, first, last)
