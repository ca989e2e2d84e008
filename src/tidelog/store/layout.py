"""Where everything lies in memory: the vocabulary that Python and the kernels share.

Kernels get one array, the *machine*: registers that hold addresses, sizes and parameters. From there they reach

- the relation table: a row of `R_…` fields for each relation;
- the index table: a row of `X_…` fields for each index;
- the code: plans as flat 32-bit integers (`store.code` writes them, `store.executor` runs them);
- the terms: kind and payload of each constant;
- the undo log: each fact that an update touched, as it was before.

A fact is a *record* of 32-bit cells in its relation: its arguments, its flags, its counters where the relation keeps
them, and one link for each index. One cache line holds all that a join step needs of a fact.
"""

from __future__ import annotations

# --- flags of a fact: membership in the sets of the algorithms --------------------------------------------------------
F_EXPLICIT = 1  # E
F_IN = 2  # I: a rule body may use the fact now
F_OLD = 4  # in I when the update began; equals F_IN between updates
F_TOUCHED = 8  # the undo log holds the fact as it was
F_PENDING = 16  # derived, and waiting for its own insertion to be processed
F_CURRENT = 32  # in the batch that is being processed (N of DR2 and DR5)
F_DELETED = 64  # D: examined or overdeleted
F_PROCESSED = 128  # O: its consequences have been overdeleted
F_CHECKED = 256  # C
F_PROVED = 512  # P
F_AWAITED = 1024  # in C and not proved when an instance that needs it was looked at
F_DOUBTED = 2048  # an instance of it went, and its counter is full: see `reason.counts`
F_DISPROVED = 4096  # S
F_MARKED = 8192  # a negative mark: the next update deletes it or what it came from
F_RETURNING = 16384  # a positive mark: if it goes now, the next update brings it back
F_SEEN = 32768  # a changed fact of a negated atom that has been a pivot already
F_EXPECTED = 65536  # in D because of a mark that the update before it left
F_RESTORED = 131072  # brought back because of a positive mark that the update before it left
F_PERSISTENT = F_EXPLICIT | F_IN | F_OLD | F_MARKED

# --- machine registers ------------------------------------------------------------------------------------------------
M_RELATIONS = 0  # address of the relation table
M_INDEXES = 1  # address of the index table
M_CODE = 2  # address of the plans
M_BUDGET = 3  # candidates that a kernel may still look at before it returns to Python
M_ERRORS = 4  # rule instances that failed in an expression
M_LOG = 5  # address of the undo log
M_LOG_COUNT = 6
M_LOG_CAPACITY = 7
M_TERM_KINDS = 8  # address of the kinds of terms
M_TERM_PAYLOADS = 9  # address of the payloads of terms
M_TERM_SIZES = 10  # address of the byte lengths of texts
M_TERM_HASHES = 11
M_TERM_SLOTS = 12  # address of the hash table of terms
M_TERM_SLOT_COUNT = 13
M_TERM_COUNT = 14
M_TERM_LIMIT = 15  # terms that fit before the dictionary must grow
M_TERM_TEXT = 16  # address of the text heap
M_SCRATCH = 17  # address of the expression stack
M_REQUESTS = 18  # address of calls of Python functions that wait for their results
M_REQUEST_COUNT = 19
M_REQUEST_CAPACITY = 20
M_FULL = 21  # which relation has to grow when a kernel returns FULL
M_STAGED = 22  # rows that must fit before the kernel can go on
M_MASKS = 24  # from here on: care and want for each role of a body atom (see ROLE_…)
M_ABSENT = 32  # from here on: for negated atoms before, after and at the pivot, the flags of which none may be set
M_FRAMES = 36  # address of the join frames
M_FRAMES_SIZE = 37  # their size in bytes
M_HEADS = 38  # address of the buffer of derived heads
M_HEADS_CAPACITY = 39  # its size in cells
M_WORK = 40  # from here on: counters of work, in the order of WORK_KINDS
M_RULE_WORK = 50  # address of rule applications by rule
M_BUCKETS = 69  # address of the counters that batches are sorted with
M_RULE_TIME = 68  # address of the nanoseconds that the plans of each rule have run
M_RULE_FACTS = 67  # address of facts that were new, by the rule that derived them first
M_STATE = 51  # from here on: where a paused algorithm goes on
M_FRAME_BASE = 65  # bytes of the largest frame
M_EXPLICIT_FIRST = 66  # 1: backward search looks for instances of explicit facts first
M_LISTS = 70  # from here on: work lists, three registers each (address, count, capacity)
M_MARKING = 96  # the flags that a fact must have to mark the heads it derives here; 0: none are marked
M_SAVED = 97  # instances that spread a deletion to a head with one of the flags in M_KNOWN
M_KNOWN = 98
M_RETURNING = 100  # 1: facts come back with the next update, and overdeleted instances that will hold again are kept
M_RESTORED = 101  # instances that lead to a fact that was brought back
M_RANK = 102  # the rank of the fact that was inserted last, counted over all updates
M_RANKING = 103  # 1: facts that are inserted get a rank, in the place of their recursive counter
M_PASSING = 99  # the flags of a fact that passes marks on somewhere; see R_MARKS
M_BELOW = 104  # 1 + the rank below which facts of the component may be in a match; 0: any may
M_LATE = 105  # 1: some fact was left out because of its rank
M_DOUBTS = 106  # how often a fact was put in doubt; see F_DOUBTED
M_TERM_FREE = 107  # address of the numbers of terms that were given back
M_TERM_FREE_COUNT = 108
M_SIZE = 128

SORT_BUCKETS = 1 << 14  # batches are sorted into that many groups of neighbours

# --- roles of a body atom in a plan: which set it is matched in -------------------------------------------------------
ROLE_LOWER_BEFORE = 0  # predicate of a lower component, left of the pivot
ROLE_LOWER_AFTER = 1
ROLE_OWN_BEFORE = 2  # predicate of the rule's own component, left of the pivot
ROLE_OWN_AFTER = 3
# For a negated atom: left of the pivot, right of it, or the pivot itself.
ABSENT_BEFORE = 0
ABSENT_AFTER = 1
ABSENT_PIVOT = 2

# --- relation table ---------------------------------------------------------------------------------------------------
R_CELLS = 0  # address of the records
R_WIDTH = 1  # bytes of a record
R_ARITY = 2
R_COUNT = 3  # records in use, dead ones included
R_CAPACITY = 4
R_KEYS = 5  # address of the keys of the hash table
R_FACTS = 6  # address of the fact numbers of the hash table
R_GROUPS = 7  # groups of eight slots in the hash table
R_LIMIT = 8  # records that the hash table takes before it must grow
R_START = 9  # records in use when the update began
R_QUEUE = 10  # address of the facts that wait (next round)
R_QUEUE_COUNT = 11
R_QUEUE_CAPACITY = 12
R_BATCH = 13  # address of the facts in work (this round)
R_BATCH_COUNT = 14
R_BATCH_CAPACITY = 15
R_COUNTERS = 16  # byte offset of the two derivation counters in a record, or 0
R_FLAGS = 17  # byte offset of the flags in a record
R_INDEX_COUNT = 18
R_CLEAN = 19  # 1: every record is in I or waits to be; a head that is found needs no second look
R_CLOSURE = 20  # what a closure is read by, or 0; records are then only what changed in the update in work
R_MARKS = 21  # how many facts pass a mark on to what they derive
R_PAIRS = 22  # address of the relation as a bit matrix, or 0: a bit that is set is a pair in I or waiting to be
R_PAIR_ROWS = 23
R_PAIR_COLUMNS = 24  # a multiple of 64
R_POSTPONED = 25  # 1: new facts do not come into the hash table for now; the bit matrix tells which are known
R_INDEXES = 26  # address of the numbers of the relation's indexes
R_FIELDS = 32
R_STRIDE = R_FIELDS * 8

# --- index table ------------------------------------------------------------------------------------------------------
X_SLOTS = 0  # address of the hash table: the newest fact of each key
X_SLOT_COUNT = 1
X_USED = 2  # distinct keys
X_LINK = 3  # byte offset in a record of the link to the next fact with the same key
X_COLUMN_COUNT = 4
X_COLUMNS = 5  # address of the column numbers
X_RELATION = 6
X_FIELDS = 8
X_STRIDE = X_FIELDS * 8

EMPTY = -1  # an empty slot; no key and no fact number is negative

# --- the undo log: relation, fact, flags, non-recursive count, recursive count ----------------------------------------
LOG_FIELDS = 5
LOG_STRIDE = LOG_FIELDS * 8

# --- kinds of terms ---------------------------------------------------------------------------------------------------
K_STRING = 0
K_INTEGER = 1
K_FLOAT = 2
K_BOOLEAN = 3
K_IRI = 4
K_LITERAL = 5
K_NONE = 255  # a number that no term has
FAILURE = 0  # the term number that stands for "this function call failed"; never in a fact

# --- plans: words of a plan's header, then the offsets of its steps ---------------------------------------------------
P_STEPS = 0
P_VARIABLES = 1
P_HEAD_RELATION = 2
P_HEAD = 3  # offset of the sources of the head's cells
P_RULE = 4
P_WIDTH = 5  # cells of a head
P_SHORT = 6  # offset of the plan's short form, or 0
P_FIRST = 7  # offsets of the steps from here on

# The short form of a plan that is a pivot and at most two atoms, each joined by one column: the bulk of all work.
SHORT_ATOMS = 0  # how many are joined to the pivot; the last one's words come first, then those of the one before it
SHORT_LAST = 1
SHORT_MIDDLE = 6
SHORT_SCANNED = 11  # the relation whose facts are the pivots where none are given
SHORT_SCANNED_ROLE = 12
SHORT_COVERS = 13  # 1: one atom at most is joined, and a head has the variables of the pivot and no others
SHORT_HEAD = 14  # for each cell of the head: where from, and which column or constant
# words of an atom there
A_RELATION = 0
A_ROLE = 1
A_INDEX = 2
A_KEY = 3  # where the key is from, and which column or constant
# where a cell is from
FROM_PIVOT = 0
FROM_MIDDLE = 1
FROM_LAST = 2
FROM_CONSTANT = 3

# steps
S_KIND = 0
S_RELATION = 1
S_ROLE = 2  # one of ROLE_…, for a negated atom one of ABSENT_…
S_INDEX = 3
S_KEYS = 4  # number of key words, which follow from S_LISTS on
S_OUTPUTS = 5  # number of (column, variable) pairs, which follow the keys
S_CHECKS = 6  # number of (column, variable) pairs, which follow the outputs
S_LISTS = 7

# A step that probes, follows an index or scans: three kinds in that order, by which `code` counts them off.
STEP_PIVOT = 0  # keys are (column, source) pairs to compare
STEP_PROBE = 1  # keys are sources in the order of the columns
STEP_INDEX = 2
STEP_SCAN = 3
STEP_ABSENT_PROBE = 4
STEP_ABSENT_INDEX = 5
STEP_ABSENT_SCAN = 6
STEP_COMPARE = 7  # operator, offset of the left expression, offset of the right one
STEP_ASSIGN = 8  # variable or -1-variable to compare with, offset of the expression
STEP_CALL = 9  # memo relation, index, number of arguments, variable or -1-variable to compare with, sources

# The same steps on a relation that is a closure.
STEP_CLOSURE_PROBE = 10
STEP_CLOSURE_INDEX = 11
STEP_CLOSURE_SCAN = 12
STEP_ABSENT_CLOSURE_PROBE = 13
STEP_ABSENT_CLOSURE_INDEX = 14
STEP_ABSENT_CLOSURE_SCAN = 15

# frames: fields of 8 bytes
FRAME_PLAN = 0
FRAME_DEPTH = 1
FRAME_ENTERING = 2
FRAME_FACT = 3  # the fact that the pivot is matched to
FRAME_VARIABLES = 4  # then a cursor and a matched fact for each step

# expressions: postfix words
E_END = 0
E_VARIABLE = 1
E_CONSTANT = 2
E_CALL = 3

# what a kernel returns
DONE = 0
MATCH = 1
PAUSED = 2  # the budget is spent: check limits and call again
FULL = 3  # relation M_FULL must grow for M_STAGED rows
FULL_LOG = 4
FULL_TERMS = 5
FULL_LIST = 6  # work list M_FULL must grow
NEED_CALLS = 7  # functions in Python have to be called
FULL_FRAMES = 8
NEED_COPIES = 9  # which rules copy the facts of relation M_FULL has to be said
NEED_TABLE = 10  # the hash table of relation M_FULL has to hold all facts

WORK_KINDS = (
    "insertion",
    "deletion",
    "backward",
    "forward",
    "rederivation",
    "checked",
    "overdeleted",
    "marked_explicit",
    "marked_implicit",
)
W_INSERTION, W_DELETION, W_BACKWARD, W_FORWARD, W_REDERIVATION = 0, 1, 2, 3, 4
W_CHECKED, W_OVERDELETED, W_MARKED_EXPLICIT, W_MARKED_IMPLICIT = 5, 6, 7, 8
