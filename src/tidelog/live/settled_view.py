"""A settled state of a knowledge base in flux, to read from while updates go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.engine.rows import NO_ROWS, Rows
from tidelog.facts.results import Answers, FactSet
from tidelog.language import display_predicate, resolve_predicate
from tidelog.runtime.base_lock import unguarded
from tidelog.runtime.thread_locks import ThreadLock

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase


class Snapshot:
    """All facts as they were after a number of updates."""

    def __init__(self, origin: KnowledgeBase, facts: Mapping[str, FactSet], updates: int) -> None:
        self._origin = origin
        self._facts = facts
        self._prefixes = dict(origin.prefixes)
        self._functions = {name: unguarded(function) for name, function in origin._functions.items()}
        self._updates = updates
        self._copying = ThreadLock()
        self._queried: KnowledgeBase | None = None

    @classmethod
    def of(cls, kb: KnowledgeBase, updates: int) -> Snapshot:
        """Copy what holds now; the caller holds the lock."""
        facts = {}
        for name in kb.predicates:
            cells, terms = kb.facts(name)._encoded()
            facts[kb._catalogue.resolve(name)] = FactSet(terms, Rows.of(cells))
        return cls(kb, facts, updates)

    @property
    def updates(self) -> int:
        """The number of the last submitted update that is in it; all before it are in it as well, none after it is."""
        return self._updates

    @property
    def predicates(self) -> list[str]:
        return sorted(display_predicate(name, self._prefixes) for name, rows in self._facts.items() if len(rows))

    def facts(self, predicate: str) -> FactSet:
        """The facts of a predicate."""
        found = self._facts.get(resolve_predicate(predicate, self._prefixes))
        return found if found is not None else FactSet(self._origin._engine.store.terms.table, NO_ROWS)

    def query(self, text: str) -> Answers:
        """The answers of a query. The first one copies the facts into a knowledge base of their own."""
        return self._copy().query(text)

    def __contains__(self, fact: object) -> bool:
        if not isinstance(fact, str):
            return False
        return fact in self._copy()

    def __len__(self) -> int:
        return sum(map(len, self._facts.values()))

    def _copy(self) -> KnowledgeBase:
        """The facts in a knowledge base of their own, made once; but a handler that asks in the middle of that makes
        another one.
        """
        with self._copying.mutex:
            if self._queried is None:
                copied = type(self._origin)()
                copied._catalogue.prefixes = self._prefixes
                for name, function in self._functions.items():
                    copied.register(name, function)
                copied.update(add={name: rows.to_arrow() for name, rows in self._facts.items() if len(rows)})
                self._queried = copied
            return self._queried
