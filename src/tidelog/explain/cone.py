"""The kernels behind proofs: what lies behind a fact, and how high its lowest proof is.

The *cone* of a fact is an AND/OR graph. Its nodes are facts; an instance of a rule is an AND of the facts that its body
matched, and a fact is an OR of the instances that derive it. `expand` discovers it backwards, breadth first: each fact
is the pivot of the plans from the head of every rule that could derive it. `measure` then goes forwards from the
explicit facts, in the order of height: an instance is complete when the last, and so the highest, of its premises is
reached, and the first complete instance of a fact is the top of a lowest proof of it. That order is well-founded, so no
proof is circular.

Nodes are found by their rows in relations that shadow those of the predicates; the flags of a record there hold the
number of its node. All matches of an aggregate's group are one instance: the value follows from all of them together.
Pairs of large closures are not expanded: their heights are found otherwise (`explain.closed`) and given to `measure`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.engine.propagation.derived_heads import has_room
from tidelog.joins.executor import next_match, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import append, field, find, find_slot, flags_of, home_slot, relation_row, row_key
from tidelog.machine.jit import device, entry_point, inlined, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, FULL, MATCH

Longs = npt.NDArray[np.int64]

# --- registers of a cone --------------------------------------------------------------------------------------------
C_NODES = 0  # address of the nodes
C_NODE_COUNT = 1
C_NODE_CAPACITY = 2
C_RECORDS = 3  # address of the instances, in 32-bit cells
C_USED = 4
C_CAPACITY = 5
C_PREDICATES = 6  # address of the table of predicates
C_PLANS = 7  # address of the table of plans
C_PREMISES = 8  # address of the predicates of premises, plan after plan
C_ROW = 9  # address of a row that holds what a match delivers
C_QUEUE = 10  # address of the queue of `measure`
C_NEXT = 11  # the node that is expanded
C_PLAN = 12  # which of its plans
C_JOINING = 13
C_OWNER = 14  # the instance that the next match of an aggregate's group joins, or -1
C_STOP = 15  # cells of instances after which `expand` returns for a look at the heights
C_DEPTH = 16  # nodes of this depth are not expanded
C_THOROUGH = 17  # 1: every instance counts, those behind explicit facts too; 0: only what a lowest proof can need
C_GIVEN = 18  # address of the nodes whose heights are given, the lowest first
C_GIVEN_COUNT = 19
C_SIZE = 20

# --- tables: fields of 4 bytes --------------------------------------------------------------------------------------
N_PREDICATE = 0  # place in the table of predicates
N_FACT = 4  # its record in the shadow
N_DEPTH = 8  # steps from the fact that is explained
N_EXPLICIT = 12
N_USES = 16  # its newest use as a premise, -1 for none
N_INSTANCES = 20  # the newest instance that derives it, -1 for none
N_HEIGHT = 24  # of its lowest proof, -1 for unknown
N_CHOICE = 28  # the instance at the top of its lowest proof, AS_EXPLICIT or AS_GIVEN
N_LEAF = 32  # 0: do not take it as explicit, though it is
N_GIVEN = 36  # the height that it has been given, -1 for none
NODE_BYTES = 40

Q_RELATION = 0  # where its explicit facts lie
Q_SHADOW = 4
Q_FIRST = 8  # its first plan, UNPLANNED, or CLOSED
Q_COUNT = 12
PREDICATE_BYTES = 16

L_PLAN = 0  # offset in the code
L_FIRST = 4  # its first premise
L_COUNT = 8
L_EXTRAS = 12  # cells behind those of the premises
L_GROUPS = 16  # 1: all matches are one instance
PLAN_BYTES = 20

# --- an instance: a header, then for each match its premises and extras, in cells -----------------------------------
I_PLAN = 0
I_HEAD = 1
I_TOTAL = 2
I_OPEN = 3  # premises that `measure` has not reached
I_MATCHES = 4
I_NEXT = 5  # the next instance with the same head, -1 for none
I_ENABLED = 6
HEADER = 7

U_NODE = 0
U_NEXT = 1  # the next use of the same node, -1 for none
U_OWNER = 2
USE = 3

AS_EXPLICIT = -1
AS_GIVEN = -2

UNPLANNED = -1  # no plans have been made yet
CLOSED = -2  # there are none: heights are given

# --- what `expand` returns beside the codes of all kernels ----------------------------------------------------------
NEED_PLANS = 101  # for the predicate of node C_NEXT
NEED_NODES = 102
NEED_RECORDS = 103
NEED_HEIGHT = 104  # of node C_NEXT


@inlined
def node_at(c: Longs, node: int) -> int:
    return c[C_NODES] + NODE_BYTES * node


@inlined
def predicate_at(c: Longs, place: int) -> int:
    return c[C_PREDICATES] + PREDICATE_BYTES * place


@inlined
def plan_at(c: Longs, number: int) -> int:
    return c[C_PLANS] + PLAN_BYTES * number


@inlined
def cell(c: Longs, offset: int) -> int:
    return load_i32(c[C_RECORDS] + 4 * offset)


@inlined
def set_cell(c: Longs, offset: int, value: int) -> None:
    store_i32(c[C_RECORDS] + 4 * offset, value)


@inlined
def match_size(plan: int) -> int:
    """The cells of one match."""
    return USE * load_i32(plan + L_COUNT) + load_i32(plan + L_EXTRAS)


@device
def discover(m: Longs, c: Longs, place: int, row_address: int, depth: int) -> int:
    """The node of a fact; a new one where it has not been seen. The caller has made room."""
    predicate = predicate_at(c, place)
    shadow = relation_row(m, load_i32(predicate + Q_SHADOW))
    key = row_key(row_address, field(shadow, R.ARITY))
    slot = find_slot(shadow, row_address, key, home_slot(key, field(shadow, R.GROUPS)))
    if load_i64(field(shadow, R.KEYS) + 8 * slot) != R.EMPTY:
        return flags_of(m, load_i32(predicate + Q_SHADOW), load_i32(field(shadow, R.FACTS) + 4 * slot))
    number = c[C_NODE_COUNT]
    c[C_NODE_COUNT] = number + 1
    node = node_at(c, number)
    relation = load_i32(predicate + Q_RELATION)
    known = find(m, relation, row_address)
    explicit = 0
    if known >= 0 and flags_of(m, relation, known) & F.EXPLICIT:
        explicit = 1
    store_i32(node + N_PREDICATE, place)
    store_i32(node + N_FACT, field(shadow, R.COUNT))
    store_i32(node + N_DEPTH, depth)
    store_i32(node + N_EXPLICIT, explicit)
    store_i32(node + N_USES, -1)
    store_i32(node + N_INSTANCES, -1)
    store_i32(node + N_LEAF, 1)
    store_i32(node + N_GIVEN, -1)
    append(m, shadow, slot, key, row_address, number)
    return number


@entry_point
def discover_goals(m: Longs, c: Longs, place: int, row_address: int, count: int) -> None:
    """Make different facts of a predicate the first nodes. There is room for them."""
    size = 4 * field(relation_row(m, load_i32(predicate_at(c, place) + Q_SHADOW)), R.ARITY)
    for number in range(count):
        discover(m, c, place, row_address + size * number, 0)


@device
def missing_room(m: Longs, c: Longs, plan: int) -> int:
    """What must grow before a match of the plan can be taken, or DONE."""
    premises = load_i32(plan + L_COUNT)
    if c[C_NODE_COUNT] + premises > c[C_NODE_CAPACITY]:
        return NEED_NODES
    if c[C_USED] + HEADER + match_size(plan) > c[C_CAPACITY]:
        return NEED_RECORDS
    places = c[C_PREMISES] + 4 * load_i32(plan + L_FIRST)
    for position in range(premises):
        shadow = load_i32(predicate_at(c, load_i32(places + 4 * position)) + Q_SHADOW)
        if not has_room(m, shadow, premises):
            m[M.FULL] = shadow
            m[M.STAGED] = premises
            return FULL
    return DONE


@device
def begin_instance(c: Longs, plan_number: int, head: int) -> int:
    owner = c[C_USED]
    c[C_USED] = owner + HEADER
    node = node_at(c, head)
    set_cell(c, owner + I_PLAN, plan_number)
    set_cell(c, owner + I_HEAD, head)
    set_cell(c, owner + I_TOTAL, 0)
    set_cell(c, owner + I_MATCHES, 0)
    set_cell(c, owner + I_NEXT, load_i32(node + N_INSTANCES))
    set_cell(c, owner + I_ENABLED, 1)
    store_i32(node + N_INSTANCES, owner)
    return owner


@device
def add_match(m: Longs, c: Longs, plan: int, owner: int, depth: int) -> bool:
    """Add the match in the row to an instance; whether all of its premises are explicit."""
    premises = load_i32(plan + L_COUNT)
    places = c[C_PREMISES] + 4 * load_i32(plan + L_FIRST)
    row = c[C_ROW]
    all_explicit = True
    for position in range(premises):
        place = load_i32(places + 4 * position)
        number = discover(m, c, place, row, depth)
        node = node_at(c, number)
        use = c[C_USED]
        set_cell(c, use + U_NODE, number)
        set_cell(c, use + U_NEXT, load_i32(node + N_USES))
        set_cell(c, use + U_OWNER, owner)
        store_i32(node + N_USES, use)
        c[C_USED] = use + USE
        if load_i32(node + N_EXPLICIT) == 0:
            all_explicit = False
        row += 4 * field(relation_row(m, load_i32(predicate_at(c, place) + Q_SHADOW)), R.ARITY)
    extras = load_i32(plan + L_EXTRAS)
    for position in range(extras):
        set_cell(c, c[C_USED] + position, load_i32(row + 4 * position))
    c[C_USED] += extras
    set_cell(c, owner + I_TOTAL, cell(c, owner + I_TOTAL) + premises)
    set_cell(c, owner + I_MATCHES, cell(c, owner + I_MATCHES) + 1)
    return all_explicit


@inlined
def next_node(c: Longs) -> None:
    c[C_NEXT] += 1
    c[C_PLAN] = 0
    c[C_JOINING] = 0


@entry_point
def expand(m: Longs, c: Longs) -> int:
    """Look for the instances that derive the nodes, one after the other, until something must be done or looked at."""
    frame = m[M.FRAMES]
    while c[C_NEXT] < c[C_NODE_COUNT]:
        node = node_at(c, c[C_NEXT])
        depth = load_i32(node + N_DEPTH)
        if depth >= c[C_DEPTH]:
            return DONE
        if load_i32(node + N_EXPLICIT) and c[C_THOROUGH] == 0:
            next_node(c)
            continue
        predicate = predicate_at(c, load_i32(node + N_PREDICATE))
        first = load_i32(predicate + Q_FIRST)
        if first == UNPLANNED:
            return NEED_PLANS
        if first == CLOSED:
            return NEED_HEIGHT
        if c[C_PLAN] == load_i32(predicate + Q_COUNT):
            next_node(c)
            continue
        number = first + c[C_PLAN]
        plan = plan_at(c, number)
        if c[C_JOINING] == 0:
            if c[C_USED] >= c[C_STOP]:
                return DONE
            start(frame, load_i32(plan + L_PLAN), load_i32(node + N_FACT))
            c[C_JOINING] = 1
            c[C_OWNER] = -1
        missing = missing_room(m, c, plan)
        if missing != DONE:
            return missing
        status = next_match(m, frame)
        if status == DONE:
            c[C_JOINING] = 0
            c[C_PLAN] += 1
            continue
        if status != MATCH:
            return status
        write_head(m, frame, c[C_ROW])
        groups = load_i32(plan + L_GROUPS)
        if groups == 0 or c[C_OWNER] < 0:
            c[C_OWNER] = begin_instance(c, number, c[C_NEXT])
        explicit = add_match(m, c, plan, c[C_OWNER], depth + 1)
        if explicit and groups == 0 and c[C_THOROUGH] == 0:
            # No proof of a fact that is not explicit is lower than one step.
            next_node(c)
    return DONE


@device
def reach(c: Longs, node: int, height: int, choice: int, queued: int) -> int:
    """Give a node its height, unless it has a lower one. The nodes in the queue, after that."""
    at = node_at(c, node)
    if load_i32(at + N_HEIGHT) >= 0:
        return queued
    store_i32(at + N_HEIGHT, height)
    store_i32(at + N_CHOICE, choice)
    store_i32(c[C_QUEUE] + 4 * queued, node)
    return queued + 1


@device
def begin_measure(c: Longs) -> int:
    """Forget all heights but those of explicit facts and of instances without premises. The nodes in the queue."""
    queued = 0
    for number in range(c[C_NODE_COUNT]):
        node = node_at(c, number)
        store_i32(node + N_HEIGHT, -1)
        if load_i32(node + N_EXPLICIT) and load_i32(node + N_LEAF):
            queued = reach(c, number, 0, AS_EXPLICIT, queued)
    owner = 0
    while owner < c[C_USED]:
        total = cell(c, owner + I_TOTAL)
        set_cell(c, owner + I_OPEN, total)
        if cell(c, owner + I_ENABLED) and total == 0:
            queued = reach(c, cell(c, owner + I_HEAD), 1, owner, queued)
        owner += HEADER + cell(c, owner + I_MATCHES) * match_size(plan_at(c, cell(c, owner + I_PLAN)))
    return queued


@device
def use_up(c: Longs, number: int, queued: int) -> int:
    """Take a node's height to the instances that it is a premise of. The nodes in the queue, after that."""
    node = node_at(c, number)
    height = load_i32(node + N_HEIGHT)
    use = load_i32(node + N_USES)
    while use >= 0:
        owner = cell(c, use + U_OWNER)
        remaining = cell(c, owner + I_OPEN) - 1
        set_cell(c, owner + I_OPEN, remaining)
        if remaining == 0 and cell(c, owner + I_ENABLED):
            queued = reach(c, cell(c, owner + I_HEAD), height + 1, owner, queued)
        use = cell(c, use + U_NEXT)
    return queued


@entry_point
def measure(c: Longs, goals: int) -> int:
    """Find the heights of the first nodes. That of the lowest proof of node 0, or -1 where it has none so far."""
    queued = begin_measure(c)
    taken = given = reached = 0
    while reached < goals:
        if load_i32(node_at(c, reached) + N_HEIGHT) >= 0:
            reached += 1
            continue
        waiting = c[C_NODE_COUNT]
        if taken < queued:
            waiting = load_i32(c[C_QUEUE] + 4 * taken)
        if given < c[C_GIVEN_COUNT]:
            number = load_i32(c[C_GIVEN] + 4 * given)
            node = node_at(c, number)
            height = load_i32(node + N_GIVEN)
            if waiting == c[C_NODE_COUNT] or height <= load_i32(node_at(c, waiting) + N_HEIGHT):
                # It goes by the queue, in which it would stand behind higher ones.
                given += 1
                if load_i32(node + N_HEIGHT) < 0:
                    store_i32(node + N_HEIGHT, height)
                    store_i32(node + N_CHOICE, AS_GIVEN)
                    queued = use_up(c, number, queued)
                continue
        if waiting == c[C_NODE_COUNT]:
            break
        taken += 1
        queued = use_up(c, waiting, queued)
    return load_i32(node_at(c, 0) + N_HEIGHT)
