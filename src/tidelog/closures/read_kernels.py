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

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.base_graph import LOW_32, find_slot
from tidelog.closures.node_sets import key_at, row_has, word_at
from tidelog.machine.bits import first_bit
from tidelog.machine.jit import device, entry_point, inlined, load_i32, store_i32, store_u8

UNTURNED = -2  # all bits except the one that turns pairs round


@device
def closure_node(view: int, term: int) -> int:
    """The node of a term, or -1."""
    m = view & UNTURNED
    entry = A.get_long(m, C.SLOTS, find_slot(m, term))
    return entry & LOW_32 if entry >= 0 else -1


@inlined
def holds_diagonal(m: int, node: int) -> bool:
    return A.flag(m, C.DIAGONAL, node) == 1


@device
def closure_contains(view: int, x: int, y: int) -> bool:
    """Whether the pair of terms is in the closure."""
    if view & 1:
        x, y = y, x
    m, x, y = view & UNTURNED, closure_node(view, x), closure_node(view, y)
    if x < 0 or y < 0:
        return False
    if x == y:
        return holds_diagonal(m, x)
    component = A.get(m, C.COMPONENT, x)
    if component == A.get(m, C.COMPONENT, y):
        return True
    return A.read(m, C.DIRECTED) == 1 and row_has(m, C.FORWARD, component, y)


@device
def next_member(m: int, node: int, cursor: int) -> tuple[int, int]:
    start, end = A.span_of(m, C.MEMBERS, A.get(m, C.COMPONENT, node))
    while start + cursor < end:
        other = A.entry(m, C.MEMBERS, start + cursor)
        cursor += 1
        if other != node or holds_diagonal(m, node):
            return cursor, other
    return -1, -1


@device
def next_in_set(m: int, node: int, rows: int, cursor: int) -> tuple[int, int]:
    """The cursor counts bits from the beginning of the row, whether dense or sparse."""
    start, end = A.span_of(m, rows, A.get(m, C.COMPONENT, node))
    position = start + (cursor >> 6)
    while position < end:
        word = word_at(m, rows, position) >> (cursor & 63)
        if word == 0:
            position += 1
            cursor = (position - start) << 6
            continue
        cursor += first_bit(word)
        other = (key_at(m, rows, start, position) << 6) + (cursor & 63)
        cursor += 1
        if other != node or holds_diagonal(m, node):
            return cursor, other
        position = start + (cursor >> 6)
    return -1, -1


@device
def next_node(m: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    if node < 0:
        return -1, -1
    if A.read(m, C.DIRECTED) == 0:
        return next_member(m, node, cursor)
    return next_in_set(m, node, C.FORWARD if backward == 0 else C.BACKWARD, cursor)


@device
def closure_next(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next term that the node is paired with, and the cursor for the one after; a negative cursor ends the walk."""
    m = view & UNTURNED
    cursor, other = next_node(m, node, backward ^ (view & 1), cursor)
    if cursor < 0:
        return -1, -1
    return cursor, A.get(m, C.TERMS, other)


@device
def closure_next_pair(view: int, node: int, cursor: int) -> tuple[int, int, int, int]:
    """The next pair of terms, as (node, cursor, x, y), where node and cursor are for the one after."""
    m = view & UNTURNED
    while node < A.read(m, C.NODES):
        cursor, other = next_node(m, node, view & 1, cursor)
        if cursor >= 0:
            return node, cursor, A.get(m, C.TERMS, node), A.get(m, C.TERMS, other)
        node += 1
        cursor = 0
    return -1, 0, -1, -1


# --- the same for Python, many at a time ------------------------------------------------------------------------------


@entry_point
def read_contains(view: int, xs: int, ys: int, count: int, answers: int) -> None:
    for i in range(count):
        store_u8(answers + i, 1 if closure_contains(view, load_i32(xs + 4 * i), load_i32(ys + 4 * i)) else 0)


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
