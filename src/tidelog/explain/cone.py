"""The kernels behind proofs: what lies behind a fact, and how high its lowest proof is.

`expand` discovers the cone of a fact (`cone_registers`) backwards, breadth first: each fact is the pivot of the plans
from the head of every rule that could derive it. `measure` then goes forwards from the explicit facts, in the order of
height: an instance is complete when the last, and so the highest, of its premises is reached, and the first complete
instance of a fact is the top of a lowest proof of it. That order is well-founded, so no proof is circular.

Nodes are found by their rows in relations that shadow those of the predicates; the flags of a record there hold the
number of its node. All matches of an aggregate's group are one instance: the value follows from all of them together.
Pairs of large closures are not expanded: their heights come from `closure_proofs`, and are given to `measure`.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import has_room
from tidelog.explain import cone_registers as E
from tidelog.joins.executor import next_match, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import append, field, find, find_slot, flags_of, home_slot, relation_row, row_key
from tidelog.machine.jit import Registers, device, entry_point, inlined, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, FULL, MATCH


@inlined
def get(row: int, column: int) -> int:
    """A cell of a row whose address is known."""
    return load_i32(row + 4 * column)


@inlined
def put(row: int, column: int, value: int) -> None:
    store_i32(row + 4 * column, value)


@inlined
def node_at(c: Registers, node: int) -> int:
    return c[E.NODES] + 4 * E.NODE_CELLS * node


@inlined
def predicate_at(c: Registers, place: int) -> int:
    return c[E.PREDICATES] + 4 * E.PREDICATE_CELLS * place


@inlined
def plan_at(c: Registers, number: int) -> int:
    return c[E.PLANS] + 4 * E.PLAN_CELLS * number


@inlined
def instance_at(c: Registers, offset: int) -> int:
    """Address of an instance, or of a use."""
    return c[E.INSTANCES] + 4 * offset


@inlined
def match_size(plan: int) -> int:
    """The cells of one match."""
    return E.USE_CELLS * get(plan, E.PLAN_COUNT) + get(plan, E.PLAN_EXTRAS)


@device
def discover(m: Registers, c: Registers, place: int, row_address: int, depth: int) -> int:
    """The node of a fact, which is new if the fact has not been seen. The caller has made room."""
    predicate = predicate_at(c, place)
    shadow = relation_row(m, get(predicate, E.PREDICATE_SHADOW))
    key = row_key(row_address, field(shadow, R.ARITY))
    slot = find_slot(shadow, row_address, key, home_slot(key, field(shadow, R.GROUPS)))
    if load_i64(field(shadow, R.KEYS) + 8 * slot) != R.EMPTY:
        return flags_of(m, get(predicate, E.PREDICATE_SHADOW), get(field(shadow, R.FACTS), slot))
    number = c[E.NODE_COUNT]
    c[E.NODE_COUNT] = number + 1
    node = node_at(c, number)
    relation = get(predicate, E.PREDICATE_RELATION)
    known = find(m, relation, row_address)
    explicit = get(predicate, E.PREDICATE_EVIDENT)
    if known >= 0 and flags_of(m, relation, known) & F.EXPLICIT:
        explicit = 1
    put(node, E.NODE_PREDICATE, place)
    put(node, E.NODE_FACT, field(shadow, R.COUNT))
    put(node, E.NODE_DEPTH, depth)
    put(node, E.NODE_EXPLICIT, explicit)
    put(node, E.NODE_USES, -1)
    put(node, E.NODE_INSTANCES, -1)
    put(node, E.NODE_LEAF, 1)
    put(node, E.NODE_GIVEN, -1)
    append(m, shadow, slot, key, row_address, number)
    return number


@entry_point
def discover_goals(m: Registers, c: Registers, place: int, row_address: int, count: int) -> None:
    """Make different facts of a predicate the first nodes; there is room for them."""
    size = 4 * field(relation_row(m, get(predicate_at(c, place), E.PREDICATE_SHADOW)), R.ARITY)
    for number in range(count):
        discover(m, c, place, row_address + size * number, 0)


@device
def missing_room(m: Registers, c: Registers, plan: int) -> int:
    """What must grow before a match of the plan can be taken, or DONE."""
    premises = get(plan, E.PLAN_COUNT)
    if c[E.NODE_COUNT] + premises > c[E.NODE_CAPACITY]:
        return E.NEED_NODES
    if c[E.USED] + E.INSTANCE_CELLS + match_size(plan) > c[E.CAPACITY]:
        return E.NEED_INSTANCES
    places = c[E.PREMISES] + 4 * get(plan, E.PLAN_FIRST)
    for position in range(premises):
        shadow = get(predicate_at(c, get(places, position)), E.PREDICATE_SHADOW)
        if not has_room(m, relation_row(m, shadow), premises):
            m[M.FULL] = shadow
            m[M.STAGED] = premises
            return FULL
    return DONE


@device
def begin_instance(c: Registers, plan_number: int, head: int) -> int:
    offset = c[E.USED]
    c[E.USED] = offset + E.INSTANCE_CELLS
    node, instance = node_at(c, head), instance_at(c, offset)
    put(instance, E.INSTANCE_PLAN, plan_number)
    put(instance, E.INSTANCE_HEAD, head)
    put(instance, E.INSTANCE_TOTAL, 0)
    put(instance, E.INSTANCE_MATCHES, 0)
    put(instance, E.INSTANCE_NEXT, get(node, E.NODE_INSTANCES))
    put(instance, E.INSTANCE_ENABLED, 1)
    put(node, E.NODE_INSTANCES, offset)
    return offset


@device
def add_match(m: Registers, c: Registers, plan: int, offset: int, depth: int) -> bool:
    """Add the match in the row to an instance. Returns whether all of its premises are explicit."""
    premises = get(plan, E.PLAN_COUNT)
    places = c[E.PREMISES] + 4 * get(plan, E.PLAN_FIRST)
    row = c[E.ROW]
    all_explicit = True
    for position in range(premises):
        place = get(places, position)
        number = discover(m, c, place, row, depth)
        node = node_at(c, number)
        use = instance_at(c, c[E.USED])
        put(use, E.USE_NODE, number)
        put(use, E.USE_NEXT, get(node, E.NODE_USES))
        put(use, E.USE_INSTANCE, offset)
        put(node, E.NODE_USES, c[E.USED])
        c[E.USED] += E.USE_CELLS
        if get(node, E.NODE_EXPLICIT) == 0:
            all_explicit = False
        row += 4 * field(relation_row(m, get(predicate_at(c, place), E.PREDICATE_SHADOW)), R.ARITY)
    extras = get(plan, E.PLAN_EXTRAS)
    for position in range(extras):
        put(instance_at(c, c[E.USED]), position, get(row, position))
    c[E.USED] += extras
    instance = instance_at(c, offset)
    put(instance, E.INSTANCE_TOTAL, get(instance, E.INSTANCE_TOTAL) + premises)
    put(instance, E.INSTANCE_MATCHES, get(instance, E.INSTANCE_MATCHES) + 1)
    return all_explicit


@inlined
def next_node(c: Registers) -> None:
    c[E.AT_NODE] += 1
    c[E.AT_PLAN] = 0
    c[E.AT_JOINING] = 0


@entry_point
def expand(m: Registers, c: Registers) -> int:
    """Find the instances that derive the nodes, one node after the other, until Python has something to do."""
    frame = m[M.FRAMES]
    while c[E.AT_NODE] < c[E.NODE_COUNT]:
        node = node_at(c, c[E.AT_NODE])
        depth = get(node, E.NODE_DEPTH)
        if depth >= c[E.DEPTH]:
            return DONE
        if get(node, E.NODE_EXPLICIT) and c[E.THOROUGH] == 0:
            next_node(c)
            continue
        predicate = predicate_at(c, get(node, E.NODE_PREDICATE))
        first = get(predicate, E.PREDICATE_FIRST)
        if first == E.UNPLANNED:
            return E.NEED_PLANS
        if first == E.CLOSED:
            return E.NEED_HEIGHT
        if c[E.AT_PLAN] == get(predicate, E.PREDICATE_COUNT):
            next_node(c)
            continue
        number = first + c[E.AT_PLAN]
        plan = plan_at(c, number)
        if c[E.AT_JOINING] == 0:
            if c[E.USED] >= c[E.STOP]:
                return DONE
            start(frame, get(plan, E.PLAN_CODE), get(node, E.NODE_FACT))
            c[E.AT_JOINING] = 1
            c[E.AT_GROUP] = -1
        missing = missing_room(m, c, plan)
        if missing != DONE:
            return missing
        status = next_match(m, frame)
        if status == DONE:
            c[E.AT_JOINING] = 0
            c[E.AT_PLAN] += 1
            continue
        if status != MATCH:
            return status
        write_head(m, frame, c[E.ROW])
        groups = get(plan, E.PLAN_GROUPS)
        if groups == 0 or c[E.AT_GROUP] < 0:
            c[E.AT_GROUP] = begin_instance(c, number, c[E.AT_NODE])
        explicit = add_match(m, c, plan, c[E.AT_GROUP], depth + 1)
        if explicit and groups == 0 and c[E.THOROUGH] == 0:
            # A fact that is not explicit has no lower proof than one step.
            next_node(c)
    return DONE


@device
def settle(c: Registers, node: int, height: int, choice: int) -> bool:
    """Give a node its height, unless it has a lower one."""
    at = node_at(c, node)
    if get(at, E.NODE_HEIGHT) >= 0:
        return False
    put(at, E.NODE_HEIGHT, height)
    put(at, E.NODE_CHOICE, choice)
    return True


@device
def reach(c: Registers, node: int, height: int, choice: int, queued: int) -> int:
    """Give a node its height, unless it has a lower one. Returns how many nodes are in the queue then."""
    if not settle(c, node, height, choice):
        return queued
    put(c[E.QUEUE], queued, node)
    return queued + 1


@device
def begin_measure(c: Registers) -> int:
    """Forget all heights except those of explicit facts and of instances without premises. Returns the queue length."""
    queued = 0
    for number in range(c[E.NODE_COUNT]):
        node = node_at(c, number)
        put(node, E.NODE_HEIGHT, -1)
        if get(node, E.NODE_EXPLICIT) and get(node, E.NODE_LEAF):
            queued = reach(c, number, 0, E.AS_EXPLICIT, queued)
    offset = 0
    while offset < c[E.USED]:
        instance = instance_at(c, offset)
        total = get(instance, E.INSTANCE_TOTAL)
        put(instance, E.INSTANCE_OPEN, total)
        if get(instance, E.INSTANCE_ENABLED) and total == 0:
            queued = reach(c, get(instance, E.INSTANCE_HEAD), 1, offset, queued)
        plan = plan_at(c, get(instance, E.INSTANCE_PLAN))
        offset += E.INSTANCE_CELLS + get(instance, E.INSTANCE_MATCHES) * match_size(plan)
    return queued


@device
def use_up(c: Registers, number: int, queued: int) -> int:
    """Tell the instances that use a node its height, and those that use the heads that are no higher: these bypass the
    queue. Returns how many nodes are in the queue then.
    """
    height = get(node_at(c, number), E.NODE_HEIGHT)
    put(node_at(c, number), E.NODE_WAITING, -1)
    while number >= 0:
        node = node_at(c, number)
        number = get(node, E.NODE_WAITING)
        use = get(node, E.NODE_USES)
        while use >= 0:
            offset = get(instance_at(c, use), E.USE_INSTANCE)
            instance = instance_at(c, offset)
            remaining = get(instance, E.INSTANCE_OPEN) - 1
            put(instance, E.INSTANCE_OPEN, remaining)
            if remaining == 0 and get(instance, E.INSTANCE_ENABLED):
                head = get(instance, E.INSTANCE_HEAD)
                if get(plan_at(c, get(instance, E.INSTANCE_PLAN)), E.PLAN_STEP):
                    queued = reach(c, head, height + 1, offset, queued)
                elif settle(c, head, height, offset):
                    put(node_at(c, head), E.NODE_WAITING, number)
                    number = head
            use = get(instance_at(c, use), E.USE_NEXT)
    return queued


@entry_point
def measure(c: Registers, goals: int) -> int:
    """Find the heights of the first nodes. Returns that of node 0, or -1 if it has no proof yet."""
    queued = begin_measure(c)
    taken = given = reached = 0
    while reached < goals:
        if get(node_at(c, reached), E.NODE_HEIGHT) >= 0:
            reached += 1
            continue
        waiting = c[E.NODE_COUNT]
        if taken < queued:
            waiting = get(c[E.QUEUE], taken)
        if given < c[E.GIVEN_COUNT]:
            number = get(c[E.GIVEN], given)
            node = node_at(c, number)
            height = get(node, E.NODE_GIVEN)
            if waiting == c[E.NODE_COUNT] or height <= get(node_at(c, waiting), E.NODE_HEIGHT):
                # It bypasses the queue, where it would stand behind higher ones.
                given += 1
                if settle(c, number, height, E.AS_GIVEN):
                    queued = use_up(c, number, queued)
                continue
        if waiting == c[E.NODE_COUNT]:
            break
        taken += 1
        queued = use_up(c, waiting, queued)
    return get(node_at(c, 0), E.NODE_HEIGHT)
