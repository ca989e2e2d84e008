"""A plug-in as a module of a recursion: what it is given, and what becomes of the facts that it returns.

All facts that it derives lie in records of the component, beside those of the general module, which spreads them: what
a plug-in returns waits in queues, as if a rule had derived it. So Δ_i of Modular, Algorithm 3, are facts by their
numbers, and I, D and A are flags of records. A fact that is explicit or counted, C_nr > 0, is never overdeleted,
whatever a plug-in says.

The rules of a plug-in may read closures and other relations below; these are given as they are now, or as they were.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.engine.modules.closure_node import ModuleUnfit
from tidelog.engine.modules.plugin import Dataset, Source, derived_rows, row_keys
from tidelog.engine.modules.plugin_registry import Part
from tidelog.engine.modules.record_changes import RecordChanges
from tidelog.engine.propagation.derived_heads import INSERT, OVERDELETE
from tidelog.engine.transaction.task import Task
from tidelog.engine.update.deltas import NOTHING
from tidelog.engine.update.rows import NO_ROWS
from tidelog.errors import ModuleError, TidelogError, UnfitError
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import work_lists as L
from tidelog.runtime.signals import comes_from_signal, interruptible
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

Facts = dict[Relation, Cells]
"""Facts by their numbers."""


class PluginModule:
    """A plug-in in the recursion of its component, in one update."""

    def __init__(self, task: Task, part: Part, afresh: bool) -> None:
        """`task` is that of the general module."""
        self._task = task
        self._store = task.store
        self._plugin = part.plugin
        self._step = max(part.rules)  # the rule that limits name
        self._afresh = afresh
        relations = {name: self._store.relation(name, arity) for name, arity in part.plugin.arities.items()}
        self._own = {name: relation for name, relation in relations.items() if relation in task.relations}
        self._below = {name: relation for name, relation in relations.items() if name not in self._own}
        self._changes = {relation: RecordChanges(relation, afresh) for relation in self._own.values()}
        self._derived: Facts = {}  # Δ_i: what Del or Add have returned since they were last given anything

    # --- Diff, Del, Red and Add ---------------------------------------------------------------------------------------

    def difference(self, deleting: bool) -> None:
        # No order is known among the facts that it derives.
        self._task.note_ranked(False)
        if not self._below or (self._afresh and deleting):
            return
        changed = {name: self._changed(name, relation, deleting) for name, relation in self._below.items()}
        changed = {name: rows for name, rows in changed.items() if len(rows)}
        if not changed:
            return
        below = {name: self._rows_below(name, relation, deleting) for name, relation in self._below.items()}
        own = {name: self._rows_with(relation, F.OLD if deleting else F.IN) for name, relation in self._own.items()}
        given = {name: _given(changed.get(name, _none(relation))) for name, relation in self._below.items()}
        found = self._call("difference", own | below, given)
        if deleting:
            self._overdelete(found, "difference")
        else:
            self._insert(found)

    def delete(self) -> int:
        if self._afresh:
            return 0
        deleted = self._overdeleted()
        gone = {relation: changes.lose(deleted[relation]) for relation, changes in self._changes.items()}
        gone = self._without_derived(gone)
        if not any(map(len, gone.values())):
            return 0
        own = {name: self._rows_left_of(relation, deleted, gone) for name, relation in self._own.items()}
        below = {name: self._unchanged_rows(name, relation) for name, relation in self._below.items()}
        self._derived = self._overdelete(self._call("delete", own | below, self._given(gone), self._safe()), "delete")
        return sum(map(len, self._derived.values()))

    def rederive(self) -> None:
        gone = self._overdeleted()
        if self._afresh or not any(map(len, gone.values())):
            return
        found = self._call("rederive", self._present(), self._given(gone))
        for name, rows in found.items():
            relation = self._own[name]
            known = relation.rows(gone[relation])
            self._refuse_others(name, rows, np.isin(row_keys(rows), row_keys(known)), "rederive", "was not overdeleted")
        # The paper counts these to Δ_i (line 34), so that Add is not given them. But with facts that have come below,
        # they may yield more than what was overdeleted.
        self._insert(found)

    def add(self) -> int:
        won = self._without_derived({relation: changes.win() for relation, changes in self._changes.items()})
        if not any(map(len, won.values())):
            return 0
        self._derived = self._insert(self._call("add", self._present(), self._given(won)))
        return sum(map(len, self._derived.values()))

    # --- what it is given ---------------------------------------------------------------------------------------------

    def _given(self, facts: Facts) -> dict[str, Source]:
        return {name: self._source(relation, facts[relation]) for name, relation in self._own.items()}

    def _source(self, relation: Relation, facts: Cells) -> Source:
        return lambda: relation.rows(facts)

    def _present(self) -> dict[str, Source]:
        """(I ∖ D) ∪ A."""
        own = {name: self._rows_with(relation, F.IN) for name, relation in self._own.items()}
        return own | {name: self._rows_below(name, relation, False) for name, relation in self._below.items()}

    def _rows_with(self, relation: Relation, flag: int) -> Source:
        return lambda: relation.rows(np.flatnonzero(relation.flags & flag).astype(np.int32))

    def _rows_left_of(self, relation: Relation, deleted: Facts, gone: Facts) -> Source:
        """I ∖ (D ∖ A), of which what is `gone` is still a part."""

        def rows() -> Cells:
            there = relation.flags & F.OLD != 0
            there[deleted[relation]] = False
            there[gone[relation]] = True
            return relation.rows(np.flatnonzero(there).astype(np.int32))

        return rows

    def _safe(self) -> dict[str, Source]:
        """The facts with C_nr > 0, by predicates that the module derives."""

        def source(relation: Relation) -> Source:
            def rows() -> Cells:
                safe = (relation.flags & F.EXPLICIT != 0) | (relation.counters[:, 0] > 0)
                there = relation.flags & F.OLD != 0
                return relation.rows(np.flatnonzero(safe & there).astype(np.int32))

            return rows

        return {name: source(self._own[name]) for name in self._plugin.heads}

    def _overdeleted(self) -> Facts:
        """D, of the component's own relations."""
        entries = np.empty(0, np.int64) if self._afresh else self._task.lists.entries(L.D)
        numbers, facts = entries >> 32, (entries & 0xFFFFFFFF).astype(np.int32)
        return {relation: facts[numbers == relation.number] for relation in self._own.values()}

    def _without_derived(self, facts: Facts) -> Facts:
        """Δ ∖ Δ_i."""
        found = {}
        for relation, numbers in facts.items():
            own = self._derived.pop(relation, NOTHING)
            found[relation] = numbers[~np.isin(numbers, own)] if len(own) else numbers
        return found

    # --- what lies below ----------------------------------------------------------------------------------------------

    def _changed(self, name: str, relation: Relation, deleting: bool) -> Cells:
        """What is gone below, or has come; all of it where the component is materialised."""
        if self._afresh:
            return relation.rows()
        delta = self._task.deltas.get(name)
        rows = NO_ROWS if delta is None else delta.gone if deleting else delta.come
        return rows.read() if rows.count else _none(relation)

    def _rows_below(self, name: str, relation: Relation, before: bool) -> Source:
        """A relation below as it is now, or as it was before the update."""
        if not before:
            return relation.rows
        return lambda: np.concatenate((self._unchanged_rows(name, relation)(), self._changed(name, relation, True)))

    def _unchanged_rows(self, name: str, relation: Relation) -> Source:
        def rows() -> Cells:
            present, come = relation.rows(), self._changed(name, relation, False)
            return present[~np.isin(row_keys(present), row_keys(come))] if len(come) else present

        return rows

    # --- what it returns ----------------------------------------------------------------------------------------------

    def _call(self, function: str, *given: dict[str, Source]) -> dict[str, Cells]:
        """What a function of the module returns, by the names that the engine uses."""
        plugin, names = self._plugin, self._plugin.shown
        arities = {names[name]: plugin.arities[name] for name in plugin.heads}
        terms = self._store.terms
        datasets = [Dataset({names[name]: source for name, source in one.items()}, terms) for one in given]
        with self._store.hooks.using_terms():
            try:
                found = interruptible(getattr(plugin.module, function), *datasets)
                rows = derived_rows(found, arities, int(self._store.machine[M.TERM_COUNT]), function)
            except UnfitError:
                raise ModuleUnfit(plugin.name) from None
            except ModuleError as problem:
                raise ModuleError(f"{plugin.title}: {problem}", problem.definition) from None
            except Exception as problem:
                if comes_from_signal(problem) or isinstance(problem, (TidelogError, MemoryError)):
                    raise
                shown = f"{type(problem).__name__}: {problem}"
                raise ModuleError(f"{plugin.title}: `{function}` raised {shown:.200}") from problem
        self._task.runner.check_limits()
        return {name: rows[names[name]] for name in plugin.heads if names[name] in rows}

    def _refuse_others(self, name: str, rows: Cells, fit: npt.NDArray[np.bool_], function: str, why: str) -> None:
        """Refuse facts that a function must not return."""
        if not fit.all():
            values = self._store.terms.table.decode_column(rows[int(np.argmin(fit))])
            fact = f"{self._plugin.shown[name]}({', '.join(map(str, values))})"
            raise ModuleError(f"{self._plugin.title}: `{function}` returned {fact}, which {why}")

    def _overdelete(self, found: dict[str, Cells], function: str) -> Facts:
        """Let facts wait to be overdeleted; those that did not yet, and that nothing protects."""
        waiting = {}
        for name, rows in found.items():
            relation = self._own[name]
            facts = self._store.find_facts(relation, rows)
            held = facts >= 0
            held[held] = relation.flags[facts[held]] & F.OLD != 0
            self._refuse_others(name, rows, held, function, "did not hold")
            free = relation.flags[facts] & (F.EXPLICIT | F.DELETED) == 0
            waiting[relation] = facts[free & (relation.counters[facts, 0] == 0)]
            relation.mark_unclean()
            self._task.seed(OVERDELETE, relation, waiting[relation], protect=True)
        return waiting

    def _insert(self, found: dict[str, Cells]) -> Facts:
        """Let facts wait to be inserted; those that did not yet."""
        waiting = {}
        for name, rows in found.items():
            relation = self._own[name]
            known = self._store.find_facts(relation, rows)
            self._task.runner.check_limits(int(np.count_nonzero(known < 0)), self._step)
            relation.load(rows[known < 0], 0)
            facts = self._store.find_facts(relation, rows)
            waiting[relation] = facts[relation.flags[facts] & (F.IN | F.PENDING) == 0]
            self._task.seed(INSERT, relation, waiting[relation])
        return waiting


def _none(relation: Relation) -> Cells:
    return np.empty((0, relation.arity), np.int32)


def _given(rows: Cells) -> Source:
    return lambda: rows
