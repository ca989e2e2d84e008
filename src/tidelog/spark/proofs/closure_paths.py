"""Lowest proofs of pairs of large transitive closures, from the pairs that the closure starts from: its base.

Searched like any other rule, R(x, z) :- R(x, y), R(y, z) would offer every node on every path between two others as a
stop. As in the embedded engine, a proof is a tree over a path of base pairs, and both are found together
(`proofs/packing.py`). The nodes of such paths are those that the first end reaches and that reach the last one, which
the closure itself tells by two lookups; the base pairs between them are found by the other rules for its predicate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidelog.language.syntax import Variable
from tidelog.program.modules import Diagonal
from tidelog.program.normal_form import NormalRule
from tidelog.proofs.packing import Facing, Packing, Path, Step
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.proofs.stored_facts import BodyMatch, Instance, StoredFacts, bound_variables

Heights = Callable[[Sequence[Fact]], dict[Fact, int]]
"""The heights of the lowest proofs of base pairs, by the rules that derive them."""


@dataclass(frozen=True)
class ClosurePaths:
    """The closure of a predicate: its transitive rule, and the rules that derive its base."""

    facts: StoredFacts
    predicate: str
    transitive: NormalRule
    base_rules: Sequence[NormalRule]
    diagonal: Diagonal
    heights: Heights
    _found: dict[Ids, Packing | int] = field(default_factory=dict)

    def height(self, pair: Ids) -> int:
        """The height of the lowest proof of a pair of the closure."""
        found = self._search(pair)
        return found if isinstance(found, int) else found.height(pair[1])

    def steps(self, pair: Ids) -> Iterator[Instance | Fact]:
        """A lowest proof, premises before what they prove: pairs of the base, and instances of the transitive rule."""
        found = self._search(pair)
        if isinstance(found, int):
            yield self.predicate, pair
            return
        path = found.path(pair[1])
        waiting = [(0, len(path.nodes) - 1, False)]
        while waiting:
            first, last, ready = waiting.pop()
            if last == first + 1:
                yield self.predicate, (path.nodes[first], path.nodes[last])
                continue
            middle = _split(path, first, last)
            if ready:
                yield self._instance(path.nodes[first], path.nodes[middle], path.nodes[last])
            else:
                waiting += [(first, last, True), (middle, last, False), (first, middle, False)]

    def _instance(self, first: int, middle: int, last: int) -> Instance:
        rule = self.transitive
        start, end = rule.head.arguments
        ids = {term: middle for atom in rule.positives for term in atom.arguments} | {start: first, end: last}
        facts = tuple((self.predicate, tuple(ids[term] for term in atom.arguments)) for atom in rule.positives)
        bound = tuple(ids[variable] for variable in bound_variables(rule))
        return Instance(rule, (self.predicate, (first, last)), [BodyMatch(facts, bound)])

    def _search(self, pair: Ids) -> Packing | int:
        """The search along paths, or the height of a pair that only the base can have."""
        if pair not in self._found:
            steps = self._steps_between(*pair)
            if pair[0] == pair[1] and self.diagonal is Diagonal.GIVEN:
                self._found[pair] = steps[pair[0]][pair[1]].forward
            else:
                self._found[pair] = Packing(pair[0], lambda node: steps.get(node, {}), Facing.ALONG)
        return self._found[pair]

    def _steps_between(self, first: int, last: int) -> dict[int, dict[int, Step]]:
        """The base pairs on paths from one node to another, with their heights."""
        starts = {first, *(ids[1] for ids in self.facts.matching(self.predicate, (0,), {(first,)}))}
        ends = {last, *(ids[0] for ids in self.facts.matching(self.predicate, (1,), {(last,)}))}
        starts &= ends | {first}
        base = {
            instance.head
            for rule in self.base_rules
            for instance in self.facts.instances(rule, {(node,) for node in starts}, places=(0,))
            if instance.head[1][1] in ends
        }
        if self.facts.has_explicit(self.predicate):
            explicit = self.facts.matching(self.predicate, (0,), {(node,) for node in starts})
            base |= {(self.predicate, ids) for ids, is_explicit in explicit.items() if is_explicit and ids[1] in ends}
        steps: dict[int, dict[int, Step]] = defaultdict(dict)
        for (_, (source, target)), height in self.heights(list(base)).items():
            steps[source][target] = Step(height, height)
        return steps


def _split(path: Path, first: int, last: int) -> int:
    """Where the tree over a part of a path divides: at the highest bit in which its outermost blocks differ."""
    left, right = path.starts[first], path.starts[last - 1]
    bit = (left ^ right).bit_length() - 1
    return bisect_left(path.starts, right >> bit << bit, first, last)


def transitive_rule(rules: Sequence[NormalRule]) -> NormalRule | None:
    """Of the transitive rules of a closure the one that proofs use: preferably one that yields every pair."""
    fitting = [rule for rule in rules if all(isinstance(term, Variable) for term in rule.head.arguments)]
    return min(fitting, key=lambda rule: len(rule.conditions), default=None)
