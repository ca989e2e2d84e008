"""Memory for arrays: large ones with addresses left behind them to grow into, and in large pages.

The system gives fresh memory page by page, and every page of four kilobytes costs microseconds: for half a million
facts that was half of the time of a materialisation, most of it for memory that arrays were copied to as they grew.
Addresses cost nothing until they are written to, so that a large array has more of them than it needs: it grows in
place, and nothing is copied. What lies far enough behind its beginning comes in large pages, which cost less and make
looking up less costly; before, most of such a page could be left unused.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)
Shape = int | tuple[int, ...]

PAGE = 1 << 21

# Smaller arrays cost less to copy than a room to make, of which every page is fresh: numpy uses memory again.
LARGE = 1 << 20

# Addresses for each large array. What is larger still is numpy's: it lets the system move pages when such arrays grow.
RESERVED = 1 << 26

# Elsewhere than on Linux all arrays are numpy's.
_LARGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


def _limit_of_addresses() -> int | None:
    """How many bytes of addresses a process may have, if not as many as it likes."""
    import resource  # which not every system has that lacks large pages

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


class _Room(mmap.mmap):
    """Addresses for one array."""

    first: int
    """Where the array begins: where a large page could."""

    def __new__(cls) -> _Room:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        room = super().__new__(cls, -1, RESERVED + PAGE, flags=flags)
        room.first = -np.frombuffer(room, np.uint8).ctypes.data % PAGE
        assert _LARGE_PAGES is not None
        with suppress(OSError):  # A system that was built without large pages gives small ones.
            room.madvise(_LARGE_PAGES, room.first + PAGE)
        return room

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[T]:
        return np.ndarray(shape, dtype, self, self.first)


def _in_room(shape: Shape, dtype: npt.DTypeLike) -> npt.NDArray[T] | None:
    """An array of zeros with a room of its own, where it is large enough for one, not too large, and there is one."""
    shape = (shape,) if isinstance(shape, int) else shape
    if not LARGE <= _size(shape, dtype) <= RESERVED or _LARGE_PAGES is None:
        return None
    if _limit_of_addresses() is not None:
        return None  # Rooms would soon take all of them.
    try:
        return _Room().array(shape, dtype)
    except OSError:
        return None  # No more addresses, or parts of them: numpy may still find some.


def _size(shape: tuple[int, ...], dtype: npt.DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def empty(shape: Shape, dtype: type[T] | np.dtype[T]) -> npt.NDArray[T]:
    """An array whose elements are anything."""
    array: npt.NDArray[T] | None = _in_room(shape, dtype)
    return np.empty(shape, dtype) if array is None else array


def zeros(shape: Shape, dtype: type[T] | np.dtype[T]) -> npt.NDArray[T]:
    array: npt.NDArray[T] | None = _in_room(shape, dtype)
    return np.zeros(shape, dtype) if array is None else array


def full(shape: Shape, value: int, dtype: type[T] | np.dtype[T]) -> npt.NDArray[T]:
    array = empty(shape, dtype)
    array.fill(value)
    return array


def lengthened(array: npt.NDArray[T], length: int) -> npt.NDArray[T] | None:
    """The same memory and what lies behind it, as an array of so many elements, or rows, where there is room."""
    room: object = array.base
    shape = (length, *array.shape[1:])
    if isinstance(room, _Room) and _size(shape, array.dtype) <= RESERVED:
        return room.array(shape, array.dtype)
    return None
