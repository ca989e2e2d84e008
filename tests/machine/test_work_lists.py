"""Work lists: each has its own registers, and Python and kernels see the same entries."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog.machine import registers as M
from tidelog.machine import work_lists as L
from tidelog.machine.array_memory import Spare
from tidelog.machine.jit import Registers, entry_point
from tidelog.machine.status import DONE, FULL_LIST
from tidelog.machine.work_lists import WorkLists

pytestmark = pytest.mark.plain

CAPACITY = 4


@entry_point
def push_all(m: Registers, which: int, first: int, count: int) -> int:
    for value in range(first, first + count):
        if L.room(m, which, 1) != DONE:
            return FULL_LIST
        L.push(m, which, value)
    return DONE


def test_every_list_has_registers_of_its_own() -> None:
    deleting = (L.D, L.C, L.P, L.MOVES, L.AIMS, L.DUE)
    best_values = (L.OFFERS, L.ASIDE, L.SPREADING, L.REPLACED)
    marking = (L.EXPECTED, L.LATER, L.MARKED, L.MARKED_PLACES)
    assert sorted((*deleting, *best_values, *marking)) == sorted(L.ALL)
    assert L.ALL[0] == M.LISTS
    assert L.ALL[-1] + M.LIST_REGISTERS == M.STATE


def test_a_list_that_is_full_grows_and_can_be_moved() -> None:
    machine = np.zeros(M.SIZE, np.int64)
    lists = WorkLists(machine, CAPACITY, Spare())
    assert push_all(machine, L.P, 10, CAPACITY) == DONE
    assert push_all(machine, L.P, 10 + CAPACITY, 3) == FULL_LIST
    assert (machine[M.FULL], machine[M.STAGED]) == (L.P, CAPACITY + 1)
    lists.reserve(L.P, int(machine[M.STAGED]))
    assert push_all(machine, L.P, 10 + CAPACITY, 3) == DONE
    assert push_all(machine, L.D, 0, 2) == DONE
    assert lists.move(L.P, L.D) == lists.count(L.D) == CAPACITY + 3
    assert lists.count(L.P) == 0
    assert lists.entries(L.D).tolist() == list(range(10, 13 + CAPACITY))
    lists.clear(L.D)
    assert not len(lists.entries(L.D))
