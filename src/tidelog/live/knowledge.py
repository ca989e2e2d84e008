"""A program with its facts: engine, catalogue and lock together, and how an update passes through them.

Whatever is wrong with an update is found before the engine sees it: texts are parsed, rules checked and facts encoded
first. Whatever may still fail comes before the engine commits, and the journal comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.modules.plugin import Module
from tidelog.engine.modules.plugin_registry import check_module, check_rules
from tidelog.engine.queries import derived_answers, needs_parts, run_query
from tidelog.engine.reclaiming import PassingTerms
from tidelog.engine.transaction.transaction import Observer
from tidelog.engine.update.deltas import Outcome, Request
from tidelog.engine.update.failures import NO_FAILURES, Failures
from tidelog.engine.update.runner import Limits, OutOfPatience
from tidelog.engine.what_if import what_if
from tidelog.errors import (
    ArityError,
    BrokenError,
    ConstraintError,
    EvaluationError,
    StorageError,
    TidelogError,
)
from tidelog.facts.arguments import (
    check_limits,
    check_on_error,
    checked_commit,
    checked_facts,
    checked_text,
    checked_time,
)
from tidelog.facts.encoding import (
    LoadedRows,
    check_arities_of,
    check_arity,
    encode_columns,
    encode_rows,
    in_time,
)
from tidelog.facts.equality import NO_CLASSES, Classes, ClassesOf, show_copies
from tidelog.facts.questions import Values, fact_of, query_of, refuse_new_windows, warn_of_unknown
from tidelog.facts.reading import Reader, names_in_use
from tidelog.facts.results import Answers, Change, Encoded, FactSet
from tidelog.language import DLOG, parse_program, parse_rules, render, syntax_named
from tidelog.language.checks import check_arities, foreign_functions
from tidelog.language.names import display_predicate, is_constraint, is_refusing
from tidelog.language.parameters import NO_VALUES
from tidelog.language.parse_messages import told_of
from tidelog.language.parser import parse_changes
from tidelog.language.records.types import check_types
from tidelog.language.syntax import Atom, Expiry, Program, Query, Rule, body_atoms, own_lattices
from tidelog.live.expiring.lifetimes import has_windows, is_of_time
from tidelog.live.origin import Origin
from tidelog.live.update_checks import UpdateChecks
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.program.equality import answer_rules
from tidelog.program.functions.registered import Lattice
from tidelog.runtime.knowledge_lock import KnowledgeLock, NotNow
from tidelog.runtime.signals import interruptible
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.explain.explainer import Explainer
    from tidelog.facts.paper_trace import PaperTracer
    from tidelog.facts.rule_instances import State
    from tidelog.formats.batch import FactBatch
    from tidelog.live.expiring.keeper import TimeKeeper
    from tidelog.live.expiring.preparation import Preparation
    from tidelog.live.subscriptions import Delivery, Subscriptions
    from tidelog.papers.trace import Trace
    from tidelog.proofs.failure import WhyNot
    from tidelog.proofs.proof import Proof
    from tidelog.storage.follower import Follower
    from tidelog.storage.home import Home

FactsByPredicate = Mapping[str, Any]
GivenFacts = FactsByPredicate | str | None
"""The facts of an update: rows by predicate, or a text in the language."""

NO_PROGRAM = Program()

_VIOLATED = "the update violates a constraint, and nothing of it has been applied:"
_VIOLATED_HINT = "give facts that satisfy the constraint; `@constraint warn :- …` would record violations instead"

# Of each constraint, so many violations are proved.
MOST_VIOLATIONS = 20

_ON_ERROR_HINT = 'mend the function, or test its arguments in the rule; `on_error="count"` would leave these out'

# Candidates that a query looks at for somebody who does not wait: about a millisecond.
A_MOMENT = 20_000

Found = TypeVar("Found")


class Committed:
    """What was committed last, for those who read while an update is in work. It must not refer to `Knowledge`, which
    has to go as soon as nobody uses it.
    """

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self.prefixes: dict[str, str] | None = None  # while an update is in work that may declare others

    @contextmanager
    def looking_back(self, at_rest: bool) -> Iterator[None]:
        """Within, everything is as before the update in work."""
        catalogue, now = self._catalogue, self._catalogue.prefixes
        with self._engine.past.looking_back(at_rest):
            try:
                if self.prefixes is not None:
                    catalogue.prefixes = self.prefixes
                yield
            finally:
                catalogue.prefixes = now


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
        check_on_error(on_error)
        self.maintenance = maintenance
        self.modules = modules
        self.on_error = on_error
        self.functions: dict[str, Callable[..., Any]] = {}
        self.engine = Engine(maintenance, Limits(max_facts, timeout), self.functions, modules)
        self.tracer = None if trace is None else self._tracer(trace)
        self.catalogue = catalogue = Catalogue()
        self.engine.printed = lambda rule: render(rule, catalogue.prefixes)  # must not refer to `self`: no cycles
        self.reader = Reader(self.engine, self.catalogue)
        self.checks = UpdateChecks(self.engine, self.catalogue, self.reader, self.functions)
        self._next_classes: Classes | None = None  # those after the update in work, where it is to be committed
        self._committed = Committed(self.engine, self.catalogue)
        self.lock = KnowledgeLock(self.engine.store.readers, self.engine.ask_for_pause, self._committed.looking_back)
        self.engine.let_in = self.lock.pause
        self.errors = NO_FAILURES  # matches that failed because an expression had no value
        self.commit_info: Mapping[str, str] = {}
        self.version = 0  # how many updates have been made
        self.clock: Callable[[], object] | None = None  # says what time it is
        self.keeper: TimeKeeper | None = None  # from when on time matters
        self.home: Home | None = None
        self.followed: Follower | None = None
        self._made_explainer: Explainer | None = None
        self._subscriptions: Subscriptions | None = None

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
        names = None if add_rules or remove_rules or self._says_time(time) else _predicates(add, delete)
        may_overtake = None if names is None else partial(self._may_overtake, names)
        with self.lock.working(may_overtake=may_overtake), self.using_terms(), self.terms_if_it_succeeds():
            self.engine.reclaim_terms()  # Here, too: updates that fail may get no further.
            outer, before = self._committed.prefixes, self.catalogue.prefixes
            self._committed.prefixes = before
            try:
                read = self._read(add, delete, add_rules, remove_rules, syntax)
                return self.apply(*read, checked_commit(commit), time)
            except BaseException:
                self.catalogue.prefixes = before
                raise
            finally:
                self._committed.prefixes = outer

    def _may_overtake(self, names: Iterable[object]) -> bool:
        """Whether an update of facts of these predicates touches nothing that the updates in work touch."""
        if self.keeper is not None:
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
                request, update = self._read(add, delete, add_rules, remove_rules, syntax)
                self.checks.check_types(request, update)
                preparation = self._prepared(request, update, time)
                request = request if preparation is None else preparation.request
                removed = self._rules(request.remove_rules)
                return self.tried(request, self._changing(request, removed, made=False))
            finally:
                self.catalogue.prefixes = before
                self._committed.prefixes = None

    def tried(self, request: Request, look: Callable[[Outcome], Found]) -> Found:
        """What `look` finds in the state that an update leads to, which is then taken back."""
        waiting = None if self.tracer is None else self.tracer.waiting
        try:
            return what_if(self.engine, request, look)
        except BrokenError as broken:
            self.lock.refuse(str(broken))
            raise
        finally:
            if self.tracer is not None:
                self.tracer.waiting = waiting or []

    def _read(
        self,
        add: GivenFacts,
        delete: GivenFacts,
        add_rules: str,
        remove_rules: str,
        syntax: str,
    ) -> tuple[Request, RuleUpdate]:
        """An update as it was given, checked and encoded. Its prefixes are declared: the caller may have to forget them
        again.
        """
        text, removing = checked_text(add_rules, "add_rules"), checked_text(remove_rules, "remove_rules")
        syntax_named(syntax)  # refuses an unknown one
        with self.reading(None if text or removing else _predicates(add, delete), partial(self.lock.pause, True)):
            return self._read_all(add, delete, text, removing, syntax)

    def _read_all(
        self, add: GivenFacts, delete: GivenFacts, text: str, removing: str, syntax: str
    ) -> tuple[Request, RuleUpdate]:
        names = partial(names_in_use, self.engine, self.catalogue.declared)
        program = interruptible(self.catalogue.parse_added, text, names, syntax, self.functions) if text else NO_PROGRAM
        self.catalogue.declare(program.prefixes)
        known = self.catalogue.names(self.functions)
        prefixes = self.catalogue.prefixes
        gone = parse_changes(removing, prefixes, syntax=syntax, names=known) if removing else NO_PROGRAM
        added, deleted = self._given(add, "add"), self._given(delete, "delete")
        with told_of(text if program.rules or program.expiries else removing, "<rules>"):
            return self._checked(added, deleted, program, gone)

    def _given(self, facts: object, part: str) -> FactsByPredicate:
        """The facts of an update, as rows by predicate or as a text; the prefixes of a text are declared."""
        if not isinstance(facts, str):
            return checked_facts(facts, part)
        names = partial(names_in_use, self.engine, self.catalogue.declared)
        program = interruptible(self.catalogue.parse_facts, facts, part, names)
        self.catalogue.declare(program.prefixes)
        return program.rows

    def update_encoded(self, request: Request, commit: Mapping[str, str] | None = None, at: object = None) -> Change:
        """The same for facts that are already encoded."""
        time = None if at is None else checked_time(at)
        with self.lock.working():
            update = RuleUpdate(dict(self.catalogue.arities))
            check_arities_of((request.add, request.delete), update.arities)
            return self.apply(request, update, checked_commit(commit), time)

    def add_program(self, text: str, syntax: str = DLOG) -> None:
        """Add the facts and rules of a text, and what it declares."""
        program = parse_program(text, syntax=syntax)
        self.catalogue.declare(program.prefixes)
        with self.lock.working(), told_of(text, "<program>"):
            try:
                request, update = self._checked(program.rows, {}, program, NO_PROGRAM)
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
            update = RuleUpdate(dict(self.catalogue.arities))
            rows = LoadedRows(self.engine)
            watched = _interruptible(self.lock.watched(batches))
            pause = partial(self.lock.pause, True)
            with self.reading(None, pause):
                for batch in in_time(watched, self.engine.limits.timeout):
                    predicate = self.catalogue.resolve(batch.predicate)
                    self.checks.refuse_facts_of_function(predicate)
                    self.checks.check_columns(batch, predicate, update.arities)
                    encoded = encode_columns(self.engine.store.terms, batch.columns)
                    self.checks.check_batch(batch, predicate, encoded)
                    rows.take(predicate, encoded, f"{batch.source} from line {batch.first_line} on")
                    pause()
            return self.apply(Request(add=rows.all()), update)

    def _checked(
        self, add: FactsByPredicate, delete: FactsByPredicate, program: Program, removed: Program
    ) -> tuple[Request, RuleUpdate]:
        """What an update asks for, and what it does to the catalogue. Of the program, the rules and declarations count;
        its facts are in `add`. Of what is removed, the rules and what no longer expires count.
        """
        functions, expiries = self.functions.keys(), (program.expiries, removed.expiries)
        update = self.catalogue.check(program.rules, removed.rules, functions, program.predicates, *expiries)
        keeper = self._keeper_for(update)
        if keeper is not None:
            keeper.check(update)
        for rule in program.rules:
            self.checks.warn_of_cross_product(rule)
        for name in add:
            self.checks.refuse_facts_of_function(self.catalogue.resolve(name), program.rules)
        added_rows = self.encode(add, update.arities)
        deleted_rows = self.encode(delete, update.arities)
        return Request(deleted_rows, added_rows, tuple(update.removed), tuple(update.added.values())), update

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
        preparation = self._prepared(request, update, at)
        if preparation is None:
            return self._made(request, update, commit)
        change = self._made(preparation.request, update, commit)
        assert self.keeper is not None
        self.keeper.committed(preparation)
        return change

    def replay(self, request: Request, update: RuleUpdate, commit: Mapping[str, str] | None = None) -> Change:
        """The same for an update that was made elsewhere before, with all that expired."""
        change = self._made(request, update, commit)
        self.resume_time((*request.delete, *request.add))
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
        self.errors += outcome.errors
        self.commit_info = commit or self.commit_info
        self.version += 1
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
            self._refuse(outcome.errors)
            self._refuse_violations(outcome.hidden)
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

    def _refuse(self, failures: Failures) -> None:
        """Raise where rule instances failed, if the user wants it so."""
        if failures and self.on_error == "raise":
            first = "\n".join(f"  {failure}" for failure in failures.first)
            raise EvaluationError(f"{failures.summary()}\n{first}\nhint: {_ON_ERROR_HINT}", failures)

    def _refuse_violations(self, derived: Iterable[str]) -> None:
        """Raise where the update in work, which has derived facts of these hidden predicates, violates a constraint.
        Its facts are proved as they would hold. What an update that is paused violates is no concern of this one.
        """
        violated = [name for name in derived if is_refusing(name)]
        if violated:
            with self.engine.store.borrowed():
                found = list(self._violations(violated, self.new_explainer()))
            shown = "\n".join(str(proof) for proof in found)
            count = sum(self.reader.count(name) for name in violated)
            more = f"\n… {count - len(found):,} more" if count > len(found) else ""
            raise ConstraintError(f"{_VIOLATED}\n{shown}{more}\nhint: {_VIOLATED_HINT}", found)

    def _constraints(self) -> Iterator[str]:
        """The predicates of constraints that are violated."""
        return (name for name in self.engine.graph.predicates if is_constraint(name) and self.reader.count(name))

    def _violations(self, names: Iterable[str], explainer: Explainer) -> Iterator[Proof]:
        for name in names:
            for row in self.reader.rows(name, most=MOST_VIOLATIONS).cells:
                yield from explainer.proofs(name, row, 1)

    def violations(self) -> list[Proof]:
        """Proofs of the violations of constraints that are only recorded."""

        def look() -> list[Proof]:
            with self._rules_of_proofs():
                return list(self._violations(self._constraints(), self.explainer()))

        return self.lock.read(look, alone=True)

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

    # --- time ---------------------------------------------------------------------------------------------------------

    def _says_time(self, at: int | None) -> bool:
        """Whether an update that comes at a time, or at any, may let time pass."""
        return at is not None or self.clock is not None

    def _keeper_for(self, update: RuleUpdate) -> TimeKeeper | None:
        """Who keeps time, if time matters, or will after an update."""
        if self.keeper is None and (update.expires or update.expires_no_longer or has_windows(update.added.values())):
            self._keep_time()
        return self.keeper

    def _keep_time(self) -> TimeKeeper:
        if self.keeper is None:
            from tidelog.live.expiring.keeper import TimeKeeper

            self.keeper = TimeKeeper(self.engine, self.reader, self.catalogue)
        return self.keeper

    def _prepared(self, request: Request, update: RuleUpdate, at: int | None) -> Preparation | None:
        """An update with all that time does to it, if it comes at a time, or time matters anyway."""
        if at is None and self.clock is not None:
            at = checked_time(self.clock())
        keeper = self._keeper_for(update) if at is None else self._keep_time()
        if keeper is None:
            return None
        with self.using_terms():
            return keeper.prepare(request, update, at)

    def resume_time(self, predicates: Iterable[str]) -> None:
        """Facts of these predicates have come from elsewhere; those of time among them count."""
        if self.keeper is not None:
            self.keeper.forget()
        elif any(map(is_of_time, predicates)) or has_windows(self.engine.graph.rules.values()):
            self._keep_time()

    def time(self) -> int | None:
        """The time, in microseconds."""
        return self.lock.read(lambda: None if self.keeper is None else self.keeper.known.now)

    def expiries(self) -> list[Expiry]:
        """What expires."""
        return self.lock.read(lambda: [] if self.keeper is None else list(self.keeper.known.expiries.values()))

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

    # --- questions ----------------------------------------------------------------------------------------------------

    def query(self, asked: str | Query, values: Values = NO_VALUES) -> Answers:
        """The answers of a query over the materialisation, with values in the place of its parameters."""
        return self.query_at(asked, values)[1]

    def query_at(
        self, asked: str | Query, values: Values = NO_VALUES, most: int | None = None, waits: bool = True
    ) -> tuple[int, Answers]:
        """The same, with the number of the update after which they are the answers. When there are `most`, no others
        are looked for. Who does not wait gets `NotNow` where somebody is in the way, or the search takes long.
        """
        patience = None if waits else A_MOMENT
        try:
            found = self.lock.read(lambda: (self.version, self._query(asked, values, most, patience)), True, waits)
        except OutOfPatience:
            raise NotNow from None
        if found[1] is not None:
            return found[0], found[1]
        if not waits:
            raise NotNow
        with self.lock.working():
            return self.version, self._query_with_parts(asked, values, most)

    def asked_query(self, asked: str | Query, values: Values) -> Query:
        """A query that is asked here, with values in the place of its parameters. The caller has the lock."""
        query = query_of(asked, values, self.catalogue, self.functions.keys())
        if self.keeper is not None:
            with told_of(asked, "<query>") if isinstance(asked, str) else nullcontext():
                refuse_new_windows(query, self.engine.graph.readers)
        return query

    def _query(self, asked: str | Query, values: Values, most: int | None, patience: int | None) -> Answers | None:
        """The answers of a query, unless parts of it must be derived first."""
        with self.reader.terms_for_a_question():
            query = self.asked_query(asked, values)
            if needs_parts(self.engine, query):
                return None
            return self._answers(*run_query(self.engine, query, most, patience))

    def _query_with_parts(self, asked: str | Query, values: Values, most: int | None) -> Answers:
        """The answers of a query for which rules are added that derive them, and then taken back."""
        with self.reader.terms_for_a_question():
            query = self.asked_query(asked, values)
            head, rules = answer_rules(query, self.engine.graph.equality)

            def look(outcome: Outcome) -> tuple[list[str], Cells, Failures]:
                names, cells = derived_answers(self.engine, head)
                return names, cells[:most], outcome.errors

            return self._answers(*self.tried(Request(add_rules=tuple(rules)), look))

    def _answers(self, names: list[str], cells: Cells, failures: Failures) -> Answers:
        self.note_errors(failures)
        return Answers(names, Encoded(cells, self.engine.store.terms.table), failures)

    def proofs(self, asked: object, limit: int, values: Values) -> list[Proof]:
        """The lowest proofs of a fact."""
        return self.lock.read(lambda: self._proofs(asked, limit, values), alone=True)

    def _proofs(self, asked: object, limit: int, values: Values) -> list[Proof]:
        with self.reader.terms_for_a_question(), self._rules_of_proofs():
            atom = self.fact(asked, values)
            warn_of_unknown(self.catalogue, atom.predicate, atom.arity)
            cells = self.reader.cells_of(atom.predicate, atom.row)
            return [] if cells is None else self.explainer().proofs(atom.predicate, cells, limit)

    def why_not(self, asked: object, values: Values) -> WhyNot:
        """What a fact lacks."""
        return self.lock.read(lambda: self._why_not(asked, values), alone=True)

    def _why_not(self, asked: object, values: Values) -> WhyNot:
        with self.reader.terms_for_a_question(), self._rules_of_proofs():
            atom = self.fact(asked, values)
            cells = self.reader.cells_of(atom.predicate, atom.row)
            return self.explainer().why_not(atom, cells, self.catalogue.arities)

    def _rules_of_proofs(self) -> AbstractContextManager[None]:
        """A context for the search for a proof. Plans that are made in flux serve one question; where the update in
        work changes rules, proofs wait for its end.
        """
        past = self.engine.past
        if not past.shown:
            return nullcontext()
        if past.rules_change:
            past.check_settled()
        return self.engine.store.borrowed()

    def note_errors(self, failures: Failures) -> None:
        """Count what failed in a question, or refuse it."""
        self.errors += failures
        self._refuse(failures)

    def fact(self, asked: object, values: Values = NO_VALUES) -> Atom:
        """The fact that is asked for, with values in the place of its parameters. The caller has the lock."""
        return fact_of(asked, values, self.catalogue)

    def explainer(self) -> Explainer:
        """Finds proofs of what holds now. In flux, it is made for one question."""
        if self.engine.past.shown:
            return self.new_explainer()
        if self._made_explainer is None:
            self._made_explainer = self.new_explainer()
        return self._made_explainer

    def new_explainer(self) -> Explainer:
        from tidelog.explain.explainer import Explainer

        return Explainer(self.engine, lambda: self.catalogue.prefixes)

    def holds(self, fact: object) -> bool:
        """Whether a fact is in the materialisation."""
        return self.lock.read(lambda: self._holds(fact))

    def _holds(self, fact: object) -> bool:
        atom = self.fact(fact)
        warn_of_unknown(self.catalogue, atom.predicate, atom.arity)
        return self.reader.holds(atom.predicate, atom.row)

    # --- facts on their way in ----------------------------------------------------------------------------------------

    def encode(self, facts: FactsByPredicate, arities: dict[str, int]) -> dict[str, Cells]:
        """Facts as rows of terms by predicate. What is learned about arities is added to `arities`."""
        encoded: dict[str, Cells] = {}
        for name, rows in facts.items():
            if encoded:
                self.engine.store.terms.between_blocks()
            predicate, cells = self.catalogue.resolve(name), self._encode_rows(name, rows)
            if cells is None:
                continue
            check_arity(arities, predicate, name, cells)
            encoded[predicate] = np.concatenate((encoded[predicate], cells)) if predicate in encoded else cells
        return encoded

    def _encode_rows(self, name: str, rows: Any) -> Cells | None:
        if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
            rows = interruptible(list, self.lock.watched(rows))  # The iterator may wait for other threads.
        return encode_rows(self.engine.store.terms, name, rows)

    def reading(self, names: Iterable[object] | None, between_blocks: Callable[[], None]) -> Reading:
        """A context in which the facts of an update are read: of these predicates, or nobody knows of which."""
        resolve = self.catalogue.resolve
        predicates = None if names is None else [resolve(name) for name in names if isinstance(name, str)]
        return Reading(self.engine, predicates, between_blocks)

    def using_terms(self) -> AbstractContextManager[None]:
        """A context in which nobody else encodes facts, beside an update in work that would let them."""
        return self.engine.store.hooks.using_terms()

    def terms_if_it_succeeds(self) -> PassingTerms:
        """A context for an update: if it fails, the next one may give its terms back."""
        return PassingTerms(self.engine, for_a_question=False)


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


def _predicates(*parts: GivenFacts) -> list[object] | None:
    """The predicates whose facts an update names; None where a text may name any."""
    if any(isinstance(facts, str) for facts in parts):
        return None
    return [name for facts in parts if isinstance(facts, Mapping) for name in facts]


def _interruptible(batches: Iterable[FactBatch]) -> Iterator[FactBatch]:
    """The batches of a reader. Signals may interrupt it: files can be long."""
    reader = iter(batches)
    while (batch := interruptible(next, reader, None)) is not None:
        yield batch
