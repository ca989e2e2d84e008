"""The Python front door: `KnowledgeBase`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

import numpy as np

from tidelog.api.statistics import ListedRule, RuleStatistics, rule_statistics
from tidelog.engine.engine import Engine
from tidelog.engine.explicit import explicit_rows
from tidelog.engine.outcome import Outcome, Request
from tidelog.engine.queries import run_query
from tidelog.engine.reclaiming import PassingTerms
from tidelog.engine.runner import Limits
from tidelog.errors import (
    ArityError,
    BrokenError,
    CrossProductWarning,
    DataError,
    TidelogError,
    warn,
)
from tidelog.facts.arguments import check_function, check_limits, checked_commit, checked_facts, checked_text
from tidelog.facts.encoding import check_arities_of, check_arity, encode_columns, encode_rows
from tidelog.facts.loading import Deadline, LoadedRows
from tidelog.facts.names import names_in_use
from tidelog.facts.results import Answers, Change, Encoded, Facts, FactSet
from tidelog.formats.batch import FactBatch
from tidelog.formats.display import MOST_ROWS, counted, html_table, more_text, rich_table
from tidelog.language import (
    parse_atom,
    parse_program,
    parse_query,
    parse_rules,
    render,
)
from tidelog.language.checks import (
    MOST_ARGUMENTS,
    check_arities,
    check_query,
    foreign_functions,
    too_many_arguments,
)
from tidelog.language.syntax import Atom, Constant, Program, Rule
from tidelog.live.fully_dynamic import Live
from tidelog.live.streams import AsyncStream, Stream, open_stream
from tidelog.live.update_sources import UpdateMapping
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.program.normal_form import unjoined_atoms
from tidelog.runtime.base_lock import SettledLock
from tidelog.runtime.signals import interruptible
from tidelog.storage.journal_record import Record
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.values import Row

if TYPE_CHECKING:
    from tidelog.closures.readable import ReadableClosure
    from tidelog.explain.explainer import Explainer
    from tidelog.explain.proof import Proof
    from tidelog.storage.home import Home

FactsByPredicate = Mapping[str, Any]

NO_PROGRAM = Program()


class KnowledgeBase:
    """Facts, rules and everything that follows from them, kept true through updates.

    `rules_text` may hold facts and rules. `maintenance` chooses the algorithm, `modules=False` turns the closure
    modules off, `max_facts` and `timeout` (in seconds) bound each update.
    """

    def __init__(
        self,
        rules_text: str = "",
        maintenance: str = "auto",
        modules: bool = True,
        max_facts: int | None = None,
        timeout: float | None = None,
    ) -> None:
        check_limits(max_facts, timeout)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._engine = Engine(maintenance, Limits(max_facts, timeout), self._functions, modules)
        self._maintenance = maintenance
        self._modules = modules
        self._catalogue = Catalogue()
        self._lock = SettledLock(self._engine.store.readers)
        self._errors = 0
        self._commit: Mapping[str, str] = {}
        self._explains: Explainer | None = None
        self._home: Home | None = None
        if checked_text(rules_text, "rules_text"):
            self._load_program(rules_text)

    def _load_program(self, text: str) -> None:
        program = parse_program(text)
        self._catalogue.declare(program.prefixes)
        with self._lock.working():
            self._run(program.rows, {}, program.rules, ())

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: FactsByPredicate | None = None,
        delete: FactsByPredicate | None = None,
        add_rules: str = "",
        remove_rules: str = "",
        commit: Mapping[str, str] | None = None,
    ) -> Change:
        """Apply one update: deletions before additions, all or nothing.

        `commit` is a note of texts that becomes durable in the same step as the update: `commit_info`.
        """
        with self._lock.working(), self._terms_if_it_succeeds():
            self._engine.reclaim_terms()  # Here too, since updates that fail may get no further.
            added, deleted = checked_facts(add, "add"), checked_facts(delete, "delete")
            program = interruptible(self._parse_added, checked_text(add_rules, "add_rules"))
            catalogue, before = self._catalogue, self._catalogue.prefixes
            catalogue.declare(program.prefixes)
            try:
                removing = checked_text(remove_rules, "remove_rules")
                removed = parse_rules(removing, catalogue.prefixes) if removing else ()
                return self._run(added, deleted, program.rules, removed, checked_commit(commit))
            except BaseException:
                catalogue.prefixes = before
                raise

    def _update_facts(self, request: Request, commit: Mapping[str, str] | None = None) -> Change:
        """The same for facts that are encoded already; the caller has the lock."""
        with self._lock.working():
            update = RuleUpdate(dict(self._catalogue.arities))
            check_arities_of((request.add, request.delete), update.arities)
            return self._apply(request, update, checked_commit(commit))

    def _parse_added(self, text: str) -> Program:
        return self._catalogue.parse_added(text, partial(names_in_use, self._engine)) if text else NO_PROGRAM

    @overload
    def stream(self, updates: AsyncIterable[UpdateMapping], marking: bool = True) -> AsyncStream: ...

    @overload
    def stream(self, updates: Iterable[UpdateMapping] | Queue[Any], marking: bool = True) -> Stream: ...

    def stream(self, updates: Any, marking: bool = True) -> Stream | AsyncStream:
        """The change of each update, in order, as soon as it is done.

        `updates` is any iterable of mappings such as `update` takes, an asynchronous one (then so is the result), or a
        queue that `None` ends. With `marking` the next update is looked at while the current one is in work.
        """
        return open_stream(self, updates, marking)

    def live(self, backlog: int | None = None, when_full: str = "wait") -> Live:
        """Take updates in while earlier ones are still in work; see `tidelog.live.fully_dynamic.Live`."""
        return Live(self, backlog, when_full)

    def add_rules(self, text: str) -> Change:
        return self.update(add_rules=text)

    def remove_rules(self, text: str) -> Change:
        return self.update(remove_rules=text)

    def load(self, batches: Iterable[FactBatch]) -> Change:
        """Add the facts that a reader of `tidelog.formats` yields, in one update. Limits hold while they are read."""
        with self._lock.working(), self._terms_if_it_succeeds():
            self._engine.reclaim_terms()
            update = RuleUpdate(dict(self._catalogue.arities))
            rows = LoadedRows(self._engine)
            watched = _interruptible(self._lock.watched(batches))
            for batch in Deadline(self._engine.limits.timeout).watched(watched):
                predicate = self._catalogue.resolve(batch.predicate)
                known = update.arities.setdefault(predicate, len(batch.columns))
                if known > MOST_ARGUMENTS:
                    raise too_many_arguments(self._catalogue.display(predicate), known)
                if known != len(batch.columns):
                    raise ArityError(
                        f"{batch.source}, line {batch.first_line}: {counted(len(batch.columns), 'column')}, but "
                        f"`{self._catalogue.display(predicate)}` has {counted(known, 'argument')}"
                    )
                encoded = encode_columns(self._engine.store.terms, batch.columns)
                rows.take(predicate, encoded, f"{batch.source} from line {batch.first_line} on")
            return self._apply(Request(add=rows.all()), update)

    def _terms_if_it_succeeds(self) -> PassingTerms:
        """An update that fails leaves terms behind that nobody may need; the next one gives them back."""
        return PassingTerms(self._engine, for_a_question=False)

    def _terms_for_a_question(self) -> PassingTerms:
        """Whatever a question names or computes is needed for its answer only."""
        return PassingTerms(self._engine, for_a_question=True)

    def _run(
        self,
        add: FactsByPredicate,
        delete: FactsByPredicate,
        rules: tuple[Rule, ...],
        removed: tuple[Rule, ...],
        commit: Mapping[str, str] | None = None,
    ) -> Change:
        update = self._catalogue.check(rules, removed, self._functions.keys())
        for rule in rules:
            self._warn_of_cross_product(rule)
        added_rows = self._encode(add, update.arities)
        deleted_rows = self._encode(delete, update.arities)
        request = Request(deleted_rows, added_rows, tuple(update.removed), tuple(update.added.values()))
        return self._apply(request, update, commit)

    def _warn_of_cross_product(self, rule: Rule) -> None:
        unjoined = unjoined_atoms(rule)
        if unjoined is not None:
            first, second = (render(atom, self._catalogue.prefixes) for atom in unjoined)
            warn(
                f"`{render(rule, self._catalogue.prefixes)}` matches every {first} with every {second}: "
                "they have no variable in common",
                CrossProductWarning,
            )

    def _apply(
        self,
        request: Request,
        update: RuleUpdate,
        commit: Mapping[str, str] | None = None,
    ) -> Change:
        """Let the engine apply an update."""
        gone = tuple(map(self._engine.graph.rule, request.remove_rules))
        first_new = self._engine.graph.next_number
        settled: list[Change] = []

        def settle(outcome: Outcome) -> None:
            """All that may fail comes before the engine commits, and the journal comes last."""
            settled.append(self._change(outcome))
            if self._home is not None:
                record = Record(
                    request.add, request.delete, request.add_rules, gone, self._catalogue.prefixes, commit or {}
                )
                self._home.record(record, self._engine.store.terms.table.decode)

        try:
            outcome = self._engine.update(request, settle)
        except BrokenError as broken:
            self._lock.refuse(str(broken))
            raise
        self._catalogue.commit(update, first_new)
        self._errors += outcome.errors
        self._commit = commit or self._commit
        return settled[0]

    def _change(self, outcome: Outcome) -> Change:
        added: dict[str, FactSet] = {}
        removed: dict[str, FactSet] = {}
        for source, target in ((outcome.added, added), (outcome.removed, removed)):
            for predicate, rows in source.items():
                target[self._catalogue.display(predicate)] = FactSet(self._engine.store.terms.table, rows)
        return Change(added, removed, outcome.work, outcome.errors)

    # --- encoding -----------------------------------------------------------------------------------------------------

    def _encode(self, facts: FactsByPredicate, arities: dict[str, int]) -> dict[str, Cells]:
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
        if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
            rows = interruptible(list, self._lock.watched(rows))  # Whoever gives them may wait for others.
        return encode_rows(self._engine.store.terms, name, rows)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def prefixes(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._catalogue.prefixes)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts or that a rule mentions."""
        with self._lock:
            return self._listed_predicates()

    def _listed_predicates(self) -> list[str]:
        named = {name for name, relation in self._engine.store.named().items() if len(relation)}
        known = named | set(self._engine.graph.predicates)
        return sorted(self._catalogue.display(name) for name in known if not name.startswith("#"))

    @property
    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts."""
        with self._lock:
            names = [name for name in self._engine.store.named() if not name.startswith("#")]
            relations = {name: self._engine.explicit_relation(name) for name in names}
            given = [name for name, relation in relations.items() if relation is not None and relation.explicit_count]
            return sorted(map(self._catalogue.display, given))

    @property
    def errors(self) -> int:
        """How many matches of rules and queries have failed so far because an expression had no value."""
        with self._lock:
            return self._errors

    @property
    def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far."""
        return list(map(ListedRule.of, self.rule_statistics()))

    def facts(self, predicate: str) -> Facts:
        """The facts of a predicate, as they are whenever one looks."""
        return self._view(predicate, lambda relation: relation.rows(), len, explicit=False)

    def explicit(self, predicate: str) -> Facts:
        """Only the explicit facts of a predicate."""
        return self._view(
            predicate,
            explicit_rows,
            lambda relation: relation.explicit_count,
            explicit=True,
        )

    def _view(
        self,
        name: str,
        rows: Callable[[Relation], Cells],
        size: Callable[[Relation], int],
        explicit: bool,
    ) -> Facts:
        with self._lock:
            predicate = self._catalogue.resolve(name)
        store = self._engine.store

        def source() -> Relation | None:
            return self._engine.explicit_relation(predicate) if explicit else store.find(predicate)

        def cells(relation: Relation | None, most: int | None) -> Cells:
            if relation is None:
                return np.empty((0, self._catalogue.arities.get(predicate, 0)), np.int32)
            if most is not None and relation.closure is not None:
                return first_pairs(relation.closure, most)
            return rows(relation)[:most]

        def read(most: int | None) -> Encoded:
            with self._lock:
                return Encoded(cells(source(), most), store.terms.table)

        def count() -> int:
            with self._lock:
                relation = source()
                return 0 if relation is None else size(relation)

        def has(row: Row) -> bool:
            return self._holds(predicate, row, explicit)

        return Facts(read, count, has)

    def _holds(self, predicate: str, row: Row, explicit: bool = False) -> bool:
        with self._lock:
            if len(row) != self._catalogue.arities.get(predicate, -1):
                return False
            with self._terms_for_a_question():
                try:
                    cells = self._encode_row(row)
                except DataError:
                    return False
                return self._engine.holds(predicate, cells, explicit)

    def __len__(self) -> int:
        with self._lock:
            return self._engine.store.fact_count()

    def __repr__(self) -> str:
        with self._lock:
            facts, rules = counted(len(self), "fact"), counted(len(self._engine.graph.rules), "rule")
        return f"<KnowledgeBase: {facts}, {rules}>"

    def _shown(self) -> tuple[str, list[str], list[tuple[str, int, int]], str]:
        rows = [(name, len(self.explicit(name)), len(self.facts(name))) for name in self.predicates]
        shown = sorted(rows, key=lambda row: -row[2])[:MOST_ROWS]
        return repr(self)[1:-1], ["predicate", "explicit", "facts"], shown, more_text(len(rows), len(shown))

    def __rich__(self) -> Any:
        return rich_table(*self._shown())

    def _repr_html_(self) -> str:
        return html_table(*self._shown())

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the copy would share arrays, and know of no update of the other."""
        raise TidelogError("a knowledge base cannot be copied or pickled; `save` it, and `open` it as often as needed")

    def rule_statistics(self) -> list[RuleStatistics]:
        """For each rule, what it has done and how long it took; see `RuleStatistics` for what is measured."""
        with self._lock:
            return rule_statistics(self._engine, self._catalogue.prefixes)

    def __contains__(self, fact: object) -> bool:
        if not isinstance(fact, str):
            return False
        with self._lock:
            atom = self._ground_atom(fact)
            return self._holds(atom.predicate, atom.row)

    def _ground_atom(self, text: str) -> Atom:
        atom = parse_atom(checked_text(text, "fact"), self._catalogue.prefixes)
        if not all(isinstance(term, Constant) for term in atom.arguments):
            raise TidelogError(
                f"`{text}` is no fact: it has variables or expressions; a query such as `?- {text}.` asks for all"
            )
        return atom

    def query(self, text: str) -> Answers:
        """The answers of a query over the materialisation."""
        with self._lock.working(), self._terms_for_a_question():
            query = interruptible(parse_query, checked_text(text, "text"), self._catalogue.prefixes)
            check_query(query, self._functions.keys(), self._catalogue.prefixes)
            check_arities([query], self._catalogue.arities, self._catalogue.prefixes)
            names, cells, errors = run_query(self._engine, query)
            self._errors += errors
            return Answers(names, Encoded(cells, self._engine.store.terms.table))

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, fact: str) -> Proof | None:
        """A proof of least height of a fact such as `"path(a, c)"`; None where it does not hold."""
        return next(self.proofs(fact, limit=1), None)

    def proofs(self, fact: str, limit: int = 10) -> Iterator[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first."""
        with self._lock.working(), self._terms_for_a_question():
            atom = self._ground_atom(fact)
            cells = self._cells_of(atom)
            if cells is None:
                return iter(())
            return iter(self._explainer().proofs(atom.predicate, cells, limit))

    def why_not(self, fact: str) -> str:
        """What a fact that does not hold lacks: the rule that came closest, and the part of its body that failed."""
        with self._lock.working(), self._terms_for_a_question():
            atom = self._ground_atom(fact)
            return self._explainer().why_not(atom, self._cells_of(atom), self._listed_predicates())

    def _explainer(self) -> Explainer:
        if self._explains is None:
            from tidelog.explain.explainer import Explainer

            self._explains = Explainer(self._engine, lambda: self._catalogue.prefixes)
        return self._explains

    def _cells_of(self, atom: Atom) -> Cells | None:
        """The terms of a fact; None where its predicate is not known with that many arguments."""
        if self._catalogue.arities.get(atom.predicate) != atom.arity:
            return None
        return self._encode_row(atom.row)

    def _encode_row(self, row: Row) -> Cells:
        return self._engine.store.terms.encode_values(row) if row else np.empty(0, np.int32)

    # --- on disk ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Save everything into a folder: afterwards, and after any crash on the way, it holds the old state or this
        one.
        """
        from tidelog.api.persistence import save

        with self._lock.working():
            save(self, Path(folder))

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        journal: bool = False,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        on_replay: Callable[[Mapping[str, str], Change], None] | None = None,
    ) -> KnowledgeBase:
        """A knowledge base as it was saved, without materialising it again.

        With `journal=True`, nobody else can open the folder until `close`, and each update is on the disk when
        `update` returns. `functions` are registered before anything else: Python functions are not saved.
        `on_replay` is told of each update that the journal holds: its `commit` and its change.
        """
        from tidelog.api.persistence import open_folder

        return open_folder(cls, Path(folder), journal, functions or {}, on_replay)

    @property
    def commit_info(self) -> Mapping[str, str]:
        """The `commit` of the last update that had one, also after `open`."""
        with self._lock:
            return dict(self._commit)

    @property
    def missing_functions(self) -> list[str]:
        """The functions that rules call and that nobody has registered, as after `open`."""
        with self._lock:
            return sorted(foreign_functions(self._engine.graph.rules.values()) - self._functions.keys())

    def close(self) -> None:
        """Release the folder of a journal, for others to open, once the update in work is done; facts can still be read
        here.
        """
        with self._lock.working(even_if_broken=True):
            if self._home is not None:
                self._home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- functions ----------------------------------------------------------------------------------------------------

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules and queries call a Python function by name. It must give the same result for the same arguments."""
        check_function(name, function)
        with self._lock.working():
            self._functions[name] = self._lock.guarded(function)
            self._engine.store.forget_function(name)


def first_pairs(closure: ReadableClosure, most: int) -> Cells:
    """Some pairs of a closure, which may have far more than anybody wants to see."""
    for pair in closure.pairs(most):
        return np.stack(pair, axis=1)
    return np.empty((0, 2), np.int32)


def _interruptible(batches: Iterable[FactBatch]) -> Iterator[FactBatch]:
    """Batches that a reader yields, which signals may interrupt: files can be long."""
    reader = iter(batches)
    while (batch := interruptible(next, reader, None)) is not None:
        yield batch
