"""Aggregates: the groups of a rule such as `degree(X, count(Y)) :- edge(X, Y)`, and the values of each group.

Groups live in a relation of their own and are maintained by touched groups: what changed below names the groups that
may have changed, each of them is computed again from its matches, and only a value that differs is a change. Each
match of the whole body counts once.
"""

from __future__ import annotations

import numpy as np

from tidelog.language.syntax import Aggregate, Atom, Term, Variable
from tidelog.program.normal import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, make_plan
from tidelog.reason.compiled import group_predicate
from tidelog.reason.fold import GroupFailed, fold
from tidelog.reason.rows import matches
from tidelog.reason.sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW, HELD, HOLDING, Sets
from tidelog.reason.transaction import NOTHING, Transaction
from tidelog.store.jit import address
from tidelog.store.layout import F_IN, F_OLD, M_ERRORS
from tidelog.store.relation import Cells
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows, set_membership

FROM_GROUP = Pivot(Start.POSITIVE, 0)


class AggregateRule:
    """From matches of the body to rows of the group relation."""

    def __init__(self, store: Store, number: int, normal: NormalRule) -> None:
        self._store = store
        self.number = number
        self.normal = normal
        arguments = normal.head.arguments
        self.relation = store.relation(group_predicate(number), len(arguments))
        self._group = tuple(dict.fromkeys(term for term in normal.group if isinstance(term, Variable)))
        self._inputs = tuple(dict.fromkeys(a.argument for a in normal.aggregates if isinstance(a.argument, Variable)))
        self._touched = store.relation(f"#touched {number}", len(self._group))
        self._from_group = _with_group(normal, Atom(self._touched.name, self._group))
        self._old_values = _reads_values(normal, Atom(self._touched.name, self._group), self.relation.name)
        self._offsets: dict[tuple[str, Pivot], int] = {}

    # --- plans --------------------------------------------------------------------------------------------------------

    def _offset(self, key: str, rule: NormalRule, pivot: Pivot, head: tuple[Term, ...]) -> int:
        if (key, pivot) not in self._offsets:
            plan = make_plan(rule, pivot, (), self._store.estimate)
            self._offsets[key, pivot] = self._store.assemble(plan, self.relation, head, self.number)
        return self._offsets[key, pivot]

    def forget_plans(self) -> None:
        self._offsets.clear()

    # --- maintenance --------------------------------------------------------------------------------------------------

    def maintain(self, transaction: Transaction) -> None:
        """Compute the groups that changes below touch."""
        groups = self._touched_groups(transaction)
        if len(groups):
            self._put_groups(groups)
            self._replace(transaction, self._rows_of_groups(transaction), self._values_before(transaction))

    def evaluate(self, transaction: Transaction) -> None:
        """Compute all groups: the rule is new, or everything below it is."""
        width = len(self._group) + len(self._inputs)
        plan = self._offset("all", self.normal, ALL, self._group + self._inputs)
        self._replace(transaction, matches(transaction, HOLDING, plan, width), self._all_values())

    def withdraw(self, transaction: Transaction) -> None:
        """The rule is gone: so are its groups."""
        self._apply(transaction, self._all_values(), inside=False)

    def _all_values(self) -> Cells:
        return self.relation.rows()

    def _touched_groups(self, transaction: Transaction) -> Cells:
        transaction.list_changes([self.normal])
        found = [np.empty((0, len(self._group)), np.int32)]
        for positive, atoms in ((True, self.normal.positives), (False, self.normal.negatives)):
            for position, atom in enumerate(atoms):
                delta = transaction.deltas.get(atom.predicate)
                if delta is None:
                    continue
                pivot = Pivot(Start.POSITIVE if positive else Start.NEGATIVE, position)
                gone, come = (delta.removed, delta.added) if positive else (delta.added, delta.removed)
                found.append(self._groups_from(transaction, DESTROYED_FROM_BELOW, pivot, gone))
                found.append(self._groups_from(transaction, CREATED_FROM_BELOW, pivot, come))
        return np.unique(np.concatenate(found), axis=0)

    def _groups_from(self, transaction: Transaction, sets: Sets, pivot: Pivot, pivots: Cells) -> Cells:
        if not len(pivots):
            return np.empty((0, len(self._group)), np.int32)
        plan = self._offset("touched", self.normal, pivot, self._group)
        return np.unique(matches(transaction, sets, plan, len(self._group), pivots), axis=0)

    def _put_groups(self, groups: Cells) -> None:
        self._touched.clear()
        self._touched.reserve(len(groups))
        groups = np.ascontiguousarray(groups, np.int32)
        load_rows(self._store.machine, self._touched.number, address(groups), len(groups), F_IN | F_OLD)

    def _from_touched(self, transaction: Transaction, sets: Sets, plan: int, width: int) -> Cells:
        pivots = np.arange(self._touched.count, dtype=np.int32)
        return matches(transaction, sets, plan, width, pivots)

    def _rows_of_groups(self, transaction: Transaction) -> Cells:
        """The matches of the touched groups: group and aggregated values."""
        head = self._group + self._inputs
        plan = self._offset("group", self._from_group, FROM_GROUP, head)
        return self._from_touched(transaction, HOLDING, plan, len(head))

    def _values_before(self, transaction: Transaction) -> Cells:
        head = self._old_values.head.arguments
        plan = self._offset("old", self._old_values, FROM_GROUP, head)
        return self._from_touched(transaction, HELD, plan, len(head))

    def _replace(self, transaction: Transaction, rows: Cells, before: Cells) -> None:
        after = self._fold(transaction, rows)
        old = set(map(tuple, before.tolist()))
        new = set(map(tuple, after))
        self._apply(transaction, _as_rows(old - new, self.relation.arity), inside=False)
        self._apply(transaction, _as_rows(new - old, self.relation.arity), inside=True)

    def _apply(self, transaction: Transaction, rows: Cells, inside: bool) -> None:
        if len(rows):
            self.relation.reserve(len(rows))
            transaction.reserve_log(len(rows))
            rows = np.ascontiguousarray(rows, np.int32)
            set_membership(self._store.machine, self.relation.number, address(rows), len(rows), inside)

    def _fold(self, transaction: Transaction, rows: Cells) -> list[tuple[int, ...]]:
        """One row of the group relation for each group of matches."""
        terms = self._store.terms
        width = len(self._group)
        result: list[tuple[int, ...]] = []
        for group, members in _by_group(rows, width):
            bound = dict(zip(self._group, group, strict=True))
            try:
                cells = []
                for term in self.normal.head.arguments:
                    if isinstance(term, Aggregate):
                        column = members[:, width + self._inputs.index(term.argument)]
                        cells.append(terms.encode(fold(term.function, terms, column, term.distinct)))
                    elif isinstance(term, Variable):
                        cells.append(bound[term])
                    else:
                        cells.append(terms.encode(term.value))  # type: ignore[union-attr]
            except GroupFailed:
                transaction.machine[M_ERRORS] += 1
            else:
                result.append(tuple(cells))
        return result


def _by_group(rows: Cells, width: int) -> list[tuple[tuple[int, ...], Cells]]:
    """The rows of each group, groups told apart by their first cells."""
    if not len(rows):
        return []
    if width == 0:
        return [((), rows)]
    order = np.lexsort(rows[:, :width].T[::-1])
    rows = rows[order]
    borders = np.flatnonzero((rows[1:, :width] != rows[:-1, :width]).any(axis=1)) + 1
    return [(tuple(part[0, :width].tolist()), part) for part in np.split(rows, borders)]


def _as_rows(cells: set[tuple[int, ...]], arity: int) -> Cells:
    return np.array(sorted(cells), np.int32).reshape(len(cells), arity) if cells else NOTHING


def _with_group(rule: NormalRule, group: Atom) -> NormalRule:
    """The same body, after an atom that names the groups to look at."""
    return NormalRule(
        rule.source, rule.head, (group, *rule.positives), rule.negatives, rule.definitions, rule.conditions, ()
    )


def _reads_values(rule: NormalRule, group: Atom, values: str) -> NormalRule:
    """From a group to its rows in the group relation."""
    arguments = tuple(
        Variable(f"#value {column}") if isinstance(term, Aggregate) else term
        for column, term in enumerate(rule.head.arguments)
    )
    head = Atom(values, arguments)
    return NormalRule(rule.source, head, (group, head), (), (), (), ())
