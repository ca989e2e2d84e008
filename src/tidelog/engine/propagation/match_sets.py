"""The sets that body atoms are matched in, and which of them each phase of an algorithm uses.

A plan says of each body atom on which side of the pivot it stands, and whether its predicate belongs to the rule's own
component. Here each of these roles gets its set. A set is a pair of masks over the flags of a fact: which bits matter,
and what they must be. For a negated atom the set is given by bits, none of which may be set on any matching fact.

Every phase finds each rule instance once: atoms to the left of the pivot are matched in what did not change, so the
leftmost changed atom of an instance is its only pivot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine.jit import device

Masks = tuple[int, int]

NEW: Masks = (F.IN, F.IN)
OLD: Masks = (F.OLD, F.OLD)
UNCHANGED: Masks = (F.IN | F.OLD, F.IN | F.OLD)
NEW_BEFORE_BATCH: Masks = (F.IN | F.CURRENT, F.IN)
OLD_UNPROCESSED: Masks = (F.OLD | F.PROCESSED, F.OLD)
OLD_BEFORE_BATCH: Masks = (F.OLD | F.PROCESSED | F.CURRENT, F.OLD)
NEW_UNPROCESSED: Masks = (F.IN | F.PROCESSED, F.IN)
NEW_UNPROCESSED_BEFORE_BATCH: Masks = (F.IN | F.PROCESSED | F.CURRENT, F.IN)
UNDISPROVED: Masks = (F.IN | F.DISPROVED, F.IN)
EXPLICIT: Masks = (F.IN | F.EXPLICIT, F.IN | F.EXPLICIT)
KEPT: Masks = (F.IN | F.DELETED, F.IN)
EITHER = F.IN | F.OLD
KNOWN: Masks = (F.PROVED, F.PROVED)
SPREAD: Masks = (F.PROVED | F.QUEUED, F.PROVED)
SPREAD_BEFORE_BATCH: Masks = (F.PROVED | F.QUEUED | F.CURRENT, F.PROVED)


class Sets:
    """One set for each role."""

    def __init__(
        self,
        lower_before: Masks,
        lower_after: Masks,
        own_before: Masks,
        own_after: Masks,
        absent_before: int,
        absent_after: int,
        absent_pivot: int = 0,
    ) -> None:
        masks = *lower_before, *lower_after, *own_before, *own_after
        # The registers from M.MASKS on.
        self.words = np.array([*masks, absent_before, absent_after, absent_pivot], np.int64)

    def install(self, machine: npt.NDArray[np.int64]) -> None:
        """Put the sets into the machine, for the next kernel."""
        machine[M.MASKS : M.ABSENT + 3] = self.words


# Instances that hold now and use something new from below.
CREATED_FROM_BELOW = Sets(UNCHANGED, NEW, NEW, NEW, EITHER, F.IN, F.IN | F.SEEN)
# Instances that hold now and use a fact of the component that has just been inserted.
CREATED_IN_ROUND = Sets(NEW, NEW, NEW_BEFORE_BATCH, NEW, F.IN, F.IN)
# Instances that held before and used something that is gone from below.
DESTROYED_FROM_BELOW = Sets(UNCHANGED, OLD, OLD, OLD, EITHER, F.OLD, F.OLD | F.SEEN)
# Instances that held before, used nothing that changed below, and use an overdeleted fact of the component.
DESTROYED_IN_ROUND = Sets(UNCHANGED, UNCHANGED, OLD_BEFORE_BATCH, OLD_UNPROCESSED, EITHER, EITHER)
# All instances that hold now; all that held before.
HOLDING = Sets(NEW, NEW, NEW, NEW, F.IN, F.IN)
HELD = Sets(OLD, OLD, OLD, OLD, F.OLD, F.OLD)
# What readers see, by the flag of the facts that they see.
SHOWN = {F.IN: HOLDING, F.OLD: HELD}
# Instances all of whose own facts have been proved and do not wait to spread: V of Backward/Forward.
PROVED = Sets(NEW, NEW, SPREAD_BEFORE_BATCH, SPREAD, F.IN, F.IN)
# Instances that could derive a fact: their own facts are not disproved, or are all explicit, or all proved.
BACKWARD = Sets(NEW, NEW, UNDISPROVED, UNDISPROVED, F.IN, F.IN)
BACKWARD_EXPLICIT = Sets(NEW, NEW, EXPLICIT, EXPLICIT, F.IN, F.IN)
BACKWARD_PROVED = Sets(NEW, NEW, KNOWN, KNOWN, F.IN, F.IN)
# Instances that held before, used nothing that changed below, and whose own facts have not been overdeleted: if one of
# them is later, the instance is one of those destroyed in a round.
SUPPORTING = Sets(UNCHANGED, UNCHANGED, KEPT, KEPT, EITHER, EITHER)
# The same two in the middle of an insertion, for facts that it has replaced: instances that use one of these, and those
# that use none. See `algorithms.best_values`.
REPLACED_IN_ROUND = Sets(NEW, NEW, NEW_UNPROCESSED_BEFORE_BATCH, NEW_UNPROCESSED, F.IN, F.IN)
SUPPORTING_NOW = Sets(NEW, NEW, KEPT, KEPT, F.IN, F.IN)

# For kernels that change from one phase to another: what `match_in` takes.
_PHASES = (
    *(DESTROYED_IN_ROUND, PROVED, BACKWARD, BACKWARD_EXPLICIT, BACKWARD_PROVED, SUPPORTING),
    *(CREATED_IN_ROUND, HOLDING, REPLACED_IN_ROUND, SUPPORTING_NOW),
)
IN_DELETION, IN_FORWARD, IN_BACKWARD, IN_BACKWARD_EXPLICIT, IN_BACKWARD_PROVED, IN_SUPPORT = 0, 1, 2, 3, 4, 5
IN_INSERTION, IN_ALL, IN_REPLACEMENT, IN_SUPPORT_NOW = 6, 7, 8, 9
_WORDS = np.array([sets.words for sets in _PHASES], np.int64)


@device
def match_in(m, phase):
    """Choose the sets for the next join."""
    for place in range(M.MASK_WORDS):
        m[M.MASKS + place] = _WORDS[phase, place]
