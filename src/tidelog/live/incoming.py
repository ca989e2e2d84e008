"""Updates on their way in: texts are parsed, rules checked and facts encoded before the engine sees any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Request
from tidelog.facts.arguments import checked_facts, checked_text, is_mapping
from tidelog.facts.encoding import LoadedRows, check_arity, encode_columns, encode_rows, in_time
from tidelog.facts.reading import names_in_use
from tidelog.language import syntax_named
from tidelog.language.parse_messages import told_of
from tidelog.language.parser import parse_changes
from tidelog.language.syntax import Program
from tidelog.live.expiring.timing import Timing
from tidelog.live.update_checks import UpdateChecks
from tidelog.program.catalogue import Catalogue, NamesInUse, RuleUpdate
from tidelog.runtime.knowledge_lock import KnowledgeLock
from tidelog.runtime.signals import interruptible
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.formats.batch import FactBatch

FactsByPredicate = Mapping[str, Any]
GivenFacts = FactsByPredicate | str | None
"""The facts of an update: rows by predicate, or a text in the language."""

NO_PROGRAM = Program()


class Incoming:
    """Turns updates, as they are given, into requests to the engine and what they do to the catalogue. The caller has
    the lock.
    """

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        lock: KnowledgeLock,
        functions: Mapping[str, Callable[..., Any]],
        checks: UpdateChecks,
        timing: Timing,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._lock = lock
        self._functions = functions
        self._checks = checks
        self._timing = timing

    def read(
        self, add: GivenFacts, delete: GivenFacts, add_rules: str, remove_rules: str, syntax: str
    ) -> tuple[Request, RuleUpdate]:
        """An update, checked and encoded. Its prefixes are declared: the caller may have to forget them again."""
        text, removing = checked_text(add_rules, "add_rules"), checked_text(remove_rules, "remove_rules")
        syntax_named(syntax)  # refuses an unknown one
        with self.reading(None if text or removing else predicates_of(add, delete), partial(self._lock.pause, True)):
            return self._read(add, delete, text, removing, syntax)

    def _read(
        self, add: GivenFacts, delete: GivenFacts, text: str, removing: str, syntax: str
    ) -> tuple[Request, RuleUpdate]:
        if not text and not removing:  # as most updates are
            return self.check(self._given(add, "add"), self._given(delete, "delete"), NO_PROGRAM, NO_PROGRAM)
        catalogue, functions = self._catalogue, self._functions
        program = interruptible(catalogue.parse_added, text, self._names, syntax, functions) if text else NO_PROGRAM
        catalogue.declare(program.prefixes)
        known = catalogue.names(functions)
        gone = parse_changes(removing, catalogue.prefixes, syntax=syntax, names=known) if removing else NO_PROGRAM
        added, deleted = self._given(add, "add"), self._given(delete, "delete")
        with told_of(text if program.rules or program.expiries else removing, "<rules>"):
            return self.check(added, deleted, program, gone)

    def _names(self) -> NamesInUse:
        return names_in_use(self._engine, self._catalogue.declared)

    def _given(self, facts: object, part: str) -> FactsByPredicate:
        """The facts of an update, as rows by predicate or as a text; the prefixes of a text are declared."""
        if not isinstance(facts, str):
            return checked_facts(facts, part)
        program = interruptible(self._catalogue.parse_facts, facts, part, self._names)
        self._catalogue.declare(program.prefixes)
        return program.rows

    def check(
        self, add: FactsByPredicate, delete: FactsByPredicate, program: Program, removed: Program
    ) -> tuple[Request, RuleUpdate]:
        """What an update asks for, and what it does to the catalogue. Of the program, the rules and declarations count;
        its facts are in `add`. Of what is removed, the rules and what no longer expires count.
        """
        if program is NO_PROGRAM and removed is NO_PROGRAM:
            update = RuleUpdate(dict(self._catalogue.arities))
        else:
            functions, expiries = self._functions.keys(), (program.expiries, removed.expiries)
            update = self._catalogue.check(program.rules, removed.rules, functions, program.predicates, *expiries)
            self._timing.check(update)
        for rule in program.rules:
            self._checks.warn_of_cross_product(rule)
        for name in add:
            self._checks.refuse_facts_of_function(self._catalogue.resolve(name), program.rules)
        added_rows = self.encode(add, update.arities)
        deleted_rows = self.encode(delete, update.arities)
        return Request(deleted_rows, added_rows, tuple(update.removed), tuple(update.added.values())), update

    def load(self, batches: Iterable[FactBatch]) -> tuple[Request, RuleUpdate]:
        """The facts that a reader yields, as one update. Limits hold while they are read."""
        catalogue, checks = self._catalogue, self._checks
        update = RuleUpdate(dict(catalogue.arities))
        rows = LoadedRows(self._engine)
        watched = _interruptible(self._lock.watched(batches))
        pause = partial(self._lock.pause, True)
        with self.reading(None, pause):
            for batch in in_time(watched, self._engine.limits.timeout):
                predicate = catalogue.resolve(batch.predicate)
                checks.refuse_facts_of_function(predicate)
                checks.check_columns(batch, predicate, update.arities)
                encoded = encode_columns(self._engine.store.terms, batch.columns)
                checks.check_batch(batch, predicate, encoded)
                rows.take(predicate, encoded, f"{batch.source} from line {batch.first_line} on")
                pause()
        return Request(add=rows.all()), update

    def encode(self, facts: FactsByPredicate, arities: dict[str, int]) -> dict[str, Cells]:
        """Facts as rows of terms by predicate. What is learned about arities is added to `arities`."""
        encoded: dict[str, Cells] = {}
        for name, rows in facts.items():
            if encoded:
                self._engine.store.terms.between_blocks()
            predicate, cells = self._catalogue.resolve(name), self._encode_rows(name, rows)
            if cells is None:
                continue
            check_arity(arities, predicate, name, cells)
            encoded[predicate] = np.concatenate((encoded[predicate], cells)) if predicate in encoded else cells
        return encoded

    def _encode_rows(self, name: str, rows: Any) -> Cells | None:
        if not isinstance(rows, list) and isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
            rows = interruptible(list, self._lock.watched(rows))  # The iterator may wait for other threads.
        return encode_rows(self._engine.store.terms, name, rows)

    def reading(self, names: Iterable[object] | None, between_blocks: Callable[[], None]) -> Reading:
        """A context in which the facts of an update are read: of these predicates, or nobody knows of which."""
        resolve = self._catalogue.resolve
        predicates = None if names is None else [resolve(name) for name in names if isinstance(name, str)]
        return Reading(self._engine, predicates, between_blocks)


class Reading:
    """A context in which the facts of an update are read, in blocks. Between two of them others may come in; what has
    been read stays. It is not a generator, since every update enters it.
    """

    __slots__ = ("_before", "_between_blocks", "_engine", "_predicates")

    def __init__(self, engine: Engine, predicates: list[str] | None, between_blocks: Callable[[], None]) -> None:
        self._engine = engine
        self._predicates = predicates
        self._between_blocks = between_blocks

    def __enter__(self) -> None:
        terms = self._engine.store.terms
        self._before, terms.between_blocks = terms.between_blocks, self._between_blocks
        self._engine.coming.append(self._predicates)

    def __exit__(self, *_: object) -> None:
        self._engine.coming.pop()
        self._engine.store.terms.between_blocks = self._before


def predicates_of(*parts: GivenFacts) -> list[object] | None:
    """The predicates whose facts an update names; None where a text may name any."""
    if any(isinstance(facts, str) for facts in parts):
        return None
    return [name for facts in parts if is_mapping(facts) for name in facts]


def _interruptible(batches: Iterable[FactBatch]) -> Iterator[FactBatch]:
    """The batches of a reader. Signals may interrupt it: files can be long."""
    reader = iter(batches)
    while (batch := interruptible(next, reader, None)) is not None:
        yield batch
