"""Matches as rows: for queries and aggregates, which read the instances of rules instead of acting on them."""

from __future__ import annotations

import numpy as np

from tidelog.engine.propagation.match_sets import Sets
from tidelog.engine.update.runner import Runner
from tidelog.joins.chains import drain_last
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine.growth import grown
from tidelog.machine.jit import Registers, address, entry_point, load_i32
from tidelog.machine.status import DONE, MATCH, PAUSED
from tidelog.store.relation_parts import Cells

FIRST_ROWS = 4096


@entry_point
def collect_rows(m: Registers, plan: int, pivots: int, count: int, rows: int, capacity: int, firsts: bool) -> int:
    """Write the head of each match, or of the first one from each pivot, to `rows` until there is no match or no room
    left.
    """
    frame = m[M.FRAMES]
    width = plan_word(m, plan, P.WIDTH)
    position = m[M.ROWS_PIVOT]
    joining = m[M.ROWS_JOINING]
    written = m[M.ROWS_WRITTEN]
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
            if firsts:
                written += 1
                joining = 0
                position += 1
                status = DONE
            else:
                _, written = drain_last(m, frame, rows, capacity, written + 1, (0, 0, 0))
        elif status == DONE:
            joining = 0
            position += 1
        else:
            break
    m[M.ROWS_PIVOT] = position
    m[M.ROWS_JOINING] = joining
    m[M.ROWS_WRITTEN] = written
    return status


def matches(
    runner: Runner,
    sets: Sets,
    plan: int,
    width: int,
    pivots: Cells | None = None,
    most: int | None = None,
    firsts: bool = False,
) -> Cells:
    """The heads of all matches of a plan, or of the first `most`, from the given pivots or from nothing; with `firsts`,
    of one match from each pivot that has any.
    """
    machine = runner.machine
    sets.install(machine)
    count = 1 if pivots is None else len(pivots)
    at = 0 if pivots is None else address(pivots)
    rows = np.empty((most or FIRST_ROWS, width), np.int32)

    def step(m: Registers, *arguments: int) -> int:
        nonlocal rows
        status = collect_rows(m, plan, at, count, address(rows), len(rows), firsts)
        if machine[M.ROWS_WRITTEN] == most:
            return DONE
        if machine[M.ROWS_WRITTEN] == len(rows):
            rows = grown(rows, 2 * len(rows))
        return int(status)

    runner.run(step)
    return rows[: machine[M.ROWS_WRITTEN]].copy()
