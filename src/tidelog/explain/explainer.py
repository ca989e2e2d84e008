"""The answers to a knowledge base's questions: proofs of facts that hold, reasons why others do not.

Several proofs are found in the order of their height by the partition of Lawler ("A procedure for computing the k best
solutions to discrete optimization problems", 1972). A proof chooses for each of its facts how it comes about. Take the
lowest proof, and its facts in the order of the drawing: every other proof agrees with it on the facts before some i,
and differs on fact i. For each i, the lowest of those proofs is found by measuring the same cone again, with the
choices before i fixed and the one at i forbidden.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.queries import originals
from tidelog.explain.attempts import EngineGrounds
from tidelog.explain.backwards import BackwardRules
from tidelog.explain.closure_rules import closed_predicate
from tidelog.explain.search import Choices, Cone
from tidelog.explain.writing import Writer
from tidelog.language.printer import render
from tidelog.language.syntax import Atom, Constant
from tidelog.proofs.failure import Inquest, WhyNot
from tidelog.proofs.proof import Proof
from tidelog.proofs.wording import Wording
from tidelog.store.relation_parts import Cells

# How many proofs are looked at for each that is wanted.
TRIED = 10

_height = attrgetter("height")


class Explainer:
    """Finds proofs in the materialisation of an engine."""

    def __init__(self, engine: Engine, prefixes: Callable[[], Mapping[str, str]]) -> None:
        self._backwards = BackwardRules(engine)
        self._engine = engine
        self._prefixes = prefixes

    def _wording(self) -> Wording:
        return Wording(self._engine.store.terms.table.decode, self._prefixes(), closed_predicate)

    def proofs(self, predicate: str, row: Cells, limit: int) -> list[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first; none if it does not hold."""
        if limit <= 0:
            return []
        copies = [self._copy(predicate, row, each) for each in self._originals(predicate, row, max(limit, TRIED))]
        found = self._own_proofs(predicate, row, limit) if self._engine.holds(predicate, row) else []
        return sorted((*found, *copies), key=_height)[:limit] if copies else found

    def _originals(self, predicate: str, row: Cells, most: int) -> list[Cells]:
        """Other rows that stand for a fact under an equality."""
        return [other for other in originals(self._engine, predicate, row, most) if not np.array_equal(other, row)]

    def _copy(self, predicate: str, row: Cells, original: Cells) -> Proof:
        """A proof of a fact in which constants of another one are replaced by equal ones."""
        equality, wording = self._engine.graph.equality, self._wording()
        assert equality is not None
        pairs = dict.fromkeys(
            (old, new) for old, new in zip(original.tolist(), row.tolist(), strict=True) if old != new
        )
        premises = [self._lowest(predicate, original)]
        premises += [self._lowest(equality.predicate, np.array(pair, np.int32)) for pair in pairs]
        decode = self._engine.store.terms.table.decode
        fact = Atom(predicate, tuple([Constant(decode(term)) for term in row.tolist()]))
        return Proof(wording.text(fact), render(equality.written, self._prefixes()), premises)

    def _own_proofs(self, predicate: str, row: Cells, limit: int) -> list[Proof]:
        """The lowest proofs of a row that is there."""
        if limit == 1:
            return [self._lowest(predicate, row)]
        wording = self._wording()
        with self._backwards.searching():
            cone = Cone(self._backwards, predicate, row.reshape(1, -1))
            least = cone.find_all()
            written = (Writer(cone, wording).write(choices) for choices in islice(_lowest_first(cone), TRIED * limit))
            found = sorted(islice(filter(_proves_in_one_way, written), limit), key=_height)
        if not cone.along_paths and found and found[0].height <= least:
            return found
        # Not all proofs follow paths of large closures, and the lowest may be one that does not. Nor do all prove each
        # fact in one way where copies under an equality are also facts of their own.
        lowest = self._lowest(predicate, row)
        return [lowest, *(proof for proof in found if proof.to_dict() != lowest.to_dict())][:limit]

    def _lowest(self, predicate: str, row: Cells) -> Proof:
        with self._backwards.searching():
            cone = Cone(self._backwards, predicate, row.reshape(1, -1))
            cone.find_lowest()
            return Writer(cone, self._wording(), {}).write(cone.choices())

    def why_not(self, fact: Atom, row: Cells | None, arities: Mapping[str, int]) -> WhyNot:
        """What a fact lacks. `row` is None if its predicate is unknown; `arities` are those of the known ones."""
        wording = self._wording()
        if row is not None and (
            self._engine.holds(fact.predicate, row) or len(originals(self._engine, fact.predicate, row, 1))
        ):
            return WhyNot.of(f"{wording.text(fact)} holds; `explain` proves it.")
        return Inquest(EngineGrounds(self._backwards), wording).report(fact, row is not None, arities)


def _proves_in_one_way(proof: Proof) -> bool:
    """Whether each fact has the same proof wherever it occurs, and so none below itself. A search tells the pairs of a
    large closure from those of its base; to a reader they are the same facts.
    """
    ways: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    for step in proof.steps():
        way = step.rule, tuple(premise.fact for premise in step.premises)
        if ways.setdefault(step.fact, way) != way:
            return False
    return True


class _Part(NamedTuple):
    """The proofs that make the first `fixed` choices of the lowest among them, and then none of `forbidden`. The lowest
    part comes first, of equal ones the oldest.
    """

    height: int
    number: int
    choices: Choices
    fixed: int
    forbidden: frozenset[int]


def _lowest_first(cone: Cone) -> Iterator[Choices]:
    """The choices of every proof of node 0."""
    numbers = count()
    heap = [_Part(cone.measure(), next(numbers), cone.choices(), 0, frozenset())]
    while heap:
        part = heapq.heappop(heap)
        yield part.choices
        nodes = list(part.choices)
        for place in range(part.fixed, len(nodes)):
            node = nodes[place]
            forbidden = frozenset((part.choices[node],)) | (part.forbidden if place == part.fixed else frozenset())
            if forbidden >= set(cone.ways(node)):
                continue
            disabled = [(other, way) for other in nodes[:place] for way in cone.ways(other)]
            disabled = [(other, way) for other, way in disabled if way != part.choices[other]]
            with cone.without([*disabled, *((node, way) for way in forbidden)]):
                height = cone.measure()
                if height >= 0:
                    heapq.heappush(heap, _Part(height, next(numbers), cone.choices(), place, forbidden))
