"""Which memory kernels may touch: the ranges of addresses that arrays own now, for builds that check every access.

Kernels know memory by its address only. Two builds check each load and store against the ranges registered here: plain
Python (`NUMBA_DISABLE_JIT=1`), and kernels compiled with `TIDELOG_CHECKED=1`. An access outside all arrays, or beyond
the end of the array in which it begins, raises a `MemoryFault` with the address and the nearest range. Other builds
would crash or, worse, go on.

Taking the address of an array (`jit.address`) registers the array that owns its memory; the range ends when that array
is gone. Compiled kernels read the ranges from a table of rows sorted by address. A table is never changed, except for
the word that says whether an owner is alive: every change makes a new table and then publishes its address, so that
kernels in other threads always see a complete one.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.machine import array_memory as rooms

Array = np.ndarray[Any, np.dtype[Any]]
Longs = npt.NDArray[np.int64]
Owner = Callable[[], Array | None]

CHECKED = os.environ.get("TIDELOG_CHECKED", "0") not in ("", "0")

TABLES_KEPT = 256  # since a kernel in another thread may still be reading one
CROWDED_FROM = 256  # with more ranges than this, those whose owners are gone are dropped
CELLS_KEPT = 1 << 16  # addresses that plain Python caches

# The words of a row in the table that compiled kernels read, and of a fault that they report.
ROW_START, ROW_END, ROW_ALIVE, ROW_WORDS = 0, 1, 2, 3
FAULT_SEEN, FAULT_ADDRESS, FAULT_WIDTH, FAULT_WORDS = 0, 1, 2, 3
# The words of a library of checked kernels that say where the address of the table is, and where faults are reported.
TABLE_SYMBOL, FAULT_SYMBOL = "tidelog_table", "tidelog_fault"


class MemoryFault(AssertionError):
    """A kernel tried to access memory that nobody owns. This is always a bug in tidelog itself."""


# Without `super()`, which would take as long as the rest of an access.
_read, _write = np.ndarray.__getitem__, np.ndarray.__setitem__


class CheckedRegisters(npt.NDArray[np.int64]):
    """Registers in plain Python: a negative number is no register, though NumPy would count it from the end."""

    def __getitem__(self, at: Any) -> Any:
        if at.__class__ is not slice and at < 0:
            raise MemoryFault(f"a kernel reads register {at}")
        return _read(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        if at.__class__ is not slice and at < 0:
            raise MemoryFault(f"a kernel writes register {at}")
        _write(self, at, value)


def _nobody() -> None:
    """The owner of memory that was released."""


class Range:
    """The addresses from `start` up to `end`, for the lifetime of the array that owns them."""

    __slots__ = ("alive", "end", "owner", "start")

    def __init__(self, start: int, end: int, owner: Array) -> None:
        self.start = start
        self.end = end
        # Compiled kernels read this word; it becomes 0 when the owner is gone.
        self.alive = alive = ctypes.c_int64(1)

        def end_life(_: object) -> None:
            alive.value = 0

        self.owner: Owner = weakref.ref(owner, end_life)

    def end_ownership(self) -> None:
        self.alive.value = 0
        self.owner = _nobody  # NumPy resizes no array with references, even weak ones.

    def row(self) -> tuple[int, int, int]:
        """Its row in the table that compiled kernels read."""
        return self.start, self.end, ctypes.addressof(self.alive)

    def covers(self, at: int, width: int) -> bool:
        return self.start <= at and at + width <= self.end and self.owner() is not None

    def distance(self, at: int) -> int:
        return max(self.start - at, at - self.end, 0)


def _owner_of(array: Array) -> Array:
    """The array that a view is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def first_address(array: Array) -> int:
    """The address of an array's first element."""
    try:
        # Five times as fast as `array.ctypes`, and every call of a kernel needs it.
        return ctypes.addressof(_first_byte(array))
    except (BufferError, TypeError, ValueError):
        # It is empty, read-only, or not contiguous.
        return int(array.__array_interface__["data"][0])


def _bounds(owner: Array) -> tuple[int, int]:
    """The start and end of the memory of an array that is no view."""
    if owner.flags.forc:
        start = first_address(owner)
        return start, start + rooms.taken(owner)
    return np.lib.array_utils.byte_bounds(owner)


class Ownership:
    """All ranges with an owner; with `compiled`, compiled kernels see them too."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled
        self._changing = threading.RLock()  # reentrant: finalizers may run in between
        # By address.
        self._starts: list[int] = []
        self._ranges: list[Range] = []
        self._by_owner: dict[int, Range] = {}
        self._crowded = CROWDED_FROM
        # For plain Python: the owner and the number at each address, by the kind of number.
        self._found: list[dict[int, tuple[Owner, Any]]] = []
        # For compiled kernels: the address of the table, and where they report a fault.
        self.table: Longs = np.zeros(1, np.int64)
        self.fault: Longs = np.zeros(FAULT_WORDS, np.int64)
        self._tables: deque[tuple[Longs, list[Range]]] = deque(maxlen=TABLES_KEPT)
        self._publish(np.zeros(1, np.int64), [])

    def register(self, array: Array) -> int:
        """Let kernels use the memory of an array; returns the address of its first element."""
        at = first_address(array)
        owner = _owner_of(array)
        found = self._by_owner.get(id(owner))
        # A known array may have been lengthened in its room, but it is released before it moves.
        if found is not None and found.owner() is owner and found.end - found.start == rooms.taken(owner):
            return at
        shorter = found if found is not None and found.owner() is owner else None
        start, end = _bounds(owner)
        if start < end:
            with self._changing:
                self._insert(Range(start, end, owner), id(owner), shorter)
        if shorter is not None:
            # It stays alive in the tables of before: kernels in other threads may be reading what it covers.
            shorter.owner = _nobody
            self._forget_found()
        return at

    def release(self, owner: Array) -> None:
        """An array is about to move: nobody owns its memory until its address is taken again."""
        found = self._by_owner.get(id(owner))
        if found is not None and found.owner() is owner:
            found.end_ownership()
            self._forget_found()

    def _forget_found(self) -> None:
        for cells in self._found:
            cells.clear()

    def _insert(self, new: Range, owner: int, shorter: Range | None) -> None:
        """Add a range, in place of a shorter one of the same array, and of overlapping ones whose owners are gone."""
        starts, ranges = self._starts, self._ranges

        def is_gone(at: int) -> bool:
            return ranges[at] is shorter or ranges[at].owner() is None

        first = after = bisect_left(starts, new.start)
        while first and ranges[first - 1].end > new.start and is_gone(first - 1):
            first -= 1
        while after < len(ranges) and starts[after] < new.end and is_gone(after):
            after += 1
        gone = ranges[first:after]
        starts[first:after] = [new.start]
        ranges[first:after] = [new]
        self._by_owner[owner] = new
        if self._compiled:
            rows = self._tables[-1][0]
            parts = rows[: 1 + ROW_WORDS * first], new.row(), rows[1 + ROW_WORDS * after :]
            self._publish(np.concatenate(parts), gone)
        if len(ranges) > self._crowded:
            self._drop_dead_ranges()

    def _drop_dead_ranges(self) -> None:
        gone = [found for found in self._ranges if found.owner() is None]
        self._ranges = [found for found in self._ranges if found.owner() is not None]
        self._starts = [found.start for found in self._ranges]
        self._by_owner = {key: found for key, found in self._by_owner.items() if found.owner() is not None}
        self._crowded = max(CROWDED_FROM, 2 * len(self._ranges))
        if self._compiled:
            self._publish(np.array([0, *(word for found in self._ranges for word in found.row())], np.int64), gone)

    def _publish(self, rows: Longs, gone: list[Range]) -> None:
        """Publish a table for compiled kernels. Others may still be read, and with them the ranges that are gone."""
        rows[0] = len(rows) // ROW_WORDS
        self._tables.append((rows, gone))
        self.table[0] = rows.ctypes.data

    def access(self, kind: type[Any]) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
        """How plain Python loads and stores numbers of a `ctypes` type, if they lie in one array."""
        width = ctypes.sizeof(kind)
        found: dict[int, tuple[Owner, Any]] = {}
        self._found.append(found)

        def look(at: int) -> tuple[Owner, Any]:
            if len(found) > CELLS_KEPT:
                found.clear()
            entry = self._range_of(int(at), width).owner, kind.from_address(int(at))
            found[int(at)] = entry
            return entry

        def load(at: int) -> int:
            entry = found.get(at)
            if entry is None or entry[0]() is None:
                entry = look(at)
            value: int = entry[1].value
            return value

        def store(at: int, value: int) -> None:
            entry = found.get(at)
            if entry is None or entry[0]() is None:
                entry = look(at)
            entry[1].value = int(value)

        return load, store

    def _range_of(self, at: int, width: int) -> Range:
        with self._changing:
            place = bisect_right(self._starts, at) - 1
            if place >= 0 and self._ranges[place].covers(at, width):
                return self._ranges[place]
            # Arrays over foreign memory, such as that of an Arrow table, may overlap.
            for found in self._ranges:
                if found.covers(at, width):
                    return found
        raise self.fault_at(at, width)

    def fault_at(self, at: int, width: int, kernel: str = "a kernel") -> MemoryFault:
        """A description of a bad access."""
        living = [found for found in self._ranges if found.owner() is not None]
        message = f"{kernel} touches {width} bytes at {at:#x}"
        dead = next((found for found in self._ranges if found.start <= at < found.end and found.owner() is None), None)
        if dead is not None:
            return MemoryFault(f"{message}, in an array of {dead.end - dead.start} bytes that is gone")
        nearest = min(living, key=lambda found: found.distance(at), default=None)
        if nearest is None:
            return MemoryFault(f"{message}, and no array is known")
        owner = nearest.owner()
        what = "an array" if owner is None else f"an array of shape {owner.shape} and type {owner.dtype}"
        return MemoryFault(
            f"{message}, which no array owns; the nearest range is {nearest.start:#x} to {nearest.end:#x}, {what}, "
            f"and the access begins {at - nearest.start} bytes from where that does"
        )

    def seen_fault(self, kernel: str) -> MemoryFault:
        """The fault that a compiled kernel has noted."""
        if not self.fault[FAULT_SEEN]:
            return MemoryFault(f"`{kernel}` uses a register that is not there")
        at, width = int(self.fault[FAULT_ADDRESS]), int(self.fault[FAULT_WIDTH])
        self.fault[:] = 0
        return self.fault_at(at, width, f"`{kernel}`")


def unchecked_access(kind: type[Any]) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
    """How plain Python loads and stores numbers of a `ctypes` type where accesses are not checked."""

    def load(at: int) -> int:
        value: int = kind.from_address(int(at)).value
        return value

    def store(at: int, value: int) -> None:
        kind.from_address(int(at)).value = int(value)

    return load, store


OWNED = Ownership(compiled=CHECKED)
