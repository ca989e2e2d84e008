"""The answers to a knowledge base's questions: proofs of facts that hold, reasons why others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from tidelog.engine.engine import Engine
from tidelog.explain.alternatives import choices_of, lowest_first
from tidelog.explain.backwards import BackwardRules
from tidelog.explain.failure import Inquest
from tidelog.explain.proof import Proof
from tidelog.explain.search import Cone
from tidelog.explain.wording import Wording
from tidelog.explain.writing import Writer
from tidelog.language.syntax import Atom
from tidelog.store.relation_parts import Cells

# How many proofs are looked at for each that is wanted.
TRIED = 10


class Explainer:
    """Finds proofs in the materialisation of an engine."""

    def __init__(self, engine: Engine, prefixes: Callable[[], Mapping[str, str]]) -> None:
        self._backwards = BackwardRules(engine)
        self._engine = engine
        self._prefixes = prefixes

    def _wording(self) -> Wording:
        return Wording(self._engine.store.terms.table, self._prefixes())

    def proofs(self, predicate: str, row: Cells, limit: int) -> list[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first; none if it does not hold."""
        if limit <= 0 or not self._engine.holds(predicate, row):
            return []
        if limit == 1:
            return [self._lowest(predicate, row)]
        found, along_paths = self._several(predicate, row, limit)
        if not along_paths:
            return found
        # Not all proofs follow paths of large closures, and the lowest may be one that does not.
        lowest = self._lowest(predicate, row)
        return [lowest, *(proof for proof in found if proof.to_dict() != lowest.to_dict())][:limit]

    def _lowest(self, predicate: str, row: Cells) -> Proof:
        with self._backwards.searching():
            cone = Cone(self._backwards, predicate, row.reshape(1, -1))
            cone.find_lowest()
            return Writer(cone, self._wording(), {}).write(choices_of(cone))

    def _several(self, predicate: str, row: Cells, limit: int) -> tuple[list[Proof], bool]:
        """The lowest proofs, and whether only those along paths of large closures were looked for."""
        wording = self._wording()
        with self._backwards.searching():
            cone = Cone(self._backwards, predicate, row.reshape(1, -1))
            cone.find_all()
            written = (Writer(cone, wording).write(choices) for choices in islice(lowest_first(cone), TRIED * limit))
            return list(islice(filter(_proves_in_one_way, written), limit)), cone.along_paths

    def why_not(self, fact: Atom, row: Cells | None, predicates: list[str]) -> str:
        """What a fact lacks. `row` is None if its predicate is unknown; `predicates` are the known ones."""
        wording = self._wording()
        if row is not None and self._engine.holds(fact.predicate, row):
            return f"{wording.text(fact)} holds; `explain` proves it."
        return Inquest(self._backwards, wording).report(fact, row, predicates)


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
