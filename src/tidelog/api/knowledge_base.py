"""The Python front door: `KnowledgeBase`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from tidelog.api.notebook import progress_shown
from tidelog.api.statistics import ListedRule, RuleStatistics, rule_statistics
from tidelog.engine.update.failures import Failures
from tidelog.errors import TidelogError
from tidelog.extras import FILES, needing
from tidelog.facts.arguments import check_function, checked_marking, checked_text
from tidelog.facts.questions import Fact, warn_of_unknown
from tidelog.facts.reading import Facts
from tidelog.facts.results import Answers, Change
from tidelog.formats.display import MOST_ROWS, counted, html_table, more_text, rich_table
from tidelog.language import DLOG, render, syntax_named
from tidelog.language.names import is_hidden
from tidelog.language.parts import whole_program
from tidelog.language.syntax import Atom, Query
from tidelog.live.knowledge import GivenFacts, Knowledge
from tidelog.moments import moment_at
from tidelog.program.catalogue import Catalogue
from tidelog.program.functions.registered import Lattice, Monotone

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from queue import Queue

    from tidelog.api.dependencies import DependencyGraph
    from tidelog.api.files import Loadable, Types
    from tidelog.engine.modules.plugin import Module
    from tidelog.facts.arguments import Time
    from tidelog.live.async_live import AsyncLive
    from tidelog.live.async_streams import AsyncStream
    from tidelog.live.fully_dynamic import Live
    from tidelog.live.streams import Stream
    from tidelog.live.subscriptions import OnChange, Subscription
    from tidelog.live.update_sources import Source, UpdateMapping
    from tidelog.proofs.failure import WhyNot
    from tidelog.proofs.proof import Proof


# A notebook draws the rules of a knowledge base unless there are more; `kb.graph` draws any number.
MOST_DRAWN = 16


class KnowledgeBase:
    """Facts, rules and everything that follows from them, kept true through updates.

    `rules_text` may hold facts and rules. `maintenance` chooses the algorithm, `modules=False` turns the closure
    modules off, `max_facts` and `timeout` (in seconds) bound each update. With `trace="paper"`, each change has a
    `trace` of the paper's own procedure, with its sets and exact counts: slow, for comparing algorithms. `syntax` is
    that of the text: the language, `dlog`, or that of ZodiacEdge, `zodiac`. With `on_error="raise"`, an update or query
    in which an expression has no value is refused; otherwise such rule instances are left out and counted.
    `parameters` are the values of `$names` in the text. `clock` is asked for the time of each update that does not say
    it itself: `time.time`, say.

    Examples:
        >>> kb = tidelog.KnowledgeBase('''
        ...     path(X, Y) :- edge(X, Y).
        ...     path(X, Z) :- edge(X, Y), path(Y, Z).
        ...     edge(a, b).
        ... ''')
        >>> kb.update(add={"edge": [("b", "c")]})
        <Change: + edge: 1, + path: 2>
        >>> "path(a, c)" in kb
        True
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
        parameters: Mapping[str, object] | None = None,
        clock: Callable[[], Time] | None = None,
    ) -> None:
        syntax_named(syntax)  # refuses an unknown one
        self._knowledge = Knowledge(maintenance, modules, max_facts, timeout, trace, on_error)
        self._knowledge.clock = clock
        self._engine = self._knowledge.engine
        self._catalogue = self._knowledge.catalogue
        self._lock = self._knowledge.lock
        self._reader = self._knowledge.reader
        if checked_text(rules_text, "rules_text") or parameters:
            self._knowledge.add_program(whole_program(rules_text, parameters or {}, syntax), syntax)

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        commit: Mapping[str, str] | None = None,
        syntax: str = DLOG,
        at: Time | None = None,
    ) -> Change:
        """Apply one update: deletions before additions, all or nothing. Facts are rows by predicate, or a text.

        `commit` is a mapping of texts that becomes durable in the same step as the update: see `commit_info`. `syntax`
        is that of the rules. `at` is the time at which its facts come in; what has expired by then goes with the same
        update: see `advance`.

        Examples:
            >>> kb = tidelog.KnowledgeBase("happy(X) :- friend(X, _).")
            >>> change = kb.update(add={"friend": [("ada", "bob")]})
            >>> change.added["happy"]
            {('ada',)}
            >>> kb.update(delete={"friend": [("ada", "bob")]}, add={"friend": [("cy", "dee")]})
            <Change: + friend: 1, + happy: 1, - friend: 1, - happy: 1>
        """
        with progress_shown():
            change = self._knowledge.update(add, delete, add_rules, remove_rules, commit, syntax, at)
        self._knowledge.deliver()
        return change

    def what_if(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        syntax: str = DLOG,
        at: Time | None = None,
    ) -> Change:
        """The change that an update would make, which is not made: afterwards, everything is as before.

        Examples:
            >>> kb = tidelog.KnowledgeBase("happy(X) :- friend(X, _).  friend(ada, bob).")
            >>> kb.what_if(delete={"friend": [("ada", "bob")]})
            <Change: - friend: 1, - happy: 1>
            >>> "happy(ada)" in kb
            True
        """
        return self._knowledge.what_if(add, delete, add_rules, remove_rules, syntax, at)

    def advance(self, to: Time | None = None) -> Change:
        """Let time pass: whatever has expired by then goes, as by any update. Time never goes back: an earlier time
        changes nothing.

        A time is a `datetime` (UTC, if it has no time zone), its text, or a number of seconds since 1970. Without one,
        the clock of the knowledge base is asked.

        Examples:
            >>> kb = tidelog.KnowledgeBase("@expire reading 60 s.  busy(S) :- reading(S, V) in last 10 s, V > 5.")
            >>> kb.update(add={"reading": [("hall", 7)]}, at=100)
            <Change: + reading: 1, + busy: 1>
            >>> kb.advance(110)
            <Change: - busy: 1>
            >>> kb.advance(160)
            <Change: - reading: 1>
        """
        if to is None and self._knowledge.clock is None:
            raise TidelogError("`advance` takes a time; only a knowledge base with a `clock` knows it by itself")
        return self.update(at=to)

    def add_rules(self, text: str, syntax: str = DLOG) -> Change:
        """An update that adds rules, and nothing else.

        Examples:
            >>> kb = tidelog.KnowledgeBase("edge(a, b).")
            >>> kb.add_rules("back(Y, X) :- edge(X, Y).")
            <Change: + back: 1>
        """
        return self.update(add_rules=text, syntax=syntax)

    def remove_rules(self, text: str, syntax: str = DLOG) -> Change:
        """An update that removes rules, and nothing else. A rule is found whatever its variables are called.

        Examples:
            >>> kb = tidelog.KnowledgeBase("edge(a, b).  back(Y, X) :- edge(X, Y).")
            >>> kb.remove_rules("back(B, A) :- edge(A, B).")
            <Change: - back: 1>
        """
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
        `iri`, or `auto`; unless they are given, those that `@predicate` declares. Limits hold while files are read.

        Examples:
            >>> from pathlib import Path
            >>> from tidelog.formats import read_file
            >>> _ = Path("edge.csv").write_text("a,b\\nb,c\\n")
            >>> kb = tidelog.KnowledgeBase()
            >>> kb.load(read_file("edge.csv"))
            <Change: + edge: 2>
        """
        with needing(FILES):
            from tidelog.api.files import declared_types, facts_to_load

        with progress_shown():
            change = self._knowledge.load(facts_to_load(source, predicate, header, types, declared_types(self)))
        self._knowledge.deliver()
        return change

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

        Examples:
            >>> kb = tidelog.KnowledgeBase("edge(a, b).")
            >>> [path.name for path in kb.export("exported")]
            ['edge.csv']
            >>> tidelog.KnowledgeBase().load("exported")
            <Change: + edge: 1>
        """
        with needing(FILES):
            from tidelog.api.files import export

        with self._lock:
            return export(self, folder, format, predicates, explicit)

    @overload
    def stream(self, updates: AsyncIterable[UpdateMapping], marking: int = True) -> AsyncStream: ...

    @overload
    def stream(self, updates: Iterable[UpdateMapping] | Queue[Any] | Source, marking: int = True) -> Stream: ...

    def stream(self, updates: Any, marking: int = True) -> Stream | AsyncStream:
        """The change of each update, in order, as soon as it is done.

        `updates` is any iterable of mappings such as `update` takes, an asynchronous one (then so is the result), or a
        queue that `None` ends. `marking` is how many updates are looked at ahead while one is in work, as far as they
        are there already: True for the next one alone, False for none.

        Examples:
            >>> kb = tidelog.KnowledgeBase("on(X) :- switch(X).")
            >>> updates = [{"add": {"switch": [("lamp",)]}}, {"delete": {"switch": [("lamp",)]}}]
            >>> for change in kb.stream(updates):
            ...     print(repr(change))
            <Change: + switch: 1, + on: 1>
            <Change: - switch: 1, - on: 1>
        """
        self._knowledge.check_writable()
        most = checked_marking(marking)
        if hasattr(updates, "__aiter__"):
            from tidelog.live.async_streams import AsyncStream

            return AsyncStream(self._knowledge, aiter(updates), most)
        from tidelog.live.streams import Stream
        from tidelog.live.update_sources import source_of

        return Stream(self._knowledge, source_of(updates), most)

    def live(self, backlog: int | None = None, when_full: str = "wait", overlap: str = "batches") -> Live:
        """Take updates in while earlier ones are still in work; see `tidelog.live.fully_dynamic.Live`.

        With `overlap="operations"`, the additions and deletions of different updates meet fact by fact.

        Examples:
            >>> kb = tidelog.KnowledgeBase("on(X) :- switch(X).")
            >>> with kb.live() as live:
            ...     _ = live.submit(add={"switch": [("lamp",)]})
            ...     _ = live.submit(add={"switch": [("fan",)]})
            ...     change = live.settle()
            >>> change
            <Change: + switch: 2, + on: 2>
        """
        from tidelog.live.fully_dynamic import Live

        self._knowledge.check_writable()
        return Live(self._knowledge, backlog, when_full, overlap)

    def live_async(self, backlog: int | None = None, when_full: str = "wait", buffer: int = 64) -> AsyncLive:
        """The same in an event loop, within `async with`; see `tidelog.live.async_live.AsyncLive`. The loop stays free
        while updates are in work.

        Examples:
            >>> import asyncio
            >>> async def main():
            ...     async with tidelog.KnowledgeBase("on(X) :- switch(X).").live_async() as live:
            ...         await live.submit(add={"switch": [("lamp",)]})
            ...         return await live.settle()
            >>> asyncio.run(main())
            <Change: + switch: 1, + on: 1>
        """
        from tidelog.live.async_live import AsyncLive

        self._knowledge.check_writable()
        return AsyncLive(self._knowledge, backlog, when_full, buffer)

    def subscribe(self, query: str | Query, on_change: OnChange, /, **values: object) -> Subscription:
        """Be told of the answers of a query, and then of what comes and what goes with each update that changes them,
        until `close`. `values` are those of its parameters, as in `query`.

        `on_change` is called with one `AnswerChange` after the other, in the order of the updates: by the thread that
        made the update, before `update` returns, unless another thread is calling it. It may use the knowledge base,
        and change it.

        Examples:
            >>> kb = tidelog.KnowledgeBase("may(U, A) :- role(U, R), grants(R, A).  grants(admin, write).")
            >>> with kb.subscribe("may($user, A), A != read", lambda change: print(change.added), user="ada"):
            ...     _ = kb.update(add={"role": [("ada", "admin"), ("bob", "admin")]})
            []
            [{'A': 'write'}]
        """
        return self._knowledge.subscriptions.subscribe(query, on_change, values)

    def register(self, name: str, function: Callable[..., Any], monotone: bool = False) -> None:
        """Let rules and queries call a Python function by name. It must give the same result for the same arguments.

        With `monotone=True` you say that its result gets greater, or stays the same, where its arguments do: then it
        may take values that a recursion keeps, as `register_lattice` lets it.

        Examples:
            >>> kb = tidelog.KnowledgeBase("word(tide).")
            >>> kb.register("reverse", lambda text: text[::-1])
            >>> kb.query("word(W), R = reverse(W)")
            [{'W': 'tide', 'R': 'edit'}]
        """
        check_function(name, function)
        self._knowledge.register(name, Monotone(function) if monotone else function)

    def register_lattice(
        self, name: str, join: Callable[[Any, Any], Any], order: Callable[[Any, Any], Any] | None = None
    ) -> None:
        """Let rules join values by Python functions: `name(X)` in the head of a rule is the join of all X of a group,
        in a recursion too.

        `join(one, other)` is the least value that is above both. `order(one, other)` says whether `other` is above
        `one`, or the same; joins are checked by it, or otherwise by further joins.

        Examples:
            >>> kb = tidelog.KnowledgeBase("reading(hall, [3, 4]).  reading(hall, [6, 9]).")
            >>> kb.register_lattice("hull", lambda a, b: tidelog.Record(min(a[0], b[0]), max(a[1], b[1])))
            >>> kb.add_rules("bounds(R, hull(B)) :- reading(R, B).")
            <Change: + bounds: 1>
            >>> kb.facts("bounds")
            {('hall', Record(3, 9))}
        """
        lattice = Lattice(join, order)
        check_function(name, lattice)
        self._knowledge.register(name, lattice)

    def add_module(self, module: Module) -> None:
        """Let a module of yours derive what follows from the rules that it declares, wherever all of them are there.

        What follows from the rules stays the same; the module says how it is found. `tidelog.testing.check_module`
        tests whether it does. Modules are not saved: add them again after `open`. With `modules=False` plain rules do
        the work.

        Examples:
            >>> class Copies:
            ...     rules = "copy(X) :- original(X)."
            ...     def difference(self, facts, changed): return {"copy": changed["original"]}
            ...     def delete(self, facts, gone, safe): return {}
            ...     def rederive(self, left, gone): return {}
            ...     def add(self, facts, new): return {}
            >>> kb = tidelog.KnowledgeBase("copy(X) :- original(X).  original(1).")
            >>> kb.add_module(Copies())
            >>> kb.update(add={"original": [(2,)]})
            <Change: + original: 1, + copy: 1>
        """
        self._knowledge.add_module(module)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def prefixes(self) -> Mapping[str, str]:
        """The declared prefixes, and the IRIs that they stand for.

        Examples:
            >>> tidelog.KnowledgeBase("@prefix ex: <http://example.org/> .").prefixes
            {'ex': 'http://example.org/'}
        """
        with self._lock:
            return dict(self._catalogue.prefixes)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared.

        Examples:
            >>> tidelog.KnowledgeBase("q(X) :- p(X).  r(a).").predicates
            ['p', 'q', 'r']
        """
        with self._lock:
            return self._reader.predicates()

    @property
    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts.

        Examples:
            >>> tidelog.KnowledgeBase("q(X) :- p(X).  r(a).").explicit_predicates
            ['r']
        """
        with self._lock:
            return self._reader.explicit_predicates()

    @property
    def declared(self) -> Mapping[str, int]:
        """The predicates that are declared, with their numbers of arguments, whether or not they have facts.

        Examples:
            >>> "flag" in tidelog.KnowledgeBase("@predicate flag/1.").declared
            True
        """
        with self._lock:
            display, declared = self._catalogue.display, self._catalogue.declared
            return {display(name): signature.arity for name, signature in declared.items() if not is_hidden(name)}

    @property
    def declarations(self) -> list[str]:
        """What is declared of predicates and types, as text.

        Examples:
            >>> tidelog.KnowledgeBase("@predicate edge(from: string, weight: float).").declarations
            ['@predicate edge(from: string, weight: float).']
        """
        with self._lock:
            return self._catalogue.declarations

    def describe(self, predicate: str) -> dict[str, Any]:
        """What is declared of a predicate: the names and types of its columns, and the text about it.

        Examples:
            >>> kb = tidelog.KnowledgeBase('@predicate age(who: string, years: int) "How old people are.".')
            >>> kb.describe("age")["columns"], kb.describe("age")["text"]
            ([('who', 'string'), ('years', 'int')], 'How old people are.')
        """
        with self._lock:
            return self._catalogue.described(self._catalogue.resolve(predicate))

    @property
    def errors(self) -> Failures:
        """How many matches of rules and queries have failed so far because an expression had no value; the first ones
        are in `errors.first`.

        Examples:
            >>> kb = tidelog.KnowledgeBase("part(X, 1 / N) :- share(X, N).  share(a, 2). share(b, 0).")
            >>> kb.errors, list(kb.facts("part"))
            (1, [('a', 0.5)])
        """
        with self._lock:
            return self._knowledge.errors

    @property
    def time(self) -> datetime | None:
        """The time up to which this knowledge base has come, in UTC; None as long as nobody has said it.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.advance(90)
            >>> kb.time
            datetime.datetime(1970, 1, 1, 0, 1, 30, tzinfo=datetime.timezone.utc)
        """
        time = self._knowledge.time()
        return None if time is None else moment_at(time)

    @property
    def expiries(self) -> list[str]:
        """What expires, as the program says it.

        Examples:
            >>> tidelog.KnowledgeBase("@expire reading(_, T) 90s by T.").expiries
            ['@expire reading(_, T) 90 s by T.']
        """
        with self._lock:
            return sorted(render(expiry, self._catalogue.prefixes) for expiry in self._knowledge.expiries())

    @property
    def violations(self) -> list[Proof]:
        """Proofs of what violates constraints that only record it, `@constraint warn :- …`: of each, the first
        ones. What violates others is refused.

        Examples:
            >>> kb = tidelog.KnowledgeBase("@constraint warn :- on(X), broken(X).  on(lamp). broken(lamp).")
            >>> [proof.fact for proof in kb.violations]
            [':- on(lamp), broken(lamp)']
        """
        return self._knowledge.violations()

    @property
    def constants(self) -> int:
        """How many constants have room here; those of facts that are gone keep theirs.

        Examples:
            >>> tidelog.KnowledgeBase("edge(a, b). edge(b, c).").constants >= 3
            True
        """
        with self._lock:
            return len(self._engine.store.terms)

    @property
    def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b).")
            >>> kb.rules, kb.rules[0].facts
            (['back(Y, X) :- edge(X, Y).'], 1)
        """
        return list(map(ListedRule.of, self.rule_statistics()))

    @property
    def graph(self) -> DependencyGraph:
        """The hyper rule dependency graph of the rules: hyper-nodes, edges, strata, and what a change would impact.

        Examples:
            >>> kb = tidelog.KnowledgeBase("b(X) :- a(X).  c(X) :- b(X), not d(X).")
            >>> print(kb.graph)
            hn1: b(X) :- a(X).
            hn2: c(X) :- b(X), not d(X).
            hn1 → hn2: b
        """
        from tidelog.api.dependencies import DependencyGraph

        with self._lock:
            graph, catalogue = self._engine.graph.copy(), self._catalogue
            known = Catalogue(catalogue.prefixes, catalogue.arities, declared=catalogue.declared)
            return DependencyGraph.of(graph, known, self._knowledge.functions)

    def rule_statistics(self) -> list[RuleStatistics]:
        """What each rule has done and how long it took; see `RuleStatistics` for what is measured.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b). edge(b, c).")
            >>> [(item.rule, item.facts, item.applications) for item in kb.rule_statistics()]
            [('back(Y, X) :- edge(X, Y).', 2, 2)]
        """
        with self._lock:
            return list(rule_statistics(self._engine, self._catalogue.prefixes).values())

    def facts(self, predicate: str) -> Facts:
        """The facts of a predicate, as they are whenever one looks.

        Examples:
            >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b).")
            >>> back = kb.facts("back")
            >>> len(back), ("b", "a") in back, list(back)
            (1, True, [('b', 'a')])
        """
        return self._facts(predicate, explicit=False)

    def explicit(self, predicate: str) -> Facts:
        """Only the explicit facts of a predicate.

        Examples:
            >>> kb = tidelog.KnowledgeBase("near(X, Y) :- near(Y, X).  near(a, b).")
            >>> list(kb.explicit("near")), len(kb.facts("near"))
            ([('a', 'b')], 2)
        """
        return self._facts(predicate, explicit=True)

    def _facts(self, name: str, explicit: bool) -> Facts:
        with self._lock:
            predicate = self._catalogue.resolve(name)
            warn_of_unknown(self._catalogue, predicate)
            return Facts(self._lock, self._reader, predicate, explicit)

    def query(self, text: str | Query, /, **values: object) -> Answers:
        """The answers of a query over the materialisation. `values` are those of its parameters: `may($user, write)` is
        asked with `user="ada"`, and a value is a constant, whatever it looks like.

        Examples:
            >>> kb = tidelog.KnowledgeBase("age(ada, 36). age(bob, 17).")
            >>> kb.query("age(Who, N), N >= 18")
            [{'Who': 'ada', 'N': 36}]
            >>> kb.query("age(bob, _)")
            [{}]
        """
        return self._knowledge.query(text, values)

    def __contains__(self, fact: object) -> bool:
        """Whether a fact holds: `"may(ada, write)"`, or `("may", "ada", "write")`, whose values are not parsed."""
        return isinstance(fact, str | tuple | Atom) and self._knowledge.holds(fact)

    def __len__(self) -> int:
        with self._lock:
            return self._reader.count_all()

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, fact: Fact, /, **values: object) -> Proof | None:
        """A proof of least height of a fact such as `"path(a, c)"`; None if it does not hold. Facts with parameters are
        asked with their values, as in `query`, or as tuples.

        Examples:
            >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).  edge(a, b).")
            >>> print(kb.explain("path(a, b)"))
            path(a, b)  by path(X, Y) :- edge(X, Y).
            └── edge(a, b)  explicit
            >>> kb.explain("path(b, a)") is None
            True
        """
        return next(self.proofs(fact, 1, **values), None)

    def proofs(self, fact: Fact, /, limit: int = 10, **values: object) -> Iterator[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first.

        Examples:
            >>> kb = tidelog.KnowledgeBase("p(X) :- q(X).  p(X) :- r(X).  q(a).  r(a).")
            >>> [proof.rule for proof in kb.proofs("p(a)")]
            ['p(X) :- q(X).', 'p(X) :- r(X).']
        """
        return iter(self._knowledge.proofs(fact, limit, values))

    def why_not(self, fact: Fact, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks, down to the explicit facts: the rule that came closest, the parts of
        its body that failed, and what they lack in turn.

        Examples:
            >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).  edge(a, b).")
            >>> print(kb.why_not("path(b, a)"))
            path(b, a) does not hold...
        """
        return self._knowledge.why_not(fact, values)

    # --- on disk ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Save everything into a folder: afterwards, and after any crash on the way, it holds the old state or this
        one.

        Examples:
            >>> kb = tidelog.KnowledgeBase("edge(a, b).")
            >>> kb.save("store")
            >>> tidelog.KnowledgeBase.open("store")
            <KnowledgeBase: 1 fact, 0 rules>
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
        clock: Callable[[], Time] | None = None,
    ) -> KnowledgeBase:
        """A knowledge base as it was saved, without materialising it again.

        With `journal=True`, nobody else can write to the folder until `close`, and each update is on the disk when
        `update` returns. With `read_only=True`, another process may have it open with a journal: what it has committed
        is read, `refresh` brings what it has committed since, and updates are refused. `functions` are registered
        before anything else: Python functions are not saved, nor is a `clock`. `on_replay` is told of each update that
        the journal holds: its `commit` and its change.

        Examples:
            >>> tidelog.KnowledgeBase("edge(a, b).").save("network")
            >>> with tidelog.KnowledgeBase.open("network", journal=True) as kb:
            ...     kb.update(add={"edge": [("b", "c")]})
            <Change: + edge: 1>
            >>> len(tidelog.KnowledgeBase.open("network"))
            2
        """
        from pathlib import Path

        from tidelog.api.persistence import opened

        with opened(Path(folder), journal, read_only) as saved:
            with saved.fitting():
                kb = cls(**saved.image.options)
            for name, function in (functions or {}).items():
                kb.register(name, function)
            saved.restore(kb._knowledge, on_replay)
        kb._knowledge.clock = clock
        return kb

    def refresh(self) -> Change:
        """Take in what the writer of the folder has committed since, and return the change; for `read_only=True`.

        Examples:
            >>> tidelog.KnowledgeBase("edge(a, b).").save("shared")
            >>> with tidelog.KnowledgeBase.open("shared", journal=True) as writer:
            ...     reader = tidelog.KnowledgeBase.open("shared", read_only=True)
            ...     _ = writer.update(add={"edge": [("b", "c")]})
            ...     reader.refresh()
            <Change: + edge: 1>
        """
        from tidelog.api.following import refresh

        with self._lock.working():
            change = refresh(self._knowledge)
        self._knowledge.deliver()
        return change

    @property
    def version(self) -> int:
        """How many updates have been made since the knowledge base was made or opened; the `update` of messages.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.update(add={"edge": [("a", "b")]})
            >>> kb.version
            1
        """
        return self._knowledge.version

    @property
    def commit_info(self) -> Mapping[str, str]:
        """The `commit` of the last update that had one, also after `open`.

        Examples:
            >>> kb = tidelog.KnowledgeBase()
            >>> _ = kb.update(add={"edge": [("a", "b")]}, commit={"offset": "17"})
            >>> kb.commit_info
            {'offset': '17'}
        """
        with self._lock:
            return dict(self._knowledge.commit_info)

    @property
    def missing_functions(self) -> list[str]:
        """The functions that rules call and that nobody has registered, as after `open`.

        Examples:
            >>> tidelog.KnowledgeBase().missing_functions
            []
        """
        with self._lock:
            return self._knowledge.missing_functions()

    def close(self) -> None:
        """Release the folder of a journal for others to open, once the update in work is done. Facts can still be read
        here.

        Examples:
            >>> tidelog.KnowledgeBase().save("folder")
            >>> kb = tidelog.KnowledgeBase.open("folder", journal=True)
            >>> kb.close()
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
            facts, rules = counted(len(self), "fact"), counted(self._rule_count(), "rule")
        return f"<KnowledgeBase: {facts}, {rules}>"

    def _rule_count(self) -> int:
        return len({rule.written for rule in self._engine.graph.rules.values()})

    def _shown(self) -> tuple[str, list[str], list[tuple[str, int, int]], str]:
        rows = [(name, len(self.explicit(name)), len(self.facts(name))) for name in self.predicates]
        shown = sorted(rows, key=lambda row: -row[2])[:MOST_ROWS]
        return repr(self)[1:-1], ["predicate", "explicit", "facts"], shown, more_text(len(rows), len(shown))

    def __rich__(self) -> Any:
        return rich_table(*self._shown())

    def _repr_html_(self) -> str:
        table = html_table(*self._shown())
        with self._lock:
            rules = self._rule_count()
        return table + self.graph.draw() if 0 < rules <= MOST_DRAWN else table

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the copy would share arrays, but would not see updates of the original."""
        raise TidelogError("a knowledge base cannot be copied or pickled; `save` it, and `open` it as often as needed")
