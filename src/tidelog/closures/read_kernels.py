"""How a closure is read, by compiled joins and by Python alike.

A *view* is the address of a closure's registers (`closure_registers`), so that one compiled join can read any closure,
symmetric or directed. An odd view, one more than the address, shows each pair the other way round. A walk through the
neighbours of a node is suspended and resumed with two integers:

    node = closure_node(view, x)                              # -1: x has no pair
    cursor, y = closure_next(view, node, backward, 0)         # backward 0: pairs (x, y); 1: pairs (y, x)
    while cursor >= 0:
        ...
        cursor, y = closure_next(view, node, backward, cursor)

and one through all pairs with `closure_next_pair(view, node, cursor)`, which begins at (0, 0) and ends with a negative
node. A view stays the same for the life of its closure; what is read through it must not be kept across a change.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.base_graph import LOW_32, home_slot
from tidelog.machine.bits import first_bit
from tidelog.machine.jit import device, entry_point, inlined, load_i32, load_i64, load_u8, store_i32, store_u8

UNTURNED = -2  # all bits except the one that turns pairs round


@inlined
def field(registers: int, number: int) -> int:
    return load_i64(registers + 8 * number)


@inlined
def line_of(registers: int, pool: int, owner: int) -> int:
    """Address of the line that says where a list or row lies."""
    return field(registers, pool + C.POOL_TABLE) + C.LINE_BYTES * owner


@device
def closure_node(view: int, term: int) -> int:
    """The node of a term, or -1."""
    registers = view & UNTURNED
    slots, mask = field(registers, C.SLOTS), field(registers, C.MASK)
    slot = home_slot(term, mask)
    entry = load_i64(slots + 8 * slot)
    while entry >= 0:
        if entry >> 32 == term:
            return entry & LOW_32
        slot = (slot + 1) & mask
        entry = load_i64(slots + 8 * slot)
    return -1


@inlined
def closure_term(registers: int, node: int) -> int:
    return load_i32(field(registers, C.TERMS) + 4 * node)


@inlined
def component_of(registers: int, node: int) -> int:
    return load_i32(field(registers, C.COMPONENT) + 4 * node)


@inlined
def holds_diagonal(registers: int, node: int) -> bool:
    return load_u8(field(registers, C.DIAGONAL) + node) == 1


@device
def set_has(registers: int, component: int, node: int) -> bool:
    """Whether the component reaches the node."""
    line = line_of(registers, C.FORWARD, component)
    start, position = load_i32(line), node >> 6
    if field(registers, C.FORWARD + C.ROW_WIDTH) == 0:
        keys, size = field(registers, C.FORWARD + C.ROW_KEYS) + 4 * start, load_i32(line + C.LINE_SIZE)
        low, high = 0, size
        while low < high:
            middle = (low + high) >> 1
            if load_i32(keys + 4 * middle) < position:
                low = middle + 1
            else:
                high = middle
        if low == size or load_i32(keys + 4 * low) != position:
            return False
        position = low
    return (load_i64(field(registers, C.FORWARD + C.ROW_WORDS) + 8 * (start + position)) >> (node & 63)) & 1 == 1


@device
def nodes_related(registers: int, x: int, y: int) -> bool:
    if x < 0 or y < 0:
        return False
    if x == y:
        return holds_diagonal(registers, x)
    a, b = component_of(registers, x), component_of(registers, y)
    if a == b:
        return True
    return field(registers, C.DIRECTED) == 1 and set_has(registers, a, y)


@device
def closure_contains(view: int, x: int, y: int) -> bool:
    """Whether the pair of terms is in the closure."""
    if view & 1:
        x, y = y, x
    return nodes_related(view & UNTURNED, closure_node(view, x), closure_node(view, y))


@device
def next_member(registers: int, node: int, cursor: int) -> tuple[int, int]:
    line = line_of(registers, C.MEMBERS, component_of(registers, node))
    members, size = field(registers, C.MEMBERS + C.LIST_ENTRIES) + 4 * load_i32(line), load_i32(line + C.LINE_SIZE)
    while cursor < size:
        other = load_i32(members + 4 * cursor)
        cursor += 1
        if other != node or holds_diagonal(registers, node):
            return cursor, other
    return -1, -1


@device
def next_in_set(registers: int, node: int, rows: int, cursor: int) -> tuple[int, int]:
    """The cursor counts bits from the beginning of the row, whether dense or sparse."""
    line = line_of(registers, rows, component_of(registers, node))
    start, size = load_i32(line), load_i32(line + C.LINE_SIZE)
    words = field(registers, rows + C.ROW_WORDS) + 8 * start
    position = cursor >> 6
    while position < size:
        word = load_i64(words + 8 * position) >> (cursor & 63)
        if word == 0:
            position += 1
            cursor = position << 6
            continue
        cursor += first_bit(word)
        key = position
        if field(registers, rows + C.ROW_WIDTH) == 0:
            key = load_i32(field(registers, rows + C.ROW_KEYS) + 4 * (start + position))
        other = (key << 6) + (cursor & 63)
        cursor += 1
        if other != node or holds_diagonal(registers, node):
            return cursor, other
        position = cursor >> 6
    return -1, -1


@device
def next_node(registers: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    if node < 0:
        return -1, -1
    if field(registers, C.DIRECTED) == 0:
        return next_member(registers, node, cursor)
    return next_in_set(registers, node, C.FORWARD if backward == 0 else C.BACKWARD, cursor)


@device
def closure_next(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next term that the node is paired with, and the cursor for the one after; a negative cursor ends the walk."""
    registers = view & UNTURNED
    cursor, other = next_node(registers, node, backward ^ (view & 1), cursor)
    if cursor < 0:
        return -1, -1
    return cursor, closure_term(registers, other)


@device
def closure_next_pair(view: int, node: int, cursor: int) -> tuple[int, int, int, int]:
    """The next pair of terms, as (node, cursor, x, y), where node and cursor are for the one after."""
    registers = view & UNTURNED
    while node < field(registers, C.NODES):
        cursor, other = next_node(registers, node, view & 1, cursor)
        if cursor >= 0:
            return node, cursor, closure_term(registers, node), closure_term(registers, other)
        node += 1
        cursor = 0
    return -1, 0, -1, -1


@device
def closure_degree(view: int, node: int, backward: int) -> int:
    """How many terms a node is paired with, without a walk."""
    if node < 0:
        return 0
    registers = view & UNTURNED
    itself = 0 if holds_diagonal(registers, node) else 1
    component = component_of(registers, node)
    if field(registers, C.DIRECTED) == 0:
        return load_i32(line_of(registers, C.MEMBERS, component) + C.LINE_SIZE) - itself
    rows = C.FORWARD if backward == view & 1 else C.BACKWARD
    return load_i64(field(registers, rows + C.ROW_COUNTS) + 8 * component) - itself


# --- the same for Python, many at a time ------------------------------------------------------------------------------


@entry_point
def read_contains(view: int, xs: int, ys: int, count: int, answers: int) -> None:
    for i in range(count):
        store_u8(answers + i, 1 if closure_contains(view, load_i32(xs + 4 * i), load_i32(ys + 4 * i)) else 0)


@entry_point
def read_degree(view: int, term: int, backward: int) -> int:
    return closure_degree(view, closure_node(view, term), backward)


@entry_point
def read_neighbours(view: int, term: int, backward: int, found: int) -> None:
    """All terms that a term is paired with; there is just enough room for them."""
    node = closure_node(view, term)
    cursor, other = closure_next(view, node, backward, 0)
    count = 0
    while cursor >= 0:
        store_i32(found + 4 * count, other)
        count += 1
        cursor, other = closure_next(view, node, backward, cursor)


@entry_point
def read_pairs(view: int, node: int, cursor: int, source: int, target: int, room: int) -> tuple[int, int, int]:
    """As many pairs as fit, from a node and a cursor on; returns where to go on, and the number of pairs."""
    count = 0
    while count < room:
        node, cursor, x, y = closure_next_pair(view, node, cursor)
        if node < 0:
            break
        store_i32(source + 4 * count, x)
        store_i32(target + 4 * count, y)
        count += 1
    return node, cursor, count
