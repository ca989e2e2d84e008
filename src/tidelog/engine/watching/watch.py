"""A watch: all queries of one shape, which differ in their constants alone, and how an update changes their answers.

What changes is found from the facts that changed, and nothing is kept but the constants that are asked for.

- A query of one atom, all of whose variables are answers, is a pattern: each changed row that fits is a change of its
  answers. Of the pairs of a large closure, only those from the wanted terms are listed.
- Any other query is a rule body. The constants lie in a relation of their own, which every match starts from or ends
  in: `#answers(C…, X…) :- #asked(C…), body`. The plans of delta rules find the matches that came and went. If some
  variables are no answers, one answer may have several matches; then each candidate is looked up, as Backward/Forward
  does: one that came must not have held before, and one that went must not hold now.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelog.engine.propagation.match_sets import HELD, HOLDING, Sets
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.answers import Key
from tidelog.engine.update.changed_matches import changed_matches
from tidelog.engine.update.deltas import Delta
from tidelog.engine.update.failures import NO_FAILURES, Failures, failures_of
from tidelog.engine.update.match_rows import matches
from tidelog.engine.update.rows import Rows
from tidelog.engine.update.runner import Runner
from tidelog.language.syntax import Atom, Query, Rule, Variable, body_atoms, variables
from tidelog.machine import flags as F
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import Pivot, Start, make_plan
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

# Up to this many rows, Python takes less time than NumPy takes to begin.
FEW_ROWS = 32

# Dead records of a relation of constants that are worth being closed up.
MANY_DEAD = 64

Changed = Mapping[Key, Rows]
"""The answers that came, or that went, by the query that they belong to."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What queries have in common that differ in their constants alone: `constants` are the variables in their place,
    and `answers` are those of the answers.
    """

    number: int
    query: Query
    constants: tuple[Variable, ...]
    answers: tuple[Variable, ...]

    @property
    def is_pattern(self) -> bool:
        """Whether it is one atom, each of whose arguments is a constant or an answer."""
        atoms = [item for item in self.query.body if isinstance(item, Atom)]
        if len(atoms) != 1 or len(self.query.body) != 1:
            return False
        return {*atoms[0].arguments} == {*self.constants, *self.answers}


class Watch(ABC):
    """The queries of one shape, by the terms of their constants."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.keys: set[Key] = set()

    @property
    def predicates(self) -> set[str]:
        """The predicates whose changes may change the answers."""
        return {atom.predicate for atom in body_atoms(self.shape.query)}

    def misfit(self, store: Store) -> Atom | None:
        """An atom that has not as many arguments as the facts of its predicate, of which nothing was known before."""
        for atom in body_atoms(self.shape.query):
            relation = store.find(atom.predicate)
            if relation is not None and relation.arity != atom.arity:
                return atom
        return None

    def ask(self, key: Key) -> None:
        """From now on, follow the query with these constants."""
        self.keys.add(key)

    def forget(self, key: Key) -> None:
        """Nobody asks this query any more."""
        self.keys.discard(key)

    @abstractmethod
    def retire(self) -> None:
        """Nobody asks any query of this shape any more."""

    @abstractmethod
    def changed(self, transaction: Transaction, new_runner: Callable[[], Runner]) -> tuple[Changed, Changed, Failures]:
        """The answers that went and those that came with an update that is about to be committed, and the matches that
        failed since an expression had no value.
        """


# --- one atom ---------------------------------------------------------------------------------------------------------


class Pattern(Watch):
    """A query of one atom, each of whose arguments is a constant or an answer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        (atom,) = body_atoms(shape.query)
        arguments = atom.arguments
        self._predicate = atom.predicate
        self._key_columns = [arguments.index(variable) for variable in shape.constants]
        self._answer_columns = [arguments.index(variable) for variable in shape.answers]
        # Columns that must hold the same, where a variable occurs twice.
        firsts = map(arguments.index, arguments)
        self._same = [(first, column) for column, first in enumerate(firsts) if first != column]
        self._is_whole = self._answer_columns == list(range(atom.arity))
        # A closure lists the pairs from some terms faster than those to them.
        self._first_key = int(np.argmin(self._key_columns)) if self._key_columns else None
        self._wanted: Cells | None = None  # the terms of the first key

    def ask(self, key: Key) -> None:
        super().ask(key)
        self._wanted = None

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._wanted = None

    def retire(self) -> None:
        """Nothing has been kept for it."""

    def changed(self, transaction: Transaction, new_runner: Callable[[], Runner]) -> tuple[Changed, Changed, Failures]:
        delta = transaction.deltas[self._predicate]
        return self._fitting(delta.gone), self._fitting(delta.come), NO_FAILURES

    def _fitting(self, rows: Rows) -> Changed:
        if rows.count == 0:
            return {}
        if self._is_whole:
            return {(): rows}  # They are read when somebody looks at them.
        if rows.count <= FEW_ROWS:
            return self._fitting_few(rows.read())
        return by_key(self._fitting_many(rows), len(self.shape.constants))

    def _fitting_few(self, cells: Cells) -> Changed:
        found: dict[Key, list[list[int]]] = {}
        for row in cells.tolist():
            key = tuple([row[column] for column in self._key_columns])
            if key in self.keys and all(row[first] == row[column] for first, column in self._same):
                found.setdefault(key, []).append([row[column] for column in self._answer_columns])
        width = len(self._answer_columns)
        return {key: Rows.of(np.array(listed, np.int32).reshape(len(listed), width)) for key, listed in found.items()}

    def _fitting_many(self, rows: Rows) -> Cells:
        """The constants and the answers of rows that may fit."""
        if self._first_key is None:
            cells = rows.read()
        else:
            if self._wanted is None:
                self._wanted = np.unique(np.array(list(self.keys), np.int32)[:, self._first_key])
            cells = rows.having(self._key_columns[self._first_key], self._wanted)
        for first, column in self._same:
            cells = cells[cells[:, first] == cells[:, column]]
        return cells[:, self._key_columns + self._answer_columns]


# --- any other query --------------------------------------------------------------------------------------------------


class Join(Watch):
    """A query of any other shape."""

    def __init__(self, shape: Shape, store: Store) -> None:
        super().__init__(shape)
        self._store = store
        self._asked = store.relation(f"#asked {shape.number}", len(shape.constants))
        self._dead = 0
        self._head = shape.constants + shape.answers
        head, asked = Atom("#answers", self._head), Atom(self._asked.name, shape.constants)
        self._rule = normalise(Rule(head, (asked, *shape.query.body)))
        matched = {variable for atom in self._rule.positives for variable in variables(atom)}
        self._is_exact = matched <= set(self._head)  # Each answer has one match.

    # --- the constants ---

    def ask(self, key: Key) -> None:
        super().ask(key)
        self._asked.load(_row(key), F.IN | F.OLD)
        self._set_flags(key, F.IN | F.OLD)  # It may have been asked before.

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._set_flags(key, 0)
        self._asked.mark_unclean()
        self._dead += 1
        if self._dead > max(MANY_DEAD, len(self.keys)):
            self._asked.compact()
            self._dead = 0

    def _set_flags(self, key: Key, flags: int) -> None:
        fact = int(self._store.find_facts(self._asked, _row(key))[0])
        self._asked.cells[fact, self._asked.flags_column] = flags

    def retire(self) -> None:
        self._store.retire(self._asked)

    # --- the answers ---

    def changed(self, transaction: Transaction, new_runner: Callable[[], Runner]) -> tuple[Changed, Changed, Failures]:
        transaction.list_changes([self._rule])
        runner = new_runner()
        runner.computes = self._rule.computes
        with self._store.borrowed():
            gone, come = self._candidates(runner, transaction.deltas)
        if not self._is_exact:
            gone, come = self._without(runner, gone, HOLDING), self._without(runner, come, HELD)
        width = len(self.shape.constants)
        return by_key(gone, width), by_key(come, width), failures_of(self._store, str)

    def _candidates(self, runner: Runner, deltas: Mapping[str, Delta]) -> Iterator[Cells]:
        """The heads of matches that went, and of those that came, each once."""
        offsets: dict[Pivot, int] = {}

        def offset(pivot: Pivot) -> int:
            if pivot not in offsets:
                offsets[pivot] = self._assembled(self._rule, pivot)
            return offsets[pivot]

        changed = changed_matches(runner, deltas, self._rule, offset, len(self._head))
        return (np.unique(rows, axis=0) if len(rows) > 1 and rows.shape[1] else rows[:1] for rows in changed)

    def _without(self, runner: Runner, rows: Cells, sets: Sets) -> Cells:
        """Those of the candidates that have no match in other sets."""
        if not len(rows):
            return rows
        store, width = self._store, len(self._head)
        with store.borrowed():
            candidates = store.relation("#candidates", width)
            candidates.load(rows, F.IN | F.OLD)
            rule = replace(self._rule, positives=(Atom(candidates.name, self._head), *self._rule.positives))
            plan = self._assembled(rule, Pivot(Start.POSITIVE, 0))
            found = matches(runner, sets, plan, width, np.arange(len(rows), dtype=np.int32), firsts=True)
            kept = np.ones(len(rows), np.bool_)
            kept[store.find_facts(candidates, found)] = False
        return rows[kept]

    def _assembled(self, rule: NormalRule, pivot: Pivot) -> int:
        return self._store.assemble(make_plan(rule, pivot, (), self._store.estimate), None, self._head, 0)


def _row(key: Key) -> Cells:
    return np.array([key], np.int32).reshape(1, len(key))


def by_key(rows: Cells, width: int) -> Changed:
    """Rows by their first cells, without these."""
    if not len(rows):
        return {}
    if not width:
        return {(): Rows.of(rows)}
    if len(rows) <= FEW_ROWS:
        listed: dict[Key, list[int]] = {}
        for place, key in enumerate(map(tuple, rows[:, :width].tolist())):
            listed.setdefault(key, []).append(place)
        return {key: Rows.of(rows[places, width:]) for key, places in listed.items()}
    rows = rows[np.lexsort(rows[:, :width].T[::-1])]
    borders = np.flatnonzero((rows[1:, :width] != rows[:-1, :width]).any(axis=1)) + 1
    return {tuple(part[0, :width].tolist()): Rows.of(part[:, width:]) for part in np.split(rows, borders)}
