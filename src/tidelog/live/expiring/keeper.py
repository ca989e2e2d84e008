"""The time keeper: it turns an update, and the time at which it comes, into one that also deletes what has expired.

The state of time is in hidden facts (`lifetimes`). What is known of it beside them is found again at any time
(`timed_facts`). An update is prepared first (`preparation`) and noted once it is committed, so one that fails, or is
only asked about, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import EncodedFacts, Request
from tidelog.facts.reading import Reader
from tidelog.language.syntax import Rule
from tidelog.live.expiring.lifetimes import check_expiries, check_windows, lifetimes_of
from tidelog.live.expiring.preparation import Preparation
from tidelog.live.expiring.timed_facts import Known, TimedFacts
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.store.relation_parts import Cells


class TimeKeeper:
    """The time of a knowledge base, and what it does to its facts. The caller has the lock."""

    def __init__(self, engine: Engine, reader: Reader, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._facts = TimedFacts(engine, reader, catalogue)
        self._known: Known | None = None
        self._terms = engine.store.terms.table

    @property
    def known(self) -> Known:
        """Rows of what is gone may name terms that mean something else by now; then, all is found again."""
        if self._known is None or self._terms is not self._engine.store.terms.table:
            self._known, self._terms = self._facts.known(), self._engine.store.terms.table
        return self._known

    def forget(self) -> None:
        """Facts or rules have changed in another way."""
        self._known = None

    def check(self, update: RuleUpdate) -> None:
        """Refuse an update of rules, and of what expires, that does not go together."""
        check_expiries(self.known.expiries, update.expires_no_longer, update.expires)
        if update.added:
            check_windows(self._rules_after(update.added.values(), update.removed))

    def _rules_after(self, added: Iterable[Rule], removed: Iterable[int]) -> list[Rule]:
        without = set(removed)
        return [*(rule for number, rule in self._engine.graph.rules.items() if number not in without), *added]

    def prepare(self, request: Request, update: RuleUpdate, at: int | None) -> Preparation:
        """What an update becomes that comes at a time, or at any time that its facts say."""
        known, after = self.known, self.known.lifetimes
        if request.add_rules or request.remove_rules or update.expires or update.expires_no_longer:
            expiries = check_expiries(known.expiries, update.expires_no_longer, update.expires)
            after = lifetimes_of(expiries.values(), self._rules_after(request.add_rules, request.remove_rules))
        preparation = Preparation(self._facts, known, request, after, update.arities)
        preparation.declare(update.expires_no_longer, update.expires)
        preparation.pass_time(at)
        preparation.let_expire()
        preparation.finish()
        return preparation

    def committed(self, preparation: Preparation) -> None:
        """The update has been made."""
        if preparation.begins_anew or self._terms is not self._engine.store.terms.table:
            self._known = None
        else:
            preparation.note(self.known)

    def expiring(self, at: int | None, add: EncodedFacts) -> dict[str, Cells]:
        """What will expire with an update that comes at a time, as far as that is known."""
        known = self.known
        preparation = Preparation(self._facts, known, Request(add=add), known.lifetimes, self._catalogue.arities)
        preparation.pass_time(at)
        return preparation.due()
