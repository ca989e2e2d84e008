"""Where propagation goes on after it returned to Python: registers from M_STATE."""

from __future__ import annotations

AT_PHASE = 0  # of a round: 0 begins, 1 sorts its batches, 2 runs its plans
AT_JOB = 1
AT_PIVOT = 2
AT_JOINING = 3
AT_BUFFERED = 4
AT_RELATION = 5
AT_PLAN = 6
AT_TARGET = 7
AT_COUNTER = 8
AT_INNER = 9
AT_SHAPE = 10  # in which shape the heads of a short plan are made; it stays to the plan's end
AT_MEMBER = 11  # the next of the pivots that are spread together
AT_STAGE = 12  # of deletion by ranks; see `ranks`
STATE_SIZE = 13
