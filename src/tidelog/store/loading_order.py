"""The order in which many facts come into a relation: those with the same first argument one after the other.

A join that follows the facts of a key through memory then finds them in the same cache lines. Whatever order the facts
have already is left to them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tidelog.store.relation_parts import Cells

# From so many facts on, a relation is larger than the caches.
ORDERED_FROM = 1 << 17

# So many times as many steps of a column go up as go down, or the other way round, where it has an order.
ORDERED = 2


def in_loading_order(rows: Cells, during: Callable[[Callable[[], Cells]], Cells] = lambda sort: sort()) -> Cells:
    """These rows in the order in which they are best loaded. Sorting them is left to `during`."""
    if len(rows) < ORDERED_FROM or not rows.shape[1] or any(_has_order(column) for column in rows.T):
        return rows
    return during(partial(_by_first_argument, rows))


def _by_first_argument(rows: Cells) -> Cells:
    keys = (rows[:, 0].astype(np.int64) << 32) | np.arange(len(rows))
    keys.sort()
    return np.ascontiguousarray(rows[keys & 0xFFFFFFFF])


def _has_order(column: Cells) -> bool:
    up = np.count_nonzero(column[1:] > column[:-1])
    down = np.count_nonzero(column[1:] < column[:-1])
    return bool(max(up, down) > ORDERED * min(up, down))
