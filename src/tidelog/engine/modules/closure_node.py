"""Closure modules in maintenance (Modular, sections 5 and 6), with one difference: pairs are not stored.

A component whose recursion is a closure splits in two. Its *base* are ordinary components: the pairs that explicit
facts and other rules give (X_R in the paper), or the facts of the predicate that a linear pair reads. On top lies the
closure, a data structure (`closures`) that takes the changes of the base and answers for all pairs. Rules that
read the predicate see it as a relation whose records are just the pairs that changed in the update in work; they are
listed only if such a rule asks.

Where several predicates are twins (`program.twins`), each has a base of its own, which holds its explicit facts, and
the copies lead from there to the base of the leader, which the closure is of. All of them show the one closure.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelog.closures.closed_graph import NO_EDGES, Watch, watch_nothing
from tidelog.closures.closure import Closure
from tidelog.closures.directed import DirectedGraph
from tidelog.closures.readable import ReadableClosure
from tidelog.closures.symmetric import SymmetricGraph
from tidelog.engine.compiled import CompiledRule, Node, normal_form
from tidelog.engine.deltas import Changed, RuleChange
from tidelog.engine.modules.closure_deltas import PIECE, ClosureDelta, LazyRows, TurnedRows
from tidelog.engine.modules.replacement import (
    ClosurePairs,
    Look,
    Pairs,
    StoredPairs,
    count_common,
    differences,
    is_within,
)
from tidelog.engine.outcome import LAZY_FROM
from tidelog.engine.transaction import Transaction
from tidelog.errors import StorageError
from tidelog.language.syntax import Atom, Rule
from tidelog.machine import flags as F
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import address
from tidelog.program.modules import Diagonal, Kind, Module
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells, Records
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows

BASE = "#base"


class ModuleUnfit(Exception):
    """An update that a closure module cannot take: the predicate must go back to the general algorithms."""

    def __init__(self, predicate: str) -> None:
        super().__init__(predicate)
        self.predicate = predicate


@dataclass(frozen=True, slots=True)
class ClosureState:
    """What a closure node was before it followed other rules."""

    closure: Closure
    module: Module
    rules: dict[int, Rule]

    def feeding(self) -> dict[int, Rule]:
        """The rules that gave pairs to a base."""
        own = set(self.module.rules)
        return {number: rule for number, rule in self.rules.items() if number not in own}


@dataclass(frozen=True, slots=True)
class Member:
    """A predicate that shows the closure, as it is or turned round."""

    relation: Relation
    turned: bool

    def view_of(self, closure: Closure) -> ReadableClosure:
        return closure.turned() if self.turned else closure


def _yield(module: Module) -> tuple[Kind, Diagonal, bool]:
    """What decides which pairs follow from a base, and from which."""
    return module.kind, module.diagonal, module.needs_distinct_values


def relation_name(kind: str, predicate: str, module: Module) -> str:
    """The name of a relation that serves a closure. By the copies too: what a predicate had with other twins is still
    there until the update is done.
    """
    return " ".join((kind, predicate, *module.copies))


class ClosureNode:
    """A component that is a closure: its bases, and the structure on top."""

    def __init__(self, store: Store, module: Module, rules: dict[int, Rule]) -> None:
        self._store = store
        self.module = module
        self.members = self._members()
        self._known_to_programs = sum(not member.relation.name.startswith("#") for member in self.members)
        self._rules = rules
        self.closure = self._empty_closure()
        self._bases: tuple[Node, ...] | None = None
        self._unread: tuple[weakref.ref[LazyRows], ...] = ()
        self._applied = False
        self._told = False  # `_unread` are pairs that changed in the update in work
        # What the closure takes the place of in the update in work: records, or the closure of another module.
        self.begins = False
        self._records: dict[str, Records] = {}
        self._former: dict[str, Pairs] = {}
        self._before: ClosureState | None = None  # the update in work, where that changes the rules

    def _members(self) -> tuple[Member, ...]:
        turned = {self.module.predicate: False, **{twin.predicate: twin.turned for twin in self.module.twins}}
        return tuple(Member(self._shown_in(name), turned[name]) for name in self.module.predicates)

    def _shown_in(self, predicate: str) -> Relation:
        """The relation that shows the closure under the name of a predicate."""
        return self._store.relation(predicate, 2)

    @property
    def relation(self) -> Relation:
        """That of the leader."""
        return self.members[0].relation

    # --- the base -----------------------------------------------------------------------------------------------------

    @property
    def bases(self) -> tuple[Node, ...]:
        """The components of the pairs that the closure starts from, each after those that are copied into it."""
        if self._bases is None:
            self._bases = self._base_nodes() if self.has_bases else ()
        return self._bases

    @property
    def has_bases(self) -> bool:
        """Whether the closure starts from pairs of its own, and not from the facts of another predicate."""
        return self.module.kind is not Kind.LINEAR

    def _base_nodes(self) -> tuple[Node, ...]:
        """What gives each predicate its pairs, but for the module's rules: every other rule, and the copies of
        twins.
        """
        rules: dict[str, list[CompiledRule]] = {predicate: [] for predicate in self.module.predicates}
        for number, rule in self.state().feeding().items():
            rules[rule.head.predicate].append(self._base_rule(number, rule))
        for twin in self.module.twins:
            copy = self._rules[twin.copy]
            rules[copy.head.predicate].append(self._base_rule(twin.copy, copy, twin.predicate))
        return tuple(self._base_node(predicate, rules[predicate]) for predicate in reversed(rules))

    def _base_node(self, predicate: str, rules: list[CompiledRule]) -> Node:
        return Node(self._store, (predicate,), [self._base_relation(predicate)], rules)

    def _base_rule(self, number: int, rule: Rule, copied: str | None = None) -> CompiledRule:
        """A rule, deriving into the base of its head, and from that of a twin that it copies."""
        normal = normal_form(rule, number)[0]
        head = Atom(self._base_name(rule.head.predicate), normal.head.arguments)
        positives = normal.positives
        if copied is not None:
            positives = (Atom(self._base_name(copied), positives[0].arguments),)
        return CompiledRule(self._store, number, replace(normal, head=head, positives=positives), frozenset(), False)

    def state(self) -> ClosureState:
        """What an update that changes the rules has to put back where it fails."""
        return ClosureState(self.closure, self.module, self._rules)

    def base_change(self, base: Node) -> RuleChange:
        """The rules that derive into a base no more, and those that do so from now on."""
        if self.begins:
            return RuleChange.of((), base.rules)
        if self._before is None:
            return _NO_CHANGE
        before, now = self._before.feeding(), self.state().feeding()
        gone = (
            self._base_rule(number, rule)
            for number, rule in before.items()
            if number not in now and rule.head.predicate == base.predicates[0]
        )
        return RuleChange.of(gone, (rule for rule in base.rules if rule.number in now and rule.number not in before))

    def _base_name(self, predicate: str) -> str:
        return relation_name(BASE, predicate, self.module)

    def _base_relation(self, predicate: str) -> Relation:
        return self._store.relation(self._base_name(predicate), 2)

    @property
    def base_predicate(self) -> str:
        """Whose facts are the edges of the closure."""
        return self.module.base or self._base_name(self.module.predicate)

    def explicit_relation(self, predicate: str) -> Relation:
        """Where the explicit facts of a predicate lie: in its base, or nowhere else than all of them."""
        return self._base_relation(predicate) if self.has_bases else self._store.relation(predicate, 2)

    def explicit_rows(self, predicate: str) -> Cells:
        if not self.has_bases:
            return np.empty((0, 2), np.int32)
        base = self._base_relation(predicate)
        flags = base.cells[: base.count, base.flags_column]
        return base.cells[: base.count][(flags & F.EXPLICIT) != 0, : base.arity]

    def forget_plans(self) -> None:
        """What the rules of the base read lies elsewhere now, or their plans do."""
        self._bases = None

    def forget_base(self) -> None:
        """The base serves no more. Another one will have another name where its twins are joined otherwise."""
        for base in self.bases:
            self._store.retire(base.relations[0])

    # --- other rules --------------------------------------------------------------------------------------------------

    @property
    def rules(self) -> dict[int, Rule]:
        return self._rules

    def can_follow(self, module: Module) -> bool:
        """Whether a module has the same base."""
        ours = self.module
        return (module.base, module.inverse, module.twins) == (ours.base, ours.inverse, ours.twins)

    def follow_rules(self, module: Module, rules: dict[int, Rule]) -> None:
        """Other rules feed the base now; where the module is another one, so will the closure on top be. Where memory
        is too short for that, `go_back` does as after any update that fails.
        """
        self._before = before = self.state()
        self.module = module
        self._rules = rules
        if _yield(module) != _yield(before.module):
            self._former = {member.relation.name: self._pairs_of(member) for member in self.members}
            self.closure = self._empty_closure()
        self._bases = None

    def go_back(self, before: ClosureState) -> None:
        """Be again what the node was before it followed other rules."""
        self.module = before.module
        self._rules = before.rules
        if self._former:
            self.closure = before.closure
            self._show()
        self._former, self._before = {}, None
        self._bases = None

    def views(self) -> Iterator[tuple[str, ReadableClosure]]:
        """What each predicate shows of the closure."""
        return ((member.relation.name, member.view_of(self.closure)) for member in self.members)

    def view(self, predicate: str) -> ReadableClosure:
        return dict(self.views())[predicate]

    def pairs(self, predicate: str) -> ClosurePairs:
        """The pairs that a predicate shows now."""
        return next(self._pairs_of(member) for member in self.members if member.relation.name == predicate)

    def _pairs_of(self, member: Member) -> ClosurePairs:
        return ClosurePairs(self.closure, member.turned)

    def _show(self) -> None:
        """Be the contents of all relations."""
        for member in self.members:
            member.relation.become_closure(member.view_of(self.closure))

    # --- beginning and ending -----------------------------------------------------------------------------------------

    def follow_records(self, former: Mapping[str, Pairs]) -> None:
        """Take the place of records, when the update comes to this component: until then it shows what was. `former`
        are the pairs of closures that ended in the same update, of which the records hold the explicit ones only.
        """
        self.begins = True
        self._former = dict(former)

    def first_explicit(self, predicate: str, delete: Cells | None, add: Cells | None) -> Cells:
        """The explicit facts that a closure begins with, after the deletions and additions of the update."""
        relation = self._store.relation(predicate, 2)
        flags = relation.cells[: relation.count, relation.flags_column]
        rows = relation.cells[: relation.count][(flags & F.EXPLICIT) != 0, : relation.arity]
        if delete is not None and len(delete):
            rows = rows[~StoredPairs(delete).contains(rows)]
        return rows if add is None else np.concatenate((rows, add))

    def give_way(self) -> None:
        """The update that the closure began in has failed: let the records be there again."""
        for member in self.members:
            records = self._records.get(member.relation.name)
            if records is not None:
                member.relation.become_closure(None)
                member.relation.take_back(records)

    def take_over(self, watch: Watch = watch_nothing) -> None:
        """Become the contents of the relations, with the pairs that follow from the base as it is now."""
        base = self._store.relation(self.base_predicate, 2)
        edges = self._edges(base.rows())
        if len(edges[0]):
            self.closure.apply(NO_EDGES, edges, watch)
        # Last, since records are emptied: whatever failed before has changed nothing.
        for member in self.members:
            member.relation.was_empty = True
        self._show()

    def restore(self) -> None:
        """Become the contents of the relations when a saved engine is open again."""
        if self.module.needs_distinct_values and self._holds_floats(
            self._store.relation(self.base_predicate, 2).rows()
        ):
            raise StorageError(f"`{self.module.predicate}` was saved as a closure, and with floats it is none")
        self.take_over()

    def hand_back(self, explicit_only: bool, look: Look) -> None:
        """Put the pairs into records again, as they are between two updates; or the explicit ones alone. `look` is
        called now and then, and may raise.
        """
        try:
            for member in self.members:
                self._record(member.relation, explicit_only, look)
        except BaseException:
            self.come_back()
            raise

    def _record(self, relation: Relation, explicit_only: bool, look: Look) -> None:
        explicit, closure = self.explicit_rows(relation.name), relation.closure
        assert closure is not None
        relation.become_closure(None)
        # Explicit ones first: a row that is there already keeps its flags.
        self._load(relation, explicit, F.IN | F.OLD | F.EXPLICIT)
        if not explicit_only:
            relation.reserve(len(closure))
            for pair in closure.pairs(PIECE):
                self._load(relation, np.stack(pair, axis=1), F.IN | F.OLD)
                look()
        relation.explicit_count = len(explicit)
        relation.ranked = False
        relation.settle_start()

    def _load(self, relation: Relation, rows: Cells, flags: int) -> None:
        rows = np.ascontiguousarray(rows)
        relation.reserve(len(rows))
        load_rows(self._store.machine, relation.number, address(rows), len(rows), flags)

    def come_back(self) -> None:
        """The closure does not end after all: be the contents of the relations again."""
        self._show()
        for member in self.members:
            member.relation.explicit_count = 0
        self.forget_plans()

    # --- updates ------------------------------------------------------------------------------------------------------

    def maintain(self, transaction: Transaction) -> dict[str, ClosureDelta]:
        """Take the change of the base into the closure, or begin from the whole of the base; what that changed."""
        delta = transaction.deltas.get(self.base_predicate)
        if self.begins:
            self._set_records_aside()
        if self._former:
            return self._replace(transaction, delta)
        if not delta:
            return {}
        base = self._store.relation(self.base_predicate, 2)
        gone, come = base.rows(delta.removed), base.rows(delta.added)
        self._refuse_floats(come)
        return self._apply(transaction, self._edges(gone), self._edges(come))

    def _apply(
        self, transaction: Transaction, gone: tuple[Cells, Cells], come: tuple[Cells, Cells]
    ) -> dict[str, ClosureDelta]:
        """Take edges out of the closure and into it; how that changed what each relation shows."""
        self._read_unread()
        for member in self.members:
            member.relation.was_empty = len(self.closure) == 0
        change = self.closure.apply(gone, come, self._watch(transaction, 0))
        self._applied = True
        lost, won = (LazyRows(change, appeared, self._store.readers) for appeared in (False, True))
        self._unread, self._told = (weakref.ref(lost), weakref.ref(won)), True
        return {member.relation.name: self._delta(transaction, member, lost, won) for member in self.members}

    def _delta(self, transaction: Transaction, member: Member, lost: LazyRows, won: LazyRows) -> ClosureDelta:
        turned = (TurnedRows(lost), TurnedRows(won)) if member.turned else (lost, won)
        return ClosureDelta(transaction, member.relation, *turned)

    def _watch(self, transaction: Transaction, counted: int) -> Watch:
        """The limits of an update, for a change of the closure. All pairs but those that are counted already are facts
        of each predicate, unless that is one that no program has.
        """
        # The step of the recursion has the longest body of the rules that the closure stands for.
        step = max(self.module.rules, key=lambda number: len(self._rules[number].body))
        return lambda more: transaction.check_limits(max(0, more - counted) * self._known_to_programs, step)

    def _set_records_aside(self) -> None:
        # No fact is marked in an update that changes rules, so nobody knows the records by their numbers.
        for member in self.members:
            name = member.relation.name
            self._records[name] = member.relation.set_aside()
            self._former.setdefault(name, StoredPairs(self._records[name].rows(F.IN)))

    def _replace(self, transaction: Transaction, delta: Changed | None) -> dict[str, ClosureDelta]:
        """Build the closure from its base, and tell by what it differs from what was there."""
        self._refuse_floats(self._store.relation(self.base_predicate, 2).rows())
        self._read_unread()
        self.take_over(self._watch(transaction, len(self.relation)))
        deltas = {}
        for member in self.members:
            former, present = self._former[member.relation.name], self._pairs_of(member)
            member.relation.was_empty = len(former) == 0
            common = self._count_common(transaction, former, present, delta)
            changed = differences(former, present, common, self._store.readers)
            deltas[member.relation.name] = ClosureDelta(transaction, member.relation, *changed)
        return deltas

    def _count_common(self, transaction: Transaction, former: Pairs, present: Pairs, delta: Changed | None) -> int:
        module, before = self.module, None if self._before is None else self._before.module
        if before is not None and is_within(before, module) and not (delta and len(delta.removed)):
            return len(former)
        if before is not None and is_within(module, before) and not (delta and len(delta.added)):
            return len(present)
        return count_common(former, present, transaction.check_limits)

    def _read_unread(self) -> None:
        """List the few pairs that an earlier change brought or took, where somebody may still look. Many are better
        found again by whoever does.
        """
        for rows in (held() for held in self._unread):
            if rows is not None and rows.count <= LAZY_FROM:
                rows.read()

    def _refuse_floats(self, rows: Cells) -> None:
        if self.module.needs_distinct_values and self._holds_floats(rows):
            raise ModuleUnfit(self.module.predicate)

    def _holds_floats(self, rows: Cells) -> bool:
        return bool((self._store.terms.table.kinds[rows.ravel()] == K.FLOAT).any())

    def commit(self) -> None:
        self._clear_records()
        self._applied = self._told = False
        self.begins = False
        self._records, self._former, self._before = {}, {}, None

    def roll_back(self) -> None:
        """Put the closure back as it was; a module that the update changed is put back by `go_back`."""
        self._clear_records()
        if self._applied:
            self._undo()
        if self._told:
            # Nobody will see them. Those of an earlier update stay: somebody may still look.
            self._unread = ()
        self._applied = self._told = False
        # Plans that the failed update made may speak of relations that are none any more.
        self.forget_plans()

    def _clear_records(self) -> None:
        for member in self.members:
            member.relation.clear()

    def _undo(self) -> None:
        """Take the change back; where that fails, build the closure anew from its base, which is as before already."""
        try:
            self.closure.undo()
        except MemoryError:
            self.closure = self._empty_closure()
            self.take_over()

    def _empty_closure(self) -> Closure:
        kind = SymmetricGraph if self.module.kind is Kind.SYMMETRIC_TRANSITIVE else DirectedGraph
        graph = kind("closure" if self.module.diagonal is Diagonal.CLOSURE else "given")
        graph.breathe = self._breathe
        return Closure(graph)

    def _breathe(self) -> None:
        self._store.breathe()

    def _edges(self, rows: Cells) -> tuple[Cells, Cells]:
        if self.module.diagonal is Diagonal.NONE:
            rows = rows[rows[:, 0] != rows[:, 1]]
        if self.module.inverse:
            rows = rows[:, ::-1]
        return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])


_NO_CHANGE = RuleChange()
