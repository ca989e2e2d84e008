"""Lowest proofs by the transitive rule of one predicate: a path of leaves, and a tree over it (`explain.packing`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from tidelog.explain.copies import Pair, PairFact, PairStep
from tidelog.explain.leaves import Leaves
from tidelog.explain.packing import Packing, Path
from tidelog.explain.transitivity import Transitivity


class Paths:
    """The pairs of one predicate of a closure."""

    def __init__(self, predicate: str, leaves: Leaves, transitivity: Transitivity) -> None:
        self._predicate = predicate
        self._leaves = leaves
        self._transitivity = transitivity
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
            premises = [_ends(path, *part[:3]) for part in parts]
            yield self._joined(_ends(path, first, last, forward), path.nodes[split], premises)

    def _joined(self, pair: Pair, between: int, premises: list[Pair]) -> PairStep:
        rule = self._transitivity
        binding = {rule.between: between, **dict(zip(rule.head, pair, strict=True))}
        facts = (PairFact(self._predicate, premise) for premise in premises)
        return PairStep(PairFact(self._predicate, pair), rule.rule, tuple(facts), binding)

    def _packing(self, source: int) -> Packing:
        if source not in self._packings:
            self._leaves.measure_from(source)
            self._packings[source] = Packing(source, self._leaves.steps_from, self._transitivity.facing)
        return self._packings[source]


def _ends(path: Path, first: int, last: int, forward: bool) -> Pair:
    ends = path.nodes[first], path.nodes[last]
    return ends if forward else ends[::-1]


def _split(path: Path, first: int, last: int) -> int:
    """Where the tree over a part of a path parts: at the highest bit in which its outermost blocks differ."""
    left, right = path.starts[first], path.starts[last - 1]
    bit = (left ^ right).bit_length() - 1
    return bisect_left(path.starts, right >> bit << bit, first, last)
