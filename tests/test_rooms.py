"""Memory for large arrays: they grow where they are, begin empty, and fall back on numpy's where they must."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from tidelog.store import rooms
from tidelog.store.growth import grown

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
