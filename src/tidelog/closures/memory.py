"""The arrays of a closure, which Python owns, and the registers by which kernels find them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidelog.closures import closure_registers as C
from tidelog.closures import closure_registers as layout
from tidelog.errors import LimitError
from tidelog.machine.growth import stretch
from tidelog.machine.jit import address

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Array = np.ndarray[Any, np.dtype[Any]]

POOL_LIMIT = 2**31 - 1

# Arrays with an entry for each node or component: their type, and what stands in an entry that is not in use.
NODE_ARRAYS: dict[int, tuple[type, int]] = {
    layout.TERMS: (np.int32, 0),
    layout.LOOPS: (np.uint8, 0),
    layout.DIAGONAL: (np.uint8, 0),
    layout.COMPONENT: (np.int32, 0),
    layout.PLACE: (np.int32, 0),
    layout.FREE_LIST: (np.int32, 0),
    layout.MOVED_LIST: (np.int32, 0),
    layout.FORMER: (np.int32, layout.UNMOVED),
    layout.TOUCHED_LIST: (np.int32, 0),
    layout.FORMER_SIZE: (np.int32, layout.UNTOUCHED),
    layout.FLIPPED_LIST: (np.int32, 0),
    layout.STAMP: (np.int32, 0),
    layout.PARENT: (np.int32, 0),
}
DIRECTED_ARRAYS: dict[int, tuple[type, int]] = {
    layout.RANK: (np.int32, 0),
    layout.QUEUED: (np.uint8, 0),
    layout.HEAP_KEYS: (np.int64, 0),
    layout.HEAP: (np.int32, 0),
}
SEARCH_LISTS = (layout.NUMBER, layout.LOW, layout.ORDER, layout.BOUNDS, layout.OTHER, layout.STACK)
DIRECTED_SEARCH_LISTS = (layout.FRAME_NODE, layout.FRAME_EDGE)
POOLS = (layout.OUT, layout.INTO, layout.MEMBERS)
ROWS = (layout.FORWARD, layout.BACKWARD, layout.SAVED)


class Memory:
    """All arrays of one closure, by the register that holds their address."""

    def __init__(self, directed: bool, capacity: int) -> None:
        self.m: Longs = np.zeros(C.REGISTERS, np.int64)
        self.arrays: dict[int, Array] = {}
        self.retired: list[Array] = []
        self.m[C.DIRECTED] = directed
        self._grow_arrays(capacity)
        for pool in POOLS:
            self.hold(pool + C.ENTRIES, np.empty(0, np.int32))
        for rows in ROWS:
            self.hold_rows(rows, np.empty(0, np.int32), np.empty(0, np.int64), 0)

    def __getitem__(self, register: int) -> int:
        """A scalar."""
        return int(self.m[register])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values()) + self.m.nbytes

    def hold(self, register: int, array: Array) -> None:
        """Let a register point to an array."""
        self.arrays[register] = array
        self.m[register] = address(array)

    def entries(self, register: int, count: int) -> Array:
        """The first entries of an array."""
        return self.arrays[register][: self[count]]

    def sizes(self, pool: int) -> Longs:
        """The sizes of the lists of a pool."""
        sizes: Longs = self.arrays[pool + C.TABLE][:, 1].astype(np.int64)
        return sizes

    # --- growing ----------------------------------------------------------------------------------------------

    def grow(self, capacity: int) -> None:
        """Make room for more nodes. The hash table is empty afterwards, and dense rows are as narrow as before."""
        check_limit(capacity)
        self._grow_arrays(capacity)

    def _grow_arrays(self, capacity: int) -> None:
        directed = bool(self.m[C.DIRECTED])
        arrays = NODE_ARRAYS | DIRECTED_ARRAYS if directed else NODE_ARRAYS
        fresh: dict[int, Array] = {register: np.full(capacity, rest, kind) for register, (kind, rest) in arrays.items()}
        fresh[layout.PARENT] = np.arange(capacity, dtype=np.int32)
        for pool in POOLS + (ROWS if directed else ()):
            fresh[pool + C.TABLE] = np.zeros((capacity, 3), np.int32)
        if directed:
            fresh |= {rows + C.COUNTS: np.zeros(capacity, np.int64) for rows in ROWS}
        for register, array in fresh.items():
            if register in self.arrays:
                array[: len(self.arrays[register])] = self.arrays[register]
        for register in SEARCH_LISTS + (DIRECTED_SEARCH_LISTS if directed else ()):
            fresh[register] = np.empty(capacity, np.int32)
        slots = 1 << max(3, (2 * capacity - 1).bit_length())
        fresh[C.SLOTS] = np.full(slots, -1, np.int64)
        for register, array in fresh.items():
            self.hold(register, array)
        self.m[C.CAPACITY], self.m[C.MASK] = capacity, slots - 1
        self.clear_row()

    def clear_row(self) -> None:
        """Make the row under construction empty, and wide enough for every node."""
        words = self[C.CAPACITY] + 63 >> 6 if self[C.DIRECTED] else 0
        for register in (C.ROW, C.SUMMARY, C.OUTLINE):
            self.hold(register, np.zeros(words, np.int64))
            words = words + 63 >> 6
        self.m[C.GATHERED] = 0

    def replace_entries(self, pool: int, entries: Ints) -> int:
        """Own a new array for the lists of a pool. The kernel that fills it lets the register point there.

        Until the change ends the old array stays, so that the registers are right whenever Python is interrupted.
        """
        check_limit(len(entries))
        self.retired.append(self.arrays[pool + C.ENTRIES])
        self.arrays[pool + C.ENTRIES] = entries
        return address(entries)

    def hold_rows(self, rows: int, keys: Array, words: Array, width: int) -> None:
        """Give a pool of rows new arrays."""
        self.hold(rows + C.KEYS, keys)
        self.hold(rows + C.WORDS, words)
        self.m[rows + C.ROOM], self.m[rows + C.WIDTH] = len(words), width

    def clear_rows(self, rows: int) -> None:
        """Forget all sets of a kind, and give their memory back."""
        self.hold_rows(rows, np.empty(0, np.int32), np.empty(0, np.int64), 0)
        self.m[rows + C.USED] = 0
        self.arrays[rows + C.TABLE][:] = 0

    def lengthen_rows(self, rows: int, more: int) -> None:
        """Make room for more words in sparse rows; what is there stays where it is."""
        used = self[rows + C.USED]
        size = used + max(used >> 1, more)
        check_limit(size)
        for register in (rows + C.KEYS, rows + C.WORDS):
            stretch(self.arrays[register], size)
            self.m[register] = address(self.arrays[register])
        self.m[rows + C.ROOM] = size

    def alive(self) -> int:
        """The number of components that have members."""
        return int(np.count_nonzero(self.arrays[layout.MEMBERS + C.TABLE][: self[C.COMPONENTS], 1]))


def check_limit(size: int) -> None:
    if size > POOL_LIMIT:
        raise LimitError(
            f"A closure would need an array of {size:,} entries, more than {POOL_LIMIT:,}. "
            "Split the relation, or turn the closure modules off."
        )
