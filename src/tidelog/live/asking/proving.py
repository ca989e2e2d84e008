"""Proofs of what holds, what other facts lack, and what violates constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from tidelog.engine.engine import Engine
from tidelog.errors import ConstraintError
from tidelog.facts.questions import Values, fact_of, warn_of_unknown
from tidelog.facts.reading import Reader
from tidelog.language.names import is_constraint, is_refusing
from tidelog.program.catalogue import Catalogue
from tidelog.runtime.knowledge_lock import KnowledgeLock

if TYPE_CHECKING:
    from tidelog.explain.explainer import Explainer
    from tidelog.proofs.failure import WhyNot
    from tidelog.proofs.proof import Proof

_VIOLATED = "the update violates a constraint, and nothing of it has been applied:"
_VIOLATED_HINT = "give facts that satisfy the constraint; `@constraint warn :- …` would record violations instead"

# Of each constraint, so many violations are proved.
MOST_VIOLATIONS = 20


class Proving:
    """Finds proofs. `proofs`, `why_not` and `violations` take the lock themselves."""

    def __init__(self, engine: Engine, catalogue: Catalogue, reader: Reader, lock: KnowledgeLock) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._reader = reader
        self._lock = lock
        self._explainer: Explainer | None = None

    def proofs(self, asked: object, limit: int, values: Values) -> list[Proof]:
        """The lowest proofs of a fact."""
        return self._lock.read(lambda: self._proofs(asked, limit, values), alone=True)

    def _proofs(self, asked: object, limit: int, values: Values) -> list[Proof]:
        with self._reader.terms_for_a_question(), self._rules_of_proofs():
            atom = fact_of(asked, values, self._catalogue)
            warn_of_unknown(self._catalogue, atom.predicate, atom.arity)
            cells = self._reader.cells_of(atom.predicate, atom.row)
            return [] if cells is None else self.explainer().proofs(atom.predicate, cells, limit)

    def why_not(self, asked: object, values: Values) -> WhyNot:
        """What a fact lacks."""
        return self._lock.read(lambda: self._why_not(asked, values), alone=True)

    def _why_not(self, asked: object, values: Values) -> WhyNot:
        with self._reader.terms_for_a_question(), self._rules_of_proofs():
            atom = fact_of(asked, values, self._catalogue)
            cells = self._reader.cells_of(atom.predicate, atom.row)
            return self.explainer().why_not(atom, cells, self._catalogue.arities)

    def _rules_of_proofs(self) -> AbstractContextManager[None]:
        """A context for the search for a proof. Plans that are made in flux serve one question; where the update in
        work changes rules, proofs wait for its end.
        """
        past = self._engine.past
        if not past.shown:
            return nullcontext()
        if past.rules_change:
            past.check_settled()
        return self._engine.store.borrowed()

    def explainer(self) -> Explainer:
        """Finds proofs of what holds now. In flux, it is made for one question."""
        if self._engine.past.shown:
            return self.new_explainer()
        if self._explainer is None:
            self._explainer = self.new_explainer()
        return self._explainer

    def new_explainer(self) -> Explainer:
        from tidelog.explain.explainer import Explainer

        catalogue = self._catalogue
        return Explainer(self._engine, lambda: catalogue.prefixes)

    # --- violations ---------------------------------------------------------------------------------------------------

    def violations(self) -> list[Proof]:
        """Proofs of the violations of constraints that are only recorded."""

        def look() -> list[Proof]:
            violated = (name for name in self._engine.graph.predicates if is_constraint(name))
            with self._rules_of_proofs():
                return list(self._violations(filter(self._reader.count, violated), self.explainer()))

        return self._lock.read(look, alone=True)

    def refuse_violations(self, derived: Iterable[str]) -> None:
        """Raise where the update in work, which has derived facts of these hidden predicates, violates a constraint.
        Its facts are proved as they would hold. What an update that is paused violates is no concern of this one.
        """
        violated = [name for name in derived if is_refusing(name)]
        if violated:
            with self._engine.store.borrowed():
                found = list(self._violations(violated, self.new_explainer()))
            shown = "\n".join(str(proof) for proof in found)
            left = sum(max(self._reader.count(name) - MOST_VIOLATIONS, 0) for name in violated)
            more = f"\n… {left:,} more" if left else ""
            raise ConstraintError(f"{_VIOLATED}\n{shown}{more}\nhint: {_VIOLATED_HINT}", found)

    def _violations(self, names: Iterable[str], explainer: Explainer) -> Iterator[Proof]:
        """Facts that violate a constraint in several ways, as two facts with the same key do, are told once."""
        for name in names:
            told: set[frozenset[str]] = set()
            for row in self._reader.rows(name, most=MOST_VIOLATIONS).cells:
                for proof in explainer.proofs(name, row, 1):
                    facts = frozenset(premise.fact for premise in proof.premises if not premise.is_part)
                    if not facts or facts not in told:
                        yield proof
                    told.add(facts)
