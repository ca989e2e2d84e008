"""Memory for arrays. Large ones reserve addresses to grow into, and lie in large pages.

The system gives fresh memory page by page, and every page of four kilobytes costs microseconds. For half a million
facts that was half the time of a materialisation, most of it for arrays that were copied as they grew. Addresses cost
nothing until they are written to, so a large array reserves more than it needs: it grows in place, and nothing is
copied. From the second large page on, memory comes in large pages, which are cheaper to get and to access; before
that, most of a large page might stay unused.

Updates that replace most facts, and tables that grow, leave one large array for another. Its memory is kept for a
while for the next large array: see `Spare`.
"""

from __future__ import annotations

import math
import mmap
import weakref
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

T = TypeVar("T", bound=np.generic)
Shape = int | tuple[int, ...]

PAGE = 1 << 21

# Copying a smaller array costs less than making a room, of which every page is fresh: NumPy reuses memory.
LARGE = 1 << 20

# Addresses for each large array. Larger ones are left to NumPy, which lets the system move pages when they grow.
RESERVED = 1 << 26

# Bytes that a knowledge base keeps in rooms without an array, and for how many updates.
KEPT = RESERVED
KEPT_FOR = 8

# Outside Linux all arrays are NumPy's.
_LARGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


def _limit_of_addresses() -> int | None:
    """How many bytes of addresses the process may have, if there is a limit."""
    import resource  # not on every system without large pages

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


class _Room(mmap.mmap):
    """Addresses for one array."""

    first: int
    """Where the array begins: at a boundary of large pages."""
    written: int
    """At most this many bytes have memory."""
    waited: int
    """How many updates have ended since the array left."""

    def __new__(cls) -> _Room:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        room = super().__new__(cls, -1, RESERVED + PAGE, flags=flags)
        room.first = -np.frombuffer(room, np.uint8).ctypes.data % PAGE
        room.written = room.waited = 0
        assert _LARGE_PAGES is not None
        with suppress(OSError):  # A system without large pages gives small ones.
            room.madvise(_LARGE_PAGES, room.first + PAGE)
        return room

    def cut(self, size: int) -> None:
        """Give back the memory after so many bytes, in whole large pages only: a cut page would become small ones."""
        end = -(-size // PAGE) * PAGE
        if end < self.written:
            with suppress(OSError):  # The process may have locked its memory.
                self.madvise(mmap.MADV_DONTNEED, self.first + end, self.written - end)
                self.written = end


class _Lease(npt.NDArray[np.uint8]):
    """A room while an array has it: the base of the array, which ends when the last view of it is gone."""

    room: _Room
    spare: Spare | None
    taken: int
    """The bytes of the array."""

    def __new__(cls, room: _Room, spare: Spare | None) -> _Lease:
        lease = super().__new__(cls, RESERVED, np.uint8, room, room.first)
        lease.room, lease.spare, lease.taken = room, spare, 0
        return lease

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[T]:
        self.taken = _size(shape, dtype)
        self.room.written = max(self.room.written, self.taken)
        return np.ndarray(shape, dtype, self)

    def __del__(self) -> None:
        if self.spare is not None:
            self.spare.take_in(self.room)


class Spare:
    """Rooms that arrays have left, for the next large arrays of the same knowledge base: at most `KEPT` bytes, each for
    at most `KEPT_FOR` updates that do not use it.
    """

    def __init__(self) -> None:
        self._rooms: list[_Room] = []
        self._lent: list[weakref.ref[_Lease]] = []

    @property
    def nbytes(self) -> int:
        return sum(room.written for room in self._rooms)

    def take_in(self, room: _Room) -> None:
        """Keep a room, unless too much is kept already. May be called at any time, from any thread."""
        if self.nbytes + room.written <= KEPT:
            room.waited = 0
            self._rooms.append(room)

    def lend(self, size: int, grows: bool) -> _Lease | None:
        """A room for an array of so many bytes: the one that fits best, or the largest if the array is to grow."""
        if not self._rooms:
            return None
        fitting = [] if grows else [room for room in self._rooms if size <= room.written]
        # Of the same size, the one that was left last: the others may turn out to be useless.
        room = min(fitting or self._rooms, key=lambda room: (room.written if fitting else -room.written, room.waited))
        self._rooms.remove(room)
        lease = _Lease(room, self)
        self._lent = [*(found for found in self._lent if found() is not None), weakref.ref(lease)]
        return lease

    def end_update(self) -> None:
        """Give back rooms that nobody used, and the larger part of those that turned out too large."""
        for lease in (found() for found in self._lent):
            if lease is not None and lease.room.written > 2 * lease.taken:
                lease.room.cut(lease.taken)
        self._lent = []
        for room in tuple(self._rooms):
            room.waited += 1
            if room.waited > KEPT_FOR:
                self._rooms.remove(room)


def _in_room(shape: Shape, dtype: npt.DTypeLike, spare: Spare | None, grows: bool) -> npt.NDArray[T] | None:
    """An array in a room of its own, or None if it is too small or too large for one, or no addresses are left. A fresh
    room is all zeros.
    """
    shape = (shape,) if isinstance(shape, int) else shape
    size = _size(shape, dtype)
    if not LARGE <= size <= RESERVED or _LARGE_PAGES is None:
        return None
    if _limit_of_addresses() is not None:
        return None  # Rooms would soon use it up.
    try:
        lease = None if spare is None else spare.lend(size, grows)
        return (_Lease(_Room(), spare) if lease is None else lease).array(shape, dtype)
    except OSError:
        return None  # Addresses are used up or scattered: NumPy may still find some.


def _size(shape: tuple[int, ...], dtype: npt.DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def empty(
    shape: Shape, dtype: type[T] | np.dtype[T], spare: Spare | None = None, grows: bool = False
) -> npt.NDArray[T]:
    """An array of undefined elements, in a spare room if there is one; `grows` says that it will soon be lengthened."""
    array: npt.NDArray[T] | None = _in_room(shape, dtype, spare, grows)
    return np.empty(shape, dtype) if array is None else array


def zeros(shape: Shape, dtype: type[T] | np.dtype[T]) -> npt.NDArray[T]:
    array: npt.NDArray[T] | None = _in_room(shape, dtype, None, grows=False)
    return np.zeros(shape, dtype) if array is None else array


def full(shape: Shape, value: int, dtype: type[T] | np.dtype[T], spare: Spare | None = None) -> npt.NDArray[T]:
    array = empty(shape, dtype, spare)
    array.fill(value)
    return array


def taken(owner: np.ndarray[Any, Any]) -> int:
    """The bytes of an array; of a room, those of the array in it."""
    return owner.taken if isinstance(owner, _Lease) else owner.nbytes


def lengthened(array: npt.NDArray[T], length: int) -> npt.NDArray[T] | None:
    """The same memory and more behind it as an array of so many elements or rows, or None if there is no room."""
    lease: object = array.base
    shape = (length, *array.shape[1:])
    if isinstance(lease, _Lease) and _size(shape, array.dtype) <= RESERVED:
        return lease.array(shape, array.dtype)
    return None
