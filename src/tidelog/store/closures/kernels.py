"""How a closure is read, by kernels and by Python alike: a table of addresses, and a few functions over it.

`view` is the address of a closure's table of `V_…` fields, as in the rest of the store, so that one compiled join can read any
closure, symmetric or directed. A walk through the neighbours of a node is suspended and resumed with two integers:

    node = closure_node(view, x)                                      # -1: x has no pair
    cursor, y = closure_next(view, node, backward, 0)                 # backward 0: pairs (x, y); 1: pairs (y, x)
    while cursor >= 0:
        ...
        cursor, y = closure_next(view, node, backward, cursor)

and a walk through all pairs with `closure_next_pair(view, node, cursor)`, which begins at (0, 0) and ends with a negative node.
"""

from __future__ import annotations

from tidelog.store.closures.bits import first_bit
from tidelog.store.closures.graph import LOW_32, home_slot
from tidelog.store.closures.state import Bytes, Ints
from tidelog.store.jit import device, entry_point, inlined, load_i32, load_i64, load_u8

V_DIRECTED = 0  # 0: two nodes are related when they are in one component; 1: when one is in the other's set
V_NODES = 1
V_SLOTS = 2  # address of the hash table of terms
V_MASK = 3  # its size less one
V_TERMS = 4
V_DIAGONAL = 5
V_COMPONENT = 6
V_MEMBERS = 7  # address of the table of the lists of members
V_MEMBERS_POOL = 8
V_SETS = 9  # from here on, for successors and then for predecessors:
SET_TABLE, SET_KEYS, SET_WORDS, SET_COUNTS, SET_WIDTH = 0, 1, 2, 3, 4
SET_FIELDS = 5
V_FIELDS = V_SETS + 2 * SET_FIELDS

TABLE_STRIDE = 12  # bytes of a row of a pool's table: start, size, capacity


@inlined
def field(view: int, number: int) -> int:
    return load_i64(view + 8 * number)


@device
def closure_node(view: int, term: int) -> int:
    """The node of a term, or -1."""
    slots, mask = field(view, V_SLOTS), field(view, V_MASK)
    slot = home_slot(term, mask)
    entry = load_i64(slots + 8 * slot)
    while entry >= 0:
        if entry >> 32 == term:
            return entry & LOW_32
        slot = (slot + 1) & mask
        entry = load_i64(slots + 8 * slot)
    return -1


@inlined
def closure_term(view: int, node: int) -> int:
    return load_i32(field(view, V_TERMS) + 4 * node)


@inlined
def component_of(view: int, node: int) -> int:
    return load_i32(field(view, V_COMPONENT) + 4 * node)


@inlined
def holds_diagonal(view: int, node: int) -> bool:
    return load_u8(field(view, V_DIAGONAL) + node) == 1


@device
def set_has(view: int, component: int, node: int) -> bool:
    """Does the component reach the node?"""
    row = field(view, V_SETS + SET_TABLE) + component * TABLE_STRIDE
    words = field(view, V_SETS + SET_WORDS) + 8 * load_i32(row)
    position = node >> 6
    if field(view, V_SETS + SET_WIDTH) == 0:
        keys = field(view, V_SETS + SET_KEYS) + 4 * load_i32(row)
        low, high = 0, load_i32(row + 4)
        while low < high:
            middle = (low + high) >> 1
            if load_i32(keys + 4 * middle) < position:
                low = middle + 1
            else:
                high = middle
        if low == load_i32(row + 4) or load_i32(keys + 4 * low) != position:
            return False
        position = low
    return (load_i64(words + 8 * position) >> (node & 63)) & 1 == 1


@device
def nodes_related(view: int, x: int, y: int) -> bool:
    if x < 0 or y < 0:
        return False
    if x == y:
        return holds_diagonal(view, x)
    a, b = component_of(view, x), component_of(view, y)
    if a == b:
        return True
    return field(view, V_DIRECTED) == 1 and set_has(view, a, y)


@device
def closure_contains(view: int, x: int, y: int) -> bool:
    """Is the pair of terms in the closure?"""
    return nodes_related(view, closure_node(view, x), closure_node(view, y))


@device
def next_member(view: int, node: int, cursor: int) -> tuple[int, int]:
    row = field(view, V_MEMBERS) + component_of(view, node) * TABLE_STRIDE
    pool = field(view, V_MEMBERS_POOL) + 4 * load_i32(row)
    size = load_i32(row + 4)
    while cursor < size:
        other = load_i32(pool + 4 * cursor)
        cursor += 1
        if other != node or holds_diagonal(view, node):
            return cursor, other
    return -1, -1


@device
def next_in_set(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The cursor counts bits from the beginning of the row, whether dense or sparse."""
    sets = view + 8 * (V_SETS + backward * SET_FIELDS)
    row = field(sets, SET_TABLE) + component_of(view, node) * TABLE_STRIDE
    start, size = load_i32(row), load_i32(row + 4)
    words = field(sets, SET_WORDS) + 8 * start
    position = cursor >> 6
    while position < size:
        word = load_i64(words + 8 * position) >> (cursor & 63)
        if word == 0:
            position += 1
            cursor = position << 6
            continue
        cursor += first_bit(word)
        key = position
        if field(sets, SET_WIDTH) == 0:
            key = load_i32(field(sets, SET_KEYS) + 4 * (start + position))
        other = (key << 6) + (cursor & 63)
        cursor += 1
        if other != node or holds_diagonal(view, node):
            return cursor, other
        position = cursor >> 6
    return -1, -1


@device
def next_node(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    if node < 0:
        return -1, -1
    if field(view, V_DIRECTED) == 0:
        return next_member(view, node, cursor)
    return next_in_set(view, node, backward, cursor)


@device
def closure_next(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next term that the node is paired with, and the cursor for the one after; a negative cursor ends the walk."""
    cursor, other = next_node(view, node, backward, cursor)
    if cursor < 0:
        return -1, -1
    return cursor, closure_term(view, other)


@device
def closure_next_pair(view: int, node: int, cursor: int) -> tuple[int, int, int, int]:
    """The next pair of terms, as (node, cursor, x, y); node and cursor are for the one after, a negative node ends the walk."""
    while node < field(view, V_NODES):
        cursor, other = next_node(view, node, 0, cursor)
        if cursor >= 0:
            return node, cursor, closure_term(view, node), closure_term(view, other)
        node += 1
        cursor = 0
    return -1, 0, -1, -1


@device
def closure_degree(view: int, node: int, backward: int) -> int:
    """How many terms a node is paired with, without walking through them."""
    if node < 0:
        return 0
    itself = 0 if holds_diagonal(view, node) else 1
    component = component_of(view, node)
    if field(view, V_DIRECTED) == 0:
        return load_i32(field(view, V_MEMBERS) + component * TABLE_STRIDE + 4) - itself
    return load_i64(field(view, V_SETS + backward * SET_FIELDS + SET_COUNTS) + 8 * component) - itself


# --- the same for Python, many at a time ------------------------------------------------------------------


@entry_point
def read_contains(view: int, xs: Ints, ys: Ints, answers: Bytes) -> None:
    for i in range(len(xs)):
        answers[i] = closure_contains(view, int(xs[i]), int(ys[i]))


@entry_point
def read_degree(view: int, term: int, backward: int) -> int:
    return closure_degree(view, closure_node(view, term), backward)


@entry_point
def read_neighbours(view: int, term: int, backward: int, found: Ints) -> None:
    """All terms that a term is paired with; the array has just the room for them."""
    node = closure_node(view, term)
    cursor, other = closure_next(view, node, backward, 0)
    count = 0
    while cursor >= 0:
        found[count] = other
        count += 1
        cursor, other = closure_next(view, node, backward, cursor)


@entry_point
def read_pairs(view: int, node: int, cursor: int, source: Ints, target: Ints) -> tuple[int, int, int]:
    """As many pairs as fit, from a node and a cursor on; returns those to go on with, and the number of pairs."""
    count = 0
    while count < len(source):
        node, cursor, x, y = closure_next_pair(view, node, cursor)
        if node < 0:
            break
        source[count], target[count] = x, y
        count += 1
    return node, cursor, count
