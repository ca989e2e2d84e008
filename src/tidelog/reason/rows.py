"""Matches as rows: for queries, for aggregates, for whoever wants to see instances rather than act on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.reason.sets import Sets
from tidelog.store.chains import drain_last
from tidelog.store.executor import next_match, plan_word, start, write_head
from tidelog.store.growth import grown
from tidelog.store.jit import address, entry_point, load_i32
from tidelog.store.layout import DONE, M_FRAMES, M_STATE, MATCH, P_WIDTH, PAUSED
from tidelog.store.records import Cells

if TYPE_CHECKING:
    from tidelog.reason.transaction import Transaction

AT_PIVOT = 2
AT_JOINING = 3
AT_ROWS = 4

FIRST_ROWS = 4096


@entry_point
def collect_rows(m, plan, pivots, count, rows, capacity):
    """Write the head of each match to `rows` until there is no match or no room left."""
    frame = m[M_FRAMES]
    width = plan_word(m, plan, P_WIDTH)
    position = m[M_STATE + AT_PIVOT]
    joining = m[M_STATE + AT_JOINING]
    written = m[M_STATE + AT_ROWS]
    status = DONE
    while position < count:
        if written == capacity:
            status = PAUSED
            break
        if joining == 0:
            start(frame, plan, load_i32(pivots + 4 * position) if pivots != 0 else -1)
            joining = 1
        status = next_match(m, frame)
        if status == MATCH:
            write_head(m, frame, rows + 4 * width * written)
            _, written = drain_last(m, frame, rows, capacity, written + 1, (0, 0, 0))
        elif status == DONE:
            joining = 0
            position += 1
        else:
            break
    m[M_STATE + AT_PIVOT] = position
    m[M_STATE + AT_JOINING] = joining
    m[M_STATE + AT_ROWS] = written
    return status


def matches(transaction: Transaction, sets: Sets, plan: int, width: int, pivots: Cells | None = None) -> Cells:
    """The heads of all matches of a plan, from the given pivots or from nothing."""
    machine = transaction.machine
    sets.install(machine)
    count = 1 if pivots is None else len(pivots)
    at = 0 if pivots is None else address(pivots)
    rows = np.empty((FIRST_ROWS, width), np.int32)

    def step(m: object, *arguments: int) -> int:
        nonlocal rows
        status = collect_rows(m, plan, at, count, address(rows), len(rows))
        if machine[M_STATE + AT_ROWS] == len(rows):
            rows = grown(rows, 2 * len(rows))
        return int(status)

    transaction.run(step)
    return rows[: machine[M_STATE + AT_ROWS]].copy()
