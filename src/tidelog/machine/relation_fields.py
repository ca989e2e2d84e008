"""Fields of the relation table, one row for each relation, and of the undo log. Kernels import it as `R`.

A fact is a *record* of 32-bit cells in its relation: its arguments, its flags, its counters where the relation keeps
them, and one link for each index. One cache line holds all that a join step needs of a fact.
"""

from __future__ import annotations

CELLS = 0  # address of the records
WIDTH = 1  # bytes of a record
ARITY = 2
COUNT = 3  # records in use, dead ones included
CAPACITY = 4
KEYS = 5  # address of the keys of the hash table
FACTS = 6  # address of the fact numbers of the hash table
GROUPS = 7  # groups of eight slots in the hash table
LIMIT = 8  # records that the hash table takes before it must grow
START = 9  # records in use when the update began
QUEUE = 10  # address of the facts that wait (next round)
QUEUE_COUNT = 11
QUEUE_CAPACITY = 12
BATCH = 13  # address of the facts in work (this round)
BATCH_COUNT = 14
BATCH_CAPACITY = 15
COUNTERS = 16  # byte offset of the two derivation counters in a record, or 0
FLAGS = 17  # byte offset of the flags in a record
INDEX_COUNT = 18
CLEAN = 19  # 1: every record is in I or waits to be; a head that is found needs no second look
CLOSURE = 20  # what a closure is read by, or 0; records are then only what changed in the update in work
MARKS = 21  # how many facts pass a mark on to what they derive
PAIRS = 22  # address of the relation as a bit matrix, or 0: a bit that is set is a pair in I or waiting to be
PAIR_ROWS = 23
PAIR_COLUMNS = 24  # a multiple of 64
POSTPONED = 25  # 1: new facts do not come into the hash table for now; the bit matrix tells which are known
INDEXES = 26  # address of the numbers of the relation's indexes
BEST = 27  # for a predicate that keeps one value for each group, how values get better; see `BEST_…`
VALUE = 28  # byte offset of the value in a record
WITNESS = 29  # byte offset of its witness, or -1
GROUP = 30  # the index on the columns that tell groups apart
DRAFTS = 31  # 1: all of its facts are of this update, and values that wait may be drafts; see `propagation.drafts`
FIELDS = 32
STRIDE = FIELDS * 8

# How values get better: by falling or by rising, and whether only booleans are values.
BEST_FALLS, BEST_RISES, BEST_FALLS_OF_BOOLEANS, BEST_RISES_OF_BOOLEANS = 1, 2, 3, 4

EMPTY = -1  # an empty slot of a hash table; no key and no number is negative

# The undo log: relation, fact, flags, non-recursive count, recursive count.
LOG_FIELDS = 5
LOG_STRIDE = LOG_FIELDS * 8
