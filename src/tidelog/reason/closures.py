"""Closure modules in maintenance (Modular, sections 5 and 6), with one difference: pairs are not stored.

A component whose recursion is a closure splits in two. Its *base* is an ordinary component: the pairs that explicit
facts and other rules give (X_R in the paper), or the facts of the predicate that a linear pair reads. On top lies the
closure, a data structure (`store.closures`) that takes the changes of the base and answers for all pairs. Rules that
read the predicate see it as a relation whose records are just the pairs that changed in the update in work; they are
listed only if such a rule asks.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

import numpy as np

from tidelog.language.syntax import Atom, Rule
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.reason.changes import Changed
from tidelog.reason.compiled import CompiledRule, Node, normal_form
from tidelog.reason.replacement import (
    ClosurePairs,
    MissingPairs,
    Pairs,
    StoredPairs,
    count_common,
    differences,
    is_within,
)
from tidelog.reason.transaction import Transaction
from tidelog.store.closures import Closure, ClosureChange, DirectedClosure, SymmetricClosure
from tidelog.store.jit import address
from tidelog.store.layout import F_EXPLICIT, F_IN, F_OLD, K_FLOAT
from tidelog.store.records import Cells, Records
from tidelog.store.relation import Relation
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows


class ModuleUnfit(Exception):
    """An update that a closure module cannot take: the predicate must go back to the general algorithms."""

    def __init__(self, predicate: str) -> None:
        super().__init__(predicate)
        self.predicate = predicate


class LazyRows:
    """Pairs that a change of a closure brought or took, listed when somebody looks, at the latest before the next
    change.
    """

    def __init__(self, change: ClosureChange, appeared: bool) -> None:
        self._change: ClosureChange | None = change
        self._appeared = appeared
        self._rows: Cells | None = None
        self.count = change.added_count if appeared else change.removed_count

    def read(self) -> Cells:
        if self._rows is None:
            assert self._change is not None
            pairs = self._change.added() if self._appeared else self._change.removed()
            self._rows = np.stack(pairs, axis=1)
            self._change = None
        return self._rows


ChangedPairs = LazyRows | MissingPairs


class ClosureDelta:
    """How a closure's pairs changed. Records for them are made when a rule that reads the predicate first asks."""

    dead_count = 0  # The records of a closure are gone when the update is done.

    def __init__(self, store: Store, relation: Relation, gone: ChangedPairs, come: ChangedPairs) -> None:
        self._store = store
        self._relation = relation
        self._facts: tuple[Cells, Cells] | None = None
        self.gone = gone
        self.come = come

    @property
    def removed(self) -> Cells:
        return self._listed()[0]

    @property
    def added(self) -> Cells:
        return self._listed()[1]

    @property
    def removed_count(self) -> int:
        return self.gone.count

    @property
    def added_count(self) -> int:
        return self.come.count

    def __bool__(self) -> bool:
        return self.gone.count > 0 or self.come.count > 0

    def _listed(self) -> tuple[Cells, Cells]:
        if self._facts is None:
            gone, come = self.gone.read(), self.come.read()
            self._record(gone, F_OLD)
            self._record(come, F_IN)
            facts = np.arange(len(gone) + len(come), dtype=np.int32)
            self._facts = facts[: len(gone)], facts[len(gone) :]
        return self._facts

    def _record(self, rows: Cells, flags: int) -> None:
        if len(rows):
            self._relation.reserve(len(rows))
            rows = np.ascontiguousarray(rows)
            load_rows(self._store.machine, self._relation.number, address(rows), len(rows), flags)


@dataclass(frozen=True, slots=True)
class ClosureState:
    """What a closure node was before it followed other rules."""

    closure: Closure
    module: Module
    rules: dict[int, Rule]


def _yield(module: Module) -> tuple[Kind, Diagonal, bool]:
    """What decides which pairs follow from a base, and from which."""
    return module.kind, module.diagonal, module.needs_distinct_values


class ClosureNode:
    """A component that is a closure: its base, and the structure on top."""

    def __init__(self, store: Store, module: Module, rules: dict[int, Rule]) -> None:
        self._store = store
        self.module = module
        self.relation = store.relation(module.predicate, 2)
        self._rules = rules
        self.base = self._base_node() if module.kind is not Kind.LINEAR else None
        self._unread: weakref.WeakSet[ChangedPairs] = weakref.WeakSet()
        self._applied = False
        self._told = False  # `_unread` are pairs that changed in the update in work
        # What the closure takes the place of in the update in work: records, or the closure of another module.
        self.begins = False
        self._records: Records | None = None
        self._former: Pairs | None = None
        self._former_module: Module | None = None
        self.closure = self._empty_closure()

    def _base_node(self) -> Node:
        """The component of the pairs that the closure starts from: every rule of the predicate but the module's."""
        name = f"#base {self.module.predicate}"
        relation = self._store.relation(name, 2)
        rules = []
        for number, rule in self._rules.items():
            if number not in self.module.rules:
                normal = normal_form(rule, number)[0]
                head = Atom(name, normal.head.arguments)
                rules.append(CompiledRule(self._store, number, replace(normal, head=head), frozenset(), False))
        return Node(self._store, (self.module.predicate,), [relation], rules)

    def base_rule(self, rule: CompiledRule) -> CompiledRule:
        """A rule of the predicate, deriving into the base."""
        assert self.base is not None
        name = self.base.relations[0].name
        normal = replace(rule.normal, head=Atom(name, rule.normal.head.arguments))
        return CompiledRule(self._store, rule.number, normal, frozenset(), False)

    def can_follow(self, module: Module) -> bool:
        """Whether a module has the same base."""
        return (module.base, module.inverse) == (self.module.base, self.module.inverse)

    def follow_rules(self, module: Module, rules: dict[int, Rule]) -> ClosureState:
        """Other rules feed the base now; where the module is another one, so will the closure on top be. What was."""
        before = ClosureState(self.closure, self.module, self._rules)
        self.module = module
        self._rules = rules
        if _yield(module) != _yield(before.module):
            self._former = ClosurePairs(self.closure)
            self._former_module = before.module
            self.closure = self._empty_closure()
        if self.base is not None:
            self.base = self._base_node()
        return before

    def go_back(self, before: ClosureState) -> None:
        """Be again what the node was before it followed other rules."""
        self.module = before.module
        self._rules = before.rules
        if self._former is not None:
            self.closure = before.closure
            self.relation.become_closure(self.closure)
        self._former = self._former_module = None
        if self.base is not None:
            self.base = self._base_node()

    def follow_records(self, former: Pairs | None) -> None:
        """Take the place of records, when the update comes to this component: until then it shows what was. `former`
        are the pairs of a closure that ended in the same update, of which the records hold the explicit ones only.
        """
        self.begins = True
        self._former = former

    def first_explicit(self, delete: Cells | None, add: Cells | None) -> Cells:
        """The explicit facts that a closure begins with, after the deletions and additions of the update."""
        relation = self.relation
        flags = relation.cells[: relation.count, relation.flags_column]
        rows = relation.cells[: relation.count][(flags & F_EXPLICIT) != 0, : relation.arity]
        if delete is not None and len(delete):
            rows = rows[~StoredPairs(delete).contains(rows)]
        return rows if add is None else np.concatenate((rows, add))

    def give_way(self) -> None:
        """The update that the closure began in has failed: let the records be there again."""
        if self._records is not None:
            self.relation.become_closure(None)
            self.relation.take_back(self._records)

    def forget_plans(self) -> None:
        """What the rules of the base read lies elsewhere now, or their plans do."""
        if self.base is not None:
            self.base = self._base_node()

    @property
    def base_predicate(self) -> str:
        if self.base is not None:
            return self.base.relations[0].name
        assert self.module.base is not None
        return self.module.base

    def take_over(self) -> None:
        """Become the relation's contents, with the pairs that follow from the base as it is now."""
        base = self._store.relation(self.base_predicate, 2)
        edges = self._edges(base.rows())
        if len(edges[0]):
            self.closure.apply(_NO_EDGES, edges)
        # Last, since records are emptied: whatever failed before has changed nothing.
        self.relation.was_empty = True
        self.relation.become_closure(self.closure)

    @property
    def rules(self) -> dict[int, Rule]:
        return self._rules

    def explicit_rows(self) -> Cells:
        """The explicit facts of the predicate, which lie in the base."""
        if self.base is None:
            return np.empty((0, 2), np.int32)
        base = self.base.relations[0]
        flags = base.cells[: base.count, base.flags_column]
        return base.cells[: base.count][(flags & F_EXPLICIT) != 0, : base.arity]

    def hand_back(self, explicit: Cells, explicit_only: bool) -> None:
        """Put the pairs into records again, as they are between two updates; or the explicit ones alone."""
        rows = explicit[:0] if explicit_only else self.relation.rows()
        self.relation.become_closure(None)
        try:
            # Explicit ones first: a row that is there already keeps its flags.
            for part, flags in ((explicit, F_IN | F_OLD | F_EXPLICIT), (rows, F_IN | F_OLD)):
                part = np.ascontiguousarray(part)
                self.relation.reserve(len(part))
                load_rows(self._store.machine, self.relation.number, address(part), len(part), flags)
        except BaseException:
            self.relation.become_closure(self.closure)
            raise
        self.relation.explicit_count = len(explicit)
        self.relation.ranked = False
        self.relation.settle_start()

    def forget_base(self) -> None:
        """The base serves no more."""
        if self.base is not None:
            self.base.relations[0].clear()
            self.base.relations[0].explicit_count = 0

    def maintain(self, transaction: Transaction) -> ClosureDelta | None:
        """Take the change of the base into the closure, or begin from the whole of the base."""
        delta = transaction.deltas.get(self.base_predicate)
        if self.begins:
            # No fact is marked in an update that changes rules, so nobody knows the records by their numbers.
            self._records = self.relation.set_aside()
            if self._former is None:
                self._former = StoredPairs(self._records.rows(F_IN))
        if self._former is not None:
            return self._replace(self._former, delta)
        if not delta:
            return None
        base = self._store.relation(self.base_predicate, 2)
        gone, come = base.rows(delta.removed), base.rows(delta.added)
        self._refuse_floats(come)
        for rows in list(self._unread):
            rows.read()
        self.relation.was_empty = len(self.closure) == 0
        change = self.closure.apply(self._edges(gone), self._edges(come))
        self._applied = True
        return self._delta(LazyRows(change, appeared=False), LazyRows(change, appeared=True))

    def _replace(self, former: Pairs, delta: Changed | None) -> ClosureDelta:
        """Build the closure from its base, and tell by what it differs from what was there."""
        self._refuse_floats(self._store.relation(self.base_predicate, 2).rows())
        for rows in list(self._unread):
            rows.read()
        self.take_over()
        self.relation.was_empty = len(former) == 0
        present = ClosurePairs(self.closure)
        return self._delta(*differences(former, present, self._count_common(former, present, delta)))

    def _count_common(self, former: Pairs, present: Pairs, delta: Changed | None) -> int:
        module, before = self.module, self._former_module
        if before is not None and is_within(before, module) and not (delta and len(delta.removed)):
            return len(former)
        if before is not None and is_within(module, before) and not (delta and len(delta.added)):
            return len(present)
        return count_common(former, present)

    def _delta(self, gone: ChangedPairs, come: ChangedPairs) -> ClosureDelta:
        self._unread, self._told = weakref.WeakSet((gone, come)), True
        return ClosureDelta(self._store, self.relation, gone, come)

    def _refuse_floats(self, rows: Cells) -> None:
        if self.module.needs_distinct_values and (self._store.terms.kinds(rows.ravel()) == K_FLOAT).any():
            raise ModuleUnfit(self.module.predicate)

    def commit(self) -> None:
        self.relation.clear()
        self._applied = self._told = False
        self.begins = False
        self._records = self._former = self._former_module = None

    def roll_back(self) -> None:
        """Put the closure back as it was; a module that the update changed is put back by `go_back`."""
        self.relation.clear()
        if self._applied:
            self._undo()
        if self._told:
            # Nobody will see them. Those of an earlier update stay: somebody may still look.
            self._unread.clear()
        self._applied = self._told = False
        # Plans that the failed update made may speak of relations that are none any more.
        self.forget_plans()

    def _undo(self) -> None:
        """Take the change back; where that fails, build the closure anew from its base, which is as before already."""
        try:
            self.closure.undo()
        except MemoryError:
            self.closure = self._empty_closure()
            self.take_over()

    def _empty_closure(self) -> Closure:
        kind = SymmetricClosure if self.module.kind is Kind.SYMMETRIC_TRANSITIVE else DirectedClosure
        closure = kind("closure" if self.module.diagonal is Diagonal.CLOSURE else "given")
        closure.breathe = self._breathe
        return closure

    def _breathe(self) -> None:
        self._store.breathe()

    def _edges(self, rows: Cells) -> tuple[Cells, Cells]:
        if self.module.diagonal is Diagonal.NONE:
            rows = rows[rows[:, 0] != rows[:, 1]]
        if self.module.inverse:
            rows = rows[:, ::-1]
        return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])


_NO_EDGES = (np.empty(0, np.int32), np.empty(0, np.int32))
