"""Checked memory: kernels that leave the arrays they were given are stopped, in plain Python and in checked builds.

The tests of accesses run here where accesses are checked, and in a process of their own where they are not.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from places import ROOT
from tidelog import KnowledgeBase
from tidelog.closures import closure_registers as C
from tidelog.closures.directed import DirectedGraph
from tidelog.machine import array_memory as rooms
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import work_lists as L
from tidelog.machine.bits import or_words, unite_words
from tidelog.machine.growth import grown, stretch
from tidelog.machine.jit import (
    JIT_DISABLED,
    address,
    entry_point,
    load_i32,
    load_i64,
    load_u8,
    store_i32,
    store_i64,
    store_u8,
)
from tidelog.machine.ownership import CHECKED, CheckedRegisters, MemoryFault, Ownership

pytestmark = pytest.mark.plain
checked = pytest.mark.skipif(not (CHECKED or JIT_DISABLED), reason="accesses are not checked in this build")

COUNT = 10
# So many records, or bytes, behind an array there is no other one, wherever the system puts arrays.
FAR_RECORDS = 1 << 30
FAR_BYTES = 1 << 40


@entry_point
def total(at: int, count: int) -> int:
    found = 0
    for place in range(count):
        found += load_i32(at + 4 * place)
    return found


@entry_point
def fetch(width: int, at: int) -> int:
    if width == 1:
        return load_u8(at)
    return load_i32(at) if width == 4 else load_i64(at)


@entry_point
def put(width: int, at: int, value: int) -> None:
    if width == 1:
        store_u8(at, value)
    elif width == 4:
        store_i32(at, value)
    else:
        store_i64(at, value)


@entry_point
def unite(target: int, source: int, count: int) -> int:
    return unite_words(target, source, count)


@entry_point
def unite_blindly(target: int, source: int, count: int) -> None:
    or_words(target, source, count)


@checked
@pytest.mark.parametrize("width", [1, 4, 8])
def test_the_ends_of_an_array_are_guarded(width: int) -> None:
    array = np.arange(COUNT, dtype=f"i{width}")
    first = address(array)
    assert fetch(width, first + width * (COUNT - 1)) == COUNT - 1
    put(width, first, 7)
    assert array[0] == 7
    outside = [first - 1, first - width, first + width * COUNT, first + width * COUNT - width + 1, 16]
    for at in outside:
        with pytest.raises(MemoryFault, match=f"touches {width} bytes at {at:#x}"):
            fetch(width, at)
        with pytest.raises(MemoryFault, match=f"touches {width} bytes at {at:#x}"):
            put(width, at, 1)
    assert array.tolist() == [7, *range(1, COUNT)]


@checked
def test_a_wrong_count_is_met_where_the_array_ends() -> None:
    array = np.ones(COUNT, np.int32)
    assert total(address(array), COUNT) == COUNT
    with pytest.raises(MemoryFault, match=r"shape \(10,\) and type int32, and the access begins 40 bytes from"):
        total(address(array), COUNT + 1)


@checked
def test_an_array_that_is_gone_owns_nothing() -> None:
    array = np.ones(COUNT, np.int32)
    view, at = array[3:], address(array)
    del array
    assert fetch(4, at) == 1  # A view keeps it.
    del view
    gc.collect()
    with pytest.raises(MemoryFault, match=r"an array of 40 bytes that is gone|no array owns"):
        fetch(4, at)


@checked
def test_a_view_lies_in_the_memory_of_its_array() -> None:
    array = np.arange(COUNT, dtype=np.int64).reshape(5, 2)
    assert fetch(8, address(array[2:, 1:])) == 5
    assert fetch(8, address(array.T)) == 0


@checked
@pytest.mark.parametrize("kernel", [unite, unite_blindly])
def test_rows_of_words_are_guarded_as_a_whole(kernel: Callable[[int, int, int], int]) -> None:
    target, source = np.zeros(COUNT, np.int64), np.ones(COUNT + 1, np.int64)
    kernel(address(target), address(source), COUNT)
    assert target.sum() == COUNT
    kernel(0, 0, 0)
    with pytest.raises(MemoryFault):
        kernel(address(target), address(source), COUNT + 1)
    with pytest.raises(MemoryFault):
        kernel(address(source), address(target), COUNT + 1)


@checked
def test_an_array_that_grows_owns_more() -> None:
    small = np.zeros(COUNT, np.int32)
    at = address(small)
    stretch(small, 100 * COUNT)
    with pytest.raises(MemoryFault):
        fetch(4, at)
    assert fetch(4, address(small) + 4 * (100 * COUNT - 1)) == 0
    large = rooms.zeros(rooms.LARGE, np.uint8)
    assert fetch(1, address(large) + rooms.LARGE - 1) == 0
    with pytest.raises(MemoryFault):
        fetch(1, address(large) + rooms.LARGE)
    larger = grown(large, 2 * rooms.LARGE)
    assert fetch(1, address(larger) + rooms.LARGE) == 0


@checked
def test_memory_of_others_may_be_known_twice() -> None:
    data = pa.array(range(COUNT), pa.int64()).buffers()[1]
    whole, half = np.frombuffer(data, np.int64), np.frombuffer(data, np.int64, COUNT // 2)
    assert fetch(8, address(half)) == 0
    assert fetch(8, address(whole) + 8 * (COUNT - 1)) == COUNT - 1
    del half
    assert fetch(8, address(whole) + 8) == 1


@checked
@pytest.mark.parametrize("register", [M.RELATIONS, M.LISTS])
def test_a_wrong_register_is_met_in_an_update(register: int) -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).", "dred", modules=False)
    kb.update(add={"edge": [(1, 2), (2, 3)]})
    machine = kb._engine.store.machine
    right = int(machine[register])
    machine[register] = right + FAR_BYTES
    with pytest.raises(MemoryFault):
        kb.update(delete={"edge": [(1, 2)]})
    machine[register] = right


@checked
def test_a_fact_number_beyond_the_records_is_met_in_an_update() -> None:
    kb = KnowledgeBase("copy(X) :- given(X).", modules=False)
    kb.update(add={"given": [(1,)]})
    relation = kb._engine.store.relation("given", 1)
    relation.table.facts[relation.table.keys != R.EMPTY] = FAR_RECORDS
    with pytest.raises(MemoryFault):
        kb.update(delete={"given": [(1,)]})


@checked
def test_a_link_beyond_the_records_is_met_in_an_update() -> None:
    kb = KnowledgeBase("far(X, Z) :- edge(X, Y), edge(Y, Z).", modules=False)
    kb.update(add={"edge": [(1, 2), (2, 3)]})
    relation = kb._engine.store.relation("edge", 2)
    assert len(relation.indexes)
    relation.cells[: relation.count, relation.first_link_column :] = FAR_RECORDS
    with pytest.raises(MemoryFault):
        kb.update(add={"edge": [(3, 1)]})


@checked
def test_a_scan_beyond_the_last_record_is_met_in_an_update() -> None:
    kb = KnowledgeBase("pair(X, Y) :- left(X), right(Y).", modules=False)
    kb.update(add={"left": [(1,)], "right": [(1,), (2,)]})
    relation = kb._engine.store.relation("right", 1)
    relation.cells[relation.count :] = 0
    relation.fields[R.COUNT] = len(relation.cells)
    kb.update(add={"left": [(2,)]})
    relation.fields[R.COUNT] = len(relation.cells) + 1
    with pytest.raises(MemoryFault):
        kb.update(add={"left": [(3,)]})


@checked
def test_a_plan_of_a_relation_that_is_not_there_is_met_in_an_update() -> None:
    kb = KnowledgeBase("copy(X) :- given(X), other(X).", modules=False)
    for update in ({"other": [(1,)]}, {"given": [(1,)]}, {"given": [(2,)]}):
        kb.update(add=update)
    words = kb._engine.store.code._words
    words[words == kb._engine.store.relation("other", 1).number] = FAR_RECORDS
    with pytest.raises(MemoryFault):
        kb.update(add={"given": [(3,)]})


@pytest.mark.skipif(not JIT_DISABLED, reason="the numbers of registers are checked in plain Python only")
def test_a_negative_register_is_met_in_a_kernel() -> None:
    with pytest.raises(MemoryFault, match="reads register -3"):
        L.entry(KnowledgeBase("")._engine.store.machine, -3, 0)


@checked
def test_a_wrong_register_of_a_closure_is_met() -> None:
    graph = DirectedGraph()
    for register in (-1, C.SIZE):
        with pytest.raises(MemoryFault):
            fetch(8, graph.memory.at + 8 * register)


def test_negative_numbers_are_no_registers() -> None:
    registers = np.zeros(COUNT, np.int64).view(CheckedRegisters)
    registers[1] = 5
    registers[2:4] = 6
    assert list(registers[:4]) == [0, 5, 6, 6]
    with pytest.raises(MemoryFault, match="reads register -1"):
        registers[-1]
    with pytest.raises(MemoryFault, match="writes register -3"):
        registers[-3] = 0


def test_what_is_gone_is_not_kept() -> None:
    owned = Ownership(compiled=True)
    keep = [np.zeros(COUNT) for _ in range(5)]
    for array in keep:
        owned.register(array)
    for _ in range(3000):
        owned.register(np.zeros(COUNT))
    assert len(owned._ranges) < 600
    assert all(any(found.owner() is array for found in owned._ranges) for array in keep)
    assert owned._starts == sorted(owned._starts)


def test_what_an_array_owned_stays_its_own_while_it_grows_in_its_room() -> None:
    """Kernels in other threads may be reading it meanwhile, with the table of before."""
    owned = Ownership(compiled=True)
    array = rooms.zeros(rooms.LARGE, np.uint8)
    owned.register(array)
    [shorter] = owned._ranges
    larger = rooms.lengthened(array, rooms.LARGE + 4096)
    assert larger is not None
    owned.register(larger)
    assert shorter.alive.value == 1
    [longer] = owned._ranges
    assert (longer.start, longer.end - shorter.end) == (shorter.start, 4096)


def test_there_is_one_way_to_the_address_of_an_array() -> None:
    package = Path(rooms.__file__).parent.parent
    asking = {path.name for path in package.rglob("*.py") if ".ctypes.data" in path.read_text(encoding="utf-8")}
    assert asking <= {"ownership.py", "array_memory.py"}, "take addresses by `jit.address`, so that they can be checked"


@pytest.mark.skipif(CHECKED or JIT_DISABLED, reason="accesses are checked in this build")
def test_accesses_are_checked_where_that_is_asked_for() -> None:
    """Only kernels of this file: those of tidelog take minutes to compile."""
    tests = "test_the_ends or test_a_wrong_count or test_an_array or test_a_view or test_rows or test_memory"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests, __file__]
    run = subprocess.run(
        command,
        env=os.environ | {"TIDELOG_CHECKED": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "skipped" not in run.stdout
