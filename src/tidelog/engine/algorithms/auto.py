"""What `auto` decides for a component: whether to delete from it or to materialise it again, whichever is cheaper.

It goes by how much of its input a component has lost, and by what earlier deletions and materialisations took
(`policy.Costs`). All costs are in candidates of materialisation, so that the same updates are always treated alike.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tidelog.engine.algorithms.backward_forward import backward_forward
from tidelog.engine.algorithms.counting import count
from tidelog.engine.algorithms.insertion import insert, recompute
from tidelog.engine.algorithms.ranks import LOOK_COST, delete_by_ranks
from tidelog.engine.propagation.derived_heads import STEP_COST
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.transaction.task import Task
from tidelog.engine.update.runner import OutOfPatience
from tidelog.store.relation import Relation

# What a deletion may cost before the component is materialised again instead, as a share of what that costs. Such an
# attempt was in vain. The costs of earlier deletions, or what waits on the way, foretell most of them, so an attempt
# that has come far may finish.
PATIENCE = 1.25
# Without ranks, facts are deleted by B/F, whose candidates cost up to sixty times those of materialisation. A third of
# the patience must do, since materialising again also restores the ranks.
PROOF_COST = 3 * 60
LEAST_PATIENCE = 1_000
# From this share of lost input on, deletion costs more than starting from what is left.
LOST_SHARE = 0.5
LEAST_LOSS = 100
# Below this, the exact share does not matter.
SMALL_SHARE = 0.05


class Loss(NamedTuple):
    """Facts that a component's rules, or its own E, have lost from a relation."""

    gone: int
    relation: Relation
    in_relation: bool  # whether the relation still holds them

    @property
    def share(self) -> float:
        """The share of all facts that were there: 0 where few are gone. A small share is an upper bound, since counting
        a relation's facts takes time in proportion to its size."""
        if self.gone <= LEAST_LOSS:
            return 0.0
        at_most = self.gone / max(1, self.relation.at_least())
        if at_most < SMALL_SHARE:
            return at_most
        return self.gone / (len(self.relation) + (0 if self.in_relation else self.gone))


def losses_of(task: Task) -> list[Loss]:
    """What a component has lost of its own E, and of what its rules read."""
    losses = [Loss(len(task.explicit.deleted[relation.number]), relation, True) for relation in task.relations]
    for predicate in task.node.readers:
        delta = task.transaction.deltas.get(predicate)
        if delta is not None:
            losses.append(Loss(delta.gone.count, task.store.relation(predicate, 0), False))
    return losses


def most_stays(task: Task, losses: list[Loss]) -> bool:
    """Whether less is gone than left of all that a component is derived from. One input may have lost much, and yet be
    the smallest of them.
    """
    gone = sum(loss.gone for loss in losses)
    inputs = [relation for relation in map(task.store.find, task.node.readers) if relation is not None]
    return gone < sum(map(len, inputs)) + sum(relation.explicit_count for relation in task.relations)


def _applications(task: Task, rule: CompiledRule) -> int:
    """About how many instances a rule has: those found so far, and for a recursive rule at least one for each fact."""
    found = int(task.store.rule_counts.work[rule.number])
    return max(found, len(rule.head)) if rule.recursive else found


def starts_afresh(task: Task) -> bool:
    """Whether rules go that gave more derivations than those that stay: the component is then materialised again.

    Where no rule is left, that needs no reasoning at all (ZodiacEdge: hyper-nodes that go as a whole).
    """
    if not task.rules.removed or not task.node.rules:
        return bool(task.rules.removed)
    gone = sum(_applications(task, rule) for rule in task.rules.removed)
    return gone > max(LEAST_LOSS, sum(_applications(task, rule) for rule in task.node.rules))


def count_or_recompute(task: Task) -> None:
    """Maintain a component without recursion."""
    losses = losses_of(task)
    if _most_instances_go(task, losses):
        recompute(task, most_stays(task, losses))
    else:
        count(task)


def _most_instances_go(task: Task, losses: list[Loss]) -> bool:
    """Whether more rule instances go than stay, by the shares of facts that their atoms have lost. Those that go are
    counted down; those that stay would be found again. Where two atoms lose a third each, five ninths go, if the losses
    are independent. It may be far fewer, or more, but finding them again is never slower than starting from nothing.
    """
    stays = {loss.relation.name: 1 - share for loss in losses if not loss.in_relation and (share := loss.share)}
    if not stays:
        return False
    gone = left = 0.0
    for rule in task.node.rules:
        found = _applications(task, rule)
        stay = found * prod(stays.get(atom.predicate, 1.0) for atom in rule.normal.positives)
        gone, left = gone + found - stay, left + stay
    return gone > left


def delete_or_recompute(task: Task) -> None:
    """Maintain a component with recursion."""
    losses, costs = losses_of(task), task.node.costs
    patience = max(LEAST_PATIENCE, int(PATIENCE * costs.of_materialising(sum(each.count for each in task.relations))))
    # Each fact that a removed rule derived has to look for another derivation.
    looks = sum(_applications(task, rule) for rule in task.rules.removed)
    if any(loss.share > LOST_SHARE for loss in losses) or looks * (STEP_COST + LOOK_COST) > patience:
        _start_over(task, losses)
        return
    try:
        if task.node.ranked:
            _delete_by_ranks(task, patience, sum(loss.gone for loss in losses))
            insert(task)
        else:
            backward_forward(task, patience // PROOF_COST)
    except OutOfPatience:
        _start_over(task, losses)


def _delete_by_ranks(task: Task, patience: int, lost: int) -> None:
    """Delete unless earlier deletions say that patience would run out, and learn from what it takes."""
    costs, transaction = task.node.costs, task.transaction
    if costs.of_deleting(lost) > patience:
        costs.forget()
        raise OutOfPatience
    before, work = task.runner.candidates, transaction.work()
    try:
        delete_by_ranks(task, patience)
    except OutOfPatience:
        if lost:
            costs.learn_failure(lost, task.runner.candidates - before, patience)
        raise
    if lost:
        spent, now = task.runner.candidates - before, transaction.work()
        costs.learn_deletion(lost, spent)
        came_back = now["rederivation"] - work["rederivation"]
        went = now["overdeleted"] - work["overdeleted"] - came_back
        costs.learn_going(lost, went)


def _start_over(task: Task, losses: list[Loss]) -> int:
    """Materialise a component again, and learn from what that takes and leaves; how many facts fewer it has now."""
    lost = sum(loss.gone for loss in losses)
    facts = task.fact_count()
    share_left = max(0.0, 1 - task.node.costs.of_going(lost) / max(1, facts))
    stays = share_left > 0.5 and most_stays(task, losses)
    before = task.runner.candidates
    recompute(task, stays, share_left)
    went = max(0, facts - learn_effort(task, before))
    if lost:
        task.node.costs.learn_going(lost, went)
    return went


def learn_effort(task: Task, before: int) -> int:
    """Note what it took to materialise a component, after so many candidates; how many facts it has."""
    facts = task.fact_count()
    if facts:
        dense = all(relation.bits.dense for relation in task.relations)
        task.node.costs.learn_materialising(facts, task.runner.candidates - before, dense)
    return facts
