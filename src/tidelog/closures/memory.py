"""The arrays of a closure, which Python owns, and the registers by which kernels find them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.closures import closure_registers as C
from tidelog.closures.edges import Ints, Longs
from tidelog.errors import LimitError
from tidelog.machine.growth import stretch
from tidelog.machine.jit import address

Array = np.ndarray[Any, np.dtype[Any]]

POOL_LIMIT = 2**31 - 1
STEP = 1 << 20  # words by which sparse rows become longer at once: NumPy clears them, some milliseconds


class Memory:
    """All arrays of one closure, by the register that holds their address."""

    def __init__(self, directed: bool, capacity: int) -> None:
        self.m: Longs = np.zeros(C.SIZE, np.int64)
        self.at = address(self.m)  # what kernels get
        self.arrays: dict[int, Array] = {}
        self.retired: list[Array] = []
        self.m[C.DIRECTED] = directed
        self.grow(capacity)
        for pool in C.LIST_POOLS:
            self.hold(pool + C.LIST_ENTRIES, np.empty(0, np.int32))
        for rows in C.ROW_POOLS:
            self.hold_rows(rows, np.empty(0, np.int32), np.empty(0, np.int64), 0)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, register: int) -> int:
        """A scalar."""
        return int(self.m[register])

    def used(self, pool: C.Pool) -> int:
        """How many entries or words of a pool are in use."""
        return self[pool + C.POOL_USED]

    def room(self, pool: C.Pool) -> int:
        """How many entries or words fit into a pool."""
        return self[pool + C.POOL_ROOM]

    def width(self, rows: C.Pool) -> int:
        """How many words every row of a pool has, or 0 where its rows are sparse."""
        return self[rows + C.ROW_WIDTH]

    def sizes(self, pool: C.Pool) -> Ints:
        """The sizes of the lists or rows of a pool."""
        sizes: Ints = self.arrays[pool + C.POOL_TABLE][:, 1]
        return sizes

    def entries(self, register: int, count: int) -> Array:
        """The entries of an array that are in use; the register `count` says how many."""
        return self.arrays[register][: self[count]]

    def live_components(self) -> int:
        """How many components have members."""
        return int(np.count_nonzero(self.sizes(C.MEMBERS)[: self[C.COMPONENTS]]))

    # --- growing ------------------------------------------------------------------------------------------------------

    def hold(self, register: int, array: Array) -> None:
        """Let a register point to an array."""
        self.arrays[register] = array
        self.m[register] = address(array)

    def grow(self, capacity: int) -> None:
        """Make room for more nodes. The hash table is empty afterwards, and dense rows are as narrow as before."""
        check_limit(capacity)
        directed = bool(self.m[C.DIRECTED])
        fresh: dict[int, Array] = {
            register: np.full(capacity, form.unused, form.kind)
            for register, form in C.NODE_ARRAYS.items()
            if directed or not form.directed
        }
        fresh[C.PARENT] = np.arange(capacity, dtype=np.int32)
        for pool in C.LIST_POOLS + (C.ROW_POOLS if directed else ()):
            fresh[pool + C.POOL_TABLE] = np.zeros((capacity, 3), np.int32)
        if directed:
            fresh |= {rows + C.ROW_COUNTS: np.zeros(capacity, np.int64) for rows in C.ROW_POOLS}
        for register, array in fresh.items():
            if register in self.arrays:
                array[: len(self.arrays[register])] = self.arrays[register]
        slots = 1 << max(3, (2 * capacity - 1).bit_length())
        fresh[C.SLOTS] = np.full(slots, -1, np.int64)
        for register, array in fresh.items():
            self.hold(register, array)
        self.m[C.CAPACITY], self.m[C.MASK] = capacity, slots - 1
        self.clear_row()

    def trade_places(self, other: Memory) -> None:
        """Trade the places of the registers, and with them the views."""
        mine, others = self.m.copy(), other.m.copy()
        self.m, self.at, other.m, other.at = other.m, other.at, self.m, self.at
        self.m[:], other.m[:] = mine, others

    def clear_row(self) -> None:
        """Make the row under construction empty, and wide enough for every node."""
        words = self[C.CAPACITY] + 63 >> 6 if self[C.DIRECTED] else 0
        for register in (C.ROW, C.SUMMARY, C.OUTLINE):
            self.hold(register, np.zeros(words, np.int64))
            words = words + 63 >> 6
        self.m[C.GATHERED] = 0

    def replace_entries(self, pool: C.Pool, entries: Ints) -> int:
        """Own a new array for the lists of a pool, whose register is set by the kernel that fills the array.

        The old array stays until the change ends, so that the registers are right whenever Python is interrupted.
        """
        check_limit(len(entries))
        self.retired.append(self.arrays[pool + C.LIST_ENTRIES])
        self.arrays[pool + C.LIST_ENTRIES] = entries
        return address(entries)

    def hold_rows(self, rows: C.Pool, keys: Array, words: Array, width: int) -> None:
        """Give a pool of rows new arrays."""
        self.hold(rows + C.ROW_KEYS, keys)
        self.hold(rows + C.ROW_WORDS, words)
        self.m[rows + C.POOL_ROOM], self.m[rows + C.ROW_WIDTH] = len(words), width

    def clear_rows(self, rows: C.Pool) -> None:
        """Drop all sets of a pool, and give their memory back."""
        self.hold_rows(rows, np.empty(0, np.int32), np.empty(0, np.int64), 0)
        self.m[rows + C.POOL_USED] = 0
        self.arrays[rows + C.POOL_TABLE][:] = 0

    def lengthen_rows(self, rows: C.Pool, more: int) -> None:
        """Make room for more words in sparse rows; what is there stays where it is."""
        used = self.used(rows)
        size = used + max(min(used >> 1, STEP), more)
        check_limit(size)
        for register in (rows + C.ROW_KEYS, rows + C.ROW_WORDS):
            stretch(self.arrays[register], size)
            self.m[register] = address(self.arrays[register])
        self.m[rows + C.POOL_ROOM] = size


def check_limit(size: int) -> None:
    if size > POOL_LIMIT:
        raise LimitError(
            f"A closure would need an array of {size:,} entries, more than {POOL_LIMIT:,}. "
            "Split the relation, or turn the closure modules off."
        )
