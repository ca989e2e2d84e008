"""Requests for many calls of functions at once.

A join that needs the result of a function must pause for it, and a pause costs more than most functions. So before it
pauses, the rest of the join is rehearsed: matches are found and not used, and calls whose results are not known are
requested and then taken to fail. Python answers all of these requests together (`engine.update.function_calls`).
"""

from tidelog.joins.executor import next_match, start
from tidelog.machine import registers as M
from tidelog.machine.jit import device, load_i32, load_i64, store_i64
from tidelog.machine.status import DONE, MATCH

# Candidates that a rehearsal looks at. The join meets the next unknown result behind them, or in a later step.
REHEARSED = 1 << 16


@device
def request_ahead(m, frame, plan, pivots, position, count):
    """Request the calls that the rest of a join over pivots will need, as far as there is room for requests."""
    ahead = frame + m[M.FRAME_BASE]
    for offset in range(0, m[M.FRAME_BASE], 8):
        store_i64(ahead + offset, load_i64(frame + offset))
    budget, late, noted = m[M.BUDGET], m[M.LATE], m[M.NOTED]
    errors, uncompared, uncalled = m[M.ERRORS], m[M.UNCOMPARED], m[M.UNCALLED]
    m[M.BUDGET] = min(budget, REHEARSED)
    m[M.REHEARSING] = 1
    status = MATCH
    while status == MATCH:
        status = next_match(m, ahead)
        if status == DONE and position + 1 < count:
            position += 1
            start(ahead, plan, load_i32(pivots + 4 * position))
            status = MATCH
    m[M.REHEARSING] = 0
    m[M.BUDGET], m[M.LATE], m[M.NOTED] = budget, late, noted
    m[M.ERRORS], m[M.UNCOMPARED], m[M.UNCALLED] = errors, uncompared, uncalled
