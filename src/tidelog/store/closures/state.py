"""What a closure keeps in memory: flat arrays in named tuples, which every kernel takes whole.

Nodes are numbered densely from 0 in the order in which their terms first appear. A node keeps its number, and a
component of its own, also when its last edge goes. Everything indexed by a node or by a component has room for as many
entries as `terms`; there are never more components than nodes.

Lists of changing length lie in pools (`Blocks`, `Rows`): a list that outgrows its place moves to the end of its pool. A
kernel never allocates: it stops, says in `STATUS` which pool is full and in `NEEDED` how much it wants, Python makes room,
and the kernel goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# --- columns of the table of a pool ---
START, SIZE, CAPACITY = 0, 1, 2

# --- entries of `Rows.meta` ---
USED = 0  # words of the pool in use
WIDTH = 1  # words of every row where rows are dense; 0 where they are sparse

# --- entries of `State.scalars` ---
NODES = 0
COMPONENTS = 1  # component numbers handed out so far, free ones included
FREE = 2  # component numbers that can be handed out again
MOVED = 3  # entries of `moved`
TOUCHED = 4  # entries of `touched`
TOKEN = 5  # the last value that a search wrote to `stamp`
WORK = 6  # words and edges that the current change has looked at
REBUILT = 7  # 1: the current change renumbered all components
HEAP = 8  # entries of the heap
DIAGONAL = 9  # pairs (x, x) in the closure
FLIPPED = 10  # entries of `flipped`
EDGES = 11  # base edges, loops aside
STATUS = 12
NEEDED = 13
GATHERED = 14  # words set in `gathered`, where rows are sparse
SCALARS = 16

# --- `STATUS` after a kernel: done, which pool is full, or that starting afresh is cheaper -----------------
DONE, FULL_MEMBERS, FULL_FORWARD, FULL_BACKWARD, FULL_SAVED, FULL_OUT, FULL_INTO, TOO_MUCH = 0, 1, 2, 3, 4, 5, 6, 7

# --- `former` of a node that the current change has not moved, and of one that it created ------------------
UNMOVED, CREATED = -1, -2

# --- rows of `State.lists`, the work space of searches ---
NUMBER, LOW, FRAME_NODE, FRAME_EDGE, STACK, ORDER, BOUNDS, OTHER = 0, 1, 2, 3, 4, 5, 6, 7
LISTS = 8

NO_COMPONENT_SIZE = -1


class Blocks(NamedTuple):
    """Lists of nodes in one pool: list `i` is `pool[start : start + size]`."""

    table: Ints
    pool: Ints
    used: Longs


class Rows(NamedTuple):
    """Sets of nodes as bits, one set a component. A dense row holds every word, a sparse one the words of its `keys`, in order."""

    table: Ints
    keys: Ints
    words: Longs
    counts: Longs  # nodes in each set
    meta: Longs


class State(NamedTuple):
    """A whole closure: its nodes, base edges, components, reachability, the log of the current change, and work space."""

    scalars: Longs
    slots: Longs  # open addressing, `term << 32 | node`, or -1
    terms: Ints
    loops: Bytes  # 1: the base holds the edge from the node to itself
    diagonal: Bytes  # 1: the closure holds that pair
    out: Blocks
    into: Blocks
    component: Ints
    place: Ints  # position of the node in the list of its component
    members: Blocks
    free: Ints
    forward: Rows  # what each component reaches, itself included
    backward: Rows  # what reaches each component
    moved: Ints
    former: Ints  # component before the current change
    touched: Ints
    former_size: Ints
    saved: Rows  # forward rows before the current change, always sparse
    flipped: Ints  # nodes whose diagonal pair the current change brought or took
    stamp: Ints
    parent: Ints  # union-find over components; at rest each is its own parent
    rank: Ints  # order among the parts of a component that fell apart
    queued: Bytes
    heap_keys: Longs
    heap: Ints
    gathered: Longs  # one row under construction, all words zero at rest
    summary: Longs  # which words of it are set, where rows are sparse
    outline: Longs  # which words of `summary` are set
    lists: Ints


def empty_blocks(lists: int, room: int) -> Blocks:
    return Blocks(np.zeros((lists, 3), np.int32), np.empty(room, np.int32), np.zeros(1, np.int64))


def empty_rows(rows: int, room: int, width: int) -> Rows:
    return Rows(
        np.zeros((rows, 3), np.int32),
        np.empty(0 if width else room, np.int32),
        np.empty(room, np.int64),
        np.zeros(rows, np.int64),
        np.array([0, width], np.int64),
    )


def empty_state(directed: bool, capacity: int) -> State:
    """A closure of nothing. What only directed closures use has length 0 in the others."""
    rows = capacity if directed else 0
    words = (rows + 63) >> 6
    return State(
        scalars=np.zeros(SCALARS, np.int64),
        slots=np.full(hash_size(capacity), -1, np.int64),
        terms=np.empty(capacity, np.int32),
        loops=np.zeros(capacity, np.uint8),
        diagonal=np.zeros(capacity, np.uint8),
        out=empty_blocks(capacity, capacity),
        into=empty_blocks(capacity, capacity),
        component=np.empty(capacity, np.int32),
        place=np.zeros(capacity, np.int32),
        members=empty_blocks(capacity, capacity),
        free=np.empty(capacity, np.int32),
        forward=empty_rows(rows, 0, words),
        backward=empty_rows(rows, 0, words),
        moved=np.empty(capacity, np.int32),
        former=np.full(capacity, UNMOVED, np.int32),
        touched=np.empty(capacity, np.int32),
        former_size=np.full(capacity, NO_COMPONENT_SIZE, np.int32),
        saved=empty_rows(rows, 0, 0),
        flipped=np.empty(capacity, np.int32),
        stamp=np.zeros(capacity, np.int32),
        parent=np.arange(capacity, dtype=np.int32),
        rank=np.zeros(rows, np.int32),
        queued=np.zeros(rows, np.uint8),
        heap_keys=np.empty(rows, np.int64),
        heap=np.empty(rows, np.int32),
        gathered=np.zeros(words, np.int64),
        summary=np.zeros((words + 63) >> 6, np.int64),
        outline=np.zeros((words + 4095) >> 12, np.int64),
        lists=np.empty((LISTS, capacity), np.int32),
    )


def hash_size(nodes: int) -> int:
    """Slots of the hash table: a power of two that leaves at least half of them empty."""
    return 1 << max(3, (2 * nodes - 1).bit_length())


def with_capacity(state: State, capacity: int) -> State:
    """The same closure with room for more nodes; pools stay as they are, and the hash table has to be filled again."""
    fresh = empty_state(len(state.forward.table) > 0, capacity)
    for name, new in fresh._asdict().items():
        old = getattr(state, name)
        if isinstance(old, np.ndarray) and name not in ("slots", "lists"):
            new[: len(old)] = old
    return fresh._replace(
        out=_with_table(state.out, fresh.out),
        into=_with_table(state.into, fresh.into),
        members=_with_table(state.members, fresh.members),
        forward=_with_table(state.forward, fresh.forward),
        backward=_with_table(state.backward, fresh.backward),
        saved=_with_table(state.saved, fresh.saved),
    )


def _with_table(old: Any, fresh: Any) -> Any:
    """The old pool under the longer tables of `fresh`."""
    fresh.table[: len(old.table)] = old.table
    if isinstance(old, Rows):
        fresh.counts[: len(old.counts)] = old.counts
        return old._replace(table=fresh.table, counts=fresh.counts)
    return old._replace(table=fresh.table)


def size_in_bytes(state: State) -> int:
    """Bytes of all arrays."""
    total = 0
    for part in state._asdict().values():
        arrays = [part] if isinstance(part, np.ndarray) else list(part)
        total += sum(array.nbytes for array in arrays)
    return total
