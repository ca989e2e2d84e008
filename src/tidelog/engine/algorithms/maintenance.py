"""Bringing one component up to date: which algorithm maintains it, and with which counters.

`docs/explanation/algorithms.md` says what each does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from tidelog.engine.algorithms import auto
from tidelog.engine.algorithms.backward_forward import backward_forward
from tidelog.engine.algorithms.best_values import keep_best_values
from tidelog.engine.algorithms.counting import count, recount
from tidelog.engine.algorithms.counting_trace import count_by_trace
from tidelog.engine.algorithms.delete_rederive import delete_and_rederive
from tidelog.engine.algorithms.insertion import recompute
from tidelog.engine.algorithms.kept_joins import keep_joins
from tidelog.engine.algorithms.names import MAINTENANCE, Maintenance
from tidelog.engine.marking.marking import ALL_MARKS, EXPLICIT_MARKS
from tidelog.engine.rules.compiled import CompiledRule, Node
from tidelog.engine.rules.policy import NO_COUNTER, Counted, CountedRules, Counters
from tidelog.engine.transaction.task import Task
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Explicit, RuleChange
from tidelog.errors import TidelogError
from tidelog.program.graph import Component


class Algorithm(NamedTuple):
    """An algorithm, the counters that it keeps, and which facts pass their marks on under it."""

    run: Callable[[Task], None]
    counters: Counters
    marks: int = 0


def _recompute(task: Task) -> None:
    recompute(task, most_stays=not task.rules.removed and auto.most_stays(task, auto.losses_of(task)))


_DRED = Algorithm(delete_and_rederive, Counters.NONE, ALL_MARKS)
_COUNTING = Algorithm(count, Counters.ALL)
_COUNTING_TRACE = Algorithm(count_by_trace, Counters.LEVELS)
_DRED_COUNTING = Algorithm(delete_and_rederive, Counters.ALL, ALL_MARKS)
_BF = Algorithm(backward_forward, Counters.NONE, EXPLICIT_MARKS)
_BF_COUNTING = Algorithm(backward_forward, Counters.NON_RECURSIVE, EXPLICIT_MARKS)
_RECOMPUTE = Algorithm(_recompute, Counters.NONE)
_AUTO = Algorithm(auto.count_or_recompute, Counters.ALL)
_AUTO_RECURSIVE = Algorithm(auto.delete_or_recompute, Counters.NON_RECURSIVE, EXPLICIT_MARKS)

# For components without recursion, and for those with it.
_CHOICES = {
    Maintenance.AUTO: (_AUTO, _AUTO_RECURSIVE),
    Maintenance.RECOMPUTE: (_RECOMPUTE, _RECOMPUTE),
    Maintenance.DRED: (_DRED, _DRED),
    Maintenance.COUNTING: (_COUNTING, _DRED),
    Maintenance.COUNTING_TRACE: (_COUNTING, _COUNTING_TRACE),
    Maintenance.DRED_COUNTING: (_COUNTING, _DRED_COUNTING),
    Maintenance.BACKWARD_FORWARD: (_BF, _BF),
    Maintenance.BACKWARD_FORWARD_COUNTING: (_COUNTING, _BF_COUNTING),
}


def _counted(rule: CompiledRule, task: Task) -> Counted:
    """How the derivations of a rule are counted in a task."""
    return Counted.of(task.counters.of(rule.recursive, deleting=False), task.node.predicates)


def _computes(node: Node, rules: RuleChange) -> bool:
    """Whether the kernels of a component have to know what terms are."""
    return node.computes or (bool(rules.removed) and any(rule.normal.computes for rule in rules.removed))


def kept_in(node: Node | Component, predicate: str) -> Hashable:
    """What `Relation.kept` is for a predicate of a component."""
    if isinstance(node, Node) and node.shape is not None:
        return node.shape
    return (node.predicates, node.lattices.get(predicate)) if node.lattices else None


def note_kept(transaction: Transaction, node: Node) -> bool:
    """Whether the values of a component are kept otherwise than before, so that it has to be materialised afresh."""
    changed, plain = False, node.shape is None and not node.lattices
    for predicate, relation in zip(node.predicates, node.relations, strict=True):
        kept = None if plain else kept_in(node, predicate)
        if relation.kept != kept:
            # Nothing was kept otherwise where there was nothing.
            changed = changed or relation.count > 0
            transaction.undo.note_kept(relation, kept)
    return changed


def note_shape(transaction: Transaction, node: Node) -> bool:
    """Whether the other rules of a recursion stand beside other closures than before, so that all of it has to be
    materialised afresh.
    """
    changed = [relation for relation in node.relations if relation.kept != node.shape]
    for relation in changed:
        transaction.undo.note_kept(relation, node.shape)
    return bool(changed)


class ComponentMaintenance:
    """The algorithms that `maintenance` names, and in which counter the derivations of each rule are counted."""

    def __init__(self, maintenance: str) -> None:
        try:
            self._plain, self._recursive = _CHOICES[Maintenance(maintenance)]
        except ValueError:
            known = ", ".join(MAINTENANCE)
            raise TidelogError(f"unknown maintenance {maintenance!r}; it is one of {known}") from None
        self._is_auto = maintenance == Maintenance.AUTO
        self.counted = CountedRules()

    def algorithm(self, recursive: bool) -> Algorithm:
        """The one for components with recursion, or without it."""
        return self._recursive if recursive else self._plain

    def maintain(
        self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, afresh: bool = False
    ) -> None:
        """Let a component follow what changed below it, in E and in its rules; or materialise it afresh."""
        transaction.runner.computes = _computes(node, rules)
        afresh = note_kept(transaction, node) or afresh
        if node.lattices:
            task = Task(transaction, node, explicit, rules, Counters.RANKS)
            if any(lattice.join is not None for lattice in node.lattices.values()):
                keep_joins(task, afresh)
                self._note_counters(task)
            else:
                self._keep_best(task, afresh)
            return
        algorithm = self.algorithm(node.recursive)
        task = Task(transaction, node, explicit, rules, algorithm.counters)
        afresh = afresh or (self._is_auto and auto.starts_afresh(task))
        if not (afresh or node.rules or rules.removed):
            task.follow_explicit()
            return
        if algorithm.counters is not Counters.NONE:
            for relation in node.relations:
                relation.add_counters()
        if afresh:
            recompute(task, most_stays=False)
            self._note_counters(task)
        else:
            self._prepare_counters(task)
            transaction.marking.pass_on(algorithm.marks)
            before, all_is_new = transaction.runner.candidates, all(relation.is_new() for relation in node.relations)
            algorithm.run(task)
            if all_is_new:
                auto.learn_effort(task, before)

    def task_beside_closures(
        self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, afresh: bool
    ) -> Task:
        """The task of a recursion's other rules, which exchange what they derive with its closures. They are maintained
        alike under every name, with ranks, and with counters of what is derived from below.
        """
        transaction.runner.computes = _computes(node, rules)
        transaction.marking.pass_on(0)
        task = Task(transaction, node, explicit, rules, Counters.NON_RECURSIVE)
        for relation in node.relations:
            relation.add_counters()
        if afresh:
            self._note_counters(task)
        else:
            self._prepare_counters(task)
        return task

    def leave_uncounted(self, rules: Iterable[int]) -> None:
        """Plug-ins derive what follows from these rules, and do not say how often."""
        for number in rules:
            self.counted.count(number, Counted(NO_COUNTER))

    def _keep_best(self, task: Task, afresh: bool) -> None:
        """Maintain a component in which `min` or `max` is part of the recursion."""
        before, all_is_new = task.runner.candidates, all(relation.is_new() for relation in task.relations)
        keep_best_values(task, afresh)
        self._note_counters(task)
        if all_is_new:
            auto.learn_effort(task, before)

    def _prepare_counters(self, task: Task) -> None:
        """Let the counters of a component be those that its algorithm keeps, as of before the update."""
        node, rules = task.node, task.rules
        if node.counted == self.counted.version and not rules.removed:
            return  # Nothing has changed since the last time.
        if task.counters is not Counters.NONE:
            before = [rule for rule in node.rules if rule.number not in rules.added_numbers]
            before.extend(rules.removed)
            if any(self.counted.get(rule.number) != _counted(rule, task) for rule in before):
                if task.counters is Counters.LEVELS:
                    task.note_ranked(False)  # They are found again when the component is next maintained.
                else:
                    recount(task, before)
        self._note_counters(task)

    def _note_counters(self, task: Task) -> None:
        for rule in task.node.rules:
            self.counted.count(rule.number, _counted(rule, task))
        task.node.counted = self.counted.version
