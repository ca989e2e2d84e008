"""The registers of the machine: the one array that kernels get. Everybody imports this file as `M`.

A register holds an address, a size, a parameter or a counter. From the registers kernels reach

- the relation table, a row of `relation_fields` for each relation;
- the index table, a row of `index_fields` for each index;
- the code: plans as flat 32-bit words (`plan_words`);
- the terms: kind and payload of each constant (`term_kinds`);
- the work lists of the algorithms (`work_lists`);
- the undo log: each fact that an update touched, as it was before.

Every register is named here, once. Numbers are assigned in the order of this file, so that no two names share one. A
kernel that pauses leaves its whole state in the registers of its own group, from `STATE` on.
"""

from __future__ import annotations

from itertools import count
from typing import NewType

from tidelog.machine.work_kinds import KINDS

Register = NewType("Register", int)

_numbers = count()


def _cell() -> Register:
    return Register(next(_numbers))


def _cells(number: int) -> Register:
    """The first of several cells in a row."""
    first, *_ = [_cell() for _ in range(number)]
    return first


# --- the store --------------------------------------------------------------------------------------------------------
RELATIONS = _cell()  # address of the relation table
INDEXES = _cell()  # address of the index table
CODE = _cell()  # address of the plans
LOG = _cell()  # address of the undo log
LOG_COUNT = _cell()
LOG_CAPACITY = _cell()

# --- terms ------------------------------------------------------------------------------------------------------------
TERM_KINDS = _cell()  # address of the kinds of terms
TERM_PAYLOADS = _cell()  # address of the payloads of terms
TERM_SIZES = _cell()  # address of the byte lengths of texts
TERM_HASHES = _cell()
TERM_SLOTS = _cell()  # address of the hash table of terms
TERM_SLOT_COUNT = _cell()
TERM_COUNT = _cell()
TERM_LIMIT = _cell()  # terms that fit before the dictionary must grow
TERM_TEXT = _cell()  # address of the text heap
TERM_TEXT_USED = _cell()  # bytes in use of it
TERM_TEXT_SIZE = _cell()  # all of its bytes
CASES = _cell()  # address of the other cases of letters, see `store.letter_cases`
TERM_FREE = _cell()  # address of the numbers of terms that were given back
TERM_FREE_COUNT = _cell()

# --- between a kernel and Python --------------------------------------------------------------------------------------
BUDGET = _cell()  # candidates that a kernel may still look at before it returns to Python
ASKED = _cell()  # 1: another thread waits for the kernel to pause; that thread writes it
HEED = _cell()  # the budget below which a kernel does so: it gets somewhere before
STRIDE = _cell()  # how many facts of a batch are gone through before it looks whether to do so
FULL = _cell()  # which relation or work list has to grow
STAGED = _cell()  # rows or entries that must fit before the kernel can go on
REQUESTS = _cell()  # address of calls of Python functions that wait for their results
REQUEST_COUNT = _cell()
REQUEST_CAPACITY = _cell()
LITERAL_MEMOS = _cell()  # address of memo and index for each operation on literals; -1: none yet, -2: never any
TEXT_WANTED = _cell()  # bytes that a kernel wants for a text, where the dictionary has to grow first
REPLACED = _cell()  # a bit for each function of kernels (`joins.functions`) that a registered one has replaced
RESULT = _cell()  # the term that a function of kernels gave last
REHEARSING = _cell()  # 1: calls whose results are not known are requested, and fail; see `joins.look_ahead`

# --- joins ------------------------------------------------------------------------------------------------------------
MASKS = _cells(8)  # care and want for each role of a body atom (`plan_words`: ROLE_…)
ABSENT = _cells(3)  # for negated atoms before, after and at the pivot, the flags of which none may be set
MASK_WORDS = 11  # of both together
FRAMES = _cell()  # address of the join frames
FRAMES_SIZE = _cell()  # their size in bytes
FRAME_BASE = _cell()  # bytes of the largest frame
SCRATCH = _cell()  # address of the expression stack
HEADS = _cell()  # address of the buffer of derived heads
HEADS_CAPACITY = _cell()  # its size in cells
BUCKETS = _cell()  # address of the counters that batches are sorted with
BELOW = _cell()  # 1 + the rank below which facts of the component may be in a match; 0: any may
LATE = _cell()  # 1: some fact was left out because of its rank

SORT_BUCKETS = 1 << 14  # batches are sorted into that many groups of neighbours

# --- what was done ----------------------------------------------------------------------------------------------------
WORK = _cells(len(KINDS))  # counters of work, in the order of `work_kinds`
ERRORS = _cell()  # rule instances that failed in an expression
UNCOMPARED = _cell()  # of these, comparisons of values that have no order
UNCALLED = _cell()  # of these, calls of functions that gave no value
UNAGGREGATED = _cell()  # of these, groups whose values could not be aggregated
NOTED = _cell()  # words in use of the notes on the first of these
ERRORS_END = Register(NOTED + 1)
NOTES = _cell()  # address of these notes, see `joins.executor.note_failure`
NOTES_SIZE = _cell()  # their room in words
RULE_WORK = _cell()  # address of rule applications by rule
RULE_FACTS = _cell()  # address of facts that were new, by the rule that derived them first
RULE_TIME = _cell()  # address of the nanoseconds that the plans of each rule have run
DERIVED = _cell()  # facts that rules have added in insertion, over all updates

# --- algorithms -------------------------------------------------------------------------------------------------------
EXPLICIT_FIRST = _cell()  # 1: backward search looks for instances of explicit facts first
RANK = _cell()  # the rank of the fact that was inserted last, counted over all updates
RANKING = _cell()  # 1: facts that are inserted get a rank, in the place of their recursive counter
LEVEL = _cell()  # 1 + the level that facts which are inserted get there; 0: none
DOUBTS = _cell()  # how often a fact was put in doubt; see `flags.DOUBTED`
LOOK_RULES = _cell()  # by which rules deletion by ranks looks for derivations; see `delete_rederive.BY_…`
OUTDONE = _cell()  # best values that others were derived from, and that better ones replaced, all in one update
SPOILED = _cell()  # records that a better value of their group has made useless

# --- marking ----------------------------------------------------------------------------------------------------------
MARKING = _cell()  # the flags that a fact must have to mark the heads it derives here; 0: none are marked
PASSING = _cell()  # the flags of a fact that passes marks on somewhere; see `relation_fields.MARKS`
SAVED = _cell()  # instances that spread a deletion to a head with one of the flags in KNOWN
KNOWN = _cell()

# --- work lists: address, count and capacity of each, see `work_lists` ------------------------------------------------
LIST_REGISTERS = 3
LISTS = _cells(14 * LIST_REGISTERS)

# --- where a paused kernel goes on: all of these are zero when it begins ----------------------------------------------
STATE = Register(LISTS + 14 * LIST_REGISTERS)

# Propagation.
AT_PHASE = _cell()  # of a round: 0 begins, and then `propagate.ENTERING` and so on
AT_PASS = _cell()  # of sorting a batch: `propagate.MEASURING` and so on
AT_LARGEST = _cell()  # the largest first term of the batch that is being sorted
AT_SHIFT = _cell()  # by how many bits its first terms are shifted to give their buckets
AT_JOB = _cell()  # the position of the job
AT_PIVOT = _cell()  # the position of the pivot
AT_JOINING = _cell()  # not 0 while its join is in work; in a short plan 2 + the fact of the middle atom
AT_BUFFERED = _cell()  # how many heads are buffered
AT_RELATION = _cell()  # of a round: the position of the relation
AT_PLAN = _cell()  # of a round: the position of the plan among those of its relation
AT_TARGET = _cell()  # the relation of the heads
AT_INNER = _cell()  # in a short plan: 2 + the next fact of the last atom, or 0
AT_SHAPE = _cell()  # the shape in which the heads of a short plan are built; it stays until the plan ends
AT_MEMBER = _cell()  # the next of the pivots that are spread together

# Backward/Forward.
PROOF_MODE = _cell()
PROOF_D = _cell()  # D.next
PROOF_P = _cell()  # P.next of saturate
PROOF_S = _cell()  # how far line 5 has come in C
PROOF_LEVEL = _cell()  # byte offset of the top level in the frames, 0 where there is none
PROOF_FACT = _cell()  # the fact that spreads, in saturate or in deletion; -1 where there is none
PROOF_PLAN = _cell()  # the position of the plan that it is the pivot of
PROOF_END = _cell()  # where its plans end
PROOF_JOINING = _cell()
PROOF_MARKED = _cell()  # the first step of the current plan that may match a marked fact, or -1

# The search for a derivation of one fact.
LOOK_PLAN = _cell()  # 1 + the position of its plan; 0 before it begins
LOOK_JOINING = _cell()

# Deletion by ranks.
RANKS_STAGE = _cell()
RANKS_RELATION = _cell()  # the position of the relation whose facts look
RANKS_FACT = _cell()  # the position in its queue
RANKS_KEPT = _cell()  # how many facts of the queue have looked and found no derivation

# Recursive counting.
TRACE_MODE = _cell()
TRACE_MOVE = _cell()  # the position of the move in work
TRACE_LEVEL = _cell()  # the level that is due
TRACE_FROM = _cell()  # the level that an arriving fact comes from
TRACE_MATCHED = _cell()  # 1: the last match is still to be acted on
TRACE_LOWEST = _cell()  # the lowest level at which a look has found an instance
TRACE_FOUND = _cell()  # how many it has found there

# Best values.
BEST_PLAN = _cell()  # 1 + the position of the plan that spreads a value; 0 where none is in work
BEST_ROUND = _cell()  # the round that offers are for; 0 while the best one is always next
BEST_SETTLED = _cell()  # how many values were settled, and how many of them replaced one that this run had settled
BEST_AGAIN = _cell()
BEST_FACT = _cell()  # in a plan in sum form: 2 + the next fact of its atom, or 0
BEST_ASIDE = _cell()  # how far offers that were put aside have been taken in
BEST_SLOWLY = _cell()  # 1: that plan is run by the executor after all

# Rederivation.
REDERIVE_FACT = _cell()  # the position in D

# Matches as rows.
ROWS_PIVOT = _cell()
ROWS_JOINING = _cell()
ROWS_WRITTEN = _cell()

# Marks through rules that copy.
COPY_FACT = _cell()  # the position among the marked facts
COPY_PLAN = _cell()  # the next plan for it

SIZE = _cell()
STATE_END = SIZE

# The registers that describe the store, or count over all updates. The others belong to whoever runs kernels: see
# `store.store.Store.apart`.
SHARED = frozenset(
    (
        *(RELATIONS, INDEXES, CODE, ASKED, RULE_WORK, RULE_FACTS, RULE_TIME, DERIVED, RANK),
        *range(TERM_KINDS, TERM_FREE_COUNT + 1),
    )
)
OWN = tuple(register for register in range(SIZE) if register not in SHARED)
