"""The matches of a body that an update made and those that it destroyed: the delta rules of Counting, for aggregates
and for watched queries.

Each is found from a changed fact, in plans that start from it. A match that two changed facts of one negated atom make
or destroy is found from each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tidelog.engine.propagation.match_sets import CREATED_FROM_BELOW, DESTROYED_FROM_BELOW
from tidelog.engine.update.deltas import Delta
from tidelog.engine.update.match_rows import matches
from tidelog.engine.update.runner import Runner
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Pivot, Start
from tidelog.store.relation_parts import Cells


def changed_matches(
    runner: Runner, deltas: Mapping[str, Delta], rule: NormalRule, offset: Callable[[Pivot], int], width: int
) -> tuple[Cells, Cells]:
    """The heads, of `width` cells, of the matches that went and of those that came. `offset` says where the plan from a
    pivot lies. The changes of all that the rule reads must have been listed.
    """
    gone, come = [np.empty((0, width), np.int32)], [np.empty((0, width), np.int32)]
    for start, atoms in ((Start.POSITIVE, rule.positives), (Start.NEGATIVE, rule.negatives)):
        for position, atom in enumerate(atoms):
            delta = deltas.get(atom.predicate)
            if delta is None:
                continue
            lost, new = (delta.removed, delta.added) if start is Start.POSITIVE else (delta.added, delta.removed)
            for found, sets, facts in ((gone, DESTROYED_FROM_BELOW, lost), (come, CREATED_FROM_BELOW, new)):
                if len(facts):
                    found.append(matches(runner, sets, offset(Pivot(start, position)), width, facts))
    return np.concatenate(gone), np.concatenate(come)
