"""Closure modules in maintenance (Modular, sections 5 and 6), with one difference: pairs are not stored.

A component whose recursion is a closure splits in two. Below lies its base (`closure_base`). On top lies the closure, a
data structure (`closures`) that takes the changes of the base and answers for all pairs. Rules that read the predicate
see it as a relation whose records are just the pairs that changed in the update in work; they are listed only if such a
rule asks. Predicates that are twins (`program.twins`) all show the one closure.

A closure inside a larger recursion is *fed*: rules of that recursion derive more edges for it, into a relation for each
of its predicates. `closure_module` lets it take part in the exchange of the recursion (`exchange`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from weakref import WeakSet

import numpy as np

from tidelog.closures.closed_graph import NO_EDGES, Watch, watch_nothing
from tidelog.closures.closure import Closure, ReadableClosure
from tidelog.closures.directed import DirectedGraph
from tidelog.closures.edges import Edges
from tidelog.closures.history import ClosureChange
from tidelog.closures.layers import LayeredClosure
from tidelog.closures.symmetric import SymmetricGraph
from tidelog.engine.modules.closure_base import FED, ClosureBase, relation_name
from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.task import explicit_rows
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update import pair_sets
from tidelog.engine.update import rows as lazy_rows
from tidelog.engine.update.deltas import MOST_KEPT, Delta, ExplicitChange, RuleChange
from tidelog.engine.update.pair_sets import CheckLimits, ClosurePairs, Pairs, StoredPairs
from tidelog.engine.update.rows import Rows
from tidelog.errors import StorageError
from tidelog.language.syntax import Rule
from tidelog.machine import flags as F
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

NO_PAIRS: Cells = np.empty((0, 2), np.int32)


class ModuleUnfit(Exception):
    """An update that closure modules cannot take, or not well: the predicates it names must go back to the general
    algorithms.
    """


def fed_name(predicate: str, module: Module) -> str:
    """The name of the relation into which other rules of a recursion derive edges of a closure."""
    return relation_name(FED, predicate, module)


class Member(NamedTuple):
    """A predicate that shows the closure, as it is or turned round."""

    relation: Relation
    turned: bool

    def view_of(self, closure: ReadableClosure) -> ReadableClosure:
        return closure.turned() if self.turned else closure


def _yield(module: Module) -> tuple[Kind, Diagonal, bool]:
    """What decides which pairs follow from a base, and from which bases any do."""
    return module.kind, module.diagonal, module.needs_distinct_values


class ClosureNode:
    """A component that is a closure: its base, and the structure on top."""

    def __init__(self, store: Store, module: Module, rules: dict[int, Rule], fed: Collection[str] = ()) -> None:
        """`fed` are the predicates for which rules of the same recursion derive edges, beside the module."""
        self._store = store
        self.base = self._base_of(module, rules)
        self.fed = frozenset(fed)
        turned = {module.predicate: False, **{twin.predicate: twin.turned for twin in module.twins}}
        self._by_predicate = {name: Member(store.relation(name, 2), turned[name]) for name in module.predicates}
        self.members = tuple(self._by_predicate.values())
        self.relation = self.members[0].relation  # that of the leader
        self.layers = self._empty_layers()
        self._unread: WeakSet[Rows] = WeakSet()  # those of the last change that are still referred to
        # What the update in work does: whether the closure begins, the pairs of before where it replaces records or
        # another closure, and the closure, the base and what was fed before where it follows other rules.
        self.begins = False
        self._former: dict[str, Pairs] = {}
        self._before: tuple[LayeredClosure, ClosureBase, frozenset[str]] | None = None

    def _base_of(self, module: Module, rules: dict[int, Rule]) -> ClosureBase:
        return ClosureBase(self._store, module, rules)

    def _empty_layers(self) -> LayeredClosure:
        return LayeredClosure(self._empty_closure)

    def _empty_closure(self) -> Closure:
        kind = SymmetricGraph if self.module.kind is Kind.SYMMETRIC_TRANSITIVE else DirectedGraph
        graph = kind("closure" if self.module.diagonal is Diagonal.CLOSURE else "given")
        graph.pause = lambda: self._store.hooks.within_closure()
        return Closure(graph)

    @property
    def closure(self) -> Closure:
        """The closure of all edges."""
        return self.layers.shown

    def fed_relation(self, predicate: str) -> Relation:
        """Where rules of the same recursion derive edges, each as a pair of the predicate."""
        return self._store.relation(fed_name(predicate, self.module), 2)

    def fed_members(self) -> Iterator[tuple[Relation, bool]]:
        """The relations of fed edges, each with whether its pairs lie the other way round."""
        return ((self.fed_relation(name), self._by_predicate[name].turned) for name in sorted(self.fed))

    @property
    def module(self) -> Module:
        return self.base.module

    @property
    def rules(self) -> dict[int, Rule]:
        return self.base.rules

    # --- what it shows ------------------------------------------------------------------------------------------------

    def views(self) -> Iterator[tuple[str, ReadableClosure]]:
        """What each predicate shows of the closure."""
        return ((member.relation.name, member.view_of(self.closure)) for member in self.members)

    def view(self, predicate: str) -> ReadableClosure:
        return self._by_predicate[predicate].view_of(self.closure)

    def views_before(self) -> dict[str, ReadableClosure]:
        """What each predicate showed before the update in work, to be asked at each pause anew; nothing where its
        records tell that.
        """
        layers = self.layers if self._before is None else self._before[0]
        former = None if self.begins else layers.former()
        return {} if former is None else {member.relation.name: member.view_of(former) for member in self.members}

    @property
    def base_before(self) -> ClosureBase | None:
        """The base before the update in work; None if there was none."""
        if self.begins:
            return None
        return self.base if self._before is None else self._before[1]

    def pairs(self, predicate: str) -> ClosurePairs:
        """The pairs that a predicate shows now."""
        return ClosurePairs(self.closure, self._by_predicate[predicate].turned)

    def _show(self) -> None:
        """Become the contents of all relations."""
        for member in self.members:
            member.relation.become_closure(member.view_of(self.closure))

    def show_again(self) -> None:
        """What is shown may be another layer from now on; records stay."""
        for member in self.members:
            member.relation.see_closure(member.view_of(self.closure))

    # --- beginning and ending -----------------------------------------------------------------------------------------

    def follow_records(self, former: Mapping[str, Pairs]) -> None:
        """Take the place of records when the update comes to this component; until then the relation shows what was.
        `former` are the pairs of closures that end in the same update, of which the records hold the explicit ones
        only.
        """
        self.begins = True
        self._former = dict(former)

    def first_explicit(self, predicate: str, delete: Cells | None, add: Cells | None) -> Cells:
        """The explicit facts that a closure begins with, after the deletions and additions of the update."""
        rows = explicit_rows(self._store.relation(predicate, 2))
        if delete is not None and len(delete):
            rows = rows[~StoredPairs(delete).contains(rows)]
        return rows if add is None else np.concatenate((rows, add))

    def explicit_change(self, predicate: str, delete: Cells | None, add: Cells | None) -> ExplicitChange:
        """What the deletions and additions of the update change in the explicit facts that there were."""
        before = StoredPairs(explicit_rows(self._store.relation(predicate, 2)))
        given = NO_PAIRS if add is None else add
        gone = NO_PAIRS if delete is None else delete[before.contains(delete)]
        gone, come = gone[~StoredPairs(given).contains(gone)], given[~before.contains(given)]
        return ExplicitChange(*(rows if len(rows) <= MOST_KEPT else None for rows in (gone, come)))

    def take_over(self, watch: Watch = watch_nothing) -> None:
        """Become the contents of the relations, with the pairs that follow from the base as it is now."""
        edges = self.base.edges(self.base.rows())
        if len(edges[0]):
            self.layers.add_safe(edges, watch)
        # What it takes the place of is not what it was before that.
        self.layers.forget()
        # Last, since records are emptied: whatever failed before has changed nothing.
        for member in self.members:
            member.relation.was_empty = True
        self._show()

    def restore(self) -> None:
        """Become the contents of the relations when a saved engine is open again."""
        if self.base.is_unfit(self.base.rows()):
            raise StorageError(f"`{self.module.predicate}` was saved as a closure, and with floats it is none")
        self.take_over()
        for relation, turned in self.fed_members():
            self.layers.add_more(self.layers.needed(self.fed_edges(relation.rows(), turned)), watch_nothing)
            self.layers.forget()
        self.show_again()

    def hand_back(self, explicit_only: bool, check_limits: CheckLimits) -> None:
        """Put the pairs into records again, as they are between two updates; or the explicit ones alone."""
        try:
            for member in self.members:
                self._record(member, explicit_only, check_limits)
        except BaseException:
            self.come_back()
            raise

    def _record(self, member: Member, explicit_only: bool, check_limits: CheckLimits) -> None:
        relation, closure = member.relation, member.view_of(self.closure)
        explicit = self.base.explicit_rows(relation.name)
        relation.become_closure(None)
        # Explicit ones first: a row that is there already keeps its flags.
        relation.load(explicit, F.IN | F.OLD | F.EXPLICIT)
        if not explicit_only:
            relation.reserve(len(closure))
            for pair in closure.pairs(pair_sets.PIECE):
                relation.load(np.stack(pair, axis=1), F.IN | F.OLD)
                check_limits()
        relation.explicit_count = len(explicit)
        relation.ranked = False
        relation.settle_start()

    def come_back(self) -> None:
        """The closure does not end after all: be the contents of the relations again."""
        self._show()
        for member in self.members:
            member.relation.explicit_count = 0
        self.base.forget_plans()

    def retire(self) -> None:
        """The closure has ended for good."""
        self.base.retire()
        self.retire_fed(self.fed)

    def retire_fed(self, predicates: Iterable[str]) -> None:
        for predicate in predicates:
            self._store.retire(self.fed_relation(predicate))

    # --- other rules --------------------------------------------------------------------------------------------------

    @property
    def follows_rules(self) -> bool:
        """Whether the update in work has changed the rules."""
        return self._before is not None

    def can_follow(self, module: Module) -> bool:
        """Whether a module has the same base."""
        ours = self.module
        return (module.base, module.inverse, module.linear, module.twins) == (
            *(ours.base, ours.inverse, ours.linear, ours.twins),
        )

    def follow_rules(self, module: Module, rules: dict[int, Rule], fed: Collection[str]) -> None:
        """Other rules feed the base from now on, or the closure itself. Where the module is another one, so is the
        closure on top.
        """
        self._before = self.layers, self.base, self.fed
        self.base, self.fed = self._base_of(module, rules), frozenset(fed)
        if _yield(module) != _yield(self._before[1].module) or self.fed != self._before[2]:
            self.start_over()

    def start_over(self) -> None:
        """Let the closure be built from the whole of its base, beside what it was."""
        if self.begins or self._former:
            return
        if self._before is None:
            self._before = self.layers, self.base, self.fed
        self._former = {member.relation.name: ClosurePairs(self.closure, member.turned) for member in self.members}
        self.layers = self._empty_layers()

    def base_change(self, node: Node) -> RuleChange:
        """How the update in work changes the rules of a component of the base."""
        if self.begins:
            return RuleChange((), tuple(node.rules))
        return self.base.change_since(None if self._before is None else self._before[1], node)

    # --- updates ------------------------------------------------------------------------------------------------------

    @property
    def is_replaced(self) -> bool:
        """Whether the update in work builds the closure from the whole of its base."""
        return self.begins or bool(self._former)

    def maintain(self, transaction: Transaction) -> dict[str, Delta]:
        """Take the change of the base into the closure, or begin from the whole of the base; what that changed."""
        if self.is_replaced:
            self.replace(transaction)
            return self.compared(transaction)
        gone, come = self.changed_edges(transaction)
        return self._apply(transaction, gone, come) if len(gone[0]) or len(come[0]) else {}

    def changed_edges(self, transaction: Transaction) -> tuple[Edges, Edges]:
        """The edges that the base has lost and won."""
        delta = transaction.deltas.get(self.base.predicate)
        if not delta:
            return NO_EDGES, NO_EDGES
        gone, come = map(self._rows, delta.listed())
        self.refuse_unfit(come)
        return self._edges(gone), self._edges(come)

    def _rows(self, facts: Cells) -> Cells:
        return self.base.rows(facts) if len(facts) else NO_PAIRS

    def _edges(self, rows: Cells) -> Edges:
        return self.base.edges(rows) if len(rows) else NO_EDGES

    def fed_edges(self, rows: Cells, turned: bool) -> Edges:
        """Rows of a relation of fed edges as edges of the closure."""
        self.refuse_unfit(rows)
        return self.base.edges(rows[:, ::-1] if turned else rows)

    def _apply(self, transaction: Transaction, gone: Edges, come: Edges) -> dict[str, Delta]:
        """Take edges out of the closure and into it; how that changed what each relation shows."""
        self.begin_change()
        return self.deltas_of(self.layers.replace(gone, come, self.watch(transaction)), transaction)

    def deltas_of(self, change: ClosureChange, transaction: Transaction) -> dict[str, Delta]:
        """How the only change of the closure in an update changed what each relation shows; they have no records."""
        lost, won = (pair_sets.changed(change, appeared, self._store.readers) for appeared in (False, True))
        self._unread = WeakSet((lost.rows, won.rows))
        check_limits = transaction.runner.check_limits
        return {
            member.relation.name: pair_sets.closure_delta(
                member.relation, *((lost.turned(), won.turned()) if member.turned else (lost, won)), check_limits
            )
            for member in self.members
        }

    def begin_change(self) -> None:
        """The closure is about to change for the first time in an update."""
        self._read_unread()
        for member in self.members:
            member.relation.was_empty = len(self.closure) == 0

    def watch(self, transaction: Transaction, counted: int = 0) -> Watch:
        """The limits of an update, for a change of the closure. All pairs but those that are counted already are facts
        of each predicate that programs know.
        """
        check_limits = transaction.runner.check_limits
        return lambda more: check_limits(max(0, more - counted) * len(self.members), self._step())

    def _step(self) -> int:
        """The step of the recursion: it has the longest body of the rules that the closure stands for."""
        return max(self.module.rules, key=lambda number: len(self.rules[number].body))

    def replace(self, transaction: Transaction) -> None:
        """Build the closure from its base."""
        if self.begins:
            # The marks in these records go with them; those of explicit facts are now in the base.
            for member in self.members:
                records = transaction.undo.set_aside(member.relation)
                self._former.setdefault(member.relation.name, StoredPairs(records.rows(F.IN)))
        self.refuse_unfit(self.base.rows())
        self._read_unread()
        self.take_over(self.watch(transaction, len(self.relation)))

    def compared(self, transaction: Transaction) -> dict[str, Delta]:
        """By what the closure, which was built anew, differs from what was there."""
        delta = transaction.deltas.get(self.base.predicate)
        deltas, check_limits = {}, transaction.runner.check_limits
        for member in self.members:
            former, present = self._former[member.relation.name], ClosurePairs(self.closure, member.turned)
            member.relation.was_empty = len(former) == 0
            common = self._count_common(transaction, former, present, delta)
            gone = pair_sets.missing(former, present, len(former) - common, self._store.readers)
            come = pair_sets.missing(present, former, len(present) - common, self._store.readers)
            deltas[member.relation.name] = pair_sets.closure_delta(member.relation, gone, come, check_limits)
        return deltas

    def _count_common(self, transaction: Transaction, former: Pairs, present: Pairs, delta: Delta | None) -> int:
        if self._before is not None and not self.fed and not self._before[2]:
            module, before = self.module, self._before[1].module
            if pair_sets.is_within(before, module) and not (delta and delta.gone.count):
                return len(former)
            if pair_sets.is_within(module, before) and not (delta and delta.come.count):
                return len(present)
        return pair_sets.count_common(former, present, transaction.runner.check_limits)

    def _read_unread(self) -> None:
        """List the pairs that an earlier change brought or took, if they may still be read and are few. Many are
        better found again when they are read.
        """
        for rows in self._unread:
            if rows.count <= lazy_rows.LAZY_FROM:
                rows.read()

    def refuse_unfit(self, rows: Cells) -> None:
        if self.base.is_unfit(rows):
            raise ModuleUnfit(self.module.predicate)

    def roll_back(self) -> None:
        """Be again what the node was before the update."""
        if self._before is not None:
            before, self.base, self.fed = self._before
            self.layers = before
        if not self.begins:
            # The rows of this update are not needed. Those of an earlier one have been read, or are found again.
            self._unread.clear()
            self._take_back()
        self.end_update()
        # Plans that the failed update made may refer to relations that are gone.
        self.base.forget_plans()

    def _take_back(self) -> None:
        """Be again what the closure was."""
        try:
            self.layers.undo()
            self._show()
        except MemoryError:
            # Build the closure anew from its base, which is as before already.
            self.layers = self._empty_layers()
            self.restore()

    def end_update(self) -> None:
        for member in self.members:
            member.relation.clear()
        self.layers.forget()
        self.begins = False
        self._former, self._before = {}, None

    def commit(self) -> None:
        """The update is done."""
        if self._before is not None:
            self.retire_fed(self._before[2] - self.fed)
        self.end_update()
