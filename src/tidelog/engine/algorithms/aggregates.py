"""Aggregates: the groups of a rule such as `degree(X, count(Y)) :- edge(X, Y)`, and the values of each group.

Groups lie in a relation of their own. What changed below names the groups that may have changed; each of these is
computed again from its matches, and only a value that differs is a change. Counts do not even need their matches: they
move by those that came and went. Each match of the whole body counts once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.engine.algorithms.aggregate_functions import Integers, fold, fold_joins, fold_witnesses
from tidelog.engine.propagation.match_sets import HELD, HOLDING, Sets
from tidelog.engine.rules.compiled import group_predicate
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.changed_matches import changed_matches
from tidelog.engine.update.failures import MOST_TOLD, FailedGroup
from tidelog.engine.update.joins import Joins
from tidelog.engine.update.match_rows import matches
from tidelog.language.syntax import Aggregate, Atom, Expression, Term, Variable, joined_by
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import address
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, make_plan
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store
from tidelog.store.update_kernels import set_membership

FROM_GROUP = Pivot(Start.POSITIVE, 0)

# Where more than this share of a relation changed, most groups are touched: all are computed again.
LARGE_SHARE = 0.3
LEAST_CHANGE = 100


class AggregateRule:
    """From matches of the body to rows of the group relation."""

    def __init__(self, store: Store, number: int, normal: NormalRule) -> None:
        self._store = store
        self.number = number
        self.normal = normal
        arguments = normal.head.arguments
        self.relation = store.relation(group_predicate(number), len(arguments))
        self._group = tuple(dict.fromkeys(term for term in normal.group if isinstance(term, Variable)))
        inputs = (term for item in normal.aggregates for term in (item.argument, item.witness))
        self._inputs = tuple(dict.fromkeys(term for term in inputs if isinstance(term, Variable)))
        self._touched = store.relation(f"#touched {number}", len(self._group))
        # The same body, after an atom that names the groups to look at; and from a group to its rows.
        touched = Atom(self._touched.name, self._group)
        self._from_group = replace(normal, positives=(touched, *normal.positives), aggregates=())
        values = tuple(
            Variable(f"#value {column}") if isinstance(term, Aggregate) else term
            for column, term in enumerate(arguments)
        )
        head = Atom(self.relation.name, values)
        self._old_values = NormalRule(normal.source, head, (touched, head), (), (), (), ())
        self._offsets: dict[tuple[str, Pivot], int] = {}
        # The column of a count, where there are only counts.
        self._counts_only = all(a.function == "count" and not a.distinct for a in normal.aggregates)
        self._counted = next(place for place, term in enumerate(arguments) if isinstance(term, Aggregate))

    def _offset(self, key: str, rule: NormalRule, pivot: Pivot, head: tuple[Term, ...]) -> int:
        if (key, pivot) not in self._offsets:
            plan = make_plan(rule, pivot, (), self._store.estimate)
            self._offsets[key, pivot] = self._store.assemble(plan, self.relation, head, self.number)
        return self._offsets[key, pivot]

    def forget_plans(self) -> None:
        self._offsets.clear()

    def maintain(self, transaction: Transaction, is_new: bool) -> None:
        """Let the groups follow what changed below, or find all of them where the rule is new."""
        transaction.runner.computes = self.normal.computes
        if is_new or self._most_changed(transaction):
            width = len(self._group) + len(self._inputs)
            plan = self._offset("all", self.normal, ALL, self._group + self._inputs)
            rows = matches(transaction.runner, HOLDING, plan, width)
            self._replace(transaction, self._fold(transaction, rows), self.relation.rows())
        else:
            self._follow(transaction)
        transaction.collect([self.relation])

    def _most_changed(self, transaction: Transaction) -> bool:
        """Whether all groups are new, or so much changed that looking for the touched ones saves nothing."""
        has_none = len(self.relation) == 0
        for atom in (*self.normal.positives, *self.normal.negatives):
            delta = transaction.deltas.get(atom.predicate)
            if delta is not None:
                relation = self._store.relation(atom.predicate, atom.arity)
                if has_none and atom in self.normal.positives and transaction.undo.is_new(relation):
                    return True
                changed = delta.gone.count + delta.come.count
                if changed > LEAST_CHANGE and changed > LARGE_SHARE * len(relation):
                    return True
        return False

    def _follow(self, transaction: Transaction) -> None:
        transaction.list_changes([self.normal])
        gone, come = changed_matches(
            transaction.runner,
            transaction.deltas,
            self.normal,
            lambda pivot: self._offset("touched", self.normal, pivot, self._group),
            len(self._group),
        )
        if not len(gone) and not len(come):
            return
        self._touched.clear()
        for groups in (gone, come):
            self._touched.load(groups, F.IN | F.OLD)
        before = self._from_touched(transaction, HELD, "old", self._old_values, self._old_values.head.arguments)
        if self._counts_only and not any(atom.predicate in transaction.deltas for atom in self.normal.negatives):
            after = self._recounted(before, gone, come)
        else:
            head = self._group + self._inputs
            after = self._fold(transaction, self._from_touched(transaction, HOLDING, "group", self._from_group, head))
        self._replace(transaction, after, before)

    def withdraw(self, transaction: Transaction) -> None:
        """The rule is gone, and so are its groups."""
        self._apply(transaction, self.relation.rows(), inside=False)
        transaction.collect([self.relation])

    def retire(self) -> None:
        """The rule is gone for good: give the memory of its relations back."""
        self._store.retire(self.relation)
        self._store.retire(self._touched)

    def _recounted(self, before: Cells, gone: Cells, come: Cells) -> Cells:
        """What each touched group counted before, less the matches that went, plus those that came."""
        terms = self._store.terms
        counts = np.zeros(self._touched.count, np.int64)
        counted = terms.table.payloads[before[:, self._counted]]
        columns = [self.normal.head.arguments.index(variable) for variable in self._group]
        counts[self._store.find_facts(self._touched, before[:, columns])] = counted
        for groups, step in ((gone, -1), (come, 1)):
            facts = self._store.find_facts(self._touched, groups)
            counts += step * np.bincount(facts, minlength=len(counts))
        left = np.flatnonzero(counts)
        groups = self._touched.rows(left.astype(np.int32))
        with self._store.hooks.using_terms():
            values = terms.encode_numbers(counts[left])
        return self._head_rows(groups, [values] * len(self.normal.aggregates))

    def _from_touched(
        self, transaction: Transaction, sets: Sets, key: str, rule: NormalRule, head: tuple[Term, ...]
    ) -> Cells:
        plan = self._offset(key, rule, FROM_GROUP, head)
        return matches(transaction.runner, sets, plan, len(head), np.arange(self._touched.count, dtype=np.int32))

    def _replace(self, transaction: Transaction, after: Cells, before: Cells) -> None:
        """Put the rows in `after` in the place of those in `before`; only what differs is a change."""
        old, new = (self._store.find_facts(self.relation, rows) for rows in (before, after))
        self._apply(transaction, before[~np.isin(old, new)], inside=False)
        self._apply(transaction, after[~np.isin(new, old)], inside=True)

    def _apply(self, transaction: Transaction, rows: Cells, inside: bool) -> None:
        if len(rows):
            if inside:
                self.relation.reserve(len(rows))
            transaction.undo.reserve(len(rows))
            rows = np.ascontiguousarray(rows, np.int32)
            set_membership(self._store.machine, self.relation.number, address(rows), len(rows), inside)

    def _fold(self, transaction: Transaction, rows: Cells) -> Cells:
        """One row of the group relation for each group of matches."""
        width = len(self._group)
        rows, starts = _by_group(rows, width)
        values, failed = [], np.zeros(len(starts), np.bool_)
        reasons: dict[int, str] = {}
        for term in self.normal.aggregates:
            column, witnesses = self._input(rows, term.argument), self._input(rows, term.witness)
            lattice = joined_by(term.function)
            if lattice is not None:
                joins = Joins(self._store, transaction.runner, lattice)
                values.append(fold_joins(joins, column, starts, reasons))
                failed |= values[-1] == K.FAILURE
                continue
            with self._store.hooks.using_terms():
                terms = self._store.terms
                if witnesses is None:
                    values.append(fold(term.function, terms, column, starts, term.distinct))
                else:
                    values.append(fold_witnesses(term.function, terms, column, witnesses, starts))
            failed |= values[-1] == K.FAILURE
        if failed.any():
            told = [reasons.get(place) for place in np.flatnonzero(failed).tolist()]
            self._note_failed(transaction, rows[starts[failed], :width], told)
        return self._head_rows(rows[starts, :width], values)[~failed]

    def _input(self, rows: Cells, variable: Expression | None) -> Any:
        """The terms of a variable in matches; None where there is no variable."""
        if not isinstance(variable, Variable):
            return None
        return rows[:, len(self._group) + self._inputs.index(variable)]

    def _note_failed(self, transaction: Transaction, groups: Cells, reasons: list[str | None]) -> None:
        """Count groups whose values could not be aggregated, and note the first ones, with reasons that are known."""
        transaction.machine[M.ERRORS] += len(groups)
        transaction.machine[M.UNAGGREGATED] += len(groups)
        shown = ", ".join(map(str, self.normal.aggregates))
        for row, known in zip(groups[:MOST_TOLD].tolist(), reasons, strict=False):
            group = dict(zip(self._group, row, strict=True))
            reason = known or f"the values of the group cannot be aggregated by {shown}"
            transaction.failed_groups.append(FailedGroup(self.number, group, reason))

    def _head_rows(self, groups: Cells, values: list[Cells]) -> Cells:
        """Rows of the group relation from groups and the values of the aggregates, in their order."""
        result = np.empty((len(groups), self.relation.arity), np.int32)
        aggregated = iter(values)
        for column, term in enumerate(self.normal.head.arguments):
            if isinstance(term, Aggregate):
                result[:, column] = next(aggregated)
            elif isinstance(term, Variable):
                result[:, column] = groups[:, self._group.index(term)]
            else:
                with self._store.hooks.using_terms():
                    result[:, column] = self._store.terms.encode(term.value)  # type: ignore[union-attr]
        return result


def _by_group(rows: Cells, width: int) -> tuple[Cells, Integers]:
    """The rows in the order of their groups, which their first cells tell apart, and where each group starts."""
    if not len(rows):
        return rows, np.empty(0, np.int64)
    if width:
        rows = rows[np.lexsort(rows[:, :width].T[::-1])]
    borders = np.flatnonzero((rows[1:, :width] != rows[:-1, :width]).any(axis=1)) + 1
    return rows, np.concatenate(([0], borders))
