"""The Python front door: `KnowledgeBase`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from tidelog.api.statistics import ListedRule, RuleStatistics, rule_statistics
from tidelog.engine.update.failures import Failures
from tidelog.errors import TidelogError
from tidelog.facts.arguments import check_function, checked_text
from tidelog.facts.questions import Fact, warn_of_unknown
from tidelog.facts.reading import Facts
from tidelog.facts.results import Answers, Change
from tidelog.formats.display import MOST_ROWS, counted, html_table, more_text, rich_table
from tidelog.language import DLOG, syntax_named
from tidelog.language.syntax import Atom, Query
from tidelog.live.knowledge import GivenFacts, Knowledge
from tidelog.program.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path
    from queue import Queue

    from tidelog.api.dependencies import DependencyGraph
    from tidelog.api.files import Loadable, Types
    from tidelog.explain.failure import WhyNot
    from tidelog.explain.proof import Proof
    from tidelog.live.async_streams import AsyncStream
    from tidelog.live.fully_dynamic import Live
    from tidelog.live.streams import Stream
    from tidelog.live.update_sources import Source, UpdateMapping


class KnowledgeBase:
    """Facts, rules and everything that follows from them, kept true through updates.

    `rules_text` may hold facts and rules. `maintenance` chooses the algorithm, `modules=False` turns the closure
    modules off, `max_facts` and `timeout` (in seconds) bound each update. With `trace="paper"`, each change has a
    `trace` of the paper's own procedure, with its sets and exact counts: slow, for comparing algorithms. `syntax` is
    that of the text: the language, `dlog`, or that of ZodiacEdge, `zodiac`. With `on_error="raise"`, an update or query
    in which an expression has no value is refused; otherwise such rule instances are left out and counted.
    """

    def __init__(
        self,
        rules_text: str = "",
        maintenance: str = "auto",
        modules: bool = True,
        max_facts: int | None = None,
        timeout: float | None = None,
        trace: str | None = None,
        syntax: str = DLOG,
        on_error: str = "count",
    ) -> None:
        syntax_named(syntax)  # refuses an unknown one
        self._knowledge = Knowledge(maintenance, modules, max_facts, timeout, trace, on_error)
        self._engine = self._knowledge.engine
        self._catalogue = self._knowledge.catalogue
        self._lock = self._knowledge.lock
        self._reader = self._knowledge.reader
        if checked_text(rules_text, "rules_text"):
            self._knowledge.add_program(rules_text, syntax)

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        commit: Mapping[str, str] | None = None,
        syntax: str = DLOG,
    ) -> Change:
        """Apply one update: deletions before additions, all or nothing. Facts are rows by predicate, or a text.

        `commit` is a mapping of texts that becomes durable in the same step as the update: see `commit_info`. `syntax`
        is that of the rules.
        """
        return self._knowledge.update(add, delete, add_rules, remove_rules, commit, syntax)

    def what_if(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        syntax: str = DLOG,
    ) -> Change:
        """The change that an update would make, which is not made: afterwards, everything is as before."""
        return self._knowledge.what_if(add, delete, add_rules, remove_rules, syntax)

    def add_rules(self, text: str, syntax: str = DLOG) -> Change:
        return self.update(add_rules=text, syntax=syntax)

    def remove_rules(self, text: str, syntax: str = DLOG) -> Change:
        return self.update(remove_rules=text, syntax=syntax)

    def load(
        self,
        source: Loadable,
        predicate: str | None = None,
        header: bool | None = None,
        types: Types | None = None,
    ) -> Change:
        """Add the facts of a file, of a folder of files, or of a reader of `tidelog.formats`, in one update.

        The predicate is that of a file's name unless one is given. `header` says whether the first line of CSV and TSV
        files names their columns; unless it is said, a first line that looks so is a fact, with a warning. `types` are
        those of the columns of such a file, or of a folder's files by predicate: `string`, `int`, `float`, `bool`,
        `iri`, or `auto`. Limits hold while files are read.
        """
        from tidelog.api.files import facts_to_load

        return self._knowledge.load(facts_to_load(source, predicate, header, types))

    def export(
        self,
        folder: str | PathLike[str],
        format: str = "csv",
        predicates: Iterable[str] | None = None,
        explicit: bool = False,
    ) -> list[Path]:
        """Write facts to a folder, a file for each predicate, and return the files; `load` reads them back.

        `format` is one of `csv`, `tsv`, `jsonl`, `nt`, `dlog` and `parquet`; all but the last also with `.gz`. With
        `explicit`, only explicit facts are written.
        """
        from tidelog.api.files import export

        with self._lock:
            return export(self, folder, format, predicates, explicit)

    @overload
    def stream(self, updates: AsyncIterable[UpdateMapping], marking: bool = True) -> AsyncStream: ...

    @overload
    def stream(self, updates: Iterable[UpdateMapping] | Queue[Any] | Source, marking: bool = True) -> Stream: ...

    def stream(self, updates: Any, marking: bool = True) -> Stream | AsyncStream:
        """The change of each update, in order, as soon as it is done.

        `updates` is any iterable of mappings such as `update` takes, an asynchronous one (then so is the result), or a
        queue that `None` ends. With `marking`, the next update is looked at while the current one is in work.
        """
        self._knowledge.check_writable()
        if hasattr(updates, "__aiter__"):
            from tidelog.live.async_streams import AsyncStream

            return AsyncStream(self._knowledge, aiter(updates), marking)
        from tidelog.live.streams import Stream
        from tidelog.live.update_sources import source_of

        return Stream(self._knowledge, source_of(updates), marking)

    def live(self, backlog: int | None = None, when_full: str = "wait") -> Live:
        """Take updates in while earlier ones are still in work; see `tidelog.live.fully_dynamic.Live`."""
        from tidelog.live.fully_dynamic import Live

        self._knowledge.check_writable()
        return Live(self._knowledge, backlog, when_full)

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules and queries call a Python function by name. It must give the same result for the same arguments."""
        check_function(name, function)
        self._knowledge.register(name, function)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def prefixes(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._catalogue.prefixes)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared."""
        with self._lock:
            return self._reader.predicates()

    @property
    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts."""
        with self._lock:
            return self._reader.explicit_predicates()

    @property
    def declared(self) -> Mapping[str, int]:
        """The predicates that are declared, with their numbers of arguments, whether or not they have facts."""
        with self._lock:
            return {self._catalogue.display(name): arity for name, arity in self._catalogue.declared.items()}

    @property
    def errors(self) -> Failures:
        """How many matches of rules and queries have failed so far because an expression had no value; the first ones
        are in `errors.first`.
        """
        with self._lock:
            return self._knowledge.errors

    @property
    def constants(self) -> int:
        """How many constants have room here; those of facts that are gone keep theirs."""
        with self._lock:
            return len(self._engine.store.terms)

    @property
    def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far."""
        return list(map(ListedRule.of, self.rule_statistics()))

    @property
    def graph(self) -> DependencyGraph:
        """The hyper rule dependency graph of the rules: hyper-nodes, edges, strata, and what a change would impact."""
        from tidelog.api.dependencies import DependencyGraph

        with self._lock:
            graph, catalogue = self._engine.graph.copy(), self._catalogue
            known = Catalogue(catalogue.prefixes, catalogue.arities, declared=catalogue.declared)
            return DependencyGraph.of(graph, known, self._knowledge.functions)

    def rule_statistics(self) -> list[RuleStatistics]:
        """What each rule has done and how long it took; see `RuleStatistics` for what is measured."""
        with self._lock:
            return rule_statistics(self._engine, self._catalogue.prefixes)

    def facts(self, predicate: str) -> Facts:
        """The facts of a predicate, as they are whenever one looks."""
        return self._facts(predicate, explicit=False)

    def explicit(self, predicate: str) -> Facts:
        """Only the explicit facts of a predicate."""
        return self._facts(predicate, explicit=True)

    def _facts(self, name: str, explicit: bool) -> Facts:
        with self._lock:
            predicate = self._catalogue.resolve(name)
            warn_of_unknown(self._catalogue, predicate)
            return Facts(self._lock, self._reader, predicate, explicit)

    def query(self, text: str | Query, /, **values: object) -> Answers:
        """The answers of a query over the materialisation. `values` are those of its parameters: `may($user, write)` is
        asked with `user="ada"`, and a value is a constant, whatever it looks like.
        """
        return self._knowledge.query(text, values)

    def __contains__(self, fact: object) -> bool:
        """Whether a fact holds: `"may(ada, write)"`, or `("may", "ada", "write")`, whose values are not parsed."""
        return isinstance(fact, str | tuple | Atom) and self._knowledge.holds(fact)

    def __len__(self) -> int:
        with self._lock:
            return self._engine.store.fact_count()

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, fact: Fact, /, **values: object) -> Proof | None:
        """A proof of least height of a fact such as `"path(a, c)"`; None if it does not hold. Facts with parameters are
        asked with their values, as in `query`, or as tuples.
        """
        return next(self.proofs(fact, 1, **values), None)

    def proofs(self, fact: Fact, /, limit: int = 10, **values: object) -> Iterator[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first."""
        with self._lock.working(), self._reader.terms_for_a_question():
            atom = self._knowledge.fact(fact, values)
            warn_of_unknown(self._catalogue, atom.predicate, atom.arity)
            cells = self._reader.cells_of(atom.predicate, atom.row)
            return iter(() if cells is None else self._knowledge.explainer().proofs(atom.predicate, cells, limit))

    def why_not(self, fact: Fact, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks, down to the explicit facts: the rule that came closest, the parts of
        its body that failed, and what they lack in turn.
        """
        with self._lock.working(), self._reader.terms_for_a_question():
            atom = self._knowledge.fact(fact, values)
            cells = self._reader.cells_of(atom.predicate, atom.row)
            return self._knowledge.explainer().why_not(atom, cells, self._catalogue.arities)

    # --- on disk ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Save everything into a folder: afterwards, and after any crash on the way, it holds the old state or this
        one.
        """
        from pathlib import Path

        from tidelog.api.persistence import save

        with self._lock.working():
            save(self._knowledge, Path(folder))

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        journal: bool = False,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        on_replay: Callable[[Mapping[str, str], Change], None] | None = None,
        read_only: bool = False,
    ) -> KnowledgeBase:
        """A knowledge base as it was saved, without materialising it again.

        With `journal=True`, nobody else can write to the folder until `close`, and each update is on the disk when
        `update` returns. With `read_only=True`, another process may have it open with a journal: what it has committed
        is read, `refresh` brings what it has committed since, and updates are refused. `functions` are registered
        before anything else: Python functions are not saved. `on_replay` is told of each update that the journal holds:
        its `commit` and its change.
        """
        from pathlib import Path

        from tidelog.api.persistence import opened

        with opened(Path(folder), journal, read_only) as saved:
            with saved.fitting():
                kb = cls(**saved.image.options)
            for name, function in (functions or {}).items():
                kb.register(name, function)
            saved.restore(kb._knowledge, on_replay)
        return kb

    def refresh(self) -> Change:
        """Take in what the writer of the folder has committed since, and return the change; for `read_only=True`."""
        from tidelog.api.following import refresh

        with self._lock.working():
            return refresh(self._knowledge)

    @property
    def commit_info(self) -> Mapping[str, str]:
        """The `commit` of the last update that had one, also after `open`."""
        with self._lock:
            return dict(self._knowledge.commit_info)

    @property
    def missing_functions(self) -> list[str]:
        """The functions that rules call and that nobody has registered, as after `open`."""
        with self._lock:
            return self._knowledge.missing_functions()

    def close(self) -> None:
        """Release the folder of a journal for others to open, once the update in work is done. Facts can still be read
        here.
        """
        with self._lock.working(even_if_broken=True):
            if self._knowledge.home is not None:
                self._knowledge.home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- display ------------------------------------------------------------------------------------------------------

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
        """Refuse to be pickled or copied: the copy would share arrays, but would not see updates of the original."""
        raise TidelogError("a knowledge base cannot be copied or pickled; `save` it, and `open` it as often as needed")
