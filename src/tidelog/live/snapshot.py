"""A settled state of a knowledge base in flux, to read from while updates go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tidelog.engine.update.rows import NO_ROWS, Rows
from tidelog.facts.reading import Reader
from tidelog.facts.results import Answers, FactSet
from tidelog.language import display_predicate, resolve_predicate
from tidelog.live.knowledge import Knowledge
from tidelog.runtime.knowledge_lock import unguarded
from tidelog.runtime.thread_locks import ThreadLock

Functions = Mapping[str, Callable[..., Any]]


class Questioned(Protocol):
    """What answers questions: a knowledge base."""

    def query(self, text: str) -> Answers: ...

    def __contains__(self, fact: object) -> bool: ...


MakeCopy = Callable[[Mapping[str, FactSet], Mapping[str, str], Functions], Questioned]
"""Makes a knowledge base of facts, prefixes and functions."""


class Snapshot:
    """All facts as they were after a number of updates."""

    def __init__(self, knowledge: Knowledge, make_copy: MakeCopy, updates: int) -> None:
        """Copy what holds now; the caller has the lock."""
        self._terms = knowledge.engine.store.terms.table
        self._facts = _all_facts(knowledge)
        self._prefixes = knowledge.catalogue.prefixes
        self._functions = {name: unguarded(function) for name, function in knowledge.functions.items()}
        self._make_copy = make_copy
        self._updates = updates
        self._copying = ThreadLock()
        self._copied: Questioned | None = None

    @property
    def updates(self) -> int:
        """The number of the last submitted update that it includes; it includes all before it, and none after it."""
        return self._updates

    @property
    def predicates(self) -> list[str]:
        return sorted(display_predicate(name, self._prefixes) for name, rows in self._facts.items() if len(rows))

    def facts(self, predicate: str) -> FactSet:
        """The facts of a predicate."""
        found = self._facts.get(resolve_predicate(predicate, self._prefixes))
        return found if found is not None else FactSet(self._terms, NO_ROWS)

    def query(self, text: str) -> Answers:
        """The answers of a query. The first one copies the facts into a knowledge base of their own."""
        return self._copy().query(text)

    def __contains__(self, fact: object) -> bool:
        if not isinstance(fact, str):
            return False
        return fact in self._copy()

    def __len__(self) -> int:
        return sum(map(len, self._facts.values()))

    def _copy(self) -> Questioned:
        """The facts in a knowledge base of their own, made once; but a signal handler that asks while it is being made
        makes another one.
        """
        with self._copying.mutex:
            if self._copied is None:
                self._copied = self._make_copy(self._facts, self._prefixes, self._functions)
            return self._copied


def _all_facts(knowledge: Knowledge) -> dict[str, FactSet]:
    reader, catalogue = Reader(knowledge.engine, knowledge.catalogue), knowledge.catalogue
    facts = {}
    for name in map(catalogue.resolve, reader.predicates()):
        cells, terms = reader.rows(name)
        facts[name] = FactSet(terms, Rows.of(cells))
    return facts
