"""The engine: a program and its materialisation, kept equal to each other through updates.

An update passes through the components in topological order. Each component that something changed for is brought up to
date by its algorithm (`engine.algorithms`), or as a closure (`engine.modules`). What changed in its relations is what
changed below for the components that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from tidelog.engine.algorithms.maintenance import ComponentMaintenance, note_shape
from tidelog.engine.algorithms.ranks import start_ranks_over
from tidelog.engine.components import NO_RULE_CHANGES, Nodes, RuleChanges
from tidelog.engine.marks import Marks
from tidelog.engine.modules.closure_module import ClosureModule
from tidelog.engine.modules.closure_node import ClosureNode, ModuleUnfit
from tidelog.engine.modules.closure_registry import Closures
from tidelog.engine.modules.exchange import TooManyRounds, maintain_recursion
from tidelog.engine.modules.general_module import GeneralModule
from tidelog.engine.modules.plugin_module import PluginModule
from tidelog.engine.modules.plugin_registry import Plugin, Plugins
from tidelog.engine.past import Past, Work
from tidelog.engine.reclaiming import Reclaiming
from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.task import apply_explicit
from tidelog.engine.transaction.transaction import Observer, Transaction
from tidelog.engine.update import rows as lazy_rows
from tidelog.engine.update.deltas import NO_REQUEST, EncodedFacts, Outcome, Request
from tidelog.engine.update.failures import failures_of
from tidelog.engine.update.rows import Rows
from tidelog.engine.update.runner import Functions, Limits, Runner, alone, let_nobody_in
from tidelog.engine.watching.watches import Watches
from tidelog.errors import BrokenError
from tidelog.language.functions.registered import is_monotone
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Rule
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine.jit import working_time
from tidelog.program.graph import Component, RuleGraph
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store, UpdateHooks

# Rules derive many facts of a predicate that has so many.
LARGE = 1 << 14

BROKEN = (
    "there was not enough memory to take a failed update back, and this knowledge base can no longer be used; "
    "open its folder again, where it is as it was before that update, or build it anew with more memory"
)


class Engine:
    """The materialisation of a program. Not for use by several threads at once."""

    def __init__(self, maintenance: str, limits: Limits, functions: Functions, modules: bool) -> None:
        self.store = Store()
        self.graph = RuleGraph()
        self.graph.monotone = partial(is_monotone, functions)
        self.limits = limits
        self.functions = functions
        self.printed: Callable[[Rule], str] = str  # a rule as messages show it
        self.observer: Observer | None = None
        self.maintenance = ComponentMaintenance(maintenance)
        self.plugins = Plugins(enabled=modules)
        self.closures = Closures(self, enabled=modules)
        self.nodes = Nodes(self.store, self.graph, self.closures, self.plugins)
        self.reclaiming = Reclaiming(self.store)
        self.watches = Watches(self.store, self.runner)
        self.reclaiming.add_holder(self.watches.held_rows)
        # Time in updates, without compilation, by the first predicate of a component.
        self.seconds: dict[str, float] = {}
        self.past = Past(self)
        # The predicates of updates whose facts are being read, each but the first beside another; None: any.
        self.coming: list[list[str] | None] = []
        self.let_in: Callable[[bool], None] = let_nobody_in  # other threads, while an update is paused
        self.let_read_during: Callable[[Callable[[], Any]], Any] = alone  # work that does not touch what they read
        self._marks = Marks(self)
        # Rows of changes, as far as they are still referred to, in records that the next update may change; with the
        # predicates that they are of.
        self._unread: WeakKeyDictionary[Rows, str] = WeakKeyDictionary()

    def restore_rules(self, graph: RuleGraph) -> None:
        """Take the rules of a saved engine; nothing is derived."""
        graph.monotone = self.graph.monotone
        self.graph = graph
        self.nodes = Nodes(self.store, graph, self.closures, self.plugins)

    def rule_text(self, number: int) -> str:
        rules = self.graph.rules
        return self.printed(rules[number]) if number in rules else "a query"

    def runner(self) -> Runner:
        """Runs kernels that only read."""
        runner = Runner(self.store, self.limits, self.functions, self.rule_text)
        runner.begin()
        return runner

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(self, request: Request, before_commit: Callable[[Outcome], None] | None = None) -> Outcome:
        """Apply an update, all or nothing. `before_commit` is the last thing that may fail; the facts of the outcome
        are then still there. While another update is paused, it must be one of facts that `may_overtake` it.
        """
        if self.past.works:
            with self.store.hooks.using_terms(), self._apart():
                return self._until_fit(request, before_commit)
        self.reclaim_terms(request)
        return self._until_fit(request, before_commit)

    def _until_fit(self, request: Request, before_commit: Callable[[Outcome], None] | None) -> Outcome:
        """Try an update, and again without each module that turns out to be unable to take it."""
        unfit: list[str] = []
        while True:
            try:
                return self._update(request, before_commit, unfit)
            except ModuleUnfit as problem:
                unfit.extend(problem.args)

    def take_in(self, plugin: Plugin) -> None:
        """Let a plug-in that has been declared take part from now on, or leave everything as it was."""
        for predicate in plugin.arities:
            self.forget_plans(predicate)
        present = {rule.head.predicate for rule in self.graph.rules.values()}
        try:
            self.update(Request(rearranged=tuple(name for name in plugin.heads if name in present)))
        except BaseException:
            self.plugins.withdraw(plugin)
            for predicate in plugin.arities:
                self.forget_plans(predicate)
            raise

    # --- overtaking ---------------------------------------------------------------------------------------------------

    def may_overtake(self, predicates: Iterable[str]) -> bool:
        """Whether an update of explicit facts of these predicates touches nothing that the updates in work touch, or
        that those which are being read will, and nothing that is watched together with that.
        """
        if self.graph.equality is not None:
            return False  # What a row stands for depends on the equality, which nothing may read.
        others = [self._claims_of(work) for work in tuple(self.past.works)]
        for coming in self.coming:
            if coming is None:
                return False
            others.append(self.claims(coming))
        return bool(others) and self.are_independent(self.claims(predicates), *others)

    def _claims_of(self, work: Work) -> frozenset[str]:
        """All predicates that an update in work may change; found when somebody asks."""
        if work.claims is None:
            changed = (*work.request.delete, *work.request.add, *work.rules.touched(self.graph))
            work.claims = self.claims(changed)
        return work.claims

    def are_independent(self, claims: frozenset[str], *others: frozenset[str]) -> bool:
        """Whether updates that may change these predicates, and others, have nothing to do with each other."""
        return all(claims.isdisjoint(other) and not self.watches.joins(claims, other) for other in others)

    def claims(self, predicates: Iterable[str]) -> frozenset[str]:
        """All predicates that may change where explicit facts or rules of some do."""
        return frozenset().union(*map(self.graph.dependents, predicates))

    def may_take_long(self, claims: Iterable[str]) -> bool:
        """Whether an update that may change these predicates may take long, few as its facts may be: rules derive many
        facts of one.
        """
        derived = (self.store.find(name) for name in claims if self.graph.producers(name))
        return any(relation is not None and relation.at_least() >= LARGE for relation in derived)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Within, an update leaves the one that is paused alone."""
        observer, self.observer = self.observer, None
        with self.store.apart(), self.closures.apart(), self.plugins.apart(), self.maintenance.counted.apart():
            try:
                yield
            finally:
                self.observer = observer

    def _update(
        self, request: Request, before_commit: Callable[[Outcome], None] | None, unfit: Iterable[str] = ()
    ) -> Outcome:
        """Try an update. The predicates in `unfit` meet facts that their modules cannot take."""
        began = working_time()
        self._make_ready(request)
        rules = self._change_rules(request, unfit, began)
        transaction = Transaction(
            self.store, self.limits, self.functions, self.rule_text, self.observer, began, self.let_in
        )
        transaction.let_read_during = self.let_read_during
        work = Work(transaction, rules, request)
        transaction.claims = partial(self._claims_of, work)
        place = None if self.observer is None else self.observer.place
        self.store.begin_relations()
        self.past.works.append(work)
        try:
            if self.observer is not None:
                # A stream may look for any fact.
                with transaction.window:
                    self.store.complete_tables(None if self.observer.streams else self._claims_of(work))
            if work is self.past.works[0]:
                self._marks.begin(transaction, place, request.add, bool(rules))
            with transaction.window:
                self._walk(work)
                transaction.marking.finish(self._marks.share)
                transaction.pause_at_its_end()
                outcome = self._outcome(transaction, request)
                transaction.pause_at_its_end()
            outcome.answers = self.watches.changed(transaction)
            if before_commit is not None:
                before_commit(outcome)
        except BaseException as problem:
            try:
                self.past.forget(work)
                with transaction.window:
                    transaction.roll_back()
                    self._roll_back(rules, self._claims_of(work) if self.past.works else ())
                    self.store.retire_new_relations()
            except MemoryError:
                raise BrokenError(BROKEN) from problem
            if not self.past.works:
                self._read_rows()
                self._tidy(self.store.relations)
            raise
        self.past.forget(work)
        if not self.past.works:
            self._marks.commit(transaction, place, bool(rules))
        with transaction.window:
            self._commit(transaction, rules)
            if not self.past.works:
                self._tidy(map(self.nodes.relation, transaction.deltas))
        transaction.let_go()
        for aggregate in rules.removed_aggregates:
            aggregate.retire()
        if rules:
            self._marks.forget_retired()
        return outcome

    # --- the beginning ------------------------------------------------------------------------------------------------

    def _make_ready(self, request: Request) -> None:
        """Do what an update must find done."""
        if self.observer is not None:
            self.store.hooks = UpdateHooks(self.observer.between_pieces)
        self._read_rows(request)
        if self.past.works:
            return  # An update that is paused goes on with the ranks and the plans that there are.
        start_ranks_over(self.store)
        if self.store.code.crowded and self.store.code.make_room(self.nodes.words()):
            # Too many plans are of rules that went: the code begins anew.
            self.nodes.forget_all_plans()
            self._marks.forget_rules()

    def _read_rows(self, request: Request | None = None) -> None:
        """Copy the rows of changes out of records that an update may change, or anything may."""
        if not self._unread:
            return
        of_facts = request is not None and not request.changes_rules
        claims = self.claims((*request.delete, *request.add)) if of_facts and request is not None else None
        for rows, predicate in list(self._unread.items()):
            if claims is None or predicate in claims:
                rows.read()
                del self._unread[rows]

    def _change_rules(self, request: Request, unfit: Iterable[str], began: float) -> RuleChanges:
        """Change the rules; closures follow where they can."""
        try:
            for name in unfit:
                self._give_up(name)
        except BaseException:
            self._roll_back(NO_RULE_CHANGES)
            raise
        if not request.changes_rules:
            return NO_RULE_CHANGES
        removed = {number: self.nodes.rule(number) for number in request.remove_rules}
        impact = self.graph.update(request.add_rules, request.remove_rules)
        rules = RuleChanges(impact, removed, self.nodes.aggregates_of(removed), request.rearranged)
        self._marks.forget_rules()
        try:
            # Kernels count the work of each rule by its number.
            self.store.rule_counts.ensure(self.graph.next_number)
            # Predicates that are derived afresh do not need their former facts as records, unless an observer knows
            # these by their numbers.
            afresh = set() if self.observer is not None else rules.unread_heads()
            self.closures.leave(rules.heads, afresh, partial(self.limits.check_time, began))
        except BaseException:
            self._roll_back(rules)
            raise
        # A rule that reads a closure which ends here needs other plans.
        rules.forget_plans()
        return rules

    def _give_up(self, name: str) -> None:
        """Leave a predicate, or the rules of a plug-in, to the general algorithms."""
        if name not in self.plugins:
            self.closures.give_up(name)
            return
        for predicate in self.plugins.give_up(name).arities:
            self.forget_plans(predicate)

    # --- the walk through the components ------------------------------------------------------------------------------

    def _walk(self, work: Work) -> None:
        """Take the update through the components, in topological order. The agenda holds those that it has yet to
        visit (the plan of ZodiacEdge, Algorithm 4, made while it runs).
        """
        transaction, request, rules, agenda = work.transaction, work.request, work.rules, work.agenda
        for predicate, rows in (*request.add.items(), *request.delete.items()):
            self.store.relation(predicate, rows.shape[1])
        followers = self._follow_rules(transaction, rules) if rules else ()
        self._push(agenda, (*request.delete, *request.add, *followers))
        while agenda:
            transaction.runner.pause()
            entry = heappop(agenda)
            while agenda and agenda[0] == entry:
                heappop(agenda)
            predicate, began = entry[1], working_time()
            work.visited.append(predicate)
            changed = self._maintain_component(transaction, predicate, request, rules)
            readers = (number for name in changed if name in transaction.deltas for number in self.graph.readers(name))
            self._push(agenda, {self.graph.rule(number).head.predicate for number in readers}.difference(changed))
            self.seconds[predicate] = self.seconds.get(predicate, 0.0) + working_time() - began
        work.is_at_its_end = True

    def may_join(self, predicates: Iterable[str]) -> bool:
        """Whether the update in work, which is paused, can take in another one of explicit facts of these predicates:
        it has come to nothing that this one touches, and asks for nothing of these predicates itself.
        """
        work = self.past.works[-1]
        asked = {*work.request.add, *work.request.delete}
        if work.is_at_its_end or not asked.isdisjoint(predicates):
            return False
        return self.claims(predicates).isdisjoint(work.visited)

    def join(self, delete: EncodedFacts, add: EncodedFacts) -> None:
        """Let the update in work, which `may_join` allows, take in another one: both are committed together."""
        work = self.past.works[-1]
        self._read_rows(Request(delete, add))
        for predicate, rows in (*delete.items(), *add.items()):
            self.store.relation(predicate, rows.shape[1])
        work.request.delete = {**work.request.delete, **delete}
        work.request.add = {**work.request.add, **add}
        self._push(work.agenda, (*delete, *add))
        work.claims = None

    def _push(self, agenda: list[tuple[int, str]], predicates: Iterable[str]) -> None:
        """Let the components of predicates have their turn."""
        for name in {self.graph.component(predicate).predicates[0] for predicate in predicates}:
            # A predicate that no rule mentions depends on nothing, and nothing depends on it.
            known = self.graph.component(name).rules or self.graph.readers(name)
            heappush(agenda, (self.graph.position(name) if known else -(1 << 62), name))

    def _follow_rules(self, transaction: Transaction, rules: RuleChanges) -> Iterator[str]:
        """Let closures and aggregates begin or end with their rules; the predicates that may change."""
        yield from self.closures.begin(rules.heads)
        for predicate, pairs in self.closures.former_pairs().items():
            transaction.undo.note_former_closure(self.nodes.relation(predicate), pairs)
        for aggregate in rules.removed_aggregates:
            aggregate.withdraw(transaction)
        yield from rules.touched(self.graph)
        # A predicate that leaves a recursion may no longer keep one value for each group.
        yield from (name for name in rules.heads if (found := self.store.find(name)) is not None and found.kept)

    def _maintain_component(
        self, transaction: Transaction, predicate: str, request: Request, rules: RuleChanges
    ) -> tuple[str, ...]:
        """Bring the component of a predicate up to date; its predicates."""
        component = self.graph.component(predicate)
        closures = self.closures.of(component.predicates)
        if any(closure.fed for closure in closures) or self.plugins.of(component, self.graph):
            self._maintain_recursion(transaction, component, closures, request, rules)
            return component.predicates
        for closure in closures:  # It is all of the recursion.
            begins = closure.begins
            with self.store.making_for(closure.relation):
                self.closures.maintain(transaction, closure, request)
            if begins:
                self._forget_plans_of(closures, rules)
            return closure.module.predicates
        node = self.nodes.node(predicate)
        self._maintain_aggregates(transaction, node, rules)
        explicit = apply_explicit(transaction, node, request)
        self._marks.went(transaction, node, request.delete)
        change = rules.of_component(node)
        # Where a closure went with its rules, nothing is known of the derivations that it stood for: they all go.
        afresh = bool(change.removed) and any(name in self.closures.ended for name in node.predicates)
        self.maintenance.maintain(transaction, node, explicit, change, afresh)
        transaction.collect(node.relations)
        return node.predicates

    def _maintain_aggregates(self, transaction: Transaction, node: Node, rules: RuleChanges) -> None:
        for aggregate in self.nodes.aggregates_of(node.aggregated):
            relation = self.nodes.relation(aggregate.normal.head.predicate)
            # Where the values were part of a recursion, there are no groups.
            aggregate.maintain(transaction, aggregate.number in rules.added or relation.kept is not None)
        if node.lattices:
            for aggregate in self.nodes.no_longer_grouped(node):
                aggregate.withdraw(transaction)

    def _maintain_recursion(
        self,
        transaction: Transaction,
        component: Component,
        closures: list[ClosureNode],
        request: Request,
        rules: RuleChanges,
    ) -> None:
        """Bring a component up to date that has closures or plug-ins beside other rules."""
        for closure in closures:
            self.closures.maintain_base(transaction, closure, request)
        node = self.nodes.node(component.predicates[0])
        self._maintain_aggregates(transaction, node, rules)
        afresh = note_shape(transaction, node) or any(closure.is_replaced for closure in closures)
        begin = any(closure.begins for closure in closures)
        # Somebody wants the plug-ins; closures are given up where they exchange too little.
        worth = sum(len(closure.relation) for closure in closures) if closures else inf
        explicit = apply_explicit(transaction, node, request)
        modules = [ClosureModule(transaction, closure, afresh) for closure in closures]
        if begin:
            # Their relations hold records no longer: what reads them needs other plans.
            self._forget_plans_of(closures, rules)
            node = self.nodes.node(component.predicates[0])
        change = rules.of_component(node)
        task = self.maintenance.task_beside_closures(transaction, node, explicit, change, afresh)
        parts = self.plugins.of(component, self.graph)
        for part in parts:
            self.maintenance.leave_uncounted(part.rules)
        plugins = [PluginModule(task, part, afresh) for part in parts]
        try:
            maintain_recursion((*modules, GeneralModule(task, modules, afresh), *plugins), worth)
        except TooManyRounds:
            raise ModuleUnfit(*(closure.module.predicate for closure in closures)) from None
        transaction.collect(node.relations)
        for module in modules:
            transaction.deltas.update(module.deltas())

    def _forget_plans_of(self, closures: Iterable[ClosureNode], rules: RuleChanges) -> None:
        rules.forget_plans()
        for closure in closures:
            for name in closure.module.predicates:
                self.forget_plans(name)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _outcome(self, transaction: Transaction, request: Request) -> Outcome:
        transaction.runner.check_limits()
        removed: dict[str, Rows] = {}
        added: dict[str, Rows] = {}
        hidden: list[str] = []
        for predicate, delta in transaction.deltas.items():
            if is_hidden(predicate):
                if delta.come.count:
                    hidden.append(predicate)
                continue
            for rows, changed in ((delta.gone, removed), (delta.come, added)):
                if rows.count:
                    changed[predicate] = rows
                # Rows that lie in records are copied before these change: when gaps are closed, or in the next update.
                if rows.in_records:
                    # A failure of the update that this one overtakes would close gaps as well.
                    alone = len(self.past.works) == 1
                    if alone and rows.count > lazy_rows.LAZY_FROM and self.nodes.relation(predicate).clean:
                        self._unread[rows] = predicate
                    else:
                        rows.copy_now()
        explicit = {
            predicate: change
            for predicate in (*request.delete, *request.add)
            if (change := transaction.explicit.get(self.explicit_relation(predicate)))  # type: ignore[arg-type]
        }
        with self.store.hooks.using_terms():
            failures = failures_of(self.store, self.rule_text, transaction.failed_groups)
        return Outcome(removed, added, explicit, transaction.work(), failures, hidden)

    def _commit(self, transaction: Transaction, rules: RuleChanges) -> None:
        transaction.commit()
        for predicate, delta in transaction.deltas.items():
            if not self.store.is_closure(predicate):
                relation = self.nodes.relation(predicate)
                relation.note_dead(delta.dead_count)
                self.reclaiming.note(delta.gone.count * relation.arity)
        self.closures.commit()
        self.plugins.commit()
        self.nodes.forget_rules(rules.removed)
        self.maintenance.counted.forget(rules.removed)
        self.maintenance.counted.commit()

    def _roll_back(self, rules: RuleChanges, claims: Iterable[str] = ()) -> None:
        """Let rules and closures be as before the update; what was compiled for it refers to what is gone. Beside an
        update that is paused, that is what it claims.
        """
        self.closures.roll_back()
        self.plugins.roll_back()
        rules.take_back(self.graph)
        self.maintenance.counted.roll_back()
        if self.past.works:
            for predicate in claims:
                self.nodes.forget_plans(predicate)
        else:
            self.nodes.clear()
            self._marks.forget()

    def _tidy(self, relations: Iterable[Relation]) -> None:
        """Close the gaps that deletions left. It can wait where memory is short."""
        with suppress(MemoryError):
            for relation in relations:
                alive = relation.tidy()
                if alive is not None:
                    self._marks.renumber(relation.number, alive)

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate have moved: plan what reads or derives it again."""
        self.nodes.forget_plans(predicate)
        self._marks.forget_rules()

    def reclaim_terms(self, request: Request = NO_REQUEST) -> None:
        """Forget terms that are not in use, if they may be many; those of a request are about to be, and what an update
        holds that is in work, or being read, is not known.
        """
        if self.reclaiming.is_due and not self.past.works and not self.coming:
            self.reclaiming.look((*request.add.values(), *request.delete.values(), *self._marks.deletions.values()))

    # --- reading ------------------------------------------------------------------------------------------------------

    def ask_for_pause(self) -> None:
        """Let the kernel that runs, if any, pause as soon as it can. For any thread."""
        self.store.machine[M.ASKED] = 1

    def explicit_relation(self, predicate: str) -> Relation | None:
        """Where the explicit facts of a predicate lie: in the base of a closure, or where all of its facts lie."""
        if self.past.shown:
            return self.past.explicit_relation(predicate)
        closure = self.closures.get(predicate)
        return self.store.find(predicate) if closure is None else closure.base.explicit_relation(predicate)

    def holds(self, predicate: str, row: Cells, explicit: bool = False) -> bool:
        relation = self.explicit_relation(predicate) if explicit else self.store.find(predicate)
        if relation is None or relation.arity != len(row):
            return False
        if relation.closure is not None:
            # A closure whose explicit facts do not lie in a base has none.
            return not explicit and bool(relation.closure.contains(row[:1], row[1:])[0])
        fact = int(self.store.find_facts(relation, row.reshape(1, -1))[0])
        return fact >= 0 and bool(
            relation.cells[fact, relation.flags_column] & (F.EXPLICIT if explicit else self.store.shown)
        )
