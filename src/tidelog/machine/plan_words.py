"""The words of plans: headers, steps, short forms, frames and expressions. Kernels import it as `P`.

`store.assembler` writes plans as flat 32-bit words, and `joins.executor` runs them.
"""

from __future__ import annotations

# --- roles of a body atom in a plan: the set in which it is matched ---------------------------------------------------
ROLE_LOWER_BEFORE = 0  # predicate of a lower component, left of the pivot
ROLE_LOWER_AFTER = 1
ROLE_OWN_BEFORE = 2  # predicate of the rule's own component, left of the pivot
ROLE_OWN_AFTER = 3
# Roles of a negated atom: left of the pivot, right of it, or the pivot itself.
ABSENT_BEFORE, ABSENT_AFTER, ABSENT_PIVOT = 0, 1, 2

# --- a plan: words of its header, then the offsets of its steps --------------------------------------------------
STEPS = 0
VARIABLES = 1
HEAD_RELATION = 2
HEAD = 3  # offset of the sources of the head's cells
RULE = 4
WIDTH = 5  # cells of a head
SHORT = 6  # offset of the plan's short form, or 0
SUM = 7  # offset of the plan's sum form, or 0
FIRST = 8  # offsets of the steps from here on

# The short form of a plan with a pivot and at most two atoms, each joined by one column: most of all work.
SHORT_ATOMS = 0  # how many are joined to the pivot; the words of the last come first, then those of the one before
SHORT_LAST = 1
SHORT_MIDDLE = 6
SHORT_SCANNED = 11  # the relation whose facts are the pivots if none are given
SHORT_SCANNED_ROLE = 12
SHORT_COVERS = 13  # 1: at most one atom is joined, and the head has exactly the variables of the pivot
SHORT_HEAD = 14  # for each cell of the head its origin, and which column or constant
# words of an atom there
A_RELATION, A_ROLE, A_INDEX = 0, 1, 2
A_KEY = 3  # the origin of the key, and which column or constant
# origins of a cell
FROM_PIVOT, FROM_MIDDLE, FROM_LAST, FROM_CONSTANT = 0, 1, 2, 3

# The sum form of a plan with a pivot, one atom that is joined by one column, and one operation on two numbers, whose
# result is in the head once: what rules of best values mostly are (`engine.propagation.sums`).
SUM_RELATION, SUM_ROLE, SUM_INDEX = 0, 1, 2  # of the atom
SUM_KEY = 3  # the column of the pivot that is its key
SUM_OPERATOR = 4
SUM_LEFT, SUM_RIGHT = 5, 7  # of each operand its origin, and which column or constant
SUM_VALUE = 9  # the column of the head that the result is in
SUM_HEAD = 10  # for each cell of the head its origin, and which column or constant

# steps
S_KIND = 0
S_RELATION = 1
S_ROLE = 2  # one of ROLE_…, for a negated atom one of ABSENT_…
S_INDEX = 3
S_KEYS = 4  # number of key words, which follow from S_LISTS on
S_OUTPUTS = 5  # number of (column, variable) pairs, which follow the keys
S_CHECKS = 6  # number of (column, variable) pairs, which follow the outputs
S_LISTS = 7

# Steps that probe, follow an index and scan are numbered in this order everywhere.
STEP_PIVOT = 0  # keys are (column, source) pairs to compare
STEP_PROBE = 1  # keys are sources in the order of the columns
STEP_INDEX = 2
STEP_SCAN = 3
STEP_ABSENT_PROBE, STEP_ABSENT_INDEX, STEP_ABSENT_SCAN = 4, 5, 6
STEP_COMPARE = 7  # operator, offset of the left expression, offset of the right one
STEP_ASSIGN = 8  # variable or -1-variable to compare with, offset of the expression
STEP_CALL = 9  # see CALL_…

# Words of a function call.
CALL_MEMO = 1  # the relation that remembers results
CALL_INDEX = 2
CALL_ARGUMENTS = 3  # how many
CALL_TARGET = 4  # a variable, or -1 - a variable to compare with
CALL_KERNEL = 5  # the number of the function in kernels, or -1
CALL_SOURCES = 6

# The same steps on a relation that is a closure.
STEP_CLOSURE_PROBE, STEP_CLOSURE_INDEX, STEP_CLOSURE_SCAN = 10, 11, 12
STEP_ABSENT_CLOSURE_PROBE, STEP_ABSENT_CLOSURE_INDEX, STEP_ABSENT_CLOSURE_SCAN = 13, 14, 15

# frames: fields of 8 bytes
FRAME_PLAN = 0
FRAME_DEPTH = 1
FRAME_ENTERING = 2
FRAME_FACT = 3  # the fact that the pivot is matched to
FRAME_VARIABLES = 4  # then a cursor and a matched fact for each step

# expressions: postfix words
E_END, E_VARIABLE, E_CONSTANT, E_CALL = 0, 1, 2, 3
