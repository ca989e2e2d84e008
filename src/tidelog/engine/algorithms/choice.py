"""Which algorithm maintains which component: the values of `maintenance` (see docs/algorithms.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tidelog.engine.algorithm_names import MAINTENANCE, Maintenance
from tidelog.engine.algorithms.backward_forward import backward_forward
from tidelog.engine.algorithms.counting import count
from tidelog.engine.algorithms.delete_rederive import delete_and_rederive
from tidelog.engine.algorithms.insertion import insert
from tidelog.engine.algorithms.policy import Counters
from tidelog.engine.algorithms.ranks import LOOK_COST, delete_by_ranks
from tidelog.engine.algorithms.recomputation import recompute
from tidelog.engine.compiled import CompiledRule, Node
from tidelog.engine.deltas import Explicit, RuleChange
from tidelog.engine.marking.marking import ALL_MARKS, EXPLICIT_MARKS
from tidelog.engine.propagation.derived_heads import STEP_COST
from tidelog.engine.runner import OutOfPatience
from tidelog.engine.transaction import Transaction
from tidelog.errors import TidelogError
from tidelog.store.relation import Relation

Maintain = Callable[[Transaction, Node, Explicit, RuleChange, Counters], None]


def _applications(transaction: Transaction, rule: CompiledRule) -> int:
    """About how many instances a rule has: those that were ever found, and for a recursion at least one a fact."""
    found = int(transaction.store.arrays.rule_work[rule.number])
    return max(found, len(rule.head)) if rule.recursive else found


def _count(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, _: Counters) -> None:
    count(transaction, node, explicit, rules)


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm, the counters that it keeps, and which facts pass their marks on under it."""

    run: Maintain
    counters: Counters
    marks: int = 0


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A choice for components without recursion, and one for those with it."""

    plain: Choice
    recursive: Choice
    may_start_afresh: bool = False

    def choice(self, node: Node) -> Choice:
        return self.recursive if node.recursive else self.plain

    def counters(self, node: Node) -> Counters:
        return self.choice(node).counters

    @property
    def overdeletes(self) -> bool:
        """Whether it deletes more than goes, so that knowing what comes back helps."""
        return self.recursive.marks == ALL_MARKS

    def starts_afresh(self, transaction: Transaction, node: Node, rules: RuleChange) -> bool:
        """Whether rules go that gave more derivations than those that stay: a component is then materialised again.

        Without any rule left, that is no reasoning at all (ZodiacEdge: hyper-nodes that go as a whole).
        """
        if not self.may_start_afresh or not rules.removed:
            return False
        if not node.rules:
            return True
        gone = sum(_applications(transaction, rule) for rule in rules.removed)
        left = sum(_applications(transaction, rule) for rule in node.rules)
        return gone > max(left, LEAST_LOSS)

    def maintain(self, transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange) -> None:
        choice = self.choice(node)
        transaction.marking.pass_on(choice.marks)
        before = transaction.runner.candidates
        all_is_new = all(relation.is_new() for relation in node.relations)
        choice.run(transaction, node, explicit, rules, choice.counters)
        if all_is_new:
            _learn_effort(transaction, node, before)


# What a deletion may cost before the component is materialised again instead, as a share of what that costs: such an
# attempt was in vain. Most of those are told by the costs of earlier deletions beforehand, or by what waits on the way,
# so that what has come far may finish.
PATIENCE = 1.25
# Without ranks deletion goes by B/F, of which a candidate costs up to sixty times one of materialisation; and a third
# of the patience must do, since materialising again also brings the ranks back.
PROOF_COST = 3 * 60
LEAST_PATIENCE = 1_000
# A deletion is dear that takes more than so many candidates, 0.3 ms, and so many more for each fact that goes by it,
# some eight times what is usual: what keeps the facts that stay is hard to find, as it is where they form cycles.
DEAR, DEAR_FOR_EACH = 50_000, 5_000
# From this share of lost input on, deletion costs more than starting from what is left.
LOST_SHARE = 0.5
LEAST_LOSS = 100
# Below this, it does not matter which share it is exactly.
SMALL_SHARE = 0.05


class Loss(NamedTuple):
    """Facts that a component's rules, or its own E, have lost from a relation."""

    gone: int
    relation: Relation
    in_relation: bool  # whether the relation still holds them

    @property
    def share(self) -> float:
        """Of all facts that there were; of few it is none, and where it is small it may be said to be a little larger:
        to count a relation's facts takes as long as it is large."""
        if self.gone <= LEAST_LOSS:
            return 0.0
        at_most = self.gone / max(1, self.relation.at_least())
        if at_most < SMALL_SHARE:
            return at_most
        return self.gone / (len(self.relation) + (0 if self.in_relation else self.gone))


def _losses(transaction: Transaction, node: Node, explicit: Explicit) -> list[Loss]:
    losses = [Loss(len(explicit.deleted[relation.number]), relation, True) for relation in node.relations]
    for predicate in node.readers:
        delta = transaction.deltas.get(predicate)
        if delta is not None:
            losses.append(Loss(delta.removed_count, transaction.store.relation(predicate, 0), False))
    return losses


def _lost_too_much(losses: list[Loss]) -> bool:
    """Whether so much of what a component reads is gone that it is cheaper to start from what is left."""
    return any(loss.share > LOST_SHARE for loss in losses)


def _most_instances_go(transaction: Transaction, node: Node, losses: list[Loss]) -> bool:
    """Whether more rule instances go than stay, by the shares of facts that their atoms have lost: those that go are
    counted down, and those that stay would be found again. Where two atoms lose a third each, five ninths go, if what
    is lost has nothing to do with each other; it may be far fewer, or more, and to find them again is never slower
    than to start from nothing.
    """
    stays = {loss.relation.name: 1 - share for loss in losses if not loss.in_relation and (share := loss.share)}
    if not stays:
        return False
    gone = left = 0.0
    for rule in node.rules:
        found = _applications(transaction, rule)
        stay = found * prod(stays.get(atom.predicate, 1.0) for atom in rule.normal.positives)
        gone, left = gone + found - stay, left + stay
    return gone > left


def _most_stays(transaction: Transaction, node: Node, losses: list[Loss]) -> bool:
    """Whether less is gone than left of all that a component is derived from; one input may have lost much, and yet be
    the least of them.
    """
    gone = sum(loss.gone for loss in losses)
    inputs = [relation for relation in map(transaction.store.find, node.readers) if relation is not None]
    return gone < sum(map(len, inputs)) + sum(relation.explicit_count for relation in node.relations)


def _count_or_recompute(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> None:
    losses = _losses(transaction, node, explicit)
    if _most_instances_go(transaction, node, losses):
        recompute(transaction, node, counters, _most_stays(transaction, node, losses))
    else:
        count(transaction, node, explicit, rules)


def _learn_effort(transaction: Transaction, node: Node, before: int) -> int:
    """Note what it took to materialise a component; how many facts it has."""
    facts = sum(len(relation) for relation in node.relations)
    if facts:
        dense = all(relation.bits.dense for relation in node.relations)
        node.costs.learn_materialising(facts, transaction.runner.candidates - before, dense)
    return facts


def _start_over(transaction: Transaction, node: Node, counters: Counters, losses: list[Loss]) -> int:
    """Materialise a component again, and learn from what that takes and leaves; how many fewer facts it has now."""
    lost = sum(loss.gone for loss in losses)
    facts = sum(len(relation) for relation in node.relations)
    share_left = max(0.0, 1 - node.costs.of_going(lost) / max(1, facts))
    most_stays = share_left > 0.5 and _most_stays(transaction, node, losses)
    before = transaction.runner.candidates
    recompute(transaction, node, counters, most_stays, share_left)
    left = _learn_effort(transaction, node, before)
    went = max(0, facts - left)
    if lost:
        node.costs.learn_going(lost, went)
    return went


def _prove_or_recompute(
    transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters
) -> None:
    losses = _losses(transaction, node, explicit)
    facts = sum(relation.count for relation in node.relations)
    patience = max(LEAST_PATIENCE, int(PATIENCE * node.costs.of_materialising(facts)))
    # Each fact that a removed rule derived has to look for another derivation.
    looks = sum(_applications(transaction, rule) for rule in rules.removed)
    if not _lost_too_much(losses) and looks * (STEP_COST + LOOK_COST) <= patience:
        try:
            if node.ranked:
                _delete_by_ranks(transaction, node, explicit, rules, counters, patience, losses)
                insert(transaction, node, explicit, rules, counters)
            else:
                backward_forward(transaction, node, explicit, rules, counters, patience // PROOF_COST)
        except OutOfPatience:
            _note_cycles(transaction, node, patience, _start_over(transaction, node, counters, losses))
    else:
        _start_over(transaction, node, counters, losses)


def _delete_by_ranks(
    transaction: Transaction,
    node: Node,
    explicit: Explicit,
    rules: RuleChange,
    counters: Counters,
    patience: int,
    losses: list[Loss],
) -> None:
    """Delete unless earlier deletions say that it would be given up, and learn from what it takes."""
    lost = sum(loss.gone for loss in losses)
    if node.costs.of_deleting(lost) > patience:
        node.costs.forget()
        raise OutOfPatience
    before, work = transaction.runner.candidates, transaction.work()
    try:
        delete_by_ranks(transaction, node, explicit, rules, counters, patience)
    except OutOfPatience:
        if lost:
            node.costs.learn_failure(lost, transaction.runner.candidates - before, patience)
        raise
    if lost:
        node.costs.learn_deletion(lost, transaction.runner.candidates - before)
        now = transaction.work()
        came_back = now["rederivation"] - work["rederivation"]
        went = now["overdeleted"] - work["overdeleted"] - came_back
        node.costs.learn_going(lost, went)
        _note_cycles(transaction, node, transaction.runner.candidates - before, went)


def _note_cycles(transaction: Transaction, node: Node, spent: int, went: int) -> None:
    """Where a deletion was dear, the closures of a component are to have cores."""
    if spent > DEAR + DEAR_FOR_EACH * went:
        transaction.cyclic += node.predicates


def _recompute(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters) -> None:
    losses = _losses(transaction, node, explicit)
    recompute(transaction, node, counters, not rules.removed and _most_stays(transaction, node, losses))


def _prove(transaction: Transaction, node: Node, explicit: Explicit, rules: RuleChange, counters: Counters) -> None:
    backward_forward(transaction, node, explicit, rules, counters)


_DRED = Choice(delete_and_rederive, Counters.NONE, ALL_MARKS)
_COUNTING = Choice(_count, Counters.ALL)
_DRED_COUNTING = Choice(delete_and_rederive, Counters.ALL, ALL_MARKS)
_BF = Choice(_prove, Counters.NONE, EXPLICIT_MARKS)
_BF_COUNTING = Choice(_prove, Counters.NON_RECURSIVE, EXPLICIT_MARKS)
_RECOMPUTE = Choice(_recompute, Counters.NONE)

_ALGORITHMS = {
    Maintenance.AUTO: Algorithm(
        Choice(_count_or_recompute, Counters.ALL),
        Choice(_prove_or_recompute, Counters.NON_RECURSIVE, EXPLICIT_MARKS),
        may_start_afresh=True,
    ),
    Maintenance.RECOMPUTE: Algorithm(_RECOMPUTE, _RECOMPUTE),
    Maintenance.DRED: Algorithm(_DRED, _DRED),
    Maintenance.COUNTING: Algorithm(_COUNTING, _DRED),
    Maintenance.DRED_COUNTING: Algorithm(_COUNTING, _DRED_COUNTING),
    Maintenance.BACKWARD_FORWARD: Algorithm(_BF, _BF),
    Maintenance.BACKWARD_FORWARD_COUNTING: Algorithm(_COUNTING, _BF_COUNTING),
}


def algorithm_for(maintenance: str) -> Algorithm:
    try:
        return _ALGORITHMS[Maintenance(maintenance)]
    except ValueError:
        known = ", ".join(MAINTENANCE)
        raise TidelogError(f"unknown maintenance {maintenance!r}; it is one of {known}") from None
