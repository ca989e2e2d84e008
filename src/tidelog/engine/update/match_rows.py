"""Matches as rows: for queries and aggregates, which read the instances of rules instead of acting on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidelog.engine.propagation.match_sets import Sets
from tidelog.engine.update.runner import Runner
from tidelog.joins.chains import drain_last
from tidelog.joins.executor import next_match, plan_word, start, write_head
from tidelog.joins.look_ahead import request_ahead
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine.growth import grown
from tidelog.machine.jit import Registers, address, entry_point, load_i32
from tidelog.machine.status import DONE, MATCH, NEED_CALLS, PAUSED
from tidelog.store.relation_parts import Cells

FIRST_ROWS = 4096

# Sorting up to this many rows takes Python less time than NumPy takes to begin.
FEW_ROWS = 64


@entry_point
def collect_rows(
    m: Registers, plan: int, pivots: int, count: int, rows: int, capacity: int, firsts: bool, every: bool
) -> int:
    """Write the head of each match, or of the first one from each pivot, to `rows` until there is no match or no room
    left. Where not `every` match is wanted, no function is called before its turn.
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
            if status == NEED_CALLS and every:
                request_ahead(m, frame, plan, pivots, position, count)
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

    def make_room(full: Cells) -> tuple[Cells, int]:
        return full if len(full) == most else grown(full, 2 * len(full)), len(full)

    rows = np.empty((most or FIRST_ROWS, width), np.int32)
    every = most is None and not firsts
    return _collected(runner, sets, plan, rows, make_room, pivots, firsts, every)


def distinct_matches(runner: Runner, sets: Sets, plan: int, width: int, most: int) -> Cells:
    """Different heads of matches, in order; when there are `most`, no others are looked for."""

    def make_room(full: Cells) -> tuple[Cells, int]:
        kept = distinct(full)
        if len(kept) >= most:
            return kept, len(kept)
        rows = grown(kept, max(len(full), 2 * len(kept)))
        return rows, len(kept)

    rows = np.empty((max(most, FEW_ROWS), width), np.int32)
    return distinct(_collected(runner, sets, plan, rows, make_room))[:most]


def _collected(
    runner: Runner,
    sets: Sets,
    plan: int,
    rows: Cells,
    make_room: Callable[[Cells], tuple[Cells, int]],
    pivots: Cells | None = None,
    firsts: bool = False,
    every: bool = False,
) -> Cells:
    """The heads of matches. When `rows` are full, `make_room` says where to go on, and how many are written there. If
    that leaves no room, no more are wanted. Only where `every` match is wanted are functions called ahead.
    """
    machine = runner.machine
    sets.install(machine)
    count = 1 if pivots is None else len(pivots)
    at = 0 if pivots is None else address(pivots)

    def step(m: Registers, *arguments: int) -> int:
        nonlocal rows
        status = collect_rows(m, plan, at, count, address(rows), len(rows), firsts, every)
        if status == PAUSED and machine[M.ROWS_WRITTEN] == len(rows):
            rows, machine[M.ROWS_WRITTEN] = make_room(rows)
            if machine[M.ROWS_WRITTEN] == len(rows):
                return DONE
        return int(status)

    runner.run(step)
    return rows[: machine[M.ROWS_WRITTEN]].copy()


def distinct(rows: Cells) -> Cells:
    """Each row once, in order."""
    width = rows.shape[1]
    if len(rows) <= 1 or not width:
        return rows[:1]
    if len(rows) <= FEW_ROWS:
        return np.array(sorted(set(map(tuple, rows.tolist()))), np.int32)
    if width == 1:
        return np.unique(rows).reshape(-1, 1)
    if width == 2:
        return _distinct_pairs(rows)
    return np.unique(rows, axis=0)


def _distinct_pairs(rows: Cells) -> Cells:
    """Pairs are sorted as single numbers: NumPy takes twenty times as long for rows."""
    low = 1 << 31
    keys = np.unique((rows[:, 0].astype(np.int64) << 32) + (rows[:, 1].astype(np.int64) + low))
    found = np.empty((len(keys), 2), np.int32)
    found[:, 0] = keys >> 32
    found[:, 1] = (keys & 0xFFFFFFFF) - low
    return found
