"""Which pairs of a closure the other rules of its recursion can match: those that have something to join with.

A rule like `q(X, Y) :- r(X, Y), s(X).` meets none but the pairs from the terms of `s`. If each rule that reads the
closure joins it with a small relation, few of its pairs matter, however many an update moves.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from tidelog.engine.rules.compiled import Node
from tidelog.language.syntax import Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Start
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store

Wanted = dict[int, Cells]
"""By column, terms. Wanted are the pairs that have one of its terms in some column."""

Bound = tuple[int, Cells]


def wanted_pairs(store: Store, node: Node, predicate: str, changed: Container[str], most: int) -> Wanted | None:
    """The pairs of a closure that take part in any rule instance that held before the update, or holds now. None if
    these may be all, or if more than `most` facts would have to be looked at for one rule.

    In a relation of the component, dead facts still have their records, and a new one looks for pairs itself. Relations
    below that have `changed` may have their former facts elsewhere.
    """
    bounds: list[Bound] = []
    for rule, pivot in node.readers.get(predicate, ()):
        bound = min(
            _bounds(store, rule.normal, pivot.position, changed, most), key=lambda each: len(each[1]), default=None
        )
        if pivot.start is not Start.POSITIVE or bound is None:
            return None
        bounds.append(bound)
    return {
        column: np.unique(np.concatenate([terms for place, terms in bounds if place == column]))
        for column in {column for column, _ in bounds}
    }


def _bounds(store: Store, rule: NormalRule, position: int, changed: Container[str], most: int) -> Iterator[Bound]:
    """Terms of which a pair must have one in a column, to match an atom in an instance of the rule."""
    for column, argument in enumerate(rule.positives[position].arguments):
        if isinstance(argument, Constant):
            yield column, store.terms.encode_values([argument.value])
            continue
        for atom in rule.positives:
            relation = store.find(atom.predicate)
            if relation is None or relation.closure is not None or atom.predicate in changed or relation.count > most:
                continue
            if argument in atom.arguments:
                yield column, relation.cells[: relation.count, atom.arguments.index(argument)]
