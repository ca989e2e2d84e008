"""Where a closure lies in memory: the registers that Python and the kernels share.

Every kernel gets one array `m`, the registers of a closure. They hold its scalars and the addresses of its arrays,
which `memory` owns. The address of `m` is also the *view* by which compiled joins read the closure (`kernels`).

Nodes are numbered densely from 0 in the order in which their terms first appear. A node keeps its number, and a
component of its own, also when its last edge goes. Every array with an entry for each node or component has room for
`CAPACITY` entries; there are never more components than nodes.

Lists of changing length lie in pools: a list that outgrows its place moves to the end of its pool. A kernel never
allocates: it stops, says in `STATUS` which pool is full and in `NEEDED` how much it wants, Python makes room, and the
kernel goes on.
"""

from __future__ import annotations

# --- scalars --------------------------------------------------------------------------------------------------
DIRECTED = 0  # 0: two nodes are related when they are in one component; 1: when one is in the other's set
CAPACITY = 1  # nodes that fit
NODES = 2
COMPONENTS = 3  # component numbers handed out so far, free ones included
FREE = 4  # component numbers that can be handed out again
MOVED = 5  # entries of MOVED_LIST
TOUCHED = 6  # entries of TOUCHED_LIST
TOKEN = 7  # the last value that a search wrote to STAMP
WORK = 8  # words and edges that the current change has looked at
REBUILT = 9  # 1: the current change numbered all components anew
SCHEDULED = 10  # entries of the heap
REFLEXIVE = 11  # pairs (x, x) in the closure
FLIPPED = 12  # entries of FLIPPED_LIST
EDGES = 13  # base edges, loops aside
STATUS = 14
NEEDED = 15
GATHERED = 16  # words set in ROW, where rows are sparse
MASK = 17  # slots of the hash table, less one
PAUSE_AT = 18  # how much WORK there may be before a kernel has to stop, for Python to look around
PAIRS = 19  # by how many pairs of different nodes there are more now than before the current change, or fewer

# --- arrays with an entry for each node or component ----------------------------------------------------------
SLOTS = 20  # open addressing, `term << 32 | node`, or -1; two or more slots a node
TERMS = 21
LOOPS = 22  # 1: the base holds the edge from the node to itself
DIAGONAL = 23  # 1: the closure holds that pair
COMPONENT = 24
PLACE = 25  # position of a node in the list of its component
FREE_LIST = 26
MOVED_LIST = 27  # the nodes that the current change moved or created
FORMER = 28  # component before the current change, or one of the two below
TOUCHED_LIST = 29  # the components that the current change touched
FORMER_SIZE = 30  # their sizes before it
FLIPPED_LIST = 31  # the nodes whose pair with themselves the current change brought or took
STAMP = 32
PARENT = 33  # union-find over components; at rest each is its own parent
RANK = 34  # order among the parts of a component that fell apart
QUEUED = 35  # 1: on the heap
HEAP_KEYS = 36
HEAP = 37
ROW = 38  # a row under construction, all words zero at rest
SUMMARY = 39  # which words of it are set, where rows are sparse
OUTLINE = 40  # which words of SUMMARY are set
# Work space of searches.
NUMBER, LOW, FRAME_NODE, FRAME_EDGE, STACK, ORDER, BOUNDS, OTHER = 41, 42, 43, 44, 45, 46, 47, 48

UNMOVED, CREATED = -1, -2  # FORMER of a node that stayed, and of one that is new
UNTOUCHED = -1  # FORMER_SIZE of a component that stayed

# --- pools ------------------------------------------------------------------------------------------------------
TABLE = 0  # address of start, size and capacity of each list
USED = 1  # entries of the pool in use
ROOM = 2  # entries that fit
ENTRIES = 3  # address of the nodes in lists
OUT, INTO, MEMBERS = 50, 54, 58
# Sets of nodes as rows of words, one a component: what it reaches, what reaches it, what it reached before the change.
KEYS = 3  # address of the numbers of the words, where rows are sparse
WORDS = 4
COUNTS = 5  # address of the numbers of nodes in sets
WIDTH = 6  # words of every row where rows are dense; 0 where they are sparse
FORWARD, BACKWARD, SAVED = 62, 70, 78

REGISTERS = 88

START_BYTE, SIZE_BYTE, LIMIT_BYTE, TABLE_STRIDE = 0, 4, 8, 12  # of a line of a table

# --- what a kernel leaves in STATUS: one of these, or the pool that is full -------------------------------------
DONE, TOO_MUCH, PAUSED = 0, 1, 2  # too much: starting afresh is cheaper
