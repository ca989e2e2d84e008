"""The engine: a program and its materialisation, kept equal to each other through updates.

An update passes through the components in topological order. Each component that something changed for is handed to
the algorithm that `maintenance` names for it (`choose`), and what changed in its relations is what changed below for
the components that read it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from tidelog.engine.agenda import Agenda
from tidelog.engine.aggregates import AggregateRule
from tidelog.engine.algorithms.choice import Algorithm, algorithm_for
from tidelog.engine.algorithms.policy import CountedRules, Counters
from tidelog.engine.algorithms.ranks import start_ranks_over
from tidelog.engine.algorithms.recomputation import recompute
from tidelog.engine.algorithms.recounting import recount
from tidelog.engine.compiled import AUXILIARY, CompiledRule, Node
from tidelog.engine.components import Nodes
from tidelog.engine.deltas import NOTHING, Appended, Changed, Explicit, RuleChange
from tidelog.engine.dropping import Dropped
from tidelog.engine.explicit import apply_explicit, follow_explicit
from tidelog.engine.marking.marking import CopyTable, expect_nothing, is_copy_of, renumber_expected
from tidelog.engine.marking.positive_marks import NO_WORDS
from tidelog.engine.modules.closure_deltas import ClosureDelta
from tidelog.engine.modules.closure_node import ClosureNode, ModuleUnfit
from tidelog.engine.modules.closure_registry import Closures
from tidelog.engine.modules.cores import Core, Cores
from tidelog.engine.observer import Attendant
from tidelog.engine.outcome import (
    LAZY_FROM,
    NO_REQUEST,
    NO_ROWS,
    AppendedRows,
    ChangedRows,
    Outcome,
    Request,
    Rows,
    StoredRows,
)
from tidelog.engine.reclaiming import Reclaiming
from tidelog.engine.renewal import Renewed
from tidelog.engine.rule_exchange import Exchange
from tidelog.engine.transaction import Limits, Transaction
from tidelog.errors import BrokenError, TidelogError
from tidelog.language.syntax import Rule, body_atoms
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine.jit import working_time
from tidelog.program.graph import RuleGraph
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store


class Engine:
    """The materialisation of a program. Not for use by several threads at once."""

    def __init__(
        self,
        maintenance: str = "auto",
        limits: Limits | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        modules: bool = True,
    ) -> None:
        self.store = Store()
        self.graph = RuleGraph()
        self.limits = limits or Limits()
        self.functions = functions if functions is not None else {}
        self.attendant: Attendant | None = None
        # The deletions that the last update marked, instances that it kept, and the rules by which marks are shared.
        self._marked: Rows = {}
        self._kept = NO_WORDS
        self._copies = CopyTable(self._copies_of)
        self._any_marks: bool | None = None
        self._algorithm: Algorithm = algorithm_for(maintenance)
        self._closures = Closures(self, enabled=modules)
        self._cores = Cores(self, enabled=modules)
        self.nodes = Nodes(self.store, self.graph, self._cores)
        # Rows of changes that nobody has looked at and somebody still may.
        self._unread: list[weakref.ref[AppendedRows]] = []
        # Time in updates, without compilation, by the first predicate of a component.
        self.seconds: dict[str, float] = {}
        # The counter that the derivations of each rule stand in.
        self.counted = CountedRules()
        self.reclaiming = Reclaiming(self.store)

    # --- rules --------------------------------------------------------------------------------------------------------

    def restore_rules(self, graph: RuleGraph) -> None:
        """Take the rules of a saved engine; nothing is derived."""
        self.graph = graph
        self.nodes = Nodes(self.store, graph, self._cores)

    def rule_text(self, number: int) -> str:
        rules = self.graph.rules
        return str(rules[number]) if number in rules else "a query"

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(self, request: Request, before_commit: Callable[[Outcome], None] | None = None) -> Outcome:
        """Apply an update, all or nothing. `before_commit` is the last that may fail; the outcome's facts are then
        still there.
        """
        self.reclaim_terms(request)
        self._begin_cores()
        while True:
            try:
                return self._update(request, before_commit)
            except ModuleUnfit as unfit:
                self._closures.give_up(unfit.predicate)
                self.counted.commit()

    def _begin_cores(self) -> None:
        """Let the cores begin that the update before this one has shown a need for; without, if that fails: a function
        that their rules call may not be registered, which is none of the next update's business.
        """
        if self._cores.wanted:
            try:
                self._update(Request(), None)
            except BrokenError:
                raise
            except (TidelogError, MemoryError):
                self._cores.want_none()

    def _update(self, request: Request, before_commit: Callable[[Outcome], None] | None) -> Outcome:
        began = working_time()
        self._make_ready()
        exchange = self._exchange_rules(request, began)
        transaction = self._begin(request, exchange, began)
        self.store.begin_relations()
        try:
            with transaction.window:
                self._pass(transaction, request, exchange)
                transaction.marking.finish(self._copies)
                kept = transaction.returning.finish()
                outcome = self._outcome(transaction)
            if before_commit is not None:
                before_commit(outcome)
        except BaseException as problem:
            try:
                with transaction.window:
                    self._roll_back(transaction, exchange)
            except MemoryError:
                raise BrokenError(BROKEN) from problem
            self._tidy(self.store.relations)
            raise
        self._marked, self._kept = transaction.marking.marked, kept
        with transaction.window:
            self._commit(transaction, exchange)
            self._tidy(map(self.nodes.relation, transaction.deltas))
        transaction.let_go()
        for aggregate in exchange.removed_aggregates:
            aggregate.retire()
        return outcome

    def _make_ready(self) -> None:
        """Do what an update may not find undone."""
        if self.attendant is not None:
            # Whoever looks in may look for any fact.
            self.store.breathe = self.attendant.breathe
            with self.attendant.window:
                self.store.complete_tables()
        for rows in (held() for held in self._unread):
            if rows is not None:
                rows.read()
        self._unread.clear()
        start_ranks_over(self.store)
        if self.store.code.crowded and self.store.code.make_room(self.nodes.words()):
            self._forget_all_plans()

    def _exchange_rules(self, request: Request, began: float) -> Exchange:
        """Change the rules; closures follow where they can."""
        if not request.remove_rules and not request.add_rules:
            return NO_EXCHANGE
        removed = {number: self.nodes.rule(number) for number in request.remove_rules}
        gone = {number: self.graph.rule(number) for number in removed}
        impact = self.graph.update(request.add_rules, request.remove_rules)
        exchange = Exchange(impact, gone, removed, tuple(self.nodes.aggregates_of(removed)))
        self._forget_marks()
        try:
            # Whoever compiles a rule, kernels count what it does.
            self.store.arrays.ensure_rules(self.graph.next_number)
            look = partial(self.limits.check_time, began)
            self._closures.leave(self.graph, exchange.heads, self._derived_afresh(gone), look)
        except BaseException:
            exchange.take_back(self.graph)
            self.counted.roll_back()
            raise
        # A rule that reads a closure which ends here needs other plans.
        exchange.forget_plans()
        return exchange

    def _begin(self, request: Request, exchange: Exchange, began: float) -> Transaction:
        transaction = Transaction(
            self.store,
            self.limits,
            self.functions,
            self.rule_text,
            self.attendant,
            self._kept,
            began,
        )
        self._kept = NO_WORDS
        if not exchange and self._passes_marks():
            transaction.marking.begin(set(request.add), self._algorithm.overdeletes)
        return transaction

    def _commit(self, transaction: Transaction, exchange: Exchange) -> None:
        transaction.commit()
        for predicate, delta in transaction.deltas.items():
            if not self.store.is_closure(predicate):
                relation = self.nodes.relation(predicate)
                relation.note_dead(delta.dead_count)
                self.reclaiming.note(delta.removed_count * relation.arity)
        self._closures.commit()
        self._cores.commit()
        self._cores.want(transaction.cyclic)
        self.nodes.forget_rules(exchange.removed)
        self.forget_counts(exchange.removed)
        self.counted.commit()

    def _roll_back(self, transaction: Transaction, exchange: Exchange) -> None:
        """Let all be as before the update; numbers of its rules and names of its relations will mean something else."""
        transaction.roll_back()
        self._closures.roll_back()
        self._cores.roll_back()
        exchange.take_back(self.graph)
        self.counted.roll_back()
        self.nodes.clear()
        self._forget_marks()
        self.store.retire_new_relations()

    def _derived_afresh(self, removed: Mapping[int, Rule]) -> set[str]:
        """The predicates of which nobody needs the facts of before as records if they are no closures any more: those
        that lose a rule, unless whoever looks in may know facts by their numbers, or another removed rule reads them:
        its component may come first now.
        """
        if self.attendant is not None:
            return set()
        heads = {rule.head.predicate for rule in removed.values()}
        read = {
            atom.predicate
            for rule in removed.values()
            for atom in body_atoms(rule)
            if atom.predicate != rule.head.predicate
        }
        return heads - read

    def _declare(self, request: Request) -> None:
        """See that every predicate of the update's facts has its relation."""
        for predicate, rows in (*request.add.items(), *request.delete.items()):
            self.store.relation(predicate, rows.shape[1])

    def _forget_marks(self) -> None:
        """Marks do not outlive a change of rules: other rules copy facts then, and facts may lie elsewhere."""
        expect_nothing(self.store)
        self._marked, self._kept = {}, NO_WORDS
        self._copies.forget()
        self._any_marks = None

    def _passes_marks(self) -> bool:
        """Whether a mark can ever reach a derived fact: where all components are counted or closures, none can."""
        if self.attendant is None:
            return False
        if self._any_marks is None:
            recursive = any(
                self.graph.component(predicate).recursive_rules and self._closures.get(predicate) is None
                for predicate in self.graph.predicates
            )
            self._any_marks = bool(self._algorithm.plain.marks or (recursive and self._algorithm.recursive.marks))
        return self._any_marks

    def _tidy(self, relations: Iterable[Relation]) -> None:
        """Close the gaps that deletions left. It can wait where memory is short."""
        with suppress(MemoryError):
            for relation in relations:
                alive = relation.tidy()
                if alive is not None:
                    renumber_expected(self.store, relation.number, alive)
                    # The facts that would come back are gone for good.
                    self._kept = NO_WORDS

    def _outcome(self, transaction: Transaction) -> Outcome:
        transaction.check_limits()
        removed: dict[str, ChangedRows] = {}
        added: dict[str, ChangedRows] = {}
        for predicate, delta in transaction.deltas.items():
            if not predicate.startswith("#"):
                gone, come = self._changed_rows(predicate, delta)
                if gone.count:
                    removed[predicate] = gone
                if come.count:
                    added[predicate] = come
        return Outcome(removed, added, transaction.work(), int(transaction.machine[M.ERRORS]))

    def _changed_rows(self, predicate: str, delta: Changed) -> tuple[ChangedRows, ChangedRows]:
        """The rows that left and came, for whoever looks at the change later: facts get other numbers in time."""
        if isinstance(delta, _WITH_ROWS):
            return delta.gone, delta.come
        if isinstance(delta, Appended):
            rows = AppendedRows(delta.relation, delta.start, delta.stop)
            if rows.count > LAZY_FROM:
                self._unread.append(weakref.ref(rows))
            else:
                rows.read()
            return NO_ROWS, rows
        relation = self.nodes.relation(predicate)
        return StoredRows(relation.rows(delta.removed)), StoredRows(relation.rows(delta.added))

    def _pass(self, transaction: Transaction, request: Request, exchange: Exchange) -> None:
        """Take the update through the components, in order."""
        self.store.look = transaction.check_limits
        self._declare(request)
        begun = self._closures.begin(exchange.heads)
        cores = self._cores.exchange((*exchange.heads, *self._closures.ended)) if exchange else self._cores.begin()
        for aggregate in exchange.removed_aggregates:
            aggregate.withdraw(transaction)
            transaction.collect([aggregate.relation])
        agenda = Agenda(self.graph)
        for predicate in (*request.delete, *request.add, *begun, *cores):
            agenda.push(predicate)
        for rule in exchange.removed.values():
            agenda.push(rule.head.name)
        for number in exchange.added:
            agenda.push(self.graph.rule(number).head.predicate)
        while agenda:
            transaction.look_around()
            predicate = agenda.pop()
            began = working_time()
            changed = self._maintain_component(transaction, predicate, request, exchange)
            self._push_readers(agenda, transaction, changed)
            self.seconds[predicate] = self.seconds.get(predicate, 0.0) + working_time() - began

    def _maintain_component(
        self, transaction: Transaction, predicate: str, request: Request, exchange: Exchange
    ) -> tuple[str, ...]:
        """Bring the component of a predicate up to date; the predicates whose readers may have to follow."""
        closure = self._closures.get(predicate)
        if closure is not None:
            self._maintain_closure(transaction, closure, request, exchange)
            return closure.module.predicates
        node = self.nodes.node(predicate)
        if self._can_drop(node, request, exchange):
            transaction.drop(node.relations[0])
            return ()
        self._maintain_groups(transaction, node, exchange)
        for core in self._cores.of(node.predicates):
            if core.is_concerned(request, transaction.deltas):
                self._maintain_core(transaction, core, request)
        explicit = apply_explicit(transaction, node, request)
        transaction.marking.went(node, request.delete, self._marked, self._copies)
        self._maintain(transaction, node, explicit, exchange.of_component(node))
        transaction.collect(node.relations)
        return node.predicates

    def _can_drop(self, node: Node, request: Request, exchange: Exchange) -> bool:
        """Whether all facts of a predicate go, and nobody needs to know which: see `engine.dropping`."""
        if node.rules or not exchange.removed or not self._algorithm.may_start_afresh:
            return False
        if self._closures.has_ended(node.predicates):
            return False
        name = node.predicates[0]
        # A removed rule is looked at only where its head has other rules; its facts go without reasoning otherwise.
        followed = any(self.graph.producers(rule.head.name) for rule in exchange.removed_readers(name))
        mentioned = bool(self.graph.readers(name)) or followed
        return not mentioned and not node.relations[0].explicit_count and name not in request.add

    def _push_readers(self, agenda: Agenda, transaction: Transaction, predicates: tuple[str, ...]) -> None:
        """Let the components that read what changed have their turn."""
        own = set(predicates)
        for predicate in predicates:
            if predicate in transaction.deltas:
                for number in self.graph.readers(predicate):
                    reader = self.graph.rule(number).head.predicate
                    if reader not in own:
                        agenda.push(reader)

    def _maintain_closure(
        self, transaction: Transaction, closure: ClosureNode, request: Request, exchange: Exchange
    ) -> None:
        """The bases of a closure like any component; then the closure itself."""
        predicates = closure.module.predicates
        if not closure.has_bases and any(len(request.add.get(predicate, NOTHING)) for predicate in predicates):
            raise ModuleUnfit(closure.module.predicate)
        for base in closure.bases:
            self._maintain_base(transaction, closure, base, request)
        begins = closure.begins
        deltas = self._closures.maintain(transaction, closure)
        if begins:
            exchange.forget_plans()
            for predicate in predicates:
                self.forget_plans(predicate)
        transaction.deltas.update((predicate, delta) for predicate, delta in deltas.items() if delta)

    def _maintain_core(self, transaction: Transaction, core: Core, request: Request) -> None:
        """A core like any closure, for the component that reads it and is in work."""
        errors, facts = int(transaction.machine[M.ERRORS]), self.store.arrays.rule_facts.copy()
        for base in core.bases:
            self._maintain_base(transaction, core, base, request)
        # The same instances count in the component itself.
        transaction.machine[M.ERRORS] = errors
        self.store.arrays.rule_facts[:] = facts
        deltas = self._cores.maintain(transaction, core)
        transaction.deltas.update((name, delta) for name, delta in deltas.items() if delta)

    def _maintain_base(self, transaction: Transaction, closure: ClosureNode, base: Node, request: Request) -> None:
        """Pairs that a closure starts from; one that begins gets them from all of its rules."""
        if closure.begins:
            predicate = base.predicates[0]
            rows = closure.first_explicit(predicate, request.delete.get(predicate), request.add.get(predicate))
            request = Request(add={predicate: rows})
        explicit = apply_explicit(transaction, base, request)
        self._maintain(transaction, base, explicit, closure.base_change(base))
        transaction.collect(base.relations)

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate lie elsewhere from now on: plan what reads or derives it again."""
        heads = self.nodes.forget_plans(predicate)
        for closure in (*map(self._closures.get, heads), *self._cores.of(heads)):
            if closure is not None:
                closure.forget_plans()
        self._forget_marks()

    def _forget_all_plans(self) -> None:
        """Too many of them are of rules that went: the code begins anew."""
        self.nodes.forget_all_plans()
        self._closures.forget_plans()
        self._cores.forget_plans()
        self._forget_marks()

    def forget_counts(self, rules: Iterable[int]) -> None:
        """The derivations of these rules are no longer counted."""
        for number in rules:
            self.counted.forget(number)

    def _maintain(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
        transaction.computes = node.computes or any(rule.normal.computes for rule in rules.removed)
        if self._starts_afresh(transaction, node, rules):
            self._start_afresh(transaction, node)
        elif node.rules or rules.removed:
            self._prepare_counters(transaction, node, rules)
            self._algorithm.maintain(transaction, node, explicit, rules)
        else:
            follow_explicit(transaction, node, explicit)

    def _starts_afresh(self, transaction: Transaction, node: Node, rules: RuleChange) -> bool:
        """Whether a component loses so much by its rules that what is left is materialised anew.

        Of the derivations that a closure stood for nothing is known: with its rules they go all together.
        """
        if rules.removed and self._closures.has_ended(node.predicates):
            return True
        if self._cores.have_ended(node.predicates):
            return True
        return self._algorithm.starts_afresh(transaction, node, rules)

    def _start_afresh(self, transaction: Transaction, node: Node) -> None:
        """Materialise a component again, with the counters that its algorithm keeps."""
        counters = self._algorithm.counters(node)
        for relation in node.relations:
            if counters is not Counters.NONE:
                relation.add_counters()
            pairs = self._closures.former_pairs(relation.name)
            if pairs is not None:
                transaction.before.note_former_closure(relation, pairs)
        recompute(transaction, node, counters, most_stays=False)
        self._note_counters(node, counters)

    def _prepare_counters(self, transaction: Transaction, node: Node, rules: RuleChange) -> None:
        """Let the counters of a component be those that its algorithm keeps, as of before the update."""
        counters = self._algorithm.counters(node)
        if counters is not Counters.NONE:
            for relation in node.relations:
                relation.add_counters()
        if node.keeps_count_alone or (node.counted == self.counted.version and not rules.removed):
            return  # As when it was last looked at.
        if counters is not Counters.NONE:
            before = [rule for rule in node.rules if rule.number not in rules.added_numbers]
            before.extend(rules.removed)
            if any(self._is_counted_otherwise(rule, counters) for rule in before):
                recount(transaction, node, before, counters)
        self._note_counters(node, counters)

    def _is_counted_otherwise(self, rule: CompiledRule, counters: Counters) -> bool:
        """An auxiliary rule is counted from when there is something to count for it."""
        counter = counters.of(rule.recursive, deleting=False)
        return rule.number != AUXILIARY and self.counted.get(rule.number) != counter

    def _note_counters(self, node: Node, counters: Counters) -> None:
        for rule in node.rules:
            if rule.number != AUXILIARY:
                self.counted.count(rule.number, counters.of(rule.recursive, deleting=False))
        node.counted = self.counted.version

    def _copies_of(self, relation: int) -> Iterator[tuple[CompiledRule, int]]:
        """The rules that only copy facts of a relation, and which facts pass their marks on through each."""
        predicate = self.store.relations[relation].name
        for number in self.graph.readers(predicate):
            rule = self.nodes.rule(number)
            if is_copy_of(rule, predicate) and self._closures.get(rule.head.name) is None:
                marks = self._algorithm.choice(self.nodes.node(rule.head.name)).marks
                if marks:
                    yield rule, marks

    def _maintain_groups(self, transaction: Transaction, node: Node, exchange: Exchange) -> None:
        for aggregate in self.nodes.aggregates_of(node.aggregated):
            transaction.computes = aggregate.normal.computes
            if exchange.adds(aggregate.number) or self._all_new(transaction, aggregate):
                aggregate.evaluate(transaction)
            else:
                aggregate.maintain(transaction)
            transaction.collect([aggregate.relation])

    def _all_new(self, transaction: Transaction, aggregate: AggregateRule) -> bool:
        return len(aggregate.relation) == 0 and any(
            atom.predicate in transaction.deltas and transaction.before.is_new(self.nodes.relation(atom.predicate))
            for atom in aggregate.normal.positives
        )

    def reclaim_terms(self, request: Request = NO_REQUEST) -> None:
        """Forget terms that are not in use, if they may be many; those of a request are about to be."""
        if self.reclaiming.is_due:
            self.reclaiming.look((*request.add.values(), *request.delete.values(), *self._marked.values()))

    # --- reading ------------------------------------------------------------------------------------------------------

    def explicit_relation(self, predicate: str) -> Relation | None:
        """Where the explicit facts of a predicate lie: in the base of a closure, or where all of its facts lie."""
        closure = self._closures.get(predicate)
        return self.store.find(predicate) if closure is None else closure.explicit_relation(predicate)

    @property
    def closures(self) -> Closures:
        return self._closures

    @property
    def cores(self) -> Cores:
        return self._cores

    def explicit_facts(self, relation: Relation) -> Cells:
        flags = relation.cells[: relation.count, relation.flags_column]
        return np.flatnonzero(flags & F.EXPLICIT).astype(np.int32)

    def holds(self, predicate: str, row: Cells, explicit: bool = False) -> bool:
        relation = self.explicit_relation(predicate) if explicit else self.store.find(predicate)
        if relation is None or relation.arity != len(row):
            return False
        if relation.closure is not None:
            # A closure whose explicit facts do not lie in a base has none.
            return not explicit and bool(relation.closure.contains(row[:1], row[1:])[0])
        fact = int(self.store.find_facts(relation, row.reshape(1, -1))[0])
        return fact >= 0 and bool(relation.cells[fact, relation.flags_column] & (F.EXPLICIT if explicit else F.IN))


NO_EXCHANGE = Exchange()
# Changes that hold the rows themselves.
_WITH_ROWS = (ClosureDelta, Dropped, Renewed)
BROKEN = (
    "memory was too short to take a failed update back, and this knowledge base is of no use any more; "
    "open its folder again, where it is as before that update, or build it anew with more memory"
)
