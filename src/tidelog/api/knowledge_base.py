"""The Python front door: `KnowledgeBase`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from tidelog.api.notebook import progress_shown
from tidelog.api.reading import ReadableKnowledge
from tidelog.errors import TidelogError
from tidelog.extras import FILES, needing
from tidelog.facts.arguments import check_function, checked_marking, checked_text
from tidelog.facts.results import Change
from tidelog.formats.display import MOST_ROWS, counted, html_table, more_text, rich_table
from tidelog.language import DLOG, syntax_named
from tidelog.language.functions.registered import Lattice, Monotone
from tidelog.language.parts import whole_program
from tidelog.language.syntax import Query
from tidelog.live.incoming import GivenFacts
from tidelog.live.knowledge import Knowledge

if TYPE_CHECKING:
    from pathlib import Path
    from queue import Queue

    from tidelog.api.files import Loadable, Types
    from tidelog.engine.modules.plugin import Module
    from tidelog.facts.arguments import Time
    from tidelog.live.async_live import AsyncLive
    from tidelog.live.async_streams import AsyncStream
    from tidelog.live.fully_dynamic import Live
    from tidelog.live.streams import Stream
    from tidelog.live.subscriptions import OnChange, Subscription
    from tidelog.live.update_sources import Source, UpdateMapping


# A notebook draws the rules of a knowledge base unless there are more; `kb.graph` draws any number.
MOST_DRAWN = 16


class KnowledgeBase(ReadableKnowledge):
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
        super().__init__(Knowledge(maintenance, modules, max_facts, timeout, trace, on_error))
        self._knowledge.timing.clock = clock
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
        if to is None and self._knowledge.timing.clock is None:
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
        from tidelog.api.persistence import save

        with self._lock.working():
            save(self._knowledge, folder)

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
        from tidelog.api.persistence import opened

        with opened(folder, journal, read_only) as saved:
            with saved.fitting():
                kb = cls(**saved.image.options)
            for name, function in (functions or {}).items():
                kb.register(name, function)
            saved.restore(kb._knowledge, on_replay)
        kb._knowledge.timing.clock = clock
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
