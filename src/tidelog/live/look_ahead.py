"""Looking one update ahead while an update is applied: Backward/Forward with Marking, Algorithm 1, lines 5 to 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.engine.transaction.observer import Observer
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts, Request
from tidelog.engine.update.runner import BUDGET, CLOSED
from tidelog.errors import DataError
from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge
from tidelog.live.update_sources import UpdateMapping
from tidelog.store.term_table import TermTable

KEYS = ("add", "delete", "add_rules", "remove_rules", "commit")

Peek = Callable[[], UpdateMapping | None]


class LookAhead:
    """Observes one update: looks for the next one until it is there, then marks what that one deletes."""

    budget = BUDGET
    streams = True
    window = CLOSED

    def __init__(self, knowledge: Knowledge, peek: Peek) -> None:
        self._knowledge = knowledge
        self._peek = peek
        self._seen: object = None
        self._ready: Request | None = None
        self._terms: TermTable | None = None  # that `_ready` is encoded by

    def observe(self, transaction: Transaction) -> None:
        if self._seen is not None:
            return
        update = self._peek()
        if update is not None:
            engine = self._knowledge.engine
            self._seen = update
            self._ready = self._encode(update)
            self._terms = engine.store.terms.table
            if self._ready is not None:
                transaction.marking.look(self._ready.delete, self._ready.add, engine.explicit_relation)

    def between_pieces(self) -> None:
        """The next update can wait until the records in which its facts are to be marked are in order."""

    def _encode(self, update: object) -> Request | None:
        """What an update deletes and adds. None for a bad update, which is refused in its own place, for one whose rows
        can be read only once, and for one with rules, whose prefixes may give names another meaning.
        """
        if not isinstance(update, Mapping):
            return None
        for key, part in update.items():
            if key not in KEYS or (part and key in ("add_rules", "remove_rules")):
                return None
        arities = dict(self._knowledge.catalogue.arities)
        try:
            return Request(
                self._encode_facts(update.get("delete"), arities), self._encode_facts(update.get("add"), arities)
            )
        except Exception:  # Rows may raise anything.
            return None

    def _encode_facts(self, facts: Mapping[str, Any] | None, arities: dict[str, int]) -> EncodedFacts:
        if not facts:
            return {}
        for name, rows in facts.items():
            if not hasattr(rows, "__len__"):
                raise TypeError(f"the rows of `{name}` can be read only once")
        return self._knowledge.encode(facts, arities)

    def ready(self, update: UpdateMapping) -> Request | None:
        """The facts of the next update, now that it is taken, if they were looked at and are still valid."""
        valid = update is self._seen and self._terms is self._knowledge.engine.store.terms.table
        return self._ready if valid else None


def apply_observed(
    knowledge: Knowledge, update: UpdateMapping, observer: Observer | None, before: LookAhead | None = None
) -> Change:
    """Apply an update with an observer. One that was looked at `before` is not checked and read again."""
    with knowledge.lock.reserved():
        ready = None if before is None else before.ready(update)
        with knowledge.observed(observer):
            if ready is None:
                return knowledge.update(**check_update(update))
            return knowledge.update_encoded(ready, update.get("commit"))


def check_update(update: object) -> UpdateMapping:
    """An update as it was given, if it is one."""
    if not isinstance(update, Mapping):
        raise DataError(f"an update is a mapping with any of the keys {', '.join(KEYS)}, not {update!r}")
    unknown = [key for key in update if key not in KEYS]
    if unknown:
        raise DataError(f"an update has no `{unknown[0]}`; its keys are {', '.join(KEYS)}")
    return update
