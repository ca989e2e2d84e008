"""Insertion: everything that follows from new facts (semi-naive evaluation; Modular, Algorithm 1; Backward/Forward,
DR5).

On an empty store this is materialisation, and after a component has forgotten what it derived, *recomputation*: the
yardstick for everything else.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import INSERT
from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, CREATED_IN_ROUND, HOLDING
from tidelog.engine.transaction.task import Task


def insert(task: Task) -> None:
    """Δ := E⁺, what new facts below and new rules yield; then I := I ∪ Δ and Δ := Π[I ⋮ Δ] ∖ I until Δ is empty."""
    task.node.complete_tables()
    if not task.counters.keeps_order:
        task.note_ranked(False)  # Facts get no ranks; see `engine.algorithms.ranks`.
    for relation in task.relations:
        task.seed(INSERT, relation, task.explicit.added[relation.number])
    task.spread(INSERT, CREATED_FROM_BELOW, task.from_below(deleted=False))
    task.spread(INSERT, HOLDING, task.of_rules(task.rules.added, deleted=False))
    task.rounds(INSERT, CREATED_IN_ROUND)
    if not task.has_ranks_left:
        task.note_ranked(False)


def recompute(task: Task, most_stays: bool, share_left: float = 1.0) -> None:
    """I := E on the component's relations; then every instance of its rules, and what follows.

    Where most facts stay, they are quicker found again than derived into fresh records, of which there will be about
    `share_left` as many.
    """
    for relation in task.relations:
        explicit = task.transaction.forget_derived(task.node, relation, most_stays, share_left)
        task.seed(INSERT, relation, explicit)
        task.transaction.growth.expect_many(relation)
    task.spread(INSERT, HOLDING, task.of_rules([rule for rule in task.node.rules if not rule.recursive], deleted=False))
    task.rounds(INSERT, CREATED_IN_ROUND)
    task.note_ranked(task.counters.keeps_order and task.has_ranks_left)
