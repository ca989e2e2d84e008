"""A predicate that loses its last rule, has no explicit facts and is read by no rule: its facts go all together.

Nobody asks which they were but whoever looks at the change, so the records are taken out as they are, in constant
time, and put back if the update fails.
"""

from __future__ import annotations

import numpy as np

from tidelog.engine.outcome import NO_ROWS, LateRows
from tidelog.machine import flags as F
from tidelog.store.relation_parts import Cells, Records

_NOTHING: Cells = np.empty(0, np.int32)


class DroppedRows(LateRows):
    """The rows of records that have been dropped."""

    def __init__(self, records: Records) -> None:
        super().__init__(records.count if records.clean else records.count_of(F.IN))
        self._records: Records | None = records

    def _listed(self, most: int) -> Cells:
        assert self._records is not None
        return self._records.rows(F.IN)[:most]

    def _let_go(self) -> None:
        self._records = None


class Dropped:
    """What changed in a relation that has lost its records. They have no numbers any more, and no rule needs them."""

    removed: Cells = _NOTHING
    added: Cells = _NOTHING
    added_count = 0
    dead_count = 0
    come = NO_ROWS

    def __init__(self, records: Records) -> None:
        self.gone = DroppedRows(records)

    @property
    def removed_count(self) -> int:
        return self.gone.count

    def __bool__(self) -> bool:
        return self.gone.count > 0
