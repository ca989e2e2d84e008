"""The registers and tables of a cone, shared by the search for proofs and its kernels. Both import this file as `E`.

The *cone* of a fact is an AND/OR graph: its nodes are facts; an instance of a rule is an AND of the facts that its body
matched, and a fact is an OR of the instances that derive it. Nodes, predicates and plans are rows of tables. Instances
have different sizes and lie one after the other in 32-bit cells, each followed by its matches.

Every cell is named here, once, and numbers are handed out in the order of this file.
"""
# kernel constants

from __future__ import annotations

from itertools import count
from typing import NewType

Register = NewType("Register", int)
Column = NewType("Column", int)
"""Of a table, or of the header of an instance; every cell has 32 bits."""


_registers = count()


def _cell() -> Register:
    return Register(next(_registers))


# --- tables -----------------------------------------------------------------------------------------------------------
NODES = _cell()  # address of the nodes
NODE_COUNT = _cell()
NODE_CAPACITY = _cell()
PREDICATES = _cell()  # address of the predicates
PLANS = _cell()  # address of the plans
PREMISES = _cell()  # address of the predicates of premises, plan after plan
INSTANCES = _cell()  # address of the instances
USED = _cell()  # cells of instances in use
CAPACITY = _cell()  # cells of instances that fit

# --- discovery --------------------------------------------------------------------------------------------------------
ROW = _cell()  # address of a row that holds what a match delivers
AT_NODE = _cell()  # the node that is being expanded
AT_PLAN = _cell()  # which of its plans
AT_JOINING = _cell()  # 1: that plan has begun
AT_GROUP = _cell()  # the instance that the next match of an aggregate's group joins, or -1
STOP = _cell()  # cells of instances at which `expand` returns for a look at the heights
DEPTH = _cell()  # nodes of this depth are not expanded
THOROUGH = _cell()  # 1: find every instance, even those of explicit facts; 0: only what a lowest proof can need

# --- heights ----------------------------------------------------------------------------------------------------------
QUEUE = _cell()  # address of the queue of `measure`
GIVEN = _cell()  # address of the nodes whose heights are given, the lowest first
GIVEN_COUNT = _cell()

SIZE = _cell()

_columns = map(Column, count())
# --- nodes ------------------------------------------------------------------------------------------------------------
NODE_PREDICATE = next(_columns)  # place in the table of predicates
NODE_FACT = next(_columns)  # its record in the shadow
NODE_DEPTH = next(_columns)  # steps from the fact that is explained
NODE_EXPLICIT = next(_columns)
NODE_USES = next(_columns)  # its newest use as a premise, -1 for none
NODE_INSTANCES = next(_columns)  # the newest instance that derives it, -1 for none
NODE_HEIGHT = next(_columns)  # of its lowest proof, -1 for unknown
NODE_CHOICE = next(_columns)  # the instance at the top of its lowest proof, AS_EXPLICIT or AS_GIVEN
NODE_LEAF = next(_columns)  # 0: do not take it as explicit, though it is
NODE_GIVEN = next(_columns)  # the height that it was given, -1 for none
NODE_WAITING = next(_columns)  # in `measure`, the node of the same height that is next, -1 for none
NODE_CELLS = next(_columns)

AS_EXPLICIT, AS_GIVEN = -1, -2

_columns = map(Column, count())
# --- predicates -------------------------------------------------------------------------------------------------------
PREDICATE_RELATION = next(_columns)  # where its explicit facts lie
PREDICATE_SHADOW = next(_columns)  # where its discovered facts lie
PREDICATE_FIRST = next(_columns)  # its first plan, UNPLANNED or CLOSED
PREDICATE_COUNT = next(_columns)  # how many plans it has
PREDICATE_EVIDENT = next(_columns)  # 1: its facts need no proof
PREDICATE_CELLS = next(_columns)

UNPLANNED = -1  # no plans have been made yet
CLOSED = -2  # there are none: heights are given

_columns = map(Column, count())
# --- plans ------------------------------------------------------------------------------------------------------------
PLAN_CODE = next(_columns)  # offset in the code
PLAN_FIRST = next(_columns)  # its first premise
PLAN_COUNT = next(_columns)  # how many premises it has
PLAN_EXTRAS = next(_columns)  # cells behind those of the premises
PLAN_GROUPS = next(_columns)  # 1: all matches are one instance
PLAN_STEP = next(_columns)  # 0: its head is a part of another rule, which shows the premises as its own
PLAN_CELLS = next(_columns)

_columns = map(Column, count())
# --- instances: a header, then for each match the uses of its premises, and its extras --------------------------------
INSTANCE_PLAN = next(_columns)
INSTANCE_HEAD = next(_columns)
INSTANCE_TOTAL = next(_columns)  # premises of all matches
INSTANCE_OPEN = next(_columns)  # those of them that `measure` has not reached
INSTANCE_MATCHES = next(_columns)
INSTANCE_NEXT = next(_columns)  # the next instance with the same head, -1 for none
INSTANCE_ENABLED = next(_columns)
INSTANCE_CELLS = next(_columns)

_columns = map(Column, count())
# A use of a node as a premise.
USE_NODE = next(_columns)
USE_NEXT = next(_columns)  # the next use of the same node, -1 for none
USE_INSTANCE = next(_columns)
USE_CELLS = next(_columns)

# --- what `expand` returns besides the codes of all kernels -----------------------------------------------------------
NEED_PLANS = 101  # for the predicate of node AT_NODE
NEED_NODES = 102
NEED_INSTANCES = 103
NEED_HEIGHT = 104  # of node AT_NODE
