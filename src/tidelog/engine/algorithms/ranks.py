"""Deletion by ranks: overdeletion that ends at a fact which older facts still derive. Ours, and what `auto` does.

The *rank* of a fact is its place in the order in which facts were inserted, over all updates; no two facts of a round
share one. When a fact is inserted, the facts that derive it are there already: it has a derivation from facts of lower
ranks, or it is explicit, or its counter knows a non-recursive derivation. Deletion keeps this true of whatever stays. A
fact that lost a derivation from lower ranks looks for another such derivation among facts that have not been
overdeleted: if there is one, it stays and spreads nothing; if not, it is overdeleted. Ranks fall along these
derivations, so no two facts can keep each other alive: among facts that stay without a proof, the one of lowest rank
would have a derivation from facts that have one. What was overdeleted and has a derivation left comes back as in
Delete/Rederive (DR4, DR5), with the rank of a new fact.

Compared with Delete/Rederive, overdeletion stops at once where a fact has many derivations; compared with
Backward/Forward, finding one derivation is a proof, however deep the facts in it lie. The derivations that a fact
loses from later facts cost nothing. The algorithm is weak where a fact of low rank has only derivations from later
ones, and much depends on it: then all of that is overdeleted, only to come back.

Ranks lie where the recursive counter of a fact would: this algorithm keeps none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tidelog.engine.algorithms import delete_rederive as dred
from tidelog.engine.propagation.derived_heads import LOSE, count_work
from tidelog.engine.propagation.match_sets import IN_DELETION, IN_SUPPORT, match_in
from tidelog.engine.propagation.propagate import run_round, waiting
from tidelog.engine.rules.compiled import CompiledRule
from tidelog.engine.transaction.task import Task
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import field, flags_at, relation_row
from tidelog.machine.jit import Registers, device, entry_point, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, MATCH
from tidelog.program.condensation import components
from tidelog.store.store import Store

# The facts that wait look for a derivation, one after the other; then those without one spread, in a round.
LOOKING, SPREADING = 0, 1

# In candidates of materialisation: a fact that looks for a derivation; and an overdeleted one, which spreads, leaves I,
# and may come back.
LOOK_COST, LOSS_COST = 25, 110

# From this rank on, facts are renumbered between two updates. An update that needs more ranks than are left leaves the
# facts of its component without any (`propagate.TOP_RANK`).
LAST_RANK = 1 << 30


@device
def look(m, relation, row, fact, head_starts, head_ends, head_plans):
    """Look for an instance that derives the fact from lower ranks. Where derivations by the other rules are counted, by
    the rules of the recursion alone.
    """
    if m[M.LOOK_PLAN] == 0:
        m[M.LATE] = 0
        m[M.WORK + W.CHECKED] += 1
        m[M.BUDGET] -= LOOK_COST
    m[M.BELOW] = load_i32(counters_of(row, fact) + 4) + 1
    status = dred.look_for_instance(m, relation, fact, head_starts, head_ends, head_plans, m[M.LOOK_RULES])
    m[M.BELOW] = 0
    if status == MATCH:
        count_work(m, W.BACKWARD, load_i64(m[M.FRAMES]), 1)
    return status


@device
def settle(m, relation, row, fact, status):
    """The fact has looked: without a derivation from lower ranks it is overdeleted. It may come back only if its rank
    was the reason.
    """
    place = flags_at(row, fact)
    flags = load_i32(place) & ~F.CHECKED
    if status == DONE:
        flags |= F.DELETED
        store_i32(field(row, R.QUEUE) + 4 * m[M.RANKS_KEPT], fact)
        m[M.RANKS_KEPT] += 1
        if m[M.LATE] != 0:
            L.push(m, L.P, L.entry_of(relation, fact))
        m[M.BUDGET] -= LOSS_COST
    store_i32(place, flags)
    dred.end_look(m)
    m[M.RANKS_FACT] += 1


@device
def let_look(m, relations, relation_count, head_starts, head_ends, head_plans):
    """Let all facts that wait look, and those that are overdeleted wait on: DONE, or a reason to pause."""
    while m[M.RANKS_RELATION] < relation_count:
        relation = load_i32(relations + 4 * m[M.RANKS_RELATION])
        row = relation_row(m, relation)
        while m[M.RANKS_FACT] < field(row, R.QUEUE_COUNT):
            status = L.room(m, L.P, 1)
            if status != DONE:
                return status
            fact = load_i32(field(row, R.QUEUE) + 4 * m[M.RANKS_FACT])
            status = look(m, relation, row, fact, head_starts, head_ends, head_plans)
            if status not in (MATCH, DONE):
                return status
            settle(m, relation, row, fact, status)
        store_i64(row + 8 * R.QUEUE_COUNT, m[M.RANKS_KEPT])
        m[M.RANKS_FACT] = m[M.RANKS_KEPT] = 0
        m[M.RANKS_RELATION] += 1
    m[M.RANKS_RELATION] = 0
    return DONE


@entry_point
def overdelete_by_rank(
    m: Registers,
    relations: int,
    relation_count: int,
    starts: int,
    ends: int,
    plans: int,
    head_starts: int,
    head_ends: int,
    head_plans: int,
    spreading: int,
    looking: int,
) -> int:
    """After it, D holds what is overdeleted; every other fact has a derivation from lower ranks. The last two say in
    which sets instances are found that go, and those that stay.
    """
    while True:
        if m[M.RANKS_STAGE] == LOOKING:
            match_in(m, looking)
            status = let_look(m, relations, relation_count, head_starts, head_ends, head_plans)
            if status != DONE or waiting(m, relations, relation_count) == 0:
                return status
            m[M.RANKS_STAGE] = SPREADING
        match_in(m, spreading)
        status = run_round(m, LOSE, relations, relation_count, starts, ends, plans)
        if status != DONE:
            return status
        m[M.RANKS_STAGE] = LOOKING


@entry_point
def let_candidates_look(m: Registers, relations: int, relation_count: int) -> None:
    """All that is known of the facts that wait is that they lost a derivation: let them look for another."""
    for position in range(relation_count):
        row = relation_row(m, load_i32(relations + 4 * position))
        for waits in range(field(row, R.QUEUE_COUNT)):
            place = flags_at(row, load_i32(field(row, R.QUEUE) + 4 * waits))
            store_i32(place, load_i32(place) & ~F.DELETED | F.CHECKED)


def start_ranks_over(store: Store) -> None:
    """Between two updates, before ranks outgrow their cells: number them from the beginning, in the same order."""
    if store.machine[M.RANK] > LAST_RANK:
        columns = [relation.counters[:, 1] for relation in store.relations if relation.has_counters]
        known = np.unique(np.concatenate([np.zeros(1, np.int32), *columns]))  # 0 is no rank, and stays that
        for column in columns:
            column[:] = np.searchsorted(known, column)
        store.machine[M.RANK] = len(known)


def stack_ranks(task: Task, rules: Iterable[CompiledRule]) -> bool:
    """Components have merged: let facts that these rules derived above others have higher ranks; whether ranks are
    kept. Where components split, there is nothing to do: whatever derived a fact from lower ranks still does, or is
    counted now.

    A fact that only a counter held has the facts that derive it in components below, and so with lower ranks; the
    others keep their order.
    """
    if not task.node.ranked:
        return False
    relations = {relation.name: relation for relation in task.relations}
    read: dict[str, set[str]] = {name: set() for name in relations}
    for rule in rules:
        read[rule.head.name].update(atom.predicate for atom in rule.normal.positives if atom.predicate in relations)
    top = 0
    for part in components(relations, read):
        ranks = [relations[name].counters[:, 1] for name in part]
        height = max(int(column.max(initial=0)) for column in ranks)
        if top + height > LAST_RANK:
            return False
        for column in ranks:
            column += top
        top += height + 1
    task.machine[M.RANK] = max(task.machine[M.RANK], top)
    return True


def delete_by_ranks(task: Task, most: int) -> None:
    """Delete from one component whose facts have their ranks; what comes back waits for insertion.

    Raises `OutOfPatience`, with nothing decided, once it costs more than `most` candidates of materialisation, or is
    going to: the facts that wait are taken to cost what those before them did.
    """
    if overdelete(task, most, dred.BY_OWN_RULES):
        # DR4, as in Delete/Rederive.
        task.lists.move(L.P, L.D)
        dred.bring_back(task, counted=False)


def overdelete(task: Task, most: int, rules: int) -> bool:
    """Find what has no derivation from lower ranks left, and take it out of I (DR3); whether there is any candidate.
    `rules` are those by which derivations are looked for.
    """
    checked = int(task.machine[M.WORK + W.CHECKED])
    task.machine[M.LOOK_RULES] = rules
    with task.runner.patience(most, lambda spent: _outlook(task, checked, spent)):
        if not dred.find_candidates(task):
            return False
        task.lists.clear(L.P)
        table = task.round_table(deleting=True)
        let_candidates_look(task.machine, *task.node.numbers())
        heads = task.node.heads(task.rules.added_numbers)
        sets = IN_DELETION, IN_SUPPORT
        task.runner.run(overdelete_by_rank, *task.node.numbers(), *table.arguments(), *heads.arguments(), *sets)
    dred.drop_deleted(task.machine)
    return True


def _outlook(task: Task, checked: int, spent: int) -> float:
    """What the facts that wait to look will cost at least; `checked` had looked before this component's did."""
    machine, waiting_in, looked = task.machine, task.relations, 0
    done = int(machine[M.WORK + W.CHECKED]) - checked
    if done == 0:
        return 0.0  # Candidates are still being found.
    if machine[M.RANKS_STAGE] == LOOKING:
        waiting_in = waiting_in[int(machine[M.RANKS_RELATION]) :]
        looked = int(machine[M.RANKS_FACT])
    elif machine[M.AT_PHASE] == 0:
        return 0.0  # Those that wait have looked, and are about to spread, which was counted.
    return spent / done * (sum(relation.queues.waiting for relation in waiting_in) - looked)
