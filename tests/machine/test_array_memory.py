"""Memory for large arrays: they grow in place, leave their rooms to others, and fall back on NumPy's memory."""

from __future__ import annotations

import mmap
import weakref

import numpy as np
import numpy.typing as npt
import pytest

from tidelog.machine import array_memory as rooms
from tidelog.machine.growth import grown

CELLS = rooms.LARGE // 4

large_pages = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system gives no large pages")


@large_pages
def test_a_large_array_begins_where_a_page_does_and_grows_in_place() -> None:
    array = rooms.zeros((CELLS // 2, 2), np.int32)
    assert array.ctypes.data % rooms.PAGE == 0
    assert not array.any()
    array[:] = 7
    longer = grown(array, CELLS)
    assert longer.shape == (CELLS, 2)
    assert longer.ctypes.data == array.ctypes.data
    assert (longer[: CELLS // 2] == 7).all()
    longer[-1] = 8
    again = grown(longer, rooms.RESERVED // 8)
    assert again.ctypes.data == array.ctypes.data
    assert (again[CELLS - 1] == 8).all()


@large_pages
def test_an_array_that_outgrows_its_room_is_copied() -> None:
    array = rooms.full(CELLS, 3, np.int32)
    longer = grown(array, rooms.RESERVED // 4 + 1)
    assert longer.flags.owndata
    assert len(longer) == rooms.RESERVED // 4 + 1
    assert (longer[:CELLS] == 3).all()


def test_small_and_very_large_arrays_are_numpys() -> None:
    for length in (0, 1, CELLS - 1, rooms.RESERVED // 4 + 1):
        assert rooms.empty(length, np.int32).flags.owndata
        assert rooms.zeros(length, np.int32).flags.owndata


def test_a_small_array_is_copied_into_a_room() -> None:
    array = np.arange(100)
    longer = grown(array, rooms.LARGE, used=50)
    assert len(longer) == rooms.LARGE
    assert (longer[:50] == array[:50]).all()


def test_without_addresses_for_a_room_arrays_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "RESERVED", 1 << 60)
    assert rooms.empty(CELLS, np.int32).flags.owndata


@large_pages
def test_where_addresses_are_limited_arrays_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_limit_of_addresses", lambda: 1 << 33)
    assert rooms.empty(CELLS, np.int32).flags.owndata


@large_pages
def test_without_large_pages_arrays_grow_in_place_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_LARGE_PAGES", 12345)  # no such advice
    array = rooms.full(CELLS, 3, np.int32)
    assert grown(array, 2 * CELLS).ctypes.data == array.ctypes.data


# Spare rooms


def place(array: npt.NDArray[np.int32]) -> int:
    return array.ctypes.data


@large_pages
def test_the_room_of_an_array_is_for_another_one_once_nobody_looks_at_it() -> None:
    spare = rooms.Spare()
    array = rooms.full(CELLS, 3, np.int32, spare)
    where, view = place(array), array[10:20]
    del array
    assert spare.nbytes == 0
    assert place(rooms.empty(CELLS, np.int32, spare)) != where
    assert (view == 3).all()
    spare = rooms.Spare()
    array = rooms.full(CELLS, 3, np.int32, spare)
    where = place(array)
    del array
    assert spare.nbytes == rooms.LARGE
    assert place(rooms.empty(CELLS, np.int32, spare)) == where


@large_pages
def test_zeros_are_zeros_and_come_from_no_spare_room() -> None:
    spare = rooms.Spare()
    rooms.full(CELLS, 3, np.int32, spare)
    assert spare.nbytes
    assert not rooms.zeros(CELLS, np.int32).any()


@large_pages
def test_an_array_gets_the_room_that_fits_and_one_that_grows_the_largest() -> None:
    spare = rooms.Spare()
    arrays = [rooms.full(size * CELLS, 3, np.int32, spare) for size in (3, 1, 2)]
    large, small, middle = map(place, arrays)
    arrays.clear()
    fitting = rooms.empty(3 * CELLS // 2, np.int32, spare)
    growing = grown(np.arange(100, dtype=np.int32), CELLS, spare=spare)
    larger_than_all = rooms.empty(4 * CELLS, np.int32, spare)
    assert [place(fitting), place(growing), place(larger_than_all)] == [middle, large, small]
    assert (growing[:100] == np.arange(100)).all()


@large_pages
def test_no_more_is_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "KEPT", 3 * rooms.LARGE)
    spare = rooms.Spare()
    arrays = [rooms.empty(CELLS, np.int32, spare) for _ in range(5)]
    arrays.clear()
    assert spare.nbytes == 3 * rooms.LARGE


@large_pages
def test_what_nobody_has_a_use_for_goes_after_some_updates() -> None:
    spare = rooms.Spare()
    arrays = [rooms.empty(CELLS, np.int32, spare) for _ in range(2)]
    arrays.clear()
    for _ in range(rooms.KEPT_FOR):
        spare.end_update()
        rooms.empty(CELLS, np.int32, spare)
    assert spare.nbytes == 2 * rooms.LARGE
    spare.end_update()
    assert spare.nbytes == rooms.LARGE


@large_pages
def test_a_room_that_turns_out_too_large_is_cut_at_the_end_of_the_update() -> None:
    spare = rooms.Spare()
    rooms.full(8 * CELLS, 3, np.int32, spare)
    array = rooms.full(CELLS, 4, np.int32, spare)
    spare.end_update()
    assert (array == 4).all()
    assert not grown(array, 8 * CELLS)[rooms.PAGE // 4 :].any()
    del array
    assert spare.nbytes == 8 * rooms.LARGE


@large_pages
def test_a_room_stays_whole_where_memory_may_not_be_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    spare = rooms.Spare()
    rooms.full(8 * CELLS, 3, np.int32, spare)
    array = rooms.full(CELLS, 4, np.int32, spare)
    monkeypatch.setattr(mmap, "MADV_DONTNEED", 12345)  # no such advice
    spare.end_update()
    assert (grown(array, 8 * CELLS)[CELLS:] == 3).all()


@large_pages
def test_rooms_that_are_left_after_their_knowledge_base_go_with_it() -> None:
    spare = rooms.Spare()
    array, gone = rooms.full(CELLS, 3, np.int32, spare), weakref.ref(spare)
    del spare
    assert (array == 3).all()
    del array
    assert gone() is None
