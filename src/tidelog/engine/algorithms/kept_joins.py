"""Joins in a recursion: components in which values are joined by a lattice of the user's own (`program.lattices`),
under every name of `maintenance`. Ours.

*Insertion.* Rules and explicit facts offer values in rounds. The value of a group becomes the join of what it was and
of all that a round offers it; where that is another one, the rules that read it offer again in the next round. Every
rule is monotone, so what a smaller value gave is never wrong, only less than what the greater one gives. The rounds end
at the least fixpoint, if they end.

*Deletion.* A value does not say which offers it is made of, and two groups can keep a value alive that they gave each
other. So all that depends on what was lost goes, wholly: a group that had an offer from it, what was derived from the
value of that group, and so on. Then the rules are read backwards for all that they still offer to these groups, and
the rounds begin again from there. Groups that do not depend on what was lost are neither changed nor looked at.

Joins are computed by Python functions, and so is everything else here that is not the matching of rules: a round takes
time in proportion to its offers, and much more for each of them than where the best of values is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidelog.engine.algorithms.aggregate_functions import is_better
from tidelog.engine.propagation.group_facts import facts_of_groups
from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW, HELD, HOLDING, Sets
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.transaction.task import Task
from tidelog.engine.update.joins import JoinFailed, Joins
from tidelog.engine.update.match_rows import distinct, matches
from tidelog.engine.update.runner import Runner
from tidelog.errors import LatticeError
from tidelog.language.literals import render_value
from tidelog.language.names import display_predicate
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine.jit import address
from tidelog.program.lattices import RISES, Lattice
from tidelog.program.plan import ALL, HEAD, Pivot, Start
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store
from tidelog.store.update_kernels import set_membership
from tidelog.values import Value

Row = tuple[int, ...]


def keep_joins(task: Task, afresh: bool) -> None:
    """Maintain a component, or materialise it afresh."""
    _Component(task).maintain(afresh)


class _Component:
    """The work on one component in one update."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._node = task.node
        self._kept = {
            relation: _Kept(task, relation, task.node.lattices[relation.name])
            for relation in task.relations
            if relation.name in task.node.lattices
        }
        self._offered: dict[Relation, list[Cells]] = {}

    def maintain(self, afresh: bool) -> None:
        self._node.complete_tables()
        for relation in self._task.relations:
            relation.mark_unclean()
            relation.bits.forget()
        # Nothing here is inserted in an order that anybody else could go by.
        self._task.note_ranked(False)
        if afresh:
            self._start_over()
        else:
            self._delete()
            self._offer_changes()
        self._settle()

    # --- offers -------------------------------------------------------------------------------------------------------

    def _start_over(self) -> None:
        for relation in self._task.relations:
            self._offer(relation, relation.rows(self._task.undo.take_all(relation)))
        for rule in self._node.rules:
            if not rule.recursive:
                self._offer_all(rule)

    def _offer_changes(self) -> None:
        """Offer what new facts and new rules yield."""
        for relation in self._task.relations:
            self._offer(relation, relation.rows(self._task.explicit.added[relation.number]))
        for rule, plan, facts in self._changed_below(deleted=False):
            self._offer(rule.head, self._found(rule, CREATED_FROM_BELOW, plan, facts, W.INSERTION))
        for rule in self._task.rules.added:
            self._offer_all(rule)

    def _offer_all(self, rule: CompiledRule) -> None:
        self._offer(rule.head, self._found(rule, HOLDING, rule.offset(ALL), None, W.INSERTION))

    def _offer(self, relation: Relation, rows: Cells) -> None:
        if len(rows):
            self._offered.setdefault(relation, []).append(rows)

    def _settle(self) -> None:
        """Take what is offered, and let the rules that read it offer in turn, until nothing is new."""
        while self._offered:
            offered, self._offered = self._offered, {}
            came = {
                relation: self._take(relation, distinct(np.concatenate(rows))) for relation, rows in offered.items()
            }
            for rule, plan, facts in self._readers(came):
                self._offer(rule.head, self._found(rule, HOLDING, plan, facts, W.INSERTION))
            self._task.runner.pause()

    def _take(self, relation: Relation, rows: Cells) -> Cells:
        """Let offered rows into I, each group's joined to one; the facts that are new."""
        kept = self._kept.get(relation)
        if kept is not None:
            rows, outdone = kept.joined(rows)
            self._task.machine[M.OUTDONE] += len(outdone)
            relation.note_dead(int(np.count_nonzero(relation.flags[outdone] & (F.OLD | F.EXPLICIT) == 0)))
            self._set(relation, relation.rows(outdone), inside=False)
        facts = self._task.store.find_facts(relation, rows)
        present = facts >= 0
        present[present] = (relation.flags[facts[present]] & F.IN) != 0
        self._set(relation, rows[~present], inside=True)
        return self._task.store.find_facts(relation, rows[~present])

    def _set(self, relation: Relation, rows: Cells, inside: bool) -> None:
        if len(rows):
            relation.reserve(len(rows))
            self._task.undo.reserve(len(rows))
            rows = np.ascontiguousarray(rows, np.int32)
            set_membership(self._task.machine, relation.number, address(rows), len(rows), inside)

    # --- deletion -----------------------------------------------------------------------------------------------------

    def _delete(self) -> None:
        """Take all that depends on what was lost out of I, and offer what E and the rules still have for it."""
        lost = self._downstream(self._losses())
        for relation, facts in lost.items():
            self._task.machine[M.WORK + W.OVERDELETED] += len(facts)
            self._set(relation, relation.rows(facts), inside=False)
        for relation, facts in lost.items():
            kept = self._kept.get(relation)
            explicit = facts if kept is None else kept.facts_in_groups(relation.rows(facts), F.EXPLICIT)
            explicit = explicit[(relation.flags[explicit] & F.EXPLICIT) != 0]
            self._offer(relation, relation.rows(explicit))
        for rule in self._node.rules:
            if rule.head in lost and rule.number not in self._task.rules.added_numbers:
                plan = rule.offset(HEAD) if rule.lattice is None else rule.offset_from_group()
                self._offer(rule.head, self._found(rule, HOLDING, plan, lost[rule.head], W.REDERIVATION))

    def _losses(self) -> dict[Relation, list[Cells]]:
        """The heads of all that is gone, by relation."""
        task = self._task
        heads = {relation: [relation.rows(task.explicit.deleted[relation.number])] for relation in task.relations}
        task.transaction.list_changes(rule.normal for rule in (*self._node.rules, *task.rules.removed))
        for rule, plan, facts in self._changed_below(deleted=True):
            heads[rule.head].append(self._found(rule, DESTROYED_FROM_BELOW, plan, facts, W.DELETION))
        for rule in task.rules.removed:
            heads[rule.head].append(self._found(rule, HELD, rule.offset(ALL), None, W.DELETION))
        return heads

    def _downstream(self, heads: dict[Relation, list[Cells]]) -> dict[Relation, Cells]:
        """The facts that depend on lost heads, those of the heads' groups among them."""
        gone: dict[Relation, set[int]] = {}
        while heads:
            spreading: dict[Relation, Cells] = {}
            for relation, rows in heads.items():
                known = gone.setdefault(relation, set())
                fresh = sorted(set(self._facts_of(relation, distinct(np.concatenate(rows))).tolist()) - known)
                known.update(fresh)
                if fresh:
                    spreading[relation] = np.array(fresh, np.int32)
            heads = {}
            for rule, plan, facts in self._readers(spreading):
                if rule.number not in self._task.rules.added_numbers:
                    heads.setdefault(rule.head, []).append(self._found(rule, HELD, plan, facts, W.DELETION))
            self._task.runner.pause()
        return {relation: np.array(sorted(facts), np.int32) for relation, facts in gone.items() if facts}

    def _facts_of(self, relation: Relation, rows: Cells) -> Cells:
        """The facts in I that rows stand for: themselves, or the values of their groups."""
        kept = self._kept.get(relation)
        if kept is not None:
            return kept.facts_in_groups(rows, F.IN)
        facts = self._task.store.find_facts(relation, rows)
        facts = facts[facts >= 0]
        return facts[(relation.flags[facts] & F.IN) != 0]

    # --- rules --------------------------------------------------------------------------------------------------------

    def _changed_below(self, deleted: bool) -> Iterator[tuple[CompiledRule, int, Cells]]:
        """Plans of rules that were there before, and the changed facts of lower components that they start from: those
        that end matches, or those that make new ones.
        """
        for name, readers in self._node.readers.items():
            delta = self._task.deltas.get(name)
            for rule, pivot in readers if delta is not None else ():
                assert delta is not None
                facts = delta.removed if deleted == (pivot.start is Start.POSITIVE) else delta.added
                if len(facts) and rule.number not in self._task.rules.added_numbers:
                    yield rule, rule.offset(pivot), facts

    def _readers(self, facts: dict[Relation, Cells]) -> Iterator[tuple[CompiledRule, int, Cells]]:
        """Plans of the recursion that start from facts of the component."""
        by_name = {relation.name: found for relation, found in facts.items() if len(found)}
        for rule in self._node.recursive_rules:
            for position in rule.own_positions():
                found = by_name.get(rule.normal.positives[position].predicate)
                if found is not None:
                    yield rule, rule.offset(Pivot(Start.POSITIVE, position)), found

    def _found(self, rule: CompiledRule, sets: Sets, plan: int, facts: Cells | None, kind: int) -> Cells:
        """The heads of the matches of a rule's plan."""
        pivots = None if facts is None else np.ascontiguousarray(facts, np.int32)
        rows = matches(self._task.runner, sets, plan, rule.head.arity, pivots)
        self._task.machine[M.WORK + kind] += len(rows)
        self._task.store.rule_counts.work[rule.number] += len(rows)
        return rows


class _Kept:
    """A relation that keeps one value for each group."""

    def __init__(self, task: Task, relation: Relation, lattice: Lattice) -> None:
        self._machine = task.machine
        self._relation = relation
        self._values = GroupValues(task.store, task.runner, relation.name, relation.arity, lattice)
        relation.fields[R.GROUP] = relation.index_on(lattice.group(relation.arity)).number
        relation.fields[R.BEST] = 0

    def joined(self, rows: Cells) -> tuple[Cells, Cells]:
        """What becomes of groups that rows are offered to: their new rows, where they change, and the facts that these
        replace.
        """
        facts = self.facts_in_groups(rows, F.IN)
        former = list(map(tuple, self._relation.rows(facts).tolist()))
        before = {self._values.group_of(row): (row, fact) for row, fact in zip(former, facts.tolist(), strict=True)}
        found = {group: row for group, (row, _) in before.items()}
        for row in map(tuple, rows.tolist()):
            if not self._values.has_value(row):
                self._machine[M.ERRORS] += 1
                self._machine[M.UNAGGREGATED] += 1
                continue
            group = self._values.group_of(row)
            found[group] = self._values.combined(found[group], row) if group in found else row
        fresh = {group: row for group, row in found.items() if group not in before or before[group][0] != row}
        outdone = [before[group][1] for group in fresh if group in before]
        shape = (len(fresh), self._relation.arity)
        return np.array(list(fresh.values()), np.int32).reshape(shape), np.array(outdone, np.int32)

    def facts_in_groups(self, rows: Cells, flag: int) -> Cells:
        """The facts in the groups of rows that have a flag, each once."""
        rows = np.ascontiguousarray(rows, np.int32)
        room = max(16, len(rows))
        while True:
            facts = np.empty(room, np.int32)
            at = address(rows), len(rows), flag, address(facts), room
            count = facts_of_groups(self._machine, self._relation.number, *at) if len(rows) else 0
            if count <= room:
                return np.unique(facts[:count])
            room = count


class GroupValues:
    """How the rows of a group become one, where a predicate keeps one value for each group."""

    def __init__(self, store: Store, runner: Runner, predicate: str, arity: int, lattice: Lattice) -> None:
        self._store = store
        self._predicate = predicate
        self._lattice = lattice
        self._group = lattice.group(arity)
        self._joins = None if lattice.join is None else Joins(store, runner, lattice.join)

    def group_of(self, row: Row) -> Row:
        """What tells the group of a row from others."""
        return tuple([row[column] for column in self._group])

    def has_value(self, row: Row) -> bool:
        """Whether a row has a value; where the best of values is kept, not all constants are some."""
        if self._joins is not None:
            return True
        value = self._decoded(row[self._lattice.column])
        return isinstance(value, bool) if self._lattice.booleans else value == value

    def combined(self, one: Row, other: Row) -> Row:
        """What two rows of a group become: their join, or the better one."""
        return self._better(one, other) if self._joins is None else self._joined(self._joins, one, other)

    def _joined(self, joins: Joins, one: Row, other: Row) -> Row:
        column = self._lattice.column
        try:
            value = joins.of_all((one[column], other[column]))
        except JoinFailed as problem:
            group = ", ".join(render_value(self._decoded(term)) for term in self.group_of(one))
            name = display_predicate(self._predicate, {})
            what = f"the lattice `{self._lattice.join}` gives no value to `{name}` for ({group})"
            raise LatticeError(f"{what}: {problem}") from problem
        return (*one[:column], value, *one[column + 1 :])

    def _better(self, one: Row, other: Row) -> Row:
        """The row of the better value, or of the first witness."""
        order: Sequence[tuple[int, bool]] = [(self._lattice.column, self._lattice.direction == RISES)]
        if self._lattice.witness is not None:
            order = [*order, (self._lattice.witness, False)]
        for column, rising in order:
            if one[column] != other[column]:
                values = self._decoded(one[column]), self._decoded(other[column])
                return one if is_better(*values, rising) else other
        return one

    def _decoded(self, term: int) -> Value:
        return self._store.terms.table.decode(term)
