"""The engine: a program and its materialisation, kept equal to each other through updates.

An update passes through the components in topological order. Each component that something changed for is handed to
the algorithm that `maintenance` names for it (`choose`), and what changed in its relations is what changed below for
the components that read it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from tidelog.errors import BrokenError, TidelogError
from tidelog.language.syntax import Rule
from tidelog.program.graph import Component, RuleGraph
from tidelog.reason.agenda import Agenda
from tidelog.reason.aggregates import AggregateRule
from tidelog.reason.algorithms import Algorithm, algorithm_for
from tidelog.reason.changes import NOTHING, Appended, Changed, Explicit, RuleChange
from tidelog.reason.closures import ClosureDelta, ClosureNode, ModuleUnfit
from tidelog.reason.compiled import CompiledRule, Node, normal_form
from tidelog.reason.counting import recount
from tidelog.reason.dropping import Dropped, reads
from tidelog.reason.marking import CopyTable, expect_nothing, is_copy_of, renumber_expected
from tidelog.reason.modular import Closures
from tidelog.reason.outcome import LAZY_FROM, AppendedRows, ChangedRows, Outcome, Request, Rows, StoredRows
from tidelog.reason.policy import CountedRules, Counters
from tidelog.reason.ranks import start_ranks_over
from tidelog.reason.recomputation import recompute
from tidelog.reason.renewal import Renewed
from tidelog.reason.returning import NO_WORDS
from tidelog.reason.transaction import Attendant, Limits, Transaction
from tidelog.store.growth import pieces
from tidelog.store.jit import address, working_time
from tidelog.store.layout import F_EXPLICIT, F_IN, M_ERRORS
from tidelog.store.records import Cells
from tidelog.store.relation import Relation
from tidelog.store.store import Store
from tidelog.store.update_kernels import add_explicit, remove_explicit, set_facts


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
        self._any_terms: bool | None = None
        self._algorithm: Algorithm = algorithm_for(maintenance)
        self._rules: dict[int, CompiledRule] = {}
        self._aggregates: dict[int, AggregateRule] = {}
        self._nodes: dict[tuple[str, ...], tuple[Component, Node]] = {}
        self._closures = Closures(self, enabled=modules)
        # Rows of changes that nobody has looked at and somebody still may.
        self._unread: weakref.WeakSet[AppendedRows] = weakref.WeakSet()
        # Time in updates, without compilation, by the first predicate of a component.
        self.seconds: dict[str, float] = {}
        # The counter that the derivations of each rule stand in.
        self.counted = CountedRules()

    # --- rules --------------------------------------------------------------------------------------------------------

    def rule_text(self, number: int) -> str:
        rules = self.graph.rules
        return str(rules[number]) if number in rules else "a query"

    def _arity(self, predicate: str) -> int:
        for number in self.graph.producers(predicate):
            return self.graph.rule(number).head.arity
        for number in self.graph.readers(predicate):
            for atom in self._normal_atoms(number):
                if atom.predicate == predicate:
                    return atom.arity
        raise TidelogError(f"nothing is known of `{predicate}`")

    def _normal_atoms(self, number: int) -> Iterable[Any]:
        plain, aggregate = normal_form(self.graph.rule(number), number)
        normal = aggregate or plain
        return (*normal.positives, *normal.negatives)

    def _relation(self, predicate: str) -> Relation:
        found = self.store.find(predicate)
        return found if found is not None else self.store.relation(predicate, self._arity(predicate))

    def _compile(self, number: int) -> CompiledRule:
        component = self.graph.component(self.graph.rule(number).head.predicate)
        own = frozenset(component.predicates)
        known = self._rules.get(number)
        recursive = number in component.recursive_rules
        if known is not None and known.own == own and known.recursive == recursive:
            return known
        self.store.ensure_rules(number + 1)
        normal, aggregate = normal_form(self.graph.rule(number), number)
        if aggregate is not None and number not in self._aggregates:
            self._aggregates[number] = AggregateRule(self.store, number, aggregate)
        self._rules[number] = CompiledRule(self.store, number, normal, own, recursive)
        return self._rules[number]

    def _node(self, predicate: str) -> Node:
        """The component of a predicate, compiled."""
        component = self.graph.component(predicate)
        known = self._nodes.get(component.predicates)
        if known is not None and known[0] is component:
            return known[1]
        rules = [self._compile(number) for number in component.rules]
        relations = [self._relation(name) for name in component.predicates]
        node = Node(self.store, component.predicates, relations, rules)
        if known is not None:
            node.costs = known[1].costs  # with other rules, but what it took then is the best guess
        self._nodes[component.predicates] = (component, node)
        return node

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(self, request: Request, before_commit: Callable[[Outcome], None] | None = None) -> Outcome:
        """Apply an update, all or nothing. `before_commit` is the last that may fail; the outcome's facts are then
        still there.
        """
        while True:
            try:
                return self._update(request, before_commit)
            except ModuleUnfit as unfit:
                self._closures.give_up(unfit.predicate)
                self.counted.commit()

    def _update(self, request: Request, before_commit: Callable[[Outcome], None] | None) -> Outcome:
        if self.attendant is not None:
            # Whoever looks in may look for any fact.
            self.store.breathe = self.attendant.breathe
            with self.attendant.window or nullcontext():
                self.store.complete_tables()
        for rows in list(self._unread):
            rows.read()
        self._unread.clear()
        start_ranks_over(self.store)
        removed = {number: self._compile(number) for number in request.remove_rules}
        removed_aggregates = [self._aggregates[number] for number in removed if number in self._aggregates]
        impact = None
        if request.remove_rules or request.add_rules:
            gone = {number: self.graph.rule(number) for number in request.remove_rules}
            impact = self.graph.update(request.add_rules, request.remove_rules)
            self._forget_marks()
            try:
                self._closures.leave(self.graph, impact.heads, self._derived_afresh(gone))
            except BaseException:
                self.graph.take_back(impact, gone)
                self.counted.roll_back()
                raise
            for rule in removed.values():
                # A rule that reads a closure which ends here needs other plans.
                rule.forget_plans()
        transaction = Transaction(
            self.store,
            self.limits,
            self.functions,
            self.rule_text,
            self.attendant,
            self._kept,
            self._uses_terms(),
        )
        self._kept = NO_WORDS
        if impact is None and self._passes_marks():
            transaction.marking.begin(set(request.add), self._algorithm.overdeletes)
        relation_count = len(self.store.relations)
        try:
            added = impact.added if impact else ()
            self._declare(request)
            begun = self._closures.begin(impact.heads) if impact else ()
            self._pass(transaction, request, removed, added, removed_aggregates, begun)
            transaction.marking.finish(self._copies)
            kept = transaction.returning.finish()
            outcome = self._outcome(transaction)
            if before_commit is not None:
                before_commit(outcome)
        except BaseException as problem:
            try:
                transaction.roll_back()
                self._closures.roll_back()
                if impact:
                    self.graph.take_back(impact, gone)
                self.counted.roll_back()
                self._forget_compiled(relation_count)
            except MemoryError:
                raise BrokenError(BROKEN) from problem
            self._tidy(self.store.relations)
            raise
        transaction.commit()
        self._marked, self._kept = transaction.marking.marked, kept
        for predicate, delta in transaction.deltas.items():
            if not self.store.is_closure(predicate):
                self._relation(predicate).note_dead(delta.dead_count)
        self._closures.commit()
        with transaction.window:
            self._tidy(map(self._relation, transaction.deltas))
        transaction.let_go()
        for number in removed:
            self._rules.pop(number, None)
            self._aggregates.pop(number, None)
            self.counted.forget(number)
        self.counted.commit()
        return outcome

    def _derived_afresh(self, removed: Mapping[int, Rule]) -> set[str]:
        """The predicates of which nobody needs the facts of before as records if they are no closures any more: those
        that lose a rule, unless whoever looks in may know facts by their numbers.
        """
        return {rule.head.predicate for rule in removed.values()} if self.attendant is None else set()

    def _declare(self, request: Request) -> None:
        """See that every predicate of the update's facts has its relation."""
        for predicate, rows in (*request.add.items(), *request.delete.items()):
            self.store.relation(predicate, rows.shape[1])

    def _forget_compiled(self, relation_count: int) -> None:
        """After a failed update: numbers of its rules and names of its relations will mean something else next time."""
        self._rules.clear()
        self._aggregates.clear()
        self._nodes.clear()
        self._forget_marks()
        self.store.forget_relations(relation_count)

    def _forget_marks(self) -> None:
        """Marks do not outlive a change of rules: other rules copy facts then, and facts may lie elsewhere."""
        expect_nothing(self.store)
        self._marked, self._kept = {}, NO_WORDS
        self._copies = CopyTable(self._copies_of)
        self._any_marks = self._any_terms = None

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

    def _uses_terms(self) -> bool:
        """Whether kernels have to know what the terms in facts are: not where rules only join them."""
        if self.attendant is None or self.attendant.window is None:
            return True
        if self._any_terms is None:
            self._any_terms = any(_computes(rule) for rule in self.graph.rules.values())
        return self._any_terms

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
                removed[predicate] = gone
                added[predicate] = come
        return Outcome(removed, added, transaction.work(), int(transaction.machine[M_ERRORS]))

    def _changed_rows(self, predicate: str, delta: Changed) -> tuple[ChangedRows, ChangedRows]:
        """The rows that left and came, for whoever looks at the change later: facts get other numbers in time."""
        if isinstance(delta, ClosureDelta | Dropped | Renewed):
            return delta.gone, delta.come
        if isinstance(delta, Appended) and delta.stop - delta.start > LAZY_FROM:
            rows = AppendedRows(delta.relation, delta.start, delta.stop)
            self._unread.add(rows)
            return StoredRows(delta.relation.rows(NOTHING)), rows
        relation = self._relation(predicate)
        return StoredRows(relation.rows(delta.removed)), StoredRows(relation.rows(delta.added))

    def _pass(
        self,
        transaction: Transaction,
        request: Request,
        removed: dict[int, CompiledRule],
        added: tuple[int, ...],
        removed_aggregates: list[AggregateRule],
        begun: tuple[str, ...],
    ) -> None:
        """Take the update through the components, in order."""
        for aggregate in removed_aggregates:
            aggregate.withdraw(transaction)
            transaction.collect([aggregate.relation])
        fresh = frozenset(added)
        agenda = Agenda(self.graph)
        for predicate in (*request.delete, *request.add, *begun):
            agenda.push(predicate)
        for rule in removed.values():
            agenda.push(rule.head.name)
        for number in added:
            agenda.push(self.graph.rule(number).head.predicate)
        while agenda:
            transaction.look_around()
            predicate = agenda.pop()
            began = working_time()
            closure = self._closures.get(predicate)
            if closure is not None:
                self._maintain_closure(transaction, closure, request, removed, added)
                self._push_readers(agenda, transaction, (predicate,))
                self._spent(predicate, began)
                continue
            node = self._node(predicate)
            changes = NO_RULE_CHANGE
            if removed or added:
                changes = RuleChange.of(
                    (rule for rule in removed.values() if rule.head in node.relations),
                    (rule for rule in node.rules if rule.number in fresh),
                )
            if self._can_drop(node, request, removed):
                transaction.drop(node.relations[0])
                self._spent(predicate, began)
                continue
            self._maintain_groups(transaction, node, fresh)
            explicit = self._apply_explicit(transaction, node, request)
            transaction.marking.went(node, request.delete, self._marked, self._copies)
            self._maintain(transaction, node, explicit, changes)
            transaction.collect(node.relations)
            self._push_readers(agenda, transaction, node.predicates)
            self._spent(predicate, began)

    def _can_drop(self, node: Node, request: Request, removed: dict[int, CompiledRule]) -> bool:
        """Whether all facts of a predicate go, and nobody needs to know which: see `reason.dropping`."""
        if node.rules or not removed or not self._algorithm.may_start_afresh:
            return False
        if self._closures.has_ended(node.predicates):
            return False
        name = node.predicates[0]
        # A removed rule is looked at only where its head has other rules; its facts go without reasoning otherwise.
        followed = (rule for rule in removed.values() if self.graph.producers(rule.head.name))
        mentioned = bool(self.graph.readers(name)) or any(reads(rule, name) for rule in followed)
        return not mentioned and not node.relations[0].explicit_count and name not in request.add

    def _spent(self, predicate: str, began: float) -> None:
        self.seconds[predicate] = self.seconds.get(predicate, 0.0) + working_time() - began

    def _push_readers(self, agenda: Agenda, transaction: Transaction, predicates: tuple[str, ...]) -> None:
        """Let the components that read what changed have their turn."""
        for predicate in predicates:
            if predicate in transaction.deltas:
                for number in self.graph.readers(predicate):
                    reader = self.graph.rule(number).head.predicate
                    if reader not in predicates:
                        agenda.push(reader)

    def _maintain_closure(
        self,
        transaction: Transaction,
        closure: ClosureNode,
        request: Request,
        removed: dict[int, CompiledRule],
        added: tuple[int, ...],
    ) -> None:
        """The base of a closure like any component; then the closure itself."""
        predicate = closure.module.predicate
        if closure.base is None:
            if len(request.add.get(predicate, NOTHING)):
                raise ModuleUnfit(predicate)
        else:
            self._maintain_base(transaction, closure, closure.base, request, removed, added)
        begins = closure.begins
        delta = self._closures.maintain(transaction, closure)
        if begins:
            self._forget_plans(predicate, removed.values())
        if delta:
            transaction.deltas[predicate] = delta

    def _maintain_base(
        self,
        transaction: Transaction,
        closure: ClosureNode,
        base: Node,
        request: Request,
        removed: dict[int, CompiledRule],
        added: tuple[int, ...],
    ) -> None:
        """The pairs that a closure starts from; one that begins gets them from all of its rules."""
        if closure.begins:
            predicate = closure.module.predicate
            rows = closure.first_explicit(request.delete.get(predicate), request.add.get(predicate))
            request = Request(add={predicate: rows})
            changes = RuleChange.of((), base.rules)
        else:
            # The module's own rules derive nothing into the base.
            gone = [rule for rule in removed.values() if rule.head is closure.relation and not rule.recursive]
            changes = RuleChange.of(map(closure.base_rule, gone), (rule for rule in base.rules if rule.number in added))
        explicit = self._apply_explicit(transaction, base, request)
        self._maintain(transaction, base, explicit, changes)
        transaction.collect(base.relations)

    def _forget_plans(self, predicate: str, removed: Iterable[CompiledRule]) -> None:
        """The facts of a predicate lie elsewhere from now on: plan what reads or derives it again, in the update in
        work too.
        """
        for rule in removed:
            rule.forget_plans()
        self.forget_plans(predicate)

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate lie elsewhere from now on: plan what reads or derives it again."""
        for number in (*self.graph.readers(predicate), *self.graph.producers(predicate)):
            self._rules.pop(number, None)
            if number in self._aggregates:
                self._aggregates[number].forget_plans()
            head = self.graph.rule(number).head.predicate
            self._nodes.pop(self.graph.component(head).predicates, None)
            closure = self._closures.get(head)
            if closure is not None:
                closure.forget_plans()
        self._forget_marks()

    def forget_counts(self, rules: Iterable[int]) -> None:
        """The derivations of these rules are no longer counted."""
        for number in rules:
            self.counted.forget(number)

    def _maintain(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
        if self._starts_afresh(transaction, node, rules):
            self._start_afresh(transaction, node, explicit, rules)
        elif node.rules or rules.removed:
            self._prepare_counters(transaction, node, rules)
            self._algorithm.maintain(transaction, node, explicit, rules)
        else:
            for relation in node.relations:
                self._follow_explicit(relation, explicit)

    def _starts_afresh(self, transaction: Transaction, node: Node, rules: RuleChange) -> bool:
        """Whether a component loses so much by its rules that what is left is materialised anew.

        Of the derivations that a closure stood for nothing is known: with its rules they go all together.
        """
        if rules.removed and self._closures.has_ended(node.predicates):
            return True
        return self._algorithm.starts_afresh(transaction, node, rules)

    def _start_afresh(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
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
        if node.counted == self.counted.version and not rules.removed:
            return  # As when it was last looked at.
        if counters is not Counters.NONE:
            before = [rule for rule in node.rules if rule.number not in rules.added_numbers]
            before.extend(rules.removed)
            if any(self.counted.get(rule.number) != counters.of(rule.recursive, deleting=False) for rule in before):
                recount(transaction, node, before, counters)
        self._note_counters(node, counters)

    def _note_counters(self, node: Node, counters: Counters) -> None:
        for rule in node.rules:
            self.counted.count(rule.number, counters.of(rule.recursive, deleting=False))
        node.counted = self.counted.version

    def _copies_of(self, relation: int) -> Iterator[tuple[CompiledRule, int]]:
        """The rules that only copy facts of a relation, and which facts pass their marks on through each."""
        predicate = self.store.relations[relation].name
        for number in self.graph.readers(predicate):
            rule = self._compile(number)
            if is_copy_of(rule, predicate) and self._closures.get(rule.head.name) is None:
                marks = self._algorithm.choice(self._node(rule.head.name)).marks
                if marks:
                    yield rule, marks

    def _follow_explicit(self, relation: Relation, explicit: Explicit) -> None:
        """Without rules, I is E."""
        gone, come = explicit.deleted[relation.number], explicit.added[relation.number]
        if len(gone):
            relation.mark_unclean()
            set_facts(self.store.machine, relation.number, address(gone), len(gone), False)
        if len(come):
            set_facts(self.store.machine, relation.number, address(come), len(come), True)

    def _maintain_groups(self, transaction: Transaction, node: Node, added: frozenset[int]) -> None:
        for rule in node.rules:
            aggregate = self._aggregates.get(rule.number)
            if aggregate is None:
                continue
            if rule.number in added or self._all_new(transaction, aggregate):
                aggregate.evaluate(transaction)
            else:
                aggregate.maintain(transaction)
            transaction.collect([aggregate.relation])

    def _all_new(self, transaction: Transaction, aggregate: AggregateRule) -> bool:
        return len(aggregate.relation) == 0 and any(
            atom.predicate in transaction.deltas and transaction.before.is_new(self._relation(atom.predicate))
            for atom in aggregate.normal.positives
        )

    def _apply_explicit(self, transaction: Transaction, node: Node, request: Request) -> Explicit:
        """Change E for a component; an addition wins over a deletion of the same fact."""
        explicit = Explicit()
        for predicate, relation in zip(node.predicates, node.relations, strict=True):
            delete = request.delete.get(predicate)
            add = request.add.get(predicate)
            gone, come = NOTHING, NOTHING
            if delete is not None and len(delete):
                with transaction.window:
                    gone = self._change_explicit(transaction, relation, delete, adding=False)
            if add is not None and len(add):
                with transaction.window:
                    come = self._change_explicit(transaction, relation, add, adding=True)
            if len(gone) and len(come):
                gone, come = _apart(gone, come)
            transaction.marking.came(predicate, relation, len(come))
            explicit.deleted[relation.number] = gone
            explicit.added[relation.number] = come
        return explicit

    def _change_explicit(self, transaction: Transaction, relation: Relation, rows: Cells, adding: bool) -> Cells:
        rows = np.ascontiguousarray(rows, np.int32)
        transaction.reserve_log(len(rows))
        relation.complete_table()
        result = np.empty(len(rows), np.int32)
        kernel: Callable[..., int] = add_explicit if adding else remove_explicit
        if adding:
            relation.reserve(len(rows))
        count, at_rows, at_result = 0, address(rows), address(result)
        for first, last in pieces(len(rows), self.store.breathe):
            at = at_rows + 4 * relation.arity * first
            count += kernel(self.store.machine, relation.number, at, last - first, at_result + 4 * count)
        transaction.before.note_explicit_count(relation)
        relation.explicit_count += count if adding else -count
        return result[:count]

    # --- reading ------------------------------------------------------------------------------------------------------

    def explicit_relation(self, predicate: str) -> Relation | None:
        """Where the explicit facts of a predicate lie: in the base of a closure, or where all of its facts lie."""
        closure = self._closures.get(predicate)
        if closure is not None and closure.base is not None:
            return closure.base.relations[0]
        return self.store.find(predicate)

    @property
    def closures(self) -> Closures:
        return self._closures

    def explicit_facts(self, relation: Relation) -> Cells:
        flags = relation.cells[: relation.count, relation.flags_column]
        return np.flatnonzero(flags & F_EXPLICIT).astype(np.int32)

    def holds(self, predicate: str, row: Cells, explicit: bool = False) -> bool:
        relation = self.explicit_relation(predicate) if explicit else self.store.find(predicate)
        if relation is None or relation.arity != len(row):
            return False
        if relation.closure is not None:
            return bool(relation.closure.contains(row[:1], row[1:])[0])
        fact = int(self.store.find_facts(relation, row.reshape(1, -1))[0])
        return fact >= 0 and bool(relation.cells[fact, relation.flags_column] & (F_EXPLICIT if explicit else F_IN))


def _apart(gone: Cells, come: Cells) -> tuple[Cells, Cells]:
    """Facts that went and facts that came, each once, without those that did both."""
    both = np.intersect1d(gone, come, assume_unique=True)
    if not len(both):
        return gone, come
    return np.setdiff1d(gone, both, assume_unique=True), np.setdiff1d(come, both, assume_unique=True)


def _computes(rule: Rule) -> bool:
    """Whether a rule has more than atoms: comparisons, expressions or aggregates."""
    plain, aggregate = normal_form(rule, 0)
    return bool(aggregate is not None or plain.definitions or plain.conditions)


NO_RULE_CHANGE = RuleChange()
BROKEN = (
    "memory was too short to take a failed update back, and this knowledge base is of no use any more; "
    "open its folder again, where it is as before that update, or build it anew with more memory"
)
