"""Looking ahead in a stream: the updates after the one in work are read as soon as they are there, and what they delete
is marked (Backward/Forward with Marking, Algorithm 1, lines 5 to 9; `engine.marking`).

The facts of an update are read under the names that hold now, so nothing is read from beyond an update that may declare
a prefix: names could mean something else by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tidelog.engine.marking.marking import Place
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import EncodedFacts, Request
from tidelog.engine.update.runner import BUDGET, CLOSED
from tidelog.errors import DataError
from tidelog.facts.arguments import checked_time
from tidelog.live.knowledge import Knowledge
from tidelog.live.update_sources import KEYS, UpdateMapping
from tidelog.machine.flags import MOST_AHEAD
from tidelog.store.term_table import TermTable

Peek = Callable[[int], UpdateMapping | None]
"""The update so many places after the next one, if it is already there. Never waits."""

NOT_READ = Request()
RULES = ("add_rules", "remove_rules")


@dataclass(frozen=True, slots=True)
class Seen:
    """An update to come, as far as it could be read ahead."""

    update: UpdateMapping
    facts: Request  # what it deletes and adds
    is_whole: bool  # whether that is all of it
    terms: TermTable  # that the facts are encoded by


class LookAhead:
    """Observes the updates of a stream: each time, it looks for those that follow, up to `most` of them."""

    budget = BUDGET
    streams = True
    window = CLOSED

    def __init__(self, knowledge: Knowledge, peek: Peek, most: int) -> None:
        self._knowledge = knowledge
        self._peek = peek
        self.most = min(most, MOST_AHEAD)
        self._stream = object()
        self._number = 0
        self._seen: deque[Seen] = deque()

    @property
    def place(self) -> Place | None:
        return Place(self._stream, self._number) if self.most else None

    def take(self, update: UpdateMapping) -> Request | None:
        """An update begins; what it asks for, if all of it was read before and is still valid."""
        self._number += 1
        seen = self._seen.popleft() if self._seen else None
        return seen.facts if seen is not None and seen.is_whole and self._is_valid(seen, update) else None

    def forget(self) -> None:
        """An update has failed: prefixes are as before it, and names may mean something else again."""
        self._seen.clear()

    def ahead(self) -> EncodedFacts:
        return self._seen[0].facts.delete if self._seen else {}

    def observe(self, transaction: Transaction) -> None:
        marking = transaction.marking
        while marking.looked < self.most:
            update = self._peek(marking.looked)
            if update is None or _may_declare(update):
                return
            facts = self._at(marking.looked, update).facts
            delete = self._with_expiring(update, facts)
            marking.look(delete, facts.add, self._knowledge.engine.explicit_relation)

    def _with_expiring(self, update: UpdateMapping, facts: Request) -> EncodedFacts:
        """What an update will delete, and what will have expired when it comes."""
        keeper = self._knowledge.timing.keeper
        if keeper is None or facts is NOT_READ:
            return facts.delete
        try:
            at = update.get("at")
            expiring = keeper.expiring(None if at is None else checked_time(at), facts.add)
        except DataError:  # It is refused in its own place.
            return facts.delete
        both = ((name, facts.delete.get(name), expiring.get(name)) for name in {**facts.delete, **expiring})
        return {name: np.concatenate([rows for rows in parts if rows is not None]) for name, *parts in both}

    def between_pieces(self, passable: bool = False) -> None:
        """Other updates can wait until the records in which their facts are to be marked are in order."""

    def _at(self, place: int, update: UpdateMapping) -> Seen:
        """The update so many places after the next one; it is read if it was not, or is no longer valid."""
        if place < len(self._seen) and not self._is_valid(self._seen[place], update):
            while len(self._seen) > place:
                self._seen.pop()
        if place == len(self._seen):
            self._seen.append(self._read(update))
        return self._seen[place]

    def _is_valid(self, seen: Seen, update: UpdateMapping) -> bool:
        return seen.update is update and seen.terms is self._knowledge.engine.store.terms.table

    def _read(self, update: UpdateMapping) -> Seen:
        """Nothing is read of a bad update, which is refused in its own place, or of one whose rows can be read only
        once.
        """
        try:
            facts = Request(self._encoded(update, "delete"), self._encoded(update, "add"))
            is_whole = not any(update.get(key) for key in RULES)
        except Exception:  # Rows may raise anything.
            facts, is_whole = NOT_READ, False
        return Seen(update, facts, is_whole, self._knowledge.engine.store.terms.table)

    def _encoded(self, update: UpdateMapping, part: str) -> EncodedFacts:
        if any(key not in KEYS for key in update):
            raise TypeError("not an update")
        facts = update.get(part) or {}
        for name, rows in facts.items():
            if not hasattr(rows, "__len__"):
                raise TypeError(f"the rows of `{name}` can be read only once")
        return self._knowledge.incoming.encode(facts, dict(self._knowledge.catalogue.arities))


def _may_declare(update: object) -> bool:
    """Whether a text of an update may declare a prefix."""
    if not isinstance(update, Mapping):
        return False
    return any(isinstance(part, str) and "prefix" in part.lower() for part in update.values())
