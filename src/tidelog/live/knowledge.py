"""A program with its facts: engine, catalogue and lock together, and how an update passes through them.

Whatever is wrong with an update is found before the engine sees it (`incoming`). Whatever may still fail comes before
the engine commits, and the journal comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.engine.engine import Engine
from tidelog.engine.modules.plugin import Module
from tidelog.engine.modules.plugin_registry import check_module, check_rules
from tidelog.engine.reclaiming import PassingTerms
from tidelog.engine.transaction.transaction import Observer
from tidelog.engine.update.deltas import Outcome, Request
from tidelog.engine.update.runner import Limits
from tidelog.errors import ArityError, BrokenError, StorageError, TidelogError
from tidelog.facts.arguments import check_limits, checked_commit, checked_time
from tidelog.facts.encoding import (
    check_arities_of,
)
from tidelog.facts.equality import NO_CLASSES, Classes, ClassesOf, show_copies
from tidelog.facts.reading import Reader
from tidelog.facts.results import Change, FactSet
from tidelog.language import DLOG, parse_program, parse_rules, render
from tidelog.language.checks import check_arities, foreign_functions
from tidelog.language.functions.registered import Lattice
from tidelog.language.names import display_predicate
from tidelog.language.parse_messages import told_of
from tidelog.language.records.types import check_types
from tidelog.language.syntax import Rule, body_atoms, own_lattices
from tidelog.live.asking.committed import Committed
from tidelog.live.asking.proving import Proving
from tidelog.live.asking.questions import Questions
from tidelog.live.asking.trials import Trials
from tidelog.live.expiring.timing import Timing
from tidelog.live.failure_log import FailureLog
from tidelog.live.incoming import NO_PROGRAM, GivenFacts, Incoming, predicates_of
from tidelog.live.origin import Origin
from tidelog.live.update_checks import UpdateChecks
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.runtime.knowledge_lock import KnowledgeLock

if TYPE_CHECKING:
    from tidelog.facts.paper_trace import PaperTracer
    from tidelog.facts.rule_instances import State
    from tidelog.formats.batch import FactBatch
    from tidelog.live.subscriptions import Delivery, Subscriptions
    from tidelog.papers.trace import Trace
    from tidelog.storage.follower import Follower
    from tidelog.storage.home import Home


class Knowledge:
    """What a knowledge base consists of. `home` is the folder whose journal records each update, if there is one;
    `followed` is the folder of somebody else whose updates are taken in, and no others.
    """

    def __init__(
        self,
        maintenance: str = "auto",
        modules: bool = True,
        max_facts: int | None = None,
        timeout: float | None = None,
        trace: str | None = None,
        on_error: str = "count",
    ) -> None:
        check_limits(max_facts, timeout)
        self.failures = FailureLog(on_error)
        self.maintenance = maintenance
        self.modules = modules
        self.functions: dict[str, Callable[..., Any]] = {}
        self.engine = Engine(maintenance, Limits(max_facts, timeout), self.functions, modules)
        self.tracer = None if trace is None else self._tracer(trace)
        self.catalogue = catalogue = Catalogue()
        self.engine.printed = lambda rule: render(rule, catalogue.prefixes)  # must not refer to `self`: no cycles
        self.reader = reader = Reader(self.engine, catalogue)
        self._committed = Committed(self.engine, catalogue)
        self.lock = KnowledgeLock(self.engine.store.readers, self.engine.ask_for_pause, self._committed.looking_back)
        self.engine.let_in = self.lock.pause
        self.engine.let_read_during = self.lock.let_read_during
        self.trials = Trials(self.engine, self.lock, self.tracer)
        self.timing = Timing(self.engine, catalogue, reader, self.lock)
        self.checks = UpdateChecks(self.engine, catalogue, reader, self.functions)
        self.incoming = Incoming(self.engine, catalogue, self.lock, self.functions, self.checks, self.timing)
        self.proving = Proving(self.engine, catalogue, reader, self.lock)
        self.questions = Questions(
            self.engine,
            catalogue,
            reader,
            self.lock,
            self.functions.keys(),
            self._committed,
            self.trials,
            self.failures,
        )
        self._next_classes: Classes | None = None  # those after the update in work, where it is to be committed
        self.commit_info: Mapping[str, str] = {}
        self.home: Home | None = None
        self.followed: Follower | None = None
        self._subscriptions: Subscriptions | None = None

    @property
    def version(self) -> int:
        """How many updates have been made."""
        return self._committed.version

    def _tracer(self, trace: str) -> PaperTracer:
        from tidelog.facts.paper_trace import PaperTracer, check_trace

        check_trace(trace, self.maintenance)
        return PaperTracer(self.engine, self.maintenance)

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        commit: Mapping[str, str] | None = None,
        syntax: str = DLOG,
        at: object = None,
    ) -> Change:
        """Apply one update: deletions before additions, all or nothing. `syntax` is that of the rules, `at` the time at
        which its facts come in.
        """
        time = None if at is None else checked_time(at)
        is_of_facts = not (add_rules or remove_rules or self.timing.is_said(time))
        may_overtake = partial(self._may_overtake, add, delete) if is_of_facts else None
        with self.lock.working(may_overtake=may_overtake), self.using_terms(), self.terms_if_it_succeeds():
            self.engine.reclaim_terms()  # Here, too: updates that fail may get no further.
            outer, before = self._committed.prefixes, self.catalogue.prefixes
            self._committed.prefixes = before
            try:
                read = self.incoming.read(add, delete, add_rules, remove_rules, syntax)
                return self.apply(*read, checked_commit(commit), time)
            except BaseException:
                self.catalogue.prefixes = before
                raise
            finally:
                self._committed.prefixes = outer

    def _may_overtake(self, add: GivenFacts, delete: GivenFacts) -> bool:
        """Whether an update of these facts touches nothing that the updates in work touch."""
        names = predicates_of(add, delete)
        if names is None or self.timing.keeper is not None:
            return False  # What expires may be anywhere.
        if self.tracer is not None or self._committed.prefixes not in (None, self.catalogue.prefixes):
            return False
        return self.engine.may_overtake(self.catalogue.resolve(name) for name in names if isinstance(name, str))

    def what_if(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        syntax: str = DLOG,
        at: object = None,
    ) -> Change:
        """The change that an update would make. It is not made."""
        time = None if at is None else checked_time(at)
        with self.lock.working(), self.reader.terms_for_a_question():
            self.engine.reclaim_terms()
            before = self._committed.prefixes = self.catalogue.prefixes
            try:
                request, update = self.incoming.read(add, delete, add_rules, remove_rules, syntax)
                self.checks.check_types(request, update)
                preparation = self.timing.prepared(request, update, time)
                request = request if preparation is None else preparation.request
                removed = self._rules(request.remove_rules)
                return self.trials.look(request, self._changing(request, removed, made=False))
            finally:
                self.catalogue.prefixes = before
                self._committed.prefixes = None

    def update_encoded(self, request: Request, commit: Mapping[str, str] | None = None, at: object = None) -> Change:
        """The same for facts that are already encoded."""
        time = None if at is None else checked_time(at)
        with self.lock.working():
            update = RuleUpdate(dict(self.catalogue.arities))
            check_arities_of((request.add, request.delete), update.arities)
            return self.apply(request, update, checked_commit(commit), time)

    def add_program(self, text: str, syntax: str = DLOG, source: str = "<program>") -> None:
        """Add the facts and rules of a text, and what it declares. `source` is its name in messages."""
        program = parse_program(text, source, syntax=syntax, names=self.catalogue.names(self.functions))
        self.catalogue.declare(program.prefixes)
        with self.lock.working(), told_of(text, source):
            try:
                request, update = self.incoming.check(program.rows, {}, program, NO_PROGRAM)
                check_types(program.facts, update.declared, self.catalogue.prefixes)
                self.apply(request, update)
            except ArityError:
                # Facts have become rows by now. Their atoms say where they stand.
                check_arities((*program.predicates, *program.facts, *program.rules), {}, self.catalogue.prefixes)
                raise

    def load(self, batches: Iterable[FactBatch]) -> Change:
        """Add the facts that a reader yields, in one update. Limits hold while they are read."""
        with self.lock.working(), self.terms_if_it_succeeds():
            self.check_writable()
            self.engine.reclaim_terms()
            return self.apply(*self.incoming.load(batches))

    def check_writable(self) -> None:
        """Refuse updates of what somebody else writes."""
        if self.followed is not None:
            raise StorageError(
                f"{self.followed.folder} is open for reading only; `refresh` brings what its writer has done, and "
                "`open` without `read_only` gives a copy that can be changed"
            )

    def apply(
        self,
        request: Request,
        update: RuleUpdate,
        commit: Mapping[str, str] | None = None,
        at: int | None = None,
    ) -> Change:
        """Let the engine apply an update that has been checked; `update` is what it does to the catalogue, `at` when it
        comes, in microseconds.
        """
        self.check_writable()
        self.checks.check_types(request, update)
        preparation = self.timing.prepared(request, update, at)
        if preparation is None:
            return self._made(request, update, commit)
        change = self._made(preparation.request, update, commit)
        self.timing.committed(preparation)
        return change

    def replay(self, request: Request, update: RuleUpdate, commit: Mapping[str, str] | None = None) -> Change:
        """The same for an update that was made elsewhere before, with all that expired."""
        change = self._made(request, update, commit)
        self.timing.resume((*request.delete, *request.add))
        return change

    def _made(self, request: Request, update: RuleUpdate, commit: Mapping[str, str] | None) -> Change:
        if self._subscriptions is not None:
            self._subscriptions.let_go()
        first_number, removed = self.engine.graph.next_number, self._rules(request.remove_rules)
        changing = self._changing(request, removed, made=True)
        changes: list[Change] = []
        messages: list[Delivery] = []

        def before_commit(outcome: Outcome) -> None:
            changes.append(changing(outcome))
            if self._subscriptions is not None:
                messages.extend(self._subscriptions.messages(outcome.answers))
            if self.home is not None:
                from tidelog.storage.journal import Record

                prefixes = self.catalogue.prefixes
                rules, declared = request.add_rules, update.declared
                record = Record(request.add, request.delete, rules, removed, prefixes, declared, commit or {})
                self.home.record(record, self.engine.store.terms.table.decode, self.lock.let_read_during)

        try:
            outcome = self.engine.update(request, before_commit)
        except BrokenError as broken:
            self.lock.refuse(str(broken))
            raise
        self.catalogue.commit(update, first_number)
        self.reader.classes.commit(self._next_classes)
        self.failures.seen += outcome.errors
        self.commit_info = commit or self.commit_info
        self._committed.version += 1
        if messages and self._subscriptions is not None:
            self._subscriptions.publish(messages)
        return changes[0]

    def _rules(self, numbers: Iterable[int]) -> tuple[Rule, ...]:
        return tuple(map(self.engine.graph.rule, numbers))

    def _changing(self, request: Request, removed: tuple[Rule, ...], made: bool) -> Callable[[Outcome], Change]:
        """An update begins. What this gives turns its outcome into a change, before the commit."""
        before = None if self.tracer is None else self.tracer.begin()
        equality = self.engine.graph.equality
        classes = NO_CLASSES if equality is None else self.reader.classes.now()

        def change(outcome: Outcome) -> Change:
            self.failures.refuse(outcome.errors)
            self.proving.refuse_violations(outcome.hidden)
            trace = None if before is None else self._trace(before)
            explicit = outcome.explicit
            self._show_copies(outcome, (equality, classes), made)
            if not made:
                # What the rows are read from is about to be taken back.
                for rows in (*outcome.added.values(), *outcome.removed.values()):
                    rows.copy_now()
                explicit = {name: request.explicit(name) for name in (*request.delete, *request.add)}
            return self._change(outcome, trace, Origin(self, explicit, removed, request.add_rules, made))

        return change

    def _show_copies(self, outcome: Outcome, before: ClassesOf, made: bool) -> None:
        """Let an outcome tell of all facts that rows stand for under an equality."""
        equality, classes = before
        now = self.engine.graph.equality
        if equality is None and now is None:
            return
        changed = {*outcome.added, *outcome.removed}
        if now is not None and now != equality:
            self.checks.refuse_followed(now)
        if now != equality or (now is not None and now.predicate in changed):
            classes = self.reader.classes.now()
        show_copies(self.engine, outcome, before, (now, classes))
        if made:
            self._next_classes = classes

    def _trace(self, before: State) -> Trace:
        assert self.tracer is not None
        observer = self.engine.observer
        streams = observer is not None and observer.streams
        return self.tracer.end(before, streams, {} if observer is None else observer.ahead())

    def _change(self, outcome: Outcome, trace: Trace | None, origin: Origin) -> Change:
        table, display = self.engine.store.terms.table, self.catalogue.display
        added, removed = (
            {display(predicate): FactSet(table, rows, self.reader.columns(predicate)) for predicate, rows in facts}
            for facts in (outcome.added.items(), outcome.removed.items())
        )
        work = outcome.work if trace is None else dict.fromkeys(outcome.work, 0) | trace.work
        return Change(added, removed, work, outcome.errors, trace, origin)

    @contextmanager
    def observed(self, observer: Observer | None) -> Iterator[None]:
        """Let somebody observe the updates within."""
        self.engine.observer = observer
        try:
            yield
        finally:
            self.engine.observer = None

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules and queries call a function, or join values by a lattice."""
        with self.lock.working():
            joins = isinstance(function, Lattice)
            known = name in self.functions or name in self.missing_functions()
            if known and joins != (name in self.catalogue.lattices):
                kinds = ("a function", "a lattice")
                raise TidelogError(f"`{name}` is {kinds[not joins]} already, and cannot be {kinds[joins]}")
            if joins:
                self.catalogue.lattices |= {name}
            self.functions[name] = self.lock.guarded(function)
            self.engine.store.forget_function(name)

    def add_module(self, module: Module) -> None:
        """Let a module derive what follows from the rules that it declares."""
        text = check_module(module)
        with self.lock.working(), self.using_terms(), self.terms_if_it_succeeds():
            names = self.catalogue.names(self.functions)
            program = parse_program(text, f"<rules of {type(module).__name__}>", self.catalogue.prefixes, names=names)
            if program.facts or program.queries:
                parse_rules(text, self.catalogue.prefixes)  # refuses facts and queries, and says where they are
            rules = check_rules(program.rules, self.engine.printed)
            check_arities(rules, self.catalogue.arities, self.catalogue.prefixes)
            mentioned = {atom.predicate for rule in rules for atom in (rule.head, *body_atoms(rule))}
            prefixes = {**self.catalogue.prefixes, **dict(program.prefixes)}
            shown = {predicate: display_predicate(predicate, prefixes) for predicate in mentioned}
            plugin = self.engine.plugins.declare(module, rules, shown, self.engine.printed)
            try:
                self.engine.take_in(plugin)
            except BrokenError as broken:
                self.lock.refuse(str(broken))
                raise

    def missing_functions(self) -> list[str]:
        """The functions and lattices that rules name and that nobody has registered."""
        rules = self.engine.graph.rules.values()
        return sorted((foreign_functions(rules) | own_lattices(rules)) - self.functions.keys())

    # --- subscriptions ------------------------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> Subscriptions:
        """All subscriptions, loaded with the first one."""
        with self.lock.bare():
            if self._subscriptions is None:
                from tidelog.live.subscriptions import Subscriptions

                self._subscriptions = Subscriptions(self)
            return self._subscriptions

    def deliver(self, elsewhere: bool = False) -> None:
        """Tell subscriptions what updates have changed for them, or let another thread do so. For whoever has made an
        update, when it has given the lock back.
        """
        if self._subscriptions is not None:
            if elsewhere:
                self._subscriptions.deliver_elsewhere()
            else:
                self._subscriptions.deliver()

    # --- terms --------------------------------------------------------------------------------------------------------

    def using_terms(self) -> AbstractContextManager[None]:
        """A context in which nobody else encodes facts, beside an update in work that would let them."""
        return self.engine.store.hooks.using_terms()

    def terms_if_it_succeeds(self) -> PassingTerms:
        """A context for an update: if it fails, the next one may give its terms back."""
        return PassingTerms(self.engine, for_a_question=False)
