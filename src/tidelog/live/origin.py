"""Where a change comes from: the update behind it, from which it can be explained.

A change is explained between two states. The knowledge base is in one of them: after an update that was made, before
one that was only asked about (`what_if`). The other state is there within a what-if of the update, or of its inverse:
what E lost comes back, what it won goes, and so with rules. So nothing is recorded for an explanation but what changed
in E, and no more than `MOST_KEPT` facts of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tidelog.engine.update.deltas import MOST_KEPT, ExplicitChange, Request
from tidelog.engine.update.rows import Rows
from tidelog.errors import TidelogError
from tidelog.facts.encoding import encode_rows
from tidelog.facts.questions import fact_of
from tidelog.facts.results import Change, FactSet
from tidelog.language import render
from tidelog.language.parameters import NO_VALUES
from tidelog.language.syntax import Atom, Constant, Rule, Variable
from tidelog.language.written.windows import window_of
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.explain.change_proof import ChangeProof
    from tidelog.explain.explainer import Explainer
    from tidelog.live.knowledge import Knowledge
    from tidelog.proofs.proof import Proof

Found = TypeVar("Found")


class Origin:
    """The update behind a change: what it did to E and to the rules, and whether it was made."""

    __slots__ = ("_come", "_explicit", "_gone", "_knowledge", "_made", "_prefixes", "_terms", "_version")

    def __init__(
        self,
        knowledge: Knowledge,
        explicit: Mapping[str, ExplicitChange] | None,
        gone: tuple[Rule, ...],
        come: tuple[Rule, ...],
        made: bool,
    ) -> None:
        """The update is about to be committed, or taken back. `explicit` is None for several updates at once."""
        self._knowledge = weakref.ref(knowledge)
        self._version = knowledge.version + made
        self._explicit = explicit
        self._gone, self._come = gone, come
        self._made = made
        self._prefixes = knowledge.catalogue.prefixes
        self._terms = knowledge.engine.store.terms.table

    def after(self, others: Iterable[Origin]) -> Origin:
        """Where the net change of several updates comes from, of which this one is the last."""
        net = copy(self)
        net._explicit = None
        net._come = (*chain.from_iterable(other._come for other in others), *self._come)
        return net

    @property
    def rules(self) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        """The rules that went and those that came."""
        return self._gone, self._come

    def explicit(self) -> dict[str, tuple[FactSet, FactSet]] | None:
        """The explicit facts that went and those that came, by predicate; None where nobody has kept them."""
        found: dict[str, tuple[FactSet, FactSet]] = {}
        if self._explicit is None:
            return None
        for predicate, (gone, come) in self._explicit.items():
            if gone is None or come is None:
                return None
            found[predicate] = FactSet(self._terms, Rows.of(gone)), FactSet(self._terms, Rows.of(come))
        return found

    def explain(self, change: Change, fact: str) -> ChangeProof | None:
        """Why a fact came or went with this update; None if it did neither."""
        knowledge = self._knowledge()
        if knowledge is None:
            raise TidelogError("the knowledge base of this change is gone, and proofs are found in what it holds")
        with knowledge.lock.working(), knowledge.reader.terms_for_a_question():
            if self._version != knowledge.version:
                raise TidelogError(
                    "a change can be explained until the next update, and the knowledge base has been updated since; "
                    "ask right after an update, or ask `what_if` beforehand"
                )
            before = knowledge.catalogue.prefixes
            knowledge.catalogue.prefixes = self._prefixes
            try:
                return self._explain(knowledge, change, fact_of(fact, NO_VALUES, knowledge.catalogue))
            finally:
                knowledge.catalogue.prefixes = before

    def _explain(self, knowledge: Knowledge, change: Change, fact: Atom) -> ChangeProof | None:
        from tidelog.explain.change_proof import ChangeProof

        added = _Lookup(knowledge, change.added, self._in_windows("come"))
        removed = _Lookup(knowledge, change.removed, self._in_windows("gone"))
        came = added.matches(fact)
        if not came and not removed.matches(fact):
            return None
        row = knowledge.engine.store.terms.encode_values(fact.row) if fact.row else np.empty(0, np.int32)

        def prove(explainer: Explainer) -> Proof:
            (proof,) = explainer.proofs(fact.predicate, row, 1)
            return proof

        def ask_why_not(explainer: Explainer) -> str:
            return explainer.why_not(fact, row, knowledge.catalogue.arities)

        proof = self._in_state(knowledge, came, prove)
        same, other = (added, removed) if came else (removed, added)
        rules = {render(rule, self._prefixes) for rule in (self._come if came else self._gone)}
        why_not = "" if came else self._in_state(knowledge, True, ask_why_not)
        return ChangeProof.of(proof, came, same.has, other.has, rules, why_not)

    def _in_windows(self, way: str) -> dict[str, FactSet]:
        """The facts that came into windows or left them, of which a change tells only what follows from them."""
        changes = {name: getattr(change, way) for name, change in (self._explicit or {}).items() if window_of(name)}
        return {name: FactSet(self._terms, Rows.of(rows)) for name, rows in changes.items() if rows is not None}

    # --- the two states -----------------------------------------------------------------------------------------------

    def _in_state(self, knowledge: Knowledge, after: bool, ask: Callable[[Explainer], Found]) -> Found:
        """What an explainer finds in the state after the update, or before it."""
        if after is self._made:
            return ask(knowledge.proving.explainer())

        def look(_: object) -> Found:
            with knowledge.engine.store.borrowed():
                return ask(knowledge.proving.new_explainer())

        return knowledge.trials.look(self._to_the_other_state(knowledge), look)

    def _to_the_other_state(self, knowledge: Knowledge) -> Request:
        """The update that leads from where the knowledge base is to the other state."""
        gone, come = self._facts(knowledge, "gone"), self._facts(knowledge, "come")
        rules_gone, rules_come = self._gone, self._come
        if self._made:
            gone, come, rules_gone, rules_come = come, gone, rules_come, rules_gone
        update = knowledge.catalogue.check(rules_come, rules_gone, knowledge.functions.keys())
        return Request(gone, come, tuple(update.removed), tuple(update.added.values()))

    def _facts(self, knowledge: Knowledge, way: str) -> dict[str, Cells]:
        """The explicit facts that came or went, in the terms that the knowledge base has now."""
        if self._explicit is None:
            raise TidelogError(
                "this is the net change of several updates, and what was before the first of them can no longer be "
                "found; a fact that came can be explained, and one that went if each update is settled by itself"
            )
        found: dict[str, Cells] = {}
        for predicate, change in self._explicit.items():
            rows: Cells | None = getattr(change, way)
            if rows is None:
                raise TidelogError(
                    f"the update changed more than {MOST_KEPT:,} explicit facts of "
                    f"`{knowledge.catalogue.display(predicate)}`, and what was before it can no longer be found; "
                    "ask `what_if` beforehand, and let its change explain"
                )
            if len(rows):
                given = encode_rows(knowledge.engine.store.terms, predicate, FactSet(self._terms, Rows.of(rows)))
                assert given is not None
                found[predicate] = given
        return found


class _Lookup:
    """The facts of one half of a change, to look facts and atoms up in."""

    def __init__(self, knowledge: Knowledge, facts: Mapping[str, FactSet], windows: Mapping[str, FactSet]) -> None:
        self._terms = knowledge.engine.store.terms
        self._prefixes = knowledge.catalogue.prefixes
        self._windows = windows
        self._facts = {knowledge.catalogue.resolve(name): rows for name, rows in facts.items()} | dict(windows)
        self._cells: dict[str, Cells] = {}

    def has(self, text: str) -> bool:
        """Whether a fact is among them, or one that an atom matches."""
        from tidelog.proofs.wording import atoms_shown

        return any(map(self.matches, atoms_shown(text, self._prefixes, self._windows)))

    def matches(self, atom: Atom) -> bool:
        cells = self._cells_of(atom.predicate)
        if cells is None or cells.shape[1] != atom.arity:
            return False
        found = np.ones(len(cells), np.bool_)
        places: dict[Variable, int] = {}
        for column, term in enumerate(atom.arguments):
            if isinstance(term, Constant):
                found &= cells[:, column] == self._terms.encode_values([term.value])[0]
            elif isinstance(term, Variable):
                found &= cells[:, column] == cells[:, places.setdefault(term, column)]
        return bool(found.any())

    def _cells_of(self, predicate: str) -> Cells | None:
        if predicate in self._facts and predicate not in self._cells:
            rows = encode_rows(self._terms, predicate, self._facts[predicate])
            assert rows is not None
            self._cells[predicate] = rows
        return self._cells.get(predicate)
