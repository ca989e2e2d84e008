"""The registers of a closure: one array, whose address `m` its kernels get. Everybody imports this file as `C`.

A register holds a scalar, or the address of an array that `memory` owns. The address `m` is also the *view* by which
compiled joins read the closure (`read_kernels`), and with one bit more the view of what it was before the change.

Nodes are numbered from 0 in the order in which their terms first appear. A node keeps its number, and a component of
its own, even after its last edge is gone. There are never more components than nodes, so every array with an entry for
each node or component has room for `CAPACITY` entries.

Lists and rows whose length changes lie in *pools*: one that outgrows its place moves to the end of its pool. A kernel
never allocates. It stops, and says in `STATUS` which pool is full and in `NEEDED` how much it wants; Python makes room,
and the kernel goes on.

Every cell is named here, once, and numbers are handed out in the order of this file.
"""
# kernel constants

from __future__ import annotations

from itertools import count
from typing import NamedTuple, NewType

import numpy as np

Register = NewType("Register", int)
Pool = NewType("Pool", int)
"""A pool of lists or of rows, named by its first register."""


class Form(NamedTuple):
    """What an array holds: the type of its entries, and the value of an entry that is not in use."""

    kind: type
    unused: int
    directed: bool
    """Only directed closures have the array."""


NODE_ARRAYS: dict[Register, Form] = {}
"""Arrays with an entry for each node or component."""

_numbers = count()


def _cell() -> Register:
    return Register(next(_numbers))


def _array(kind: type = np.int32, unused: int = 0, directed: bool = False) -> Register:
    register = _cell()
    NODE_ARRAYS[register] = Form(kind, unused, directed)
    return register


def _pool(fields: int) -> Pool:
    first, *_ = [_cell() for _ in range(fields)]
    return Pool(first)


# --- between a kernel and Python --------------------------------------------------------------------------------------
STATUS = _cell()  # one of the following, or the pool that is full
DONE, TOO_MUCH, PAUSED = 0, 1, 2  # TOO_MUCH: rebuilding is cheaper
NEEDED = _cell()  # how much room the kernel wants in that pool
WORK = _cell()  # words and edges that the current change has looked at
PAUSE_AT = _cell()  # how much WORK there may be before the kernel has to pause

# --- nodes ------------------------------------------------------------------------------------------------------------
DIRECTED = _cell()  # 0: two nodes are related if they are in one component; 1: if one is in the other's set
CAPACITY = _cell()  # nodes that fit
NODES = _cell()
SLOTS = _cell()  # address of the hash table: `term << 32 | node`, or -1; at least two slots for each node
MASK = _cell()  # slots of the hash table, less one
TERMS = _array()

# --- base edges, and the pairs (x, x) ---------------------------------------------------------------------------------
EDGES = _cell()  # base edges, except for loops
LOOPS = _array(np.uint8)  # 1: the base holds the edge from the node to itself
DIAGONAL = _array(np.uint8)  # flags of the pair of the node with itself
HOLDS, FLIPPED_NOW = 1, 2  # the closure holds it; it is on FLIPPED_LIST
REFLEXIVE = _cell()  # pairs (x, x) in the closure

# --- components -------------------------------------------------------------------------------------------------------
COMPONENTS = _cell()  # component numbers handed out so far, including free ones
FREE = _cell()  # component numbers that can be handed out again
FREE_LIST = _array()
COMPONENT = _array()  # of a node
PLACE = _array()  # position of a node in the list of its component
PARENT = _array()  # union-find over components; between kernels each is its own parent

# --- the log of the current change ------------------------------------------------------------------------------------
MOVED = _cell()
MOVED_LIST = _array()  # the nodes that the change moved or created
UNMOVED, CREATED = -1, -2
FORMER = _array(unused=UNMOVED)  # component before the change, UNMOVED or CREATED
# The nodes that left a component are chained by their positions in MOVED_LIST, counted from 1; 0 ends the chain.
LAST_LEFT = _array()  # of a component: the last that left it
LEFT_BEFORE = _array()  # of a position in MOVED_LIST, counted from 0: the one that left the same component before
TOUCHED = _cell()
TOUCHED_LIST = _array()  # the components that the change touched
UNTOUCHED = -1
FORMER_SIZE = _array(unused=UNTOUCHED)  # their sizes before it
FLIPPED = _cell()
FLIPPED_LIST = _array()  # the nodes whose pair with themselves appeared or vanished
REBUILT = _cell()  # 1: the change numbered all components anew
PAIRS = _cell()  # how many more pairs of different nodes there are than before the change; may be negative

# --- searches ---------------------------------------------------------------------------------------------------------
STAMP = _array()  # the token of the last search that came to a node
TOKEN = _cell()  # the last value that a search wrote to STAMP
# Work space: nothing in it outlives a kernel.
NUMBER = _array()
LOW = _array()
STACK = _array()
ORDER = _array()
BOUNDS = _array()
OTHER = _array()
FRAME_NODE = _array(directed=True)
FRAME_EDGE = _array(directed=True)

# --- deletions in directed closures: a heap of components whose sets are to be computed again -------------------------
SCHEDULED = _cell()  # entries of the heap
HEAP = _array(directed=True)
HEAP_KEYS = _array(np.int64, directed=True)
QUEUED = _array(np.uint8, directed=True)  # 1: on the heap
RANK = _array(directed=True)  # order among the parts of a component that fell apart

# --- the row under construction ---------------------------------------------------------------------------------------
ROW = _cell()  # address of its words, all zero between kernels
SUMMARY = _cell()  # address of bits that say which words are set, where rows are sparse
OUTLINE = _cell()  # address of bits that say which words of SUMMARY are set
GATHERED = _cell()  # words that are set, where rows are sparse

# --- fields of a pool, counted from its first register ----------------------------------------------------------------
POOL_TABLE = 0  # address of a line for each list or row
POOL_USED = 1  # entries or words in use
POOL_ROOM = 2  # entries or words that fit
# Of a pool of lists.
LIST_ENTRIES = 3  # address of the nodes
LIST_FIELDS = 4
# Of a pool of rows.
ROW_KEYS = 3  # address of the numbers of the words, where rows are sparse
ROW_WORDS = 4  # address of the words
ROW_COUNTS = 5  # address of the numbers of nodes, for each set
ROW_WIDTH = 6  # words of every row where rows are dense, 0 where they are sparse
ROW_FIELDS = 7

# A line of a table: three numbers of 32 bits.
LINE_START, LINE_SIZE, LINE_LIMIT, LINE_BYTES = 0, 4, 8, 12

# --- pools of lists ---------------------------------------------------------------------------------------------------
OUT = _pool(LIST_FIELDS)  # where the edges of each node lead
INTO = _pool(LIST_FIELDS)  # where they come from
MEMBERS = _pool(LIST_FIELDS)  # the nodes of each component
LIST_POOLS = (OUT, INTO, MEMBERS)

# --- pools of rows: sets of nodes, one for each component -------------------------------------------------------------
FORWARD = _pool(ROW_FIELDS)  # what it reaches
BACKWARD = _pool(ROW_FIELDS)  # what reaches it
SAVED = _pool(ROW_FIELDS)  # what it reached before the current change; always sparse
ROW_POOLS = (FORWARD, BACKWARD, SAVED)

SIZE = _cell()
