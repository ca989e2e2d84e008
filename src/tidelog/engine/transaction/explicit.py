"""Explicit facts: reading them, and changing E by those of an update, component by component."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import NOTHING, Explicit, Request
from tidelog.machine import flags as F
from tidelog.machine.growth import pieces
from tidelog.machine.jit import address
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.update_kernels import add_explicit, remove_explicit, set_facts


def explicit_rows(relation: Relation) -> Cells:
    """The rows of the explicit facts of a relation."""
    records = relation.cells[: relation.count]
    return records[(records[:, relation.flags_column] & F.EXPLICIT) != 0, : relation.arity]


def apply_explicit(transaction: Transaction, node: Node, request: Request) -> Explicit:
    """Change E for a component; an addition wins over a deletion of the same fact."""
    explicit = Explicit()
    for predicate, relation in zip(node.predicates, node.relations, strict=True):
        delete = request.delete.get(predicate)
        add = request.add.get(predicate)
        gone, come = NOTHING, NOTHING
        if delete is not None and len(delete):
            gone = _change(transaction, relation, delete, adding=False)
        if add is not None and len(add):
            come = _change(transaction, relation, add, adding=True)
        if len(gone) and len(come):
            gone, come = _apart(gone, come)
        transaction.marking.came(predicate, relation, len(come))
        explicit.deleted[relation.number] = gone
        explicit.added[relation.number] = come
    return explicit


def _change(transaction: Transaction, relation: Relation, rows: Cells, adding: bool) -> Cells:
    rows = np.ascontiguousarray(rows, np.int32)
    transaction.undo.reserve(len(rows))
    relation.table.complete()
    result = np.empty(len(rows), np.int32)
    kernel: Callable[..., int] = add_explicit if adding else remove_explicit
    if adding:
        relation.reserve(len(rows))
    count, at_rows, at_result = 0, address(rows), address(result)
    for first, last in pieces(len(rows), transaction.store.hooks.between_pieces):
        at = at_rows + 4 * relation.arity * first
        count += kernel(transaction.machine, relation.number, at, last - first, at_result + 4 * count)
    transaction.undo.note_explicit_count(relation)
    relation.explicit_count += count if adding else -count
    return result[:count]


def _apart(gone: Cells, come: Cells) -> tuple[Cells, Cells]:
    """Facts that went and facts that came, without those that did both."""
    both = np.intersect1d(gone, come, assume_unique=True)
    if not len(both):
        return gone, come
    return np.setdiff1d(gone, both, assume_unique=True), np.setdiff1d(come, both, assume_unique=True)


def follow_explicit(transaction: Transaction, node: Node, explicit: Explicit) -> None:
    """Without rules, I is E."""
    for relation in node.relations:
        gone, come = explicit.deleted[relation.number], explicit.added[relation.number]
        if len(gone):
            relation.mark_unclean()
            set_facts(transaction.machine, relation.number, address(gone), len(gone), False)
        if len(come):
            set_facts(transaction.machine, relation.number, address(come), len(come), True)
