"""The Python front door: `KnowledgeBase`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tidelog.errors import ArityError, DataError, TidelogError, UnknownRuleError
from tidelog.formats.batch import FactBatch
from tidelog.formats.tables import columns_of
from tidelog.language import (
    display_predicate,
    parse_atom,
    parse_program,
    parse_query,
    parse_rules,
    render,
    resolve_predicate,
)
from tidelog.language.checks import BUILTIN_FUNCTIONS, check_arities, check_query, check_rule
from tidelog.language.identity import rule_key
from tidelog.language.syntax import Atom, Constant, Program, Rule
from tidelog.reason.engine import Engine, Outcome, Request
from tidelog.reason.queries import run_query
from tidelog.reason.transaction import Limits
from tidelog.results import Answers, Change, Facts, FactSet
from tidelog.store.relation import Cells, Relation
from tidelog.values import Row

FactsByPredicate = Mapping[str, Any]


class KnowledgeBase:
    """Facts, rules and everything that follows from them, kept true through updates.

    `rules_text` may hold facts and rules. `maintenance` chooses the algorithm, `modules=False` turns the closure modules off,
    `max_facts` and `timeout` (in seconds) bound each update.
    """

    def __init__(
        self,
        rules_text: str = "",
        maintenance: str = "auto",
        modules: bool = True,
        max_facts: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._engine = Engine(maintenance, Limits(max_facts, timeout), self._functions)
        self._maintenance = maintenance
        self._modules = modules
        self._prefixes: dict[str, str] = {}
        self._arities: dict[str, int] = {}
        self._keys: dict[object, list[int]] = {}
        self._lock = threading.RLock()
        self._errors = 0
        if rules_text:
            self._load_program(rules_text)

    def _load_program(self, text: str) -> None:
        program = parse_program(text)
        before = dict(self._prefixes)
        self._prefixes.update(program.prefixes)
        try:
            self._run(_rows_of_atoms(program.facts), {}, program.rules, ())
        except BaseException:
            self._prefixes = before
            raise

    # --- updates --------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: FactsByPredicate | None = None,
        delete: FactsByPredicate | None = None,
        add_rules: str = "",
        remove_rules: str = "",
    ) -> Change:
        """Apply one update: deletions before additions, all or nothing."""
        with self._lock:
            program = self._parse_rules(add_rules)
            before = dict(self._prefixes)
            self._prefixes.update(program.prefixes)
            try:
                removed = parse_rules(remove_rules, self._prefixes) if remove_rules else ()
                return self._run(add or {}, delete or {}, program.rules, removed)
            except BaseException:
                self._prefixes = before
                raise

    def _parse_rules(self, text: str) -> Program:
        if not text:
            return Program()
        program = parse_program(text, "<rules>", self._prefixes)
        if program.facts or program.queries:
            parse_rules(text, self._prefixes)  # refuses facts and queries, and says where they stand
        return program

    def add_rules(self, text: str) -> Change:
        return self.update(add_rules=text)

    def remove_rules(self, text: str) -> Change:
        return self.update(remove_rules=text)

    def load(self, batches: Iterable[FactBatch]) -> Change:
        """Add the facts that a reader of `tidelog.formats` yields, in one update."""
        with self._lock:
            arities = dict(self._arities)
            rows: dict[str, list[Cells]] = {}
            for batch in batches:
                predicate = self._resolve(batch.predicate)
                known = arities.setdefault(predicate, len(batch.columns))
                if known != len(batch.columns):
                    raise ArityError(
                        f"{batch.source}:{batch.first_line}: {len(batch.columns)} values, but "
                        f"`{self._display(predicate)}` has {known} arguments"
                    )
                rows.setdefault(predicate, []).append(self._encode_columns(batch.columns))
            encoded = {predicate: np.concatenate(parts) for predicate, parts in rows.items()}
            return self._apply(Request(add=encoded), arities)

    def _run(
        self, add: FactsByPredicate, delete: FactsByPredicate, rules: tuple[Rule, ...], removed: tuple[Rule, ...]
    ) -> Change:
        for rule in rules:
            check_rule(rule, frozenset(self._functions), self._prefixes)
        arities = check_arities(rules, self._arities, self._prefixes)
        added_rows = self._encode(add, arities)
        deleted_rows = self._encode(delete, arities)
        numbers = self._numbers_of(removed)
        fresh = self._new_rules(rules, numbers)
        return self._apply(Request(deleted_rows, added_rows, tuple(numbers), fresh), arities)

    def _apply(self, request: Request, arities: dict[str, int]) -> Change:
        outcome = self._engine.update(request)
        self._arities = arities
        self._errors += outcome.errors
        if request.add_rules or request.remove_rules:
            self._keys = {}
            for number, rule in self._engine.graph.rules.items():
                self._keys.setdefault(rule_key(rule), []).append(number)
        return self._change(outcome)

    def _new_rules(self, rules: tuple[Rule, ...], removed: list[int]) -> tuple[Rule, ...]:
        """The rules that are not there yet: a rule said twice is one rule."""
        present = {key for key, numbers in self._keys.items() if not set(numbers) <= set(removed)}
        fresh: dict[object, Rule] = {}
        for rule in rules:
            key = rule_key(rule)
            if key not in present:
                fresh.setdefault(key, rule)
        return tuple(fresh.values())

    def _numbers_of(self, rules: tuple[Rule, ...]) -> list[int]:
        numbers: list[int] = []
        for rule in rules:
            found = self._keys.get(rule_key(rule))
            if not found:
                raise UnknownRuleError(
                    f"there is no rule `{render(rule, self._prefixes)}`; `kb.rules` lists those that there are"
                )
            numbers += [number for number in found if number not in numbers]
        return numbers

    def _change(self, outcome: Outcome) -> Change:
        added: dict[str, FactSet] = {}
        removed: dict[str, FactSet] = {}
        for predicate, delta in outcome.deltas.items():
            if predicate.startswith("#"):
                continue
            relation = self._engine.store.relation(predicate, 0)
            name = self._display(predicate)
            for target, facts in ((added, delta.added), (removed, delta.removed)):
                if len(facts):
                    target[name] = FactSet(self._engine.store.terms, relation.rows(facts))
        return Change(added, removed, outcome.work, outcome.errors)

    # --- encoding -------------------------------------------------------------------------------------------------------

    def _resolve(self, name: str) -> str:
        return resolve_predicate(name, self._prefixes)

    def _display(self, predicate: str) -> str:
        return display_predicate(predicate, self._prefixes)

    def _encode(self, facts: FactsByPredicate, arities: dict[str, int]) -> dict[str, Cells]:
        encoded: dict[str, Cells] = {}
        for name, rows in facts.items():
            predicate = self._resolve(name)
            cells = self._encode_rows(name, rows)
            if cells is None:
                continue
            known = arities.setdefault(predicate, cells.shape[1])
            if known != cells.shape[1]:
                raise ArityError(f"`{name}` has {known} arguments, but a row has {cells.shape[1]} values")
            encoded[predicate] = np.concatenate((encoded[predicate], cells)) if predicate in encoded else cells
        return encoded

    def _encode_rows(self, name: str, rows: Any) -> Cells | None:
        if isinstance(rows, FactSet):
            return rows._cells() if len(rows) else None
        if isinstance(rows, set | frozenset | list | tuple):
            return self._encode_tuples(name, list(rows))
        columns = columns_of(rows, name)
        return None if columns is None else self._encode_columns(columns)

    def _encode_tuples(self, name: str, rows: list[Any]) -> Cells | None:
        if not rows:
            return None
        if not all(isinstance(row, tuple | list) for row in rows):
            columns_of(rows, name)  # says which row is none
        arity = len(rows[0])
        if any(len(row) != arity for row in rows):
            columns_of(rows, name)  # says which row is longer or shorter
        cells = np.empty((len(rows), arity), np.int32)
        for column in range(arity):
            try:
                cells[:, column] = self._engine.store.terms.encode_values([row[column] for row in rows])
            except DataError as problem:
                raise DataError(f"`{name}`, value {column + 1}: {problem}") from None
        return cells

    def _encode_columns(self, columns: list[Any]) -> Cells:
        if not columns:
            return np.empty((1, 0), np.int32)
        terms = self._engine.store.terms
        return np.stack([terms.encode_arrow(column) for column in columns], axis=1)

    # --- reading --------------------------------------------------------------------------------------------------------

    @property
    def prefixes(self) -> Mapping[str, str]:
        return dict(self._prefixes)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts or that a rule mentions."""
        named = {name for name, relation in self._engine.store.named().items() if len(relation)}
        known = named | set(self._engine.graph.predicates)
        return sorted(self._display(name) for name in known if not name.startswith("#"))

    @property
    def explicit_predicates(self) -> list[str]:
        relations = self._engine.store.named().items()
        return [name for name, relation in relations if relation.explicit_count and not name.startswith("#")]

    @property
    def rules(self) -> list[str]:
        """The rules of the program, as text."""
        return [render(rule, self._prefixes) for rule in self._engine.graph.rules.values()]

    def facts(self, predicate: str) -> Facts:
        """The facts of a predicate, as they are whenever one looks."""
        return self._view(predicate, lambda relation: relation.live(), lambda relation: len(relation), explicit=False)

    def explicit(self, predicate: str) -> Facts:
        """Only the explicit facts of a predicate."""
        return self._view(
            predicate, self._engine.explicit_facts, lambda relation: relation.explicit_count, explicit=True
        )

    def _view(
        self,
        name: str,
        facts: Callable[[Relation], Cells],
        size: Callable[[Relation], int],
        explicit: bool,
    ) -> Facts:
        predicate = self._resolve(name)
        store = self._engine.store
        arity = self._arities.get(predicate, 0)

        def cells() -> Cells:
            relation = store.find(predicate)
            if relation is None:
                return np.empty((0, arity), np.int32)
            return relation.rows(facts(relation))

        def count() -> int:
            relation = store.find(predicate)
            return 0 if relation is None else size(relation)

        def has(row: Row) -> bool:
            return self._holds(predicate, row, explicit)

        return Facts(store.terms, arity, cells, count, has)

    def _holds(self, predicate: str, row: Row, explicit: bool = False) -> bool:
        if len(row) != self._arities.get(predicate, -1):
            return False
        try:
            cells = self._engine.store.terms.encode_values(list(row)) if row else np.empty(0, np.int32)
        except DataError:
            return False
        return self._engine.holds(predicate, cells, explicit)

    def __len__(self) -> int:
        relations = self._engine.store.named().items()
        return sum(len(relation) for name, relation in relations if not name.startswith("#"))

    def __contains__(self, fact: object) -> bool:
        if not isinstance(fact, str):
            return False
        atom = self._ground_atom(fact)
        return self._holds(atom.predicate, _row(atom))

    def _ground_atom(self, text: str) -> Atom:
        atom = parse_atom(text, self._prefixes)
        if not all(isinstance(term, Constant) for term in atom.arguments):
            raise TidelogError(f"`{text}` is no fact: it has variables")
        return atom

    def query(self, text: str) -> Answers:
        """The answers of a query over the materialisation."""
        with self._lock:
            query = parse_query(text, self._prefixes)
            check_query(query, frozenset(self._functions), self._prefixes)
            check_arities([query], self._arities, self._prefixes)
            names, cells = run_query(self._engine, query)
            return Answers(self._engine.store.terms, names, cells)

    # --- functions ------------------------------------------------------------------------------------------------------

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules and queries call a Python function by name. It must give the same result for the same arguments."""
        if name in BUILTIN_FUNCTIONS:
            raise TidelogError(f"`{name}` is a function of the language; choose another name")
        self._functions[name] = function
        self._engine.store.forget_function(name)


def _row(atom: Atom) -> Row:
    return tuple(term.value for term in atom.arguments if isinstance(term, Constant))


def _rows_of_atoms(atoms: Iterable[Atom]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for atom in atoms:
        rows.setdefault(atom.predicate, []).append(_row(atom))
    return rows


