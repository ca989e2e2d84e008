"""Best values: components in which `min` or `max` is part of the recursion (`program.lattices`), under every name of
`maintenance`. Ours, after Dijkstra, and after Ramalingam and Reps, "An incremental algorithm for a generalization of
the shortest-path problem" (1996).

*Insertion.* Rules offer values, and the best offer is settled next: it enters I in the place of the value that its
group had, and is the pivot of the rules that read it, which offer values in turn. Where values get worse along rules,
as distances do, each group is settled once. Where they do not, a group may be settled again; if that happens often,
offers are settled in rounds, first come first served, which bounds the work as it does for Bellman and Ford.

*Deletion.* Every fact has a rank, its place in the order of settling, and so a derivation from facts of lower ranks.
What lost one and has no other is overdeleted (`algorithms.ranks`); the rules are read backwards for all that they still
offer to its group, and the best of that is settled. A derivation of a worse value than the best is nobody's loss.

*Replaced facts.* Where a value is replaced after others were derived from it, a fact that was derived from the former
value and that the better one derives just the same has an older rank than that. So the replaced facts are taken for
deleted ones: what depends on them by rank looks for another derivation, and what finds none is settled anew, with the
same value. If that replaces facts again, time after time, the ranks are given up, and the next deletion starts over.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.engine.algorithms import auto
from tidelog.engine.algorithms import delete_rederive as dred
from tidelog.engine.algorithms.ranks import overdelete, overdelete_by_rank
from tidelog.engine.propagation.derived_heads import OFFER
from tidelog.engine.propagation.match_sets import (
    CREATED_FROM_BELOW,
    CREATED_IN_ROUND,
    HOLDING,
    IN_REPLACEMENT,
    IN_SUPPORT_NOW,
)
from tidelog.engine.propagation.settling import (
    forget_deletion,
    lose_replaced,
    offer_explicit,
    offer_facts,
    queue_replaced,
    settle_offers,
)
from tidelog.engine.rules.policy import NO_COUNTER
from tidelog.engine.transaction.task import Job, Task
from tidelog.engine.update.runner import OutOfPatience
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_lists as L
from tidelog.machine.jit import address
from tidelog.program.lattices import RISES, Lattice
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

Integers = npt.NDArray[np.int64]

# How often ranks are mended in one update before they are given up.
MOST_MENDINGS = 4

# From so many offers on, they are settled key by key.
ASIDE_FROM = 1000


def keep_best_values(task: Task, afresh: bool) -> None:
    """Maintain a component, or materialise it afresh."""
    _prepare(task)
    try:
        losses = auto.losses_of(task)
        if afresh or not task.node.ranked or any(loss.share > auto.LOST_SHARE for loss in losses):
            _offer_all(task)
        else:
            _delete(task)
            _offer_changes(task)
    except OutOfPatience:
        _offer_all(task)
    _settle(task)
    _mend_ranks(task)
    _finish(task)


def _prepare(task: Task) -> None:
    """Let the relations have what kernels need to find the value of a group."""
    task.node.complete_tables()
    task.machine[M.SPOILED] = 0
    task.lists.clear(L.OFFERS)
    task.lists.clear(L.REPLACED)
    for relation in task.relations:
        relation.add_counters()
        relation.mark_unclean()
        relation.bits.forget()
        lattice = task.node.lattices.get(relation.name)
        relation.fields[R.BEST] = relation.fields[R.DRAFTS] = 0
        if lattice is not None:
            _describe(relation, lattice)
        deleted = task.explicit.deleted[relation.number]
        # An explicit value that was not the best one is nobody's loss.
        task.explicit.deleted[relation.number] = deleted[(relation.flags[deleted] & F.IN) != 0]


def _describe(relation: Relation, lattice: Lattice) -> None:
    """Tell kernels how a relation keeps its values."""
    relation.fields[R.GROUP] = relation.index_on(lattice.group(relation.arity)).number
    rising = R.BEST_RISES_OF_BOOLEANS if lattice.booleans else R.BEST_RISES
    falling = R.BEST_FALLS_OF_BOOLEANS if lattice.booleans else R.BEST_FALLS
    relation.fields[R.BEST] = rising if lattice.direction == RISES else falling
    relation.fields[R.VALUE] = 4 * lattice.column
    relation.fields[R.DRAFTS] = relation.is_new()
    relation.fields[R.WITNESS] = -1 if lattice.witness is None else 4 * lattice.witness


def _delete(task: Task) -> None:
    """Overdelete by ranks, and offer to the groups that lost their value what rules still derive for them."""
    patience = auto.PATIENCE * task.node.costs.of_materialising(sum(each.count for each in task.relations))
    if overdelete(task, max(auto.LEAST_PATIENCE, int(patience)), dred.BY_ANY_RULE):
        # The rules that the update adds have their turn afterwards.
        _offer_to_groups(task, task.lists.entries(L.D).copy(), task.rules.added_numbers)


def _offer_to_groups(task: Task, entries: Integers, without: frozenset[int] = frozenset()) -> None:
    """Offer all that E and the rules, without some, have for the groups of overdeleted facts."""
    forget_deletion(task.machine)
    if not len(entries):
        return
    numbers, facts = entries >> 32, (entries & 0xFFFFFFFF).astype(np.int32)
    lost = {relation: np.unique(facts[numbers == relation.number]) for relation in task.relations}
    jobs = [
        Job(rule.offset_from_group(), NO_COUNTER, lost[rule.head], rule.head.number)
        for rule in task.node.rules
        if rule.number not in without and len(lost[rule.head])
    ]
    task.spread(OFFER, HOLDING, jobs)
    for relation, found in lost.items():
        if len(found) and relation.name in task.node.lattices and relation.explicit_count:
            task.runner.run(offer_explicit, relation.number, address(found), len(found))


def _offer_changes(task: Task) -> None:
    """Offer what new facts and new rules yield."""
    for relation in task.relations:
        _offer_facts(task, relation, task.explicit.added[relation.number])
    task.spread(OFFER, CREATED_FROM_BELOW, task.from_below(deleted=False))
    task.spread(OFFER, HOLDING, task.of_rules(task.rules.added, deleted=False))


def _offer_all(task: Task) -> None:
    """Forget all values, and offer what E and the rules outside of the recursion yield."""
    for relation in task.relations:
        _offer_facts(task, relation, task.undo.take_all(relation))
    task.spread(OFFER, HOLDING, task.of_rules([rule for rule in task.node.rules if not rule.recursive], deleted=False))
    task.note_ranked(True)


def _offer_facts(task: Task, relation: Relation, facts: Cells) -> None:
    if len(facts):
        facts = np.ascontiguousarray(facts)
        task.runner.run(offer_facts, relation.number, address(facts), len(facts))


def _settle(task: Task) -> None:
    if task.lists.count(L.OFFERS):
        _put_aside(task)
        task.transaction.growth.begin(OFFER)
        CREATED_IN_ROUND.install(task.machine)
        task.lists.reserve(L.SPREADING, 1)
        since = int(task.machine[M.RANK])
        task.runner.run(settle_offers, *task.round_table(deleting=False).arguments(), since)
        if not task.has_ranks_left:
            task.note_ranked(False)


def _put_aside(task: Task) -> None:
    """Where there are many offers, and rules carry a key along, let them be settled key by key: what is looked up then
    are the groups of one key, which the caches hold, and the heap stays small.
    """
    task.lists.clear(L.ASIDE)
    offers = task.lists.entries(L.OFFERS).reshape(-1, 2)
    columns = task.node.carried_columns() if len(offers) >= ASIDE_FROM else None
    if columns is None:
        return
    numbers, facts = offers[:, 1] >> 32, offers[:, 1] & 0xFFFFFFFF
    keys = np.empty(len(offers), np.int64)
    for relation in task.relations:
        own = numbers == relation.number
        keys[own] = relation.cells[facts[own], columns[relation.name]]
    aside = np.column_stack((keys, offers))[np.argsort(keys, kind="stable")]
    task.lists.fill(L.ASIDE, aside.ravel())
    task.lists.clear(L.OFFERS)


def _mend_ranks(task: Task) -> None:
    """Let what was derived from replaced facts have derivations from lower ranks again."""
    for _ in range(MOST_MENDINGS):
        if not task.lists.count(L.REPLACED):
            return
        replaced = _overdelete_replaced(task)
        _offer_to_groups(task, task.lists.entries(L.D)[replaced:].copy())
        _settle(task)
    if task.lists.count(L.REPLACED):
        task.note_ranked(False)


def _overdelete_replaced(task: Task) -> int:
    """Overdelete what has no derivation from lower ranks without the replaced facts; how many these are. In D they come
    first.
    """
    numbers = task.lists.entries(L.REPLACED) >> 32
    for relation in task.relations:
        relation.fields[R.DRAFTS] = 0
        relation.queues.reserve(int(np.count_nonzero(numbers == relation.number)))
    queue_replaced(task.machine)
    replaced = sum(relation.queues.waiting for relation in task.relations)
    task.lists.clear(L.D)
    task.lists.clear(L.P)
    task.machine[M.LOOK_RULES] = dred.BY_ANY_RULE
    table = (*task.node.numbers(), *task.node.rounds(task.counters, True).arguments())
    task.runner.run(lose_replaced, *table)
    heads = task.node.heads().arguments()
    task.runner.run(overdelete_by_rank, *table, *heads, IN_REPLACEMENT, IN_SUPPORT_NOW)
    dred.drop_deleted(task.machine)
    return replaced


def _finish(task: Task) -> None:
    spoiled = int(task.machine[M.SPOILED])
    for relation in task.relations:
        if relation.name in task.node.lattices:
            relation.note_dead(spoiled)
